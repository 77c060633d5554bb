#include <costate/loss.h>

#include <algorithm>

#include "core/extremes.h"
#include "rollout/knot_beside.h"
#include "rollout/rotation.h"

namespace costate {
namespace {

constexpr double kLossNudge = 6e-6;  // cbrt(2^-52): truncation meets rounding, centred

}  // namespace

KnotView ViewKnot(const Trajectory& trajectory, int t, double dt) {
  static const VectorXd kNoControl;
  const int N = trajectory.N();
  const bool last = t == N;
  return {.t = t,
          .N = N,
          .time = t < trajectory.time.size() ? trajectory.time[t] : t * dt,
          .dt = dt,
          .x = trajectory.X.col(t),
          .u = last ? ConstVectorRef(kNoControl) : ConstVectorRef(trajectory.U.col(t)),
          .s = trajectory.S.cols() > t ? ConstVectorRef(trajectory.S.col(t)) : ConstVectorRef(kNoControl),
          .start = trajectory.X.data()};
}

void Loss::GaussNewtonProduct(const mjModel* model, const KnotView& knot, const KnotGradient& d,
                              KnotGradient* out) const {
  HessianProduct(model, knot, d, out);
}

void Loss::HessianProduct(const mjModel* model, const KnotView& knot, const KnotGradient& d, KnotGradient* out) const {
  const double largest = std::max({Largest(d.x), Largest(d.u), Largest(d.s)});
  if (largest == 0) return;
  const double h = kLossNudge / largest;
  const auto slope_at = [&](double step) {
    const VectorXd x = Retract(model, knot.x, step * d.x);
    const VectorXd u = knot.u.size() > 0 ? VectorXd(knot.u + step * d.u) : VectorXd();
    const VectorXd s = d.s.size() > 0 ? VectorXd(knot.s + step * d.s) : VectorXd(knot.s);
    KnotGradient slope{VectorXd::Zero(d.x.size()), VectorXd::Zero(d.u.size()), VectorXd::Zero(d.s.size())};
    Gradient(KnotBeside(knot, x, u, s, knot.start), &slope);
    return slope;
  };
  const KnotGradient plus = slope_at(h), minus = slope_at(-h);
  out->x = (plus.x - minus.x) / (2 * h);
  out->u = (plus.u - minus.u) / (2 * h);
  out->s = (plus.s - minus.s) / (2 * h);

  // slopes at two points are in two tangent spaces
  AddHalfBracket(model, -1, 0.5 * (plus.x + minus.x), d.x, &out->x);
}

void KnownSlopes::Gradient(const KnotView& knot, KnotGradient* out) const {
  const auto take = [&](const char* name, const MatrixXd& slopes, Eigen::Index knots, VectorXd* slope) {
    if (slopes.size() == 0 || knot.t >= knots) return;
    if (slopes.rows() != slope->size() || slopes.cols() != knots) {
      throw Error(ErrorCode::kDimensionMismatch, std::string("slopes by ") + name + " are " +
                                                     std::to_string(slopes.rows()) + " x " +
                                                     std::to_string(slopes.cols()) + ", expected " +
                                                     std::to_string(slope->size()) + " x " + std::to_string(knots));
    }
    *slope = slopes.col(knot.t);
  };
  take("x", x_, knot.N + 1, &out->x);
  take("u", u_, knot.N, &out->u);
  take("s", s_, knot.N + 1, &out->s);
}

}  // namespace costate
