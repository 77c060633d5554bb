#include "derivative/articulated_solver.h"

#include <algorithm>
#include <numeric>
#include <type_traits>

#include "core/driven.h"

namespace costate {

namespace {

constexpr int kRowEntries = 6;  // a row of M with so many costs a factorization what a dof costs this solver

// rotor inertia of a dof, actuators' contributions included
COSTATE_LANES double Armature(const mjModel* m, int dof) {
  double armature = m->dof_armature[dof];
  const int joint = m->dof_jntid[dof], owner = m->jnt_actuatorid[joint];
  const auto add = [&](int i) __attribute__((always_inline)) {
    const double gear = m->actuator_gear[6 * m->actuator_outadr[i]];
    armature += m->actuator_armature[i] * gear * gear;
  };
  if (owner >= 0) add(owner);
  for (int i = 0; owner < -1 && i < m->nactuator; i++) {
    if (m->actuator_trnid[2 * i] == joint && ActsOnJoint(m, i)) add(i);
  }
  return armature;
}

// six numbers and two zeros in registers
template <int kLanes>
struct Spatial {
  using Vector = typename Lanes<kLanes>::Vector;
  static constexpr int kParts = 8 / kLanes;
  Vector part[kParts];

  static COSTATE_LANES Spatial Load(const Double8& x) {
    Spatial out;
    for (int k = 0; k < kParts; k++) out.part[k] = reinterpret_cast<const Vector*>(&x)[k];
    return out;
  }
  COSTATE_LANES void Store(Double8* x) const {
    for (int k = 0; k < kParts; k++) reinterpret_cast<Vector*>(x)[k] = part[k];
  }
  COSTATE_LANES double operator[](int i) const { return part[i / kLanes][i % kLanes]; }
  COSTATE_LANES Spatial operator+(const Spatial& o) const {
    Spatial out;
    for (int k = 0; k < kParts; k++) out.part[k] = part[k] + o.part[k];
    return out;
  }
  COSTATE_LANES Spatial operator*(double s) const {
    Spatial out;
    for (int k = 0; k < kParts; k++) out.part[k] = part[k] * s;
    return out;
  }
  COSTATE_LANES void operator+=(const Spatial& o) {
    for (int k = 0; k < kParts; k++) part[k] += o.part[k];
  }
  COSTATE_LANES void operator-=(const Spatial& o) {
    for (int k = 0; k < kParts; k++) part[k] -= o.part[k];
  }
  COSTATE_LANES double Dot(const Spatial& o) const {
    Vector p[kParts];
    for (int k = 0; k < kParts; k++) p[k] = part[k] * o.part[k];
    if constexpr (kLanes == 2) {
      const Vector all = (p[0] + p[2]) + (p[1] + p[3]);
      return all[0] + all[1];
    } else {
      Double4 half;
      if constexpr (kLanes == 4) half = p[0] + p[1];
      else half = __builtin_shufflevector(p[0], p[0], 0, 1, 2, 3) + __builtin_shufflevector(p[0], p[0], 4, 5, 6, 7);
      return (half[0] + half[2]) + (half[1] + half[3]);
    }
  }
};

// Sᵀ F of dof j. The first three dofs of a free joint are the world's axes
template <bool kFree, int kLanes>
COSTATE_LANES double Along(const ArticulatedDof* dof, int j, const Spatial<kLanes>& F) {
  return kFree && j < 3 ? F[3 + j] : Spatial<kLanes>::Load(dof[j].S).Dot(F);
}

// (S4) U = I S and K = SᵀU + armature of all dofs of a body, K = LᵀDL and U ← U L⁻¹; their motion takes U D⁻¹ Uᵀ off the
// inertia that the parent feels. `inverse` holds what is added to SᵀU, then 1/D
template <int kLanes, int n, bool kFree>
COSTATE_LANES bool EliminateDofs(ArticulatedDof* dof, Spatial<kLanes>* I, bool has_parent) {
  using Six = Spatial<kLanes>;
  Six U[n];
  double K[n][n];
  COSTATE_UNROLL for (int k = 0; k < n; k++) {
    const Six S = Six::Load(dof[k].S);
    if (kFree && k < 3) U[k] = I[3 + k];
    else U[k] = (I[0] * S[0] + I[1] * S[1]) + (I[2] * S[2] + I[3] * S[3]) + (I[4] * S[4] + I[5] * S[5]);
    COSTATE_UNROLL for (int j = 0; j <= k; j++) K[k][j] = Along<kFree>(dof, j, U[k]);
    K[k][k] += dof[k].inverse;
  }
  COSTATE_UNROLL for (int k = n - 1; k >= 0; k--) {
    if (!(K[k][k] > 0)) return false;
    const double inverse = 1 / K[k][k];
    dof[k].inverse = inverse;
    COSTATE_UNROLL for (int j = 0; j < k; j++) {
      const double coupling = K[k][j] * inverse;
      COSTATE_UNROLL for (int i = 0; i <= j; i++) K[j][i] -= coupling * K[k][i];
      U[j] -= U[k] * coupling;
      dof[k].coupling[j] = coupling;
    }
    U[k].Store(&dof[k].U);
    if (kFree || !has_parent) continue;
    const Six scaled = U[k] * inverse;
    for (int c = 0; c < 6; c++) I[c] -= scaled * U[k][c];
  }
  return true;
}

// calls f(number of a body's dofs, are they a free joint's), constants both
template <typename F>
COSTATE_LANES auto WithCount(const ArticulatedBody& body, F f) {
  constexpr std::false_type other;
  if (body.free) return f(std::integral_constant<int, 6>(), std::true_type());
  switch (body.end - body.begin) {
    case 1: return f(std::integral_constant<int, 1>(), other);
    case 2: return f(std::integral_constant<int, 2>(), other);
    case 3: return f(std::integral_constant<int, 3>(), other);
    case 4: return f(std::integral_constant<int, 4>(), other);
    case 5: return f(std::integral_constant<int, 5>(), other);
    default: return f(std::integral_constant<int, 6>(), other);
  }
}

template <int kLanes>
COSTATE_LANES bool EliminateOf(int nbody, ArticulatedBody* bodies, ArticulatedDof* dofs) {
  using Six = Spatial<kLanes>;
  for (int n = nbody - 1; n > 0; n--) {
    if (bodies[n].order < 0) continue;
    const ArticulatedBody& body = bodies[bodies[n].order];
    Six I[6];
    for (int c = 0; c < 6; c++) I[c] = Six::Load(body.inertia[c]);
    ArticulatedDof* dof = dofs + body.begin;
    const bool has_parent = body.parent != 0;
    if (!WithCount(
            body, [&](auto n, auto free)
                      __attribute__((always_inline)) { return EliminateDofs<kLanes, n, free>(dof, I, has_parent); })) {
      return false;
    }
    if (!has_parent) continue;
    Double8* parent = bodies[body.parent].inertia;
    for (int c = 0; c < 6; c++) (Six::Load(parent[c]) + I[c]).Store(parent + c);
  }
  return true;
}

// forces of the dofs of a body, of what its leaves push it with; nothing is above a free joint
template <int kLanes, int n, bool kFree>
COSTATE_LANES void Push(const ArticulatedDof* dof, Spatial<kLanes>* force, double* x) {
  using Six = Spatial<kLanes>;
  double t[n];
  COSTATE_UNROLL for (int j = 0; j < n; j++) t[j] = x[j] - Along<kFree>(dof, j, *force);
  COSTATE_UNROLL for (int k = n - 1; k >= 0; k--) {
    COSTATE_UNROLL for (int j = 0; j < k; j++) t[j] -= dof[k].coupling[j] * t[k];
    x[k] = t[k];
    if (!kFree) *force += Six::Load(dof[k].U) * (t[k] * dof[k].inverse);
  }
}

// accelerations of the dofs of a body, of how its parent moves
template <int kLanes, int n, bool kFree>
COSTATE_LANES void Move(const ArticulatedDof* dof, Spatial<kLanes>* motion, double* x) {
  using Six = Spatial<kLanes>;
  double t[n];
  COSTATE_UNROLL for (int j = 0; j < n; j++) {
    t[j] = (kFree ? x[j] : x[j] - Six::Load(dof[j].U).Dot(*motion)) * dof[j].inverse;
  }
  COSTATE_UNROLL for (int j = 0; j < n; j++) {
    COSTATE_UNROLL for (int k = j + 1; k < n; k++) t[k] -= dof[k].coupling[j] * t[j];
    x[j] = t[j];
    *motion += Six::Load(dof[j].S) * t[j];
  }
}

template <int kLanes>
COSTATE_LANES void SolveOf(int nbody, ArticulatedBody* body, const ArticulatedDof* dof, double* x) {
  using Six = Spatial<kLanes>;
  // forces from the leaves, then motions from the roots
  for (int b = 0; b < nbody; b++) body[b].spatial = Double8{};
  for (int n = nbody - 1; n > 0; n--) {
    const int b = body[n].order;
    if (b < 0) continue;
    const int begin = body[b].begin;
    Six force = Six::Load(body[b].spatial);
    WithCount(
        body[b], [&](auto n, auto free)
                     __attribute__((always_inline)) { Push<kLanes, n, free>(dof + begin, &force, x + begin); });
    if (body[b].free) continue;
    Double8* parent = &body[body[b].parent].spatial;
    (Six::Load(*parent) + force).Store(parent);
  }
  body[0].spatial = Double8{};
  for (int n = 1; n < nbody; n++) {
    const int b = body[n].order;
    if (b < 0) continue;
    const int begin = body[b].begin;
    Six motion = Six::Load(body[body[b].parent].spatial);
    WithCount(
        body[b], [&](auto n, auto free)
                     __attribute__((always_inline)) { Move<kLanes, n, free>(dof + begin, &motion, x + begin); });
    motion.Store(&body[b].spatial);
  }
}

COSTATE_SIMD_LANES(bool, Eliminate, (int nbody, ArticulatedBody* bodies, ArticulatedDof* dofs), EliminateOf,
                   (nbody, bodies, dofs))
COSTATE_SIMD_LANES(void, SolveWith, (int nbody, ArticulatedBody* body, const ArticulatedDof* dof, double* x), SolveOf,
                   (nbody, body, dof, x))

}  // namespace

ArticulatedSolver::ArticulatedSolver(const mjModel* model)
    : body_(model->nbody), dof_(model->nv), force_(model->nbody), motion_(model->nbody) {
  for (int b = 0; b < model->nbody; b++) {
    const int begin = model->body_dofnum[b] ? model->body_dofadr[b] : 0;
    body_[b].parent = model->body_weldid[model->body_parentid[b]];
    body_[b].begin = begin;
    body_[b].end = begin + model->body_dofnum[b];
    body_[b].free = model->body_dofnum[b] > 0 && model->jnt_type[model->body_jntadr[b]] == mjJNT_FREE;
  }
  std::vector<int> depth(model->nbody, 0), order(model->nbody);
  for (int b = 1; b < model->nbody; b++) depth[b] = depth[model->body_parentid[b]] + 1;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int i, int j) { return depth[i] < depth[j]; });

  // what has no dofs is part of the body that it is welded to
  for (int n = 0; n < model->nbody; n++) body_[n].order = model->body_dofnum[order[n]] > 0 ? order[n] : -1;
}

