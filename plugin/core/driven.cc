#include "core/driven.h"

#include <costate/model.h>
#include <fmt/format.h>

#include <utility>

#include "core/engine_guard.h"

namespace costate {

std::vector<char> DrivenDofs(const mjModel* m, mjData* d) {
  mj_tendon(m, d);
  mj_transmission(m, d);
  std::vector<char> driven(static_cast<std::size_t>(m->nv));
  for (int i = 0; i < m->nout; ++i) {
    for (int k = 0; k < d->moment_rownnz[i]; ++k) {
      const int at = d->moment_rowadr[i] + k;
      if (d->actuator_moment[at] != 0) driven[static_cast<std::size_t>(d->moment_colind[at])] = 1;
    }
  }
  return driven;
}

std::vector<char> DrivenDofs(const mjModel* m) {
  const DataPtr data = MakeData(m);
  const EngineGuard guard(data.get());
  mj_kinematics(m, data.get());
  mj_comPos(m, data.get());
  return DrivenDofs(m, data.get());
}

std::string MocapHold::Text(const mjModel* m) const {
  return fmt::format("mocap body '{}' holds '{}': it goes where a program sets that body, no control moves it",
                     ElementName(m, mjOBJ_BODY, mocap), ElementName(m, mjOBJ_BODY, held));
}

MocapHold FindMocapHold(const mjModel* m, int tree) {
  for (int i = 0; i < m->neq; ++i) {
    if ((m->eq_type[i] != mjEQ_WELD && m->eq_type[i] != mjEQ_CONNECT) || m->eq_objtype[i] != mjOBJ_BODY) continue;
    int mocap = m->eq_obj1id[i], held = m->eq_obj2id[i];
    if (m->body_mocapid[mocap] < 0) std::swap(mocap, held);
    if (m->body_mocapid[mocap] >= 0 && (tree < 0 || m->body_treeid[held] == tree)) return {mocap, held};
  }
  return {};
}

}  // namespace costate
