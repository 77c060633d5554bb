#include "derivative/analytic.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "core/finite.h"
#include "core/plugins.h"
#include "core/state_layout.h"
#include "derivative/adhesion.h"
#include "derivative/armature.h"
#include "derivative/delayed.h"
#include "derivative/fluid.h"
#include "derivative/hardest_rows.h"
#include "derivative/integrator.h"
#include "derivative/passive.h"
#include "derivative/smoothed_set.h"

namespace costate {

namespace {

constexpr int kPolish = 3;      // Newton steps with the right active set need one
constexpr int kSearch = 20;     // Newton steps before the engine's solver is asked
constexpr int kLine = 10;       // points on the way of each
constexpr double kFar = 1e-3;   // relative step that leaves more rounding than one
constexpr double kBend = 1e-9;  // relative step whose square is no error, where cones bend
constexpr char kSwitched[] = "switched to differences";

bool AnyGravityCompensationByActuators(const mjModel* m) {
  for (int j = 0; j < m->njnt && m->flg_gravcomp; j++) {
    if (m->jnt_actgravcomp[j]) return true;
  }
  return false;
}

// do terms beside the tree itself ask it how its axes move?
bool NeedsAxes(const mjModel* m) {
  return std::any_of(m->eq_type, m->eq_type + m->neq,
                     [](int type) { return type == mjEQ_CONNECT || type == mjEQ_WELD; }) ||
         !ArticulatedSolver::Covers(m);
}

std::string MetricMissing(const mjModel* m) {
  if (!IsDiscrete(m)) return "";
  const std::string missing = Metric::Missing(m);
  return missing.empty() ? "" : "integrator discrete: " + missing;
}

}  // namespace

std::string AnalyticRefusal(const mjModel* m) {
  std::string missing = ResidualRefusal(m);
  if (missing.empty()) missing = MetricMissing(m);
  if (missing.empty()) missing = ArmatureMissing(m);
  if (missing.empty()) missing = NoslipMissing(m);
  return missing;
}

AnalyticBackend::AnalyticBackend(const mjModel* model, bool strict, const TermSwitch& differenced, double smoothing)
    : strict_(strict),
      switch_(differenced),
      smoothing_(smoothing),
      tree_(model),
      pull_(model),
      flexes_(model),
      constraint_(model, &flexes_),
      tendons_(model),
      compliant_(model),
      actuation_(model),
      mass_(model),
      sensor_(model),
      articulated_solver_(model),
      H_(model->dof_parentid, static_cast<int>(model->nv), FindWaist(model)),
      state_(PresentState(model, mjSTATE_INTEGRATION)) {
  if (differenced.constraint) constraint_.LeaveAll(kSwitched);
  differenced_.metric = false;
}

bool AnalyticBackend::Linearize(const mjModel* m, mjData* d, bool sensors, StepDerivative* out, std::string* missing) {
  sensors_left_ = false;
  if (!Acceleration(m, d, Products::kNone, sensors, out, missing)) return false;
  if (out->status != StepStatus::kOk) return true;
  if (!sensors) {
    out->C.resize(0, 0);
    out->D.resize(0, 0);
  } else {
    SolveColumns();
    if (!Sensors(m, d, out, missing)) return false;
  }
  return m->opt.integrator == mjINT_RK4 ? RungeKutta(m, d, d, out, missing) : Step(m, d, out, missing);
}

bool AnalyticBackend::LinearizeSensors(const mjModel* m, mjData* d, StepDerivative* out, std::string* missing) {
  sensors_left_ = false;
  if (!Acceleration(m, d, Products::kNone, true, out, missing)) return false;
  if (out->status != StepStatus::kOk) return true;
  SolveColumns();
  return Sensors(m, d, out, missing);
}

// the converged acceleration and the factored H; for matrices also X_ = −∂r and E_, or X_ = da' behind a noslip pass
bool AnalyticBackend::Acceleration(const mjModel* m, mjData* d, Products products, bool sensors, StepDerivative* out,
                                   std::string* missing) {
  if (!Minimum(m, d, products, sensors, out, missing)) return false;
  return !UsesNoslip(m) || out->status != StepStatus::kOk || ApplyNoslip(m, d, out, missing);
}

bool AnalyticBackend::Minimum(const mjModel* m, mjData* d, Products products, bool sensors, StepDerivative* out,
                              std::string* missing) {
  const auto terms = [&] { return TermsFor(products, m, d, out, missing); };
  const auto finish = [&] {
    return Soften(m, d, products, out, missing) && (smoothing_ == 0 || Smooth(m, d, products, out, missing));
  };
  if (!later_stage_) {
    *missing = AnalyticRefusal(m);
    if (!missing->empty()) return false;
  }
  out->status = StepStatus::kOk;
  const auto failed = [&] {  // by the engine's numbers, or else by a closed form that is missing
    out->coverage.terms.clear();
    return out->status != StepStatus::kOk;
  };
  at_residual_ = hessian_done_ = false;
  FollowIntegrator(m);
  const bool search = !UsesNoslip(m) && !metric_ && HasOwnHessian(m);
  if (search && !point_.Start(m, d, sensors, &out->status, missing)) return failed();
  const bool found = search && (d->nefc == 0 || FindMinimum(m, d, products));
  if (found && sensors) {
    d->flg_rnepost = 0;
    mj_sensorAcc(m, d);
  }
  if (!found && !point_.Forward(m, d, sensors, &out->status, missing)) return failed();
  for (int k = 0; k < kPolish; k++) {
    if (!terms()) return false;
    // a search has ended where r(a) = 0; without rows the engine has solved for a itself
    if (found || (d->nefc == 0 && !metric_) || Polish(m, d) <= kGood) return finish();
  }

  // the engine's active set was not the solution's
  if (!point_.Solve(m, d, &out->status, missing)) return failed();
  return terms() && finish();
}

bool AnalyticBackend::TermsFor(Products products, const mjModel* m, mjData* d, StepDerivative* out,
                               std::string* missing) {
  return products == Products::kNone ? Terms(m, d, out, missing) : Factors(m, d, products, out, missing);
}

// (C22) the terms once more with softer rows, and again with the forces that balance
bool AnalyticBackend::Soften(const mjModel* m, mjData* d, Products products, StepDerivative* out,
                             std::string* missing) {
  bool met = true;
  const bool soften =
      !UsesNoslip(m) && SoftenHardest(m, d, constraint_.remainder(), smoothing_ == 0, &hardest_work_, &met);
  hides_forces_ = !met;
  if (!soften) return true;
  smoothed_ = true;
  bool good = TermsFor(products, m, d, out, missing);
  if (good) {
    step_ = point_.momentum_rate();
    mju_subFrom(step_.data(), d->qfrc_smooth, static_cast<int>(m->nv));
    mju_subFrom(step_.data(), d->qfrc_constraint, static_cast<int>(m->nv));
    SolveHessian(m, d, step_.data());
    BalanceHardest(m, d, constraint_.remainder(), step_.data());
    good = TermsFor(products, m, d, out, missing);
  }
  smoothed_ = false;
  return good;
}

// the terms once more, with an active set without edges
bool AnalyticBackend::Smooth(const mjModel* m, mjData* d, Products products, StepDerivative* out,
                             std::string* missing) {
  if (UsesNoslip(m)) *missing = "smoothing: a noslip pass";
  else if (differenced_.constraint) *missing = "smoothing: constraint rows without closed form";
  if (!missing->empty()) return false;
  SmoothActiveSet(m, d, smoothing_, &smoothed_y_);
  smoothed_ = true;
  const bool good = TermsFor(products, m, d, out, missing);
  smoothed_ = false;
  if (d->nefc > 0) out->coverage.terms.push_back({"smoothing", Level::kAnalytic, SmoothingText(smoothing_)});
  return good;
}

// one Newton step on qacc with the factored H; returns its size relative to a
double AnalyticBackend::Polish(const mjModel* m, mjData* d) {
  step_ = point_.residual();
  if (step_.size() == 0) return 0;
  SolveHessian(m, d, step_.data());
  mju_subFrom(d->qacc, step_.data(), static_cast<int>(m->nv));
  return StepSize();
}

// Newton's method from where the engine's solver would start, with H alone. A step that leaves the active set as it is
// ends at the minimum itself, unless cones bend the cost.
bool AnalyticBackend::FindMinimum(const mjModel* m, mjData* d, Products products) {
  Residual(m, d);
  for (int k = 0; k < kSearch; k++) {
    constraint_.LinearizeHessian(m, d);
    unconstrained_ = HasEnginesFactor(m);
    if (unconstrained_) {
      if (!after_forward_) point_.FactorMass(m, d);
    } else if (!FactorHessian(m, d, products != Products::kNone)) {
      return false;
    }
    row_state_.assign(d->efc_state, d->efc_state + d->nefc);
    step_ = point_.residual();
    SolveHessian(m, d, step_.data());
    const double size = StepSize();
    if (!(size < mjMAXVAL)) return false;
    const auto same = [&] { return std::equal(row_state_.begin(), row_state_.end(), d->efc_state); };
    const bool here = size <= kConverged, cones = HasCones(d);
    if (!here && !(size * SearchLine(m, d) <= kGood && same())) continue;
    at_residual_ = !cones || size <= kBend;
    if (at_residual_ && size > kFar && !IsRounding(m, d, point_.residual())) {
      at_residual_ = Polish(m, d) <= kGood;
      Residual(m, d);
    }
    if (!at_residual_) continue;
    hessian_done_ = (!cones || here) && same() && (products != Products::kNone || !unconstrained_);
    return true;
  }
  return false;
}

// qacc goes by −step_ or, where the cost then rises again, to where its slope is at most half of that at the start;
// returns what is left of the slope
double AnalyticBackend::SearchLine(const mjModel* m, mjData* d) {
  line_start_ = point_.a();
  const double slope = step_.dot(point_.residual());
  double begin = 0, end = 1, begin_slope = slope, end_slope = 0, at = 1, left = slope;
  for (int k = 0; k < kLine; k++) {
    Eigen::Map<VectorXd>(d->qacc, m->nv) = line_start_ - at * step_;
    Residual(m, d);
    left = step_.dot(point_.residual());
    if (left >= -slope / 2 && (at == 1 || left <= slope / 2)) break;
    if (left < 0) end = at, end_slope = left;
    else begin = at, begin_slope = left;
    at = begin + (end - begin) * std::clamp(begin_slope / (begin_slope - end_slope), 0.1, 0.9);
  }
  return std::abs(left) / slope;
}

// r(a) at qacc, and the active set
void AnalyticBackend::Residual(const mjModel* m, mjData* d) {
  const double* Ma = nullptr;
  if (metric_ || ArticulatedSolver::Pays(m)) {
    diagonal_.resize(m->nv);
    MultiplyInertia(m, d, d->qacc, diagonal_.data());
    Ma = diagonal_.data();
  }
  point_.Residual(m, d, Ma);
}

// M a, under the discrete integrator M̂ a less its shift
void AnalyticBackend::MultiplyInertia(const mjModel* m, const mjData* d, const double* a, double* out) {
  if (ArticulatedSolver::Pays(m)) articulated_solver_.Multiply(m, d, a, out);
  else mj_mulM(m, d, out, a);
  if (metric_) metric_->AddForce(m, d, a, out);
}

// a, M a and the active set
void AnalyticBackend::TakeAcceleration(const mjModel* m, mjData* d) {
  if (at_residual_) {
    at_residual_ = false;
    return;
  }
  if ((d->nefc == 0 && !metric_) || (after_forward_ && !UsesNoslip(m))) return point_.Accept(m, d);
  Residual(m, d);
}

// everything at the point that products and matrices share: which terms are closed, forces, the tree, the constraints
bool AnalyticBackend::Prepare(const mjModel* m, mjData* d, StepDerivative* out, std::string* missing) {
  covered_ = 0;
  const bool ready = PrepareTerms(m, d, &out->coverage, missing);
  out->coverage.terms.resize(covered_);
  return ready;
}

bool AnalyticBackend::PrepareTerms(const mjModel* m, mjData* d, Coverage* coverage, std::string* missing) {
  std::string tendons;
  if (!PrepareMoments(m, d, &tendons, missing)) return false;
  if (!smoothed_) TakeAcceleration(m, d);
  if (UsesNoslip(m)) RunNoslip(m, d);
  missing->clear();
  closed_tendons_ = tendons.empty();
  const std::string adhesion = MoveAdhesive(m, d);

  // all other reasons are the model's: later stages have those of the point
  if (!later_stage_ || differenced_.Any() || !closed_tendons_ || any_adhesion_) {
    CoverForces(m, tendons, adhesion, coverage, missing);
  }
  if (second_solve_) {
    const VectorXd& Mapplied = UsesNoslip(m) ? noslip_->Ma() : point_.momentum_rate();
    if (!mass_.Compute(m, d, tendons_, actuation_, acceleration(m).data(), Mapplied.data())) {
      *missing = "integrator: M + h B is not positive definite";
      return false;
    }
  }
  PrepareTree(m, d, closed_tendons_ ? &tendons_ : nullptr, coverage, missing);
  return missing->empty() || !strict_;
}

// which of the terms beside the tree and the constraints are closed; the others are differenced
void AnalyticBackend::CoverForces(const mjModel* m, const std::string& tendons, const std::string& adhesion,
                                  Coverage* coverage, std::string* missing) {
  const auto cover = [&](std::string_view term, std::string_view reason) {
    return Cover(term, reason, coverage, missing);
  };
  cover("rne", switch_.rne ? kSwitched : "");

  // passive and actuator forces; gravity compensation through actuators ties the two
  std::string passive = switch_.passive ? kSwitched : PassiveMissing(m);
  std::string actuation = actuators_missing_;
  if (passive.empty()) passive = tendons;
  if (actuation.empty()) actuation = tendons;
  if (passive.empty() && m->flg_adhesion) passive = adhesion;
  if (actuation.empty() && any_adhesion_ && HasAdhesiveActuator(m)) {
    actuation = actuation_.AnyDofClamped() ? "adhesion beside a joint at its actuatorfrcrange" : adhesion;
  }
  if (switch_.actuation) actuation = kSwitched;
  if (AnyGravityCompensationByActuators(m) && (!passive.empty() || !actuation.empty())) {
    if (passive.empty()) passive = "gravity compensation by actuators, with " + actuation;
    if (actuation.empty()) actuation = "gravity compensation by actuators, with " + passive;
  }
  closed_passive_ = cover("passive", passive);
  closed_actuation_ = cover("actuation", actuation);

  // the integrator's own solve
  const bool implicit = HasImplicitVelocity(m);
  std::string integrator = implicit ? EffectiveMass::Missing(m, actuators_missing_) : "";
  if (implicit && switch_.integrator) integrator = kSwitched;
  if (implicit && integrator.empty() && m->opt.integrator != mjINT_EULER) integrator = tendons;
  closed_integrator_ = cover("integrator", integrator);
  second_solve_ = implicit && closed_integrator_;
  differenced_.passive = !closed_passive_;
  differenced_.actuation = !closed_actuation_;
  differenced_.integrator = !closed_integrator_;
}

// the caller may have given the model another integrator
void AnalyticBackend::FollowIntegrator(const mjModel* m) {
  if (IsDiscrete(m) == (metric_ != nullptr)) return;
  metric_ = IsDiscrete(m) ? std::make_unique<Metric>(m) : nullptr;
}

// tendons, actuators and M̂ at the point; false where that has no closed form
bool AnalyticBackend::PrepareMoments(const mjModel* m, const mjData* d, std::string* tendons, std::string* missing) {
  *tendons = tendons_.Compute(m, d);
  flexes_.Compute(m, d);
  if (!later_stage_) actuators_missing_ = actuation_.Missing(m);
  if (tendons->empty() && actuators_missing_.empty()) actuation_.Compute(m, d, tendons_);
  if (!metric_) return true;
  *missing = tendons->empty() ? actuators_missing_ : *tendons;
  if (missing->empty()) *missing = metric_->Compute(m, d, tendons_, actuation_);
  if (!missing->empty()) *missing = "integrator discrete: " + *missing;
  return missing->empty();
}

// notes where a term comes from, most often as the call before; true when that is its closed form
bool AnalyticBackend::Cover(std::string_view term, std::string_view reason, Coverage* coverage, std::string* missing) {
  const bool closed = reason.empty();
  if (closed && later_stage_) return true;
  const Level level = closed ? Level::kAnalytic : Level::kResidual;
  if (covered_ == coverage->terms.size()) coverage->terms.emplace_back();
  TermCoverage& covered = coverage->terms[covered_++];
  if (covered.term != term) covered.term = term;
  if (covered.reason != reason) covered.reason = reason;
  covered.level = level;
  if (!closed && missing->empty()) *missing = std::string(term) + ": " + std::string(reason);
  return closed;
}

// everything on the tree, then constraints
void AnalyticBackend::PrepareTree(const mjModel* m, mjData* d, const TendonMoments* tendons, Coverage* coverage,
                                  std::string* missing) {
  input_.a = point_.a().data();
  input_.e = second_solve_ ? mass_.difference().data() : nullptr;
  input_.load = WorldLoads(m, d, closed_passive_, &load_) ? load_.data() : nullptr;
  const bool fluid = closed_passive_ && HasPassiveForces(m) && HasFluid(m),
             thrusters = closed_actuation_ && actuation_.AnySite();
  if (products_ != Products::kPull || NeedsAxes(m) || pulls_axes_) tree_.Forward(m, d, input_);
  else if (d->nefc > 0 || any_adhesion_ || fluid || thrusters || pulls_sensors_) tree_.ForwardFields(m, d, input_);
  constraint_.pulls().assign(any_adhesion_ ? d->ncon : 0, 0);
  if (any_adhesion_ && closed_passive_) AddGeomPulls(m, d, &constraint_.pulls());
  if (any_adhesion_ && closed_actuation_) AddActuatorPulls(m, d, &constraint_.pulls());
  std::string constraint;
  constraint_.Linearize(m, d, tree_, &constraint, tendons);
  if (metric_) metric_->LinearizeRows(m, d, constraint_);
  if (thrusters) AddThrusters(m, d);
  if (fluid) constraint_.AddFluidForces(m, d);
  if (d->nefc) Cover("constraint", constraint, coverage, missing);
  differenced_.inertia = switch_.rne;
  differenced_.constraint = d->nefc && !constraint.empty();
  differenced_.rows = &constraint_.remainder();
}

// −∂r of passive and actuator forces; every term that is neither on the tree nor a constraint belongs here
void AnalyticBackend::AddForces(const mjModel* m, const mjData* d, Columns* R) const {
  AddTendonArmature(m, d, tree_, tendons_, point_.a().data(), R);
  if (closed_passive_) {
    AddPassive(m, d, tendons_, R);
    flexes_.Add(m, d, R);
    compliant_.AddDerivative(m, d, R);
  }
  if (closed_actuation_) actuation_.Add(m, d, R);
  if (closed_passive_ && closed_actuation_ && (actuation_.AnyDofClamped() || IsActuationOff(m))) {
    SubtractLostGravity(m, d, actuation_, R);
  }
  if (metric_) metric_->AddColumns(m, d, point_.a().data(), R);
  if (metric_) metric_->AddRows(R);
}

bool AnalyticBackend::Terms(const mjModel* m, mjData* d, StepDerivative* out, std::string* missing) {
  const bool done = std::exchange(hessian_done_, false);
  if (!Prepare(m, d, out, missing) || !Assemble(m, d, done ? nullptr : &H_, missing)) return false;
  if (done || H_.Factor(AxesOfInertia(m, d, H_))) return true;
  *missing = kSingularHessian;
  return false;
}

// X_: −∂r → da
void AnalyticBackend::SolveColumns() {
  if (!solved_) SolveHessian(&X_);
  solved_ = true;
}

// X_ = −∂r, E_ and H unless it is null
bool AnalyticBackend::Assemble(const mjModel* m, mjData* d, TreeSolver* H, std::string* missing) {
  const int nv = static_cast<int>(m->nv), columns = 2 * nv + static_cast<int>(m->na + m->nu);
  X_.Resize(nv, columns);
  X_.SetZero();
  solved_ = false;
  if (second_solve_) {
    E_.Resize(nv, mass_.MovesWithOthers() ? columns : nv);
    E_.SetZero();
  }
  Columns R(&X_);
  AddForces(m, d, &R);
  articulated_ = unconstrained_ = false;
  if (H) {
    DeclareCouplings(m, d);
    StartHessian(m, d);
  }
  tree_.Finish(m, d, input_, constraint_.bodies(), &X_, second_solve_ ? &E_ : nullptr, H);
  constraint_.AddPairsAndRows(m, d, tree_, &R, H);
  if (differenced_.Any()) {
    if (after_forward_ || !Differences(m, d, missing)) return false;
    for (int j = 0; j < columns; j++) {
      for (int i = 0; i < nv; i++) X_(i, j) -= direct_.residual(i, j);
    }
  }
  missing->clear();
  return true;
}

// (C21) the motion of contacts that adhesion pulls at; "" or why there is none
std::string AnalyticBackend::MoveAdhesive(const mjModel* m, mjData* d) {
  any_adhesion_ = HasAdhesion(m);
  if (!any_adhesion_) return "";
  FindAdhesive(m, d, &adhesive_);
  return constraint_.MoveContacts(m, d, adhesive_);
}

// M, to which constraints add
void AnalyticBackend::StartHessian(const mjModel* m, const mjData* d) {
  H_.SetZero();
  H_.AddRows(m->M_rowadr, m->M_rownnz, m->M_colind, d->M);
  if (metric_) metric_->AddHessian(m, d, &H_);
}

void AnalyticBackend::DeclareCouplings(const mjModel* m, const mjData* d) {
  constraint_.DeclareCouplings(m, d, &H_, metric_ ? &metric_->couplings() : nullptr);
}

// (A4) site transmissions: a wrench that turns with the body
void AnalyticBackend::AddThrusters(const mjModel* m, const mjData* d) {
  if (m->opt.disableflags & mjDSBL_ACTUATION) return;
  for (int i = 0; i < m->nactuator; i++) {
    if (!IsThruster(m, i) || !actuation_.FollowsTree(m, i)) continue;
    const int site = m->actuator_trnid[2 * i], out = m->actuator_outadr[i];
    const Mat3 R = Mat3Map(d->site_xmat + 9 * site);
    const mjtNum* gear = m->actuator_gear + 6 * out;
    Vec6 wrench;
    wrench << R * Vec3Map(gear + 3), R * Vec3Map(gear);
    constraint_.AddFollower(m, d, m->site_bodyid[site], Vec3Map(d->site_xpos + 3 * site),
                            d->actuator_force[out] * wrench);
  }
}

void AnalyticBackend::MakeDifference(const mjModel* m) {
  if (!difference_) difference_ = std::make_unique<ResidualDifference>(m);
}

// ∂ of the terms without closed form alone
bool AnalyticBackend::Differences(const mjModel* m, mjData* d, std::string* missing) {
  MakeDifference(m);
  missing->clear();
  differenced_.applied = UsesNoslip(m) ? &noslip_->a() : nullptr;
  if (!difference_->Compute(m, d, point_.a(), differenced_, &direct_, missing)) return false;
  if (differenced_.inertia) SubtractRne(m, d);
  const bool stages = m->opt.integrator == mjINT_RK4 && differenced_.actuation;
  return !stages || actuation_.SetKinks(m, d, &direct_.activation_rate, missing);
}

// act_dot by (x, u), from the actuators' own slopes or from differences: the last na rows
void AnalyticBackend::ActivationRate(const mjModel* m, MatrixXd* slope) const {
  const int nv = static_cast<int>(m->nv), na = static_cast<int>(m->na);
  if (na == 0) return;
  if (!closed_actuation_) {
    slope->bottomRows(na) = direct_.activation_rate;
    return;
  }
  slope->bottomRows(na).setZero();
  Columns rows = Columns::Of(slope->data() + nv, static_cast<int>(slope->cols()), nullptr, slope->rows());
  actuation_.AddActivation(m, nullptr, &rows);
}

// v' = v + h ā; gain_ is made where the integrator is differenced
void AnalyticBackend::ApplyIntegrator(const mjModel* m, const mjData* d) {
  v_next_ = Eigen::Map<const VectorXd>(d->qvel, m->nv);
  if (second_solve_) {
    v_next_ += m->opt.timestep * mass_.applied();
  } else if (differenced_.integrator) {
    v_next_ += m->opt.timestep * (gain_ * acceleration(m));
  } else {
    v_next_ += m->opt.timestep * acceleration(m);
  }
}

// A and B from X_, block by block: what is read once stays in the first cache until its columns are written
bool AnalyticBackend::Step(const mjModel* m, mjData* d, StepDerivative* out, std::string* missing) {
  const int nv = static_cast<int>(m->nv), na = static_cast<int>(m->na), ndx = 2 * nv + na;
  if (differenced_.integrator) difference_->IntegratorGain(m, &gain_);
  ApplyIntegrator(m, d);
  if (second_solve_) {
    Columns E(&E_);
    mass_.AddColumns(m, d, &E);
  } else if (differenced_.integrator) {
    SolveColumns();
    da_ = gain_ * Dense(X_) + direct_.acceleration;
    for (int j = 0; j < da_.cols(); j++) {
      for (int i = 0; i < nv; i++) X_(i, j) = da_(i, j);
    }
  }
  // without forces of constraints M da = X, and M' dā = X + E
  const bool once = second_solve_ && !solved_ && !constraint_.AnyHessian();
  assembly_.Start(m, v_next_.data(), out);
  for (int block = 0; block < X_.blocks(); block++) {
    const bool half = X_.IsHalf(block);
    double *x = X_.block(block), *e = second_solve_ && block < E_.blocks() ? E_.block(block) : nullptr;
    if (once) {
      x = mass_.SolveSum(x, e, half);
      e = nullptr;
    } else {
      const bool moves = solved_ || H_.SolveBlock(x, true, half);
      if (metric_ && !solved_ && moves) metric_->CorrectBlock(x);
      if (second_solve_ && (moves || e)) e = mass_.Change(x, e, half);
    }
    assembly_.AddBlock(m, block, x, e, out);
  }
  bool finite = assembly_.Finish(m, out);
  if (closed_actuation_) {
    Columns next = Columns::Of(out->A.data() + 2 * nv, ndx, out->B.data() + 2 * nv, ndx);
    if (na > 0) actuation_.AddActivation(m, &next, nullptr);
    finite = finite && (na == 0 || actuation_.HasFiniteActivation());
  } else {
    out->A.bottomRows(na) = direct_.activation.leftCols(ndx);
    out->B.bottomRows(na) = direct_.activation.rightCols(m->nu);
    finite = finite && IsFinite(direct_.activation);
  }
  return CoversIfFinite(finite, missing);
}

MatrixXd AnalyticBackend::Dense(const BlockedMatrix& X) const {
  MatrixXd dense(X.rows(), X.cols());
  CopyDense(X, &dense);
  return dense;
}

void AnalyticBackend::CopyDense(const BlockedMatrix& X, MatrixXd* dense) const {
  constexpr int kWidth = BlockedMatrix::kWidth;
  for (int b = 0; b < X.blocks(); b++) {
    double* to = dense->data() + b * kWidth * dense->rows();
    const int count = std::min(kWidth, X.cols() - b * kWidth);
    for (int i = 0; i < X.rows(); i++) {
      const double* from = X.block(b) + i * kWidth;
      for (int c = 0; c < count; c++) to[c * dense->rows() + i] = from[c];
    }
  }
}

void AnalyticBackend::Stage(const mjModel* m, const mjData* d, StageDerivative* stage) const {
  const int nv = static_cast<int>(m->nv), na = static_cast<int>(m->na);
  stage->rate.resize(nv + na);
  mju_copy(stage->rate.data(), acceleration(m).data(), nv);
  mju_copy(stage->rate.data() + nv, d->act_dot, na);
  stage->slope.resize(nv + na, X_.cols());
  CopyDense(X_, &stage->slope);
  ActivationRate(m, &stage->slope);
}

// @pre `d` is after mj_forward; `stages` is at the same point, perhaps the same, and ends at the last stage
bool AnalyticBackend::RungeKutta(const mjModel* m, const mjData* d, mjData* stages, StepDerivative* out,
                                 std::string* missing) {
  *missing = RungeKuttaRefusal(m);
  if (!missing->empty()) return false;
  if (!runge_kutta_) runge_kutta_ = std::make_unique<RungeKuttaWork>();
  SolveColumns();
  Stage(m, d, &runge_kutta_->first);
  StepDerivative& stage_out = report_;
  int number = 0;
  const auto function = [&](mjData* data, StageDerivative* stage) {
    later_stage_ = true;
    actuation_.EnterStage(actuation_, ++number);
    const bool covered = Acceleration(m, data, Products::kNone, false, &stage_out, missing);
    actuation_.EnterStage(actuation_, 0);
    later_stage_ = false;
    if (!covered || stage_out.status != StepStatus::kOk) return false;
    out->coverage.Add(stage_out.coverage);
    SolveColumns();
    Stage(m, data, stage);
    return true;
  };
  if (RungeKuttaStep(m, stages, std::ref(function), runge_kutta_.get(), out))  // a copy would be allocated
    return CoversIfFinite(IsFinite(out->A) && IsFinite(out->B), missing);
  out->status = stage_out.status;
  return out->status != StepStatus::kOk;
}

bool AnalyticBackend::Sensors(const mjModel* m, mjData* d, StepDerivative* out, std::string* missing) {
  if (m->nsensordata == 0) {
    out->C.resize(0, 2 * m->nv + m->na);
    out->D.resize(0, m->nu);
    return true;
  }
  const bool noslip = UsesNoslip(m);
  if (noslip) SenseBehindNoslip(m, d);
  sensor_.Compute({.m = m,
                   .d = d,
                   .tree = &tree_,
                   .constraint = &constraint_,
                   .actuation = closed_actuation_ ? &actuation_ : nullptr,
                   .da = &X_,
                   .minimum = noslip ? &minimum_ : nullptr,
                   .after = noslip ? TreeBehindNoslip(m, d) : nullptr,
                   .pass = noslip ? noslip_.get() : nullptr,
                   .metric = metric_.get(),
                   .hides_forces = hides_forces_},
                  wanted_sensors_, out, switch_.sensors);
  if (!CoverSensors(m, &out->coverage, missing)) return false;
  if (!sensor_.AnyDifferenced()) return true;

  // the others along da, as far as they need it
  da_ = Dense(X_);
  if (noslip) minimum_da_ = Dense(minimum_);
  const auto solve = [&](double* x) { SolveHessian(m, d, x); };
  const ForceChange forces = {&point_.a(), noslip ? &minimum_da_ : &da_, solve, noslip ? noslip_.get() : nullptr};
  sensors_left_ =
      !difference_->Sensors(m, d, acceleration(m), da_, &sensors_, missing, &sensor_.differenced(), &forces);
  if (sensors_left_) out->coverage.terms.back() = difference_->LeftToSteps(m, missing);
  for (int i = 0; i < m->nsensor; i++) {
    if (!sensor_.differenced()[i]) continue;
    const int row = m->sensor_adr[i], dim = m->sensor_dim[i];
    out->C.middleRows(row, dim) = sensors_.middleRows(row, dim).leftCols(out->C.cols());
    out->D.middleRows(row, dim) = sensors_.middleRows(row, dim).rightCols(m->nu);
  }
  return true;
}

// notes where the sensors come from; those that are differenced need difference_
bool AnalyticBackend::CoverSensors(const mjModel* m, Coverage* coverage, std::string* missing) {
  if (!sensor_.AnyDifferenced()) {
    coverage->terms.push_back({"sensors", Level::kAnalytic, ""});
    return true;
  }
  const std::string names = NamesOfSensors(m, sensor_.differenced());
  coverage->terms.push_back({"sensors", Level::kResidual, names});
  MakeDifference(m);
  if (!strict_) return true;
  *missing = "sensors: " + names;
  return false;
}

std::unique_ptr<Backend> MakeAnalyticBackend(const mjModel* model, const LinearizeOptions& options,
                                             std::string* missing) {
  *missing = AnalyticRefusal(model);
  if (missing->empty()) *missing = DelayMissing(model);
  if (!missing->empty()) return nullptr;
  auto backend =
      std::make_unique<AnalyticBackend>(model, options.level == Level::kAnalytic, TermSwitch(), options.smoothing);
  if (model->nhistory == 0) return backend;
  return std::make_unique<DelayedBackend>(model, std::move(backend), false);
}

}  // namespace costate
