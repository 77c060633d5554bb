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
    AddPieces(m, d, f);
  }
  start_.back() = static_cast<int>(axis_.size());
  for (Piece& piece : piece_) FindStiffness(&piece);
}

void FlexMetric::Place(const mjModel* m, const mjData* d, int vertex) {
  const int body = m->flex_vertbodyid[vertex];
  const Vec3 at = Vec3Map(d->flexvert_xpos + 3 * vertex) - Origin(m, d, body);
  for (int i = LastDof(m, body); i >= 0; i = m->dof_parentid[i]) {
    const Vec6 S = Vec6Map(d->cdof + 6 * i);
    axis_.push_back({i, S.head<3>(), MotionAt(S, at)});
  }
}

void FlexMetric::AddPieces(const mjModel* m, const mjData* d, int f) {
  const int flex = static_cast<int>(flex_.size()) - 1;
  const auto at = [d](int vertex) { return Vec3Map(d->flexvert_xpos + 3 * vertex); };
  if (HasStretch(m, f)) {
    const ElementShape shape(m->flex_dim[f]);
    for (int t = 0; t < m->flex_elemnum[f]; t++) {
      const FlexElement element(m, f, t);
      Piece& piece = piece_.emplace_back();
      piece.flex = flex;
      piece.vertices = shape.vertices;
      piece.edges = shape.edges;
      piece.bending = nullptr;
      for (int k = 0; k < shape.vertices; k++) piece.vertex[k] = m->flex_vertadr[f] + element.vertex[k];
      std::copy_n(&element.K[0][0], 36, &piece.K[0][0]);
      for (int e = 0; e < shape.edges; e++) {
        std::copy_n(shape.Ends(e), 2, piece.end[e]);
        piece.edge[e] = at(piece.vertex[piece.end[e][0]]) - at(piece.vertex[piece.end[e][1]]);
        const Tension tension = FindTension(m, d, f, element, e);
        piece.tension[e] = std::max(0.0, tension.value);
        piece.pulls[e] = tension.sign == 0 ? 0.5 : tension.sign > 0 ? 1 : 0;
      }
    }
  }
  if (!HasBending(m, f)) return;
  ForFlaps(m, f, [&](const int vertex[4], const mjtNum* b) {
    Piece& piece = piece_.emplace_back();
    piece.flex = flex;
    piece.vertices = 4;
    piece.edges = 0;
    piece.bending = b;
    std::copy_n(vertex, 4, piece.vertex);
  });
}

// J w of all vertices, w = s a + κ v
void FlexMetric::FindMotion(const mjModel* m, const mjData* d, const double* a) const {
  motion_.assign(m->nflexvert, Vec3::Zero());
  ForVertices(m, [&](const Flex& flex, int v) {
    for (const Axis* axis = begin(v); axis != end(v); axis++)
      motion_[v] += (flex.s * a[axis->dof] + flex.kappa * d->qvel[axis->dof]) * axis->lin;
  });
}

// how the ends of edges move apart, and what each edge is strained by all
FlexMetric::Strain FlexMetric::FindStrain(const Piece& piece) const {
  Strain strain;
  for (int e = 0; e < piece.edges; e++) {
    strain.along[e] = 0;
    strain.apart[e] = motion_[piece.vertex[piece.end[e][0]]] - motion_[piece.vertex[piece.end[e][1]]];
  }
  for (int e = 0; e < piece.edges; e++) {
    for (int a = 0; a < piece.edges; a++) strain.along[e] += 2 * piece.K[e][a] * piece.edge[a].dot(strain.apart[a]);
  }
  return strain;
}

// K w of a piece at its vertices
void FlexMetric::FindForce(const Piece& piece, const Strain& strain, Vec3* force) const {
  for (int k = 0; k < piece.vertices; k++) force[k].setZero();
  for (int i = 0; i < 4 && piece.bending; i++) {
    for (int j = 0; j < 4; j++) force[i] += piece.bending[4 * i + j] * motion_[piece.vertex[j]];
  }
  for (int e = 0; e < piece.edges; e++) {
    const Vec3 pull = strain.along[e] * piece.edge[e] + piece.tension[e] * strain.apart[e];
    force[piece.end[e][0]] += pull;
    force[piece.end[e][1]] -= pull;
  }
}

