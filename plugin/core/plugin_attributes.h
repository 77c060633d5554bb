// The configuration of a plugin instance in a compiled model.
#ifndef COSTATE_CORE_PLUGIN_ATTRIBUTES_H_
#define COSTATE_CORE_PLUGIN_ATTRIBUTES_H_

#include <mujoco/mujoco.h>

#include <string>
#include <vector>

namespace costate {

/// The configuration of one plugin instance. Whatever is wrong is an Error{kInvalidArgument} that
/// names instance and attribute.
class Attributes {
 public:
  Attributes(const mjModel* model, int instance);

  std::string Text(const char* key) const;  ///< without blanks at its ends; "" when not given
  std::string Required(const char* key) const;
  std::vector<std::string> Words(const char* key) const;  ///< at blanks
  double Number(const char* key, double otherwise) const;
  double Positive(const char* key, double otherwise) const;
  double NotNegative(const char* key, double otherwise) const;
  /// Index of the word among `words`.
  int Choice(const char* key, const std::vector<std::string>& words, int otherwise) const;

  const std::string& owner() const { return owner_; }  ///< "costate.policy 'playback'"

  /// "costate.policy 'playback': end: WHY".
  [[noreturn]] void Fail(const char* key, const std::string& why) const;
  /// "costate.policy 'playback': WHY".
  [[noreturn]] void Fail(const std::string& why) const;

 private:
  const mjModel* model_;
  int instance_;
  std::string owner_;
};

}  // namespace costate

#endif  // COSTATE_CORE_PLUGIN_ATTRIBUTES_H_
