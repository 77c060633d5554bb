#include "optimizer/mpc_planner.h"

#include <costate/solve_task.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/extremes.h"
#include "core/lap.h"
#include "optimizer/detour.h"
#include "optimizer/stuck.h"

namespace costate {
namespace {

constexpr double kLongPlanStep = 0.5;  // a step of at least that …
constexpr double kAtRest =
    0.1;  // … which gains less than this part of what new multipliers would change lets them be changed
constexpr double kGained = 1e-9;  // of a cost: less is rounding
constexpr int kLineSearchSteps =
    5;  // a plan that only a shorter step improves is left as it is: the next one follows at once

// does the motion end where it shall, for next to nothing of what the end would cost where it begins? The robot goes: the
// plans to come make the way better
bool EndsThere(const Problem& problem, const Trajectory& motion, double knot_time) {
  constexpr double kMissed = 1e-4;  // a hundredth of the way, squared
  const auto N = static_cast<int>(motion.N());
  Trajectory stays = motion;
  stays.X.col(N) = motion.X.col(0);
  if (stays.S.cols() > N) stays.S.col(N) = motion.S.col(0);
  const double here = problem.cost->Value(ViewKnot(stays, N, knot_time));
  return here > 0 && problem.cost->Value(ViewKnot(motion, N, knot_time)) <= kMissed * here;
}

}  // namespace

MpcPlanner::MpcPlanner(const Task& task, const MpcGoals* goals)
    : task_(task),
      goals_(goals),
      aimed_(goals && goals->size() > 0 ? MovableCost(task) : nullptr),
      slots_(aimed_ ? FindGoals(task.model.get(), *aimed_) : std::vector<SlottedGoal>()),
      model_(CopyModel(task.model.get())),
      cost_(aimed_ ? aimed_.get() : task.cost.get()),
      constraints_(task),
      data_(MakeData(task.model.get())),
      filter_(task) {
  const MpcOptions& mpc = task.mpc;
  if (mpc.timestep > 0) model_->opt.timestep = mpc.timestep;
  knot_time_ = task.substeps * model_->opt.timestep;
  control_time_ = task.knot_time();
  const double horizon = mpc.horizon > 0 ? mpc.horizon : task.N * control_time_;
  N_ = std::max(1, static_cast<int>(std::lround(horizon / knot_time_)));

  Problem problem = task.ToProblem();
  problem.model = model_.get();
  problem.cost = &cost_;
  problem.constraints = nullptr;
  problem.N = N_;
  if (constraints_.size() > 0) {
    problem.cost = &constrained_.emplace(model_.get(), cost_, constraints_.set(), N_, task.constrained.tolerance);
  }
  IlqrOptions options = task.solver;
  options.final_policy = false;
  options.regularization_sweep = options.long_steps = false;
  options.line_search_steps = std::min(options.line_search_steps, kLineSearchSteps);
  solver_ = std::make_unique<IlqrSolver>(problem, options);
  simulator_ = std::make_unique<Simulator>(model_.get(), task.context, task.substeps, 1);
  if (constrained_) {
    solver_->SetLqSolver([this](LqProblem* lq, double regularization, RiccatiResult* out) {
      constrained_->Solve(lq, regularization, out);
    });
  }
  x_ = u_ = none_ = {};
}

MpcPlanPtr MpcPlanner::Take(double begin, const SolveResult& result) {
  reason_ = result.message;
  if (result.status == SolveStatus::kDiverged) return nullptr;
  auto plan = std::make_shared<MpcPlan>();
  plan->begin = begin;
  plan->knot_time = knot_time_;
  plan->motion = result.trajectory;
  plan->K = result.policy.K;
  plan->cost = result.cost;
  if (constrained_) {
    plan->constraints = CheckConstraints(constraints_.set(), plan->motion, knot_time_);
    plan->multipliers = constrained_->augmented.lambda;
  }
  return plan;
}

// multipliers follow a whole step of the model that gave them, or a motion that what they would change has left at rest
bool MpcPlanner::HasSettled(const IterationRecord& last) const {
  return constrained_->exact()
             ? last.step == 1
             : last.step >= kLongPlanStep && -last.actual_change <= kAtRest * constrained_->augmented.unsettled();
}

// after the last iteration
void MpcPlanner::UpdateMultipliers(const SolveResult& result) {
  if (result.status == SolveStatus::kDiverged || (updates_ > 0 && updates_ == std::ssize(result.iterations))) return;
  AugmentedCost& augmented = constrained_->augmented;
  augmented.Residuals(result.trajectory, knot_time_);
  const bool settled =
      result.iterations.empty() ? result.status == SolveStatus::kConverged : HasSettled(result.iterations.back());
  if (settled) augmented.UpdateMultipliers(result.trajectory, knot_time_);
}

// the task's guess at the knots of a plan, its end held
Guess MpcPlanner::FirstGuess() const {
  Guess guess;
  guess.U.resize(task_.U_guess.rows(), N_);
  if (task_.X_guess.size() > 0) guess.X.resize(task_.X_guess.rows(), N_ + 1);
  for (int t = 0; t <= N_; ++t) {
    const auto at = static_cast<Eigen::Index>(std::floor(t * knot_time_ / control_time_ + 1e-6));
    if (t < N_) guess.U.col(t) = task_.U_guess.col(std::min(at, task_.U_guess.cols() - 1));
    if (guess.X.size() > 0) guess.X.col(t) = task_.X_guess.col(std::min(at, task_.X_guess.cols() - 1));
  }
  return guess;
}

MpcPlanPtr MpcPlanner::TakeFirst(const SolveResult& solved, MpcReport* report) {
  report->first_plan = solved.message;
  report->first_status = solved.status;
  report->first_gained = solved.initial_cost - solved.cost > kGained * std::abs(solved.initial_cost);
  report->first_violation = solved.violation;
  return Take(0, solved);
}

MpcPlanPtr MpcPlanner::First(const IterationCallback& callback, MpcReport* report) {
  FollowGoals();
  Problem start = problem();
  // which says its terms; this plan begins with the task
  start.cost = aimed_ && goals_->moved() ? aimed_.get() : task_.cost.get();
  Guess guess = FirstGuess();
  Place(0);
  const bool plain = task_.solver.type == SolverType::kIlqr && !task_.solver.second_order && guess.X.size() == 0;
  const bool direct = !task_.continuation.smooth.any() && MayBeOneSolve(task_.hopping);
  if (task_.sampling.iterations > 0) guess.U = SampleControls(start, guess.U, task_.ToSampling()).U;
  if (plain && !constrained_ && direct) {
    SolveResult found = solver_->Solve(guess.U, callback);
    // beside an obstacle more may follow: SolveTask knows
    const bool hindered = task_.hopping.rounds > 0 && !ObstaclesThatAreHit(start, found.trajectory).empty();
    const bool over = IsEnough(task_.hopping, start, found) ||
                      (found.status == SolveStatus::kStalled && TouchesNothing(start, found.trajectory) &&
                       EndsThere(start, found.trajectory, knot_time_));
    if (over && !hindered) {
      SayUntouched(start, &found);
      return TakeFirst(found, report);
    }
  }

  // where there are constraints plans go on from the multipliers of their own solver
  if (constrained_) start.constraints = &constraints_.set();
  const SolveResult solved = SolveTask(task_, start, guess, {.iteration = callback}).result;
  const auto have_all = [&](auto size) { return static_cast<int>(size) == constraints_.set().size(); };
  const bool kept = solved.status != SolveStatus::kDiverged && solved.status != SolveStatus::kInfeasible;
  if (constrained_ && kept && have_all(solved.multipliers.size()))  // a motion back within constraints has none
    constrained_->augmented.lambda = solved.multipliers;
  return TakeFirst(solved, report);
}

// from now on plans begin there
void MpcPlanner::Place(double begin) {
  cost_.set_shift(begin);
  constraints_.PlacePlan(begin, knot_time_, N_);
}

// of the knots behind a plan's end under these controls
double MpcPlanner::TailCost(const MpcPlan& last, const MatrixXd& U) {
  if (!simulator_->Rollout(last.motion.X.rightCols(1), U, &tail_).ok()) return kInf;
  double cost = 0;
  for (int j = 0; j <= tail_.N(); ++j) {
    KnotView knot = ViewKnot(tail_, j, knot_time_);
    knot.t = N_ - tail_.N() + j;
    knot.N = N_;
    cost += problem().cost->Value(knot);
  }
  return std::isfinite(cost) ? cost : kInf;
}

// (M2) holds the last control behind the old plan's end; the guess's last one is better where it may be what keeps a
// robot where that plan has led it
void MpcPlanner::Extend(const MpcPlan& last, double begin) {
  const int n = static_cast<int>(std::lround((begin + N_ * knot_time_ - last.end()) / knot_time_));
  if (n < 1 || n >= N_) return;
  simulator_->SetContext(context_);
  const MatrixXd held = reference_.U.rightCols(n), guessed = task_.U_guess.rightCols(1).replicate(1, n);
  if (TailCost(last, guessed) < TailCost(last, held)) reference_.U.rightCols(n) = guessed;
}

// x_ and context_ at `begin`, under the controls that act until then: eq. (M3)
bool MpcPlanner::Predict(const MpcMeasurement& measured, double begin, const MpcPlanBook& book) {
  const mjModel* model = task_.model.get();
  SetMeasured(task_, measured, data_.get());
  MpcMeasurement at = measured;
  x_ = measured.x;
  const int steps = task_.mpc.compensate ? static_cast<int>(std::lround((begin - measured.time) / control_time_)) : 0;
  for (int i = 0; i < steps; ++i) {
    at.time = measured.time + i * control_time_;
    const MpcPlan& plan = book.At(at.time);
    if (plan.Control(problem(), task_.mpc.feedback, at.time, x_, &u_)) {
      if (filter_.any()) {
        at.x = x_;
        at.moving = GetMovingContext(model, data_.get());
        filter_.Keep(at, &u_);
      }
    } else {
      u_ = plan.motion.U.col(plan.motion.N() - 1);
    }
    VectorXd next(x_.size());
    const StepStatus status = Step(model, data_.get(), x_, u_, task_.substeps, next, none_);
    if (status != StepStatus::kOk) {
      reason_ = fmt::format("the state cannot be simulated over the delay: {}", ToString(status));
      return false;
    }
    x_ = next;
  }
  context_ = GetContext(model, data_.get());
  return true;
}

void MpcPlanner::FollowGoals() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Eigen::Vector3d place = goals_->Place(static_cast<int>(i));
    for (const GoalSlot& slot : slots_[i].slots) aimed_->MoveTarget(slot.term, slot.slot, place[slot.axis]);
  }
}

