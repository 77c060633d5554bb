// Are callbacks of the engine Python's? Those of MuJoCo's bindings know the bindings' own models and data alone.
#ifndef COSTATE_ENGINE_PYTHON_CALLBACKS_H_
#define COSTATE_ENGINE_PYTHON_CALLBACKS_H_

namespace costate {

/// @throws Error{kUnsupported} with the callback's name, where one that a step calls (mjcb_control …) is a function of
/// MuJoCo's Python bindings: of the private data that Costate steps they know nothing and call mju_error, through frames
/// that no exception may pass.
void RefusePythonCallbacks();

}  // namespace costate

#endif  // COSTATE_ENGINE_PYTHON_CALLBACKS_H_
