// Poses, velocities and accelerations of frames: (M5)–(M9) of README.md.
#include "derivative/body_point.h"
#include "derivative/sensor.h"

namespace costate {

namespace {

using RowMat3 = Eigen::Matrix<double, 3, 3, Eigen::RowMajor>;

// conj(ref) ∘ (0, θ) ∘ object / 2
void QuaternionChange(const mjtNum* ref, const Vec3& theta, const mjtNum* object, mjtNum* out) {
  const mjtNum half[4] = {0, 0.5 * theta[0], 0.5 * theta[1], 0.5 * theta[2]};
  mjtNum conjugate[4], turned[4];
  mju_mulQuat(turned, half, object);
  mju_negQuat(conjugate, ref);
  mju_mulQuat(out, conjugate, turned);
}

}  // namespace

// false: a camera that does not move with its body
bool SensorDerivative::FindFrame(int objtype, int id, Frame* frame) const {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;
  const mjtNum *p, *R, *quat = nullptr;
  switch (objtype) {
    case mjOBJ_XBODY: frame->body = id, p = d->xpos + 3 * id, R = d->xmat + 9 * id; break;
    case mjOBJ_BODY:
      frame->body = id, p = d->xipos + 3 * id, R = d->ximat + 9 * id, quat = m->body_iquat + 4 * id;
      break;
    case mjOBJ_GEOM:
      frame->body = m->geom_bodyid[id], p = d->geom_xpos + 3 * id, R = d->geom_xmat + 9 * id,
      quat = m->geom_quat + 4 * id;
      break;
    case mjOBJ_SITE:
      frame->body = m->site_bodyid[id], p = d->site_xpos + 3 * id, R = d->site_xmat + 9 * id,
      quat = m->site_quat + 4 * id;
      break;
    case mjOBJ_CAMERA:
      frame->body = m->cam_bodyid[id], p = d->cam_xpos + 3 * id, R = d->cam_xmat + 9 * id, quat = m->cam_quat + 4 * id;
      if (m->cam_mode[id] != mjCAMLIGHT_FIXED) return false;
      break;
    default: return false;
  }
  frame->last = LastDof(m, frame->body);
  frame->p = Vec3Map(p);
  frame->r = frame->p - Origin(m, d, frame->body);
  frame->R = Eigen::Map<const RowMat3>(R);
  if (quat) {
    mju_mulQuat(frame->quat, d->xquat + 4 * frame->body, quat);
  } else {
    mju_copy4(frame->quat, d->xquat + 4 * frame->body);
  }
  return true;
}

// the world when there is none
bool SensorDerivative::FindReference(int i, Frame* frame) const {
  const int id = at_.m->sensor_refid[i];
  return id < 0 || FindFrame(at_.m->sensor_reftype[i], id, frame);
}

// (M5) only dofs that move one of the two count: the object by S, the reference by −S at the object
bool SensorDerivative::FramePosition(int i) {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;
  const int type = m->sensor_type[i], row = row_;
  Frame object, reference;
  if (!FindFrame(m->sensor_objtype[i], m->sensor_objid[i], &object) || !FindReference(i, &reference)) return false;
  const Vec3 r[2] = {object.r, object.p - Origin(m, d, reference.body)};
  const bool is_axis = type != mjSENS_FRAMEPOS && type != mjSENS_FRAMEQUAT;
  const Vec3 axis = object.R.col(is_axis ? type - mjSENS_FRAMEXAXIS : 0);
  ForExclusiveDofs(m, object.last, reference.last, [&](int dof, int side) {
    const Vec6 S = (side ? -1 : 1) * Vec6Map(d->cdof + 6 * dof);
    if (type == mjSENS_FRAMEQUAT) {
      QuaternionChange(reference.quat, S.head<3>(), object.quat, &out_->C.coeffRef(row, dof));
      return;
    }
    const Vec3 change = is_axis ? Vec3(S.head<3>().cross(axis)) : MotionAt(S, r[side]);
    out_->C.block<3, 1>(row, dof).noalias() = reference.R.transpose() * change;
  });
  return true;
}

// (M6) U = (V_o − V_r) at the object, seen from the object itself or from the reference
bool SensorDerivative::FrameVelocity(int i) {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;
  const TreeDerivative& tree = *at_.tree;
  const int type = m->sensor_type[i], row = row_;
  const bool own = type == mjSENS_VELOCIMETER || type == mjSENS_GYRO;
  const bool linear = type == mjSENS_VELOCIMETER || type == mjSENS_FRAMELINVEL;
  Frame frame[2];
  if (!FindFrame(own ? mjOBJ_SITE : m->sensor_objtype[i], m->sensor_objid[i], &frame[0])) return false;
  if (!own && !FindReference(i, &frame[1])) return false;
  const Mat3 R = frame[own ? 0 : 1].R.transpose();
  const Vec3 r[2] = {frame[0].r, frame[0].p - Origin(m, d, frame[1].body)};
  Vec6 V[2];
  for (int side = 0; side < 2; side++) {
    V[side] = frame[side].last < 0 ? Vec6(Vec6::Zero()) : tree.velocity(frame[side].body);
  }
  const Vec3 w = V[0].head<3>() - V[1].head<3>();
  const Vec3 U = linear ? Vec3(MotionAt(V[0], r[0]) - MotionAt(V[1], r[1])) : w;
  ForExclusiveDofs(m, frame[0].last, frame[1].last, [&](int dof, int side) {
    const Vec6 S = Vec6Map(d->cdof + 6 * dof), dV = CrossMotion(S, V[side]) + tree.axis_rate(dof);
    const double sign = side ? -1 : 1;
    Vec3 by_q = sign * (linear ? MotionAt(dV, r[side]) : Vec3(dV.head<3>()));
    if (side == 0 && linear) by_q += w.cross(MotionAt(S, r[0]));
    if (side == 1 || own) by_q -= S.head<3>().cross(U);  // the axes turn
    out_->C.block<3, 1>(row, dof).noalias() = R * by_q;
    out_->C.block<3, 1>(row, nv_ + dof).noalias() = R * (sign * (linear ? MotionAt(S, r[side]) : Vec3(S.head<3>())));
  });
  return true;
}

// (M7) by q, v and a of each dof of the chain
bool SensorDerivative::FrameAcceleration(int i) {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;
  const int type = m->sensor_type[i];
  const bool own = type == mjSENS_ACCELEROMETER, linear = type != mjSENS_FRAMEANGACC;
  Frame object;
  if (!FindFrame(own ? mjOBJ_SITE : m->sensor_objtype[i], m->sensor_objid[i], &object)) return false;
  const TreeDerivative& tree = at_.after ? *at_.after : *at_.tree;
  const BodyPoint point(m, d, tree, object.body, object.p);
  const Mat3 R = own ? Mat3(object.R.transpose()) : Mat3::Identity();
  rows_.Begin(3);
  for (int dof = object.last; dof >= 0; dof = m->dof_parentid[dof]) {
    const PointChange q = point.ByPosition(d, tree, dof), v = point.ByVelocity(d, tree, dof);
    Vec3 by_q = linear ? q.acceleration : q.spin_rate;
    if (own) by_q -= q.rotation.cross(point.acceleration());
    const Vec6 S = Vec6Map(d->cdof + 6 * dof);
    rows_.Add<3>(dof, R * by_q);
    rows_.Add<3>(nv_ + dof, R * (linear ? v.acceleration : v.spin_rate));
    rows_.AddByA<3>(dof, R * (linear ? MotionAt(S, object.r) : Vec3(S.head<3>())));
  }
  Emit(row_);
  return true;
}

bool SensorDerivative::Magnetometer(int i) {
  const mjModel* m = at_.m;
  Frame object;
  if (!FindFrame(mjOBJ_SITE, m->sensor_objid[i], &object)) return false;
  const Vec3 field = Vec3Map(m->opt.magnetic);
  for (int dof = object.last; dof >= 0; dof = m->dof_parentid[dof]) {
    const Vec3 theta = Vec3Map(at_.d->cdof + 6 * dof);
    out_->C.block<3, 1>(row_, dof).noalias() = object.R.transpose() * field.cross(theta);
  }
  return true;
}

// (M9) x = Rᵀ(p − p_camera); pixels −f_x x/z, f_y y/z
bool SensorDerivative::CameraProjection(int i) {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;
  const int id = m->sensor_refid[i], row = row_;
  Frame object, camera;
  if (!FindFrame(mjOBJ_SITE, m->sensor_objid[i], &object) || !FindFrame(mjOBJ_CAMERA, id, &camera)) return false;
  const float *size = m->cam_sensorsize + 2 * id, *intrinsic = m->cam_intrinsic + 4 * id;
  const int* resolution = m->cam_resolution + 2 * id;
  double fx, fy;
  if (size[0] != 0 && size[1] != 0) {
    fx = intrinsic[0] / size[0] * resolution[0];
    fy = intrinsic[1] / size[1] * resolution[1];
  } else {
    fx = fy = 0.5 / std::tan(m->cam_fovy[id] * mjPI / 360) * resolution[1];
  }
  const Vec3 x = camera.R.transpose() * (object.p - camera.p);
  if (std::abs(x[2]) < mjMINVAL) return false;
  const Vec3 r[2] = {object.r, object.p - Origin(m, d, camera.body)};
  ForExclusiveDofs(m, object.last, camera.last, [&](int dof, int side) {
    const Vec6 S = (side ? -1 : 1) * Vec6Map(d->cdof + 6 * dof);
    const Vec3 dx = camera.R.transpose() * MotionAt(S, r[side]);
    out_->C(row, dof) = -fx * (dx[0] - x[0] / x[2] * dx[2]) / x[2];
    out_->C(row + 1, dof) = fy * (dx[1] - x[1] / x[2] * dx[2]) / x[2];
  });
  return true;
}

}  // namespace costate
