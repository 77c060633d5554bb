// Checks of arguments that every module makes, with one wording.
#ifndef COSTATE_CORE_CHECK_H_
#define COSTATE_CORE_CHECK_H_

#include <costate/model.h>

#include <string>
#include <vector>

namespace costate {

/// @throws Error{kDimensionMismatch}: "u has 3 entries, model 'hopper' has nu = 2".
inline void CheckSize(const mjModel* model, const char* name, Eigen::Index size, const char* symbol, int expected) {
  if (size == expected) return;
  throw Error(ErrorCode::kDimensionMismatch, std::string(name) + " has " + std::to_string(size) +
                                                 (size == 1 ? " entry" : " entries") + ", model '" + ModelName(model) +
                                                 "' has " + symbol + " = " + std::to_string(expected));
}

/// @param names  of the entries: StateNames, ControlNames.
/// @param where  " at knot 3".
/// @throws Error{kInvalidArgument}: "U is not finite: ctrl[hip] at knot 3 is nan (model 'hopper')".
void CheckFinite(const mjModel* model, const char* what, ConstVectorRef values,
                 std::vector<std::string> (*names)(const mjModel*), const std::string& where = "");

/// The model. @throws Error{kInvalidArgument}: mj_loadXML and its like return NULL for a file that they do not like.
inline const mjModel* NotNull(const mjModel* model) {
  if (model == nullptr) throw Error(ErrorCode::kInvalidArgument, "the model is NULL");
  return model;
}

/// The options of a model that any program may have written: the engine ends the process where it meets an integrator
/// that is none, and steps without a word by a time that is none. It also crashes where a flex has passive contact of
/// condim 4 or 6 with elements or nodes of its own. A few comparisons.
/// @throws Error{kInvalidArgument}: "opt.timestep is -0.01 s, expected a finite number above 0 (model 'hopper')".
/// @throws Error{kUnsupported} for such a flex: its name, what it touches, the remedy.
void CheckModelOptions(const mjModel* model);

/// @throws Error{kInvalidArgument} for no data, and for data that was made for a model of another layout: reading it
/// would leave its buffers.
void CheckData(const mjModel* model, const mjData* data);

}  // namespace costate

#endif  // COSTATE_CORE_CHECK_H_
