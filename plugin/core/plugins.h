// What the engine plugins of a model may do to a step: a plugin that only senses changes nothing.
#ifndef COSTATE_CORE_PLUGINS_H_
#define COSTATE_CORE_PLUGINS_H_

#include <mujoco/mujoco.h>

namespace costate {

/// Has instance `i` any of these capabilities (mjtPluginCapabilityBit)?
inline bool HasCapability(const mjModel* model, int i, int bits) {
  const mjpPlugin* plugin = mjp_getPluginAtSlot(model->plugin[i]);
  return !plugin || (plugin->capabilityflags & bits) != 0;
}

/// Has any instance?
inline bool HasPlugins(const mjModel* model, int bits) {
  for (int i = 0; i < model->nplugin; ++i) {
    if (HasCapability(model, i, bits)) return true;
  }
  return false;
}

/// Does the engine compute passive forces, its own and those of plugins? Not where springs and dampers are both
/// disabled.
inline bool HasPassiveForces(const mjModel* model) {
  constexpr int kBoth = mjDSBL_SPRING | mjDSBL_DAMPER;
  return (model->opt.disableflags & kBoth) != kBoth;
}

inline constexpr int kMovingPlugins = mjPLUGIN_ACTUATOR | mjPLUGIN_PASSIVE | mjPLUGIN_SDF;

/// Does a step hand on plugin state on which later motion may depend?
inline bool HasMovingPluginState(const mjModel* model) {
  for (int i = 0; i < model->nplugin; ++i) {
    if (model->plugin_statenum[i] > 0 && HasCapability(model, i, kMovingPlugins)) return true;
  }
  return false;
}

/// Is it a sensor of a plugin that hands a state on, in which values of earlier steps may be?
inline bool ShowsPluginState(const mjModel* model, int sensor) {
  if (model->sensor_type[sensor] != mjSENS_PLUGIN) return false;
  const int plugin = model->sensor_plugin[sensor];
  return plugin >= 0 && model->plugin_statenum[plugin] > 0;
}

/// May something of a step depend on what the engine only reports, sensors and poses of cameras? Delays, plugins that
/// move the model or keep a state, and a user's callbacks.
inline bool MayReadReports(const mjModel* model) {
  return model->nhistory > 0 || model->npluginstate > 0 || HasPlugins(model, kMovingPlugins) || mjcb_passive ||
         mjcb_control || mjcb_contactfilter || mjcb_act_dyn || mjcb_act_gain || mjcb_act_bias;
}

}  // namespace costate

#endif  // COSTATE_CORE_PLUGINS_H_
