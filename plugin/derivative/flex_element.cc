#include "derivative/flex_element.h"

#include <cmath>

#include "core/finite.h"
#include "derivative/chain.h"
#include "derivative/equilibrium.h"

namespace costate {

namespace {

constexpr double kSlack = 1e-13;  // [m] lengths of edges are known to
constexpr double kStill = 1e-8;   // of an edge's length: ends that move apart by less in a step, a bend below that

bool Disabled(const mjModel* m, int bit) { return (m->opt.disableflags & bit) != 0; }

}  // namespace

bool HasBending(const mjModel* m, int f) {
  return m->flex_dim[f] == 2 && m->flex_interp[f] == 0 && m->flex_bendingadr[f] >= 0 &&
         !AreZero(m->flex_bending + m->flex_bendingadr[f], kBendingNumbers * m->flex_edgenum[f]);
}

Tension FindTension(const mjModel* m, const mjData* d, int f, const FlexElement& element, int edge,
                    const mjtNum* plastic) {
  const double* K = element.K[edge];
  Tension tension;
  double slope = 0;  // by how much it changes where each length does by 1
  for (int a = 0, edges = ElementShape(m->flex_dim[f]).edges; a < edges; a++) {
    const int at = m->flex_edgeadr[f] + element.edge[a];
    const double l = d->flexedge_length[at], l0 = m->flexedge_length0[at];
    tension.value += K[a] * (l * l - l0 * l0 - (plastic ? plastic[a] : 0));
    slope += 2 * std::abs(K[a]) * l;
  }
  tension.room = slope > 0 ? std::abs(tension.value) / slope : -1;
  if (tension.room >= kSlack) tension.sign = tension.value > 0 ? 1 : -1;
  else if (slope > 0) tension.room = 0;
  return tension;
}

namespace {

// has the metric a part of the flex's tensions, in closed form?
bool HasTensions(const mjModel* m, int f) {
  if (!HasStretch(m, f)) return false;
  const mjtNum* stiffness = m->flex_stiffness + m->flex_stiffnessadr[f];
  if (m->flex_dim[f] == 3 && stiffness[ElementShape::products] != 0) return false;  // another material
  return !Disabled(m, mjDSBL_SPRING) || (!Disabled(m, mjDSBL_DAMPER) && m->flex_damping[f] != 0);
}

// a vertex' change of velocity and way in a step
struct VertexMotion {
  Vec3 velocity = Vec3::Zero(), change = Vec3::Zero();
};

VertexMotion FindVertexMotion(const mjModel* m, const mjData* d, int body, const Vec3& at) {
  Vec6 V = Vec6::Zero(), A = Vec6::Zero();
  for (int i = LastDof(m, body); i >= 0; i = m->dof_parentid[i]) {
    const Vec6 S = Vec6Map(d->cdof + 6 * i);
    V += S * d->qvel[i];
    A += S * (m->opt.timestep * d->qacc[i]);
  }
  const Vec3 r = at - Origin(m, d, body);
  return {MotionAt(V, r), MotionAt(A, r)};
}

void AppendTensions(const mjModel* m, const mjData* d, int f, std::vector<FlexTension>* tensions) {
  const ElementShape shape(m->flex_dim[f]);
  const int edges = shape.edges, first_vertex = m->flex_vertadr[f];
  std::vector<VertexMotion> moves(m->flex_vertnum[f]);
  for (int v = 0; v < m->flex_vertnum[f]; v++) {
    moves[v] = FindVertexMotion(m, d, m->flex_vertbodyid[first_vertex + v],
                                Vec3Map(d->flexvert_xpos + 3 * (first_vertex + v)));
  }
  const bool yields = m->flex_plasticadr[f] >= 0 && (m->flex_plasticmode[f] & 2) != 0;  // when stretched
  for (int t = 0; t < m->flex_elemnum[f]; t++) {
    const FlexElement element(m, f, t);
    const mjtNum* plastic = yields ? d->plastic + m->flex_plasticadr[f] + edges * t : nullptr;
    for (int e = 0; e < edges; e++) {
      const Tension tension = FindTension(m, d, f, element, e, plastic);
      if (tension.room < 0) continue;
      const int* ends = shape.Ends(e);
      const VertexMotion &one = moves[element.vertex[ends[0]]], &other = moves[element.vertex[ends[1]]];
      const double apart = (one.velocity - other.velocity).norm() + (one.change - other.change).norm();
      const double length = d->flexedge_length[m->flex_edgeadr[f] + element.edge[e]];
      tensions->push_back({f, t, e, tension.sign, m->opt.timestep * apart > kStill * length, tension.room});
    }
  }
}

}  // namespace

void FindFlexTensions(const mjModel* m, const mjData* d, std::vector<FlexTension>* tensions) {
  tensions->clear();
  if (!IsDiscrete(m)) return;
  for (int f = 0; f < m->nflex; f++) {
    if (HasTensions(m, f)) AppendTensions(m, d, f, tensions);
  }
}

}  // namespace costate
