#include "engine/switch_distance.h"

#include <algorithm>
#include <cmath>

#include "derivative/onset.h"

namespace costate {
namespace {

double LimitDistance(const mjModel* m, const mjData* d) {
  double nearest = mjMAXVAL;
  const auto inside = [&](double x, const mjtNum* range, double margin) {
    nearest = std::min({nearest, std::abs(x - range[0] - margin), std::abs(range[1] - x - margin)});
  };
  for (int j = 0; j < m->njnt; ++j) {
    if (!m->jnt_limited[j]) continue;
    const mjtNum *q = d->qpos + m->jnt_qposadr[j], *range = m->jnt_range + 2 * j;
    if (m->jnt_type[j] == mjJNT_BALL) {
      mjtNum turn[3];
      mju_quat2Vel(turn, q, 1);
      nearest = std::min(nearest, std::abs(std::max(range[0], range[1]) - mju_norm3(turn) - m->jnt_margin[j]));
    } else {
      inside(*q, range, m->jnt_margin[j]);
    }
  }
  for (int t = 0; t < m->ntendon; ++t) {
    if (m->tendon_limited[t]) inside(d->ten_length[t], m->tendon_range + 2 * t, m->tendon_margin[t]);
  }
  return nearest;
}

}  // namespace

double SwitchDistance(const mjModel* m, mjData* d, double reach) {
  double nearest = reach;
  if (m->opt.disableflags & mjDSBL_CONSTRAINT) return nearest;
  if (!(m->opt.disableflags & mjDSBL_LIMIT)) nearest = std::min(nearest, LimitDistance(m, d));
  if (m->opt.disableflags & mjDSBL_CONTACT) return nearest;

  // contacts that are there; then geoms within reach, by a collision pass with a margin
  for (int c = 0; c < d->ncon; ++c) {
    const mjContact& contact = d->contact[c];
    nearest = std::min(nearest, std::abs(contact.includemargin - contact.dist));
  }
  const mjModel wide = WithReach(m, reach);
  mj_collision(&wide, d);
  for (int c = 0; c < d->ncon; ++c) {
    const mjContact& contact = d->contact[c];
    const double room = contact.dist - OnsetMargin(m, ContactObject(contact, 0), ContactObject(contact, 1));
    if (room > 0) nearest = std::min(nearest, room);
  }
  return nearest;
}

}  // namespace costate
