#include "rollout/bundle_statistics.h"

#include <algorithm>
#include <cmath>

#include "derivative/munthe_kaas.h"

namespace costate {
namespace {

// trace of the covariance of the mean of two samples' entries where mask is 1
double Covariance(const MatrixXd& a, const MatrixXd& b, ConstVectorRef mask) {
  const double n = static_cast<double>(a.cols());
  return (a.cwiseProduct(b).rowwise().sum()).dot(mask) / (n * (n - 1));
}

constexpr double kSmallTurn = 1e-2;  // [rad] below it by series

}  // namespace

VectorXd StateScore(const mjModel* m, const BundleOptions& o, const VectorXd& w) {
  VectorXd score = VectorXd::Zero(w.size());
  for (int i = 0; i < o.state.size(); i++) score[i] = o.state[i] > 0 ? w[i] / (o.state[i] * o.state[i]) : 0;
  if (o.state.size() == 0) return score;
  ForRotations(m, [&](int at) {
    if (o.state[at] == 0) return;
    const double t = w.segment<3>(at).norm();
    const double volume = t < kSmallTurn ? -1.0 / 6 - t * t / 360 : (std::sin(t) / (1 - std::cos(t)) - 2 / t) / t;
    score.segment<3>(at) += volume * w.segment<3>(at);
  });
  return score;
}

MatrixXd ControlScore(const BundleOptions& o, const MatrixXd& w) {
  MatrixXd score = MatrixXd::Zero(w.rows(), w.cols());
  for (int i = 0; i < o.control.size(); i++) {
    if (o.control[i] > 0) score.row(i) = w.row(i) / (o.control[i] * o.control[i]);
  }
  return score;
}

BundleStatistics Combine(ConstMatrixRef first, ConstMatrixRef zeroth, ConstVectorRef noisy) {
  BundleStatistics out;
  out.first = first.rowwise().mean();
  out.zeroth = zeroth.rowwise().mean();
  const MatrixXd f = first.colwise() - out.first, z = zeroth.colwise() - out.zeroth;
  const VectorXd all = VectorXd::Ones(first.rows()), quiet = all - noisy;

  // (11), (12): scatter and bias where both orders are
  const double ff = Covariance(f, f, noisy), zz = Covariance(z, z, noisy), fz = Covariance(f, z, noisy);
  const double between = ff + zz - 2 * fz, distance = (out.first - out.zeroth).cwiseAbs2().dot(noisy);
  const double bias2 = distance > 4 * between ? distance - between : 0;
  out.bias = std::sqrt(bias2);
  out.weight = bias2 + between > 0 ? std::clamp((zz - fz) / (bias2 + between), 0.0, 1.0) : 1;
  const double w = out.weight;
  out.combined = (w * out.first + (1 - w) * out.zeroth).cwiseProduct(noisy) + out.first.cwiseProduct(quiet);

  const double rest = Covariance(f, f, quiet);
  out.first_noisy = std::sqrt(ff);
  out.combined_noisy = std::sqrt(std::max(0.0, w * w * ff + (1 - w) * (1 - w) * zz + 2 * w * (1 - w) * fz));
  out.first_deviation = std::hypot(out.first_noisy, std::sqrt(rest));
  out.zeroth_deviation = std::sqrt(zz);
  out.combined_deviation = std::hypot(out.combined_noisy, std::sqrt(rest));
  return out;
}

}  // namespace costate
