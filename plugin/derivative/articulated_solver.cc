#include "derivative/articulated_solver.h"

#include <algorithm>
#include <numeric>

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
    const int type = m->actuator_trntype[i];
    if (m->actuator_trnid[2 * i] == joint && (type == mjTRN_JOINT || type == mjTRN_JOINTINPARENT)) add(i);
  }
  return armature;
}

__attribute__((always_inline)) inline double Dot(const Double8& x, const Double8& y) {
  // the last two lanes are zero
  const Double8 p = x * y;
  const Double4 half = __builtin_shufflevector(p, p, 0, 1, 2, 3) + __builtin_shufflevector(p, p, 4, 5, 6, 7);
  return (half[0] + half[2]) + (half[1] + half[3]);
}

// (S4) U = I S, D = S·U + armature; the dof's motion takes U Uᵀ / D off the inertia that its parent feels. `inverse` holds
// what is added to S·U, then 1/D
COSTATE_SIMD bool Eliminate(int nbody, ArticulatedBody* bodies, ArticulatedDof* dofs) {
  for (int n = nbody - 1; n > 0; n--) {
    if (bodies[n].order < 0) continue;
    const ArticulatedBody& body = bodies[bodies[n].order];
    Double8 I[6];
    for (int c = 0; c < 6; c++) I[c] = body.inertia[c];
    for (int j = body.end - 1; j >= body.begin; j--) {
      ArticulatedDof& dof = dofs[j];
      const Double8 S = dof.S;
      const Double8 U = (I[0] * S[0] + I[1] * S[1]) + (I[2] * S[2] + I[3] * S[3]) + (I[4] * S[4] + I[5] * S[5]);
      const double pivot = Dot(S, U) + dof.inverse;
      if (!(pivot > 0)) return false;
      const double inverse = 1 / pivot;
      const Double8 scaled = U * inverse;
      for (int c = 0; c < 6; c++) I[c] -= U[c] * scaled;
      dof.U = U;
      dof.inverse = inverse;
    }
    if (body.parent == 0) continue;
    for (int c = 0; c < 6; c++) bodies[body.parent].inertia[c] += I[c];
  }
  return true;
}

COSTATE_SIMD void SolveWith(int nbody, ArticulatedBody* body, const ArticulatedDof* dof, double* x) {
  // forces from the leaves, then motions from the roots
  for (int b = 0; b < nbody; b++) body[b].spatial = Double8{};
  for (int n = nbody - 1; n > 0; n--) {
    const int b = body[n].order;
    if (b < 0) continue;
    Double8 force = body[b].spatial;
    for (int j = body[b].end - 1; j >= body[b].begin; j--) {
      x[j] -= Dot(dof[j].S, force);
      force += dof[j].U * (x[j] * dof[j].inverse);
    }
    body[body[b].parent].spatial += force;
  }
  body[0].spatial = Double8{};
  for (int n = 1; n < nbody; n++) {
    const int b = body[n].order;
    if (b < 0) continue;
    Double8 motion = body[body[b].parent].spatial;
    for (int j = body[b].begin; j < body[b].end; j++) {
      x[j] = (x[j] - Dot(dof[j].U, motion)) * dof[j].inverse;
      motion += dof[j].S * x[j];
    }
    body[b].spatial = motion;
  }
}

}  // namespace

ArticulatedSolver::ArticulatedSolver(const mjModel* model)
    : body_(model->nbody), dof_(model->nv), force_(model->nbody), motion_(model->nbody) {
  for (int b = 0; b < model->nbody; b++) {
    const int begin = model->body_dofnum[b] ? model->body_dofadr[b] : 0;
    body_[b].parent = model->body_weldid[model->body_parentid[b]];
    body_[b].begin = begin;
    body_[b].end = begin + model->body_dofnum[b];
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
  const auto add = [](const Mat6& HH, Double8* inertia) __attribute__((always_inline)) {
    for (int c = 0; c < 6; c++) {
      const double* h = HH.data() + 6 * c;
      inertia[c] += Double8{h[0], h[1], h[2], h[3], h[4], h[5]};
    }
  };
  for (int b = 1; b < m->nbody; b++) {
    const double *I = d->cinert + 10 * b, *h = I + 6, mass = I[9];
    const int weld = m->body_weldid[b];
    if (weld == 0) continue;
    Double8* inertia = body_[weld].inertia;
    if (weld == b) std::fill_n(inertia, 6, Double8{});
    inertia[0] += Double8{I[0], I[3], I[4], 0, -h[2], h[1]};
    inertia[1] += Double8{I[3], I[1], I[5], h[2], 0, -h[0]};
    inertia[2] += Double8{I[4], I[5], I[2], -h[1], h[0], 0};
    inertia[3] += Double8{0, h[2], -h[1], mass, 0, 0};
    inertia[4] += Double8{-h[2], 0, h[0], 0, mass, 0};
    inertia[5] += Double8{h[1], -h[0], 0, 0, 0, mass};
    if (first && first[b].active) add(first[b].HH, inertia);
    if (second && second[b].active) add(second[b].HH, inertia);
  }
  for (int j = 0; j < m->nv; j++) {
    const double* S = d->cdof + 6 * j;
    dof_[j].S = Double8{S[0], S[1], S[2], S[3], S[4], S[5]};
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
