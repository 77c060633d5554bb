// What MuJoCo sees when it loads this shared object with mj_loadPluginLibrary.
#include <mujoco/mujoco.h>

#include "engine/plugin.h"

namespace costate {
namespace {

// Runs when the object is loaded, by a host or by the linker: it must neither print nor touch the engine's handlers.
mjPLUGIN_LIB_INIT(costate) {
  RegisterLinearization();
  RegisterMpc();
  RegisterPolicy();
  RegisterSmoothContact();
}

}  // namespace
}  // namespace costate
