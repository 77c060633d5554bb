// Where multiple shooting begins, and what it hands back.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "optimizer/control_limits.h"
#include "optimizer/cost_unit.h"
#include "optimizer/fddp.h"
#include "optimizer/free_start.h"
#include "optimizer/scaled_guess.h"
#include "optimizer/solver_checks.h"
#include "optimizer/take_knot.h"

namespace costate {

bool Fddp::Start(ConstMatrixRef X, ConstMatrixRef U) {
  if (X.cols() > 0) {
    const MatrixXd controls = WithinLimits(problem_, U);
    MatrixXd states = X;
    states.col(0) = NearestStart(problem_, X.col(0));
    // the controls alone, to compare with and to fall back on
    RolloutStatus status = simulator_.Rollout(FirstStart(problem_), controls, &best_.trajectory);
    best_.cost = result_.initial_cost = RolloutCost(problem_, best_.trajectory, status, simulator_.knot_time());
    best_.gaps.setZero(simulator_.dims().ndx, N_);
    if (Follow(states, controls)) return true;
    result_.trajectory = now_.trajectory;
    End(SolveStatus::kDiverged,
        "the guess cannot be simulated: a step from one of its states fails, or its cost is not finite");
    return false;
  }
  const ScaledGuess guess = RolloutGuess(problem_, U, &simulator_, &now_.trajectory);
  result_.guess_scale = guess.scale;
  result_.initial_cost = result_.cost = now_.cost = guess.cost;
  now_.gaps.setZero(simulator_.dims().ndx, N_);
  if (guess.failure.empty()) {
    Remember();
    return true;
  }
  result_.trajectory = now_.trajectory;
  End(SolveStatus::kDiverged, guess.failure);
  return false;
}

// now_ at given states and controls
bool Fddp::Follow(ConstMatrixRef X, ConstMatrixRef U) {
  const RolloutStatus status = simulator_.Follow(X, U, &next_, &now_.gaps);
  std::swap(now_.trajectory, next_);
  now_.cost = RolloutCost(problem_, now_.trajectory, status, simulator_.knot_time());
  linearized_ = false;
  return std::isfinite(now_.cost);
}

// what the solver knew beside its iterate; without it the barrier would begin at its largest weight
void Fddp::TakeState(const SolveState& state) {
  if (state.costates.rows() == lambda_.rows() && state.costates.cols() == lambda_.cols()) lambda_ = state.costates;
  last_shift_ = std::max(0.0, state.regularization);
  if (!(state.barrier > 0) || barrier_.bounds() == 0 || barrier_.Distance(now_.trajectory.U) <= 0) return;
  if (unit_ == 0 && LinearizeKnots() < 0) unit_ = CostUnit(lq_);
  if (unit_ == 0) return;
  mode_ = Mode::kBarrier;
  barrier_.Start(now_.trajectory.U, state.barrier, unit_);
}

// a polish that has not ended is left out: its barrier's solution leads there at once
SolveState Fddp::State() const {
  const FddpIterate& iterate = mode_ == Mode::kPolish ? saved_ : now_;
  SolveState state;
  state.U = iterate.trajectory.U;
  if (iterate.Gaps() > 0) state.X = iterate.trajectory.X;
  if (HasFreeStart(problem_)) state.x0 = iterate.trajectory.X.col(0);
  state.costates = lambda_;
  if (mode_ != Mode::kPlain) state.barrier = (mode_ == Mode::kPolish ? saved_barrier_ : barrier_).mu();
  state.regularization = last_shift_;
  return state;
}

// the best motion, gains and gradient about it
void Fddp::Finish() {
  if (now_.Gaps() > 0) {
    // what the last policy makes of states with gaps
    FddpIterate closed{{}, MatrixXd::Zero(simulator_.dims().ndx, N_)};
    Policy hold = policy_;
    hold.k.setZero(problem_.u_lower.size(), N_);
    hold.K.resize(N_, MatrixXd::Zero(problem_.u_lower.size(), simulator_.dims().ndx));
    hold.dx0.resize(0);
    const RolloutStatus status =
        simulator_.RolloutPolicy(now_.trajectory, hold, 1, problem_.u_lower, problem_.u_upper, &closed.trajectory);
    closed.cost = RolloutCost(problem_, closed.trajectory, status, simulator_.knot_time());
    result_.message += fmt::format(
        "; the states still have gaps, the largest {}: the motion is {}, at cost {:.6g}", GapText(now_.gaps),
        closed.cost < best_.cost ? "what the last policy makes of them" : "the best without gaps",
        std::min(closed.cost, best_.cost));
    if (closed.cost < best_.cost) best_ = std::move(closed);
    if (!std::isfinite(best_.cost)) result_.status = SolveStatus::kDiverged;
  } else if (best_.cost < now_.cost) {
    result_.message += fmt::format("; the best motion on the way is at cost {:.6g}", best_.cost);
  }
  result_.cost = best_.cost;
  if (!std::isfinite(best_.cost)) {
    result_.trajectory = std::move(best_.trajectory);
    return;
  }
  now_ = best_;
  mode_ = Mode::kPolish;
  simulator_.SetDerivativeEvery(1);
  const bool linearized = LinearizeKnots() < 0;
  simulator_.SetDerivativeEvery(options_.derivative_every);
  if (linearized) {
    KeepBase();
    SetBounds();
    for (double shift = 0; shift <= options_.regularization_max; shift = std::max(1e-8, 100 * shift)) {
      Shape(shift);
      SolveRiccati(lq_, {.values = false}, &riccati_);
      if (!riccati_.ok) continue;
      TakePolicy(&riccati_, &result_.policy);
      result_.gradient_norm = riccati_.gradient_norm;
      result_.gradient_norm_per_knot = riccati_.gradient_norm_per_knot;
      break;
    }
  }
  result_.trajectory = std::move(now_.trajectory);
}

std::string Fddp::GapText(const MatrixXd& gaps) const {
  Eigen::Index row = 0, t = 0;
  const double largest = gaps.cwiseAbs().maxCoeff(&row, &t);
  return fmt::format("{:.3g} at knot {} in {}", largest, t + 1,
                     TangentNames(problem_.model)[static_cast<std::size_t>(row)]);
}

void Fddp::End(SolveStatus status, std::string message) {
  result_.status = status;
  result_.message = std::move(message) + DerivativeEveryText(options_.derivative_every);
}

}  // namespace costate
