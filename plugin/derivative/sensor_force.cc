// Interaction forces and touch: (M14)–(M15) of README.md.
#include <algorithm>

#include "derivative/armature.h"
#include "derivative/contact_block.h"
#include "derivative/equality.h"
#include "derivative/equilibrium.h"
#include "derivative/passive.h"
#include "derivative/sensor.h"

namespace costate {

namespace {

// an active connect or weld whose body lies in [begin, end)
bool HasBodyEquality(const mjModel* m, const mjData* d, int begin, int end) {
  for (int row = 0; row < d->ne; row++) {
    const int i = d->efc_id[row];
    if (!IsBodyEquality(m, i)) continue;
    for (const int side : {0, 1}) {
      const int body = EqualityBody(m, i, side);
      if (body >= begin && body < end) return true;
    }
  }
  return false;
}

}  // namespace

SensorDerivative::Behind::Behind(const SensorPoint& at) : at_(at) {
  if (!at.pass) return;
  const NoslipPass& pass = *at.pass;
  force_.assign(at.d->efc_force, at.d->efc_force + at.d->nefc);
  acceleration_.assign(at.d->qacc, at.d->qacc + at.m->nv);
  for (int i = 0; i < pass.rows().moving(); i++) at.d->efc_force[pass.rows().efc(i)] += pass.delta()[i];
  mju_copy(at.d->qacc, pass.a().data(), static_cast<int>(at.m->nv));
}

SensorDerivative::Behind::~Behind() {
  if (!at_.pass) return;
  std::copy(force_.begin(), force_.end(), at_.d->efc_force);
  std::copy(acceleration_.begin(), acceleration_.end(), at_.d->qacc);
}

// external wrenches on each subtree; the engine's interaction forces at the converged acceleration
void SensorDerivative::FindForces() {
  if (has_forces_) return;
  has_forces_ = true;
  const mjModel* m = at_.m;
  const Behind behind(at_);
  mj_rnePostConstraint(m, at_.d);
  for (int b = 0; b < m->nbody; b++) external_[b] = Vec6Map(at_.d->cfrc_ext + 6 * b);
  for (int b = static_cast<int>(m->nbody) - 1; b > 0; b--) {
    if (m->body_parentid[b] > 0) external_[m->body_parentid[b]] += external_[b];
  }
}

const SensorDerivative::SensedContact& SensorDerivative::FindContact(int contact) {
  block_.resize(at_.d->ncon);
  SensedContact& sensed = block_[contact];
  if (sensed.filled) return sensed;
  sensed.filled = true;
  const mjContact& con = at_.d->contact[contact];
  sensed.acts = sensed.block.Fill(at_.m, at_.d, *at_.tree, con);
  const ContactMotion* motion = at_.constraint->contact_motion(contact);
  sensed.has_belt = motion && HasBelt(at_.m, con) && MoveBelt(at_.m, at_.d, con, *motion, &sensed.belt);
  if (at_.pass && sensed.acts) AddPass(con, &sensed);
  if (at_.metric && sensed.acts) AddScale(con, &sensed);
  if (con.adhesion == 0) return sensed;

  // (C21) the engine's force of a contact is less by its adhesion, where its rows carry nothing too
  if (sensed.acts) sensed.block.AddForce(con, -con.adhesion * Vec6::Unit(0));
  else sensed.block.FillPull(at_.m, at_.d, con, con.adhesion);
  sensed.acts = true;
  return sensed;
}

// (N10) what a noslip pass adds to a contact's force, and how that changes
void SensorDerivative::AddPass(const mjContact& con, SensedContact* sensed) const {
  const mjData* d = at_.d;
  const FrictionRows& rows = at_.pass->rows();
  const bool pyramid = d->efc_type[con.efc_address] == mjCNSTR_CONTACT_PYRAMIDAL;
  const int count = con.dim == 1 ? 1 : pyramid ? 2 * (con.dim - 1) : con.dim;
  Vec6 delta = Vec6::Zero();
  for (int k = 0; k < count; k++) {
    const int row = rows.find(con.efc_address + k);
    if (row < 0 || row >= rows.moving()) continue;
    if (sensed->change.rows() == 0) sensed->change.setZero(con.dim, ndx_ + at_.m->nu);
    const auto slopes = at_.pass->delta_slopes().row(row);
    const auto add = [&](int axis, double share) {
      delta[axis] += share * at_.pass->delta()[row];
      sensed->change.row(axis) += share * slopes;
    };
    if (!pyramid) {
      add(k, 1);
      continue;
    }
    add(0, 1);
    add(k / 2 + 1, (k % 2 ? -1 : 1) * con.friction[k / 2]);
  }
  sensed->block.AddForce(con, delta);
}

// (I10) a contact's force goes as its D, which follows the discrete integrator's metric
void SensorDerivative::AddScale(const mjContact& con, SensedContact* sensed) const {
  const Metric::Scale* scale = at_.metric->FindScale(con.efc_address);
  if (!scale) return;
  sensed->change.setZero(con.dim, ndx_ + at_.m->nu);
  for (std::size_t k = 0; k < scale->turner.size(); k++)
    sensed->change.col(scale->turner[k]) = -scale->slope[k] * sensed->block.f.head(con.dim);
}

// the whole wrench of a body's joint, kept for the next sensor there
bool SensorDerivative::FindWrench(int body) {
  if (wrench_body_ == body) return wrench_closed_;
  wrench_body_ = body;
  wrench_.Begin(6);
  wrench_closed_ = AddWrench<6>(body, Mat6::Identity());
  if (wrench_closed_) wrench_.MultiplyOut(at_.minimum ? *at_.minimum : *at_.da);
  return wrench_closed_;
}

// `weight` times it, pulled back
bool SensorDerivative::PullWrench(int body, const Vec6& weight) {
  wrench_body_ = -1;
  wrench_.Begin(1);
  if (!AddWrench<1>(body, weight.transpose())) return false;
  const double one = 1;
  wrench_.Contract(&one, pull_->direct, pull_->acceleration);
  return true;
}

// the tension of a tendon, and its slopes into row 0 of rows_; false: no closed form
bool SensorDerivative::FindTension(int tendon, double* tension) {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;
  const Moment* moment = SensedTendon(tendon);
  ArmaturePull inertia;
  if (!moment || !FindArmaturePull(m, d, *at_.tree, tendon, *moment, d->qacc, &inertia)) return false;
  rows_.Begin(1);

  // spring and damper
  const TendonPull pull = FindTendonPull(m, d, tendon);
  *tension = pull.force + inertia.force;
  for (int k = 0; k < moment->size(); k++) {
    rows_.at(0, moment->dof[k]) -= pull.stiffness * moment->length[k] + pull.damping * moment->rate[k];
    rows_.at(0, nv_ + moment->dof[k]) -= pull.damping * moment->J[k];
    if (inertia.armature == 0) continue;
    rows_.at(0, moment->dof[k]) += inertia.by_q[k];
    rows_.at(0, nv_ + moment->dof[k]) += inertia.by_v[k];
    rows_.by_a(0, moment->dof[k]) -= inertia.armature * moment->J[k];
  }

  // actuators, whose armature is the tendon's
  for (int a = 0; a < m->nactuator; a++) {
    if (m->actuator_trntype[a] != mjTRN_TENDON || m->actuator_trnid[2 * a] != tendon) continue;
    const int out = m->actuator_outadr[a];
    const double gear = m->actuator_gear[6 * out];
    if (!at_.actuation || !AddForceSlopes(a, at_.actuation->row_scale(a), gear)) return false;
    *tension += gear * d->actuator_force[out];
  }

  // equalities
  for (int row = 0; row < d->ne; row++) {
    const int id = d->efc_id[row], held[2] = {m->eq_obj1id[id], m->eq_obj2id[id]};
    for (int side = 0; side < 2 && m->eq_type[id] == mjEQ_TENDON; side++) {
      if (held[side] != tendon) continue;
      const TendonShare share = EqualityShare(m, d, id, side);
      const double force = d->efc_force[row];
      if (!AddScalarForce(row, share.scale)) return false;
      *tension += share.scale * force;
      for (int k = 0; k < moment->size(); k++) rows_.at(0, moment->dof[k]) += share.slope * force * moment->length[k];
    }
  }

  // limits and dry friction, whose rows are the moment or its opposite
  for (int row = d->ne; row < d->nefc; row++) {
    const bool limit = d->efc_type[row] == mjCNSTR_LIMIT_TENDON;
    if ((!limit && d->efc_type[row] != mjCNSTR_FRICTION_TENDON) || d->efc_id[row] != tendon) continue;
    if (moment->size() == 0) continue;
    int largest = 0;
    moment->J.cwiseAbs().maxCoeff(&largest);
    double sign = 1;
    ForJacobianRow(m, d, row, [&](int dof, double J) {
      if (dof == moment->dof[largest] && J * moment->J[largest] < 0) sign = -1;
    });
    if (!AddScalarForce(row, sign)) return false;
    *tension += sign * d->efc_force[row];
    const int moving = at_.pass ? at_.pass->rows().find(row) : -1;
    if (moving < 0) continue;

    // (N10)
    *tension += sign * at_.pass->delta()[moving];
    const auto slopes = at_.pass->delta_slopes().row(moving);
    for (int column = 0; column < slopes.size(); column++) rows_.at(0, column) += sign * slopes[column];
  }
  return true;
}

// (M14) wrench_ += weight · (inertial wrench of the subtree less what acts on it from outside, about the tree's origin)
template <int N>
bool SensorDerivative::AddWrench(int body, const Eigen::Matrix<double, N, 6>& weight) {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;
  const int end = subtree_end_[body];
  BodyEquality* equalities = at_.constraint->equalities();
  if (body == 0 || (!equalities && HasBodyEquality(m, d, body, end))) return false;
  FindForces();
  AddInertia<N>(body, weight);
  if (at_.minimum) wrench_.MultiplyOut(*at_.da);  // forces go by the minimum's

  const Vec3 origin = Origin(m, d, body);
  if (equalities) {
    equalities->AddWrenchColumns(
        m, d, *at_.tree, body, end, origin, at_.metric,
        [&](int dof, int kind, const Vec6& column) { AddWrenchColumn<N>(kind, dof, -column, weight); });
  }
  return AddTendons<N>(body, origin, weight) && AddContacts<N>(body, origin, weight);
}

// by position, velocity or acceleration of a dof
template <int N>
void SensorDerivative::AddWrenchColumn(int kind, int dof, const Vec6& column,
                                       const Eigen::Matrix<double, N, 6>& weight) {
  Eigen::Matrix<double, N, 1> seen;
  if constexpr (N == 6) seen = column;
  else seen.noalias() = weight * column;
  if (kind < 2) wrench_.Add<N>(kind * nv_ + dof, seen);
  else wrench_.AddByA<N>(dof, seen);
}

// d(I a + v ×* I v), as in (R3), less the wrenches that the user applies
template <int N>
void SensorDerivative::AddInertia(int body, const Eigen::Matrix<double, N, 6>& weight) {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;
  const TreeDerivative &tree = *at_.tree, &moved = at_.after ? *at_.after : tree;
  ForSubtreeDofs(body, [&](int dof, int part) {
    const Vec6 S = Vec6Map(d->cdof + 6 * dof), inertial = Vec6Map(d->cfrc_int + 6 * part) + external_[part];
    const Inertia& I = tree.composite_inertia(part);
    const RotationMap& B = tree.composite_coriolis(part);
    const Vec6 by_q = CrossForce(S, inertial) + I * moved.axis_acceleration(dof) + B * tree.axis_rate(dof);
    AddWrenchColumn<N>(0, dof, by_q, weight);
    AddWrenchColumn<N>(1, dof, I * tree.axis_sum(dof) + B * S, weight);
    AddWrenchColumn<N>(2, dof, I * S, weight);
  });

  // applied wrenches rest in the world while their points move
  const Vec3 origin = Origin(m, d, body);
  for (int b = body; b < subtree_end_[body]; b++) {
    const mjtNum* load = d->xfrc_applied + 6 * b;
    if (mju_isZero(load, 3)) continue;
    const Vec3 r = Vec3Map(d->xipos + 3 * b) - origin;
    for (int dof = LastDof(m, b); dof >= 0; dof = m->dof_parentid[dof]) {
      Vec6 moment = Vec6::Zero();
      moment.head<3>() = -MotionAt(Vec6Map(d->cdof + 6 * dof), r).cross(Vec3Map(load));
      AddWrenchColumn<N>(0, dof, moment, weight);
    }
  }
}

// spatial tendons that leave the part; the pulls of others cancel
template <int N>
bool SensorDerivative::AddTendons(int body, const Vec3& origin, const Eigen::Matrix<double, N, 6>& weight) {
  const mjModel* m = at_.m;
  const int end = subtree_end_[body];
  for (int t = 0; t < m->ntendon; t++) {
    double tension = 0;
    if (!LeavesBodies(m, t, body, end)) continue;
    if (!FindTension(t, &tension) || !FindCrossingWrench(m, at_.d, t, body, end, origin, &crossing_)) return false;
    for (int dof = 0; dof < nv_; dof++) AddWrenchColumn<N>(0, dof, -tension * crossing_.by_position.col(dof), weight);
    const Eigen::Matrix<double, N, 1> pull = -weight * crossing_.wrench;
    for (int column = 0; column < ndx_ + static_cast<int>(m->nu); column++) {
      if (rows_.at(0, column) != 0) wrench_.Add<N>(column, rows_.at(0, column) * pull);
    }
    for (int dof = 0; dof < nv_; dof++) wrench_.AddByA<N>(dof, rows_.by_a(0, dof) * pull);
  }
  return true;
}

// contacts with something outside
template <int N>
bool SensorDerivative::AddContacts(int body, const Vec3& origin, const Eigen::Matrix<double, N, 6>& weight) {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;
  const int end = subtree_end_[body];
  for (int c = 0; c < d->ncon; c++) {
    const mjContact& contact = d->contact[c];
    if (contact.efc_address < 0 || contact.geom[0] < 0 || contact.geom[1] < 0) continue;
    const int body1 = m->geom_bodyid[contact.geom[0]], body2 = m->geom_bodyid[contact.geom[1]];
    const bool inside1 = body1 >= body && body1 < end, inside2 = body2 >= body && body2 < end;
    if (inside1 == inside2) continue;
    const SensedContact& sensed = FindContact(c);
    if (!sensed.acts) continue;
    const ContactMotion* motion = at_.constraint->contact_motion(c);
    if (!motion) return false;
    const ContactBlock& block = sensed.block;
    Mat6 about;
    for (int k = 0; k < 6; k++) about.col(k) = (inside2 ? -1 : 1) * WrenchAbout(Vec6::Unit(k), origin - block.origin);
    const Eigen::Matrix<double, N, 6> seen = weight * about;
    ForContactDofs<N>(m, d, *at_.tree, block, *motion, sensed.moving_belt(),
                      {seen * block.F_by_geometry, seen * block.F_by_a, seen * block.F_by_v, seen * block.F_by_belt},
                      [&](int dof, const ContactColumn<N>& column) {
                        wrench_.Add<N>(dof, column.q);
                        wrench_.Add<N>(nv_ + dof, column.v);
                        wrench_.AddByA<N>(dof, column.a);
                      });
    for (int k = 0; k < sensed.change.rows(); k++) {
      const Eigen::Matrix<double, N, 1> by_force = seen * block.Wrench(contact, Vec6::Unit(k));
      for (int column = 0; column < sensed.change.cols(); column++)
        wrench_.Add<N>(column, sensed.change(k, column) * by_force);
    }
  }
  return true;
}

// (M14) at the site, in its frame
bool SensorDerivative::ForceTorque(int i) {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;
  const bool torque = m->sensor_type[i] == mjSENS_TORQUE;
  Frame site;
  if (!FindFrame(mjOBJ_SITE, m->sensor_objid[i], &site)) return false;
  const Mat3 R = site.R.transpose();
  Eigen::Matrix<double, 3, 6> seen = Eigen::Matrix<double, 3, 6>::Zero();
  if (torque) seen.leftCols<3>() = R;
  seen.rightCols<3>() = torque ? Mat3(-R * Skew(site.r)) : R;
  if (!(pull_ ? PullWrench(site.body, seen.transpose() * Vec3Map(weight_.data())) : FindWrench(site.body)))
    return false;
  rows_.Begin(3);
  if (pull_ && pull_->xfrc) PullAppliedWrenches(m, d, i, weight_.data(), pull_->xfrc);
  for (int column = 0; column < ndx_ + static_cast<int>(m->nu) && !pull_; column++) {
    for (int k = 0; k < 3; k++) {
      double sum = 0;
      for (int n = 0; n < 6; n++) sum += seen(k, n) * wrench_.at(n, column);
      rows_.at(k, column) = sum;
    }
  }

  // the frame turns and moves
  const Vec6 F = Vec6Map(d->cfrc_int + 6 * site.body);
  const Vec3 force = F.tail<3>(), moment = F.head<3>() - site.r.cross(force);
  for (int dof = site.last; dof >= 0; dof = m->dof_parentid[dof]) {
    const Vec6 S = Vec6Map(d->cdof + 6 * dof);
    Vec3 change = -S.head<3>().cross(torque ? moment : force);
    if (torque) change -= MotionAt(S, site.r).cross(force);
    rows_.Add<3>(dof, R * change);
  }
  if (pull_) Emit(row_);
  else rows_.Store(row_, out_);
  return true;
}

// a wrench applied to a body of the subtree is subtracted from the one that its joint carries, about its tree's origin
void PullAppliedWrenches(const mjModel* m, const mjData* d, int sensor, const double* weight, double* xfrc) {
  const int type = m->sensor_type[sensor], site = m->sensor_objid[sensor];
  if (type != mjSENS_FORCE && type != mjSENS_TORQUE) return;
  const int body = m->site_bodyid[site];
  using Map3 = Eigen::Map<Vec3>;
  const Vec3 world = Mat3Map(d->site_xmat + 9 * site) * Vec3Map(weight);
  const Vec3 r = Vec3Map(d->site_xpos + 3 * site) - Origin(m, d, body);
  for (int b = std::max(1, body); b == body || (b < m->nbody && m->body_parentid[b] >= body); b++) {
    if (type == mjSENS_FORCE) {
      Map3(xfrc + 6 * b) -= world;
      continue;
    }
    const Vec3 arm = Vec3Map(d->xipos + 3 * b) - Origin(m, d, b) - r;
    Map3(xfrc + 6 * b) -= world.cross(arm);
    Map3(xfrc + 6 * b + 3) -= world;
  }
}

// (M15) normal forces of the contacts that the zone sees
bool SensorDerivative::Touch(int i) {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;
  rows_.Begin(1);
  for (int c = 0; c < d->ncon; c++) {
    const mjContact& contact = d->contact[c];
    if (contact.efc_address < 0) continue;
    mjtNum force[6];
    mj_contactForce(m, d, c, force);
    if (force[0] <= 0) continue;
    if (contact.geom[0] < 0 || contact.geom[1] < 0) return false;  // flex
    if (!PassesThroughSite(m, d, m->sensor_objid[i], contact)) continue;
    const ContactMotion* motion = at_.constraint->contact_motion(c);
    if (!motion) return false;
    const SensedContact& sensed = FindContact(c);
    const ContactBlock& block = sensed.block;
    ForContactDofs<1>(m, d, *at_.tree, block, *motion, sensed.moving_belt(),
                      {block.f_by_geometry.row(0), block.f_by_a.row(0), block.f_by_v.row(0), block.f_by_belt.row(0)},
                      [&](int dof, const ContactColumn<1>& column) {
                        rows_.at(0, dof) += column.q[0];
                        rows_.at(0, nv_ + dof) += column.v[0];
                        rows_.by_a(0, dof) += column.a[0];
                      });
    for (int column = 0; column < sensed.change.cols() && at_.metric; column++)
      rows_.at(0, column) += sensed.change(0, column);
  }
  Emit(row_);
  return true;
}

}  // namespace costate
