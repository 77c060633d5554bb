#include "derivative/servo.h"

#include <algorithm>
#include <cmath>

#include "core/actuator_range.h"
#include "core/driven.h"
#include "derivative/actuation.h"
#include "derivative/jet.h"
#include "derivative/munthe_kaas.h"
#include "derivative/spatial.h"

namespace costate {

namespace {

constexpr double kRounding = 1e-14;  // of a force: what adding and subtracting another leaves
constexpr int kMost = 11;            // length, velocity, five states, four inputs

using Dual = Jet<kMost>;  // by the columns of ServoSlope

int Zone(double a, double low, double high) { return a < low ? -1 : a > high ? 1 : 0; }

Dual Clip(const Dual& a, const Dual& low, const Dual& high) { return a.x < low.x ? low : a.x > high.x ? high : a; }

Dual Wrap(const Dual& u, double length, double period) { return u + TurnsTo(u.x, length, period); }

// one output: its variables, and what becomes of them
struct Law {
  const mjModel* m = nullptr;
  int i = 0;
  double h = 0;
  const mjtNum *dyn = nullptr, *gain = nullptr, *bias = nullptr;
  Dual length, velocity, state[5], input[4];  // inputs in canonical order: pos, vel, ff, voltage
  int first = 0;                              // of the inputs that are present
  Dual dot[5], next[5], force, friction;

  // the first input limited in its rate; its effective value is a state
  void Slew(int slot, double rate, double period) {
    const Dual before = state[slot], step = rate * h, wanted = Wrap(input[first], before.x, period);
    slew_zone = Zone(wanted.x, before.x - step.x, before.x + step.x);
    input[first] = Clip(wanted, before - step, before + step);
    dot[slot] = (input[first] - before) / h;
  }
  // integral of the position error, held where it is saturated
  static bool Holds(const Dual& error, const Dual& integral, double limit) {
    return limit > 0 && ((integral.x >= limit && error.x > 0) || (integral.x <= -limit && error.x < 0));
  }
  bool early() const { return m->actuator_actearly[i]; }
  // act_dot of the integral
  void Integrate(int slot, const Dual& error, double limit) {
    integral = slot;
    integral_error = error.x;
    held = Holds(error, state[slot], limit);
    if (!held) dot[slot] = error;
  }
  // act'
  Dual Next(int slot) const {
    const ActivationStep update = ActivationStepOf(m, i, slot);
    const Dual after = state[slot] + update.step * dot[slot];
    const bool moves = update.Moves(after.x, slot == integral && held && update.step > 0);
    return Clip(moves ? after : Dual(after.x), update.lower, update.upper);
  }

  void Pid(int states);
  void Motor(int states);

  int integral = -1;
  double integral_error = 0;
  bool held = false;

  int slew_zone = 0, drive_zone = 0, current_zone = 0, direction = 0;  // sides of corners

