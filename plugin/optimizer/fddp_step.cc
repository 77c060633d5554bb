// Steps of multiple shooting: the search along a policy, the barrier that keeps bounds, the way back from it to the
// bounds.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/lap.h"
#include "optimizer/fddp.h"
#include "optimizer/take_knot.h"

namespace costate {
namespace {

constexpr double kBarrierAccuracy =
    10;  // a barrier problem is solved to so many times mu (Wächter & Biegler 2006, eq. (7))
constexpr double kBarrierShare = 0.1;  // of the tolerance: what the last barrier may keep from the optimum
constexpr double kPolishShare = 0.1;   // barrier's gap, of the cost, below which steps without barrier are tried …
constexpr double kGoodStep = 0.5;

}  // namespace

// does the full step, by the linear model, reach a bound?
bool Fddp::LeavesBounds() const {
  if (barrier_.bounds() == 0) return false;
  const MatrixXd U = now_.trajectory.U + du_;
  for (int t = 0; t < N_; ++t) {
    for (int i = 0; i < U.rows(); ++i) {
      if (problem_.u_lower[i] == problem_.u_upper[i]) continue;
      if (U(i, t) <= problem_.u_lower[i] || U(i, t) >= problem_.u_upper[i]) return true;
    }
  }
  return false;
}

// from now on a barrier keeps the bounds; controls near them move inside, and leave gaps
bool Fddp::StartBarrier() {
  mode_ = Mode::kBarrier;
  filter_.Clear();
  const MatrixXd inside = barrier_.Inside(now_.trajectory.U);
  if (inside != now_.trajectory.U) {
    const MatrixXd X = now_.trajectory.X;
    const double gaps = now_.Gaps();
    const bool ok = gaps > 0 ? Follow(X, inside) : true;
    if (gaps == 0) {
      const RolloutStatus status = simulator_.Rollout(X.col(0), inside, &now_.trajectory);
      now_.cost = RolloutCost(problem_, now_.trajectory, status, simulator_.knot_time());
      now_.gaps.setZero();
      linearized_ = false;
    }
    if (!ok || !std::isfinite(now_.cost)) {
      End(SolveStatus::kStalled, "the controls moved inside their bounds cannot be simulated");
      return false;
    }
  }
  barrier_.Start(now_.trajectory.U, options_.barrier_init * unit_, unit_);
  return true;
}

// false: it is as small as it gets
bool Fddp::ShrinkBarrier() {
  const double least =
      kBarrierShare * options_.tolerance * std::max(std::abs(now_.cost), 1e-12 * unit_) / barrier_.bounds();
  if (barrier_.mu() <= least) return false;
  barrier_.Shrink(least);
  filter_.Clear();
  slow_ = 0;
  gained_ = 0;
  return true;
}

// once its problem is solved to a few mu, the barrier shrinks
void Fddp::AdaptBarrier() {
  if (alpha_ == 0) return;
  MatrixXd slope = lu_;
  double error = std::max(unit_ * now_.gaps.cwiseAbs().maxCoeff(), (lq_.lx - lambda_.col(N_)).cwiseAbs().maxCoeff());
  for (int t = 0; t < N_; ++t) {
    const LqKnot& knot = lq_.knots[t];
    slope.col(t).noalias() += knot.B.transpose() * lambda_.col(t + 1);
    if (t == 0) continue;
    error = std::max(error, (knot.lx + knot.A.transpose() * lambda_.col(t + 1) - lambda_.col(t)).cwiseAbs().maxCoeff());
  }
  while (std::max(error, barrier_.Error(now_.trajectory.U, slope)) < kBarrierAccuracy * barrier_.mu() &&
         ShrinkBarrier()) {
  }
}

// the largest alpha that the filter takes; next_ and next_cost_ are there
double Fddp::Search(int steps) {
  TakePolicy(&riccati_, &policy_);
  const Filter::Point from{now_.Gaps(), Objective(now_.trajectory, now_.cost) / unit_};
  const double slope = direction_.slope / unit_;
  for (int first = 0; first < steps; first += simulator_.threads()) {
    const int count = std::min(simulator_.threads(), steps - first);
    simulator_.ParallelFor(count, [&](int i, int worker) {
      const double alpha = std::ldexp(1, -(first + i));
      const RolloutStatus status =
          simulator_.RolloutGaps(now_.trajectory, now_.gaps, policy_, alpha, lower_, upper_, &candidates_[i], worker);
      costs_[i] = RolloutCost(problem_, candidates_[i], status, simulator_.knot_time());
    });
    for (int i = 0; i < count; ++i) {
      const double alpha = std::ldexp(1, -(first + i));
      const Filter::Point to{(1 - alpha) * from.gaps, Objective(candidates_[i], costs_[i]) / unit_};
      if (!filter_.Accepts(from, to, slope, alpha)) continue;
      filter_.Add(from, slope, alpha);
      std::swap(next_, candidates_[i]);
      next_cost_ = costs_[i];
      return alpha;
    }
  }
  return 0;
}

// without barrier, the whole step: where the bounds that hold are known, it converges at once
bool Fddp::TryPolish(IterationRecord* record) {
  if (now_.Gaps() > 0 || alpha_ < kGoodStep || floor_ > 0) return false;
  if (expected_ > barrier_.Gap() || barrier_.Gap() > kPolishShare * std::abs(now_.cost)) return false;
  mode_ = Mode::kPolish;
  SetBounds();
  Shape(0);
  SolveRiccati(lq_, {}, &riccati_);
  if (riccati_.ok) {
    Push();
    record->gradient_norm = riccati_.gradient_norm;
    const Filter filter = filter_;
    Clock::time_point start = Clock::now();
    const double before = now_.cost, expected = direction_.Expected(1);
    const double alpha = expected < 0 ? Search(1) : 0;
    record->seconds_rollout += Lap(&start);
    if (alpha == 1 && next_cost_ - before <= kPolishRatio * expected) {
      saved_ = now_;
      saved_barrier_ = barrier_;
      Accept(1);
      return true;
    }
    filter_ = filter;
  }
  mode_ = Mode::kBarrier;
  return false;
}

}  // namespace costate
