// Where contacts begin: margins of pairs, and a collision pass that finds geoms before they touch.
#ifndef COSTATE_DERIVATIVE_ONSET_H_
#define COSTATE_DERIVATIVE_ONSET_H_

#include <mujoco/mujoco.h>

#include <algorithm>

namespace costate {

/// A geom, or of a flex −1 less its number.
inline int ContactObject(const mjContact& contact, int side) {
  return contact.geom[side] >= 0 ? contact.geom[side] : -1 - contact.flex[side];
}

/// The distance at which two objects begin to feel each other: the override's margin, their pair's, or the sum of both.
inline double OnsetMargin(const mjModel* m, int object1, int object2) {
  if (m->opt.enableflags & mjENBL_OVERRIDE) return m->opt.o_margin;
  for (int p = 0; p < m->npair; p++) {
    const auto is = [&](int first, int second) { return m->pair_geom1[p] == first && m->pair_geom2[p] == second; };
    if (is(object1, object2) || is(object2, object1)) return m->pair_margin[p];
  }
  const auto own = [&](int object) { return object >= 0 ? m->geom_margin[object] : m->flex_margin[-1 - object]; };
  return own(object1) + own(object2);
}

/// After changes of margins or gaps: the reach of bodies, by which the midphase passes over pairs.
inline void RaiseBodyMargins(mjModel* m) {
  for (int g = 0; g < m->ngeom; g++) {
    mjtNum& margin = m->body_margin[m->geom_bodyid[g]];
    margin = std::max(margin, m->geom_margin[g] + m->geom_gap[g]);
  }
}

/// The model (shallow) whose collisions find all that is up to `reach` from its onset.
inline mjModel WithReach(const mjModel* m, double reach) {
  const auto largest = [](const mjtNum* margin, mjtSize count) {
    return count > 0 ? *std::max_element(margin, margin + count) : 0;
  };
  const double one = std::max(largest(m->geom_margin, m->ngeom), largest(m->flex_margin, m->nflex));
  const double own =
      m->opt.enableflags & mjENBL_OVERRIDE ? m->opt.o_margin : std::max(2 * one, largest(m->pair_margin, m->npair));
  mjModel wide = *m;
  wide.opt.enableflags |= mjENBL_OVERRIDE;
  wide.opt.o_margin = reach + std::max(0.0, own);
  return wide;
}

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_ONSET_H_
