// costate.smooth_contact: compliant, everywhere differentiable contact of named geoms, as a passive force. README.md.
#include <mujoco/mujoco.h>

#include <exception>
#include <string>
#include <vector>

#include "core/plugins.h"
#include "derivative/compliant_contact.h"
#include "engine/plugin.h"

namespace costate {
namespace {

// what a host has made of a compiled model is no reason to end its process
std::vector<CompliantPair> PairsOf(const mjModel* m, int instance) {
  try {
    return ReadCompliantPairs(m, instance);
  } catch (const std::exception& error) {
    if (IsBeingCompiled(m)) throw;
    WarnOnce(std::string(error.what()) + "; there is no force between them");
    return {};
  }
}

class SmoothContactPlugin {
 public:
  SmoothContactPlugin(const mjModel* m, mjData*, int instance) : pairs_(PairsOf(m, instance)) {
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
