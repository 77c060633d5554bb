#include "core/collision_filter.h"

#include <algorithm>

namespace costate {

int PairSignature(const mjModel* m, int g1, int g2) {
  const int b1 = m->geom_bodyid[g1], b2 = m->geom_bodyid[g2];
  return (std::min(b1, b2) << 16) + std::max(b1, b2);
}

namespace {

bool MasksMeet(int contype1, int conaffinity1, int contype2, int conaffinity2) {
  return (contype1 & conaffinity2) != 0 || (contype2 & conaffinity1) != 0;
}

bool FlexMayTouch(const mjModel* m, int f) {
  for (int g = 0; g < m->ngeom; g++) {
    if (FlexMayTouchGeom(m, f, g)) return true;
  }
  for (int other = f; other < m->nflex; other++) {
    if (FlexesMayTouch(m, f, other)) return true;
  }
  return false;
}

}  // namespace

bool FlexMayTouchGeom(const mjModel* m, int f, int g) {
  return MasksMeet(m->flex_contype[f], m->flex_conaffinity[f], m->geom_contype[g], m->geom_conaffinity[g]);
}

bool FlexesMayTouch(const mjModel* m, int f1, int f2) {
  if (f1 == f2 && m->flex_selfcollide[f1] == mjFLEXSELF_NONE) return false;
  return MasksMeet(m->flex_contype[f1], m->flex_conaffinity[f1], m->flex_contype[f2], m->flex_conaffinity[f2]);
}

bool MayTouch(const mjModel* m, int g1, int g2) {
  if (g1 == g2 ||
      !mjCOLLISIONFUNC[std::min(m->geom_type[g1], m->geom_type[g2])][std::max(m->geom_type[g1], m->geom_type[g2])]) {
    return false;
  }
  if (!MasksMeet(m->geom_contype[g1], m->geom_conaffinity[g1], m->geom_contype[g2], m->geom_conaffinity[g2]))
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

bool CanHaveContacts(const mjModel* m) {
  if ((m->opt.disableflags & (mjDSBL_CONTACT | mjDSBL_CONSTRAINT)) != 0 || m->nv == 0) return false;
  if (m->npair > 0) return true;
  for (int g1 = 0; g1 < m->ngeom; g1++) {
    for (int g2 = g1 + 1; g2 < m->ngeom; g2++) {
      if (MayTouch(m, g1, g2)) return true;
    }
  }
  for (int f = 0; f < m->nflex; f++) {
    if (FlexMayTouch(m, f)) return true;
  }
  return false;
}

int FindPair(const mjModel* m, int g1, int g2) {
  for (int k = 0; k < m->npair; k++) {
    const int a = m->pair_geom1[k], b = m->pair_geom2[k];
    if ((a == g1 && b == g2) || (a == g2 && b == g1)) return k;
  }
  return -1;
}

}  // namespace costate
