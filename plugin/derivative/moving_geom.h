// A geom moved for differences of what the engine finds about it.
#ifndef COSTATE_DERIVATIVE_MOVING_GEOM_H_
#define COSTATE_DERIVATIVE_MOVING_GEOM_H_

#include <mujoco/mujoco.h>

#include "derivative/spatial.h"

namespace costate {

/// The pose of a geom, moved along a screw and restored bit for bit.
class MovingGeom {
 public:
  MovingGeom(mjData* d, int geom)
      : xpos_(d->geom_xpos + 3 * geom), xmat_(d->geom_xmat + 9 * geom), xquat_(d->geom_xquat + 4 * geom) {
    mju_copy3(pos_, xpos_);
    mju_copy(mat_, xmat_, 9);
    mju_copy4(quat_, xquat_);
  }
  ~MovingGeom() { Restore(); }
  MovingGeom(const MovingGeom&) = delete;
  MovingGeom& operator=(const MovingGeom&) = delete;

  void Restore() {
    mju_copy3(xpos_, pos_);
    mju_copy(xmat_, mat_, 9);
    mju_copy4(xquat_, quat_);
  }

  /// exp(h (w; v)) about the pivot: what holds a point in place under a joint holds it here.
  void Move(const Vec3& pivot, const Vec6& twist, double h) {
    const Vec3 w = h * twist.head<3>(), v = h * twist.tail<3>();
    const Vec3 shift = v + w.cross(v) / 2 + w.cross(w.cross(v)) / 6;
    Vec3 arm = Vec3Map(pos_) - pivot;
    const double angle = w.norm();
    if (angle > 0) {
      const Vec3 axis = w / angle;
      mjtNum turn[4], rotation[9];
      mju_axisAngle2Quat(turn, axis.data(), angle);
      const Vec3 before = arm;
      mju_rotVecQuat(arm.data(), before.data(), turn);
      mju_mulQuat(xquat_, turn, quat_);
      mju_quat2Mat(rotation, turn);
      mju_mulMatMat(xmat_, rotation, mat_, 3, 3, 3);
    }
    Eigen::Map<Vec3>(xpos_, 3) = pivot + arm + shift;
  }

 private:
  mjtNum *xpos_, *xmat_, *xquat_;
  mjtNum pos_[3], mat_[9], quat_[4];
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_MOVING_GEOM_H_
