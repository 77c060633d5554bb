#include "derivative/flex.h"

#include <costate/model.h>

#include <algorithm>

#include "core/finite.h"
#include "core/plugins.h"
#include "derivative/chain.h"
#include "derivative/flex_element.h"
#include "derivative/plant.h"

namespace costate {

namespace {

bool Enabled(const mjModel* m, int bit) { return (m->opt.disableflags & bit) == 0; }

bool IsStatic(const mjModel* m, int body) { return LastDof(m, body) < 0; }

// Is the body moved by slides alone, on a static one?
bool SlidesInWorld(const mjModel* m, int body) {
  bool slides = m->body_dofnum[body] == m->body_jntnum[body] && IsStatic(m, m->body_parentid[body]);
  for (int j = m->body_jntadr[body], end = j + m->body_jntnum[body]; j < end; j++)
    slides = slides && m->jnt_type[j] == mjJNT_SLIDE;
  return slides;
}

// do its slides go along the body's axes, in order, as the engine takes for granted?
bool SlidesAlongAxes(const mjModel* m, int body) {
  bool along = SlidesInWorld(m, body);
  for (int k = 0; k < m->body_jntnum[body] && along; k++) {
    const mjtNum* axis = m->jnt_axis + 3 * (m->body_jntadr[body] + k);
    for (int x = 0; x < 3; x++) along = along && axis[x] == (x == k ? 1 : 0);
  }
  return along;
}

template <typename Good>
bool AllVertices(const mjModel* m, int f, Good good) {
  const int* body = m->flex_vertbodyid + m->flex_vertadr[f];
  return std::all_of(body, body + m->flex_vertnum[f], good);
}

std::string MissingOf(const mjModel* m, int f) {
  const auto refuse = [&](const char* what, const char* why) { return what + ElementName(m, mjOBJ_FLEX, f) + why; };
  if (m->flex_passive[f]) return refuse("passive contacts of ", "");
  if (!HasElasticity(m, f)) return "";
  if (HasTwist(m, f)) return refuse("forces of ", ", a rod that bends and twists");
  if (m->flex_interp[f] != 0) return refuse("forces of ", ", which is interpolated");
  if (m->flex_plasticadr[f] >= 0) return refuse("forces of ", ", which yields");
  if (HasStretch(m, f) && m->flex_dim[f] == 3) {
    const ElementShape shape(3);
    const mjtNum* numbers = m->flex_stiffness + m->flex_stiffnessadr[f];
    for (int t = 0; t < m->flex_elemnum[f]; t++) {
      if (!AreZero(numbers + shape.numbers * t + shape.products, shape.numbers - shape.products))
        return refuse("forces of ", ", of another material");
    }
  }

  // the engine has shortcuts for bodies that slide
  const auto is_plain = [m](int b) { return m->body_simple[b] != 2 || SlidesAlongAxes(m, b); };
  const auto bends = [m](int b) { return IsStatic(m, b) || (m->body_dofnum[b] == 3 && SlidesAlongAxes(m, b)); };
  if (HasStretch(m, f) && !AllVertices(m, f, is_plain)) return refuse("forces of ", ", whose slides have other axes");
  if (HasBending(m, f) && !AllVertices(m, f, bends)) return refuse("bending of ", ", whose vertices do not slide");
  return "";
}

}  // namespace

bool HasElasticity(const mjModel* m, int f) {
  if (m->flex_rigid[f] || !HasPassiveForces(m)) return false;
  const bool spring = Enabled(m, mjDSBL_SPRING), damper = Enabled(m, mjDSBL_DAMPER);
  if ((spring && m->flex_edgestiffness[f] != 0) || (damper && m->flex_edgedamping[f] != 0)) return true;
  const bool any = m->flex_stiffnessadr[f] >= 0 || m->flex_bendingadr[f] >= 0;
  const bool stiff = m->flex_interp[f] != 0 ? any : HasTwist(m, f) || HasStretch(m, f) || HasBending(m, f);
  return stiff && (spring || damper);
}

std::string FlexForces::Missing(const mjModel* m) {
  std::string missing;
  for (int f = 0; f < m->nflex && missing.empty(); f++) missing = MissingOf(m, f);
  return missing;
}

FlexForces::FlexForces(const mjModel* m) : held_(m->nflex, 0), moment_(m->nflexedge), tension_(m->nflexedge) {
  if (m->nflex == 0) return;
  builder_ = std::make_unique<MomentBuilder>(m);
  slot_.assign(m->nv, -1);
  slides_.resize(m->nflexvert);
  for (int v = 0; v < m->nflexvert; v++) {
    const int body = m->flex_vertbodyid[v];
    slides_[v] = body >= 0 && (IsStatic(m, body) || (SlidesInWorld(m, body) && m->body_dofnum[body] <= 3));
  }
  for (int i = 0; i < m->neq; i++) {
    if (m->eq_type[i] == mjEQ_FLEX) held_[m->eq_obj1id[i]] = 1;
  }
}

void FlexForces::Compute(const mjModel* m, const mjData* d) {
  for (int f = 0; f < m->nflex; f++) {
    if (!HasEdges(m, f) || !(held_[f] || HasElasticity(m, f))) continue;
    const int first = m->flex_vertadr[f];
    for (int e = m->flex_edgeadr[f], end = e + m->flex_edgenum[f]; e < end; e++) {
      if (m->flexedge_rigid[e]) continue;
      const int ends[2] = {first + m->flex_edge[2 * e], first + m->flex_edge[2 * e + 1]};
      const Vec3 at[2] = {Vec3Map(d->flexvert_xpos + 3 * ends[0]), Vec3Map(d->flexvert_xpos + 3 * ends[1])};
      const int body[2] = {m->flex_vertbodyid[ends[0]], m->flex_vertbodyid[ends[1]]};
      if (slides_[ends[0]] && slides_[ends[1]]) {
        FillSliding(m, d, body, at, &moment_[e]);
      } else {
        builder_->Begin(&moment_[e]);
        builder_->Add(m, d, StraightElement(body[0], at[0], body[1], at[1]));
        builder_->End(d);
      }
    }
  }
}

// the same where nothing turns: G_ij = ±a_i·(1 − n nᵀ) a_j / l
void FlexForces::FillSliding(const mjModel* m, const mjData* d, const int body[2], const Vec3 at[2], Moment* moment) {
  Vec3 line = at[1] - at[0];
  const double length = line.norm();
  line = length < mjMINVAL ? Vec3(Vec3::UnitX()) : Vec3(line / length);
  const int count[2] = {m->body_dofnum[body[0]], m->body_dofnum[body[1]]}, n = count[0] + count[1];
  moment->dof.resize(n);
  moment->J.resize(n);
  moment->G.resize(n, n);
  Vec3 across[6];
  for (int i = 0; i < n; i++) {
    const int end = i < count[0] ? 0 : 1, dof = m->body_dofadr[body[end]] + (end == 0 ? i : i - count[0]);
    const Vec3 axis = (end == 0 ? -1 : 1) * Vec3Map(d->cdof + 6 * dof + 3);
    moment->dof[i] = dof;
    moment->J[i] = axis.dot(line);
    across[i] = axis - moment->J[i] * line;
  }
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++)
      moment->G(i, j) = length < mjMINVAL ? 0 : PLANT("flex: sliding edge", across[i].dot(across[j]) / length);
  }
  moment->length = moment->J;
  moment->FindRate(d->qvel);
}

