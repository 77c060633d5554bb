#include "derivative/equilibrium.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/convergence.h"
#include "core/extremes.h"
#include "core/plugins.h"
#include "core/warnings.h"

namespace costate {

namespace {

constexpr int kPolish = 4;            // Newton steps with a fixed active set need one
constexpr double kTolerance = 1e-14;  // one more iteration of the engine's solver is cheaper than one of ours

bool IsBad(const double* x, int n) {
  return std::any_of(x, x + n, [](double value) { return !std::isfinite(value) || std::abs(value) > mjMAXVAL; });
}

// the options that mj_forward is run with
struct ForwardOptions {
  int solver, noslip_iterations, disableflags, enableflags;
  mjtNum tolerance;

  explicit ForwardOptions(const mjOption& o)
      : solver(o.solver),
        noslip_iterations(o.noslip_iterations),
        disableflags(o.disableflags),
        enableflags(o.enableflags),
        tolerance(o.tolerance) {}
  ForwardOptions(const mjModel* m, bool sensors) : ForwardOptions(m->opt) {
    if (NewtonMayReplace(m)) solver = mjSOL_NEWTON;
    noslip_iterations = 0;
    tolerance = std::min(tolerance, kTolerance);
    if (!sensors) disableflags |= mjDSBL_SENSOR;
    if (!sensors) enableflags &= ~mjENBL_ENERGY;
    if (m->ntree == 1) disableflags |= mjDSBL_ISLAND;  // one at most: finding it is all that it would cost
  }
  void Set(mjOption* o) const {
    o->solver = solver;
    o->noslip_iterations = noslip_iterations;
    o->disableflags = disableflags;
    o->enableflags = enableflags;
    o->tolerance = tolerance;
  }
  bool operator==(const ForwardOptions&) const = default;
};

// J a
void MultiplyJacobian(const mjModel* m, const mjData* d, const mjtNum* a, mjtNum* y) {
  if (mj_isSparse(m)) return mj_mulJacVec(m, d, y, a);
  const int nv = static_cast<int>(m->nv), contacts = d->ne + d->nf + d->nl;
  mju_mulMatVec(y, d->efc_J, a, d->ne, nv);
  for (int i = d->ne; i < contacts; i++) {
    const mjtNum* J = d->efc_J + static_cast<std::size_t>(i) * nv;
    const int only = OnlyDof(m, d, i);
    y[i] = only >= 0 ? J[only] * a[only] : mju_dot(J, a, nv);
  }
  mju_mulMatVec(y + contacts, d->efc_J + static_cast<std::size_t>(contacts) * nv, a, d->nefc - contacts, nv);
}

// calls run(model) with other options, and says what became of `data`
template <typename Run>
bool RunWith(const ForwardOptions& options, const mjModel* model, mjData* d, StepStatus* status, std::string* reason,
             Run run) {
  mjWarningStat before[mjNWARNING];
  std::copy(d->warning, d->warning + mjNWARNING, before);
  d->flg_energyvel = 0;  // else sensors of kinetic energy have that of the point before, and so do their cutoffs
  if (options == ForwardOptions(model->opt)) {
    run(model);
  } else {
    mjModel local = *model;
    options.Set(&local.opt);
    run(&local);
  }
  *status = ForwardStatus(model, d, before);
  if (*status != StepStatus::kOk) *reason = ToString(*status);
  return *status == StepStatus::kOk;
}

// does anything read M's factor before a solver does?
bool ReadsFactor(const mjModel* m) {
  return m->nflex > 0 || MayReadReports(m) || (m->opt.enableflags & (mjENBL_DIAGEXACT | mjENBL_SLEEP));
}

// May mj_makeConstraint find a row? To find none it takes as long as a pass over a small tree. @pre after mj_collision
bool MayHaveRows(const mjModel* m, const mjData* d) {
  if (d->ncon > 0 || m->neq > 0) return true;
  const auto any = [](const mjtNum* loss, mjtSize n) {
    return std::any_of(loss, loss + n, [](mjtNum x) { return x != 0; });
  };
  if (any(m->dof_frictionloss, m->nv) || any(m->tendon_frictionloss, m->ntendon)) return true;
  const auto near = [](double x, const mjtNum* range, double margin) {
    return x - range[0] < margin || range[1] - x < margin;
  };
  for (int j = 0; j < m->njnt; j++) {
    if (!m->jnt_limited[j]) continue;
    if (m->jnt_type[j] == mjJNT_BALL || near(d->qpos[m->jnt_qposadr[j]], m->jnt_range + 2 * j, m->jnt_margin[j]))
      return true;
  }
  for (int t = 0; t < m->ntendon; t++) {
    if (m->tendon_limited[t] && near(d->ten_length[t], m->tendon_range + 2 * t, m->tendon_margin[t])) return true;
  }
  return false;
}

// as mj_makeConstraint leaves the data where constraints are disabled
void ClearRows(mjData* d) { d->ne = d->nf = d->nl = d->nefc = d->nJ = d->nA = d->nY = 0; }

// mj_fwdPosition without the factor and, where no sensor may read them, without cameras and lights. @pre not
// ReadsFactor(m)
void ForwardPosition(const mjModel* m, mjData* d, bool sensors) {
  d->flg_energypos = 0;
  d->efm_active = 0;
  mj_kinematics(m, d);
  mj_comPos(m, d);
  if (sensors) mj_camlight(m, d);
  mj_tendon(m, d);
  mj_makeM(m, d);
  mj_collision(m, d);
  MayHaveRows(m, d) ? mj_makeConstraint(m, d) : ClearRows(d);
  d->nisland = d->nidof = 0;  // of the solver alone
  mj_transmission(m, d);
}

// mj_fwdAcceleration without qacc_smooth
void SumForces(const mjModel* m, mjData* d) {
  const int nv = static_cast<int>(m->nv);
  mju_sub(d->qfrc_smooth, d->qfrc_passive, d->qfrc_bias, nv);
  mju_addTo(d->qfrc_smooth, d->qfrc_applied, nv);
  mju_addTo(d->qfrc_smooth, d->qfrc_actuator, nv);
  for (int b = 1; b < m->nbody; b++) {
    const mjtNum* xfrc = d->xfrc_applied + 6 * b;
    if (!mju_isZero(xfrc, 6)) mj_applyFT(m, d, xfrc, xfrc + 3, d->xipos + 3 * b, b, d->qfrc_smooth);
  }
}

// Does the solver leave every force at its acceleration? Elliptic contacts also need cone Hessians, which Newton makes.
bool HasForcesOfRows(const mjModel* m) {
  if (m->opt.enableflags & mjENBL_SLEEP) return false;
  return m->opt.solver == mjSOL_NEWTON || (m->opt.solver == mjSOL_CG && m->opt.cone == mjCONE_PYRAMIDAL);
}

// its friction lies on the cone's surface, or within it where all rows are quadratic
int StateOfCone(const mjContact& contact, const double* force) {
  constexpr double kSurface = 1e-12;
  if (force[0] == 0) return mjCNSTRSTATE_SATISFIED;
  double friction = 0;
  for (int k = 1; k < contact.dim; k++) {
    const double share = force[k] / contact.friction[k - 1];
    friction += share * share;
  }
  return friction < (1 - kSurface) * force[0] * force[0] ? mjCNSTRSTATE_QUADRATIC : mjCNSTRSTATE_CONE;
}

// of rows whose forces are known: where islands were solved apart, the engine's own are in the islands' order
void SetStates(mjData* d) {
  const int friction = d->ne, one_sided = d->ne + d->nf, nefc = d->nefc;
  int* state = d->efc_state;
  std::fill_n(state, friction, mjCNSTRSTATE_QUADRATIC);
  for (int i = friction; i < one_sided; i++) {
    const double force = d->efc_force[i], loss = d->efc_frictionloss[i];
    const int below = force > -loss ? mjCNSTRSTATE_QUADRATIC : mjCNSTRSTATE_LINEARPOS;
    state[i] = force >= loss ? mjCNSTRSTATE_LINEARNEG : below;
  }
  for (int i = one_sided; i < nefc; i++) {
    if (d->efc_type[i] == mjCNSTR_CONTACT_ELLIPTIC) {
      const mjContact& contact = d->contact[d->efc_id[i]];
      std::fill_n(state + i, contact.dim, StateOfCone(contact, d->efc_force + i));
      i += contact.dim - 1;
    } else {
      state[i] = d->efc_force[i] > 0 ? mjCNSTRSTATE_QUADRATIC : mjCNSTRSTATE_SATISFIED;
    }
  }
}

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
  const StepStatus status = StatusOfWarnings(d, before);
  if (status != StepStatus::kOk) return status;
  const bool bad = IsBad(d->qpos, m->nq) || IsBad(d->qvel, m->nv) || IsBad(d->qacc, m->nv);
  return bad ? StepStatus::kBadState : StepStatus::kOk;
}

bool Equilibrium::Forward(const mjModel* model, mjData* d, bool sensors, StepStatus* status, std::string* reason) {
  mass_factored_ = true;
  return RunWith(ForwardOptions(model, sensors), model, d, status, reason, [d](const mjModel* m) { mj_forward(m, d); });
}

bool Equilibrium::Start(const mjModel* model, mjData* d, bool sensors, StepStatus* status, std::string* reason) {
  mass_factored_ = ReadsFactor(model);
  ForwardOptions options(model->opt);  // nothing below reads others, but mj_fwdPosition
  if (mass_factored_) {
    options = ForwardOptions(model, sensors);
    options.disableflags |= mjDSBL_ISLAND;
  }
  return RunWith(options, model, d, status, reason, [this, d, sensors](const mjModel* m) {
    const bool energy = sensors && (m->opt.enableflags & mjENBL_ENERGY);
    mass_factored_ ? mj_fwdPosition(m, d) : ForwardPosition(m, d, sensors);
    if (sensors) mj_sensorPos(m, d);
    if (energy && !d->flg_energypos) mj_energyPos(m, d);
    mj_fwdVelocity(m, d);
    if (sensors) mj_sensorVel(m, d);
    if (energy && !d->flg_energyvel) mj_energyVel(m, d);
    if (mjcb_control && !(m->opt.disableflags & mjDSBL_ACTUATION)) mjcb_control(m, d);
    mj_fwdActuation(m, d);
    const bool warm = d->nefc > 0 && !(m->opt.disableflags & mjDSBL_WARMSTART) && !IsBad(d->qacc_warmstart, m->nv);
    if (!warm) FactorMass(m, d);
    mass_factored_ ? mj_fwdAcceleration(m, d) : SumForces(m, d);
    mju_copy(d->qacc, warm ? d->qacc_warmstart : d->qacc_smooth, static_cast<int>(m->nv));
  });
}

void Equilibrium::FactorMass(const mjModel* m, mjData* d) {
  if (!mass_factored_) mj_factorM(m, d);
  mass_factored_ = true;
}

bool Equilibrium::Solve(const mjModel* model, mjData* d, StepStatus* status, std::string* reason) {
  const auto factored = [&] {
    if (IsSingular()) *reason = kSingularHessian;
    return !IsSingular();
  };
  if (!Forward(model, d, true, status, reason)) return false;
  double step = Polish(model, d);
  if (!factored()) return false;
  if (step <= kConverged) return true;

  // the active set was not the solution's: let the engine search to the end
  mjModel local = *model;
  SearchUntil(LeastTolerance(model), 200, &local.opt);
  mju_copy(d->qacc_warmstart, d->qacc, static_cast<int>(model->nv));
  if (!Forward(&local, d, true, status, reason)) return false;
  step = Polish(model, d);
  if (!factored()) return false;
  if (step <= kAcceptable) return true;
  *reason = "the residual is not zero at the engine's acceleration (Newton step " + fmt::format("{:.2g}", step) + ")";
  return false;
}

// Newton steps on qacc while they help; returns the last one, which was not taken, relative to a
double Equilibrium::Polish(const mjModel* m, mjData* d) {
  for (int k = 0;; k++) {
    Residual(m, d);
    Assemble(m, d);
    Factor(m);
    if (IsSingular()) return kInf;
    if (symmetric_) llt_.solveInPlace(r_);  // takes no memory
    else lu_.Solve(r_.data());
    const double step = Largest(r_) / (1 + Largest(a_));
    if (!(step > kConverged) || k == kPolish) return step;
    a_ -= r_;
    mju_copy(d->qacc, a_.data(), static_cast<int>(m->nv));
  }
}

void Equilibrium::Factor(const mjModel* m) {
  symmetric_ = !IsDiscrete(m);
  if (symmetric_) llt_.compute(H_);
  else lu_.Factor(H_);
}

bool Equilibrium::IsSingular() const { return symmetric_ && llt_.info() != Eigen::Success; }

Eigen::MatrixXd Equilibrium::SolveH(const Eigen::MatrixXd& X) const {
  if (symmetric_) return llt_.solve(X);
  return lu_.SolveColumns(X);
}

Eigen::MatrixXd Equilibrium::SolveTransposedH(const Eigen::MatrixXd& X) const {
  if (symmetric_) return llt_.solve(X);
  return lu_.SolveColumns(X, true);
}

// states, forces and cone Hessians at y = J a − aref
void Equilibrium::UpdateConstraints(const mjModel* m, mjData* d) {
  if (d->nefc == 0) return mju_zero(d->qfrc_constraint, static_cast<int>(m->nv));
  if (y_.size() < d->nefc) y_.resize(d->nefc);  // contacts come and go
  MultiplyJacobian(m, d, a_.data(), y_.data());
  for (int i = 0; i < d->nefc; i++) y_[i] -= d->efc_aref[i];
  mj_constraintUpdate(m, d, y_.data(), nullptr, 1);
}

void Equilibrium::Residual(const mjModel* m, mjData* d, const double* Ma) {
  a_ = Eigen::Map<const Eigen::VectorXd>(d->qacc, m->nv);
  r_.resize(m->nv);
  const bool by_engine = IsDiscrete(m) && Ma == nullptr;
  if (by_engine) DiscreteForce(m, d, a_.data(), r_.data());
  UpdateConstraints(m, d);

  // r = M a − f_smooth − Jᵀ f
  Ma_.resize(m->nv);
  if (Ma) mju_copy(Ma_.data(), Ma, static_cast<int>(m->nv));
  else mj_mulM(m, d, Ma_.data(), a_.data());
  if (by_engine) {
    // r = M̂ a + c − p − shift − f_smooth − c + p − Jᵀ f
    for (int i = 0; i < m->nv; i++) {
      r_[i] -= d->qfrc_smooth[i] + d->qfrc_bias[i] - d->qfrc_passive[i] + d->qfrc_constraint[i];
    }
    return;
  }
  for (int i = 0; i < m->nv; i++) r_[i] = Ma_[i] - (d->qfrc_smooth[i] + d->qfrc_constraint[i]);
}

bool Equilibrium::AcceptsForces(const mjModel* m, const mjData* d) { return d->nefc > 0 && HasForcesOfRows(m); }

void Equilibrium::Accept(const mjModel* m, mjData* d) {
  const int nv = static_cast<int>(m->nv);
  a_ = Eigen::Map<const Eigen::VectorXd>(d->qacc, nv);
  if (AcceptsForces(m, d)) SetStates(d);
  else UpdateConstraints(m, d);
  Ma_.resize(nv);
  for (int i = 0; i < nv; i++) Ma_[i] = d->qfrc_smooth[i] + d->qfrc_constraint[i];
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
