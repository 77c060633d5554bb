#include "derivative/residual_difference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "core/plugins.h"
#include "derivative/adhesion.h"
#include "derivative/armature.h"
#include "derivative/effective_mass.h"
#include "derivative/equilibrium.h"
#include "derivative/extrapolate.h"
#include "derivative/noslip.h"
#include "derivative/sensor.h"

namespace costate {

namespace {

// nudges, each half the one before: as many as make the extrapolation sure, of `least` to `most`, and up to `last`
// while fewer than that have the active set of the point
struct Ladder {
  double first;
  int least, most, last;
};
constexpr Ladder kSoft = {4e-3, 3, 10, 20};  // of max(1, |value|)
constexpr Ladder kStiff = {8e-6, 3, 7, 13};  // of positions that contacts feel: the impedance bends within a millimetre
constexpr Ladder kStiffInput = {1e-3, 3, 8, 18};  // of what moves y alone: cones bend
constexpr Ladder kSensed = {3.2e-5, 3, 6, 13};    // of positions that sensors of forces feel
constexpr Ladder kBends = {3.2e-5, 3, 6, 13};     // of kinematics that may turn a corner
constexpr int kRoundingSamples = 4;
constexpr double kRoundingNudge = 1e-11;  // squared, times the curvature of the stiffest contact, it is below rounding
constexpr int kOneSided = 4;              // least sizes to one side: an order more would be lost
constexpr double kSure = 1e-10;           // of the largest entry, or …
constexpr double kRounding = 16;          // … roundings of the first quotient: smaller nudges do not help
constexpr double kStays = 30;  // of what is sure: an error so small that one nudge more leaves as it was is rounding

constexpr double kSlideStep = 0.1;    // inertial forces are quadratic in slides and velocities: any will do
constexpr double kSmoothStep = 3e-6;  // five points, of kinematics: rounding is below 1e-10
constexpr double kSmoothBend =
    1e-8;  // what their two quotients may differ by, of the column: beyond it kBends are taken

constexpr double kMagnify = 1 << 30;  // v' − v is linear in a: magnified, it does not drown in the rounding of v

// is a limited value inside its range, and how far may it move
struct Room {
  bool down = true, up = true;
};
Room RoomIn(bool limited, const mjtNum* range, double value, double reach) {
  if (!limited || value < range[0] || value > range[1]) return {};
  return {value - reach >= range[0], value + reach <= range[1]};
}
Room Both(Room x, Room y) { return {x.down && y.down, x.up && y.up}; }

// (f₋₂ − 8 f₋₁ + 8 f₁ − f₂) / 12h
void FivePoints(const VectorXd* f, double h, Eigen::Ref<VectorXd> out) {
  out = (8 * (f[1] - f[-1]) - (f[2] - f[-2])) / (12 * h);
}

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

// (A3) a muscle's control or activation: within [0, 1], and on the point's side of where the two are equal
Room MuscleRoom(const mjModel* m, const mjData* d, int actuator, bool moves_ctrl, double reach) {
  if (m->actuator_dyntype[actuator] != mjDYN_MUSCLE) return {};
  constexpr mjtNum kUnit[] = {0, 1};
  const double act = d->act[m->actuator_actadr[actuator]];
  const int control = m->actuator_ctrladr[actuator];
  double ctrl = d->ctrl[control];
  if (m->actuator_ctrllimited[control] && !(m->opt.disableflags & mjDSBL_CLAMPCTRL)) {
    ctrl = mju_clip(ctrl, m->actuator_ctrlrange[2 * control], m->actuator_ctrlrange[2 * control + 1]);
  }
  const Room clip = RoomIn(true, kUnit, moves_ctrl ? ctrl : act, reach);
  const double excess = mju_clip(ctrl, 0, 1) - act;
  if (m->actuator_dynprm[mjNDYN * actuator + 2] >= mjMINVAL || excess == 0 || std::abs(excess) > reach) return clip;
  return Both(clip, {moves_ctrl == (excess < 0), moves_ctrl == (excess > 0)});
}

// how far a column of (q, v, w, u) may move on the point's side of its clamps
Room RoomOf(const mjModel* m, const mjData* d, const Dims& dims, int column, double reach) {
  if (column >= dims.ndx) {
    const int u = column - dims.ndx;
    const bool clamp = m->actuator_ctrllimited[u] && !(m->opt.disableflags & mjDSBL_CLAMPCTRL);
    return Both(RoomIn(clamp, m->actuator_ctrlrange + 2 * u, d->ctrl[u], reach),
                MuscleRoom(m, d, ActuatorOfControl(m, u), true, reach));
  }
  const int act = column - 2 * dims.nv, i = act >= 0 ? ActuatorOfAct(m, act) : -1;
  if (i < 0) return {};
  return Both(RoomIn(m->actuator_actlimited[i], m->actuator_actrange + 2 * i, d->act[act], reach),
              MuscleRoom(m, d, i, false, reach));
}

// is an activation after the step, clamped, the input of a force
bool HasLimitedInput(const mjModel* m) {
  for (int i = 0; i < m->nactuator; i++) {
    if (m->actuator_actearly[i] && m->actuator_actlimited[i]) return true;
  }
  return false;
}

// do passive and actuator forces feel contacts, or what else is as stiff
bool HasStiffForces(const mjModel* m) {
  return m->nflex > 0 || m->flg_adhesion || mjcb_passive || HasPlugins(m, mjPLUGIN_PASSIVE) ||
         std::any_of(m->actuator_trntype, m->actuator_trntype + m->nactuator,
                     [](int type) { return type == mjTRN_BODY; });
}

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
    : dims_(model), probe_(MakeData(model)), unlimited_(model->nactuator + 1, 0) {}

ResidualDifference::Stage ResidualDifference::StageOf(int column) const {
  if (column < dims_.nv) return kPosition;
  return column < 2 * dims_.nv ? kVelocity : kActuation;
}

// the probe's state, control and context become those of the point
void ResidualDifference::Restore(const mjModel* m) { mj_setState(m, probe_.get(), state_.data(), mjSTATE_INTEGRATION); }

void ResidualDifference::Move(const mjModel* m, int column, double offset) {
  Restore(m);
  mjData* p = probe_.get();
  if (offset == 0) return;
  if (column < dims_.nv) {
    direction_.setZero(dims_.nv);
    direction_[column] = 1;
    mj_integratePos(m, p->qpos, direction_.data(), offset);
  } else if (column < 2 * dims_.nv) {
    p->qvel[column - dims_.nv] += offset;
  } else if (column < dims_.ndx) {
    p->act[column - 2 * dims_.nv] += offset;
  } else {
    p->ctrl[column - dims_.ndx] += offset;
  }
}

// qfrc_constraint and efc_force of the probe at acceleration a, on the captured active set
bool ResidualDifference::ConstraintForce(const mjModel* m, const VectorXd& a) {
  mjData* p = probe_.get();
  if (!active_.Match(p)) return false;
  mju_zero(p->qfrc_constraint, m->nv);
  if (p->nefc == 0) return true;
  y_.resize(p->nefc);
  mj_mulJacVec(m, p, y_.data(), a.data());
  for (int i = 0; i < p->nefc; i++) y_[i] -= p->efc_aref[i];
  active_.Force(p, y_.data(), p->efc_force, terms_.rows);
  mj_mulJacTVec(m, p, p->qfrc_constraint, p->efc_force);
  return true;
}

// the same for sensors: behind the noslip pass, forces are not those of a
bool ResidualDifference::SensedForce(const mjModel* m, const VectorXd& a) {
  if (!forces_) return ConstraintForce(m, a);
  VectorXd minimum = *forces_->a;
  if (column_ >= 0) minimum += offset_ * forces_->da->col(column_);
  if (!ConstraintForce(m, minimum)) return false;
  const NoslipPass& pass = *forces_->pass;
  mjData* p = probe_.get();
  for (int i = 0; i < p->nefc; i++) {
    const int captured = active_.captured(i), row = captured < 0 ? -1 : pass.rows().find(captured);
    if (row < 0 || row >= pass.rows().moving()) continue;
    p->efc_force[i] += pass.delta()[row];
    if (column_ >= 0) p->efc_force[i] += offset_ * pass.delta_slopes()(row, column_);
  }
  mj_mulJacTVec(m, p, p->qfrc_constraint, p->efc_force);
  return true;
}

// the engine's integrator at acceleration a, positions aside: the probe's qvel and act become those after the step
void ResidualDifference::Integrate(const mjModel* m, const VectorXd& a) {
  mjData* p = probe_.get();
  mju_copy(p->qacc, a.data(), m->nv);
  mj_mulM(m, p, p->qfrc_smooth, a.data());
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

// remembers the contacts that differences would not see through, and how they move
void ResidualDifference::CaptureJumping(const mjModel* m, const mjData* d) {
  const auto curved = [m](const mjContact& contact) { return IsCurved(m, contact); };
  if (IsDiscrete(m) || std::none_of(d->contact, d->contact + d->ncon, curved)) return;
  if (!geometry_) geometry_ = std::make_unique<ContactGeometry>(m);
  mjData* p = probe_.get();
  Restore(m);
  mj_fwdPosition(m, p);
  if (p->nefc != d->nefc) return;
  std::copy(d->efc_state, d->efc_state + d->nefc, p->efc_state);
  if (!geometry_->ComputeJumping(m, p)) return;
  for (int c = 0; c < p->ncon; c++) {
    if (!geometry_->has_motion(c)) continue;
    JumpingContact jumping;
    jumping.contact = p->contact[c];
    jumping.motion = geometry_->motion(c);
    if (!MoveBelt(m, p, jumping.contact, jumping.motion, &jumping.belt)) continue;
    for (int side = 0; side < 2; side++) {
      const int geom = jumping.contact.geom[side];
      mju_copy3(jumping.xpos[side], p->geom_xpos + 3 * geom);
      mju_copy(jumping.xmat[side], p->geom_xmat + 9 * geom, 9);
    }
    jumping_.push_back(jumping);
  }
}

bool ResidualDifference::JumpingContact::Moved(const mjData* p) const {
  for (int side = 0; side < 2; side++) {
    const int geom = contact.geom[side];
    if (!std::equal(xpos[side], xpos[side] + 3, p->geom_xpos + 3 * geom)) return true;
    if (!std::equal(xmat[side], xmat[side] + 9, p->geom_xmat + 9 * geom)) return true;
  }
  return false;
}

// (10) the probe's contacts that are such go where their motion takes them; what the engine does not find is missing
void ResidualDifference::PlaceJumping() {
  mjData* p = probe_.get();
  std::vector<char> placed(p->ncon, 0);
  for (const JumpingContact& s : jumping_) {
    const Vec3 point = Vec3Map(s.contact.pos);
    int nearest = -1;
    for (int c = 0; c < p->ncon; c++) {
      const mjContact& found = p->contact[c];
      if (placed[c] || found.geom[0] != s.contact.geom[0] || found.geom[1] != s.contact.geom[1]) continue;
      const auto distance = [&](int k) { return (Vec3Map(p->contact[k].pos) - point).squaredNorm(); };
      if (nearest < 0 || distance(c) < distance(nearest)) nearest = c;
    }
    if (nearest < 0) continue;
    placed[nearest] = 1;
    if (!s.Moved(p)) continue;  // of a model with other shapes, maybe
    Eigen::Matrix<double, 7, 1> change = Eigen::Matrix<double, 7, 1>::Zero();
    Vec3 belt = Vec3::Zero();
    for (int side = 0; side < 2; side++) {
      const int geom = s.contact.geom[side];
      using Rotation = Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>;
      const Mat3 turn = Rotation(p->geom_xmat + 9 * geom) * Rotation(s.xmat[side]).transpose();
      Vec6 twist;
      twist << turn(2, 1) - turn(1, 2), turn(0, 2) - turn(2, 0), turn(1, 0) - turn(0, 1), 0, 0, 0;
      twist /= 2;
      twist.tail<3>() = Vec3Map(p->geom_xpos + 3 * geom) + turn * (point - Vec3Map(s.xpos[side])) - point;
      change += (side ? s.motion.by_geom2 : s.motion.by_geom1()) * twist;
      belt += (side ? s.belt.by_geom2 : s.belt.by_both - s.belt.by_geom2) * twist;
    }
    mjContact& contact = p->contact[nearest];
    contact.dim = s.contact.dim;
    contact.exclude = s.contact.exclude;
    contact.dist = s.contact.dist + change[0];
    Eigen::Map<Vec3>(contact.pos) = point + change.segment<3>(1);
    Eigen::Map<Vec3>(contact.surfacevel) = Vec3Map(s.contact.surfacevel) + belt;
    mju_copy(contact.frame, s.contact.frame, 9);
    const Vec3 w = change.tail<3>();
    if (w.isZero(0)) continue;
    const Mat3 turn = Eigen::AngleAxisd(w.norm(), w.normalized()).toRotationMatrix();
    for (int axis = 0; axis < 3; axis++)
      Eigen::Map<Vec3>(contact.frame + 3 * axis) = turn * Vec3Map(s.contact.frame + 3 * axis);
  }
}

void ResidualDifference::ForwardPosition(const mjModel* m) {
  mjData* p = probe_.get();
  if (jumping_.empty()) {
    mj_fwdPosition(m, p);
    return;
  }
  p->flg_energypos = 0;
  mj_fwdKinematics(m, p);
  mj_makeM(m, p);
  mj_factorM(m, p);
  mj_collision(m, p);
  PlaceJumping();
  mj_makeConstraint(m, p);
  mj_island(m, p);
  mj_projectConstraint(m, p);
  mj_transmission(m, p);
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
  for (int b = 1; b < m->nbody; b++) {
    const mjtNum* load = p->xfrc_applied + 6 * b;
    if (!mju_isZero(load, 6)) mj_applyFT(m, p, load, load + 3, p->xipos + 3 * b, b, force_.data());
  }
  *value -= force_;
}

// (9) its columns, nv × 2 nv
void ResidualDifference::Inertia(const mjModel* m, const VectorXd& a, Eigen::Ref<MatrixXd> out) {
  const int nv = dims_.nv;
  const auto quotient = [&](int column, double h) {
    for (const int side : {-1, 1}) {
      Move(m, column, side * h);
      EvaluateInertia(m, StageOf(column), a, &values_[side + 4]);
    }
    return (values_[5] - values_[3]).eval();
  };
  for (int j = 0; j < nv; j++) {
    const int type = m->jnt_type[m->dof_jntid[j]], dof = j - m->jnt_dofadr[m->dof_jntid[j]];
    if (type == mjJNT_SLIDE || (type == mjJNT_FREE && dof < 3)) {
      out.col(j) = quotient(j, kSlideStep) / (2 * kSlideStep);
    } else {
      const VectorXd fifth = quotient(j, 2 * mjPI / 5);
      out.col(j) = fifth / (2 * std::sin(mjPI / 5)) - quotient(j, 4 * mjPI / 5) / (2 * std::sin(2 * mjPI / 5));
    }
  }
  Restore(m);
  EvaluateInertia(m, kPosition, a, &values_[4]);
  for (int j = nv; j < 2 * nv; j++) {
    Restore(m);
    const double h = std::max(1.0, std::abs(probe_->qvel[j - nv]));
    out.col(j) = quotient(j, h) / (2 * h);
  }
}

// value = (r, ā, act', act_dot) at the probe's state and fixed a, as far as terms_ asks for them
bool ResidualDifference::EvaluateDirect(const mjModel* m, Stage stage, const VectorXd& a, VectorXd* value) {
  mjData* p = probe_.get();
  const int nv = dims_.nv, na = dims_.na;
  if (stage <= kPosition) PositionStage(m);
  if (stage <= kVelocity) mj_fwdVelocity(m, p);
  if (terms_.actuation || terms_.integrator || terms_.metric) mj_fwdActuation(m, p);
  discrete_.resize(nv);
  if (IsDiscrete(m) && (terms_.constraint || terms_.metric)) DiscreteForce(m, p, a.data(), discrete_.data());

  // r = M a + bias − applied − passive − actuation − Jᵀ f
  value->setZero(2 * nv + 2 * na);
  double* r = value->data();
  if (terms_.inertia) {
    mj_mulM(m, p, r, a.data());
    force_ = Eigen::Map<const VectorXd>(p->qfrc_applied, nv);
    for (int b = 1; b < m->nbody; b++) {
      const mjtNum* load = p->xfrc_applied + 6 * b;
      if (!mju_isZero(load, 6)) mj_applyFT(m, p, load, load + 3, p->xipos + 3 * b, b, force_.data());
    }
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

  // ā = (v' − v) / h; where it is a itself, the integrator has only act' to say
  const bool implicit = HasImplicitVelocity(m);
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

ResidualDifference::SensorNeeds ResidualDifference::Needs(const mjModel* m, const int* stages, int begin, int end) {
  SensorNeeds needs;
  for (int i = begin; i < end; i++) {
    const int type = m->sensor_type[i];
    if (stages[i] == mjSTAGE_NONE) continue;
    needs.velocity = needs.velocity || stages[i] >= mjSTAGE_VEL;
    needs.acceleration = needs.acceleration || stages[i] >= mjSTAGE_ACC;
    switch (type) {
      case mjSENS_TOUCH:
      case mjSENS_FORCE:
      case mjSENS_TORQUE:
      case mjSENS_CONTACT:
      case mjSENS_TACTILE:
      case mjSENS_PLUGIN:
      case mjSENS_USER: needs.constraint = true; break;
      case mjSENS_E_KINETIC: needs.constraint = needs.velocity = needs.kinetic = true; break;  // of the position stage
      case mjSENS_ACTUATORPOS:
      case mjSENS_ACTUATORVEL:
      case mjSENS_JOINTACTFRC:
        needs.constraint = needs.constraint || HasAdhesiveActuator(m);
        break;  // its arm is made of contacts
      default: needs.constraint = needs.constraint || (type >= mjSENS_JOINTLIMITPOS && type <= mjSENS_TENDONLIMITFRC);
    }
  }
  return needs;
}

// value = sensordata at the probe's state and acceleration a, evaluated as far as the sensors read
bool ResidualDifference::EvaluateSensors(const mjModel* m, Stage stage, const VectorXd& a, VectorXd* value) {
  mjData* p = probe_.get();
  if (stage <= kPosition) {
    if (needs_.constraint) {
      ForwardPosition(m);
    } else {
      p->flg_energypos = 0;
      mj_fwdKinematics(m, p);
      mj_transmission(m, p);
    }
    mj_sensorPos(m, p);
  }
  if (stage <= kVelocity && needs_.velocity) {
    if (needs_.kinetic) {
      p->flg_energyvel = 0;
      mj_sensorPos(m, p);
    }
    mj_fwdVelocity(m, p);
    mj_sensorVel(m, p);
  }
  if (needs_.acceleration) {
    mj_fwdActuation(m, p);
    mju_copy(p->qacc, a.data(), dims_.nv);
    if (needs_.constraint && IsDiscrete(m)) {
      discrete_.resize(dims_.nv);
      DiscreteForce(m, p, a.data(), discrete_.data());
    }
    if (needs_.constraint && !SensedForce(m, a)) return false;
    p->flg_rnepost = 0;
    mj_sensorAcc(m, p);
  }
  *value = Eigen::Map<const VectorXd>(p->sensordata, dims_.ns);
  return true;
}

// One column by nudges h, h/2, h/4 … whose points all have the captured active set, extrapolated (J2): to both sides of
// the point or, where too few of them have one, to one side.
bool ResidualDifference::Column(const mjModel* m, const Evaluation& evaluate, int column, const VectorXd& center,
                                Eigen::Ref<VectorXd> out) {
  const Stage stage = StageOf(column);
  double scale = 1;
  if (column >= dims_.ndx) {
    scale = std::max(1.0, std::abs(probe_->ctrl[column - dims_.ndx]));
  } else if (column >= 2 * dims_.nv) {
    scale = std::max(1.0, std::abs(probe_->act[column - 2 * dims_.nv]));
  } else if (column >= dims_.nv) {
    scale = std::max(1.0, std::abs(probe_->qvel[column - dims_.nv]));
  }
  const auto at = [&](int k, double step) {
    Move(m, column, k * step);
    column_ = column;
    offset_ = k * step;
    return evaluate(stage, &values_[k + 4]);
  };
  if (smooth_) {
    const Room room = RoomOf(m, probe_.get(), dims_, column, 4 * kSmoothStep * scale);
    if (room.down && room.up) {
      const double step = kSmoothStep * scale;
      for (int k : {-2, -1, 1, 2}) at(k, step);
      const VectorXd* f = values_ + 4;
      const VectorXd near = (f[1] - f[-1]) / (2 * step), far = (f[2] - f[-2]) / (4 * step);
      FivePoints(f, step, out);
      if ((near - far).cwiseAbs().maxCoeff() <= kSmoothBend * near.cwiseAbs().maxCoeff()) return true;
    }
  }

  const Ladder& stiff = stage != kPosition ? kStiffInput : sensed_ ? kSensed : kStiff;
  const Ladder& ladder = smooth_ ? kBends : stiff_ ? stiff : kSoft;
  for (const bool clamped : {true, false}) {  // a range narrower than every nudge is none
    for (Quotients& side : quotients_) side.count = 0;
    largest_ = center.cwiseAbs();
    double error = std::numeric_limits<double>::infinity();
    for (int k = 0; k < ladder.last; k++) {
      const double h = std::ldexp(ladder.first * scale, -k);
      Restore(m);
      const Room room = clamped ? RoomOf(m, probe_.get(), dims_, column, h) : Room();
      const bool down = room.down && at(-1, h), up = room.up && at(1, h);
      const VectorXd &below = values_[3], &above = values_[5];
      quotients_[kBoth].Add(down && up, h, above, below, 2 * h);
      quotients_[kUp].Add(up, h, above, center, h);
      quotients_[kDown].Add(down, h, center, below, h);
      if (down) largest_ = largest_.cwiseMax(below.cwiseAbs());
      if (up) largest_ = largest_.cwiseMax(above.cwiseAbs());
      bool enough = false;
      double now = std::numeric_limits<double>::infinity();
      for (const int side : {kBoth, kUp, kDown}) {
        const int count = quotients_[side].count;
        if (count < 2) continue;
        now = std::min(now, ExtrapolateSide(side, now, out));
        enough = enough || count >= (side == kBoth ? ladder.least : kOneSided);
        if (side == kBoth && enough && quotients_[kBoth].first == ladder.first * scale) break;
      }
      if (!std::isfinite(now)) continue;
      const bool sure = now <= 1 || (now <= kStays && now == error);
      error = now;
      if (enough && ((sure && !bends_) || k + 1 >= ladder.most)) return true;
    }
    if (std::isfinite(error)) return true;
  }
  return false;
}

void ResidualDifference::Quotients::Add(bool good, double h, const VectorXd& above, const VectorXd& below,
                                        double distance) {
  if (!good) {
    count = 0;
    return;
  }
  if (count == 0) first = h;
  if (table.rows() != above.size() || table.cols() != kSoft.last) table.resize(above.size(), kSoft.last);
  table.col(count++) = (above - below) / distance;
}

// The quotients of one side, extrapolated (J2), into `out` if their worst error is below `most`; it is in units of what
// is sure. Rows of one kind have one choice of sizes: what is left of forces of constraints is then one, too, as stiff
// as H.
double ResidualDifference::ExtrapolateSide(int side, double most, Eigen::Ref<VectorXd> out) {
  const Quotients& q = quotients_[side];
  candidate_.setZero(out.size());
  bends_ = false;
  double error = 0;
  Eigen::Index begin = 0;
  for (std::size_t part = 0; part < parts_.size(); part++) {
    const int rows = parts_[part];
    if (rows == 0) continue;
    // a rounding of the value, and what one of positions makes of it
    const auto table = q.table.block(begin, 0, rows, q.count);
    const double size = largest_.segment(begin, rows).maxCoeff() + table.cwiseAbs().maxCoeff();
    const double noise =
        std::max(std::numeric_limits<double>::epsilon() * size, noise_.segment(begin, rows).maxCoeff()) / q.first;
    double worst = 0;
    if (rows == 1) {
      row_ = table.transpose();
      const Extrapolation entry = Extrapolate(row_.data(), q.count, side == kBoth, noise);
      candidate_[begin] = entry.value;
      worst = entry.error;
    } else {
      const CommonExtrapolation entries = Extrapolate(table, side == kBoth, noise);
      if (std::isfinite(entries.error)) candidate_.segment(begin, rows) = entries.value;
      worst = entries.error;
      bends_ = bends_ || entries.bends;
    }
    sizes_[part] = std::max(sizes_[part], candidate_.segment(begin, rows).cwiseAbs().maxCoeff());
    if (worst > 0) error = std::max(error, worst / (kSure * sizes_[part] + kRounding * noise));
    begin += rows;
  }
  if (error < most) out = candidate_;
  return error;
}

// What is left of f(c ⊕ δ) + f(c ⊖ δ) − 2 f(c) when δ is too small for any curvature: of forces of constraints more
// than a rounding of the value, since they are differences of what is stiff. Of sensors alone: rows of r are weighed
// together.
void ResidualDifference::MeasureNoise(const mjModel* m, const Evaluation& evaluate, const VectorXd& center) {
  noise_.setZero(center.size());
  VectorXd &below = values_[3], &above = values_[5];
  for (int sample = 0; sample < kRoundingSamples && sensed_; sample++) {
    const auto at = [&](double nudge, VectorXd* value) {
      Restore(m);
      direction_.resize(dims_.nv);
      for (int i = 0; i < dims_.nv; i++) direction_[i] = std::sin(1.7 * i + 2.3 * sample + 1);
      mj_integratePos(m, probe_->qpos, direction_.data(), nudge);
      return evaluate(kPosition, value);
    };
    if (at(-kRoundingNudge, &below) && at(kRoundingNudge, &above))
      noise_ = noise_.cwiseMax((above + below - 2 * center).cwiseAbs() / 2);
  }
}

bool ResidualDifference::Differences(const mjModel* m, const Evaluation& evaluate, int rows, MatrixXd* out,
                                     std::string* reason) {
  const int columns = dims_.ndx + dims_.nu;
  out->resize(rows, columns);
  VectorXd center;
  out->rightCols(columns - last_column_).setZero();
  for (int column = 0; column < last_column_; column++) {
    // the stages before the one that this column moves are those of the point
    if (column == 0 || StageOf(column) != StageOf(column - 1)) {
      sizes_.assign(parts_.size(), 0);
      Move(m, column, 0);
      column_ = -1;
      if (!evaluate(kPosition, &center)) {
        *reason = "the active set of the point itself is not reproducible";
        return false;
      }
      if (column == 0) MeasureNoise(m, evaluate, center);
    }
    Restore(m);
    if (!Column(m, evaluate, column, center, out->col(column))) {
      *reason = "every neighbour along " + TangentNames(m)[column] + " has another set of contacts";
      return false;
    }
  }
  return true;
}

void ResidualDifference::Capture(const mjModel* m, const mjData* d) {
  state_.resize(mj_stateSize(m, mjSTATE_INTEGRATION));
  mj_getState(m, d, state_.data(), mjSTATE_INTEGRATION);
  active_.Capture(d);
  jumping_.clear();
}

bool ResidualDifference::Evaluate(const mjModel* m, const VectorXd& a, VectorXd* value, bool position) {
  terms_ = {};
  Restore(m);
  return EvaluateDirect(m, position ? kPosition : kVelocity, a, value);
}

bool ResidualDifference::EvaluateSensors(const mjModel* m, const VectorXd& a, VectorXd* value) {
  terms_ = {};
  needs_ = Needs(m, m->sensor_needstage, 0, m->nsensor);
  Restore(m);
  return EvaluateSensors(m, kPosition, a, value);
}

bool ResidualDifference::Compute(const mjModel* m, const mjData* d, const VectorXd& a, const DifferencedTerms& terms,
                                 DirectDerivative* out, std::string* reason) {
  terms_ = terms;
  const int nv = dims_.nv, na = dims_.na;
  Capture(m, d);
  if ((terms.constraint && !terms.rows) || HasStiffForces(m)) CaptureJumping(m, d);
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
  const bool exact = terms.inertia && !HasMovingArmature(m), forces_stiff = HasStiffForces(m);
  soft.inertia = terms.inertia && !exact;
  soft.constraint = soft.metric = stiff.inertia = false;
  stiff.metric = terms.metric && IsDiscrete(m);
  if (forces_stiff) soft.passive = soft.actuation = soft.integrator = false;
  else stiff.passive = stiff.actuation = stiff.integrator = false;
  if (exact) Inertia(m, a, sum.topLeftCorner(nv, 2 * nv));
  parts_ = {nv, nv, na, na};
  for (const bool is_stiff : {false, true}) {
    terms_ = is_stiff ? stiff : soft;
    if (!terms_.Any()) continue;
    stiff_ = is_stiff;
    last_column_ = terms_.actuation || terms_.integrator || terms_.metric ? dims_.ndx + dims_.nu : 2 * nv;
    if (!Differences(m, evaluate, 2 * nv + 2 * na, &all, reason)) return false;
    sum.topRows(nv).noalias() += mass.asDiagonal() * all.topRows(nv);
    sum.bottomRows(nv + 2 * na) += all.bottomRows(nv + 2 * na);
  }
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
  for (int i = 0; i < na; i++) {
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

// the engine skips a sensor of no stage
mjModel ResidualDifference::OnlySensors(const mjModel* m, const std::vector<char>* wanted) {
  sensor_stages_.assign(m->sensor_needstage, m->sensor_needstage + m->nsensor);
  for (int i = 0; i < m->nsensor && wanted; i++) {
    if (!(*wanted)[i]) sensor_stages_[i] = mjSTAGE_NONE;
  }
  mjModel local = *m;
  local.sensor_needstage = sensor_stages_.data();
  terms_ = {};
  needs_ = Needs(m, sensor_stages_.data(), 0, m->nsensor);
  return local;
}

TermCoverage ResidualDifference::LeftToSteps(const mjModel* m, std::string* reason) const {
  return {"sensors", Level::kStep, NamesOfSensors(m, failed_) + ": " + std::exchange(*reason, "")};
}

bool ResidualDifference::SensorsByAcceleration(const mjModel* model, const mjData* d, const VectorXd& a, MatrixXd* out,
                                               std::string* reason, const std::vector<char>* wanted) {
  constexpr double kAccelerationStep = 1e-4;  // of max(1, |a|): linear, but for friction within its cone
  forces_ = nullptr;
  const mjModel local = OnlySensors(model, wanted);
  const mjModel* m = &local;
  out->setZero(dims_.ns, dims_.nv);
  if (!needs_.acceleration) return true;
  Capture(m, d);
  Restore(m);
  column_ = -1;
  VectorXd moved = a;
  const auto at = [&](int k, int i, double h) {
    moved[i] = a[i] + k * h;
    return EvaluateSensors(m, kActuation, moved, &values_[k + 4]);
  };
  bool good = EvaluateSensors(m, kPosition, a, &values_[4]);
  for (int i = 0; i < dims_.nv && good; i++) {
    const double h = kAccelerationStep * std::max(1.0, std::abs(a[i]));
    good = at(-2, i, h) && at(-1, i, h) && at(1, i, h) && at(2, i, h);
    const VectorXd* f = values_ + 4;
    FivePoints(f, h, out->col(i));
    moved[i] = a[i];
  }
  if (!good) *reason = "the active set of the point itself is not reproducible";
  return good;
}

// of kinematics alone, and those that forces of constraints reach, whose stencil is another one
bool ResidualDifference::Sensors(const mjModel* model, const mjData* d, const VectorXd& a, const MatrixXd& da,
                                 MatrixXd* out, std::string* reason, const std::vector<char>* wanted,
                                 const ForceChange* forces) {
  forces_ = forces;
  MatrixXd part;
  out->setZero(dims_.ns, dims_.ndx + dims_.nu);
  bool done = true;
  for (const bool constraint : {false, true}) {
    std::vector<char> group(model->nsensor, 0);
    for (int i = 0; i < model->nsensor; i++) {
      group[i] = (!wanted || (*wanted)[i]) && Needs(model, model->sensor_needstage, i, i + 1).constraint == constraint;
    }
    if (std::find(group.begin(), group.end(), 1) == group.end()) continue;
    const mjModel local = OnlySensors(model, &group);
    const mjModel* m = &local;
    smooth_ = !constraint;
    stiff_ = sensed_ = constraint;
    parts_.assign(dims_.ns, 1);
    if (constraint) parts_.assign(m->sensor_dim, m->sensor_dim + m->nsensor);  // each in units of its own
    last_column_ = needs_.acceleration ? dims_.ndx + dims_.nu : needs_.velocity ? 2 * dims_.nv : dims_.nv;
    Capture(m, d);
    if (constraint) CaptureJumping(m, d);
    VectorXd moved;
    const auto evaluate = [&](Stage stage, VectorXd* value) {
      moved = a;
      if (column_ >= 0) moved += offset_ * da.col(column_);
      return EvaluateSensors(m, stage, moved, value);
    };
    if (Differences(m, evaluate, dims_.ns, &part, reason)) {
      *out += part;
      continue;
    }
    failed_ = group;
    done = false;
  }
  return done;
}

}  // namespace costate
