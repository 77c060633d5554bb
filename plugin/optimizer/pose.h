// The logarithm of a pose relative to another one. README.md, eq. (3b).
#ifndef COSTATE_OPTIMIZER_POSE_H_
#define COSTATE_OPTIMIZER_POSE_H_

#include "optimizer/cost_terms.h"

namespace costate {

/// The linear half of log6(M_target⁻¹ M), V(φ)⁻¹ R_targetᵀ (p - p_target), and its derivatives by p and φ =
/// log(q_target⁻¹ q).
struct PoseLog {
  /// @param q  of the target.  @param offset  p - p_target.
  PoseLog(const double q[4], const Eigen::Vector3d& offset, const Eigen::Vector3d& phi);

  Eigen::Vector3d value;
  Eigen::Matrix3d by_position, by_rotation;
};

/// z = (p - p_target, log(q_target⁻¹ q)) → log6(M_target⁻¹ M): linear [m], then angular [rad].
class PoseMap final : public ResidualMap {
 public:
  /// @param term  what measures z, with its target.
  explicit PoseMap(const ResidualTerm& term) : term_(term) {}
  int size() const override { return 6; }
  void Value(const KnotView& knot, const VectorXd& z, VectorXd* r) const override;
  void Jacobian(const KnotView& knot, const VectorXd& z, ResidualJacobian* J) const override;

 private:
  PoseLog At(const KnotView& knot, const VectorXd& z) const;
  ResidualTerm term_;
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_POSE_H_
