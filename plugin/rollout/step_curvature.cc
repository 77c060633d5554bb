#include "rollout/step_curvature.h"

#include <algorithm>

#include <costate/state.h>

namespace costate {
namespace {

// of the largest entry of (dx, du), measured: impedance bends within 1e-4 m, products are exact to 1e-12, differenced ones to 1e-9
constexpr double kNudge = 3e-7, kDifferencedNudge = 3e-5;
constexpr double kNoise = 1e-9, kDifferencedNoise = 1e-5;  // of a product, relative: what no switch is read into

double Largest(ConstVectorRef v) { return v.size() > 0 ? v.lpNorm<Eigen::Infinity>() : 0; }

}  // namespace

bool Bend(const StepBend& b, KnotProducts* products, VectorRef out, bool* one_sided) {
  out.setZero();
  *one_sided = false;
  const double largest = std::max(Largest(b.dx), Largest(b.du));
  if (largest == 0 || b.pulled.isZero(0)) return true;
  const double h = (b.differenced ? kDifferencedNudge : kNudge) / largest;
  VectorXd side[2];
  KnotCovector pulled;
  for (int k = 0; k < 2; k++) {
    const double step = k ? -h : h;
    const VectorXd at = Retract(b.model, b.at.x, step * b.dx);
    const VectorXd control = b.at.last ? VectorXd() : VectorXd(b.at.u + step * b.du);
    if (!products->Pull({.x = at, .u = control, .moving = b.at.moving, .last = b.at.last}, b.lambda, b.sigma, &pulled)) {
      return false;
    }
    side[k].resize(out.size());
    side[k] << pulled.x, pulled.u;
    side[k] = (side[k] - b.pulled) / step;
  }

  // both sides differ by O(h) where the step is smooth, by 1/h where a switch is crossed
  const double plus = side[0].norm(), minus = side[1].norm(), more = std::max(plus, minus);
  const double noise = (b.differenced ? kDifferencedNoise : kNoise) * b.pulled.norm();
  *one_sided = (side[0] - side[1]).norm() > 0.5 * more && h * more > noise;
  if (*one_sided) {
    out = plus < minus ? side[0] : side[1];
  } else {
    out = 0.5 * (side[0] + side[1]);
  }
  return true;
}

}  // namespace costate
