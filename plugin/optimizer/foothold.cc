#include "optimizer/foothold.h"

#include "core/joint.h"

namespace costate {

std::vector<Foothold> FindFootholds(const mjModel* m, const mjData* d) {
  std::vector<Foothold> feet;
  const auto tree_of = [m](int geom) { return m->body_treeid[m->geom_bodyid[geom]]; };
  for (const mjContact* contact = d->contact; contact != d->contact + d->ncon; ++contact) {
    if (contact->geom[0] < 0 || contact->geom[1] < 0 || contact->efc_address < 0) continue;
    for (const int side : {0, 1}) {
      const int geom = contact->geom[side], on = contact->geom[1 - side], body = m->geom_bodyid[geom];
      if (tree_of(geom) < 0 || tree_of(on) >= 0 || !HasFreeRoot(m, tree_of(geom))) continue;
      mjtNum from[3], local[3];
      mju_sub3(from, contact->pos, d->xpos + 3 * body);
      mju_mulMatTVec3(local, d->xmat + 9 * body, from);
      feet.push_back({body, on, Eigen::Vector3d(local), Eigen::Vector3d(contact->pos)});
    }
  }
  return feet;
}

}  // namespace costate
