// Rows of a contact's Jacobian in its own basis, and how they turn: (N5) of README.md.
#ifndef COSTATE_DERIVATIVE_CONTACT_JACOBIAN_H_
#define COSTATE_DERIVATIVE_CONTACT_JACOBIAN_H_

#include <mujoco/mujoco.h>

#include <Eigen/Core>
#include <vector>

#include "derivative/contact_geometry.h"

namespace costate {

using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Which axes move with which dofs.
struct AxisGroups {
  explicit AxisGroups(const mjModel* model);
  std::vector<int> group;   ///< first dof of each dof's group: (R1)
  std::vector<char> fixed;  ///< axes of free translations do not turn
};

struct ContactJacobian {
  /// @param rows  the first ones of (n, t1, t2, spin, roll1, roll2).
  ContactJacobian(const mjModel* model, const mjData* data, const AxisGroups& axes, const mjContact& contact,
                  const ContactMotion& motion, int rows);

  std::vector<int> dof, turner;                    ///< that J has entries for; that turn it
  RowMatrix J;                                     ///< rows × dofs
  std::vector<RowMatrix> turn;                     ///< of each row ∂J_n/∂q_k, dofs × turners
  Eigen::Matrix<double, 7, Eigen::Dynamic> moved;  ///< (dφ, dp, Ω) by each turner
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_CONTACT_JACOBIAN_H_
