// What is minimized: a sum over knots of l(x, u, s), with its Gauss–Newton expansion.
#ifndef COSTATE_COST_H_
#define COSTATE_COST_H_

#include <limits>
#include <string>
#include <vector>

#include <costate/loss.h>
#include <costate/report.h>

namespace costate {

/// Second-order model of one knot's cost in (dx, du); luu and the others are the Gauss–Newton part, hence lxx ⪰ 0.
struct CostExpansion {
  double l = 0;
  VectorXd lx, lu;
  MatrixXd lxx, lux, luu;  ///< ndx×ndx, nu×ndx, nu×nu; lu, lux, luu are empty at t == N
  VectorXd l0;             ///< at t == N, where the end is tied to the start: slope by dx_0 (ndx); else empty
  MatrixXd l0x, l00;       ///< by dx_0 and dx_N, and by dx_0 twice (ndx×ndx); empty without l0
};

/// A cost over a trajectory. Implementations are immutable while a solver runs and safe to call from many threads.
class Cost : public Loss {
 public:
  /// By Expand; a cost that reads sensors has to give its own. @throws Error{kUnsupported} where it does not.
  void Gradient(const KnotView& knot, KnotGradient* out) const override;

  /// Of Expand where no sensors are read; a cost that reads them gives its own, else it is Loss's.
  void GaussNewtonProduct(const mjModel* model, const KnotView& knot, const KnotGradient& direction,
                          KnotGradient* out) const override;

  /// Value and derivatives; C (ns×ndx) and D (ns×nu, empty at t == N) carry sensor derivatives back to (x, u).
  virtual void Expand(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const = 0;

  /// The sum over all knots, term by term.
  virtual std::vector<CostTermValue> Terms(const Trajectory& trajectory) const = 0;

  /// What l_t is never below, whatever the motion: 0 for a sum of squares; by default nothing is known. With it a line
  /// search ends a rollout as soon as no further knot can make it good.
  virtual double LowerBound(int /*t*/) const { return -std::numeric_limits<double>::infinity(); }

  /// Solvers call it after each iteration, from one thread: a cost that stands for another one (an augmented
  /// Lagrangian) corrects the record's cost and violation. @param dt  the control interval [s].
  virtual void Observe(const Trajectory&, double /*dt*/, IterationRecord*) const {}
};

/// J = Σ_t l_t over the whole trajectory; `dt` is the control interval.
double TotalCost(const Cost& cost, const Trajectory& trajectory, double dt, std::vector<double>* per_knot = nullptr);

/// J = Σ_{t<N} dt (½ dxᵀ Q dx + ½ uᵀ R u) + ½ dxᵀ Qf dx with dx = x ⊖ x_goal: no sensors needed.
/// The model must outlive it. Q, R, Qf: ndx×ndx, nu×nu, ndx×ndx; their symmetric part counts.
/// @throws Error{kDimensionMismatch}; Error{kInvalidArgument} for a NaN.
class QuadraticCost final : public Cost {
 public:
  QuadraticCost(const mjModel* model, VectorXd x_goal, MatrixXd Q, MatrixXd R, MatrixXd Qf);
  double Value(const KnotView& knot) const override;
  void Expand(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const override;
  bool NeedsSensors() const override { return false; }
  double LowerBound(int t) const override { return positive_ ? 0 : Cost::LowerBound(t); }
  std::vector<CostTermValue> Terms(const Trajectory& trajectory) const override;

 private:
  bool positive_ = true;  ///< no matrix has a negative pivot
  const mjModel* model_;
  VectorXd x_goal_;
  MatrixXd Q_, R_, Qf_;
  struct Quaternion {
    int qpos, dof;
  };
  std::vector<Quaternion> quaternions_;  ///< where x ⊖ x_goal has a Jacobian other than 1
};

}  // namespace costate

#endif  // COSTATE_COST_H_