bool ArticulatedSolver::Covers(const mjModel* m) {
  for (int t = 0; t < m->ntendon; t++) {
    if (m->tendon_armature[t] != 0 || m->tendon_actuatorid[t] != -1) return false;
  }
  return true;
}

bool ArticulatedSolver::Pays(const mjModel* m) {
  const mjtSize nv = m->nv;
  return nv > 0 && m->M_rowadr[nv - 1] + m->M_rownnz[nv - 1] > kRowEntries * nv && Covers(m);
}

COSTATE_SIMD bool ArticulatedSolver::Factor(const mjModel* m, const mjData* d, const double* diagonal,
                                            const BodyConstraint* first, const BodyConstraint* second) {
  // four numbers and two, since GCC moves eight to memory and back where a register holds four
  const auto add = [](Double4 begin, Double4 end, Double8 * column) __attribute__((always_inline)) {
    LooseDouble4* to = reinterpret_cast<LooseDouble4*>(column);
    to[0] += begin;
    to[1] += end;
  };
  const auto add_all = [&](const Mat6& HH, Double8* inertia) __attribute__((always_inline)) {
    for (int c = 0; c < 6; c++) {
      const double* h = HH.data() + 6 * c;
      add(Double4{h[0], h[1], h[2], h[3]}, Double4{h[4], h[5], 0, 0}, inertia + c);
    }
  };
  for (int b = 1; b < m->nbody; b++) {
    const double *I = d->cinert + 10 * b, *h = I + 6, mass = I[9];
    const int weld = m->body_weldid[b];
    if (weld == 0) continue;
    Double8* inertia = body_[weld].inertia;
    if (weld == b) std::fill_n(inertia, 6, Double8{});
    add(Double4{I[0], I[3], I[4], 0}, Double4{-h[2], h[1], 0, 0}, inertia);
    add(Double4{I[3], I[1], I[5], h[2]}, Double4{0, -h[0], 0, 0}, inertia + 1);
    add(Double4{I[4], I[5], I[2], -h[1]}, Double4{h[0], 0, 0, 0}, inertia + 2);
    add(Double4{0, h[2], -h[1], mass}, Double4{0, 0, 0, 0}, inertia + 3);
    add(Double4{-h[2], 0, h[0], 0}, Double4{mass, 0, 0, 0}, inertia + 4);
    add(Double4{h[1], -h[0], 0, 0}, Double4{0, mass, 0, 0}, inertia + 5);
    if (first && first[b].active) add_all(first[b].HH, inertia);
    if (second && second[b].active) add_all(second[b].HH, inertia);
  }
  for (int j = 0; j < m->nv; j++) {
    const double* S = d->cdof + 6 * j;
    LooseDouble4* to = reinterpret_cast<LooseDouble4*>(&dof_[j].S);
    to[0] = Double4{S[0], S[1], S[2], S[3]};
    to[1] = Double4{S[4], S[5], 0, 0};
    dof_[j].inverse = Armature(m, j) + diagonal[j];
  }
  return Eliminate(static_cast<int>(m->nbody), body_.data(), dof_.data());
}

COSTATE_SIMD void ArticulatedSolver::Multiply(const mjModel* m, const mjData* d, const double* a, double* out) {
  const int nbody = static_cast<int>(body_.size());
  motion_[0] = Lanes6::Zero();
  for (int b = 1; b < nbody; b++) {
    Lanes6 motion = motion_[body_[b].parent];
    for (int j = body_[b].begin; j < body_[b].end; j++) motion += a[j] * Lanes6::Load(d->cdof + 6 * j);
    motion_[b] = motion;
    force_[b] = InertiaLanes(d->cinert + 10 * b) * motion;
  }
  for (int b = nbody - 1; b > 0; b--) {
    for (int j = body_[b].begin; j < body_[b].end; j++) {
      out[j] = DotLanes(Lanes6::Load(d->cdof + 6 * j), force_[b]) + Armature(m, j) * a[j];
    }
    if (body_[b].parent != 0) force_[body_[b].parent] += force_[b];
  }
}

void ArticulatedSolver::Solve(double* x) const {
  SolveWith(static_cast<int>(body_.size()), body_.data(), dof_.data(), x);
}

}  // namespace costate
