#include "derivative/equilibrium.h"

#include <algorithm>
#include <cmath>

namespace costate {

namespace {

constexpr double kConverged = 1e-12;   // of the largest |a|: the Newton step that is left
constexpr double kAcceptable = 1e-8;   // rounding may keep a stiff system from kConverged; beyond this a is wrong
constexpr int kPolish = 4;             // Newton steps with a fixed active set need one

bool IsBad(const double* x, int n) {
  return std::any_of(x, x + n, [](double value) { return !std::isfinite(value) || std::abs(value) > mjMAXVAL; });
}

}  // namespace

void FullMassMatrix(const mjModel* m, const mjData* d, Eigen::MatrixXd* M) {
  M->setZero(m->nv, m->nv);
  for (int i = 0; i < m->nv; i++) {
    for (int k = m->M_rowadr[i]; k < m->M_rowadr[i] + m->M_rownnz[i]; k++) {
      (*M)(i, m->M_colind[k]) = (*M)(m->M_colind[k], i) = d->M[k];
    }
  }
}

StepStatus ForwardStatus(const mjModel* m, const mjData* d, const mjWarningStat* before) {
  const auto raised = [&](int kind) { return d->warning[kind].number > before[kind].number; };
  if (raised(mjWARN_BADCTRL)) return StepStatus::kBadControl;
  if (raised(mjWARN_CONTACTFULL) || raised(mjWARN_CNSTRFULL)) return StepStatus::kArenaFull;
  if (IsBad(d->qpos, m->nq) || IsBad(d->qvel, m->nv) || IsBad(d->qacc, m->nv)) return StepStatus::kBadState;
  return StepStatus::kOk;
}

bool Equilibrium::Solve(const mjModel* model, mjData* d, StepStatus* status, std::string* reason) {
  mjWarningStat before[mjNWARNING];
  std::copy(d->warning, d->warning + mjNWARNING, before);
  mjModel local = *model;
  local.opt.solver = mjSOL_NEWTON;
  local.opt.noslip_iterations = 0;
  mj_forward(&local, d);
  *status = ForwardStatus(&local, d, before);
  if (*status != StepStatus::kOk) {
    *reason = ToString(*status);
    return false;
  }
  a_ = Eigen::Map<const Eigen::VectorXd>(d->qacc, model->nv);
  double step = 0, size = 1;
  for (int attempt = 0; attempt < 2; attempt++) {
    for (int k = 0; k < kPolish; k++) {
      Update(&local, d);
      step = r_.size() ? r_.lpNorm<Eigen::Infinity>() : 0;
      size = 1 + (a_.size() ? a_.lpNorm<Eigen::Infinity>() : 0);
      if (!(step > kConverged * size)) break;
      if (k + 1 < kPolish) a_ -= r_;
    }
    if (step <= kConverged * size || attempt == 1) break;

    // the active set was not the solution's: let the engine search to the end
    local.opt.tolerance = 0;
    local.opt.iterations = std::max(200, local.opt.iterations);
    mju_copy(d->qacc_warmstart, d->qacc, model->nv);
    mj_forward(&local, d);
    a_ = Eigen::Map<const Eigen::VectorXd>(d->qacc, model->nv);
  }
  mju_copy(d->qacc, a_.data(), model->nv);
  if (!(step <= kAcceptable * size)) {
    *reason = "the residual is not zero at the engine's acceleration (Newton step " + std::to_string(step) + ")";
    return false;
  }
  return true;
}

// r_ ← H⁻¹ r(a), with states, forces and H at a
void Equilibrium::Update(const mjModel* m, mjData* d) {
  if (d->nefc) {
    // y = J a − aref
    y_.resize(d->nefc);
    mj_mulJacVec(m, d, y_.data(), a_.data());
    for (int i = 0; i < d->nefc; i++) y_[i] -= d->efc_aref[i];
    mj_constraintUpdate(m, d, y_.data(), nullptr, 1);
  } else {
    mju_zero(d->qfrc_constraint, m->nv);
  }

  // r = M a − f_smooth − Jᵀ f
  r_.resize(m->nv);
  mj_mulM(m, d, r_.data(), a_.data());
  for (int i = 0; i < m->nv; i++) r_[i] -= d->qfrc_smooth[i] + d->qfrc_constraint[i];
  Assemble(m, d);
  llt_.compute(H_);
  llt_.solveInPlace(r_);
}

// H = M + Jᵀ s'' J
void Equilibrium::Assemble(const mjModel* m, const mjData* d) {
  FullMassMatrix(m, d, &H_);
  const auto add = [&](int i, int j, double weight) {
    ForJacobianRow(m, d, i, [&](int r, double Jr) {
      ForJacobianRow(m, d, j, [&](int c, double Jc) { H_(r, c) += weight * Jr * Jc; });
    });
  };
  for (int i = 0; i < d->nefc; i++) {
    if (d->efc_state[i] == mjCNSTRSTATE_QUADRATIC) {
      add(i, i, d->efc_D[i]);
    } else if (d->efc_state[i] == mjCNSTRSTATE_CONE) {
      const mjContact& con = d->contact[d->efc_id[i]];
      for (int r = 0; r < con.dim; r++) {
        for (int c = 0; c < con.dim; c++) add(i + r, i + c, con.H[r * con.dim + c]);
      }
      i += con.dim - 1;
    }
  }
}

}  // namespace costate