// (P6)
void FlexForces::AddEdges(const mjModel* m, const mjData* d, int f, Columns* R) const {
  const double k = Enabled(m, mjDSBL_SPRING) ? m->flex_edgestiffness[f] : 0;
  const double c = Enabled(m, mjDSBL_DAMPER) ? m->flex_edgedamping[f] : 0;
  if (k == 0 && c == 0) return;
  for (int e = m->flex_edgeadr[f], end = e + m->flex_edgenum[f]; e < end; e++) {
    if (m->flexedge_rigid[e]) continue;
    tension_[e] += k * (m->flexedge_length0[e] - d->flexedge_length[e]) - c * d->flexedge_velocity[e];
    AddSlopes(moment_[e], static_cast<int>(m->nv), PLANT("flex: edge spring", -k), PLANT("flex: edge damper", -c),
              nullptr, R);
  }
}

// (P7)
void FlexForces::AddElements(const mjModel* m, const mjData* d, int f, Columns* R) const {
  if (!HasStretch(m, f)) return;
  const ElementShape shape(m->flex_dim[f]);
  const int nv = static_cast<int>(m->nv), edges = shape.edges;
  const double h = m->opt.timestep, spring = Enabled(m, mjDSBL_SPRING) ? 1 : 0;
  const double damping = h > 0 && Enabled(m, mjDSBL_DAMPER) ? m->flex_damping[f] / h : 0;
  for (int t = 0; t < m->flex_elemnum[f]; t++) {
    const FlexElement element(m, f, t);
    const auto& K = element.K;
    double stretch[6], by_length[6], by_velocity[6], l[6];
    int at[6];
    for (int a = 0; a < edges; a++) {
      at[a] = m->flex_edgeadr[f] + element.edge[a];
      l[a] = d->flexedge_length[at[a]];
      const double l0 = m->flexedge_length0[at[a]], before = l[a] - h * d->flexedge_velocity[at[a]];
      stretch[a] = spring * (l[a] * l[a] - l0 * l0) + damping * (l[a] * l[a] - before * before);
      by_length[a] = PLANT("flex: stretch", 2 * spring * l[a] + 2 * damping * (l[a] - before));
      by_velocity[a] = PLANT("flex: stretch by velocity", 2 * damping * h * before);
    }

    // its dofs, and its edges' moments on them
    dof_.clear();
    for (int a = 0; a < edges; a++) {
      for (int i : moment_[at[a]].dof) {
        if (slot_[i] >= 0) continue;
        slot_[i] = static_cast<int>(dof_.size());
        dof_.push_back(i);
      }
    }
    const int n = static_cast<int>(dof_.size());
    auto J = J_.Rows(n), by_q = by_q_.Rows(n), by_v = by_v_.Rows(n);
    for (int a = 0; a < edges; a++) {
      const Moment& moment = moment_[at[a]];
      double tension = 0;
      for (int b = 0; b < edges; b++) tension -= K[a][b] * stretch[b];
      tension_[at[a]] += tension * l[a];
      for (int i = 0; i < moment.size(); i++) {
        const int slot = slot_[moment.dof[i]];
        J(slot, a) = moment.J[i];
        for (int b = 0; b < edges; b++) {
          by_q(slot, b) -= l[b] * K[a][b] * (by_length[a] * moment.J[i] + by_velocity[a] * moment.rate[i]);
          by_v(slot, b) -= l[b] * K[a][b] * by_velocity[a] * moment.J[i];
        }
        by_q(slot, a) += PLANT("flex: tension by length", tension * moment.J[i]);
      }
    }
    for (int j = 0; j < n; j++) {
      for (int i = 0; i < n; i++) {
        (*R)(dof_[i], dof_[j]) += J.row(i).dot(by_q.row(j));
        (*R)(dof_[i], nv + dof_[j]) += J.row(i).dot(by_v.row(j));
      }
    }
    for (int i : dof_) slot_[i] = -1;
  }
}

