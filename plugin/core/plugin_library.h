// Libraries of engine plugins: those that come with the engine are loaded when a model asks for them.
#ifndef COSTATE_CORE_PLUGIN_LIBRARY_H_
#define COSTATE_CORE_PLUGIN_LIBRARY_H_

#include <costate/model.h>

#include <string>
#include <vector>

namespace costate {

/// Loads a shared object with engine plugins, or all of a folder.
/// @throws Error{kFile} for what is not there, or cannot be loaded, with the loader's reason.
void LoadPlugins(const std::string& path);

/// Loads the libraries that come with the engine, at the first call of a process, and returns when they are there:
/// those in the folder `plugin` beside the engine's own (PyPI's package), or in ../bin/mujoco_plugin (its releases).
void LoadEnginePlugins();

/// Of each plugin instance of the model the plugin that it is of, by name.
std::vector<std::string> PluginNames(const mjModel* model);

}  // namespace costate

#endif  // COSTATE_CORE_PLUGIN_LIBRARY_H_
