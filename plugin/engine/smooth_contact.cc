// costate.smooth_contact: compliant, everywhere differentiable contact of named geoms, as a passive force. README.md.
#include <mujoco/mujoco.h>

#include "core/plugins.h"
#include "derivative/compliant_contact.h"
#include "engine/plugin.h"

namespace costate {
namespace {

class SmoothContactPlugin {
 public:
  SmoothContactPlugin(const mjModel* m, mjData*, int instance) : pairs_(ReadCompliantPairs(m, instance)) {
    const Attributes attributes(m, instance);
    const auto refuse = [&](const std::string& why) {
      if (IsBeingCompiled(m)) attributes.Fail(why);
      WarnOnce(attributes.owner() + ": " + why);
    };
    if (!HasPassiveForces(m))
      refuse("the model disables spring and damper, without which the engine asks no plugin for forces");
    // the compiler tries models without sleep, whatever they say
    if (m->opt.enableflags & mjENBL_SLEEP)
      refuse("the model enables sleep: the engine does not wake what this pushes (remedy: switch sleep off)");
  }
  void Compute(const mjModel* m, mjData* d, int) {
    for (const CompliantPair& pair : pairs_) AddCompliantForce(m, d, pair, d->qfrc_passive);
  }

 private:
  const std::vector<CompliantPair> pairs_;
};

}  // namespace

void RegisterSmoothContact() {
  RegisterOnce(MakePlugin<SmoothContactPlugin>(kSmoothContact, kSmoothContactAttributes, mjPLUGIN_PASSIVE));
}

}  // namespace costate