namespace {

// (P8) of vertices that slide along the world's or a static body's axes
void AddBending(const mjModel* m, const mjData* d, int f, Columns* R) {
  if (!HasBending(m, f)) return;
  const int nv = static_cast<int>(m->nv);
  const double spring = Enabled(m, mjDSBL_SPRING) ? 1 : 0;
  const double damping = Enabled(m, mjDSBL_DAMPER) ? m->flex_damping[f] : 0;
  ForFlaps(m, f, [&](const int vertex[4], const mjtNum* b) {
    Vec3 side[3];
    for (int k = 0; k < 3; k++)
      side[k] = Vec3Map(d->flexvert_xpos + 3 * vertex[k + 1]) - Vec3Map(d->flexvert_xpos + 3 * vertex[0]);

    // of the forces side_k+1 × side_k+2 at vertex k + 1, and their opposite at vertex 0, by each vertex
    Mat3 turn[4][4];
    for (int k = 0; k < 3; k++) {
      const int next = (k + 1) % 3, last = (k + 2) % 3;
      turn[k + 1][k + 1].setZero();
      turn[k + 1][next + 1] = -Skew(side[last]);
      turn[k + 1][last + 1] = Skew(side[next]);
      turn[k + 1][0] = Skew(side[last]) - Skew(side[next]);
    }
    for (int j = 0; j < 4; j++) turn[0][j] = -(turn[1][j] + turn[2][j] + turn[3][j]);

    for (int i = 0; i < 4; i++) {
      const int body = m->flex_vertbodyid[vertex[i]];
      if (IsStatic(m, body)) continue;
      const Mat3 axes = Mat3Map(d->xmat + 9 * body);
      for (int j = 0; j < 4; j++) {
        const int other = m->flex_vertbodyid[vertex[j]];
        if (IsStatic(m, other)) continue;
        const Mat3 moved = Mat3Map(d->xmat + 9 * other);
        const Mat3 by_position = PLANT("flex: bending", spring * b[4 * i + j] * Mat3::Identity()) +
                                 PLANT("flex: curved rest", spring * b[16] * turn[i][j]);
        const Mat3 by_q = axes.transpose() * by_position * moved;
        const Mat3 by_v = PLANT("flex: bending damper", damping * b[4 * i + j]) * axes.transpose() * moved;
        for (int x = 0; x < 3; x++) {
          for (int y = 0; y < 3; y++) {
            const int row = m->body_dofadr[body] + x, column = m->body_dofadr[other] + y;
            (*R)(row, column) -= by_q(x, y);
            (*R)(row, nv + column) -= by_v(x, y);
          }
        }
      }
    }
  });
}

}  // namespace

void FlexForces::Add(const mjModel* m, const mjData* d, Columns* R) const {
  for (int f = 0; f < m->nflex; f++) {
    if (!HasElasticity(m, f)) continue;
    const int begin = m->flex_edgeadr[f], end = begin + m->flex_edgenum[f];
    std::fill(tension_.begin() + begin, tension_.begin() + end, 0);
    AddEdges(m, d, f, R);
    AddElements(m, d, f, R);
    AddBending(m, d, f, R);
    for (int e = begin; e < end; e++) AddTurning(moment_[e], PLANT("flex: turning edge", tension_[e]), nullptr, R);
  }
}

}  // namespace costate
