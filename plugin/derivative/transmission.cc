#include "derivative/transmission.h"

#include <cmath>

#include "core/joint.h"
#include "derivative/plant.h"

namespace costate {

namespace {

using RowMat3 = Eigen::Matrix<double, 3, 3, Eigen::RowMajor>;

Mat3 SiteRotation(const mjData* d, int site) { return Eigen::Map<const RowMat3>(d->site_xmat + 9 * site); }

// (T9) a ball's or free joint's gear is constant in its own frame, or in the parent's, against which that frame turns
void JointMoment(const mjModel* m, const mjData* d, int i, Moment* moment) {
  const int joint = m->actuator_trnid[2 * i], dof = m->jnt_dofadr[joint];
  const bool free = m->jnt_type[joint] == mjJNT_FREE, parent = m->actuator_trntype[i] == mjTRN_JOINTINPARENT;
  const int linear = free ? 3 : 0, n = linear + 3;
  const mjtNum* gear = m->actuator_gear + 6 * m->actuator_outadr[i];
  if (IsScalarJoint(m->jnt_type[joint])) {
    moment->dof.assign(1, dof);
    moment->J = moment->length = Eigen::VectorXd::Constant(1, gear[0]);
    moment->G.setZero(1, 1);
    moment->rate.setZero(1);
    return;
  }
  mjtNum quat[4];
  mju_copy4(quat, d->qpos + m->jnt_qposadr[joint] + linear);
  mju_normalize4(quat);
  RowMat3 R;
  mju_quat2Mat(R.data(), quat);
  Vec3 axis = Vec3Map(gear + linear);
  if (parent) axis = R.transpose() * axis;

  moment->dof.resize(n);
  for (int k = 0; k < n; k++) moment->dof[k] = dof + k;
  moment->J.resize(n);
  if (free) moment->J.head<3>() = Vec3Map(gear);
  moment->J.tail<3>() = axis;
  moment->G.setZero(n, n);
  if (parent) moment->G.bottomRightCorner<3, 3>() = PLANT("transmission: joint in parent", Skew(axis));
  moment->length.setZero(n);
  if (!free) {
    // length = axis · log q
    const mjtNum identity[4] = {1, 0, 0, 0};
    RowMat3 by_q;
    Vec3 turn;
    mjd_subQuat(quat, identity, by_q.data(), nullptr);
    mju_quat2Vel(turn.data(), quat, 1);
    moment->length = PLANT("transmission: ball", by_q.transpose() * axis);
    if (parent) moment->length += PLANT("transmission: ball in parent", Skew(axis).transpose() * turn);
  }
  moment->FindRate(d->qvel);
}

// ∂(length) of a site in its reference site's frame: gear · (position; rotation), (T10)
void ReferenceLength(const mjModel* m, const mjData* d, int i, Moment* moment) {
  const int site = m->actuator_trnid[2 * i], reference = m->actuator_trnid[2 * i + 1];
  const mjtNum* gear = m->actuator_gear + 6 * m->actuator_outadr[i];
  const int body[2] = {m->site_bodyid[site], m->site_bodyid[reference]};
  const Vec3 point = Vec3Map(d->site_xpos + 3 * site), force = SiteRotation(d, reference) * Vec3Map(gear);

  mjtNum quat[2][4];
  mju_mulQuat(quat[0], d->xquat + 4 * body[0], m->site_quat + 4 * site);
  mju_mulQuat(quat[1], d->xquat + 4 * body[1], m->site_quat + 4 * reference);
  const Mat3 R[2] = {SiteRotation(d, site), SiteRotation(d, reference)};
  RowMat3 D[2];
  mjd_subQuat(quat[0], quat[1], D[0].data(), D[1].data());
  for (int slot = 0; slot < moment->size(); slot++) {
    const int dof = moment->dof[slot];
    const Vec3 rot = Vec3Map(d->cdof + 6 * dof);
    const Vec3 com = Vec3Map(d->subtree_com + 3 * m->body_rootid[m->dof_bodyid[dof]]);
    const Vec3 lin = Vec3Map(d->cdof + 6 * dof + 3) + rot.cross(point - com);
    bool moves_site = false;
    for (int k = LastDof(m, body[0]); k >= dof && !moves_site; k = m->dof_parentid[k]) moves_site = k == dof;
    const int side = moves_site ? 0 : 1;
    moment->length[slot] =
        PLANT("transmission: reference position", (side == 0 ? 1 : -1) * force.dot(lin)) +
        PLANT("transmission: reference rotation", Vec3Map(gear + 3).dot(D[side] * (R[side].transpose() * rot)));
  }
}

void SiteMoment(const mjModel* m, const mjData* d, int i, MomentBuilder* builder, Moment* moment) {
  const int site = m->actuator_trnid[2 * i], reference = m->actuator_trnid[2 * i + 1];
  const mjtNum* gear = m->actuator_gear + 6 * m->actuator_outadr[i];
  const Mat3 R = SiteRotation(d, reference < 0 ? site : reference);
  MomentWrench wrench;
  wrench.body = m->site_bodyid[site];
  wrench.point = Vec3Map(d->site_xpos + 3 * site);
  wrench.force = R * Vec3Map(gear);
  wrench.torque = R * Vec3Map(gear + 3);
  wrench.frame = wrench.body;
  if (reference >= 0) {
    wrench.frame = wrench.other = m->site_bodyid[reference];
    wrench.other_point = Vec3Map(d->site_xpos + 3 * reference);
  }
  builder->Begin(moment);
  if (reference < 0 || wrench.body != wrench.other) builder->Add(m, d, wrench);
  builder->End(d);
  moment->length.setZero();
  if (reference >= 0) ReferenceLength(m, d, i, moment);
}

// (T11) L(x) = a·x − √((a·x)² + r² − x·x), x from slider to crank in the slider's frame, a its axis
void SliderCrankMoment(const mjModel* m, const mjData* d, int i, MomentBuilder* builder, Moment* moment) {
  const int crank = m->actuator_trnid[2 * i], slider = m->actuator_trnid[2 * i + 1], out = m->actuator_outadr[i];
  const double rod = m->actuator_cranklength[i], gear = m->actuator_gear[6 * out];
  const Vec3 axis = SiteRotation(d, slider).col(2);
  MomentElement element;
  element.frame = m->site_bodyid[slider];
  element.body[0] = m->site_bodyid[crank];
  element.point[0] = Vec3Map(d->site_xpos + 3 * crank);
  const Vec3 x = element.point[0] - Vec3Map(d->site_xpos + 3 * slider);
  const double along = axis.dot(x), square = along * along + rod * rod - x.squaredNorm();
  element.force[0] = gear * axis;
  if (square > 0) {
    const double root = std::sqrt(square);
    const Vec3 slope = (along * axis - x) / root;
    element.force[0] -= gear * slope;
    element.H.topLeftCorner<3, 3>() =
        PLANT("transmission: slider-crank",
              gear / root * (Mat3::Identity() - axis * axis.transpose() + slope * slope.transpose()));
  }
  builder->Begin(moment);
  builder->Add(m, d, element);
  builder->End(d);
}

}  // namespace

void RotationMoment(const mjModel* m, const mjData* d, int i, int axis, MomentBuilder* builder, Moment* moment) {
  const int site = m->actuator_trnid[2 * i], reference = m->actuator_trnid[2 * i + 1];
  builder->Begin(moment);
  if (reference < 0) {
    // a ball: rows of its own frame
    builder->End(d);
    moment->dof.assign(1, m->jnt_dofadr[site] + axis);
    moment->J.setOnes(1);
    moment->G.setZero(1, 1);
    moment->rate.setZero(1);
  } else {
    MomentWrench wrench;
    wrench.frame = wrench.body = m->site_bodyid[site];
    wrench.other = m->site_bodyid[reference];
    wrench.point = wrench.other_point = Vec3Map(d->site_xpos + 3 * site);
    wrench.force.setZero();
    wrench.torque = SiteRotation(d, site).col(axis);
    if (wrench.body != wrench.other) builder->Add(m, d, wrench);
    builder->End(d);
  }
  moment->length = moment->J;
}

bool HasMoment(const mjModel* m, int i) {
  const int type = m->actuator_trntype[i];
  return type == mjTRN_JOINT || type == mjTRN_JOINTINPARENT || type == mjTRN_TENDON || type == mjTRN_SITE ||
         type == mjTRN_SLIDERCRANK;
}

void TransmissionMoment(const mjModel* m, const mjData* d, int i, MomentBuilder* builder, Moment* moment) {
  switch (m->actuator_trntype[i]) {
    case mjTRN_JOINT:
    case mjTRN_JOINTINPARENT: JointMoment(m, d, i, moment); break;
    case mjTRN_SITE: SiteMoment(m, d, i, builder, moment); break;
    case mjTRN_SLIDERCRANK: SliderCrankMoment(m, d, i, builder, moment); break;
    default: break;
  }
}

}  // namespace costate