MpcPlanPtr MpcPlanner::Next(const MpcMeasurement& measured, double begin, const MpcPlanBook& book, int iterations,
                            double budget) {
  FollowGoals();
  Clock::time_point start = Clock::now();
  if (!measured.x.allFinite()) {
    reason_ = "the measured state is not finite";
    return nullptr;
  }
  if (!Predict(measured, begin, book)) return nullptr;
  solver_->SetStart(x_, context_);
  solver_->SetLimits(iterations, std::max(budget - Lap(&start), 1e-9));
  Place(begin);
  const MpcPlan& last = book.At(begin);
  last.Shift(model_.get(), begin, N_, &reference_, &K_);
  if (constrained_) last.ShiftMultipliers(begin, N_, constraints_.stays_at_end(), &constrained_->augmented.lambda);
  Extend(last, begin);
  updates_ = 0;
  const SolveResult& result = solver_->Resolve(reference_, K_, [this, iterations](const IterationRecord& record) {
    if (!constrained_ || record.iteration == iterations) return !abandoned_;
    if (HasSettled(record)) constrained_->augmented.UpdateMultipliers(*constrained_->seen(), knot_time_);
    updates_ = record.iteration;
    return !abandoned_;
  });
  if (constrained_) UpdateMultipliers(result);
  return Take(begin, result);
}

}  // namespace costate
