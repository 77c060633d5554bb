#include "derivative/inverse_dynamics.h"

#include <algorithm>

#include "core/plugins.h"
#include "derivative/effective_mass.h"
#include "derivative/equilibrium.h"

namespace costate {

std::string InverseRefusal(const mjModel* m) {
  const auto enabled = [&](int bit) { return (m->opt.enableflags & bit) != 0; };
  const bool explicit_step = IsDiscrete(m) || (m->opt.integrator == mjINT_EULER && !HasImplicitVelocity(m));
  if (enabled(mjENBL_INVDISCRETE) && !explicit_step)
    return "inverse discrete: qacc is turned into that of continuous time first";
  if (enabled(mjENBL_SPECULATIVE)) return "speculative contacts depend on velocity";
  if (enabled(mjENBL_IPC)) return "ipc flex contact";
  if (HasMovingPluginState(m)) return "plugin state is not part of x";
  if (mjcb_control) return "a control callback is installed";
  return "";
}

StepStatus RunInverse(const mjModel* model, mjData* d, ConstVectorRef qacc) {
  mjWarningStat before[mjNWARNING];
  std::copy(d->warning, d->warning + mjNWARNING, before);
  mjModel local = *model;
  local.opt.enableflags &= ~mjENBL_INVDISCRETE;
  mju_zero(d->qfrc_applied, static_cast<int>(model->nv));
  mju_zero(d->xfrc_applied, 6 * static_cast<int>(model->nbody));
  if (IsDiscrete(model)) {  // the metric has damping and stiffness of actuators, as far as they are within their limits
    mj_fwdPosition(&local, d);
    mj_fwdVelocity(&local, d);
    mj_fwdActuation(&local, d);
  }
  mju_copy(d->qacc, qacc.data(), static_cast<int>(model->nv));
  mj_inverse(&local, d);
  return ForwardStatus(&local, d, before);
}

}  // namespace costate
