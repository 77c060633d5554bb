#include "engine/python_callbacks.h"

#include <costate/error.h>
#include <dlfcn.h>
#include <mujoco/mujoco.h>

#include <string>

namespace costate {
namespace {

// the bindings' module is _callbacks.cpython-312-x86_64-linux-gnu.so; what ctypes made lies in no library
bool IsOfPythonBindings(const void* function) {
  Dl_info library{};
  if (dladdr(function, &library) == 0 || library.dli_fname == nullptr) return false;
  const std::string path = library.dli_fname;
  return path.compare(path.rfind('/') + 1, 10, "_callbacks") == 0;
}

template <typename Function>
void RefusePython(const char* name, Function* callback) {
  if (callback == nullptr || !IsOfPythonBindings(reinterpret_cast<const void*>(callback))) return;
  throw Error(ErrorCode::kUnsupported,
              std::string(name) +
                  " is a Python function: MuJoCo's bindings end the process when it is called with data that is not "
                  "theirs, as Costate's own is (remedy: mujoco.set_" +
                  name + "(None), or the address of a C function)");
}

}  // namespace

// mjcb_time is given neither model nor data
void RefusePythonCallbacks() {
  RefusePython("mjcb_control", mjcb_control);
  RefusePython("mjcb_passive", mjcb_passive);
  RefusePython("mjcb_contactfilter", mjcb_contactfilter);
  RefusePython("mjcb_sensor", mjcb_sensor);
  RefusePython("mjcb_act_dyn", mjcb_act_dyn);
  RefusePython("mjcb_act_gain", mjcb_act_gain);
  RefusePython("mjcb_act_bias", mjcb_act_bias);
}

}  // namespace costate
