// The force on a robot that its model knows nothing of: README.md, eq. (M6).
#ifndef COSTATE_OPTIMIZER_MPC_DISTURBANCE_H_
#define COSTATE_OPTIMIZER_MPC_DISTURBANCE_H_

#include <costate/task.h>

#include "optimizer/mpc_measurement.h"

namespace costate {

/// Learns from one measurement to the next; idle where task.mpc.estimate is 0.
class MpcDisturbance {
 public:
  explicit MpcDisturbance(const Task& task);

  /// Takes a measurement at the end of the time under the last control, and sets the estimate in it.
  void Measured(MpcMeasurement* measured);

  /// What acts from the last measurement to the next.
  void Acts(ConstVectorRef u) { u_ = u; }

  const VectorXd& force() const { return force_; }  ///< nv [N, N m]; empty where it is idle

 private:
  bool Predict(double seconds);
  bool MayLearn(const MpcMeasurement& measured) const;
  int Contacts(ConstVectorRef x);

  const Task& task_;
  double control_time_, passed_ = 0;
  ModelPtr model_;  // with a time step that divides the time between two measurements, where the model's does not
  DataPtr data_;
  MpcMeasurement last_;
  VectorXd u_, force_, next_, error_, none_;
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_MPC_DISTURBANCE_H_
