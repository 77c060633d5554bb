// What the plugins share: attributes from MJCF, callbacks that let no exception through, registration.
#ifndef COSTATE_ENGINE_PLUGIN_H_
#define COSTATE_ENGINE_PLUGIN_H_

#include <mujoco/mujoco.h>

#include <cstdint>
#include <exception>
#include <mutex>
#include <set>
#include <string>

#include "core/plugin_attributes.h"

namespace costate {

/// Callbacks of a plugin whose instance data is a T: T(m, d, instance) may throw, nothing else may.
template <typename T>
struct PluginCallbacks {
  static T* Of(const mjData* d, int instance) { return reinterpret_cast<T*>(d->plugin_data[instance]); }

  static int Init(const mjModel* m, mjData* d, int instance) {
    d->plugin_data[instance] = 0;
    std::string why;
    try {
      d->plugin_data[instance] = reinterpret_cast<std::uintptr_t>(new T(m, d, instance));
      return 0;
    } catch (const std::exception& error) {
      why = error.what();
    } catch (...) {
      why = "unknown error";
    }
    // after all guards are gone: the host hears it, and a compiler puts it into its error text
    mju_warning("%s", why.c_str());
    return -1;
  }
  static void Destroy(mjData* d, int instance) {
    delete Of(d, instance);
    d->plugin_data[instance] = 0;
  }
  static void Compute(const mjModel* m, mjData* d, int instance, int capability) {
    if (T* plugin = Of(d, instance)) plugin->Compute(m, d, capability);
  }
};

/// Is the model still in the compiler, which tries it with data before it signs it? What is wrong is an error of loading
/// then. Later, at mj_makeData, an init that fails ends the host's process: what only a host can have brought about, or
/// the compiler does not see, is a warning there.
inline bool IsBeingCompiled(const mjModel* m) { return m->signature == 0; }

/// mju_warning, the same text once in a process.
inline void WarnOnce(const std::string& text) {
  static std::mutex mutex;
  static auto* said = new std::set<std::string>;  // data may be made after main
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!said->insert(text).second) return;
  }
  mju_warning("%s", text.c_str());
}

/// A plugin without state whose instance data is a T; what else it has is filled in by the caller.
/// @param name, attributes  stay alive.  @param capabilities  mjtPluginCapabilityBit
template <typename T, int count>
mjpPlugin MakePlugin(const char* name, const char* const (&attributes)[count], int capabilities) {
  mjpPlugin plugin;
  mjp_defaultPlugin(&plugin);
  plugin.name = name;
  plugin.nattribute = count;
  plugin.attributes = attributes;
  plugin.capabilityflags = capabilities;
  plugin.nstate = [](const mjModel*, int) { return 0; };
  plugin.reset = [](const mjModel*, mjtNum*, void*, int) {};
  plugin.init = PluginCallbacks<T>::Init;
  plugin.destroy = PluginCallbacks<T>::Destroy;
  plugin.compute = PluginCallbacks<T>::Compute;
  return plugin;
}

/// Makes a plugin known unless its name is: another copy of this library may be in the process, where a second
/// registration would end it.
inline void RegisterOnce(const mjpPlugin& plugin) {
  if (!mjp_getPlugin(plugin.name, nullptr)) mjp_registerPlugin(&plugin);
}

/// Each makes one plugin known to the engine; register.cc calls them when the library is loaded.
void RegisterLinearization();
void RegisterMpc();
void RegisterPolicy();
void RegisterSmoothContact();

}  // namespace costate

#endif  // COSTATE_ENGINE_PLUGIN_H_
