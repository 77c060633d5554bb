// What plans know of the robot that they move.
#ifndef COSTATE_OPTIMIZER_MPC_MEASUREMENT_H_
#define COSTATE_OPTIMIZER_MPC_MEASUREMENT_H_

#include <costate/task.h>

namespace costate {

/// What is known of the robot at one time.
struct MpcMeasurement {
  double time = 0;     ///< [s] since the start
  VectorXd x, moving;  ///< moving context: see kMovingSignature
  VectorXd scene{};    ///< by kSceneSignature, where it is another than the task's; empty: it is not
  VectorXd force{};    ///< nv, estimated: what acts beside all that the model knows of; empty: nothing
};

/// What stands about a robot, which no step moves.
inline constexpr int kSceneSignature = mjSTATE_EQ_ACTIVE | mjSTATE_MOCAP_POS | mjSTATE_MOCAP_QUAT;

/// The context in which the measured x is stepped: the task's, what had moved of it by then, the scene and the force.
void SetMeasured(const Task& task, const MpcMeasurement& measured, mjData* data);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_MPC_MEASUREMENT_H_
