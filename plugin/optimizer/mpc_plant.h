// The simulated robot under an MPC: moves, is pushed, is measured with noise, and keeps its motion.
#ifndef COSTATE_OPTIMIZER_MPC_PLANT_H_
#define COSTATE_OPTIMIZER_MPC_PLANT_H_

#include <costate/mpc.h>

#include "core/random.h"
#include "optimizer/mpc_measurement.h"

namespace costate {

/// Which of a robot's mocap poses are those of the task's model, by the names of their bodies.
/// @param whose  "the controlled robot".
/// @throws Error{kInvalidArgument} where one is missing, and unless the robot has the joints, controls and equalities of
///         the task's model, by name, and hands as much on beside its state, but for the state of plugins.
std::vector<int> MatchRobot(const Task& task, const mjModel* robot, const char* whose);

/// @throws Error{kInvalidArgument} unless plans of the task's model can move simulation.plant, if there is one.
void CheckPlant(const Task& task, const MpcSimulation& simulation);

class MpcPlant {
 public:
  MpcPlant(const Task& task, const MpcSimulation& simulation, int steps);

  int steps() const { return static_cast<int>(motion_.U.cols()); }
  double time() const { return t_ * control_time_; }  ///< [s] since the start
  double control_time() const { return control_time_; }
  const mjData* data() const { return data_.get(); }

  /// x with noise. Call once a control interval: each call draws new noise.
  MpcMeasurement Measure();

  /// One control interval under u. False when it cannot be simulated.
  bool Step(ConstVectorRef u);

  /// Ends the motion where it is. @param result  its trajectory, status, context, substeps and xfrc.
  void Finish(MpcResult* result);

 private:
  void Keep();
  void Push();

  const mjModel* model_;
  const MpcSimulation& simulation_;
  int substeps_, t_ = 0;
  double control_time_;
  DataPtr data_;
  VectorXd context_;  // at the start
  Trajectory motion_;
  MatrixXd xfrc_;  // 6 nbody × steps, where there are pushes
  RolloutStatus status_;
  NormalStream random_;
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_MPC_PLANT_H_
