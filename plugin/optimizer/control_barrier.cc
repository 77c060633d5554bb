#include "optimizer/control_barrier.h"

#include <algorithm>
#include <cmath>

#include "core/extremes.h"

namespace costate {
namespace {

// of the distance to a bound that one step may take, of the range that a start keeps away, and how far multipliers may
// leave the central path (Wächter & Biegler 2006, eq. (8), sec. 3.6 and eq. (16))
constexpr double kBoundary = 0.99, kInside = 0.05, kNeighbourhood = 1e10;
constexpr double kInsideHalf = 0.01;  // of max(1, |bound|) where only one side is bounded
constexpr double kShrink = 0.2, kShrinkPower = 1.5;

}  // namespace

ControlBarrier::ControlBarrier(ConstVectorRef lower, ConstVectorRef upper, int N)
    : lower_(lower), upper_(upper), N_(N) {
  for (Eigen::Index i = 0; i < lower.size(); ++i) {
    if (lower[i] == upper[i]) {  // nothing to choose
      lower_[i] = -kInf;
      upper_[i] = kInf;
    }
    bounds_ += N * (std::isfinite(lower_[i]) + std::isfinite(upper_[i]));
  }
  z_lower_.setZero(lower.size(), N);
  z_upper_ = dz_lower_ = dz_upper_ = z_lower_;
}

// use(sign, distance, z, dz, i, t) at each finite bound: distance = sign (u - bound) > 0
template <typename Use>
void ControlBarrier::ForEach(ConstMatrixRef U, Use use) const {
  for (int t = 0; t < N_; ++t) {
    for (int i = 0; i < lower_.size(); ++i) {
      if (std::isfinite(lower_[i])) use(1.0, U(i, t) - lower_[i], z_lower_(i, t), dz_lower_(i, t), i, t);
      if (std::isfinite(upper_[i])) use(-1.0, upper_[i] - U(i, t), z_upper_(i, t), dz_upper_(i, t), i, t);
    }
  }
}

MatrixXd ControlBarrier::Inside(ConstMatrixRef U) const {
  MatrixXd result = U;
  for (int i = 0; i < lower_.size(); ++i) {
    const bool below = std::isfinite(lower_[i]), above = std::isfinite(upper_[i]);
    const double range = upper_[i] - lower_[i];
    const double low =
        below ? lower_[i] + (above ? kInside * range : kInsideHalf * std::max(1.0, std::abs(lower_[i]))) : lower_[i];
    const double high =
        above ? upper_[i] - (below ? kInside * range : kInsideHalf * std::max(1.0, std::abs(upper_[i]))) : upper_[i];
    result.row(i) = result.row(i).cwiseMax(low).cwiseMin(high);
  }
  return result;
}

double ControlBarrier::Distance(ConstMatrixRef U) const {
  double least = kInf;
  ForEach(U, [&](double, double distance, double, double, int, int) { least = std::min(least, distance); });
  return least;
}

void ControlBarrier::Start(ConstMatrixRef U, double mu, double unit) {
  mu_ = mu;
  unit_ = unit;
  ForEach(U, [&](double sign, double distance, double, double, int i, int t) {
    (sign > 0 ? z_lower_ : z_upper_)(i, t) = mu / distance;
  });
}

double ControlBarrier::Value(ConstMatrixRef U) const {
  double sum = 0;
  ForEach(U, [&](double, double distance, double, double, int, int) { sum -= mu_ * std::log(distance); });
  return sum;
}

double ControlBarrier::Slope(ConstMatrixRef U, int i, int t) const {
  double slope = 0;
  if (std::isfinite(lower_[i])) slope -= mu_ / (U(i, t) - lower_[i]);
  if (std::isfinite(upper_[i])) slope += mu_ / (upper_[i] - U(i, t));
  return slope;
}

double ControlBarrier::Curvature(ConstMatrixRef U, int i, int t) const {
  double curvature = 0;
  if (std::isfinite(lower_[i])) curvature += z_lower_(i, t) / (U(i, t) - lower_[i]);
  if (std::isfinite(upper_[i])) curvature += z_upper_(i, t) / (upper_[i] - U(i, t));
  return curvature;
}

void ControlBarrier::StepLimits(ConstMatrixRef U, MatrixXd* lower, MatrixXd* upper) const {
  lower->noalias() = lower_.replicate(1, N_);
  upper->noalias() = upper_.replicate(1, N_);
  const double share = std::max(kBoundary, 1 - mu_ / unit_);
  ForEach(U, [&](double sign, double distance, double, double, int i, int t) {
    (sign > 0 ? *lower : *upper)(i, t) = U(i, t) - sign * share * distance;
  });
}

void ControlBarrier::Move(ConstMatrixRef U, ConstMatrixRef dU, ConstMatrixRef reached) {
  // z + dz = mu / distance - z (sign du) / distance
  const double share = std::max(kBoundary, 1 - mu_ / unit_);
  double step = 1;
  ForEach(U, [&](double sign, double distance, double z, double, int i, int t) {
    const double dz = mu_ / distance - z - z / distance * sign * dU(i, t);
    (sign > 0 ? dz_lower_ : dz_upper_)(i, t) = dz;
    if (dz < 0) step = std::min(step, -share * z / dz);
  });
  ForEach(reached, [&](double sign, double distance, double z, double dz, int i, int t) {
    const double centre = mu_ / distance;
    (sign > 0 ? z_lower_ : z_upper_)(i, t) =
        std::clamp(z + step * dz, centre / kNeighbourhood, centre * kNeighbourhood);
  });
}

double ControlBarrier::Error(ConstMatrixRef U, ConstMatrixRef slope) const {
  double error = (slope - z_lower_ + z_upper_).cwiseAbs().maxCoeff();
  ForEach(U, [&](double, double distance, double z, double, int, int) {
    error = std::max(error, std::abs(z * distance - mu_));
  });
  return error;
}

void ControlBarrier::Shrink(double least) {
  mu_ = std::max(least, std::min(kShrink * mu_, unit_ * std::pow(mu_ / unit_, kShrinkPower)));
}

}  // namespace costate