  // of a motor, for the implicit integrators: the bristle's decay is left out, and no force limit acts on its damping
  int thermal = -1;
  Dual damping;
  double bristle_damping = 0;
};

// (A7)
void Law::Pid(int states) {
  const double period = SetpointPeriod(m, i);
  int slot = 0;
  if (dyn[1] > 0) Slew(slot++, dyn[1], period);
  if (gain[0] > 0) {
    Dual error = input[0] - length;
    if (period > 0) error = error - period * std::round(error.x / period);
    Integrate(slot, error, dyn[0]);
  }
  for (int k = 0; k < states; k++) next[k] = Next(k);
  force = -bias[1] * Wrap(input[0], length.x, period) - bias[2] * input[1] + input[2];
  if (gain[0] > 0 && states > 0) force = force + gain[0] * (early() ? next[states - 1] : state[states - 1]);
  if (m->actuator_biastype[i] == mjBIAS_AFFINE) force = force + bias[0] + bias[1] * length + bias[2] * velocity;
}

// (A8)
void Law::Motor(int states) {
  const int spec = m->actuator_ctrlspec[i];
  const double K = gain[1], te = dyn[0];
  const MotorSlots slot = SlotsOf(m, i);
  if (slot.slew >= 0) Slew(slot.slew, dyn[7], 0);
  if (slot.integral >= 0) Integrate(slot.integral, input[0] - length, dyn[8]);

  // drive voltage: a torque controller that compensates back-EMF, and the raw input
  Dual voltage = input[3], R = gain[0];
  double drive_slope = 0;
  if (spec & (mjINPUT_POS | mjINPUT_VEL | mjINPUT_FF)) {
    const Dual sum = slot.integral >= 0 ? state[slot.integral] : Dual();
    const Dual torque = gain[4] * (input[0] - length) + gain[6] * (input[1] - velocity) + gain[5] * sum + input[2];
    Dual drive = gain[0] / K * torque + K * velocity;
    drive_slope = gain[7] > 0 && std::abs(drive.x) > gain[7] ? 0 : K - gain[6] * gain[0] / K;
    if (gain[7] > 0) drive_zone = Zone(drive.x, -gain[7], gain[7]);
    if (gain[7] > 0) drive = Clip(drive, -gain[7], gain[7]);
    voltage = voltage + drive;
  }
  thermal = slot.thermal;
  if (thermal >= 0) {
    const Dual T = state[thermal];
    R = R * (1 + gain[2] * (T + (dyn[4] - gain[3])));
    const Dual current = te > 0 ? state[states - 1] : (voltage - K * velocity) / R;
    dot[thermal] = (R * current * current - T / dyn[2]) / dyn[3];
  }
  // the floor for one that its temperature makes negative; the current has none
  const Dual resistance = R.x > mjMINVAL ? R : Dual(mjMINVAL);
  Dual decay;
  const int bristle = slot.bristle;
  if (bristle >= 0) {
    if (state[bristle].x != 0) direction = (velocity.x > 0) - (velocity.x < 0);
    const Dual ratio = velocity / std::max(mjMINVAL, bias[5]);
    const Dual stribeck = bias[3] + (bias[4] - bias[3]) * Exp(-(ratio * ratio));
    decay = -dyn[5] * Abs(velocity) / (stribeck.x > mjMINVAL ? stribeck : Dual(mjMINVAL));
    dot[bristle] = decay * state[bristle] + velocity;
  }
  if (te > 0) {
    dot[states - 1] = (voltage / R - K / R * velocity - state[states - 1]) / te;
    damping = K * (1 - std::exp(-h / te)) * (K - drive_slope) / resistance;
    if (dyn[1] > 0) current_zone = Zone(dot[states - 1].x, -dyn[1], dyn[1]);
    if (current_zone != 0) damping = 0;
    if (dyn[1] > 0) dot[states - 1] = Clip(dot[states - 1], -dyn[1], dyn[1]);
  }

  for (int k = 0; k < states; k++) {
    if (k == bristle) {
      const Dual grown = Exp(decay * h);
      const Dual hold = std::abs(decay.x) > mjMINVAL ? (grown - 1) / decay : Dual(h) + 0.5 * h * h * decay;
      next[k] = grown * state[k] + hold * velocity;
    } else {
      next[k] = Next(k);
    }
  }

  if (te > 0) force = K * (early() ? next[states - 1] : state[states - 1]);
  else force = K / resistance * (voltage - K * velocity);
  if (te <= 0) damping = K * (K - drive_slope) / resistance;
  if (bristle >= 0) bristle_damping = dyn[6];
  if (bias[0] != 0) {
    const Dual angle = bias[1] * length + bias[2];
    friction = Apply(bias[0] * std::sin(angle.x), bias[0] * std::cos(angle.x), angle);
  }
  if (bristle >= 0) friction = friction - dyn[5] * state[bristle] - dyn[6] * dot[bristle];
}

void ExpMap(const Vec3& u, mjtNum quat[4]) {
  Vec3 axis = u;
  const double angle = mju_normalize3(axis.data());
  if (u.norm() < mjMINVAL) mju_unit4(quat);
  else mju_axisAngle2Quat(quat, axis.data(), angle);
}

// (A9) torque kp log(q_curᵀ q_target) in the frame of the transmission, where rotations are J dq
void Orientation(const mjModel* m, const mjData* d, const double* ctrl, const double* inside, bool disabled,
                 ServoSlope* s) {
  using RowMat3 = Eigen::Matrix<double, 3, 3, Eigen::RowMajor>;
  const int i = s->actuator, out = m->actuator_outadr[i], states = s->states;
  const double h = m->opt.timestep;
  const mjtNum *gain = m->actuator_gainprm + mjNGAIN * i, *bias = m->actuator_biasprm + mjNBIAS * i;
  const bool stateful = m->actuator_dyntype[i] != mjDYN_NONE;

  // act' = clip(act + h ctrl), brought back to a turn of at most π
  Vec3 after = Vec3::Zero();
  for (int k = 0; k < states; k++) {
    s->rate(k, 6 + states + k) = inside[k];
    after[k] = d->act[m->actuator_actadr[i] + k] + (disabled ? 0 : h * ctrl[k]);
    const mjtNum* range = m->actuator_actrange + 2 * i;
    const bool free = !m->actuator_actlimited[i] || (after[k] >= range[0] && after[k] <= range[1]);
    if (!free) after[k] = std::clamp(after[k], range[0], range[1]);
    s->next(k, 6 + k) = free;
    s->next(k, 6 + states + k) = free && !disabled ? h * inside[k] : 0;
  }
  const Eigen::MatrixXd early = s->next;
  const double angle = after.norm();
  if (states == 3 && angle > mjPI) {
    const double turns = 2 * mjPI * std::round(angle / (2 * mjPI));
    const Mat3 back =
        (1 - turns / angle) * Mat3::Identity() + turns / (angle * angle * angle) * after * after.transpose();
    s->next = (back * s->next).eval();
  }
  if (disabled) return;

  // target and its local rotation by the inputs
  mjtNum target[4], current[4];
  Eigen::MatrixXd turn = Eigen::MatrixXd::Zero(3, s->force.cols());
  if (m->actuator_ctrlspec[i] == mjCHART_QUAT) {
    mju_copy4(target, ctrl);
    const double norm = mju_normalize4(target);
    for (int k = 0; k < 4 && norm > mjMINVAL; k++) {
      mjtNum unit[4] = {0, 0, 0, 0}, conjugate[4], local[4];
      unit[k] = 1;
      mju_negQuat(conjugate, target);
      mju_mulQuat(local, conjugate, unit);
      turn.col(6 + states + k) = 2 * inside[k] / norm * Vec3(local[1], local[2], local[3]);
    }
  } else {
    Vec3 u = stateful ? Vec3(Vec3Map(d->act + m->actuator_actadr[i])) : Vec3(Vec3Map(ctrl));
    if (stateful && m->actuator_actearly[i]) u = after;
    ExpMap(u, target);
    const RightJacobian jacobian(u);
    Mat3 J;
    for (int k = 0; k < 3; k++) J.col(k) = jacobian.Apply(u, Vec3::Unit(k));
    if (!stateful) {
      for (int k = 0; k < 3; k++) turn.col(6 + k) = J.col(k) * inside[k];
    } else if (m->actuator_actearly[i]) {
      turn = J * early;
    } else {
      turn.middleCols<3>(6) = J;
    }
  }
  ExpMap(Vec3Map(d->actuator_length + out), current);
  RowMat3 by_target, by_current;
  Vec3 error;
  mju_subQuat(error.data(), target, current);
  mjd_subQuat(target, current, by_target.data(), by_current.data());
  s->half_turn = mjPI - error.norm();
  const Vec3 torque = gain[0] * error + Vec3::Constant(bias[0]) + bias[2] * Vec3Map(d->actuator_velocity + out);
  s->force = gain[0] * (by_target * turn);
  s->force.leftCols<3>() += gain[0] * by_current;
  s->force.middleCols<3>(3) += bias[2] * Mat3::Identity();

  // clamped in norm
  s->value = torque.norm();
  const double norm = s->value, limit = m->actuator_forcerange[2 * i + 1];
  const bool limited = m->actuator_forcelimited[i];
  s->damping = limited && mju_norm3(d->actuator_force + out) >= limit ? 0 : -bias[2];
  if (!limited || norm <= limit) return;
  s->force = (limit / norm * (Mat3::Identity() - torque * torque.transpose() / (norm * norm)) * s->force).eval();
}

// what it is at, with its variables as they are numbered in ServoSlope
Law LawOf(const mjModel* m, const mjData* d, const mjtNum* act, int i, const double* ctrl, const double* inside) {
  const int out = m->actuator_outadr[i], states = m->actuator_actnum[i], inputs = m->actuator_ctrlnum[i];
  Law law;
  law.m = m;
  law.i = i;
  law.h = m->opt.timestep;
  law.dyn = m->actuator_dynprm + mjNDYN * i;
  law.gain = m->actuator_gainprm + mjNGAIN * i;
  law.bias = m->actuator_biasprm + mjNBIAS * i;
  law.length = Dual(d->actuator_length[out], 0);
  law.velocity = Dual(d->actuator_velocity[out], 1);
  for (int k = 0; k < states; k++) law.state[k] = Dual(act[m->actuator_actadr[i] + k], 2 + k);
  int at = 0;
  const int bits[4] = {mjINPUT_POS, mjINPUT_VEL, mjINPUT_FF, mjINPUT_VOLTAGE};
  for (int k = 0; k < 4; k++) {
    if (!(m->actuator_ctrlspec[i] & bits[k]) || at >= inputs) continue;
    if (at == 0) law.first = k;
    law.input[k] = Dual(ctrl[at], 2 + states + at, inside[at]);
    at++;
  }
  return law;
}

// controls within their ranges, and are they inside?
void Inputs(const mjModel* m, const mjData* d, int i, double* ctrl, double* inside) {
  for (int k = 0; k < m->actuator_ctrlnum[i]; k++) {
    const int u = m->actuator_ctrladr[i] + k;
    const mjtNum* range = ControlRange(m, u);
    const double given = GivenControl(m, d, i, k);
    ctrl[k] = ClampedControl(m, d, i, k);
    inside[k] = range == nullptr || (given >= range[0] && given <= range[1]);
  }
}

}  // namespace

double SetpointPeriod(const mjModel* m, int i) {
  const mjtNum* gear = m->actuator_gear + 6 * m->actuator_outadr[i];
  if (m->actuator_trntype[i] == mjTRN_SITE && m->actuator_trnid[2 * i + 1] >= 0 && mju_isZero(gear, 3))
    return 2 * mjPI * mju_norm3(gear + 3);
  return ActsOnJoint(m, i) && m->jnt_type[m->actuator_trnid[2 * i]] == mjJNT_BALL ? 2 * mjPI * mju_norm3(gear) : 0;
}

double TurnsTo(double setpoint, double length, double period) {
  return period > 0 ? -period * std::round((setpoint - length) / period) : 0;
}

bool IsServo(const mjModel* m, int i) {
  const int type = m->actuator_gaintype[i];
  return type == mjGAIN_PID || type == mjGAIN_DCMOTOR || type == mjGAIN_SO3;
}

MotorSlots SlotsOf(const mjModel* m, int i) {
  const mjtNum *prm = m->actuator_dynprm + mjNDYN * i, *gain = m->actuator_gainprm + mjNGAIN * i;
  MotorSlots slots;
  const auto next = [&](bool present) { return present ? slots.count++ : -1; };
  slots.slew = next(prm[7] > 0);
  slots.integral = next(gain[5] > 0);
  slots.thermal = next(prm[2] > 0);
  slots.bristle = next(prm[5] > 0);
  slots.current = next(prm[0] > 0);
  return slots;
}

IntegralSlot IntegralOf(const mjModel* m, int i) {
  const mjtNum *prm = m->actuator_dynprm + mjNDYN * i, *gain = m->actuator_gainprm + mjNGAIN * i;
  const int adr = m->actuator_actadr[i];
  IntegralSlot integral;
  if (!IsServo(m, i) || !ServoMissing(m, i).empty()) return integral;
  if (m->actuator_dyntype[i] == mjDYN_PID && gain[0] > 0 && prm[0] > 0) integral = {adr + (prm[1] > 0), prm[0]};
  const int slot = m->actuator_dyntype[i] == mjDYN_DCMOTOR ? SlotsOf(m, i).integral : -1;
  if (slot >= 0 && prm[8] > 0) integral = {adr + slot, prm[8]};
  return integral;
}

std::string ServoMissing(const mjModel* m, int i) {
  const int gain = m->actuator_gaintype[i], states = m->actuator_actnum[i], inputs = m->actuator_ctrlnum[i];
  const int dyn = m->actuator_dyntype[i], spec = m->actuator_ctrlspec[i];
  if (gain == mjGAIN_SO3) {
    const bool known =
        m->actuator_outnum[i] == 3 && (dyn == mjDYN_NONE ? states == 0 : dyn == mjDYN_INTEGRATOR && states == 3);
    return known && (inputs == 3 || inputs == 4) ? "" : "so3 dynamics";
  }
  const mjtNum *prm = m->actuator_dynprm + mjNDYN * i, *g = m->actuator_gainprm + mjNGAIN * i;
  if (m->actuator_outnum[i] != 1 || states > 5 || inputs > 4) return "several outputs";
  if (gain == mjGAIN_PID) {
    if (dyn != mjDYN_NONE && dyn != mjDYN_PID) return "activation dynamics";
    if ((inputs == 0 && states > 0) || (g[0] > 0 && !(spec & mjINPUT_POS))) return "controller state without its input";
    return states == (dyn == mjDYN_PID ? (prm[1] > 0) + (g[0] > 0) : 0) ? "" : "activation states";
  }
  if (dyn != mjDYN_NONE && dyn != mjDYN_DCMOTOR) return "activation dynamics";
  if ((inputs == 0 && prm[7] > 0) || (g[5] > 0 && !(spec & mjINPUT_POS))) return "controller state without its input";
  if (states != SlotsOf(m, i).count) return "activation states";
  const bool tendon = m->actuator_trntype[i] == mjTRN_TENDON && m->tendon_actfrclimited[m->actuator_trnid[2 * i]];
  return tendon ? "motor beside a tendon's force limit" : "";
}

ServoSlope MakeServoSlope(const mjModel* m, const mjData* d, int i) {
  const bool disabled = IsActuatorDisabled(m, i);
  double ctrl[4] = {0}, inside[4] = {0};
  Inputs(m, d, i, ctrl, inside);
  ServoSlope s;
  s.actuator = i;
  s.outputs = m->actuator_outnum[i];
  s.states = m->actuator_actnum[i];
  s.inputs = m->actuator_ctrlnum[i];
  const int columns = 2 * s.outputs + s.states + s.inputs;
  s.force.setZero(s.outputs, columns);
  s.friction.setZero(s.outputs, columns);
  s.next.setZero(s.states, columns);
  s.rate.setZero(s.states, columns);
  if (m->actuator_gaintype[i] == mjGAIN_SO3) {
    Orientation(m, d, ctrl, inside, disabled, &s);
    return s;
  }

  Law law = LawOf(m, d, d->act, i, ctrl, inside);
  const bool pid = m->actuator_gaintype[i] == mjGAIN_PID;
  if (pid) law.Pid(s.states);
  else law.Motor(s.states);
  for (int k = 0; k < s.states; k++) {
    s.next.row(k) = law.next[k].d.head(columns).transpose();
    s.rate.row(k) = law.dot[k].d.head(columns).transpose();
  }
  s.integral_error = law.integral_error;
  s.held = law.held;
  if (const double period = pid ? SetpointPeriod(m, i) : 0; period > 0) {
    const double error = std::remainder(law.input[0].x - law.length.x, period);
    s.half_turn = mjPI - 2 * mjPI / period * std::abs(error);
  }
  if (disabled) return s;
  s.value = law.force.x;
  s.force = law.force.d.head(columns).transpose();
  s.friction = law.friction.d.head(columns).transpose();
  s.damping = law.bristle_damping;
  if (IsAtLimit(s.value, ForceRange(m, i))) return s;
  s.damping += pid ? -law.bias[2] : law.damping.x;
  if (law.thermal >= 0) {
    s.damping_state = m->actuator_actadr[i] + law.thermal;
    s.damping_slope = law.damping.d[2 + law.thermal];
  }
  return s;
}

double LimitedForce(const mjModel* m, const mjData* d, const mjtNum* act, int i, int output) {
  const double force = d->actuator_force[m->actuator_outadr[i] + output];
  if (m->actuator_gaintype[i] != mjGAIN_DCMOTOR || IsActuationOff(m) || IsActuatorDisabled(m, i)) return force;
  const bool friction = m->actuator_biasprm[mjNBIAS * i] != 0 || SlotsOf(m, i).bristle >= 0;
  if (!friction || !ServoMissing(m, i).empty()) return force;
  const double no_control[4] = {0};
  Law law = LawOf(m, d, act, i, no_control, no_control);
  law.Motor(m->actuator_actnum[i]);
  const double limited = force - law.friction.x;
  for (int side = 0; side < 2 && m->actuator_forcelimited[i]; side++) {
    const double limit = m->actuator_forcerange[2 * i + side];
    if (std::abs(limited - limit) <= kRounding * (std::abs(force) + std::abs(limit))) return limit;
  }
  return limited;
}

int AppendServoZones(const mjModel* m, const mjData* d, const mjtNum* act, int i, std::vector<signed char>* zones) {
  const int gain = m->actuator_gaintype[i];
  if (gain != mjGAIN_PID && gain != mjGAIN_DCMOTOR) return 0;
  if (IsActuationOff(m) || IsActuatorDisabled(m, i) || !ServoMissing(m, i).empty()) return 0;
  double ctrl[4] = {0}, inside[4] = {0};
  Inputs(m, d, i, ctrl, inside);
  Law law = LawOf(m, d, act, i, ctrl, inside);
  if (gain == mjGAIN_PID) law.Pid(m->actuator_actnum[i]);
  else law.Motor(m->actuator_actnum[i]);
  if (m->actuator_delay[i] == 0) {  // else other controls act
    for (const int zone : {law.slew_zone, law.drive_zone, law.current_zone})
      zones->push_back(static_cast<signed char>(zone));
  }
  return law.direction;
}

void ActivationSides(const mjModel* m, const mjData* d, std::vector<ActivationSide>* out) {
  out->assign(m->na, {{-mjMAXVAL, mjMAXVAL}, false});
  if (IsActuationOff(m)) return;
  for (int i = 0; i < m->nactuator; i++) {
    const IntegralSlot integral = IntegralOf(m, i);
    if (integral.act < 0 || IsActuatorDisabled(m, i)) continue;
    const double act = d->act[integral.act], limit = integral.limit;
    ActivationSide& side = (*out)[integral.act];
    if (std::abs(act) <= limit) side.range[0] = -limit, side.range[1] = limit;
    if (std::abs(act) < limit || !MakeServoSlope(m, d, i).held) continue;
    side.held = true;
    side.range[0] = act > 0 ? limit : -mjMAXVAL;
    side.range[1] = act > 0 ? mjMAXVAL : -limit;
  }
}

}  // namespace costate
