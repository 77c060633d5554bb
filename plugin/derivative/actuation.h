// Actuator forces and activations as functions of length, velocity, control and activation. Section A of README.md.
#ifndef COSTATE_DERIVATIVE_ACTUATION_H_
#define COSTATE_DERIVATIVE_ACTUATION_H_

#include <mujoco/mujoco.h>

#include <string>
#include <vector>

#include "derivative/columns.h"

namespace costate {

/// Slopes of one actuator's force and of its activation, all clamps applied.
struct ActuatorSlope {
  double length = 0, velocity = 0, ctrl = 0, act = 0;  ///< of the force
  double rate_ctrl = 0, rate_act = 0;                  ///< of act_dot
  double next_ctrl = 0, next_act = 0;                  ///< of act'
  int ctrl_index = -1, act_index = -1;                 ///< -1: none
};

/// act' = act + ActivationStep act_dot, before the clamp.
double ActivationStep(const mjModel* model, int actuator);

/// Is the actuator's group switched off by opt.disableactuator?
bool IsActuatorDisabled(const mjModel* model, int actuator);

/// Do the moment arms stay constant: joint transmission to a hinge or slide, or a fixed tendon?
bool HasConstantMoment(const mjModel* model, int actuator);

/// Is it a thruster: a site transmission without reference site, whose force does not depend on velocity? Its wrench
/// turns with the body, (A4).
bool IsThruster(const mjModel* model, int actuator);

/// Force slopes of all actuators in closed form.
class Actuation {
 public:
  /// "" if force and activation of this model's actuators are known in closed form, else the first that is not, and why.
  static std::string Missing(const mjModel* model);

  /// Slopes at the point. @pre `data` is after mj_fwdActuation.
  void Compute(const mjModel* model, const mjData* data);

  /// Adds momentᵀ ∂force at fixed moments to the columns (q, v, act, u) of R (README.md, eq. (A1)).
  void Add(const mjModel* model, const mjData* data, Columns* R) const;

  const std::vector<ActuatorSlope>& slopes() const { return slopes_; }
  /// Rows of joints whose total actuator force is at actuatorfrcrange: their force does not move.
  bool IsDofClamped(int dof) const { return clamped_[dof]; }

 private:
  std::vector<ActuatorSlope> slopes_;
  std::vector<char> clamped_;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_ACTUATION_H_
