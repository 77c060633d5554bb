#include "core/driven.h"

#include <costate/model.h>
#include <fmt/format.h>

#include <algorithm>
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

bool HasUndrivenDofs(const mjModel* m) {
  const std::vector<char> driven = DrivenDofs(m);
  return std::ranges::find(driven, 0) != driven.end();
}

std::vector<char> LooseDofs(const mjModel* m) {
  std::vector<char> held(static_cast<std::size_t>(m->ntree), 0), loose(static_cast<std::size_t>(m->nv), 0);
  const auto hold = [&](int body) {
    if (body >= 0 && m->body_treeid[body] >= 0) held[static_cast<std::size_t>(m->body_treeid[body])] = 1;
  };
  const std::vector<char> driven = DrivenDofs(m);
  for (int j = 0; j < m->nv; ++j) {
    if (driven[static_cast<std::size_t>(j)]) hold(m->dof_bodyid[j]);
  }
  for (int i = 0; i < m->neq; ++i) {
    for (const int id : {m->eq_obj1id[i], m->eq_obj2id[i]}) {
      if (id < 0) continue;
      if (m->eq_type[i] == mjEQ_JOINT) hold(m->jnt_bodyid[id]);
      else if (m->eq_type[i] == mjEQ_WELD || m->eq_type[i] == mjEQ_CONNECT)
        hold(m->eq_objtype[i] == mjOBJ_SITE ? m->site_bodyid[id] : id);
    }
  }
  for (int w = 0; w < m->nwrap; ++w) {
    const int id = m->wrap_objid[w];
    if (m->wrap_type[w] == mjWRAP_JOINT) hold(m->jnt_bodyid[id]);
    if (m->wrap_type[w] == mjWRAP_SITE) hold(m->site_bodyid[id]);
  }
  for (int v = 0; v < m->nflexvert; ++v) hold(m->flex_vertbodyid[v]);
  for (int j = 0; j < m->nv; ++j)
    loose[static_cast<std::size_t>(j)] = !held[static_cast<std::size_t>(m->dof_treeid[j])];
  return loose;
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
