// The states at which a check compares: the one asked for, a free motion, and a contact.
#ifndef COSTATE_DERIVATIVE_CHECK_STATES_H_
#define COSTATE_DERIVATIVE_CHECK_STATES_H_

#include <costate/model.h>

#include <functional>
#include <string>
#include <vector>

namespace costate {

struct CheckStateOptions {
  std::string key;         ///< keyframe; "": the model's default state
  std::string state_file;  ///< numbers: x, or x and u; "": none
  int steps = 0;           ///< engine steps from there before checking
  /// Asked in front of each of them; false ends them, and there are no states.
  std::function<bool(int step)> go_on;
};

/// One state to check at. `contacts_off`: with option flag contact disabled.
struct CheckState {
  std::string name;         ///< "given", "free motion", "contact"
  std::string description;  ///< in words: where it comes from
  DataPtr data;
  bool contacts_off = false;
};

/// The states that the model has; `notes` says which one it does not have, and why.
/// @throws Error{kFile}, Error{kInvalidArgument} for a bad key or state file.
std::vector<CheckState> MakeCheckStates(const mjModel* model, const CheckStateOptions& options,
                                        std::vector<std::string>* notes);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_CHECK_STATES_H_
