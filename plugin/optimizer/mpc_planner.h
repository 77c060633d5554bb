// Makes plans: from a measurement to the motion that is best from where the robot will be.
#ifndef COSTATE_OPTIMIZER_MPC_PLANNER_H_
#define COSTATE_OPTIMIZER_MPC_PLANNER_H_

#include <costate/ilqr.h>
#include <costate/mpc.h>
#include <costate/rollout.h>
#include <costate/task.h>

#include <atomic>
#include <optional>

#include "optimizer/constrained_lq.h"
#include "optimizer/goal_slots.h"
#include "optimizer/mpc_constraints.h"
#include "optimizer/mpc_filter.h"
#include "optimizer/mpc_measurement.h"
#include "optimizer/mpc_plan.h"

namespace costate {

/// A task's cost seen from a plan that begins later.
class ShiftedCost final : public Cost {
 public:
  explicit ShiftedCost(const Cost* cost) : cost_(cost) {}
  void set_shift(double seconds) { shift_ = seconds; }

  double Value(const KnotView& knot) const override { return cost_->Value(knot.ShiftedBy(shift_)); }
  void Gradient(const KnotView& knot, KnotGradient* out) const override {
    cost_->Gradient(knot.ShiftedBy(shift_), out);
  }
  void Expand(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const override {
    cost_->Expand(knot.ShiftedBy(shift_), C, D, out);
  }
  bool NeedsSensors() const override { return cost_->NeedsSensors(); }
  void MarkSensors(std::vector<char>* read) const override { cost_->MarkSensors(read); }
  double LowerBound(int t) const override { return cost_->LowerBound(t); }
  std::vector<CostTermValue> Terms(const Trajectory& trajectory) const override { return cost_->Terms(trajectory); }
  std::vector<std::string> TermsWithoutSlope(const KnotView& knot) const override {
    return cost_->TermsWithoutSlope(knot.ShiftedBy(shift_));
  }

 private:
  const Cost* cost_;
  double shift_ = 0;
};

class MpcPlanner {
 public:
  /// @param goals  that plans follow; may be null.
  MpcPlanner(const Task& task, const MpcGoals* goals);

  /// The plan from the task's start, as the task says that its motion is found: from sampled controls, by way of
  /// smoothed contacts, by iLQR or multiple shooting. Null when none can be simulated; reason() is the solver's message
  /// in any case. @param report  how its solver ended: first_plan and what else it has of it.
  MpcPlanPtr First(const IterationCallback& callback, MpcReport* report);

  /// A plan that acts from `begin` on. @param book  what acts until then, and what it starts from.
  /// @param iterations  at most; fewer where it has converged.  @param budget  [s].
  /// @return null when it diverged: reason() says how.
  MpcPlanPtr Next(const MpcMeasurement& measured, double begin, const MpcPlanBook& book, int iterations, double budget);

  /// From any thread: nobody wants the plan that is being made, Next returns as soon as it can.
  void Abandon() { abandoned_ = true; }

  const std::string& reason() const { return reason_; }
  const Problem& problem() const { return solver_->problem(); }
  int N() const { return N_; }
  double knot_time() const { return knot_time_; }  ///< [s] of plans

 private:
  MpcPlanPtr Take(double begin, const SolveResult& result);
  MpcPlanPtr TakeFirst(const SolveResult& solved, MpcReport* report);
  bool HasSettled(const IterationRecord& last) const;
  void UpdateMultipliers(const SolveResult& result);
  void Place(double begin);
  Guess FirstGuess() const;
  void Extend(const MpcPlan& last, double begin);
  double TailCost(const MpcPlan& last, const MatrixXd& U);
  void FollowGoals();
  bool Predict(const MpcMeasurement& measured, double begin, const MpcPlanBook& book);

  const Task& task_;
  const MpcGoals* goals_;
  std::unique_ptr<ResidualCost> aimed_;  // the task's cost with the goals as they are now, where they can move
  std::vector<SlottedGoal> slots_;       // of the goals
  ModelPtr model_;                       // with the timestep of plans
  double knot_time_ = 0, control_time_ = 0;
  int N_ = 0;
  ShiftedCost cost_;
  MpcConstraints constraints_;
  std::optional<ConstrainedLq> constrained_;  // cost_ within constraints_, where there are any
  std::unique_ptr<IlqrSolver> solver_;
  std::unique_ptr<Simulator> simulator_;  // of plans, one thread: goes on behind their ends
  DataPtr data_;                          // of task.model: predicts …
  MpcFilter filter_;                      // … what acts until a plan begins
  VectorXd x_, u_, none_, context_;
  Trajectory reference_, tail_;
  std::vector<MatrixXd> K_;
  int updates_ = 0;  // iterations of this plan that multipliers have followed, or were not to
  std::string reason_;
  std::atomic<bool> abandoned_{false};
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_MPC_PLANNER_H_
