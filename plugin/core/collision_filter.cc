#include "core/collision_filter.h"

#include <algorithm>

namespace costate {

int PairSignature(const mjModel* m, int g1, int g2) {
  const int b1 = m->geom_bodyid[g1], b2 = m->geom_bodyid[g2];
  return (std::min(b1, b2) << 16) + std::max(b1, b2);
}

bool MayTouch(const mjModel* m, int g1, int g2) {
  if (g1 == g2 ||
      !mjCOLLISIONFUNC[std::min(m->geom_type[g1], m->geom_type[g2])][std::max(m->geom_type[g1], m->geom_type[g2])]) {
    return false;
  }
  if (!(m->geom_contype[g1] & m->geom_conaffinity[g2]) && !(m->geom_contype[g2] & m->geom_conaffinity[g1]))
    return false;
  const int b1 = m->geom_bodyid[g1], b2 = m->geom_bodyid[g2];
  const int w1 = m->body_weldid[b1], w2 = m->body_weldid[b2];
  if (w1 == w2 || (m->body_treeid[b1] < 0 && m->body_treeid[b2] < 0)) return false;
  const int p1 = m->body_weldid[m->body_parentid[w1]], p2 = m->body_weldid[m->body_parentid[w2]];
  if (!(m->opt.disableflags & mjDSBL_FILTERPARENT) && w1 != 0 && w2 != 0 && (w1 == p2 || w2 == p1)) return false;
  const int signature = PairSignature(m, g1, g2);
  return std::find(m->exclude_signature, m->exclude_signature + m->nexclude, signature) ==
         m->exclude_signature + m->nexclude;
}

int FindPair(const mjModel* m, int g1, int g2) {
  for (int k = 0; k < m->npair; k++) {
    const int a = m->pair_geom1[k], b = m->pair_geom2[k];
    if ((a == g1 && b == g2) || (a == g2 && b == g1)) return k;
  }
  return -1;
}

}  // namespace costate
