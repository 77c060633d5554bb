// Compiled models that another process may have written.
#ifndef COSTATE_CORE_MODEL_H_
#define COSTATE_CORE_MODEL_H_

#include <costate/model.h>

#include <string>
#include <vector>

namespace costate {

/// Does the file's name say that it is a compiled model (.mjb, in letters of either case)?
bool IsCompiledModel(const std::string& path);

/// DeserializeModel of bytes that another process may have written: they hold plugins by the order in which that one
/// came to know them, `plugins` (PluginNames of core/plugin_library.h) by name.
/// @throws Error{kUnsupported} for a plugin that nobody has loaded and the engine does not bring.
ModelPtr DeserializeModel(const std::vector<unsigned char>& bytes, const std::vector<std::string>& plugins);

}  // namespace costate

#endif  // COSTATE_CORE_MODEL_H_
