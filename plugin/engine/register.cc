// What MuJoCo sees when it loads this shared object with mj_loadPluginLibrary.
#include <mujoco/mujoco.h>

namespace costate {
namespace {

// Runs when the object is loaded, by a host or by the linker: it must neither print nor touch the engine's handlers.
// No plugin is registered: the C interface is what a host finds here.
mjPLUGIN_LIB_INIT(costate) {}

}  // namespace
}  // namespace costate
