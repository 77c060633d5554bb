#include "rollout/bundle_statistics.h"

#include <algorithm>
#include <cmath>

namespace costate {
namespace {

// trace of the covariance of the mean of two samples' entries where mask is 1
double Covariance(const MatrixXd& a, const MatrixXd& b, ConstVectorRef mask) {
  const double n = static_cast<double>(a.cols());
  return (a.cwiseProduct(b).rowwise().sum()).dot(mask) / (n * (n - 1));
}

}  // namespace

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
