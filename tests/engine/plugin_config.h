// Text of a plugin's configuration in MJCF.
#ifndef COSTATE_TESTS_ENGINE_PLUGIN_CONFIG_H_
#define COSTATE_TESTS_ENGINE_PLUGIN_CONFIG_H_

#include <costate/model.h>

#include <string>

namespace costate {

inline std::string Config(const std::string& key, const std::string& value) {
  return "<config key='" + key + "' value='" + value + "'/>";
}

/// What a host is told when it makes this model; "" when nothing is wrong.
inline std::string LoadErrorOf(const std::string& xml) {
  try {
    LoadModelFromString(xml);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace costate

#endif  // COSTATE_TESTS_ENGINE_PLUGIN_CONFIG_H_
