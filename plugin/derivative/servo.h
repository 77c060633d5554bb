// Actuators with several inputs, states or outputs: pid, dcmotor, so3. Section A of README.md.
#ifndef COSTATE_DERIVATIVE_SERVO_H_
#define COSTATE_DERIVATIVE_SERVO_H_

#include <mujoco/mujoco.h>

#include <string>

#include <Eigen/Core>

namespace costate {

/// Slopes of one such actuator. Columns: lengths, velocities (one for each output), states, inputs.
struct ServoSlope {
  int actuator = 0, outputs = 1, states = 0, inputs = 0;
  double value = 0;            ///< of the first force, before limits
  Eigen::MatrixXd force;       ///< of the forces that limits act on
  Eigen::MatrixXd friction;    ///< of forces added after limits: a dcmotor's cogging and friction
  Eigen::MatrixXd next, rate;  ///< of act' and act_dot
  double damping = 0;          ///< −∂force/∂velocity as the implicit integrators take it, for each output …
  int damping_state = -1;      ///< … and the activation that it depends on, by damping_slope; −1: none
  double damping_slope = 0;
};

bool IsServo(const mjModel* model, int actuator);

/// Which of a dcmotor's activations is what; -1: it has none.
struct MotorSlots {
  int slew = -1, integral = -1, thermal = -1, bristle = -1, current = -1, count = 0;
};
MotorSlots SlotsOf(const mjModel* model, int motor);

/// "" or why this one has no closed form.
std::string ServoMissing(const mjModel* model, int actuator);

/// What a setpoint of a rotation may differ by and be the same: a turn, in units of the actuator's length; 0: of none.
double SetpointPeriod(const mjModel* model, int actuator);

/// The turns to add to a setpoint for that nearest to the length.
double TurnsTo(double setpoint, double length, double period);

/// @param ctrl  controls of the actuator, clamped.  @param inside  1 where the clamp lets a control through, else 0.
ServoSlope MakeServoSlope(const mjModel* model, const mjData* data, int actuator, const double* ctrl,
                          const double* inside, bool disabled);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_SERVO_H_
