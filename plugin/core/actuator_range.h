// The ranges that the engine clamps controls and actuators' forces to.
#ifndef COSTATE_CORE_ACTUATOR_RANGE_H_
#define COSTATE_CORE_ACTUATOR_RANGE_H_

#include <mujoco/mujoco.h>

#include <algorithm>
#include <vector>

namespace costate {

/// Lower and upper bound of control u (an actuator may have several: not the actuator's number); null where the engine
/// takes the control as it is.
inline const mjtNum* ControlRange(const mjModel* m, int u) {
  const bool clamped = m->actuator_ctrllimited[u] && !(m->opt.disableflags & mjDSBL_CLAMPCTRL);
  return clamped ? m->actuator_ctrlrange + 2 * u : nullptr;
}

/// The same of each force of actuator i; null where its force has no limits.
inline const mjtNum* ForceRange(const mjModel* m, int i) {
  return m->actuator_forcelimited[i] ? m->actuator_forcerange + 2 * i : nullptr;
}

/// Does the value stand at a bound or beyond? Never without a range.
inline bool IsAtLimit(double value, const mjtNum* range) {
  return range != nullptr && (value <= range[0] || value >= range[1]);
}

/// Does any force of actuator i stand at its limit? That of a servo on an orientation (so3) is limited in norm, which
/// the engine scales down.
inline bool IsForceAtLimit(const mjModel* m, const mjData* d, int i) {
  constexpr double kScaled = 1e-12;  // rounding of that
  const mjtNum *range = ForceRange(m, i), *force = d->actuator_force + m->actuator_outadr[i];
  if (range != nullptr && m->actuator_gaintype[i] == mjGAIN_SO3) return mju_norm3(force) >= range[1] * (1 - kScaled);
  return std::any_of(force, force + m->actuator_outnum[i], [&](mjtNum f) { return IsAtLimit(f, range); });
}

/// An input of actuator i before its clamp: its control or, with a delay, what the history has of it at data->time.
inline double GivenControl(const mjModel* m, const mjData* d, int i, int input = 0) {
  if (m->actuator_delay[i] == 0) return d->ctrl[m->actuator_ctrladr[i] + input];
  std::vector<mjtNum> between(m->actuator_ctrlnum[i]);
  const mjtNum* stored = mj_readCtrl(m, d, i, d->time, between.data(), m->actuator_history[2 * i + 1]);
  return stored ? stored[input] : between[input];
}

/// The same, clamped.
inline double ClampedControl(const mjModel* m, const mjData* d, int i, int input = 0) {
  const mjtNum* range = ControlRange(m, m->actuator_ctrladr[i] + input);
  const double value = GivenControl(m, d, i, input);
  return range != nullptr ? std::clamp(value, range[0], range[1]) : value;
}

}  // namespace costate

#endif  // COSTATE_CORE_ACTUATOR_RANGE_H_
