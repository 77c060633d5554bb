// Constraints that a task file describes: bounds on residuals, on power, and on the angle of ball joints.
#ifndef COSTATE_OPTIMIZER_CONSTRAINT_TERMS_H_
#define COSTATE_OPTIMIZER_CONSTRAINT_TERMS_H_

#include <costate/constraint.h>

#include <string>
#include <vector>

#include "optimizer/cost_terms.h"

namespace costate {

/// lower ≤ r ≤ upper with the residual of a term, (2) and (3) of README.md; its norm and weights are not used.
class ResidualConstraint final : public Constraint {
 public:
  ResidualConstraint(const mjModel* model, ConstraintInfo info, ResidualTerm term);
  void Value(const KnotView& knot, VectorXd* c) const override { residual_.Residual(0, knot, c); }
  void Jacobian(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, MatrixXd* J, MatrixXd* Ju) const override {
    residual_.Jacobian(0, knot, C, D, J, Ju);
  }
  void Curvature(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, ConstVectorRef g, MatrixXd* V,
                 MatrixXd* Vu) const override {
    residual_.Curvature(0, knot, C, D, g, V, Vu);
  }
  void PullBack(const KnotView& knot, ConstVectorRef g, KnotGradient* out) const override {
    residual_.PullBack(0, knot, g, out);
  }
  bool NeedsSensors() const override { return residual_.NeedsSensors(); }
  void MarkSensors(std::vector<char>* read) const override { residual_.MarkSensors(read); }

 private:
  ResidualCost residual_;
};

/// c_i = s[force_i] s[velocity_i]: what actuators deliver [W].
class PowerConstraint final : public Constraint {
 public:
  /// @param force, velocity  addresses in s, one an entry.
  PowerConstraint(ConstraintInfo info, std::vector<int> force, std::vector<int> velocity);
  void Value(const KnotView& knot, VectorXd* c) const override;
  void Jacobian(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, MatrixXd* J, MatrixXd* Ju) const override;
  void PullBack(const KnotView& knot, ConstVectorRef g, KnotGradient* out) const override;
  bool NeedsSensors() const override { return true; }
  void MarkSensors(std::vector<char>* read) const override;

 private:
  std::vector<int> force_, velocity_;
};

/// c = entries of x_N ⊖ x_0 at the last knot, of a motion whose start may move. PullBack is by x_N alone: (16c) of
/// README.md.
class PeriodicConstraint final : public Constraint {
 public:
  /// @param entries  of the tangent, as many as info has bounds. The model must outlive it.
  PeriodicConstraint(const mjModel* model, ConstraintInfo info, std::vector<int> entries);
  void Value(const KnotView& knot, VectorXd* c) const override;
  void Jacobian(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, MatrixXd* J, MatrixXd* Ju) const override;
  bool NeedsSensors() const override { return false; }
  bool ReadsStart() const override { return true; }
  void StartJacobian(const KnotView& knot, MatrixXd* J0) const override;

 private:
  void Slopes(const KnotView& knot, bool of_start, MatrixXd* J) const;

  const mjModel* model_;
  std::vector<int> entries_;
};

/// c_i = the angle [rad] by which a ball joint is turned away from its reference. Its slope is the axis of the
/// rotation.
class BallAngleConstraint final : public Constraint {
 public:
  struct Ball {
    int qpos = 0, dof = 0;
  };
  BallAngleConstraint(ConstraintInfo info, std::vector<Ball> balls);
  void Value(const KnotView& knot, VectorXd* c) const override;
  void Jacobian(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, MatrixXd* J, MatrixXd* Ju) const override;
  bool NeedsSensors() const override { return false; }

 private:
  std::vector<Ball> balls_;
  int columns_ = 0;
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_CONSTRAINT_TERMS_H_
