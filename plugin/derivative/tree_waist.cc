#include "derivative/tree_waist.h"

#include <algorithm>

#include "derivative/spatial.h"

namespace costate {

namespace {

constexpr int kRoot = 6;    // dofs of a free joint
constexpr int kLeast = 10;  // one entry of L in so many is saved, or it does not pay

}  // namespace

TreeWaist FindWaist(const mjModel* m) {
  const int nv = static_cast<int>(m->nv);
  std::vector<int> depth(nv), behind(nv);  // dofs before and behind each
  int entries = 0;
  for (int i = 0; i < nv; i++) {
    const int parent = m->dof_parentid[i];
    depth[i] = parent < 0 ? 0 : depth[parent] + 1;
    entries += depth[i];
    for (int k = parent; k >= 0; k = m->dof_parentid[k]) behind[k]++;
  }

  // each dof behind is spared the trunk; the six numbers read it, and the root by two groups of three
  int best = -1, saved = entries / kLeast;
  for (int i = 0; i < nv; i++) {
    const int first = m->tree_dofadr[m->dof_treeid[i]], trunk = depth[i] + 1 - kRoot;
    if (m->jnt_type[m->dof_jntid[first]] != mjJNT_FREE || trunk <= 0) continue;
    const int saves = behind[i] * trunk - kRoot * (trunk + kRoot / 2 + 1);
    if (saves > saved) best = i, saved = saves;
  }
  TreeWaist waist;
  if (best < 0) return waist;
  waist.root = m->tree_dofadr[m->dof_treeid[best]];
  waist.begin = best + 1;
  waist.end = waist.begin + behind[best];
  for (int k = best; k >= waist.root + kRoot; k = m->dof_parentid[k]) waist.trunk.push_back(k);
  std::reverse(waist.trunk.begin(), waist.trunk.end());
  return waist;
}

// translations along the axes of the world, then rotations ω_k, orthonormal, that move the origin by l_k
void TreeWaist::Express(const double* cdof, double* C) const {
  const double* rotation = cdof + 6 * (root + 3);
  for (const int dof : trunk) {
    const Vec3Map w(cdof + 6 * dof);
    Vec3 l = Vec3Map(cdof + 6 * dof + 3);
    for (int k = 0; k < 3; k++) {
      C[3 + k] = w.dot(Vec3Map(rotation + 6 * k));
      l -= C[3 + k] * Vec3Map(rotation + 6 * k + 3);
    }
    std::copy_n(l.data(), 3, C);
    C += kRoot;
  }
}

}  // namespace costate
