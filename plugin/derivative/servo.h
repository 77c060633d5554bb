// Actuators with several inputs, states or outputs: pid, dcmotor, so3. Section A of README.md.
#ifndef COSTATE_DERIVATIVE_SERVO_H_
#define COSTATE_DERIVATIVE_SERVO_H_

#include <mujoco/mujoco.h>

#include <string>
#include <vector>

#include <Eigen/Core>

namespace costate {

/// Slopes of one such actuator. Columns: lengths, velocities (one for each output), states, inputs.
struct ServoSlope {
  int actuator = 0, outputs = 1, states = 0, inputs = 0;
  double value = 0;            ///< of the force before limits, of an so3 its norm
  Eigen::MatrixXd force;       ///< of the forces that limits act on
  Eigen::MatrixXd friction;    ///< of forces added after limits: a dcmotor's cogging and friction
  Eigen::MatrixXd next, rate;  ///< of act' and act_dot
  double damping = 0;          ///< −∂force/∂velocity as the implicit integrators take it, for each output …
  int damping_state = -1;      ///< … and the activation that it depends on, by damping_slope; −1: none
  double damping_slope = 0;
  double integral_error = 0;    ///< what an integral integrates: the error of the position
  bool held = false;            ///< is it at its limit, where the error pushes it?
  double half_turn = mjMAXVAL;  ///< [rad] what is left to an error of a rotation until the other way round is shorter
};

bool IsServo(const mjModel* model, int actuator);

/// Which of a dcmotor's activations is what; -1: it has none.
struct MotorSlots {
  int slew = -1, integral = -1, thermal = -1, bristle = -1, current = -1, count = 0;
};
MotorSlots SlotsOf(const mjModel* model, int motor);

/// The activation of a pid or dcmotor that integrates the error of its position until it comes to a limit; act -1:
/// none.
struct IntegralSlot {
  int act = -1;
  double limit = 0;
};
IntegralSlot IntegralOf(const mjModel* model, int actuator);

/// "" or why this one has no closed form.
std::string ServoMissing(const mjModel* model, int actuator);

/// What a setpoint of a rotation may differ by and be the same: a turn, in units of the actuator's length; 0: of none.
double SetpointPeriod(const mjModel* model, int actuator);

/// The turns to add to a setpoint for that nearest to the length.
double TurnsTo(double setpoint, double length, double period);

/// @pre `data` is after mj_fwdActuation.
ServoSlope MakeServoSlope(const mjModel* model, const mjData* data, int actuator);

/// What an actuator's range has limited: the force in `data` of that output without a motor's friction, which the
/// engine adds behind the limit. @param act  activations (na) that it is of: a step leaves others in `data`. @pre as
/// MakeServoSlope.
double LimitedForce(const mjModel* model, const mjData* data, const mjtNum* act, int actuator, int output);

/// Where a pid's or dcmotor's law has corners, which side of each it is on: the rate of its first input, the drive's
/// voltage and the rate of its current at their limits or within. @return the direction of a motor's friction, 0 where
/// it rests or its bristle is not bent. @param act  as LimitedForce's. @pre as MakeServoSlope.
int AppendServoZones(const mjModel* model, const mjData* data, const mjtNum* act, int actuator,
                     std::vector<signed char>* zones);

/// Where an activation may be nudged to: beyond the limit of an integral that is held there, and within it else, as the
/// integral jumps on from the limit.
struct ActivationSide {
  mjtNum range[2];
  bool held;  ///< it does not move, and comes back to a limit of act' from beyond, too
};
/// Of all activations (na), @pre as MakeServoSlope.
void ActivationSides(const mjModel* model, const mjData* data, std::vector<ActivationSide>* out);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_SERVO_H_
