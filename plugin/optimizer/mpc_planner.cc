#include "optimizer/mpc_planner.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "optimizer/lap.h"

namespace costate {
namespace {

constexpr int kLineSearchSteps = 5;  // a plan that only a shorter step improves is left as it is: the next one follows at once

}  // namespace

MpcPlanner::MpcPlanner(const Task& task)
    : task_(task), model_(CopyModel(task.model.get())), cost_(task.cost.get()), data_(MakeData(task.model.get())) {
  const MpcOptions& mpc = task.mpc;
  if (mpc.timestep > 0) model_->opt.timestep = mpc.timestep;
  knot_time_ = task.substeps * model_->opt.timestep;
  control_time_ = task.substeps * task.model->opt.timestep;
  const double horizon = mpc.horizon > 0 ? mpc.horizon : task.N * control_time_;
  N_ = std::max(1, static_cast<int>(std::lround(horizon / knot_time_)));

  Problem problem = task.ToProblem();
  problem.model = model_.get();
  problem.cost = &cost_;
  problem.N = N_;
  IlqrOptions options = task.solver;
  options.final_policy = false;
  options.regularization_sweep = false;
  options.line_search_steps = std::min(options.line_search_steps, kLineSearchSteps);
  solver_ = std::make_unique<IlqrSolver>(problem, options);
  x_ = u_ = none_ = {};
}

MpcPlanPtr MpcPlanner::Take(double begin, const SolveResult& result) {
  if (result.status == SolveStatus::kDiverged) {
    reason_ = result.message;
    return nullptr;
  }
  auto plan = std::make_shared<MpcPlan>();
  plan->begin = begin;
  plan->knot_time = knot_time_;
  plan->motion = result.trajectory;
  plan->K = result.policy.K;
  plan->cost = result.cost;
  return plan;
}

MpcPlanPtr MpcPlanner::First() {
  // the guess at the knots of a plan, its last control held
  MatrixXd U(task_.U_guess.rows(), N_);
  for (int t = 0; t < N_; ++t) {
    const auto at = static_cast<Eigen::Index>(std::floor(t * knot_time_ / control_time_ + 1e-6));
    U.col(t) = task_.U_guess.col(std::min(at, task_.U_guess.cols() - 1));
  }
  cost_.set_shift(0);
  return Take(0, solver_->Solve(U));
}

// x_ and context_ at `begin`, under the controls that act until then: eq. (M3)
bool MpcPlanner::Predict(const MpcMeasurement& measured, double begin, const MpcPlanBook& book) {
  const mjModel* model = task_.model.get();
  SetContext(model, data_.get(), task_.context);
  SetMovingContext(model, data_.get(), measured.moving);
  x_ = measured.x;
  const int steps = task_.mpc.compensate ? static_cast<int>(std::lround((begin - measured.time) / control_time_)) : 0;
  for (int i = 0; i < steps; ++i) {
    const double time = measured.time + i * control_time_;
    const MpcPlan& plan = book.At(time);
    if (!plan.Control(problem(), task_.mpc.feedback, time, x_, &u_)) u_ = plan.motion.U.col(plan.motion.N() - 1);
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

MpcPlanPtr MpcPlanner::Next(const MpcMeasurement& measured, double begin, const MpcPlanBook& book, double budget) {
  Clock::time_point start = Clock::now();
  if (!measured.x.allFinite()) {
    reason_ = "the measured state is not finite";
    return nullptr;
  }
  if (!Predict(measured, begin, book)) return nullptr;
  solver_->SetStart(x_, context_);
  solver_->SetLimits(task_.mpc.iterations, std::max(budget - Lap(&start), 1e-9));
  cost_.set_shift(begin);
  book.At(begin).Shift(model_.get(), begin, N_, &reference_, &K_);
  return Take(begin, solver_->Resolve(reference_, K_));
}

}  // namespace costate
