// A cost and its constraints as one cost: Rockafellar's augmented Lagrangian.
#ifndef COSTATE_OPTIMIZER_AUGMENTED_COST_H_
#define COSTATE_OPTIMIZER_AUGMENTED_COST_H_

#include <costate/constraint.h>

#include <vector>

namespace costate {

/// 1, or the size of the larger bound: what violations are measured by.
double BoundScale(double lower, double upper);

/// The largest violation of c over the scale of its bound; infinite where c is not a number.
double LargestViolation(const ConstraintInfo& info, ConstVectorRef c);

/// z within what a solver aims at: the bounds of entry k, less their inset.
double Aim(const ConstraintInfo& info, Eigen::Index k, double z);

/// How far entry k is from settled, |y - shift| with shift = lambda / rho: a violation, or slack that a multiplier
/// still holds; over the scale of its bounds.
double Unsettled(const ConstraintInfo& info, Eigen::Index k, double y, double shift);

/// A constraint's entries at a knot, as z = c + lambda / rho and its slopes.
struct KnotBounds {
  bool any = false;  ///< that is no equality; else nothing else is known
  double rho = 0;
  VectorXd z, lower, upper;  ///< bounds as Aim has them
  MatrixXd J, Ju;
  VectorXd at, along;      ///< z where a search begins, and what its whole step adds
  std::vector<char> side;  ///< beyond which bound a step leads: the upper one (1), the lower one (-1), none
};

/// The augmented Lagrangian at a knot in two parts: the cost with equalities, and what is bounded.
struct AugmentedKnot {
  CostExpansion base;
  std::vector<KnotBounds> bounds;  ///< one a constraint
};

/// l + Σ (½ rho ‖y‖² - ‖lambda‖² / (2 rho)) with y = z - Aim(z), z = c + lambda / rho: (C1) of
/// README.md.
class AugmentedCost final : public Cost {
 public:
  /// What both must outlive. @param N  horizon.
  AugmentedCost(const mjModel* model, const Cost& cost, const ConstraintSet& constraints, int N);

  double Value(const KnotView& knot) const override;
  void Expand(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const override;
  void Gradient(const KnotView& knot, KnotGradient* out) const override;
  bool NeedsSensors() const override { return needs_sensors_; }
  void MarkSensors(std::vector<char>* read) const override;
  double LowerBound(int t) const override;
  /// Those of the cost, then of each constraint what its violation and multipliers add.
  std::vector<CostTermValue> Terms(const Trajectory& trajectory) const override;
  std::vector<std::string> TermsWithoutSlope(const KnotView& knot) const override {
    return cost_.TermsWithoutSlope(knot);
  }
  void Observe(const Trajectory& trajectory, double dt, IterationRecord* record) const override;

  /// The same with its parts. @param parts  null: only the whole.
  void Expand(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out, AugmentedKnot* parts) const;

  /// What the next multipliers would change: (½ rho ‖y - lambda / rho‖² summed) of the trajectory that Observe saw
  /// last.
  double unsettled() const { return unsettled_; }

  /// Of each constraint, the largest Unsettled.
  VectorXd Residuals(const Trajectory& trajectory, double dt) const;

  /// lambda = rho y of a trajectory: (C2).
  void UpdateMultipliers(const Trajectory& trajectory, double dt);

  std::vector<MatrixXd> lambda;  ///< of each constraint, components × (N+1)
  VectorXd rho;                  ///< of each constraint

 private:
  void FindBounds(int i, const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, KnotBounds* bounds) const;
  void AddActive(int i, const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const;
  void AddCurvature(int i, const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const;
  void AddStart(int i, const KnotView& knot, CostExpansion* out) const;
  void Measure(const Trajectory& trajectory, double dt) const;
  int Shift(int i, const KnotView& knot, VectorXd* y) const;  // y; how many of its entries are not zero
  template <typename Visit>                                   // visit(i, t, y) at each knot at which a constraint is
  void ForKnots(const Trajectory& trajectory, double dt, Visit visit) const;

  int ndx_;
  const Cost& cost_;
  const ConstraintSet& constraints_;
  bool needs_sensors_ = false;
  mutable double unsettled_ = 0;
  mutable VectorXd residuals_;
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_AUGMENTED_COST_H_
