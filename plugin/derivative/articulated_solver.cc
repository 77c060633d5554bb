#include "derivative/articulated_solver.h"

namespace costate {

namespace {

constexpr int kRowEntries = 10;  // a row of M with so many costs a factorization what a dof costs this solver

// rotor inertia of a dof, actuators' contributions included
double Armature(const mjModel* m, int dof) {
  double armature = m->dof_armature[dof];
  const int joint = m->dof_jntid[dof], owner = m->jnt_actuatorid[joint];
  const auto add = [&](int i) {
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

}  // namespace

ArticulatedSolver::ArticulatedSolver(const mjModel* model)
    : inertia_(model->nbody), dof_(model->nv), force_(model->nbody), motion_(model->nbody) {
  for (int b = 0; b < model->nbody; b++) {
    const int begin = model->body_dofnum[b] ? model->body_dofadr[b] : 0;
    body_.push_back({model->body_parentid[b], begin, begin + model->body_dofnum[b]});
  }
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

bool ArticulatedSolver::Factor(const mjModel* m, const mjData* d, const double* diagonal, const BodyConstraint* first,
                               const BodyConstraint* second) {
  for (int b = 1; b < m->nbody; b++) {
    const Inertia body = Inertia::From(d->cinert + 10 * b);
    const Mat3 h = Skew(Vec3Map(body.h));
    Mat6& I = inertia_[b];
    I.topLeftCorner<3, 3>() = body.Rotational();
    I.topRightCorner<3, 3>() = h;
    I.bottomLeftCorner<3, 3>() = -h;
    I.bottomRightCorner<3, 3>() = body.m * Mat3::Identity();
    if (first && first[b].active) I += first[b].HH;
    if (second && second[b].active) I += second[b].HH;
  }

  // (S4) U = I S, D = S·U + armature; the dof's motion takes U Uᵀ / D off the inertia that its parent feels
  for (int b = static_cast<int>(m->nbody) - 1; b > 0; b--) {
    Mat6& I = inertia_[b];
    for (int j = body_[b].end - 1; j >= body_[b].begin; j--) {
      Dof& dof = dof_[j];
      dof.S = Vec6Map(d->cdof + 6 * j);
      dof.U.noalias() = I * dof.S;
      const double pivot = dof.S.dot(dof.U) + Armature(m, j) + diagonal[j];
      if (!(pivot > 0)) return false;
      dof.inverse = 1 / pivot;
      const Vec6 scaled = dof.U * dof.inverse;
      for (int c = 0; c < 6; c++) I.col(c) -= scaled[c] * dof.U;
    }
    if (body_[b].parent != 0) inertia_[body_[b].parent] += I;
  }
  return true;
}

void ArticulatedSolver::Multiply(const mjModel* m, const mjData* d, const double* a, double* out) {
  const int nbody = static_cast<int>(body_.size());
  motion_[0].setZero();
  for (int b = 1; b < nbody; b++) {
    motion_[b] = motion_[body_[b].parent];
    for (int j = body_[b].begin; j < body_[b].end; j++) motion_[b] += Vec6Map(d->cdof + 6 * j) * a[j];
    force_[b] = Inertia::From(d->cinert + 10 * b) * motion_[b];
  }
  for (int b = nbody - 1; b > 0; b--) {
    for (int j = body_[b].begin; j < body_[b].end; j++) {
      out[j] = Vec6Map(d->cdof + 6 * j).dot(force_[b]) + Armature(m, j) * a[j];
    }
    if (body_[b].parent != 0) force_[body_[b].parent] += force_[b];
  }
}

void ArticulatedSolver::Solve(double* x) const {
  const int nbody = static_cast<int>(body_.size());
  for (Vec6& force : force_) force.setZero();
  for (int b = nbody - 1; b > 0; b--) {
    Vec6& force = force_[b];
    for (int j = body_[b].end - 1; j >= body_[b].begin; j--) {
      x[j] -= dof_[j].S.dot(force);
      force += dof_[j].U * (x[j] * dof_[j].inverse);
    }
    if (body_[b].parent != 0) force_[body_[b].parent] += force;
  }
  motion_[0].setZero();
  for (int b = 1; b < nbody; b++) {
    Vec6& motion = motion_[b];
    motion = motion_[body_[b].parent];
    for (int j = body_[b].begin; j < body_[b].end; j++) {
      x[j] = (x[j] - dof_[j].U.dot(motion)) * dof_[j].inverse;
      motion += dof_[j].S * x[j];
    }
  }
}

}  // namespace costate
