#include "derivative/residual_difference.h"

#include <algorithm>
#include <cmath>

#include "core/plugins.h"
#include "derivative/actuation.h"
#include "derivative/armature.h"
#include "derivative/effective_mass.h"
#include "derivative/equilibrium.h"
#include "derivative/hardest_rows.h"
#include "derivative/impedance.h"
#include "derivative/switch_set.h"

namespace costate {

namespace {

constexpr double kSlideStep = 0.1;    // inertial forces are quadratic in slides and velocities: any will do
constexpr double kWidth = 1e-3;       // of impedances: what nudges of positions are made for
constexpr double kMagnify = 1 << 30;  // v' − v is linear in a: magnified, it does not drown in the rounding of v

constexpr signed char kEitherZone = 2;  // of a force exactly at its limit

// is an activation after the step, clamped, the input of a force
bool HasLimitedInput(const mjModel* m) {
  for (int i = 0; i < m->nactuator; i++) {
    if (m->actuator_actearly[i] && m->actuator_actlimited[i]) return true;
  }
  return false;
}

// does v' jump at the limit of each force, in the order of ForceZones?
std::vector<char> JumpsAtLimits(const mjModel* m, const mjData* d) {
  std::vector<char> jumps;
  const auto any = [&](const auto& acts_on) {
    for (int i = 0; i < m->nactuator; i++) {
      if (acts_on(m->actuator_trntype[i], m->actuator_trnid[2 * i]) && IsInMatrix(m, d, i)) return true;
    }
    return false;
  };
  for (int i = 0; i < m->nactuator; i++) {
    const int outputs = m->actuator_gaintype[i] == mjGAIN_SO3 ? 1 : m->actuator_outnum[i];
    if (m->actuator_forcelimited[i]) jumps.insert(jumps.end(), outputs, IsInMatrix(m, d, i));
  }
  for (int j = 0; j < m->njnt; j++) {
    const auto joint = [&](int type, int id) {
      return (type == mjTRN_JOINT || type == mjTRN_JOINTINPARENT) && id == j;
    };
    if (m->jnt_actfrclimited[j]) jumps.push_back(any(joint));
  }
  for (int t = 0; t < m->ntendon; t++) {
    if (m->tendon_actfrclimited[t])
      jumps.push_back(any([&](int type, int id) { return type == mjTRN_TENDON && id == t; }));
  }
  return jumps;
}

// may passive forces depend on activations and controls? Those of the engine do not
bool ReadsInputs(const mjModel* m) { return mjcb_passive || HasPlugins(m, mjPLUGIN_PASSIVE); }

// (I10) do controls and activations move how hard rows are?
bool InputsMoveRows(const mjModel* m) {
  for (int i = 0; i < m->nactuator && IsDiscrete(m); i++) {
    if (HasMovingGain(m, i)) return true;
  }
  return false;
}

// do slopes of forces by velocity, which implicit integrators have in their matrix, feel contacts or what else is as
// stiff
bool HasStiffDamping(const mjModel* m) {
  return m->flg_adhesion || ReadsInputs(m) ||
         std::any_of(m->flex_passive, m->flex_passive + m->nflex, [](mjtByte passive) { return passive; }) ||
         std::any_of(m->actuator_trntype, m->actuator_trntype + m->nactuator,
                     [](int type) { return type == mjTRN_BODY; });
}

// do passive and actuator forces?
bool HasStiffForces(const mjModel* m) { return m->nflex > 0 || HasStiffDamping(m); }

}  // namespace

std::string ResidualRefusal(const mjModel* m) {
  const auto enabled = [&](int bit) { return (m->opt.enableflags & bit) != 0; };
  if (IsDiscrete(m) && m->opt.solver == mjSOL_PGS)
    return "integrator discrete with PGS: it solves in a metric of its own";
  if (enabled(mjENBL_SPECULATIVE)) return "speculative contacts depend on velocity";
  if (enabled(mjENBL_IPC)) return "ipc flex contact";
  if (HasMovingPluginState(m)) return "plugin state is not part of x";
  if (m->nflex > 0 && m->opt.solver == mjSOL_CG &&
      (m->opt.integrator == mjINT_IMPLICIT || m->opt.integrator == mjINT_IMPLICITFAST)) {
    return "flex with the CG solver and an implicit integrator uses an effective metric";
  }
  if (mjcb_control) return "a control callback is installed";
  return "";
}

ResidualDifference::ResidualDifference(const mjModel* model)
    : dims_(model),
      probe_(MakeData(model)),
      sparse_(mj_isSparse(model)),
      unlimited_(std::max({model->nactuator, model->njnt, model->ntendon}) + 1, 0) {}

// qfrc_constraint and efc_force of the probe at acceleration a, on the captured active set
bool ResidualDifference::ConstraintForce(const mjModel* m, const VectorXd& a) {
  mjData* p = probe_.get();
  if (!active_.Match(p) || (softened_ && !terms_.rows)) return false;
  mju_zero(p->qfrc_constraint, m->nv);
  if (p->nefc == 0) return true;
  y_.resize(p->nefc);
  mj_mulJacVec(m, p, y_.data(), a.data());
  for (int i = 0; i < p->nefc; i++) y_[i] -= p->efc_aref[i];
  active_.Force(p, y_.data(), p->efc_force, terms_.rows);
  mj_mulJacTVec(m, p, p->qfrc_constraint, p->efc_force);
  return true;
}

// the engine's integrator at acceleration a, positions aside: the probe's qvel and act become those after the step
void ResidualDifference::Integrate(const mjModel* m, const VectorXd& a) {
  force_.resize(dims_.nv);
  mj_mulM(m, probe_.get(), force_.data(), a.data());
  Advance(m, a, force_);
}

// the same by M a, which the integrators read that make an acceleration of their own
void ResidualDifference::Advance(const mjModel* m, const VectorXd& a, const VectorXd& Ma) {
  mjData* p = probe_.get();
  mju_copy(p->qacc, a.data(), m->nv);
  mju_copy(p->qfrc_smooth, Ma.data(), m->nv);
  mju_zero(p->qfrc_constraint, m->nv);
  mjModel local = *m;
  local.actuator_actlimited = reinterpret_cast<decltype(local.actuator_actlimited)>(unlimited_.data());
  const bool implicit = m->opt.integrator == mjINT_IMPLICIT || m->opt.integrator == mjINT_IMPLICITFAST;
  if (!implicit) {
    mj_Euler(&local, p);
  } else if (!HasLimitedInput(m)) {
    mj_implicit(&local, p);
  } else {
    // the integrator's matrix has act' within its range for input: v' of the model as it is, act' without limits
    Eigen::Map<VectorXd> v(p->qvel, dims_.nv), act(p->act, dims_.na);
    const VectorXd v_before = v, act_before = act;
    mj_implicit(m, p);
    const VectorXd v_after = v;
    v = v_before;
    act = act_before;
    mj_implicit(&local, p);
    v = v_after;
  }
}

// as much of mj_fwdPosition as the differenced terms read
void ResidualDifference::PositionStage(const mjModel* m) {
  mjData* p = probe_.get();
  if (terms_.constraint || terms_.metric || HasStiffForces(m)) {
    ForwardPosition(m);
    return;
  }
  p->flg_energypos = 0;
  mj_fwdKinematics(m, p);
  // of act' the integrator makes it with v'
  if (terms_.inertia || terms_.integrator || (terms_.actuation && dims_.na > 0)) mj_makeM(m, p);
  mj_transmission(m, p);
}

// force_ = what loads are on the dofs
void ResidualDifference::AppliedForce(const mjModel* m) {
  force_ = Eigen::Map<const VectorXd>(probe_->qfrc_applied, dims_.nv);
  AddBodyLoads(m);
}

// force_ += what loads are on bodies
void ResidualDifference::AddBodyLoads(const mjModel* m) {
  mjData* p = probe_.get();
  for (int b = 1; b < m->nbody; b++) {
    const mjtNum* load = p->xfrc_applied + 6 * b;
    if (!mju_isZero(load, 6)) mj_applyFT(m, p, load, load + 3, p->xipos + 3 * b, b, force_.data());
  }
}

// Are those forces at a limit that are at the point? The engine leaves actuators out of its matrices there. One exactly
// at its limit may go to either side, but where that makes v' jump: it goes on beyond it. @pre mj_fwdActuation
bool ResidualDifference::ForceLimits(const mjModel* m) {
  mjData* p = probe_.get();
  ForceZones(m, p, p->act, false, &zones_);
  if (limits_known_) {
    for (std::size_t i = 0; i < zones_.size(); i++) {
      if (limits_[i] != zones_[i] && limits_[i] != kEitherZone) return false;
    }
    return true;
  }
  limits_known_ = true;
  limits_ = zones_;
  if (std::all_of(limits_.begin(), limits_.end(), [](signed char zone) { return zone == 0; })) return true;
  mjModel local = *m;
  local.actuator_forcelimited = reinterpret_cast<decltype(local.actuator_forcelimited)>(unlimited_.data());
  local.jnt_actfrclimited = reinterpret_cast<decltype(local.jnt_actfrclimited)>(unlimited_.data());
  local.tendon_actfrclimited = reinterpret_cast<decltype(local.tendon_actfrclimited)>(unlimited_.data());
  mj_fwdActuation(&local, p);
  ForceZones(m, p, p->act, true, &zones_);
  const std::vector<char> jumps = JumpsAtLimits(m, p);
  for (std::size_t i = 0; i < limits_.size(); i++) {
    if (limits_[i] != 0 && limits_[i] != zones_[i] && !jumps[i]) limits_[i] = kEitherZone;
  }
  mj_fwdActuation(m, p);
  return true;
}

// (9) Inertial and applied forces at the probe's state and acceleration a
void ResidualDifference::EvaluateInertia(const mjModel* m, Stage stage, const VectorXd& a, VectorXd* value) {
  mjData* p = probe_.get();
  if (stage == kPosition) {
    mj_kinematics(m, p);
    mj_comPos(m, p);
  }
  mj_comVel(m, p);
  mju_copy(p->qacc, a.data(), dims_.nv);
  value->resize(dims_.nv);
  mj_rne(m, p, 1, value->data());
  force_.setZero(dims_.nv);
  AddBodyLoads(m);
  *value -= force_;
}

// f(column j moved by h) − f(moved by −h), f as `evaluate` leaves it in its argument
VectorXd ResidualDifference::Quotient(const mjModel* m, int column, double h, const Values& evaluate) {
  for (const int side : {-1, 1}) {
    Move(m, column, side * h);
    evaluate(&values_[side + 4]);
  }
  return values_[5] - values_[3];
}

// (9) of one position
VectorXd ResidualDifference::ByPosition(const mjModel* m, int j, const Values& evaluate) {
  const int type = m->jnt_type[m->dof_jntid[j]], dof = j - m->jnt_dofadr[m->dof_jntid[j]];
  if (type == mjJNT_SLIDE || (type == mjJNT_FREE && dof < 3))
    return Quotient(m, j, kSlideStep, evaluate) / (2 * kSlideStep);
  const VectorXd fifth = Quotient(m, j, 2 * mjPI / 5, evaluate);
  return fifth / (2 * std::sin(mjPI / 5)) - Quotient(m, j, 4 * mjPI / 5, evaluate) / (2 * std::sin(2 * mjPI / 5));
}

// (9) its columns, nv × 2 nv
void ResidualDifference::Inertia(const mjModel* m, const VectorXd& a, Eigen::Ref<MatrixXd> out) {
  const int nv = dims_.nv;
  for (int j = 0; j < nv; j++) {
    out.col(j) = ByPosition(m, j, [&](VectorXd* value) { EvaluateInertia(m, kPosition, a, value); });
  }
  Restore(m);
  EvaluateInertia(m, kPosition, a, &values_[4]);
  for (int j = nv; j < 2 * nv; j++) {
    Restore(m);
    const double h = std::max(1.0, std::abs(probe_->qvel[j - nv]));
    out.col(j) = Quotient(m, j, h, [&](VectorXd* value) { EvaluateInertia(m, kVelocity, a, value); }) / (2 * h);
  }
}

// (6a) ∂ā/∂q, nv × nv: no position moves what Euler adds to M
void ResidualDifference::EulerByPosition(const mjModel* m, const VectorXd& a, Eigen::Ref<MatrixXd> out) {
  mjData* p = probe_.get();
  const int nv = dims_.nv;
  const auto make_inertia = [&] {
    mj_fwdKinematics(m, p);
    mj_makeM(m, p);
  };
  VectorXd moved = kMagnify * a;
  const auto applied = [&]() -> VectorXd {
    const VectorXd velocity = Eigen::Map<const VectorXd>(p->qvel, nv);
    Advance(m, moved, force_);
    return (Eigen::Map<const VectorXd>(p->qvel, nv) - velocity) / (m->opt.timestep * kMagnify);
  };
  Restore(m);
  make_inertia();
  force_.resize(nv);
  mj_mulM(m, p, force_.data(), moved.data());
  const VectorXd change = a - applied();
  for (int j = 0; j < nv; j++) {
    out.col(j) = ByPosition(m, j, [&](VectorXd* value) {
      make_inertia();
      value->resize(nv);
      mj_mulM(m, p, value->data(), change.data());
    });
  }
  Restore(m);
  make_inertia();
  mj_factorM(m, p);
  for (int j = 0; j < nv; j++) {
    if (out.col(j).isZero(0)) continue;
    Restore(m);
    force_ = kMagnify * out.col(j);
    mj_solveM(m, p, moved.data(), force_.data(), 1);
    out.col(j) = applied();
  }
}

// value = (r, ā, act', act_dot) at the probe's state and fixed a, as far as terms_ asks for them
bool ResidualDifference::EvaluateDirect(const mjModel* m, Stage stage, const VectorXd& a, VectorXd* value) {
  mjData* p = probe_.get();
  const int nv = dims_.nv, na = dims_.na;
  if (stage <= kPosition) PositionStage(m);
  if (stage <= kVelocity || (terms_.passive && ReadsInputs(m))) mj_fwdVelocity(m, p);
  const bool reads_metric = IsDiscrete(m) && (terms_.constraint || terms_.metric);  // rows do, as actuators make it
  if (terms_.actuation || terms_.integrator || terms_.metric || reads_metric) {
    mj_fwdActuation(m, p);
    if (!ForceLimits(m)) return false;
  }
  discrete_.resize(nv);
  if (reads_metric) DiscreteForce(m, p, a.data(), discrete_.data());

  // r = M a + bias − applied − passive − actuation − Jᵀ f
  value->setZero(2 * nv + 2 * na);
  double* r = value->data();
  if (terms_.inertia) {
    mj_mulM(m, p, r, a.data());
    AppliedForce(m);
    for (int i = 0; i < nv; i++) r[i] += p->qfrc_bias[i] - force_[i];
  }
  if (terms_.metric && IsDiscrete(m)) {
    // (M̂ − M) a − shift
    direction_.resize(nv);
    mj_mulM(m, p, direction_.data(), a.data());
    for (int i = 0; i < nv; i++) r[i] += discrete_[i] - direction_[i] - p->qfrc_bias[i] + p->qfrc_passive[i];
  }
  if (terms_.passive) mju_subFrom(r, p->qfrc_passive, nv);
  if (terms_.actuation) mju_subFrom(r, p->qfrc_actuator, nv);
  if (terms_.constraint) {
    if (!ConstraintForce(m, a)) return false;
    mju_subFrom(r, p->qfrc_constraint, nv);
  }
  for (int i = 0; i < na; i++) (*value)[2 * nv + na + i] = p->act_dot[i];
  const bool activations = terms_.actuation && na > 0;
  if (m->opt.integrator == mjINT_RK4 || !(terms_.integrator || activations)) return true;

  // ā = (v' − v) / h; where it is a itself or comes with another pass, the integrator has only act' to say
  const bool implicit = terms_.integrator && HasImplicitVelocity(m) && !(euler_by_position_ && group_ == kPosition);
  if (!implicit) value->segment(nv, nv) = terms_.applied ? *terms_.applied : a;
  if (!implicit && na == 0) return true;
  velocity_ = Eigen::Map<const VectorXd>(p->qvel, nv);
  Integrate(m, kMagnify * (terms_.applied ? *terms_.applied : a));
  for (int i = 0; i < nv && implicit; i++) {
    (*value)[nv + i] = (p->qvel[i] - velocity_[i]) / (m->opt.timestep * kMagnify);
  }
  for (int i = 0; i < na; i++) (*value)[2 * nv + i] = p->act[i];
  return true;
}

void ResidualDifference::Capture(const mjModel* m, const mjData* d) {
  if (sparse_ != static_cast<bool>(mj_isSparse(m))) {  // of rows in the other storage nothing can be read
    probe_ = MakeData(m);
    sparse_ = !sparse_;
  }
  state_.resize(mj_stateSize(m, mjSTATE_INTEGRATION));
  mj_getState(m, d, state_.data(), mjSTATE_INTEGRATION);
  active_.Capture(d);
  softened_ = HasSoftened(d);
  limits_known_ = false;
  if (dims_.na > 0) ActivationSides(m, d, &sides_);
  jumping_.clear();
  MeasureLevers(m, d);
}

// an equality may turn a knob by 1000 times what its slide goes, and an impedance may bend within a hair's breadth
void ResidualDifference::MeasureLevers(const mjModel* m, const mjData* d) {
  const bool sparse = mj_isSparse(m);
  lever_.setZero(dims_.nv);
  double bends = 1;
  for (int i = 0, end = 0; i < d->nefc; i++) {
    int rows;
    const mjtNum* solimp = SolimpOf(m, d, i, &rows);
    if (i >= end) {
      end = i + rows;
      bends = std::max(1.0, kWidth / ImpedanceReach(d, i, rows, solimp));
    }
    if (!solimp || solimp[0] == solimp[1] || d->efc_state[i] == mjCNSTRSTATE_SATISFIED) continue;
    const int begin = sparse ? d->efc_J_rowadr[i] : i * dims_.nv, count = sparse ? d->efc_J_rownnz[i] : dims_.nv;
    for (int k = 0; k < count; k++) {
      const int dof = sparse ? d->efc_J_colind[begin + k] : k;
      lever_[dof] = std::max(lever_[dof], bends * std::abs(d->efc_J[begin + k]));
    }
  }
}

bool ResidualDifference::Evaluate(const mjModel* m, const VectorXd& a, VectorXd* value, bool position) {
  terms_ = {};
  Restore(m);
  return EvaluateDirect(m, position ? kPosition : kVelocity, a, value);
}

bool ResidualDifference::Compute(const mjModel* m, const mjData* d, const VectorXd& a, const DifferencedTerms& terms,
                                 DirectDerivative* out, std::string* reason) {
  terms_ = terms;
  const int nv = dims_.nv, na = dims_.na;
  Capture(m, d);
  if (terms.constraint || HasStiffForces(m)) CaptureJumping(m, d, HasStiffForces(m) ? nullptr : terms.rows);
  smooth_ = sensed_ = false;
  MatrixXd all;
  // r as acceleration: what is small is so of light parts, too
  const VectorXd mass = Eigen::Map<const VectorXd>(m->dof_M0, nv).cwiseMax(mjMINVAL);
  const auto evaluate = [&](Stage stage, VectorXd* value) {
    const bool good = EvaluateDirect(m, stage, a, value);
    if (good) value->head(nv).array() /= mass.array();
    return good;
  };

  // (9) inertia exactly, then what is soft, then what is stiff
  MatrixXd sum = MatrixXd::Zero(2 * nv + 2 * na, dims_.ndx + dims_.nu);
  DifferencedTerms soft = terms, stiff = terms;
  const bool polynomial = !HasMovingArmature(m), exact = terms.inertia && polynomial, forces_stiff = HasStiffForces(m);
  soft.inertia = terms.inertia && !exact;
  soft.constraint = soft.metric = stiff.inertia = false;
  stiff.metric = terms.metric && IsDiscrete(m);
  DifferencedTerms& without = forces_stiff ? soft : stiff;
  without.passive = without.actuation = false;
  // a quotient of ā has the rounding of all of a: with a flex, too, at the longer nudges
  (HasStiffDamping(m) ? soft : stiff).integrator = false;
  if (exact) Inertia(m, a, sum.topLeftCorner(nv, 2 * nv));
  euler_by_position_ = terms.integrator && m->opt.integrator == mjINT_EULER && HasImplicitVelocity(m) && polynomial;
  if (euler_by_position_) EulerByPosition(m, terms.applied ? *terms.applied : a, sum.block(nv, 0, nv, nv));
  parts_ = {nv, nv, na, na};
  for (const bool is_stiff : {false, true}) {
    terms_ = is_stiff ? stiff : soft;
    if (!terms_.Any()) continue;
    stiff_ = is_stiff;
    const bool all_columns = terms_.actuation || terms_.integrator || terms_.metric ||
                             (terms_.passive && ReadsInputs(m)) || (terms_.constraint && InputsMoveRows(m));
    last_column_ = all_columns ? dims_.ndx + dims_.nu : 2 * nv;
    if (!Differences(m, evaluate, 2 * nv + 2 * na, &all, reason)) return euler_by_position_ = false;
    if (!is_stiff && soft.integrator && stiff.actuation) all.bottomRows(2 * na).setZero();  // come with the actuation
    sum.topRows(nv).noalias() += mass.asDiagonal() * all.topRows(nv);
    sum.bottomRows(nv + 2 * na) += all.bottomRows(nv + 2 * na);
  }
  euler_by_position_ = false;
  terms_ = terms;
  out->residual = sum.topRows(nv);
  out->acceleration = sum.middleRows(nv, nv);
  out->activation = sum.middleRows(2 * nv, na);
  out->activation_rate = sum.bottomRows(na);

  // act' is clamped after the step; at the edge itself the interior slope holds, as for controls
  Restore(m);
  VectorXd center;
  if (!EvaluateDirect(m, kPosition, a, &center)) return false;
  act_next_ = center.segment(2 * nv, na);
  for (int i = 0; i < na && !IsActuationOff(m); i++) {
    const int actuator = ActuatorOfAct(m, i);
    if (actuator < 0 || !m->actuator_actlimited[actuator] || m->opt.integrator == mjINT_RK4) continue;
    const mjtNum* range = m->actuator_actrange + 2 * actuator;
    if (act_next_[i] < range[0] || act_next_[i] > range[1]) out->activation.row(i).setZero();
  }
  return true;
}

void ResidualDifference::IntegratorGain(const mjModel* m, MatrixXd* N) {
  const int nv = dims_.nv;
  N->setIdentity(nv, nv);
  if (!HasImplicitVelocity(m)) return;

  // ā is linear in a, so one unit is as good as an infinitesimal
  Restore(m);
  mjData* p = probe_.get();
  mj_forwardSkip(m, p, mjSTAGE_NONE, 1);
  VectorXd a(nv), base(nv);
  const auto apply = [&](VectorXd* result) {
    Restore(m);
    Integrate(m, a);
    *result = Eigen::Map<const VectorXd>(p->qvel, nv);
  };
  a.setZero();
  apply(&base);
  VectorXd moved(nv);
  for (int i = 0; i < nv; i++) {
    a.setZero();
    a[i] = kMagnify;
    apply(&moved);
    N->col(i) = (moved - base) / (kMagnify * m->opt.timestep);
  }
}

}  // namespace costate
