#include "derivative/equilibrium.h"

#include <algorithm>
#include <cmath>

#include "core/plugins.h"

namespace costate {

namespace {

constexpr int kPolish = 4;             // Newton steps with a fixed active set need one
constexpr double kTolerance = 1e-14;   // one more iteration of the engine's solver is cheaper than one of ours

bool IsBad(const double* x, int n) {
  return std::any_of(x, x + n, [](double value) { return !std::isfinite(value) || std::abs(value) > mjMAXVAL; });
}

// @return whether that changes anything
bool SetForwardOptions(const mjModel* m, bool sensors, mjOption* option) {
  const mjOption before = *option;
  if (NewtonMayReplace(m)) option->solver = mjSOL_NEWTON;
  option->noslip_iterations = 0;
  option->tolerance = std::min(option->tolerance, kTolerance);
  if (!sensors) option->disableflags |= mjDSBL_SENSOR;
  if (!sensors) option->enableflags &= ~mjENBL_ENERGY;
  if (m->ntree == 1) option->disableflags |= mjDSBL_ISLAND;  // one at most: finding it is all that it would cost
  return option->solver != before.solver || option->noslip_iterations != before.noslip_iterations ||
         option->tolerance != before.tolerance || option->disableflags != before.disableflags ||
         option->enableflags != before.enableflags;
}

double MaxAbs(const Eigen::VectorXd& x) { return x.size() ? x.lpNorm<Eigen::Infinity>() : 0; }

}  // namespace

void DiscreteForce(const mjModel* m, mjData* d, const mjtNum* a, mjtNum* out) {
  mju_copy(d->qacc, a, static_cast<int>(m->nv));
  mj_inverseSkip(m, d, mjSTAGE_VEL, 1);
  mju_add(out, d->qfrc_inverse, d->qfrc_constraint, static_cast<int>(m->nv));
}

// DiscreteForce is linear in a: at a large one everything else is a rounding
void DiscreteMetric(const mjModel* m, mjData* d, Eigen::MatrixXd* metric) {
  constexpr double kLarge = 1 << 30;
  const int nv = static_cast<int>(m->nv);
  const Eigen::VectorXd qacc = Eigen::Map<const Eigen::VectorXd>(d->qacc, nv);
  Eigen::VectorXd a = Eigen::VectorXd::Zero(nv), rest(nv);
  metric->resize(nv, nv);
  DiscreteForce(m, d, a.data(), rest.data());
  for (int j = 0; j < nv; j++) {
    a[j] = kLarge;
    DiscreteForce(m, d, a.data(), metric->col(j).data());
    metric->col(j) = (metric->col(j) - rest) / kLarge;
    a[j] = 0;
  }
  mju_copy(d->qacc, qacc.data(), nv);
}

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

void Equilibrium::PrepareForward(mjModel* model, bool sensors) {
  SetForwardOptions(model, sensors, &model->opt);
  if (!sensors && !MayReadReports(model)) model->ncam = model->nlight = 0;
}

bool Equilibrium::Forward(const mjModel* model, mjData* d, bool sensors, StepStatus* status, std::string* reason) {
  mjWarningStat before[mjNWARNING];
  std::copy(d->warning, d->warning + mjNWARNING, before);
  mjOption option = model->opt;
  if (SetForwardOptions(model, sensors, &option)) {
    mjModel local = *model;
    local.opt = option;
    mj_forward(&local, d);
  } else {
    mj_forward(model, d);
  }
  *status = ForwardStatus(model, d, before);
  if (*status != StepStatus::kOk) *reason = ToString(*status);
  return *status == StepStatus::kOk;
}

bool Equilibrium::Solve(const mjModel* model, mjData* d, StepStatus* status, std::string* reason) {
  if (!Forward(model, d, true, status, reason)) return false;
  if (Polish(model, d) <= kConverged) return true;

  // the active set was not the solution's: let the engine search to the end
  mjModel local = *model;
  local.opt.tolerance = 0;
  local.opt.iterations = std::max(200, local.opt.iterations);
  mju_copy(d->qacc_warmstart, d->qacc, static_cast<int>(model->nv));
  if (!Forward(&local, d, true, status, reason)) return false;
  const double step = Polish(model, d);
  if (step <= kAcceptable) return true;
  *reason = "the residual is not zero at the engine's acceleration (Newton step " + std::to_string(step) + ")";
  return false;
}

// Newton steps on qacc while they help; returns the last one, which was not taken, relative to a
double Equilibrium::Polish(const mjModel* m, mjData* d) {
  for (int k = 0;; k++) {
    Residual(m, d);
    Assemble(m, d);
    Factor(m);
    if (symmetric_) llt_.solveInPlace(r_);  // takes no memory
    else r_ = lu_.solve(r_);
    const double step = MaxAbs(r_) / (1 + MaxAbs(a_));
    if (!(step > kConverged) || k == kPolish) return step;
    a_ -= r_;
    mju_copy(d->qacc, a_.data(), static_cast<int>(m->nv));
  }
}

void Equilibrium::Factor(const mjModel* m) {
  symmetric_ = !IsDiscrete(m);
  if (symmetric_) llt_.compute(H_);
  else lu_.compute(H_);
}

Eigen::MatrixXd Equilibrium::SolveH(const Eigen::MatrixXd& X) const {
  if (symmetric_) return llt_.solve(X);
  return lu_.solve(X);
}

Eigen::MatrixXd Equilibrium::SolveTransposedH(const Eigen::MatrixXd& X) const {
  if (symmetric_) return llt_.solve(X);
  return lu_.transpose().solve(X);
}

// states, forces and cone Hessians at y = J a − aref
void Equilibrium::UpdateConstraints(const mjModel* m, mjData* d) {
  if (d->nefc == 0) return mju_zero(d->qfrc_constraint, static_cast<int>(m->nv));
  if (y_.size() < d->nefc) y_.resize(d->nefc);  // contacts come and go
  mj_mulJacVec(m, d, y_.data(), a_.data());
  for (int i = 0; i < d->nefc; i++) y_[i] -= d->efc_aref[i];
  mj_constraintUpdate(m, d, y_.data(), nullptr, 1);
}

void Equilibrium::Residual(const mjModel* m, mjData* d, const double* Ma) {
  a_ = Eigen::Map<const Eigen::VectorXd>(d->qacc, m->nv);
  r_.resize(m->nv);
  if (IsDiscrete(m)) DiscreteForce(m, d, a_.data(), r_.data());
  UpdateConstraints(m, d);

  // r = M a − f_smooth − Jᵀ f
  Ma_.resize(m->nv);
  if (Ma) mju_copy(Ma_.data(), Ma, static_cast<int>(m->nv));
  else mj_mulM(m, d, Ma_.data(), a_.data());
  if (IsDiscrete(m)) {
    // r = M̂ a + c − p − shift − f_smooth − c + p − Jᵀ f
    for (int i = 0; i < m->nv; i++) {
      r_[i] -= d->qfrc_smooth[i] + d->qfrc_bias[i] - d->qfrc_passive[i] + d->qfrc_constraint[i];
    }
    return;
  }
  for (int i = 0; i < m->nv; i++) r_[i] = Ma_[i] - (d->qfrc_smooth[i] + d->qfrc_constraint[i]);
}

// H = M + Jᵀ s'' J
void Equilibrium::Assemble(const mjModel* m, mjData* d) {
  if (IsDiscrete(m)) {
    DiscreteMetric(m, d, &H_);
    UpdateConstraints(m, d);
  } else {
    FullMassMatrix(m, d, &H_);
  }
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
