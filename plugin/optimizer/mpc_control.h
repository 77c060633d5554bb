// Which control acts in each interval: the plan's, or that of the fall-back policy, with the reason on record.
#ifndef COSTATE_OPTIMIZER_MPC_CONTROL_H_
#define COSTATE_OPTIMIZER_MPC_CONTROL_H_

#include <costate/derivative.h>
#include <costate/mpc.h>

#include <memory>

#include "optimizer/box_qp.h"
#include "optimizer/mpc_filter.h"
#include "optimizer/mpc_planner.h"

namespace costate {

class MpcControl {
 public:
  MpcControl(const Task& task, const Problem& problem, std::vector<MpcEvent>* events);

  /// A plan, or null when it diverged for this reason.
  void Take(MpcPlanPtr plan, int number, double now, const std::string& reason);

  /// Since now a plan that is due is missing.
  void SetLate(double now, const std::string& reason);

  /// The plan that was missing has come after all.
  void SetArrived() { missing_ = false; }

  /// The control for the interval that begins at `now`. Counts intervals in which the plan that was due is missing.
  const VectorXd& At(double now, const MpcMeasurement& measured);

  const MpcPlanBook& book() const { return book_; }
  int fallback_steps() const { return fallback_steps_; }
  int plans_taken() const { return plans_taken_; }

  /// Of each constraint, how well the plans that were taken keep it.
  const std::vector<MpcConstraintReport>& constraints() const { return constraints_; }

 private:
  void Judge(const MpcPlan& plan);
  void Damp(const MpcMeasurement& measured);

  const Task& task_;
  const Problem& problem_;
  std::vector<MpcEvent>* events_;
  std::vector<MpcConstraintReport> constraints_;
  MpcPlanBook book_;
  MpcFilter filter_;
  bool missing_ = false, exhausted_ = false;
  int fallback_steps_ = 0, plans_taken_ = 0;
  VectorXd u_;

  // of Damp
  DataPtr data_;
  std::unique_ptr<Linearizer> linearizer_;
  StepDerivative derivative_;
  BoxQpScratch scratch_;
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_MPC_CONTROL_H_
