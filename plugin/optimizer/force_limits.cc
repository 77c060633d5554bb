#include "optimizer/force_limits.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/driven.h"
#include "core/extremes.h"
#include "core/joint.h"
#include "derivative/actuation.h"

namespace costate {
namespace {

// a control whose force would be beyond its limit by no more than this part of it is at the limit: far more than what
// a motion's curvature within an interval hides, far less than what a cost of controls would mind
constexpr double kBand = 1e-3;

// a column of B less than this part of that from within is that of a force at its limit in all steps
constexpr double kSaturated = 1e-9;

bool IsHingeOrSlide(const mjModel* m, int joint) { return IsScalarJoint(m->jnt_type[joint]); }

// no other actuator's force may count in the joint's
bool IsAloneOn(const mjModel* m, int joint) {
  int count = 0;
  for (int i = 0; i < m->nactuator; ++i) {
    if (!ActsOnJoint(m, i)) return false;
    count += m->actuator_trnid[2 * i] == joint;
  }
  return count == 1 && !m->jnt_actgravcomp[joint];
}

// force = gain u + an affine function of the state, at once
bool IsPlain(const mjModel* m, int i) {
  return m->actuator_dyntype[i] == mjDYN_NONE && m->actuator_gaintype[i] == mjGAIN_FIXED &&
         (m->actuator_biastype[i] == mjBIAS_NONE || m->actuator_biastype[i] == mjBIAS_AFFINE) &&
         m->actuator_ctrlnum[i] == 1 && m->actuator_outnum[i] == 1 && m->actuator_actnum[i] == 0 &&
         m->actuator_plugin[i] < 0 && !IsActuatorDisabled(m, i);
}

}  // namespace

ForceLimits::ForceLimits(const Problem& problem, int threads)
    : problem_(problem), threads_(threads), dims_(problem.model) {
  const mjModel* m = problem.model;
  if (m->opt.integrator == mjINT_RK4 || (m->opt.disableflags & mjDSBL_ACTUATION)) return;
  for (int i = 0; i < m->nactuator; ++i) Add(m, i);
}

void ForceLimits::Add(const mjModel* m, int i) {
  const int joint = m->actuator_trnid[2 * i];
  const double gain = m->actuator_gainprm[mjNGAIN * i];
  if (!IsPlain(m, i) || !ActsOnJoint(m, i) || !IsHingeOrSlide(m, joint) || gain == 0) return;
  const double gear = m->actuator_gear[6 * m->actuator_outadr[i]];
  double lower = -kInf, upper = kInf;
  if (m->actuator_forcelimited[i]) {
    lower = m->actuator_forcerange[2 * i];
    upper = m->actuator_forcerange[2 * i + 1];
  }
  if (m->jnt_actfrclimited[joint] && gear != 0 && IsAloneOn(m, joint)) {
    const double a = m->jnt_actfrcrange[2 * joint] / gear, b = m->jnt_actfrcrange[2 * joint + 1] / gear;
    lower = std::max(lower, std::min(a, b));
    upper = std::min(upper, std::max(a, b));
  }
  if (!std::isfinite(lower) || !std::isfinite(upper) || !(lower < upper)) return;

  const bool affine = m->actuator_biastype[i] == mjBIAS_AFFINE;
  const mjtNum* bias = m->actuator_biasprm + mjNBIAS * i;
  drives_.push_back({.actuator = i,
                     .joint = joint,
                     .control = m->actuator_ctrladr[i],
                     .qpos = m->jnt_qposadr[joint],
                     .qvel = dims_.nq + m->jnt_dofadr[joint],
                     .dof = m->jnt_dofadr[joint],
                     .gain = gain,
                     .bias = affine ? bias[0] : 0,
                     .stiffness = affine ? bias[1] * gear : 0,
                     .damping = affine ? bias[2] * gear : 0,
                     .lower = gain > 0 ? lower : upper,
                     .upper = gain > 0 ? upper : lower,
                     .band = kBand * (upper - lower) / std::abs(gain)});
}

ModelPtr ForceLimits::Without() const {
  ModelPtr model = CopyModel(problem_.model);
  for (const Drive& d : drives_) model->actuator_forcelimited[d.actuator] = model->jnt_actfrclimited[d.joint] = 0;
  return model;
}

// from which on the force is at its limit in all steps of the interval, by the first and the last of them; where the
// last one begins the joint is at q - h q' of the next knot
double ForceLimits::ControlAt(const Drive& d, double limit, const Trajectory& motion, int t, bool upper,
                              double* since) const {
  const auto at = [&](double q, double v) { return (limit - d.bias - d.stiffness * q - d.damping * v) / d.gain; };
  const double h = problem_.model->opt.timestep, q0 = motion.X(d.qpos, t), v0 = motion.X(d.qvel, t);
  const double q1 = motion.X(d.qpos, t + 1), v1 = motion.X(d.qvel, t + 1);
  const double first = at(q0, v0), last = at(q1 - h * v1, v1 - (v1 - v0) / problem_.substeps);
  const bool later = problem_.substeps > 1 && (upper ? last > first : last < first);
  *since = later ? (problem_.substeps - 1) * h : 0;
  return later ? last : first;
}

bool ForceLimits::Touches(const Drive& d, const Trajectory& motion, int t, Touch* touch) const {
  const double u = motion.U(d.control, t);
  for (const bool upper : {false, true}) {
    const double limit = upper ? d.upper : d.lower;
    double since;
    const double beyond = (upper ? 1 : -1) * (u - ControlAt(d, limit, motion, t, upper, &since));
    if (beyond < 0) continue;
    const bool in_band = beyond <= d.band;
    *touch = {&d, upper, in_band ? 0 : (upper ? -1 : 1) * (beyond - 0.5 * d.band), since};
    return true;
  }
  return false;
}

bool ForceLimits::AreReached(const Trajectory& motion) const {
  Touch touch;
  for (int t = 0; t < motion.N(); ++t) {
    for (const Drive& drive : drives_) {
      if (Touches(drive, motion, t, &touch)) return true;
    }
  }
  return false;
}

void ForceLimits::Find(const Trajectory& motion, const LinearizeOptions& derivative) {
  const int N = motion.N();
  touches_.resize(static_cast<std::size_t>(N));
  knots_.clear();
  for (int t = 0; t < N; ++t) {
    std::vector<Touch>& here = touches_[static_cast<std::size_t>(t)];
    here.clear();
    bool within = false;
    Touch touch;
    for (const Drive& drive : drives_) {
      if (!Touches(drive, motion, t, &touch)) continue;
      if (touch.left == 0) touch.slope = static_cast<int>(knots_.size());
      within |= touch.left == 0;
      here.push_back(touch);
    }
    if (within) knots_.push_back(t);
  }
  if (!knots_.empty()) LinearizeWithin(motion, derivative);
}

// all knots that have a control at a limit, without limits: there no force but those is where it was, so that those
// beyond their limits are brought to them
void ForceLimits::LinearizeWithin(const Trajectory& motion, const LinearizeOptions& derivative) {
  if (!within_) {
    unlimited_ = CopyModel(problem_.model);
    for (int i = 0; i < unlimited_->nactuator; ++i) {
      const bool joint = ActsOnJoint(unlimited_.get(), i);
      const int control = unlimited_->actuator_ctrladr[i];
      if (std::none_of(drives_.begin(), drives_.end(), [&](const Drive& d) { return d.control == control; })) continue;
      unlimited_->actuator_forcelimited[i] = 0;
      if (joint && IsAloneOn(unlimited_.get(), unlimited_->actuator_trnid[2 * i]))
        unlimited_->jnt_actfrclimited[unlimited_->actuator_trnid[2 * i]] = 0;
      unlimited_->actuator_ctrllimited[control] = 0;
    }
    within_ = std::make_unique<Simulator>(unlimited_.get(), problem_.context, problem_.substeps, threads_);
  }
  within_->SetContext(problem_.context);
  const auto n = static_cast<Eigen::Index>(knots_.size());
  at_limits_.X.resize(motion.X.rows(), n + 1);
  at_limits_.U.resize(motion.U.rows(), n);
  at_limits_.S.resize(motion.S.rows(), n + 1);
  at_limits_.time.resize(n + 1);
  at_limits_.context.resize(motion.context.rows(), n + 1);
  for (Eigen::Index k = 0; k <= n; ++k) {
    const int t = knots_[static_cast<std::size_t>(std::min(k, n - 1))];
    at_limits_.X.col(k) = motion.X.col(t);
    at_limits_.S.col(k) = motion.S.col(t);
    at_limits_.time[k] = motion.time[t];
    at_limits_.context.col(k) = motion.context.col(t);
    if (k == n) break;
    at_limits_.U.col(k) = motion.U.col(t);
    for (const Touch& touch : touches_[static_cast<std::size_t>(t)]) {
      at_limits_.U(touch.drive->control, k) += touch.left;
    }
  }
  LinearizeOptions options;
  options.level = derivative.level;
  options.sensors = derivative.sensors;
  within_->Linearize(at_limits_, options, &slopes_);
}

// of the control at the limit: du = S dx keeps the force of the step that reaches it last
Eigen::RowVectorXd ForceLimits::SlopeOf(const Touch& touch) const {
  const Drive& d = *touch.drive;
  Eigen::RowVectorXd slope = Eigen::RowVectorXd::Zero(dims_.ndx);
  slope[d.dof] = -d.stiffness / d.gain;
  slope[dims_.nv + d.dof] = -(d.damping + touch.since * d.stiffness) / d.gain;
  return slope;
}

void ForceLimits::Reach(int t, StepDerivative* derivative) const {
  for (const Touch& touch : touches_[static_cast<std::size_t>(t)]) {
    if (touch.slope < 0) continue;
    const StepDerivative& within = slopes_[static_cast<std::size_t>(touch.slope)];
    const int i = touch.drive->control;
    if (within.status != StepStatus::kOk) continue;
    if (derivative->B.col(i).norm() > kSaturated * within.B.col(i).norm()) continue;
    const Eigen::RowVectorXd slope = SlopeOf(touch);
    derivative->B.col(i) = within.B.col(i);
    derivative->A.noalias() -= within.B.col(i) * slope;
    if (within.D.cols() == 0 || derivative->D.cols() == 0) continue;
    derivative->D.col(i) = within.D.col(i);
    derivative->C.noalias() -= within.D.col(i) * slope;
  }
}

void ForceLimits::Bound(int t, LqKnot* knot) const {
  const Eigen::Index nu = knot->lu.size();
  if (knot->du_lower.size() == 0) {
    knot->du_lower.setConstant(nu, -kInf);
    knot->du_upper.setConstant(nu, kInf);
  }
  knot->lower_slope.setZero(nu, dims_.ndx);
  knot->upper_slope.setZero(nu, dims_.ndx);
  for (const Touch& touch : touches_[static_cast<std::size_t>(t)]) {
    const int i = touch.drive->control;
    const double sign = touch.upper ? 1 : -1;
    if (sign * (knot->lu[i] + knot->luu(i, i) * touch.left) < 0) continue;  // the cost asks for more

    // at the limit it may turn back; beyond it it stays there
    const bool at_limit = touch.left == 0, above = touch.upper == at_limit;
    if (!at_limit && !knot->B.col(i).isZero(0)) continue;
    double& bound = above ? knot->du_upper[i] : knot->du_lower[i];
    if (above ? touch.left >= bound : touch.left <= bound) continue;
    bound = std::clamp(touch.left, knot->du_lower[i], knot->du_upper[i]);
    (above ? knot->upper_slope : knot->lower_slope).row(i) = SlopeOf(touch);
  }
}

ModelPtr WithoutForceLimits(const mjModel* m) {
  const auto any = [](const mjtBool* limited, auto n) { return std::any_of(limited, limited + n, std::identity()); };
  if (!any(m->actuator_forcelimited, m->nactuator) && !any(m->jnt_actfrclimited, m->njnt) &&
      !any(m->tendon_actfrclimited, m->ntendon))
    return nullptr;
  ModelPtr model = CopyModel(m);
  std::fill_n(model->actuator_forcelimited, m->nactuator, 0);
  std::fill_n(model->jnt_actfrclimited, m->njnt, 0);
  std::fill_n(model->tendon_actfrclimited, m->ntendon, 0);
  return model;
}

bool IsSameMotion(const Problem& problem, const mjModel* without, const Trajectory& motion) {
  Simulator simulator(without, problem.context, problem.substeps, 1);
  Trajectory own;
  return simulator.Rollout(motion.X.col(0), motion.U, &own).ok() && own.X == motion.X;
}

}  // namespace costate
