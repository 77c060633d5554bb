// Servos that pull a joint to where their control is.
#ifndef COSTATE_OPTIMIZER_POSITION_SERVO_H_
#define COSTATE_OPTIMIZER_POSITION_SERVO_H_

#include <costate/model.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/driven.h"
#include "core/extremes.h"
#include "core/joint.h"

namespace costate {

/// Of a hinge or slide, whose force follows at once: gain u + bias + stiffness q + …
struct PositionServo {
  int control, joint;
  double gain, bias, stiffness;
  double stroke;  ///< of the control between its limits of force while the joint is at rest; infinite without limits

  /// The control at which it pulls nowhere while its joint rests at q.
  double ControlAt(double q) const { return -(bias + stiffness * q) / gain; }
  /// The other way round.
  double PositionAt(double u) const { return -(bias + gain * u) / stiffness; }
};

/// Is this actuator's force one number on a hinge or slide, that follows its control at once and in proportion?
inline bool DrivesJoint(const mjModel* m, int i) {
  return ActsOnJoint(m, i) && IsScalarJoint(m->jnt_type[m->actuator_trnid[2 * i]]) &&
         m->actuator_dyntype[i] == mjDYN_NONE && m->actuator_gaintype[i] == mjGAIN_FIXED &&
         m->actuator_ctrlnum[i] == 1 && m->actuator_outnum[i] == 1 && m->actuator_plugin[i] < 0;
}

inline std::vector<PositionServo> PositionServos(const mjModel* m) {
  std::vector<PositionServo> servos;
  if (m->opt.disableflags & mjDSBL_ACTUATION) return servos;
  for (int i = 0; i < m->nactuator; ++i) {
    const int joint = m->actuator_trnid[2 * i];
    if (!DrivesJoint(m, i) || m->actuator_biastype[i] != mjBIAS_AFFINE) continue;
    const double gain = m->actuator_gainprm[mjNGAIN * i], gear = m->actuator_gear[6 * m->actuator_outadr[i]];
    const mjtNum* bias = m->actuator_biasprm + mjNBIAS * i;
    if (gain == 0 || !(bias[1] < 0) || gear == 0) continue;
    double range = kInf;
    if (m->actuator_forcelimited[i]) range = m->actuator_forcerange[2 * i + 1] - m->actuator_forcerange[2 * i];
    if (m->jnt_actfrclimited[joint])
      range = std::min(range, (m->jnt_actfrcrange[2 * joint + 1] - m->jnt_actfrcrange[2 * joint]) / std::abs(gear));
    servos.push_back({m->actuator_ctrladr[i], joint, gain, bias[0], bias[1] * gear, range / std::abs(gain)});
  }
  return servos;
}

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_POSITION_SERVO_H_
