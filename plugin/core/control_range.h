// The range that the engine clamps a control to.
#ifndef COSTATE_CORE_CONTROL_RANGE_H_
#define COSTATE_CORE_CONTROL_RANGE_H_

#include <mujoco/mujoco.h>

#include <algorithm>

namespace costate {

/// Lower and upper bound of control u (an actuator may have several: not the actuator's number); null where the engine
/// takes the control as it is.
inline const mjtNum* ControlRange(const mjModel* m, int u) {
  const bool clamped = m->actuator_ctrllimited[u] && !(m->opt.disableflags & mjDSBL_CLAMPCTRL);
  return clamped ? m->actuator_ctrlrange + 2 * u : nullptr;
}

inline double ClampedControl(const mjModel* m, const mjData* d, int u) {
  const mjtNum* range = ControlRange(m, u);
  return range != nullptr ? std::clamp(d->ctrl[u], range[0], range[1]) : d->ctrl[u];
}

}  // namespace costate

#endif  // COSTATE_CORE_CONTROL_RANGE_H_
