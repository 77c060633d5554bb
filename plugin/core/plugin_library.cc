#include "core/plugin_library.h"

#include <dlfcn.h>
#include <mujoco/mujoco.h>

#include <filesystem>
#include <mutex>
#include <system_error>

#include "core/engine_guard.h"

namespace costate {

namespace fs = std::filesystem;

void LoadPlugins(const std::string& path) {
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (!fs::exists(status)) throw Error(ErrorCode::kFile, "plugin library '" + path + "' does not exist");
  EngineGuard guard;
  try {
    if (fs::is_directory(status)) {
      mj_loadAllPluginLibraries(path.c_str(), nullptr);
    } else {
      // a name without a slash would be looked for where the loader looks
      mj_loadPluginLibrary(fs::absolute(path).c_str());
    }
  } catch (const Error& error) {
    throw Error(ErrorCode::kFile, "plugin library '" + path + "' cannot be loaded: " + error.what());
  }
}

void LoadEnginePlugins() {
  static std::once_flag once;
  std::call_once(once, [] {
    Dl_info engine;
    if (dladdr(reinterpret_cast<const void*>(&mj_version), &engine) == 0 || engine.dli_fname == nullptr) return;
    std::error_code code;
    const fs::path folder = fs::canonical(engine.dli_fname, code).parent_path();
    for (const fs::path& place : {folder / "plugin", folder.parent_path() / "bin" / "mujoco_plugin"}) {
      if (!fs::is_directory(place, code)) continue;
      LoadPlugins(place);
      break;
    }
  });
}

std::vector<std::string> PluginNames(const mjModel* model) {
  std::vector<std::string> names;
  for (int i = 0; i < model->nplugin; i++) {
    const mjpPlugin* plugin = mjp_getPluginAtSlot(model->plugin[i]);
    names.emplace_back(plugin ? plugin->name : "");
  }
  return names;
}

}  // namespace costate
