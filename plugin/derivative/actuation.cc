#include "derivative/actuation.h"

#include <costate/model.h>

#include <algorithm>
#include <cmath>

#include "core/actuator_range.h"
#include "core/driven.h"
#include "core/joint.h"
#include "derivative/plant.h"
#include "derivative/transmission.h"

namespace costate {

namespace {

constexpr double kGranted = 1e-10;  // of a tendon's limit: forces scaled to it are at it, as in the engine

double Slope(bool inside) { return inside ? 1 : 0; }

bool Inside(double x, const mjtNum* range) { return x >= range[0] && x <= range[1]; }

// what has no closed form; null when all has
const char* MissingByType(const mjModel* m, int i) {
  const int gain = m->actuator_gaintype[i], bias = m->actuator_biastype[i], dyn = m->actuator_dyntype[i];
  if (m->actuator_plugin[i] >= 0) return "plugin";
  if (IsServo(m, i)) return HasMoment(m, i) || m->actuator_trntype[i] == mjTRN_SO3 ? nullptr : "moving moment arm";
  if (m->actuator_outnum[i] != 1 || m->actuator_ctrlnum[i] != 1) return "several inputs or outputs";
  if (gain != mjGAIN_FIXED && gain != mjGAIN_AFFINE && gain != mjGAIN_MUSCLE) return "gain type";
  if (bias != mjBIAS_NONE && bias != mjBIAS_AFFINE && bias != mjBIAS_MUSCLE) return "bias type";
  if (dyn != mjDYN_NONE && dyn != mjDYN_INTEGRATOR && dyn != mjDYN_FILTER && dyn != mjDYN_FILTEREXACT &&
      dyn != mjDYN_MUSCLE) {
    return "activation dynamics";
  }
  if (m->actuator_actnum[i] != (dyn == mjDYN_NONE ? 0 : 1)) return "activation states";
  return HasMoment(m, i) || IsAdhesive(m, i) ? nullptr : "moving moment arm";
}

// may the length be that of a rotation of two frames?
bool MayTurn(const mjModel* m, int i) {
  if (ActsOnJoint(m, i)) return m->jnt_type[m->actuator_trnid[2 * i]] == mjJNT_BALL;
  return m->actuator_trntype[i] == mjTRN_SITE;
}

// the engine's implicit integrators leave out what is there
bool AtForceLimit(const mjModel* m, const mjData* d, int i) {
  const mjtNum* range = ForceRange(m, i);
  return range != nullptr && IsAtLimit(LimitedForce(m, d, d->act, i, 0), range);
}

bool DependsOnVelocity(const mjModel* m, int i) {
  const int gain = m->actuator_gaintype[i], bias = m->actuator_biastype[i];
  const bool steady = gain == mjGAIN_FIXED || (gain == mjGAIN_AFFINE && m->actuator_gainprm[mjNGAIN * i + 2] == 0);
  const bool unbiased = bias == mjBIAS_NONE || (bias == mjBIAS_AFFINE && m->actuator_biasprm[mjNBIAS * i + 2] == 0);
  return !steady || !unbiased;
}

}  // namespace

ActivationStep ActivationStepOf(const mjModel* m, int i, int state) {
  const double h = m->opt.timestep;
  const mjtNum* prm = m->actuator_dynprm + mjNDYN * i;
  const bool motor = m->actuator_dyntype[i] == mjDYN_DCMOTOR;
  const MotorSlots slots = motor ? SlotsOf(m, i) : MotorSlots();
  ActivationStep update;
  if (IsActuationOff(m)) return update;
  const bool disabled = IsActuatorDisabled(m, i);
  update.step = disabled ? 0 : h;
  if (!disabled && (m->actuator_dyntype[i] == mjDYN_FILTEREXACT || (motor && state == slots.current))) {
    const double tau = std::max(mjMINVAL, prm[0]);
    update.step = tau * (1 - std::exp(-h / tau));
  }
  if (motor && state == slots.integral && prm[8] > 0) {
    update.lower = -prm[8], update.upper = prm[8];
  } else if (!motor && m->actuator_actlimited[i]) {
    update.lower = m->actuator_actrange[2 * i], update.upper = m->actuator_actrange[2 * i + 1];
  }
  return update;
}

bool IsActuationOff(const mjModel* m) { return m->nactuator == 0 || (m->opt.disableflags & mjDSBL_ACTUATION); }

int ActuatorOfControl(const mjModel* m, int control) {
  int i = 0;
  while (control >= m->actuator_ctrladr[i] + m->actuator_ctrlnum[i]) i++;
  return i;
}

int ActuatorOfAct(const mjModel* m, int act) {
  for (int i = 0; i < m->nactuator; i++) {
    const int adr = m->actuator_actadr[i];
    if (adr >= 0 && act >= adr && act < adr + m->actuator_actnum[i]) return i;
  }
  return -1;
}

bool IsActuatorDisabled(const mjModel* m, int i) {
  const int group = m->actuator_group[i];
  return group >= 0 && group <= 30 && (m->opt.disableactuator & (1 << group));
}

bool IsInMatrix(const mjModel* m, const mjData* d, int i) {
  const bool discrete = m->opt.integrator == mjINT_DISCRETE;
  if (!discrete && m->opt.integrator != mjINT_IMPLICIT && m->opt.integrator != mjINT_IMPLICITFAST) return false;
  if (IsServo(m, i)) return true;
  const auto has_slopes = [discrete](const mjtNum* prm) { return prm[2] != 0 || (discrete && prm[1] != 0); };
  const int gain = m->actuator_gaintype[i], bias = m->actuator_biastype[i];
  if (bias == mjBIAS_AFFINE && has_slopes(m->actuator_biasprm + mjNBIAS * i)) return true;
  if (bias == mjBIAS_MUSCLE && discrete) return true;
  if (gain == mjGAIN_AFFINE && !has_slopes(m->actuator_gainprm + mjNGAIN * i)) return false;
  if (gain != mjGAIN_AFFINE && gain != mjGAIN_MUSCLE) return false;
  const int states = m->actuator_actnum[i];
  return (states > 0 ? d->act[m->actuator_actadr[i] + states - 1] : d->ctrl[m->actuator_ctrladr[i]]) != 0;
}

ActuatorPull ActuatorPullOf(const mjModel* model, const mjData* data, int tendon) {
  ActuatorPull pull;
  for (int a = 0; a < model->nactuator; ++a) {
    if (model->actuator_trntype[a] != mjTRN_TENDON || model->actuator_trnid[2 * a] != tendon) continue;
    pull.force += data->actuator_force[model->actuator_outadr[a]];
  }
  const mjtNum* limit = model->tendon_actfrcrange + 2 * tendon;
  pull.range[0] = limit[0] + kGranted * std::abs(limit[0]);
  pull.range[1] = limit[1] - kGranted * std::abs(limit[1]);
  return pull;
}

bool HasConstantMoment(const mjModel* m, int i) {
  const int id = m->actuator_trnid[2 * i];
  switch (m->actuator_trntype[i]) {
    case mjTRN_JOINT:
    case mjTRN_JOINTINPARENT: return IsScalarJoint(m->jnt_type[id]);
    case mjTRN_TENDON: return m->wrap_type[m->tendon_adr[id]] == mjWRAP_JOINT;
    default: return false;
  }
}

bool HasMovingGain(const mjModel* m, int i) {
  return m->actuator_gaintype[i] != mjGAIN_FIXED || m->actuator_biastype[i] == mjBIAS_MUSCLE;
}

bool IsThruster(const mjModel* m, int i) {
  return m->actuator_trntype[i] == mjTRN_SITE && m->actuator_trnid[2 * i + 1] < 0 && !DependsOnVelocity(m, i);
}

bool IsAdhesive(const mjModel* m, int i) { return m->actuator_trntype[i] == mjTRN_BODY && !DependsOnVelocity(m, i); }

Actuation::Actuation(const mjModel* m) : builder_(m), slopes_(m->nactuator), own_(m->nout), muscle_(m->nactuator) {
  Classify(m);
}

bool Actuation::HasOtherTypes(const mjModel* m) const {
  return !std::equal(gain_type_.begin(), gain_type_.end(), m->actuator_gaintype) ||
         !std::equal(bias_type_.begin(), bias_type_.end(), m->actuator_biastype);
}

void Actuation::Classify(const mjModel* m) {
  gain_type_.assign(m->actuator_gaintype, m->actuator_gaintype + m->nactuator);
  bias_type_.assign(m->actuator_biastype, m->actuator_biastype + m->nactuator);
  missing_.clear();
  any_servo_ = any_site_ = false;
  kind_.clear();
  for (int i = 0; i < m->nactuator; i++) {
    const char* what = missing_.empty() ? MissingByType(m, i) : nullptr;
    if (what) missing_ = std::string(what) + " of " + ElementName(m, mjOBJ_ACTUATOR, i);
    const bool servo = IsServo(m, i);
    any_servo_ = any_servo_ || servo;
    any_site_ = any_site_ || m->actuator_trntype[i] == mjTRN_SITE;
    const bool turns = MayTurn(m, i), affine = m->actuator_biastype[i] == mjBIAS_AFFINE;
    const bool plain = m->actuator_gaintype[i] == mjGAIN_FIXED && !servo &&
                       (m->actuator_biastype[i] == mjBIAS_NONE || (affine && !turns));
    kind_.push_back({HasConstantMoment(m, i), servo, plain, affine, turns, m->actuator_outadr[i],
                     m->actuator_ctrladr[i], m->actuator_actnum[i] > 0 ? m->actuator_actadr[i] : -1});
  }
}

std::string Actuation::Missing(const mjModel* m) {
  if (HasOtherTypes(m)) Classify(m);
  if (m->opt.disableflags & mjDSBL_ACTUATION) return "";
  for (int i = 0; i < m->nactuator && any_servo_ && missing_.empty(); i++) {
    const std::string missing = IsServo(m, i) ? ServoMissing(m, i) : "";
    if (!missing.empty()) return missing + " of " + ElementName(m, mjOBJ_ACTUATOR, i);
  }
  return missing_;
}

void Actuation::EnterStage(const Actuation& first, int stage) {
  stage_ = stage;
  if (&first == this) return;
  muscle_ = first.muscle_;
  kinks_ = first.kinks_;
}

void Actuation::Compute(const mjModel* m, const mjData* d, const TendonMoments& tendons) {
  servos_.clear();
  moment_.assign(m->nout, {});
  force_.assign(m->nactuator, 0);
  row_scale_.assign(m->nactuator, 0);
  share_.assign(m->nactuator, {});
  clamped_.assign(m->nv, 0);
  any_clamped_ = false;
  if (m->opt.disableflags & mjDSBL_ACTUATION) return std::fill(slopes_.begin(), slopes_.end(), ActuatorSlope());

  for (int j = 0; j < m->njnt; j++) {
    if (!m->jnt_actfrclimited[j]) continue;
    const int dof = m->jnt_dofadr[j], type = m->jnt_type[j];
    if (!IsScalarJoint(type)) continue;
    const double force = d->qfrc_actuator[dof];
    clamped_[dof] = force <= m->jnt_actfrcrange[2 * j] || force >= m->jnt_actfrcrange[2 * j + 1];
    any_clamped_ = any_clamped_ || clamped_[dof];
  }

  for (int i = 0; i < m->nactuator; i++) {
    const int out = kind_[i].out, type = m->actuator_trntype[i];
    const bool servo = kind_[i].servo;
    if (servo) AddServo(m, d, i);
    else Slopes(m, d, i);
    if (type == mjTRN_TENDON) {
      const int tendon = m->actuator_trnid[2 * i];
      const bool constant = kind_[i].constant && !m->tendon_actfrclimited[tendon];
      row_scale_[i] = m->actuator_gear[6 * out];
      if (!constant || servo) moment_[out] = {&tendons[tendon], row_scale_[i]};
    } else if (type == mjTRN_SO3) {
      row_scale_[i] = 1;
      for (int k = 0; k < 3; k++) {
        RotationMoment(m, d, i, k, &builder_, &own_[out + k]);
        moment_[out + k] = {&own_[out + k], 1};
      }
    } else if (servo || (!kind_[i].constant && !FollowsTree(m, i))) {
      TransmissionMoment(m, d, i, &builder_, &own_[out]);
      row_scale_[i] = 1;
      moment_[out] = {&own_[out], 1};
    }
  }
  LimitForces(m, d);
  for (int i = 0; i < m->nactuator && any_clamped_; i++) {
    if (ActsOnJoint(m, i) && clamped_[m->jnt_dofadr[m->actuator_trnid[2 * i]]]) NoDamping(i);
  }
}

void Actuation::AddServo(const mjModel* m, const mjData* d, int i) {
  slopes_[i] = ActuatorSlope();
  servos_.push_back(MakeServoSlope(m, d, i));
  force_[i] = servos_.back().value;
}

// slopes of act_dot, act' and of the force before limits
void Actuation::Slopes(const mjModel* m, const mjData* d, int i) {
  const Kind& kind = kind_[i];
  ActuatorSlope& s = slopes_[i];
  s = ActuatorSlope();
  s.ctrl_index = kind.ctrl;
  s.act_index = kind.act;
  Input input{d->ctrl[kind.ctrl], 1, 0};
  if (const mjtNum* range = ControlRange(m, kind.ctrl)) {
    input.by_ctrl = Slope(Inside(input.value, range));
    input.value = std::clamp(input.value, range[0], range[1]);
  }
  if (kind.act >= 0) input = Activate(m, d, i, input);
  if (IsActuatorDisabled(m, i)) return;
  if (!kind.plain) return ForceSlopes(m, d, i, input);
  const double gain = m->actuator_gainprm[mjNGAIN * i];
  force_[i] = gain * input.value;
  s.ctrl = PLANT("plain actuator: by control", gain * input.by_ctrl);
  if (kind.act >= 0) s.act = PLANT("plain actuator: by activation", gain * input.by_act);
  if (!kind.affine) return;
  const mjtNum* prm = m->actuator_biasprm + mjNBIAS * i;
  force_[i] += prm[0] + prm[1] * d->actuator_length[kind.out] + prm[2] * d->actuator_velocity[kind.out];
  s.length = PLANT("plain actuator: by length", prm[1]);
  s.velocity = PLANT("plain actuator: by velocity", prm[2]);
  if (!AtForceLimit(m, d, i)) s.damping = PLANT("plain actuator: damping", -prm[2]);
}

bool Actuation::HasForces(const mjModel* m, const mjData* d) const {
  constexpr double kRounding = 1e-9;
  if (IsActuationOff(m)) return true;
  for (int i = 0; i < m->nactuator; i++) {
    if (kind_[i].servo || IsActuatorDisabled(m, i)) continue;
    if (m->actuator_trntype[i] == mjTRN_TENDON && m->tendon_actfrclimited[m->actuator_trnid[2 * i]]) continue;
    const mjtNum* range = ForceRange(m, i);
    const double force = d->actuator_force[kind_[i].out];
    const double now = range ? std::clamp(force_[i], range[0], range[1]) : force_[i];
    if (!(std::abs(force - now) <= kRounding * (1 + std::abs(now)))) return false;
  }
  return true;
}

// act_dot and act'; what of them is the force's input
Actuation::Input Actuation::Activate(const mjModel* m, const mjData* d, int i, const Input& ctrl) {
  ActuatorSlope& s = slopes_[i];
  const double act = d->act[s.act_index];
  const mjtNum* prm = m->actuator_dynprm + mjNDYN * i;
  switch (m->actuator_dyntype[i]) {
    case mjDYN_INTEGRATOR: s.rate_ctrl = PLANT("activation: integrator", 1.0); break;
    case mjDYN_MUSCLE:
      if (m->opt.integrator == mjINT_RK4) {
        if (stage_ == 0) muscle_[i] = StagesOfMuscle(m, i, ctrl.value, act);
        s.rate_ctrl = muscle_[i].rate_ctrl[stage_];
        s.rate_act = muscle_[i].rate_act[stage_];
      } else {
        MuscleRate(ctrl.value, act, prm, &s.rate_ctrl, &s.rate_act);
      }
      break;
    default: s.rate_ctrl = PLANT("activation: filter", 1 / std::max(mjMINVAL, prm[0])), s.rate_act = -s.rate_ctrl;
  }
  s.rate_ctrl *= ctrl.by_ctrl;
  const ActivationStep update = ActivationStepOf(m, i, 0);
  const double step = update.step, next = act + step * d->act_dot[s.act_index];
  const bool free = update.Inside(next);
  s.next_ctrl = PLANT("activation: next by control", Slope(free) * step * s.rate_ctrl);
  s.next_act = PLANT("activation: next by activation", Slope(free) * (1 + step * s.rate_act));
  if (!m->actuator_actearly[i]) return {act, 0, 1};
  return {std::clamp(next, update.lower, update.upper), s.next_ctrl, s.next_act};
}

// force = gain(l, l̇) input + bias(l, l̇)
void Actuation::ForceSlopes(const mjModel* m, const mjData* d, int i, const Input& input) {
  ActuatorSlope& s = slopes_[i];
  const int out = kind_[i].out, gain_type = m->actuator_gaintype[i], bias_type = m->actuator_biastype[i];
  const double length = d->actuator_length[out], velocity = d->actuator_velocity[out];
  const mjtNum *gain_prm = m->actuator_gainprm + mjNGAIN * i, *bias_prm = m->actuator_biasprm + mjNBIAS * i;
  ForceGain gain{gain_prm[0]};
  if (gain_type == mjGAIN_AFFINE) {
    gain.value += gain_prm[1] * length + gain_prm[2] * velocity;
    gain.by_length = PLANT("actuator: affine gain by length", gain_prm[1]);
    gain.by_velocity = PLANT("actuator: affine gain by velocity", gain_prm[2]);
  } else if (gain_type == mjGAIN_MUSCLE) {
    gain = MuscleGain(m, d, i);
  }
  double bias = 0, bias_length = 0, bias_velocity = 0, bias_turn = 0;
  if (bias_type == mjBIAS_AFFINE) {
    bias = bias_prm[0] + bias_prm[1] * length + bias_prm[2] * velocity;
    bias_length = PLANT("actuator: bias by length", bias_prm[1]);
    bias_velocity = PLANT("actuator: bias by velocity", bias_prm[2]);
  } else if (bias_type == mjBIAS_MUSCLE) {
    MusclePassive(m, d, i, &bias, &bias_length, &bias_turn);
  }
  force_[i] = gain.value * input.value + bias;

  // a servo's setpoint of a rotation is a constant away, (A7)
  const bool servo = kind_[i].turns && gain_type == mjGAIN_FIXED && bias_type == mjBIAS_AFFINE;
  if (servo && gain_prm[0] == -bias_prm[1])
    force_[i] += gain.value * TurnsTo(input.value, length, SetpointPeriod(m, i));
  s.length = gain.by_length * input.value + bias_length;
  s.velocity = gain.by_velocity * input.value + bias_velocity;
  s.ctrl = PLANT("actuator: by control", gain.value * input.by_ctrl);
  s.act = PLANT("actuator: by activation", gain.value * input.by_act);

  if (AtForceLimit(m, d, i)) return;
  s.damping = PLANT("actuator: damping", -gain.by_velocity * input.value - bias_velocity);
  s.damping_length = -gain.bend_length * input.value;
  s.damping_velocity = -gain.bend_velocity * input.value;
  s.damping_ctrl = PLANT("actuator: damping by control", -gain.by_velocity * input.by_ctrl);
  s.damping_act = PLANT("actuator: damping by activation", -gain.by_velocity * input.by_act);
  s.stiffness = -s.length;
  s.stiffness_length = -gain.turn_length * input.value - bias_turn;
  s.stiffness_velocity = -gain.bend_length * input.value;
  s.stiffness_ctrl = PLANT("actuator: stiffness by control", -gain.by_length * input.by_ctrl);
  s.stiffness_act = PLANT("actuator: stiffness by activation", -gain.by_length * input.by_act);
}

// (A6) implicitfast's matrix leaves out actuators whose joint or tendon is at its limit, behind that of their own
void Actuation::NoDamping(int i) {
  ActuatorSlope& s = slopes_[i];
  s.damping = s.damping_length = s.damping_velocity = s.damping_ctrl = s.damping_act = 0;
  s.stiffness = s.stiffness_length = s.stiffness_velocity = s.stiffness_ctrl = s.stiffness_act = 0;
  for (ServoSlope& servo : servos_) {
    if (servo.actuator == i) servo.damping = servo.damping_slope = 0;
  }
}

// (A5) a tendon's limit scales all forces on it to F_i limit / ΣF, then each is clamped to its own range
void Actuation::LimitForces(const mjModel* m, const mjData* d) {
  std::vector<double>&total = tendon_total_, &pull = tendon_pull_;
  total.assign(m->ntendon, 0);
  pull.assign(m->ntendon, 0);
  const bool any = m->ntendon > 0;
  const auto tendon = [&](int i) {
    return any && m->actuator_trntype[i] == mjTRN_TENDON ? m->actuator_trnid[2 * i] : -1;
  };
  for (int i = 0; i < m->nactuator && any; i++) {
    if (tendon(i) >= 0) total[tendon(i)] += force_[i];
  }
  const auto saturated = [&](int t) {
    return t >= 0 && m->tendon_actfrclimited[t] && total[t] != 0 &&
           (total[t] < m->tendon_actfrcrange[2 * t] || total[t] > m->tendon_actfrcrange[2 * t + 1]);
  };
  const auto scale = [&](int t) {
    return m->tendon_actfrcrange[2 * t + (total[t] > m->tendon_actfrcrange[2 * t])] / total[t];
  };
  const auto inside = [&](int i, double force) {
    const mjtNum* range = ForceRange(m, i);
    return range == nullptr || Inside(force, range);
  };
  const auto gear = [&](int i) { return m->actuator_gear[6 * m->actuator_outadr[i]]; };
  for (int i = 0; i < m->nactuator; i++) {
    const int t = tendon(i);
    if (saturated(t)) {
      const bool moves = inside(i, scale(t) * force_[i]);
      share_[i] = {true, moves ? scale(t) : 0, force_[i] / total[t]};
      if (moves) pull[t] += gear(i) * force_[i];
    } else if (m->actuator_gaintype[i] != mjGAIN_SO3 &&
               (!inside(i, force_[i]) || (AtForceLimit(m, d, i) && IsInMatrix(m, d, i)))) {
      ActuatorSlope& s = slopes_[i];
      s.length = s.velocity = s.ctrl = s.act = 0;
      for (ServoSlope& servo : servos_) {
        if (servo.actuator == i) servo.force.setZero();
      }
    }
  }
  for (int i = 0; i < m->nactuator && any; i++) {
    const int t = tendon(i);
    if (t >= 0 && m->tendon_actfrclimited[t] && m->opt.integrator != mjINT_DISCRETE) {
      const ActuatorPull all = ActuatorPullOf(m, d, t);
      if (all.force <= all.range[0] || all.force >= all.range[1]) NoDamping(i);
    }
    if (!saturated(t)) continue;
    row_scale_[i] = PLANT("tendon force limit", scale(t) * ((share_[i].slope != 0 ? gear(i) : 0) - pull[t] / total[t]));
  }
}

// Σ_k J_kᵀ ∂f_k + ∂J_kᵀ f_k over the outputs
void Actuation::AddServoForce(const mjModel* m, const mjData* d, const ServoSlope& s, Columns* R) const {
  const int nv = static_cast<int>(m->nv), ndx = 2 * nv + static_cast<int>(m->na);
  const int out = m->actuator_outadr[s.actuator], n = s.outputs;
  for (int k = 0; k < n; k++) {
    const Moment& row = *moment_[out + k].moment;
    const double gear = moment_[out + k].scale;
    const Eigen::RowVectorXd slope = row_scale_[s.actuator] * s.force.row(k) + gear * s.friction.row(k);
    for (int l = 0; l < n; l++) {
      const ActuatorMoment& col = moment_[out + l];
      AddSlopes(row, *col.moment, nv, slope[l] * col.scale, slope[n + l] * col.scale, clamped_.data(), R);
    }
    AddTurning(row, d->actuator_force[out + k] * gear, clamped_.data(), R);
    for (int j = 0; j < row.size(); j++) {
      if (clamped_[row.dof[j]]) continue;
      for (int c = 0; c < s.states; c++)
        (*R)(row.dof[j], 2 * nv + m->actuator_actadr[s.actuator] + c) += row.J[j] * slope[2 * n + c];
      for (int c = 0; c < s.inputs; c++) {
        (*R)(row.dof[j], ndx + m->actuator_ctrladr[s.actuator] + c) += row.J[j] * slope[2 * n + s.states + c];
      }
    }
  }
}

void Actuation::AddActivation(const mjModel* m, Columns* next, Columns* rate) const {
  const int nv = static_cast<int>(m->nv), na = static_cast<int>(m->na), ndx = 2 * nv + na;
  const bool off = m->opt.disableflags & mjDSBL_ACTUATION;
  for (int k = 0; k < na && off && next; k++) (*next)(k, 2 * nv + k) += 1;
  if (off) return;
  for (const ActuatorSlope& s : slopes_) {
    if (s.act_index < 0) continue;
    if (next) {
      (*next)(s.act_index, 2 * nv + s.act_index) += PLANT("activation: next", s.next_act);
      (*next)(s.act_index, ndx + s.ctrl_index) += s.next_ctrl;
    }
    if (rate) {
      (*rate)(s.act_index, 2 * nv + s.act_index) += PLANT("activation: rate", s.rate_act);
      (*rate)(s.act_index, ndx + s.ctrl_index) += s.rate_ctrl;
    }
  }
  for (const ServoSlope& s : servos_) {
    const int out = m->actuator_outadr[s.actuator], act = m->actuator_actadr[s.actuator], n = s.outputs;
    const auto add = [&](const Eigen::MatrixXd& slope, Columns* R) {
      for (int k = 0; k < s.states && R; k++) {
        for (int l = 0; l < n; l++) {
          const Moment& moment = *moment_[out + l].moment;
          const double by_length = slope(k, l) * moment_[out + l].scale,
                       by_velocity = slope(k, n + l) * moment_[out + l].scale;
          for (int j = 0; j < moment.size() && (by_length != 0 || by_velocity != 0); j++) {
            (*R)(act + k, moment.dof[j]) += by_length * moment.length[j] + by_velocity * moment.rate[j];
            (*R)(act + k, nv + moment.dof[j]) += by_velocity * moment.J[j];
          }
        }
        for (int c = 0; c < s.states; c++) (*R)(act + k, 2 * nv + act + c) += slope(k, 2 * n + c);
        for (int c = 0; c < s.inputs; c++)
          (*R)(act + k, ndx + m->actuator_ctrladr[s.actuator] + c) += slope(k, 2 * n + s.states + c);
      }
    };
    add(s.next, next);
    add(s.rate, rate);
  }
}

bool Actuation::HasFiniteActivation() const {
  return std::all_of(slopes_.begin(), slopes_.end(),
                     [](const ActuatorSlope& s) { return std::isfinite(s.next_act) && std::isfinite(s.next_ctrl); }) &&
         std::all_of(servos_.begin(), servos_.end(), [](const ServoSlope& s) { return s.next.allFinite(); });
}

void Actuation::Add(const mjModel* m, const mjData* d, Columns* R) const {
  for (const ServoSlope& servo : servos_) AddServoForce(m, d, servo, R);
  const int nv = static_cast<int>(m->nv), ndx = 2 * nv + static_cast<int>(m->na);
  for (int i = 0; i < static_cast<int>(slopes_.size()); i++) {
    if (kind_[i].servo) continue;
    const ActuatorSlope& s = slopes_[i];
    const int out = kind_[i].out;
    const ActuatorMoment& arm = moment_[out];
    const auto input_columns = [&](int row, double J) {
      if (clamped_[row]) return;
      if (s.act_index >= 0) (*R)(row, 2 * nv + s.act_index) += J * s.act;
      if (s.ctrl_index >= 0) (*R)(row, ndx + s.ctrl_index) += J * s.ctrl;
    };
    if (arm.moment) {
      const double scale = row_scale_[i] * arm.scale;
      AddSlopes(*arm.moment, nv, scale * s.length, scale * s.velocity, clamped_.data(), R);
      AddTurning(*arm.moment, PLANT("actuator: turning moment", d->actuator_force[out] * arm.scale), clamped_.data(),
                 R);
      for (int k = 0; k < arm.moment->size(); k++) input_columns(arm.moment->dof[k], row_scale_[i] * arm.moment->J[k]);
      continue;
    }
    const bool moves = (s.length != 0 || s.velocity != 0) && (kind_[i].constant || !FollowsTree(m, i));
    const int begin = d->moment_rowadr[out], end = begin + d->moment_rownnz[out];
    if (end == begin + 1) {
      const int row = d->moment_colind[begin];
      const double J = PLANT("actuator: one column", d->actuator_moment[begin]);
      if (moves && !clamped_[row]) {
        (*R)(row, row) += J * J * s.length;
        (*R)(row, nv + row) += J * J * s.velocity;
      }
      input_columns(row, J);
      continue;
    }
    for (int k = begin; k < end; k++) {
      const int row = d->moment_colind[k];
      if (clamped_[row]) continue;
      const double J = PLANT("actuator: columns", d->actuator_moment[k]);
      if (moves) {
        for (int l = begin; l < end; l++) {
          const int col = d->moment_colind[l];
          (*R)(row, col) += J * s.length * d->actuator_moment[l];
          (*R)(row, nv + col) += J * s.velocity * d->actuator_moment[l];
        }
      }
      input_columns(row, J);
    }
  }
}

}  // namespace costate
