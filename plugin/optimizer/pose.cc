#include "optimizer/pose.h"

#include <mujoco/mujoco.h>

#include "core/rotation.h"

namespace costate {
namespace {

Eigen::Matrix3d RotationOf(const double q[4]) {
  mjtNum m[9];
  mju_quat2Mat(m, q);
  return Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>(m);
}

}  // namespace

PoseLog::PoseLog(const double q[4], const Eigen::Vector3d& offset, const Eigen::Vector3d& phi) {
  // V⁻¹ = 1 - ½ [φ]× + c [φ]×²
  const auto [c, slope] = InverseJacobianCoefficient(phi.norm());
  const Eigen::Matrix3d cross = Skew(phi), inverse = Eigen::Matrix3d::Identity() - 0.5 * cross + c * cross * cross;
  const Eigen::Matrix3d to_target = RotationOf(q).transpose();
  const Eigen::Vector3d y = to_target * offset, twice = cross * (cross * y);
  value = inverse * y;
  by_position = inverse * to_target;

  // ∂([φ]× y) = -[y]× dφ,  ∂([φ]×² y) = (φᵀy + φ yᵀ - 2 y φᵀ) dφ
  by_rotation = 0.5 * Skew(y) + slope * twice * phi.transpose() +
                c * (phi.dot(y) * Eigen::Matrix3d::Identity() + phi * y.transpose() - 2 * y * phi.transpose());
}

PoseLog PoseMap::At(const KnotView& knot, const VectorXd& z) const {
  constexpr double kNoTurn[4] = {1, 0, 0, 0};
  VectorXd slots;
  TargetAt(term_, knot.TaskTime(), &slots);
  return PoseLog(slots.size() > 0 ? slots.data() + term_.rotations[0].slot : kNoTurn, z.head<3>(), z.tail<3>());
}

void PoseMap::Value(const KnotView& knot, const VectorXd& z, VectorXd* r) const {
  r->resize(6);
  *r << At(knot, z).value, z.tail<3>();
}

void PoseMap::Jacobian(const KnotView& knot, const VectorXd& z, ResidualJacobian* J) const {
  const PoseLog log = At(knot, z);
  J->measured.setIdentity(6, 6);
  J->measured.topLeftCorner<3, 3>() = log.by_position;
  J->measured.topRightCorner<3, 3>() = log.by_rotation;
  J->x.resize(0, 0);
  J->u.resize(0, 0);
}

}  // namespace costate
