// costate.smooth_contact: compliant, everywhere differentiable contact of named geoms, as a passive
// force. README.md.
#include <mujoco/mujoco.h>

#include <iterator>

#include "derivative/compliant_contact.h"
#include "engine/plugin.h"

namespace costate {
namespace {

class SmoothContactPlugin {
 public:
  SmoothContactPlugin(const mjModel* m, mjData*, int instance)
      : pairs_(ReadCompliantPairs(m, instance)) {
    const Attributes attributes(m, instance);
    if ((m->opt.disableflags & mjDSBL_SPRING) && (m->opt.disableflags & mjDSBL_DAMPER)) {
      attributes.Fail(
          "the model disables spring and damper, without which the engine asks no plugin for "
          "forces");
    }
    if (m->opt.enableflags & mjENBL_SLEEP)
      attributes.Fail("the model enables sleep: the engine would not wake what this pushes");
  }
  void Compute(const mjModel* m, mjData* d, int) {
    for (const CompliantPair& pair : pairs_) AddCompliantForce(m, d, pair, d->qfrc_passive);
  }

 private:
  const std::vector<CompliantPair> pairs_;
};

}  // namespace

void RegisterSmoothContact() {
  using Callbacks = PluginCallbacks<SmoothContactPlugin>;
  mjpPlugin plugin;
  mjp_defaultPlugin(&plugin);
  plugin.name = kSmoothContact;
  plugin.nattribute = std::size(kSmoothContactAttributes);
  plugin.attributes = kSmoothContactAttributes;
  plugin.capabilityflags = mjPLUGIN_PASSIVE;
  plugin.nstate = [](const mjModel*, int) { return 0; };
  plugin.init = Callbacks::Init;
  plugin.destroy = Callbacks::Destroy;
  plugin.compute = Callbacks::Compute;
  plugin.reset = [](const mjModel*, mjtNum*, void*, int) {};
  RegisterOnce(plugin);
}

}  // namespace costate
