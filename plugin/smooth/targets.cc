#include "smooth/targets.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/collision_filter.h"
#include "core/element.h"
#include "core/joint.h"
#include "smooth/add_pairs.h"

namespace costate {
namespace {

int FindTarget(const mjModel* m, int type, const char* what, const std::string& name) {
  return FindNamed(m, type, what, name, "smoothing: ");
}

std::vector<int> AllBelow(mjtSize n) {
  std::vector<int> out;
  for (int i = 0; i < n; i++) out.push_back(i);
  return out;
}

void AddJoint(const mjModel* m, int j, SmoothElements* out) {
  if (m->jnt_limited[j]) out->joints.push_back(j);
  for (int dof = m->jnt_dofadr[j]; dof < m->jnt_dofadr[j] + JointDofs(m->jnt_type[j]); dof++) {
    if (m->dof_frictionloss[dof] > 0) out->dofs.push_back(dof);
  }
}

void AddTendon(const mjModel* m, int t, SmoothElements* out) {
  if (m->tendon_limited[t]) out->tendons.push_back(t);
  if (m->tendon_frictionloss[t] > 0) out->friction_tendons.push_back(t);
}

void RefuseNamed(const mjModel* m, const SmoothContact& options) {
  if (m->opt.enableflags & mjENBL_OVERRIDE) {
    throw Error(ErrorCode::kInvalidArgument,
                "smoothing: the option flag 'override' sets the parameters of all contacts of model '" + ModelName(m) +
                    "': contacts cannot be named one by one");
  }
  if (options.friction > 0 && m->opt.cone != mjCONE_ELLIPTIC) {
    throw Error(ErrorCode::kInvalidArgument,
                "smoothing: friction of named contacts needs cone=\"elliptic\": a pyramid's edges carry "
                "friction and normal force together; name no contact, and all get elliptic cones");
  }
}

// pairs of geoms whose contacts are named
std::set<std::pair<int, int>> NamedContacts(const mjModel* m, const SmoothTargets& targets) {
  std::set<std::pair<int, int>> out;
  const auto add = [&](int a, int b) { out.insert({std::min(a, b), std::max(a, b)}); };
  for (const std::string& name : targets.geoms) {
    const int g = FindTarget(m, mjOBJ_GEOM, "geom", name);
    for (int other = 0; other < m->ngeom; other++) {
      if (FindPair(m, g, other) >= 0 || MayTouch(m, g, other)) add(g, other);
    }
  }
  for (const SmoothTargets::GeomPair& pair : targets.pairs) {
    const int a = FindTarget(m, mjOBJ_GEOM, "geom", pair.geom1);
    const int b = FindTarget(m, mjOBJ_GEOM, "geom", pair.geom2);
    if (FindPair(m, a, b) < 0 && !MayTouch(m, a, b)) {
      throw Error(ErrorCode::kInvalidArgument, "smoothing: geoms '" + pair.geom1 + "' and '" + pair.geom2 +
                                                   "' never touch: their masks, bodies or an exclusion forbid it");
    }
    add(a, b);
  }
  return out;
}

}  // namespace

ModelPtr ResolveTargets(const mjModel* m, const SmoothContact& options, SmoothElements* out) {
  const SmoothTargets& targets = options.targets;
  if (targets.all()) {
    out->all_contacts = true;
    out->override = m->opt.enableflags & mjENBL_OVERRIDE;
    for (int g = 0; g < m->ngeom; g++) {
      if (m->geom_contype[g] || m->geom_conaffinity[g]) out->geoms.push_back(g);
    }
    out->pairs = AllBelow(m->npair);
    out->flexes = AllBelow(m->nflex);
    for (int j = 0; j < m->njnt; j++) AddJoint(m, j, out);
    for (int t = 0; t < m->ntendon; t++) AddTendon(m, t, out);
    return CopyModel(m);
  }
  for (const std::string& name : targets.joints) AddJoint(m, FindTarget(m, mjOBJ_JOINT, "joint", name), out);
  for (const std::string& name : targets.tendons) AddTendon(m, FindTarget(m, mjOBJ_TENDON, "tendon", name), out);
  if (targets.geoms.empty() && targets.pairs.empty()) return CopyModel(m);

  RefuseNamed(m, options);
  const std::set<std::pair<int, int>> contacts = NamedContacts(m, targets);
  std::vector<ContactPair> added;
  for (const auto& [a, b] : contacts) {
    if (FindPair(m, a, b) < 0) added.push_back(MixPair(m, a, b));
  }
  ModelPtr copy = AddPairs(m, added);
  for (const auto& [a, b] : contacts) out->pairs.push_back(FindPair(copy.get(), a, b));
  return copy;
}

}  // namespace costate
