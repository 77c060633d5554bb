#include "derivative/equilibrium.h"

#include <algorithm>
#include <cmath>

namespace costate {

namespace {

constexpr double kConverged = 1e-12;   // of the largest |a|: the Newton step that is left
constexpr double kAcceptable = 1e-8;   // rounding may keep a stiff system from kConverged; beyond this a is wrong
constexpr double kRounding = 1e-14;    // of the largest force: a residual this small is rounding, H is not needed to tell
constexpr int kPolish = 4;             // Newton steps with a fixed active set need one

bool IsBad(const double* x, int n) {
  return std::any_of(x, x + n, [](double value) { return !std::isfinite(value) || std::abs(value) > mjMAXVAL; });
}

double MaxAbs(const Eigen::VectorXd& x) { return x.size() ? x.lpNorm<Eigen::Infinity>() : 0; }

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

bool Equilibrium::Solve(const mjModel* model, mjData* d, StepStatus* status, std::string* reason, bool factor) {
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
  if (Update(&local, d, reason, factor)) return true;

  // the active set was not the solution's: let the engine search to the end
  local.opt.tolerance = 0;
  local.opt.iterations = std::max(200, local.opt.iterations);
  mju_copy(d->qacc_warmstart, d->qacc, static_cast<int>(model->nv));
  mj_forward(&local, d);
  return Update(&local, d, reason, factor) || reason->empty();
}

bool Equilibrium::Update(const mjModel* m, mjData* d, std::string* reason, bool factor) {
  a_ = Eigen::Map<const Eigen::VectorXd>(d->qacc, m->nv);
  const double step = Polish(m, d, factor);
  mju_copy(d->qacc, a_.data(), static_cast<int>(m->nv));
  reason->clear();
  if (step <= kConverged) return true;
  if (!(step <= kAcceptable)) {
    *reason = "the residual is not zero at the engine's acceleration (Newton step " + std::to_string(step) + ")";
  }
  return false;
}

// Newton steps on a_ while they help; returns the last one that was not taken, relative to a
double Equilibrium::Polish(const mjModel* m, mjData* d, bool factor) {
  double step = 0;
  for (int k = 0; k < kPolish; k++) {
    Residual(m, d);
    if (!factor && MaxAbs(r_) <= rounding_) return 0;
    Assemble(m, d);
    llt_.compute(H_);
    llt_.solveInPlace(r_);
    step = MaxAbs(r_) / (1 + MaxAbs(a_));
    if (!(step > kConverged) || k + 1 == kPolish) return step;
    a_ -= r_;
  }
  return step;
}

// r_ ← r(a), with states and forces at a
void Equilibrium::Residual(const mjModel* m, mjData* d) {
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
  rounding_ = 0;
  for (int i = 0; i < m->nv; i++) {
    rounding_ = std::max(rounding_, std::abs(r_[i]) + std::abs(d->qfrc_smooth[i]) + std::abs(d->qfrc_constraint[i]));
    r_[i] -= d->qfrc_smooth[i] + d->qfrc_constraint[i];
  }
  rounding_ *= kRounding;
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
