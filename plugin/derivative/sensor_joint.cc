// Coordinates of joints, tendons and actuators, actuator forces, limits: (M2)–(M4) of README.md.
#include "derivative/equilibrium.h"
#include "derivative/sensor.h"
#include "derivative/transmission.h"

namespace costate {

namespace {

bool IsSpatial(const mjModel* m, int tendon) { return !IsFixedTendon(m, tendon); }

}  // namespace

bool SensorDerivative::Scalar(int i) {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;
  MatrixXd& C = out_->C;
  const int row = row_, id = m->sensor_objid[i];
  switch (m->sensor_type[i]) {
    case mjSENS_JOINTPOS: C(row, m->jnt_dofadr[id]) = 1; return true;
    case mjSENS_JOINTVEL: C(row, nv_ + m->jnt_dofadr[id]) = 1; return true;
    case mjSENS_BALLANGVEL:
      for (int k = 0; k < 3; k++) C(row + k, nv_ + m->jnt_dofadr[id] + k) = 1;
      return true;
    case mjSENS_BALLQUAT:
      // dq = q ∘ (0, θ) / 2
      for (int k = 0; k < 3; k++) {
        mjtNum quat[4], half[4] = {0}, change[4];
        mju_copy4(quat, d->qpos + m->jnt_qposadr[id]);
        mju_normalize4(quat);
        half[k + 1] = 0.5;
        mju_mulQuat(change, quat, half);
        for (int n = 0; n < 4; n++) C(row + n, m->jnt_dofadr[id] + k) = change[n];
      }
      return true;
    default: break;
  }

  // tendons
  const Moment* moment = SensedTendon(id);
  if (!moment) return false;
  const bool velocity = m->sensor_type[i] == mjSENS_TENDONVEL;
  for (int k = 0; k < moment->size(); k++) {
    C(row, moment->dof[k]) = velocity ? moment->rate[k] : moment->length[k];
    if (velocity) C(row, nv_ + moment->dof[k]) = moment->J[k];
  }
  return true;
}

// moment of a tendon that is sensed; null where its path has no derivative
const Moment* SensorDerivative::SensedTendon(int tendon) {
  if (!has_tendons_) tendons_missing_ = !tendons_.Compute(at_.m, at_.d).empty();
  has_tendons_ = true;
  return tendons_missing_ && IsSpatial(at_.m, tendon) ? nullptr : &tendons_[tendon];
}

// f(dof, ∂length, J, ∂velocity by q) for each dof that an actuator's output depends on; false: no closed form
template <typename F>
bool SensorDerivative::ForTransmission(int actuator, F f) {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;
  const int out = m->actuator_outadr[actuator];
  if (m->actuator_outnum[actuator] != 1) return false;
  if (HasConstantMoment(m, actuator)) {
    for (int k = d->moment_rowadr[out]; k < d->moment_rowadr[out] + d->moment_rownnz[out]; k++) {
      f(d->moment_colind[k], d->actuator_moment[k], d->actuator_moment[k], 0);
    }
    return true;
  }
  const Moment* moment = FindMoment(actuator);
  if (!moment) return false;
  const double scale = m->actuator_trntype[actuator] == mjTRN_TENDON ? m->actuator_gear[6 * out] : 1;
  for (int k = 0; k < moment->size(); k++) {
    f(moment->dof[k], scale * moment->length[k], scale * moment->J[k], scale * moment->rate[k]);
  }
  return true;
}

// a moment that moves, of a tendon without its gear
const Moment* SensorDerivative::FindMoment(int actuator) {
  const mjModel* m = at_.m;
  if (m->actuator_trntype[actuator] == mjTRN_TENDON) return SensedTendon(m->actuator_trnid[2 * actuator]);
  if (!HasMoment(m, actuator)) return nullptr;
  TransmissionMoment(m, at_.d, actuator, &builder_, &moment_);
  return &moment_;
}

bool SensorDerivative::ActuatorPosition(int i) {
  const int id = at_.m->sensor_objid[i], row = row_;
  if (at_.m->actuator_trntype[id] == mjTRN_BODY) return true;  // no length
  return ForTransmission(id, [&](int dof, double length, double, double) { out_->C(row, dof) = length; });
}

bool SensorDerivative::ActuatorVelocity(int i) {
  if (IsActuationOff(at_.m)) return true;  // the engine leaves it at zero
  const int row = row_;
  return ForTransmission(at_.m->sensor_objid[i], [&](int dof, double, double J, double rate) {
    out_->C(row, dof) = rate;
    out_->C(row, nv_ + dof) = J;
  });
}

// factor (f_l dl + f_l̇ dl̇ + f_w dw + f_u du) into row 0; of all actuators that share out a tendon's limit
bool SensorDerivative::AddActuatorForce(int actuator, double factor) {
  const mjModel* m = at_.m;
  if (!at_.actuation->IsShared(actuator)) return AddForceSlopes(actuator, factor, factor);
  for (int k = 0; k < m->nactuator; k++) {
    if (!at_.actuation->IsShared(k) || m->actuator_trnid[2 * k] != m->actuator_trnid[2 * actuator]) continue;
    const double slope = factor * at_.actuation->ShareSlope(actuator, k);
    if (!AddForceSlopes(k, slope, k == actuator ? factor : 0)) return false;
  }
  return true;
}

// the same with another factor of forces that are added after limits
bool SensorDerivative::AddForceSlopes(int actuator, double factor, double friction_factor) {
  const mjModel* m = at_.m;
  const auto add_path = [&](double by_length, double by_velocity) {
    if (by_length == 0 && by_velocity == 0) return true;
    return ForTransmission(actuator, [&](int dof, double length, double J, double rate) {
      rows_.at(0, dof) += by_length * length + by_velocity * rate;
      rows_.at(0, nv_ + dof) += by_velocity * J;
    });
  };
  for (const ServoSlope& servo : at_.actuation->servos()) {
    if (servo.actuator != actuator) continue;
    if (servo.outputs != 1) return false;
    const Eigen::RowVectorXd slope = factor * servo.force + friction_factor * servo.friction;
    if (!add_path(slope[0], slope[1])) return false;
    const int states = 2 * nv_ + m->actuator_actadr[actuator], inputs = ndx_ + m->actuator_ctrladr[actuator];
    for (int c = 0; c < servo.states; c++) rows_.at(0, states + c) += slope[2 + c];
    for (int c = 0; c < servo.inputs; c++) rows_.at(0, inputs + c) += slope[2 + servo.states + c];
    return true;
  }
  const ActuatorSlope& s = at_.actuation->slopes()[actuator];
  if (!add_path(factor * s.length, factor * s.velocity)) return false;
  if (s.act_index >= 0) rows_.at(0, 2 * nv_ + s.act_index) += factor * s.act;
  if (s.ctrl_index >= 0) rows_.at(0, ndx_ + s.ctrl_index) += factor * s.ctrl;
  return true;
}

// factor df of a row of joint or tendon limits or of dry friction into row 0
bool SensorDerivative::AddScalarForce(int row, double factor) {
  ConstraintDerivative::ScalarForce force;
  if (!at_.constraint->FindForce(at_.m, at_.d, row, &force)) return false;
  for (int k = 0; k < force.count; k++) {
    const double J = factor * force.J[k];
    rows_.at(0, force.dof[k]) -= force.q * J;
    rows_.at(0, nv_ + force.dof[k]) -= force.v * J;
    rows_.by_a(0, force.dof[k]) -= force.a * J;
  }
  for (std::size_t k = 0; k < force.turn.size(); k++) rows_.at(0, force.turning[k]) += factor * force.turn[k];
  const Metric::Scale* scale = at_.metric ? at_.metric->FindScale(row) : nullptr;
  for (std::size_t k = 0; scale && k < scale->turner.size(); k++)
    rows_.at(0, scale->turner[k]) -= factor * at_.d->efc_force[row] * scale->slope[k];
  return true;
}

bool SensorDerivative::ActuatorForce(int i) {
  const mjModel* m = at_.m;
  if (!at_.actuation) return false;
  rows_.Begin(1);
  if (!AddActuatorForce(m->sensor_objid[i], 1)) return false;
  Emit(row_);
  return true;
}

// d(Jᵀf) of one dof
bool SensorDerivative::JointForce(int i) {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;
  const int joint = m->sensor_objid[i], dof = m->jnt_dofadr[joint];
  if (!at_.actuation || m->jnt_actgravcomp[joint]) return false;
  if (at_.actuation->IsDofClamped(dof)) return true;
  rows_.Begin(1);
  for (int a = 0; a < m->nactuator; a++) {
    const int out = m->actuator_outadr[a], end = m->actuator_outadr[a] + m->actuator_outnum[a];
    double J = 0;
    bool acts = false;
    for (int k = d->moment_rowadr[out]; k < d->moment_rowadr[end - 1] + d->moment_rownnz[end - 1]; k++) {
      if (d->moment_colind[k] == dof) acts = true, J = d->actuator_moment[k];
    }
    if (acts && !AddActuatorForce(a, J)) return false;
    if (HasConstantMoment(m, a)) continue;

    // the arm turns
    const Moment* moment = FindMoment(a);
    if (!moment) return false;
    const double force =
        d->actuator_force[out] * (m->actuator_trntype[a] == mjTRN_TENDON ? m->actuator_gear[6 * out] : 1);
    for (int k = 0; k < moment->size(); k++) {
      for (int l = 0; l < moment->size() && moment->dof[k] == dof; l++)
        rows_.at(0, moment->dof[l]) += force * moment->G(k, l);
    }
  }
  Emit(row_);
  return true;
}

bool SensorDerivative::TendonForce(int i) {
  const mjModel* m = at_.m;
  if (!at_.actuation) return false;
  rows_.Begin(1);
  for (int a = 0; a < m->nactuator; a++) {
    const bool acts = m->actuator_trntype[a] == mjTRN_TENDON && m->actuator_trnid[2 * a] == m->sensor_objid[i];
    if (acts && !AddActuatorForce(a, 1)) return false;
  }
  Emit(row_);
  return true;
}

// the first row of the limit, if it is there
bool SensorDerivative::Limit(int i) {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;
  const int type = m->sensor_type[i], id = m->sensor_objid[i], out = row_;
  const bool joint = type <= mjSENS_JOINTLIMITFRC;
  const int wanted = joint ? mjCNSTR_LIMIT_JOINT : mjCNSTR_LIMIT_TENDON;
  int row = d->ne + d->nf;
  while (row < d->nefc && !(d->efc_type[row] == wanted && d->efc_id[row] == id)) row++;
  if (row == d->nefc) return true;

  // position and velocity: of spatial tendons by their moment, against whose J the row is 1 or −1
  const bool position = type == mjSENS_JOINTLIMITPOS || type == mjSENS_TENDONLIMITPOS;
  if (position || type == mjSENS_JOINTLIMITVEL || type == mjSENS_TENDONLIMITVEL) {
    ForJacobianRow(m, d, row, [&](int dof, double J) { out_->C(out, position ? dof : nv_ + dof) = J; });
    if (joint && !position && m->jnt_type[id] == mjJNT_BALL) {
      Vec3 axis;
      const int dof = m->jnt_dofadr[id];
      const Mat3 G = ConstraintDerivative::BallAxisSlope(m, d, id, &axis);
      out_->C.block<1, 3>(out, dof) = -Vec3Map(d->qvel + dof).transpose() * G;
    }
    if (joint || !IsSpatial(m, id)) return true;
    const Moment* moment = SensedTendon(id);
    if (!moment) return false;
    double along = 0;
    for (int k = 0; k < moment->size(); k++)
      along += out_->C(out, (position ? 0 : nv_) + moment->dof[k]) * moment->J[k];
    for (int k = 0; k < moment->size(); k++) {
      out_->C(out, moment->dof[k]) = (along < 0 ? -1 : 1) * (position ? moment->length[k] : moment->rate[k]);
    }
    return true;
  }
  rows_.Begin(1);
  if (!AddScalarForce(row, 1)) return false;
  Emit(out);
  return true;
}

}  // namespace costate