void FlexMetric::AddForce(const mjModel* m, const mjData* d, const double* a, double* out) const {
  FindMotion(m, d, a);
  Vec3 force[4];
  for (const Piece& piece : piece_) {
    FindForce(piece, FindStrain(piece), force);
    for (int k = 0; k < piece.vertices; k++) {
      for (const Axis* axis = begin(piece.vertex[k]); axis != end(piece.vertex[k]); axis++)
        out[axis->dof] += force[k].dot(axis->lin);
    }
  }
}

// what the ends of edge a do to those of edge e
void FlexMetric::Spread(const Piece& piece, int e, int a, const Mat3& block, Matrix* out) {
  for (int k = 0; k < 2; k++) {
    for (int l = 0; l < 2; l++) {
      auto at = out->block<3, 3>(3 * piece.end[e][k], 3 * piece.end[a][l]);
      if (k == l) at += block;
      else at -= block;
    }
  }
}

// (H4) by the vertices' places
void FlexMetric::FindStiffness(Piece* piece) {
  Matrix& Y = piece->stiffness;
  Y.setZero();
  for (int i = 0; i < 4 && piece->bending; i++) {
    for (int j = 0; j < 4; j++)
      Y.block<3, 3>(3 * i, 3 * j).diagonal().setConstant(PLANT("flex metric: bending", piece->bending[4 * i + j]));
  }
  for (int e = 0; e < piece->edges; e++) {
    for (int a = 0; a < piece->edges; a++) {
      Mat3 block = PLANT("flex metric: stretch", 2 * piece->K[e][a] * piece->edge[e] * piece->edge[a].transpose());
      if (a == e) block.diagonal().array() += PLANT("flex metric: tension", piece->tension[e]);
      Spread(*piece, e, a, block, &Y);
    }
  }
}

// (I11) ∂(K w) by the vertices' places at fixed motions J w
FlexMetric::Matrix FlexMetric::Slope(const Piece& piece, const Strain& strain) {
  Matrix X = Matrix::Zero();
  for (int e = 0; e < piece.edges; e++) {
    for (int a = 0; a < piece.edges; a++) {
      Mat3 block =
          PLANT("flex metric: stretch moves", 2 * piece.K[e][a] * piece.edge[e] * strain.apart[a].transpose()) +
          PLANT("flex metric: tension moves",
                2 * piece.pulls[e] * piece.K[e][a] * strain.apart[e] * piece.edge[a].transpose());
      if (a == e) block.diagonal().array() += PLANT("flex metric: edge turns", strain.along[e]);
      Spread(piece, e, a, block, &X);
    }
  }
  return X;
}

void FlexMetric::AppendCouplings(const mjModel* m, Refilled<std::vector<int>>* sets) const {
  is_coupled_.assign(m->nv, 0);
  for (const Piece& piece : piece_) {
    std::vector<int>& dofs = sets->Append();
    dofs.clear();
    for (int k = 0; k < piece.vertices; k++) {
      for (const Axis* axis = begin(piece.vertex[k]); axis != end(piece.vertex[k]); axis++) {
        if (!is_coupled_[axis->dof]) dofs.push_back(axis->dof);
        is_coupled_[axis->dof] = 1;
      }
    }
    for (int i : dofs) is_coupled_[i] = 0;
    if (dofs.empty()) sets->RemoveLast();
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
    const Strain strain = FindStrain(piece);
    Vec3 force[4];
    FindForce(piece, strain, force);
    for (int k = 0; k < piece.vertices; k++) force_[piece.vertex[k]] += force[k];
    const Flex& flex = flex_[piece.flex];
    const Matrix &Y = piece.stiffness, X = Slope(piece, strain);
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
