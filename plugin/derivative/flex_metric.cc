#include "derivative/flex_metric.h"

#include <algorithm>
#include <cmath>

#include "core/finite.h"
#include "derivative/chain.h"
#include "derivative/flex.h"
#include "derivative/flex_element.h"
#include "derivative/plant.h"

namespace costate {

void FlexMetric::Compute(const mjModel* m, const mjData* d) {
  flex_.clear();
  piece_.clear();
  axis_.clear();
  start_.assign(m->nflexvert + 1, 0);
  const double h = m->opt.timestep;
  const bool spring = !(m->opt.disableflags & mjDSBL_SPRING), damper = !(m->opt.disableflags & mjDSBL_DAMPER);
  for (int f = 0; f < m->nflex; f++) {
    const bool any = HasElasticity(m, f);
    for (int v = m->flex_vertadr[f], end = v + m->flex_vertnum[f]; v < end; v++) {
      start_[v] = static_cast<int>(axis_.size());
      if (any) Place(m, d, v);
    }
    if (!any) continue;
    flex_.push_back({f, (spring ? h * h : 0) + (damper ? h * m->flex_damping[f] : 0), spring ? h : 0});
    AddPieces(m, d, static_cast<int>(flex_.size()) - 1);
  }
  start_.back() = static_cast<int>(axis_.size());
  for (Piece& piece : piece_) piece.stiffness = Stiffness(d, piece);
}

void FlexMetric::Place(const mjModel* m, const mjData* d, int vertex) {
  const int body = m->flex_vertbodyid[vertex];
  const Vec3 at = Vec3Map(d->flexvert_xpos + 3 * vertex) - Origin(m, d, body);
  for (int i = LastDof(m, body); i >= 0; i = m->dof_parentid[i]) {
    const Vec6 S = Vec6Map(d->cdof + 6 * i);
    axis_.push_back({i, S.head<3>(), MotionAt(S, at)});
  }
}

void FlexMetric::AddPieces(const mjModel* m, const mjData* d, int at) {
  const int f = flex_[at].id, first = m->flex_vertadr[f], first_edge = m->flex_edgeadr[f];
  if (HasStretch(m, f)) {
    const ElementShape shape(m->flex_dim[f]);
    for (int t = 0; t < m->flex_elemnum[f]; t++) {
      Piece& piece = piece_.emplace_back();
      piece.flex = at;
      piece.vertices = shape.vertices;
      piece.edges = shape.edges;
      piece.bending = nullptr;
      const int *vertex = m->flex_elem + m->flex_elemdataadr[f] + shape.vertices * t,
                *edge = m->flex_elemedge + m->flex_elemedgeadr[f] + shape.edges * t;
      for (int k = 0; k < shape.vertices; k++) piece.vertex[k] = first + vertex[k];
      shape.Unpack(m->flex_stiffness + m->flex_stiffnessadr[f] + shape.numbers * t, piece.K);
      for (int e = 0; e < shape.edges; e++) {
        std::copy_n(shape.Ends(e), 2, piece.end[e]);
        const Tension tension = FindTension(m, d, f, edge, piece.K[e], shape.edges);
        piece.tension[e] = std::max(0.0, tension.value);
        piece.pulls[e] = tension.sign == 0 ? 0.5 : tension.sign > 0 ? 1 : 0;
      }
    }
  }
  if (!HasBending(m, f)) return;
  for (int e = 0; e < m->flex_edgenum[f]; e++) {
    const int *ends = m->flex_edge + 2 * (first_edge + e), *flap = m->flex_edgeflap + 2 * (first_edge + e);
    if (flap[1] < 0) continue;
    Piece& piece = piece_.emplace_back();
    piece.flex = at;
    piece.vertices = 4;
    piece.edges = 0;
    for (int k = 0; k < 2; k++) piece.vertex[k] = first + ends[k], piece.vertex[2 + k] = first + flap[k];
    piece.bending = m->flex_bending + m->flex_bendingadr[f] + kBendingNumbers * e;
  }
}

Vec3 FlexMetric::Edge(const mjData* d, const Piece& piece, int e) const {
  const int one = piece.vertex[piece.end[e][0]], other = piece.vertex[piece.end[e][1]];
  return Vec3Map(d->flexvert_xpos + 3 * one) - Vec3Map(d->flexvert_xpos + 3 * other);
}

// J w of all vertices, w = s a + κ v
void FlexMetric::FindMotion(const mjModel* m, const mjData* d, const double* a) const {
  motion_.assign(m->nflexvert, Vec3::Zero());
  ForVertices(m, [&](const Flex& flex, int v) {
    for (const Axis* axis = begin(v); axis != end(v); axis++)
      motion_[v] += (flex.s * a[axis->dof] + flex.kappa * d->qvel[axis->dof]) * axis->lin;
  });
}

// K w of a piece at its vertices
void FlexMetric::FindForce(const mjData* d, const Piece& piece, Vec3* force) const {
  for (int k = 0; k < piece.vertices; k++) force[k].setZero();
  for (int i = 0; i < 4 && piece.bending; i++) {
    for (int j = 0; j < 4; j++) force[i] += piece.bending[4 * i + j] * motion_[piece.vertex[j]];
  }
  Vec3 edge[6], apart[6];
  for (int e = 0; e < piece.edges; e++) {
    edge[e] = Edge(d, piece, e);
    apart[e] = motion_[piece.vertex[piece.end[e][0]]] - motion_[piece.vertex[piece.end[e][1]]];
  }
  for (int e = 0; e < piece.edges; e++) {
    double along = 0;
    for (int a = 0; a < piece.edges; a++) along += 2 * piece.K[e][a] * edge[a].dot(apart[a]);
    const Vec3 pull = along * edge[e] + piece.tension[e] * apart[e];
    force[piece.end[e][0]] += pull;
    force[piece.end[e][1]] -= pull;
  }
}

void FlexMetric::AddForce(const mjModel* m, const mjData* d, const double* a, double* out) const {
  FindMotion(m, d, a);
  Vec3 force[4];
  for (const Piece& piece : piece_) {
    FindForce(d, piece, force);
    for (int k = 0; k < piece.vertices; k++) {
      for (const Axis* axis = begin(piece.vertex[k]); axis != end(piece.vertex[k]); axis++)
        out[axis->dof] += force[k].dot(axis->lin);
    }
  }
}

// (H4) of a piece, by its vertices' places
FlexMetric::Matrix FlexMetric::Stiffness(const mjData* d, const Piece& piece) const {
  Matrix Y = Matrix::Zero();
  for (int i = 0; i < 4 && piece.bending; i++) {
    for (int j = 0; j < 4; j++)
      Y.block<3, 3>(3 * i, 3 * j).diagonal().setConstant(PLANT("flex metric: bending", piece.bending[4 * i + j]));
  }
  Vec3 edge[6];
  for (int e = 0; e < piece.edges; e++) edge[e] = Edge(d, piece, e);
  for (int e = 0; e < piece.edges; e++) {
    for (int a = 0; a < piece.edges; a++) {
      Mat3 block = PLANT("flex metric: stretch", 2 * piece.K[e][a] * edge[e] * edge[a].transpose());
      if (a == e) block.diagonal().array() += PLANT("flex metric: tension", piece.tension[e]);
      for (int k = 0; k < 2; k++) {
        for (int l = 0; l < 2; l++) {
          auto out = Y.block<3, 3>(3 * piece.end[e][k], 3 * piece.end[a][l]);
          if (k == l) out += block;
          else out -= block;
        }
      }
    }
  }
  return Y;
}

// (I11) ∂(K w) by its vertices' places at fixed motions J w
FlexMetric::Matrix FlexMetric::Slope(const mjData* d, const Piece& piece) const {
  Matrix X = Matrix::Zero();
  Vec3 edge[6], apart[6];
  for (int e = 0; e < piece.edges; e++) {
    edge[e] = Edge(d, piece, e);
    apart[e] = motion_[piece.vertex[piece.end[e][0]]] - motion_[piece.vertex[piece.end[e][1]]];
  }
  for (int e = 0; e < piece.edges; e++) {
    double along = 0;
    for (int a = 0; a < piece.edges; a++) along += 2 * piece.K[e][a] * edge[a].dot(apart[a]);
    for (int a = 0; a < piece.edges; a++) {
      Mat3 block =
          PLANT("flex metric: stretch moves", 2 * piece.K[e][a] * edge[e] * apart[a].transpose()) +
          PLANT("flex metric: tension moves", 2 * piece.pulls[e] * piece.K[e][a] * apart[e] * edge[a].transpose());
      if (a == e) block.diagonal().array() += PLANT("flex metric: edge turns", along);
      for (int k = 0; k < 2; k++) {
        for (int l = 0; l < 2; l++) {
          auto out = X.block<3, 3>(3 * piece.end[e][k], 3 * piece.end[a][l]);
          if (k == l) out += block;
          else out -= block;
        }
      }
    }
  }
  return X;
}

void FlexMetric::AppendCouplings(const mjModel* m, std::vector<std::vector<int>>* sets) const {
  std::vector<char> in(m->nv, 0);
  for (const Piece& piece : piece_) {
    std::vector<int>& dofs = sets->emplace_back();
    for (int k = 0; k < piece.vertices; k++) {
      for (const Axis* axis = begin(piece.vertex[k]); axis != end(piece.vertex[k]); axis++) {
        if (!in[axis->dof]) dofs.push_back(axis->dof);
        in[axis->dof] = 1;
      }
    }
    for (int i : dofs) in[i] = 0;
    if (dofs.empty()) sets->pop_back();
  }
}

void FlexMetric::AddHessian(TreeSolver* H) const {
  for (const Piece& piece : piece_) {
    const Matrix Y = flex_[piece.flex].s * piece.stiffness;
    for (int k = 0; k < piece.vertices; k++) {
      for (const Axis* i = begin(piece.vertex[k]); i != end(piece.vertex[k]); i++) {
        for (int l = 0; l < piece.vertices; l++) {
          const Vec3 row = Y.block<3, 3>(3 * k, 3 * l).transpose() * i->lin;
          for (const Axis* j = begin(piece.vertex[l]); j != end(piece.vertex[l]); j++) {
            if (j->dof <= i->dof) H->Add(i->dof, j->dof, row.dot(j->lin));
          }
        }
      }
    }
  }
}

void FlexMetric::AddColumns(const mjModel* m, const mjData* d, const AxisGroups& axes, const double* a,
                            Columns* R) const {
  const int nv = static_cast<int>(m->nv);
  FindMotion(m, d, a);
  force_.assign(m->nflexvert, Vec3::Zero());
  // ∂J_i/∂q_j: the later axis of two turns with the earlier one
  const auto turn = [&](const Axis& i, const Axis& j) -> Vec3 {
    return axes.group[j.dof] <= i.dof ? j.rot.cross(i.lin) : i.rot.cross(j.lin);
  };
  // ∂(J w) of each vertex by the dofs that move it
  turned_.assign(axis_.size(), Vec3::Zero());
  ForVertices(m, [&](const Flex& flex, int v) {
    for (const Axis* j = begin(v); j != end(v); j++) {
      Vec3& turned = turned_[j - axis_.data()];
      for (const Axis* i = begin(v); i != end(v); i++)
        turned += (flex.s * a[i->dof] + flex.kappa * d->qvel[i->dof]) * turn(*i, *j);
    }
  });
  for (const Piece& piece : piece_) {
    Vec3 force[4];
    FindForce(d, piece, force);
    for (int k = 0; k < piece.vertices; k++) force_[piece.vertex[k]] += force[k];
    const Flex& flex = flex_[piece.flex];
    const Matrix &Y = piece.stiffness, X = Slope(d, piece);
    for (int k = 0; k < piece.vertices; k++) {
      for (const Axis* i = begin(piece.vertex[k]); i != end(piece.vertex[k]); i++) {
        for (int l = 0; l < piece.vertices; l++) {
          const Axis *first = begin(piece.vertex[l]), *last = end(piece.vertex[l]);
          const Vec3 by_place = X.block<3, 3>(3 * k, 3 * l).transpose() * i->lin,
                     by_motion = Y.block<3, 3>(3 * k, 3 * l).transpose() * i->lin;
          for (const Axis* j = first; j != last; j++) {
            const Vec3& motion = turned_[j - axis_.data()];
            (*R)(i->dof, j->dof) -= by_place.dot(j->lin) + PLANT("flex metric: motion turns", by_motion.dot(motion));
            (*R)(i->dof, nv + j->dof) -= PLANT("flex metric: shift", flex.kappa * by_motion.dot(j->lin));
          }
        }
      }
    }
  }
  ForVertices(m, [&](const Flex&, int v) {
    for (const Axis* i = begin(v); i != end(v); i++) {
      for (const Axis* j = begin(v); j != end(v); j++)
        (*R)(i->dof, j->dof) -= PLANT("flex metric: force turns", force_[v].dot(turn(*i, *j)));
    }
  });
}

}  // namespace costate
