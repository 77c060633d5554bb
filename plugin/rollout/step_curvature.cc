#include "rollout/step_curvature.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <costate/state.h>

namespace costate {
namespace {

// of the largest entry of (dx, du), measured: impedance bends within 1e-4 m, products are exact to 1e-12, differenced
// ones to 1e-9
constexpr double kNudge = 3e-7, kDifferencedNudge = 3e-5;
// how much the quotients of both sides may differ: truncation is of the square of that, beyond it one is extrapolated
constexpr double kSpread = 1e-3;
// differenced nudges, each a quarter of the one before: rows and sensors bend within the first
constexpr int kSizes = 4;
constexpr double kAgrees = 1e-7;                           // change from one to the next that is as good as none …
constexpr double kNear = 0.03;                             // … and that can be extrapolated
constexpr double kFalls = 1.0 / 12;                        // of the change before: a fall by more leaves no noise
constexpr double kNoise = 1e-9, kDifferencedNoise = 1e-5;  // of a product, relative: what no switch is read into

double Largest(ConstVectorRef v) { return v.size() > 0 ? v.lpNorm<Eigen::Infinity>() : 0; }

// Centred quotients at one nudge, where both sides see a switch to the side without it; `theta` may be null.
// `spread` receives by how much both sides differ, 0 where that is noise.
bool Quotient(const StepBend& b, KnotProducts* products, double h, double noise, VectorRef out, VectorRef* theta,
              bool* one_sided, double* spread) {
  VectorXd side[2], side_theta[2];
  KnotCovector pulled;
  for (int k = 0; k < 2; k++) {
    const double step = k ? -h : h;
    const VectorXd at = Retract(b.model, b.at.x, step * b.dx);
    const VectorXd control = b.at.last ? VectorXd() : VectorXd(b.at.u + step * b.du);
    if (!products->Pull({.x = at, .u = control, .moving = b.at.moving, .last = b.at.last}, b.lambda, b.sigma,
                        &pulled)) {
      return false;
    }
    side[k].resize(out.size());
    side[k] << pulled.x, pulled.u;
    side[k] = (side[k] - b.pulled) / step;
    if (theta) side_theta[k] = (pulled.theta - b.theta) / step;
  }

  // both sides differ by O(h) where the step is smooth, by 1/h where a switch is crossed
  const double plus = side[0].norm(), minus = side[1].norm(), more = std::max(plus, minus);
  *spread = h * more > noise * b.pulled.norm() ? (side[0] - side[1]).norm() / more : 0;
  *one_sided = *spread > 0.5;
  const double first = !*one_sided ? 0.5 : plus < minus ? 1 : 0;
  out = first * side[0] + (1 - first) * side[1];
  if (theta) *theta = first * side_theta[0] + (1 - first) * side_theta[1];
  return true;
}

// of the quotients at one nudge from those before, the larger of both parts: x and u, parameters
double Change(const MatrixXd& D, int k, Eigen::Index split) {
  const auto part = [&](Eigen::Index begin, Eigen::Index count) {
    const double norm = D.col(k).segment(begin, count).norm();
    return norm > 0 ? (D.col(k) - D.col(k - 1)).segment(begin, count).norm() / norm : 0;
  };
  return std::max(part(0, split), part(split, D.rows() - split));
}

// `theta` may be null. Products that are differenced need a nudge over which contacts bend: a quarter of it tells.
bool BendAt(const StepBend& b, KnotProducts* products, bool coarse, VectorRef out, VectorRef* theta, bool* one_sided) {
  out.setZero();
  if (theta) theta->setZero();
  *one_sided = false;
  const double largest = std::max(Largest(b.dx), Largest(b.du));
  if (largest == 0 || (b.pulled.isZero(0) && b.theta.isZero(0))) return true;
  double spread = 0;
  if (!coarse) {
    const double h = kNudge / largest;
    if (!Quotient(b, products, h, kNoise, out, theta, one_sided, &spread)) return false;
    if (*one_sided || spread <= kSpread) return true;
    VectorXd near(out.size()), near_theta(theta ? theta->size() : 0);
    VectorRef near_out = near, near_theta_out = near_theta;
    bool side = false;
    if (!Quotient(b, products, h / 2, kNoise, near_out, theta ? &near_theta_out : nullptr, &side, &spread))
      return false;
    out = (4 * near - out) / 3;
    if (theta) *theta = (4 * near_theta - *theta) / 3;
    return true;
  }

  // from one nudge to the next truncation falls by 16 and noise rises by 4
  MatrixXd D(out.size() + (theta ? theta->size() : 0), kSizes);
  double change[kSizes];  // from the nudge before, of D; infinite where one of the two is one-sided
  bool last_one_sided = true;
  const auto take = [&](const auto& value) {
    out = value.head(out.size());
    if (theta) *theta = value.tail(theta->size());
    return true;
  };
  const auto extrapolated = [&](int k) { return VectorXd((16 * D.col(k) - D.col(k - 1)) / 15); };
  for (int k = 0; k < kSizes; k++) {
    const double h = kDifferencedNudge / std::pow(4, k) / largest;
    if (!Quotient(b, products, h, kDifferencedNoise, out, theta, one_sided, &spread)) return false;
    D.col(k).head(out.size()) = out;
    if (theta) D.col(k).tail(theta->size()) = *theta;
    const bool both = !last_one_sided && !*one_sided;
    last_one_sided = *one_sided;
    change[k] = both ? Change(D, k, out.size()) : std::numeric_limits<double>::infinity();
    if (change[k] < kAgrees) return take(D.col(k - 1));
    if (k < 2) continue;
    if (change[k] < kNear && change[k] < change[k - 1] / 2) {
      return take(extrapolated(change[k - 1] < kNear && change[k] > kFalls * change[k - 1] ? k - 1 : k));
    }
    if (change[k - 1] < kNear) return take(D.col(k - 2));
  }
  if (last_one_sided) return take(D.col(0));
  return std::isinf(change[kSizes - 1]) || take(extrapolated(kSizes - 1));
}

}  // namespace

bool Bend(const StepBend& b, KnotProducts* products, VectorRef out, VectorRef theta, bool* one_sided) {
  const bool apart = theta.size() > 0 && b.theta_differenced && !b.differenced;
  if (!BendAt(b, products, b.differenced, out, theta.size() > 0 && !apart ? &theta : nullptr, one_sided)) return false;
  if (!apart) return true;
  VectorXd other(out.size());
  bool side = false;
  return BendAt(b, products, true, other, &theta, &side);
}

}  // namespace costate
