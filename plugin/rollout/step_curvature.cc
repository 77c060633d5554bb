#include "rollout/step_curvature.h"

#include <algorithm>

#include <costate/state.h>

namespace costate {
namespace {

// of the largest entry of (dx, du), measured: impedance bends within 1e-4 m, products are exact to 1e-12, differenced
// ones to 1e-9
constexpr double kNudge = 3e-7, kDifferencedNudge = 3e-5;
constexpr double kNoise = 1e-9, kDifferencedNoise = 1e-5;  // of a product, relative: what no switch is read into

double Largest(ConstVectorRef v) { return v.size() > 0 ? v.lpNorm<Eigen::Infinity>() : 0; }

// at one nudge; `theta` may be null
bool BendAt(const StepBend& b, KnotProducts* products, bool coarse, VectorRef out, VectorRef* theta, bool* one_sided) {
  out.setZero();
  if (theta) theta->setZero();
  *one_sided = false;
  const double largest = std::max(Largest(b.dx), Largest(b.du));
  if (largest == 0 || (b.pulled.isZero(0) && b.theta.isZero(0))) return true;
  const double h = (coarse ? kDifferencedNudge : kNudge) / largest;
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
  const double noise = (coarse ? kDifferencedNoise : kNoise) * b.pulled.norm();
  *one_sided = (side[0] - side[1]).norm() > 0.5 * more && h * more > noise;
  const double first = !*one_sided ? 0.5 : plus < minus ? 1 : 0;
  out = first * side[0] + (1 - first) * side[1];
  if (theta) *theta = first * side_theta[0] + (1 - first) * side_theta[1];
  return true;
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
