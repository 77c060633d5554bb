// Bounds on controls by a primal-dual logarithmic barrier. README.md, "Multiple shooting", eq. (13) … (15).
#ifndef COSTATE_OPTIMIZER_CONTROL_BARRIER_H_
#define COSTATE_OPTIMIZER_CONTROL_BARRIER_H_

#include <costate/types.h>

namespace costate {

/// -mu Σ (log(u - lower) + log(upper - u)) over finite bounds, and the estimates z of their multipliers.
class ControlBarrier {
 public:
  /// @param lower, upper  nu; ±infinity where there is no bound. Where both are equal the caller holds the control.
  ControlBarrier(ConstVectorRef lower, ConstVectorRef upper, int N);

  int bounds() const { return bounds_; }  ///< finite ones, all knots
  double mu() const { return mu_; }
  double Gap() const { return bounds_ * mu_; }  ///< cost that the barrier keeps from the optimum of a convex problem

  /// U well between the bounds: a share of the range away from each.
  MatrixXd Inside(ConstMatrixRef U) const;

  /// The smallest distance of U to a bound; infinite without bounds, not positive where a control lies at one.
  double Distance(ConstMatrixRef U) const;

  /// z = mu / distance. @param unit  of the cost.
  void Start(ConstMatrixRef U, double mu, double unit);

  double Value(ConstMatrixRef U) const;
  double Slope(ConstMatrixRef U, int i, int t) const;      ///< of the barrier by u_i
  double Curvature(ConstMatrixRef U, int i, int t) const;  ///< primal-dual: z / distance

  /// Bounds of a step from U: it goes at most the share tau of the way to each bound.
  void StepLimits(ConstMatrixRef U, MatrixXd* lower, MatrixXd* upper) const;

  /// The multipliers' Newton step for dU, as far as they stay positive; then into the neighbourhood of the central path
  /// at the controls that were reached.
  void Move(ConstMatrixRef U, ConstMatrixRef dU, ConstMatrixRef reached);

  /// Largest of |Qu - z_lower + z_upper| and |z distance - mu|. @param slope  of the cost by each control (nu × N).
  double Error(ConstMatrixRef U, ConstMatrixRef slope) const;

  /// mu ← max(least, min(mu / 5, mu^1.5)), the power in units of the cost.
  void Shrink(double least);

 private:
  template <typename Use>
  void ForEach(ConstMatrixRef U, Use use) const;

  VectorXd lower_, upper_;
  int N_, bounds_ = 0;
  double mu_ = 0, unit_ = 1;
  MatrixXd z_lower_, z_upper_, dz_lower_, dz_upper_;
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_CONTROL_BARRIER_H_
