#include "derivative/effective_mass.h"

#include <costate/model.h>

#include "derivative/passive.h"

namespace costate {

namespace {

bool Damps(const mjModel* m) { return !(m->opt.disableflags & mjDSBL_DAMPER); }

// a free joint whose body has no jointed descendants: implicitfast adds its gyroscopic derivative
bool IsStandaloneFree(const mjModel* m, int joint) {
  if (m->jnt_type[joint] != mjJNT_FREE) return false;
  const int body = m->jnt_bodyid[joint];
  for (int b = body + 1; b < m->nbody && m->body_rootid[b] == m->body_rootid[body]; b++) {
    if (m->body_dofnum[b] > 0) return false;
  }
  return true;
}

}  // namespace

bool HasImplicitVelocity(const mjModel* m) {
  if (m->opt.integrator == mjINT_IMPLICIT || m->opt.integrator == mjINT_IMPLICITFAST) return true;
  if (m->opt.integrator != mjINT_EULER || (m->opt.disableflags & mjDSBL_EULERDAMP) || !Damps(m)) return false;
  for (int i = 0; i < m->nv; i++) {
    if (m->dof_damping[i] > 0 || !mju_isZero(m->dof_dampingpoly + mjNPOLY * i, mjNPOLY) ||
        m->jnt_actuatorid[m->dof_jntid[i]] != -1) {
      return true;
    }
  }
  return false;
}

EffectiveMass::EffectiveMass(const mjModel* model)
    : solver_(model->dof_parentid, static_cast<int>(model->nv)), diagonal_(model->nv), slope_(model->nv) {}

std::string EffectiveMass::Missing(const mjModel* m) {
  if (m->opt.integrator == mjINT_IMPLICIT) return "implicit: the Coriolis part of its damping matrix moves";
  if (m->opt.integrator != mjINT_IMPLICITFAST) return "";
  std::string missing = PassiveMissing(m);
  if (missing.empty()) missing = Actuation::Missing(m);
  if (!missing.empty()) return "implicitfast: damping matrix of " + missing;
  for (int j = 0; j < m->njnt; j++) {
    if (IsStandaloneFree(m, j)) return "implicitfast: gyroscopic damping of the free " + ElementName(m, mjOBJ_JOINT, j);
  }
  for (int t = 0; t < m->ntendon && Damps(m); t++) {
    const Damping damping = TendonDamping(m, t);
    if (!mju_isZero(damping.poly, mjNPOLY)) return "implicitfast: polynomial damping of " + ElementName(m, mjOBJ_TENDON, t);
  }
  for (int i = 0; i < m->nactuator; i++) {
    const bool affine = m->actuator_gaintype[i] == mjGAIN_AFFINE && m->actuator_gainprm[mjNGAIN * i + 2] != 0;
    if (affine || m->actuator_gaintype[i] == mjGAIN_MUSCLE) {
      return "implicitfast: velocity-dependent gain of " + ElementName(m, mjOBJ_ACTUATOR, i);
    }
  }
  return "";
}

// an entry of M' − M, dropped where M has none, as the engine does
void EffectiveMass::Add(int row, int col, double value) {
  if (row == col) {
    diagonal_[row] += value;
    solver_.diagonal(row) += value;
  } else if (col < row && solver_.Add(row, col, value)) {
    entries_.push_back({row, col, value});
  }
}

bool EffectiveMass::Compute(const mjModel* m, const mjData* d, const Actuation& actuation, const double* a) {
  const int nv = static_cast<int>(m->nv);
  const double h = m->opt.timestep;
  solver_.SetZero();
  for (int i = 0; i < nv; i++) {
    const int adr = m->M_rowadr[i];
    solver_.AddRow(i, m->M_colind + adr, d->M + adr, m->M_rownnz[i]);
  }
  std::fill(diagonal_.begin(), diagonal_.end(), 0.0);
  std::fill(slope_.begin(), slope_.end(), 0.0);
  entries_.clear();

  // joint damping
  for (int i = 0; i < nv && Damps(m); i++) {
    const Damping damping = DofDamping(m, i);
    Add(i, i, h * damping.Slope(d->qvel[i]));
    slope_[i] = h * damping.SlopeSlope(d->qvel[i]);
  }
  if (m->opt.integrator == mjINT_IMPLICITFAST) {
    // tendon damping and actuators' velocity gains
    const auto add = [&](const int* col, const mjtNum* J, int n, double factor) {
      for (int k = 0; k < n && factor != 0; k++) {
        for (int l = 0; l < n; l++) Add(col[k], col[l], factor * J[k] * J[l]);
      }
    };
    for (int t = 0; t < m->ntendon && Damps(m); t++) {
      const int adr = m->ten_J_rowadr[t];
      add(m->ten_J_colind + adr, d->ten_J + adr, m->ten_J_rownnz[t], h * TendonDamping(m, t).Slope(d->ten_velocity[t]));
    }
    for (int i = 0; i < static_cast<int>(actuation.slopes().size()); i++) {
      const int out = m->actuator_outadr[i], adr = d->moment_rowadr[out];
      add(d->moment_colind + adr, d->actuator_moment + adr, d->moment_rownnz[out], -h * actuation.slopes()[i].velocity);
    }
  }

  // ā = M'⁻¹ M a
  applied_.resize(nv);
  mj_mulM(m, d, applied_.data(), a);
  if (!solver_.Factor()) return false;
  solver_.Solve(applied_.data());
  difference_ = Eigen::Map<const Eigen::VectorXd>(a, nv) - applied_;
  return true;
}

void EffectiveMass::Apply(const mjModel*, const mjData*, BlockedMatrix* X, BlockedMatrix* E) const {
  constexpr int kWidth = BlockedMatrix::kWidth;
  const int nv = X->rows();

  // polynomial damping: −h B'(v) ā on the diagonal of the v columns
  for (int i = 0; i < nv; i++) {
    if (slope_[i] != 0) (*E)(i, nv + i) -= slope_[i] * applied_[i];
  }
  for (int b = 0; b < X->blocks(); b++) {
    double *x = X->block(b), *e = E->block(b);
    for (int i = 0; i < nv; i++) {
      for (int c = 0; c < kWidth; c++) e[i * kWidth + c] -= diagonal_[i] * x[i * kWidth + c];
    }
    for (const Entry& entry : entries_) {
      for (int c = 0; c < kWidth; c++) {
        e[entry.row * kWidth + c] -= entry.value * x[entry.col * kWidth + c];
        e[entry.col * kWidth + c] -= entry.value * x[entry.row * kWidth + c];
      }
    }
  }
  solver_.Solve(E);
  for (int b = 0; b < X->blocks(); b++) {
    double* x = X->block(b);
    const double* e = E->block(b);
    for (int k = 0; k < nv * kWidth; k++) x[k] += e[k];
  }
}

}  // namespace costate
