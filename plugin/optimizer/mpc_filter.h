// The control nearest to a plan's that keeps what it alone decides: README.md, eq. (M7).
#ifndef COSTATE_OPTIMIZER_MPC_FILTER_H_
#define COSTATE_OPTIMIZER_MPC_FILTER_H_

#include <costate/constraint.h>
#include <costate/derivative.h>

#include <memory>

#include "optimizer/mpc_constraints.h"
#include "optimizer/mpc_measurement.h"

namespace costate {

/// Of forces, powers and whatever else a task's constraints hold that controls move at once.
class MpcFilter {
 public:
  /// `task` must outlive this.
  explicit MpcFilter(const Task& task);

  /// Is there any such constraint?
  bool any() const { return any_; }

  /// u, which acts from measured.time on, moves by as little as keeps them there; where none does, or all are kept, it
  /// stays as it is.
  void Keep(const MpcMeasurement& measured, VectorXd* u);

 private:
  bool Simulate(const mjModel* model, const MpcMeasurement& measured, ConstVectorRef u);
  KnotView View(int t, ConstVectorRef x, ConstVectorRef u) const;
  bool AreKept(ConstVectorRef x, ConstVectorRef u);
  bool FindMetric(const mjModel* model);
  bool Move(ConstVectorRef x, ConstVectorRef planned, VectorXd* u);
  bool Correct(const mjModel* model, const MpcMeasurement& measured, ConstVectorRef planned, VectorXd* u);

  const Task& task_;
  MpcConstraints constraints_;
  const bool any_;
  const double control_time_;  // [s]

  // made when first used
  DataPtr data_;
  ModelPtr unlimited_;  // whose forces follow controls beyond their limits; null: the model has none
  std::unique_ptr<Linearizer> linearizer_, unlimited_linearizer_;
  StepDerivative derivative_;
  MatrixXd H_;
  VectorXd next_, s_, c_, corrected_;  // s_: sensors of knot 0
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_MPC_FILTER_H_
