// Switches of controls, activations and actuator forces.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "core/actuator_range.h"
#include "core/driven.h"
#include "derivative/actuation.h"
#include "derivative/certifier.h"
#include "derivative/effective_mass.h"
#include "derivative/equilibrium.h"
#include "derivative/switch_set.h"

namespace costate {
namespace {

// affine gains and biases are p0 + p1 length + p2 velocity; of others but fixed ones a length is taken to be read
bool DependsOnLength(const mjModel* m, int i) {
  const int gain = m->actuator_gaintype[i], bias = m->actuator_biastype[i];
  const bool gains = gain == mjGAIN_AFFINE ? m->actuator_gainprm[mjNGAIN * i + 1] != 0 : gain != mjGAIN_FIXED;
  return gains || (bias == mjBIAS_AFFINE ? m->actuator_biasprm[mjNBIAS * i + 1] != 0 : bias != mjBIAS_NONE);
}

}  // namespace

// a value against the edges of its range
void Certifier::Clamp(const std::string& name, double value, const mjtNum* range, const char* unit) {
  const double edge = std::min(std::abs(value - range[0]), std::abs(range[1] - value));
  const bool clamped = value < range[0] || value > range[1];
  Add(name, clamped ? "clamped" : "inside", "clamp", edge, unit, clamped);
}

// forces without one kind of limits, which d_ has within them; null where the model has none
DataPtr Certifier::Beyond(mjtBool* mjModel::*limits, int n) const {
  if (std::none_of(m_->*limits, m_->*limits + n, [](mjtBool limited) { return limited; })) return nullptr;
  const auto none = std::make_unique<mjtBool[]>(n);
  mjModel model = *m_;
  model.*limits = none.get();
  DataPtr data = MakeData(m_);
  mj_copyData(data.get(), m_, d_);
  mj_fwdActuation(&model, data.get());
  return data;
}

void Certifier::Forces() {
  if (m_->opt.disableflags & mjDSBL_ACTUATION) return;
  DataPtr beyond = Beyond(&mjModel::actuator_forcelimited, m_->nactuator);
  for (int i = 0; i < m_->nactuator; i++) {
    if (!m_->actuator_forcelimited[i]) continue;
    if (m_->actuator_gaintype[i] == mjGAIN_SO3) {
      Torque(i);
      continue;
    }
    for (int k = 0; k < m_->actuator_outnum[i]; k++) {
      Saturation(Name("force", mjOBJ_ACTUATOR, i), LimitedForce(m_, d_, d_->act, i, k),
                 LimitedForce(m_, beyond.get(), d_->act, i, k), m_->actuator_forcerange + 2 * i);
    }
  }
  beyond = Beyond(&mjModel::jnt_actfrclimited, m_->njnt);
  for (int j = 0; j < m_->njnt; j++) {
    if (!m_->jnt_actfrclimited[j]) continue;
    const int dof = m_->jnt_dofadr[j];
    Saturation(Name("actuator force", mjOBJ_JOINT, j), d_->qfrc_actuator[dof], beyond->qfrc_actuator[dof],
               m_->jnt_actfrcrange + 2 * j);
  }
  beyond = Beyond(&mjModel::tendon_actfrclimited, m_->ntendon);
  for (int t = 0; t < m_->ntendon; t++) {
    if (!m_->tendon_actfrclimited[t]) continue;
    const ActuatorPull pull = ActuatorPullOf(m_, d_, t);
    const bool inside = pull.force > pull.range[0] && pull.force < pull.range[1];
    Saturation(Name("actuator force", mjOBJ_TENDON, t), pull.force, ActuatorPullOf(m_, beyond.get(), t).force,
               inside ? m_->tendon_actfrcrange + 2 * t : pull.range);
  }
}

// (K16) limited in norm; whether the matrices of implicit integrators have one that is clamped, rounding decides
void Certifier::Torque(int i) {
  if (IsActuatorDisabled(m_, i) || !ServoMissing(m_, i).empty()) return;
  const ServoSlope servo = MakeServoSlope(m_, d_, i);
  const double limit = m_->actuator_forcerange[2 * i + 1];
  const bool clamped = servo.value > limit;
  const std::string name = Name("torque", mjOBJ_ACTUATOR, i);
  Add(name, clamped ? "clamped" : "inside", "clamp", std::abs(servo.value - limit), "Nm", clamped);
  const bool matrix = HasImplicitVelocity(m_) || IsDiscrete(m_);
  if (clamped && matrix && m_->opt.integrator != mjINT_EULER && m_->actuator_biasprm[mjNBIAS * i + 2] != 0)
    Add(name, "clamped", "its rounding", 0, "Nm", true);
}

// on the edge a force is clamped. @param beyond  what it would be without its limit
void Certifier::Saturation(const std::string& name, double force, double beyond, const mjtNum* range) {
  if (force > range[0] && force < range[1]) return Clamp(name, force, range, "N, Nm");
  Add(name, "clamped", "clamp", force <= range[0] ? range[0] - beyond : beyond - range[1], "N, Nm", true);
}

void Certifier::Inputs() {
  const std::vector<std::string> controls = ControlNames(m_);
  for (int i = 0; i < m_->nu; i++) {
    const mjtNum* range = ControlRange(m_, i);
    if (range == nullptr || m_->actuator_delay[ActuatorOfControl(m_, i)] > 0) continue;  // a delayed one acts later
    Clamp(controls[i], d_->ctrl[i], range, "of ctrl");
    if (out_->switches.back().distance == 0) OneSided(controls[i]);
  }
  for (int i = 0; i < m_->nactuator; i++) {
    if (m_->actuator_dyntype[i] == mjDYN_MUSCLE) Muscle(i, controls);
    for (int k = 0; k < m_->actuator_actnum[i]; k++) {
      // act' against actrange: where the step's clamp is
      const ActivationStep update = ActivationStepOf(m_, i, k);
      if (!update.limited()) continue;
      const int act = m_->actuator_actadr[i] + k;
      const std::string name = Name("activation", mjOBJ_ACTUATOR, i);
      const mjtNum range[] = {update.lower, update.upper};
      Clamp(name, d_->act[act] + update.step * d_->act_dot[act], range, "of act");
      if (out_->switches.back().distance == 0) OneSided(name);
    }
    if (IntegralOf(m_, i).act >= 0 && !IsActuatorDisabled(m_, i)) Integral(i);
  }
}

// (K15) an integral runs up to its limit and is held from there on, until the error turns; on the limit the
// derivative is that of being held
void Certifier::Integral(int i) {
  const IntegralSlot integral = IntegralOf(m_, i);
  const ServoSlope servo = MakeServoSlope(m_, d_, i);
  const std::string name = Name("integral", mjOBJ_ACTUATOR, i);
  const double act = d_->act[integral.act], error = servo.integral_error;
  const double limit = std::copysign(integral.limit, error == 0 ? act : error);
  const double beyond = limit > 0 ? act - limit : limit - act;
  const char* state = servo.held ? "held" : "runs";
  Add(name, state, "limit", std::abs(beyond), "of act", servo.held);
  if (beyond == 0) OneSided(Name("activation", mjOBJ_ACTUATOR, i));
  if (std::abs(act) >= integral.limit) Add(name, state, "error turns", std::abs(error), "of length", servo.held);
}

// (K8) what the discrete integrator's metric has of forces ends where their slopes would push, and has corners where
// those of muscles by length do
void Certifier::MetricGains() {
  const auto moves = [&](int i) { return HasMovingGain(m_, i) && !IsActuatorDisabled(m_, i); };
  std::vector<int> moving;
  for (int i = 0; i < m_->nactuator && !IsActuationOff(m_); i++) {
    if (moves(i)) moving.push_back(i);
  }
  TendonMoments tendons(m_);
  Actuation actuation(m_);
  if (moving.empty() || !actuation.Missing(m_).empty() || !tendons.Compute(m_, d_).empty()) return;
  actuation.Compute(m_, d_, tendons);
  const std::vector<std::string> controls = ControlNames(m_);
  for (int i : moving) {
    const ActuatorSlope& s = actuation.slopes()[i];
    const auto sign = [&](const char* what, double slope, const char* unit) {
      Add(Name(what, mjOBJ_ACTUATOR, i), slope > 0 ? "holds" : "pushes", "sign", std::abs(slope), unit, slope > 0);
      if (slope == 0)
        OneSided(m_->actuator_actnum[i] > 0 ? Name("activation", mjOBJ_ACTUATOR, i)
                                            : controls[m_->actuator_ctrladr[i]]);
    };
    const bool by_length = s.stiffness != 0 || s.stiffness_ctrl != 0 || s.stiffness_act != 0;
    const bool by_velocity = s.damping != 0 || s.damping_ctrl != 0 || s.damping_act != 0;
    if (by_length) sign("stiffness", s.stiffness, "N/m, Nm/rad");
    if (by_velocity) sign("damping", s.damping, "Ns/m, Nms/rad");
    if (const double room = MuscleTurnRoom(m_, d_, i); room < mjMAXVAL)
      Add(Name("length", mjOBJ_ACTUATOR, i), "between pieces", "another piece", room, "of length", true);
  }
}

// (A8) |velocity| in what bends a motor's bristle, where it is bent
void Certifier::Bristles() {
  for (int i = 0; i < m_->nactuator && !IsActuationOff(m_); i++) {
    if (m_->actuator_dyntype[i] != mjDYN_DCMOTOR || IsActuatorDisabled(m_, i)) continue;
    const int slot = SlotsOf(m_, i).bristle;
    if (slot < 0 || d_->act[m_->actuator_actadr[i] + slot] == 0) continue;
    Direction(Name("friction", mjOBJ_ACTUATOR, i), d_->actuator_velocity[m_->actuator_outadr[i]], "m/s, rad/s");
  }
}

// (K20) a rotation is read as a vector of at most half a turn, the shorter way round
void Certifier::Turn(const std::string& name, double angle) {
  Add(name, "turned", "half a turn", mjPI - angle, "rad", false);
}

// (K20) lengths that are part of a rotation, where something depends on them, and errors of setpoints for rotations; a
// crank's rod that ends to reach its slider
void Certifier::Lengths() {
  if (IsActuationOff(m_)) return;
  for (int i = 0; i < m_->nactuator; i++) {
    if (IsActuatorDisabled(m_, i)) continue;
    const std::string name = Name("length", mjOBJ_ACTUATOR, i);
    const int *id = m_->actuator_trnid + 2 * i, type = m_->actuator_trntype[i];
    if (type == mjTRN_SLIDERCRANK) {
      const Eigen::Map<const Eigen::Vector3d> crank(d_->site_xpos + 3 * id[0]), slider(d_->site_xpos + 3 * id[1]);
      const Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>> frame(d_->site_xmat + 9 * id[1]);
      const double beside = (crank - slider).cross(frame.col(2)).norm(), rod = m_->actuator_cranklength[i];
      Add(name, beside < rod ? "within reach" : "out of reach", "reach", std::abs(rod - beside), "m", false);
      continue;
    }
    if (IsServo(m_, i)) {
      if (!ServoMissing(m_, i).empty()) continue;
      const double left = MakeServoSlope(m_, d_, i).half_turn;
      if (left < mjMAXVAL) Turn(Name("error", mjOBJ_ACTUATOR, i), mjPI - left);
      continue;
    }
    if (!DependsOnLength(m_, i)) continue;
    mjtNum turn[3];
    if (ActsOnJoint(m_, i) && m_->jnt_type[id[0]] == mjJNT_BALL) {
      mjtNum quat[4];
      mju_copy4(quat, d_->qpos + m_->jnt_qposadr[id[0]]);
      mju_normalize4(quat);
      mju_quat2Vel(turn, quat, 1);
    } else if (type == mjTRN_SITE && id[1] >= 0 && !mju_isZero(m_->actuator_gear + 6 * m_->actuator_outadr[i] + 3, 3)) {
      mjtNum quat[2][4];
      for (int k = 0; k < 2; k++)
        mju_mulQuat(quat[k], d_->xquat + 4 * m_->site_bodyid[id[k]], m_->site_quat + 4 * id[k]);
      mju_subQuat(turn, quat[0], quat[1]);
    } else {
      continue;
    }
    Turn(name, mju_norm3(turn));
  }
}

// (A3) the range of excitations and of the activation in the time constant, and where that switches
void Certifier::Muscle(int i, const std::vector<std::string>& controls) {
  constexpr mjtNum kRange[] = {0, 1};
  const int u = m_->actuator_ctrladr[i], a = m_->actuator_actadr[i];
  if (m_->actuator_ctrlnum[i] != 1 || m_->actuator_actnum[i] != 1) return;
  const mjtNum* range = ControlRange(m_, u);
  const double ctrl = ClampedControl(m_, d_, i);
  if (m_->actuator_delay[i] == 0 && (range == nullptr || range[0] < 0 || range[1] > 1)) {
    Clamp(controls[u], ctrl, kRange, "of ctrl");
    if (out_->switches.back().distance == 0) OneSided(controls[u]);
  }
  const double excess = std::clamp(ctrl, 0.0, 1.0) - d_->act[a];
  const std::string name = Name("activation", mjOBJ_ACTUATOR, i);
  if (excess != 0) {  // at rest the time constant does not matter
    Clamp(name, d_->act[a], kRange, "of act");
    if (out_->switches.back().distance == 0) OneSided(name);
  }
  if (m_->actuator_dynprm[mjNDYN * i + 2] >= mjMINVAL) return;
  const bool stages = m_->opt.integrator == mjINT_RK4;
  Add(name,
      excess > 0   ? "rises"
      : excess < 0 ? "falls"
                   : "rests",
      "rise or fall", stages ? StagesOfMuscle(m_, i, ctrl, d_->act[a]).excess : std::abs(excess), "of act", false);
  if (excess == 0) OneSided(name);
}

}  // namespace costate
