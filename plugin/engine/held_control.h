// Controls that a plugin writes before the engine reads ctrl, held in plugin state: copies of the data go on alike.
#ifndef COSTATE_ENGINE_HELD_CONTROL_H_
#define COSTATE_ENGINE_HELD_CONTROL_H_

#include <mujoco/mujoco.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "core/interval.h"
#include "core/plugins.h"
#include "engine/plugin.h"

namespace costate {

inline constexpr const char* kControlPlugins[] = {"costate.policy", "costate.mpc"};

/// What a reset to a start puts back beside x; sizes of these do not depend on plugins.
inline constexpr int kStartContext = mjSTATE_WARMSTART | mjSTATE_QFRC_APPLIED | mjSTATE_XFRC_APPLIED |
                                     mjSTATE_EQ_ACTIVE | mjSTATE_MOCAP_POS | mjSTATE_MOCAP_QUAT | mjSTATE_USERDATA |
                                     mjSTATE_PLASTIC;

/// A view of one instance's state: when the held controls were made, when the step began, whether it has ended since,
/// the controls, and those before them.
class HeldControl {
 public:
  HeldControl(const mjModel* m, mjData* d, int instance)
      : m_(m), d_(d), state_(d->plugin_state + m->plugin_stateadr[instance]) {}

  /// Binary models of older releases have no room for the controls before.
  static bool HasBefore(const mjModel* m, int instance) { return m->plugin_statenum[instance] >= Size(m); }
  static int Size(const mjModel* m) { return kControls + 2 * static_cast<int>(m->nu); }
  static void Reset(const mjModel* m, mjtNum* state, int instance) {
    mju_zero(state, m->plugin_statenum[instance]);
    state[kMadeAt] = state[kStepBegan] = -mjMAXVAL;
  }

  /// Later stages of RK4 belong to the step that is under way, and hold its control: false. Else a step begins.
  bool BeginsStep() {
    const double time = d_->time, began = state_[kStepBegan];
    const bool stage = m_->opt.integrator == mjINT_RK4 && state_[kStepEnded] == 0 && time > began &&
                       time <= began + m_->opt.timestep * (1 + kIntervalSlack);
    if (stage) return false;
    state_[kStepBegan] = time;
    state_[kStepEnded] = 0;
    return true;
  }
  void EndStep() { state_[kStepEnded] = 1; }

  double made_at() const { return state_[kMadeAt]; }
  mjtNum* u() { return state_ + kControls; }
  void SetMade() { state_[kMadeAt] = d_->time; }

  /// Those of the interval before, 0 at first: to be called before others are made, once more where they are made anew
  /// for the same instant.
  /// @pre  HasBefore
  const mjtNum* KeepBefore() {
    mjtNum* before = state_ + kControls + m_->nu;
    if (d_->time != made_at()) mju_copy(before, u(), static_cast<int>(m_->nu));
    return before;
  }
  void Act() { mju_copy(d_->ctrl, u(), static_cast<int>(m_->nu)); }

 private:
  enum { kMadeAt = 0, kStepBegan = 1, kStepEnded = 2, kControls = 3 };

  const mjModel* m_;
  mjData* d_;
  mjtNum* state_;
};

/// What keeps an instance from writing controls: a model that never asks it, and another one that would write them, too.
inline void CheckWritesControls(const mjModel* m, const Attributes& attributes, int instance) {
  if (!HasPassiveForces(m)) {
    const std::string why =
        "the model disables spring and damper, without which the engine asks no plugin before it reads ctrl";
    if (IsBeingCompiled(m)) attributes.Fail(why);
    WarnOnce(attributes.owner() + ": " + why);
  }
  for (int i = 0; i < instance; ++i) {
    const mjpPlugin* other = mjp_getPluginAtSlot(m->plugin[i]);
    const std::string name = other ? other->name : "";
    if (m->plugin[i] == m->plugin[instance])
      attributes.Fail("it is the second of its kind: both would set all controls");
    if (std::ranges::find(kControlPlugins, name) != std::end(kControlPlugins))
      attributes.Fail("the model has a " + name + ", too: both would set all controls");
  }
}

/// A plugin whose instances write controls by a HeldControl; T has Reset(m, state) and Compute. Passive: the only stage
/// ahead of actuation in a step.
template <typename T, int count>
mjpPlugin MakeControlPlugin(const char* name, const char* const (&attributes)[count], int more_capabilities = 0) {
  mjpPlugin plugin = MakePlugin<T>(name, attributes, mjPLUGIN_PASSIVE | more_capabilities);
  plugin.nstate = [](const mjModel* m, int) { return HeldControl::Size(m); };
  plugin.reset = [](const mjModel* m, mjtNum* state, void* data, int instance) {
    HeldControl::Reset(m, state, instance);
    if (data) static_cast<T*>(data)->Reset(m);
  };
  plugin.advance = [](const mjModel* m, mjData* d, int instance) {
    if (PluginCallbacks<T>::Of(d, instance)) HeldControl(m, d, instance).EndStep();
  };
  return plugin;
}

}  // namespace costate

#endif  // COSTATE_ENGINE_HELD_CONTROL_H_
