// The derivative of x ⊖ x_ref: ±1, and blocks of 3 × 3 where rotations are compared.
#ifndef COSTATE_CORE_DIFFERENCE_ROW_H_
#define COSTATE_CORE_DIFFERENCE_ROW_H_

#include <mujoco/mujoco.h>

#include <Eigen/Core>

namespace costate {

/// ∂ log(b⁻¹ a) by a turn of a, and by one of b, each in its own frame.
struct SubQuatJacobian {
  Eigen::Matrix<mjtNum, 3, 3, Eigen::RowMajor> a, b;

  /// @param a, b  unit quaternions.
  SubQuatJacobian(const mjtNum a[4], const mjtNum b[4]) { mjd_subQuat(a, b, this->a.data(), this->b.data()); }
};

struct DifferenceRow {
  int first = 0, size = 1;  ///< columns that are not zero
  Eigen::Vector3d value = Eigen::Vector3d::Zero();
};

/// Row `entry` of ∂(x ⊖ x_ref) by the tangent of x, or of x_ref. @param x, x_ref  (nx).
inline DifferenceRow RowOfDifference(const mjModel* m, const mjtNum* x, const mjtNum* x_ref, int entry,
                                     bool by_reference = false) {
  const int joint = entry < m->nv ? m->dof_jntid[entry] : -1;
  const int type = joint < 0 ? static_cast<int>(mjJNT_HINGE) : m->jnt_type[joint];
  const int offset = type == mjJNT_FREE ? 3 : 0, first = joint < 0 ? 0 : m->jnt_dofadr[joint] + offset;
  if ((type != mjJNT_FREE && type != mjJNT_BALL) || entry < first) return {entry, 1, {by_reference ? -1.0 : 1.0, 0, 0}};
  const int address = m->jnt_qposadr[joint] + offset;
  const SubQuatJacobian by(x + address, x_ref + address);
  return {first, 3, (by_reference ? by.b : by.a).row(entry - first)};
}

}  // namespace costate

#endif  // COSTATE_CORE_DIFFERENCE_ROW_H_
