// The linear-quadratic problem of one iteration within linearized constraints: an augmented Lagrangian whose
// multipliers are found before a step is taken.
#ifndef COSTATE_OPTIMIZER_CONSTRAINED_LQ_H_
#define COSTATE_OPTIMIZER_CONSTRAINED_LQ_H_

#include <costate/lqr.h>

#include <cmath>
#include <vector>

#include "optimizer/augmented_cost.h"

namespace costate {

/// To a solver the augmented Lagrangian (C1) of a cost and its constraints; but its expansion is that of the cost
/// alone, beside which each knot's constraints c + J dx + Ju du are kept for Solve.
class ConstrainedLq final : public Cost {
 public:
  /// What all must outlive. @param N  horizon.  @param tolerance  of violations, relative as in ConstrainedOptions.
  ConstrainedLq(const mjModel* model, const Cost& cost, const ConstraintSet& constraints, int N, double tolerance);

  double Value(const KnotView& knot) const override { return augmented.Value(knot); }
  void Gradient(const KnotView& knot, KnotGradient* out) const override { augmented.Gradient(knot, out); }
  void Expand(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const override;
  bool NeedsSensors() const override { return augmented.NeedsSensors(); }
  void MarkSensors(std::vector<char>* read) const override { augmented.MarkSensors(read); }
  double LowerBound(int t) const override { return augmented.LowerBound(t); }
  std::vector<CostTermValue> Terms(const Trajectory& trajectory) const override { return augmented.Terms(trajectory); }
  std::vector<std::string> TermsWithoutSlope(const KnotView& knot) const override {
    return cost_.TermsWithoutSlope(knot);
  }
  void Observe(const Trajectory& trajectory, double dt, IterationRecord* record) const override {
    augmented.Observe(trajectory, dt, record);
    seen_ = &trajectory;
  }

  /// The motion after the last iteration, in its callback; null before one.
  const Trajectory* seen() const { return seen_; }

  /// Solves the problem of the last expansion: augmented.lambda becomes such that the linearized constraints hold at the
  /// predicted motion, as far as any controls keep them; out has the policy there and its promise: (C5) … (C7e) of
  /// README.md. augmented.rho follows the multipliers: (C8). Regularization counts as ½ mu ‖du‖² of the cost.
  /// @param lq  as the expansion left it; its gradients and Hessians are overwritten.
  void Solve(LqProblem* lq, double regularization, RiccatiResult* out);

  /// The last Solve found multipliers of the linearized constraints; else it left them as they were.
  bool exact() const { return exact_; }

  AugmentedCost augmented;

 private:
  struct Rows {
    VectorXd c, z, y;       // value; shifted value and what it is out of bounds by at the predicted motion
    VectorXd pull, weight;  // slope and curvature of what the cost has added by c, at dx = 0
    MatrixXd J, Ju, DJ, DJu;
    std::vector<char> active;
    bool holds = false;
  };
  struct Base {
    VectorXd lx, lu;
    MatrixXd lxx, lux, luu;
    VectorXd du_lower, du_upper;
  };

  // one side of a row, or of a control, on the way to the solution: sign z + s - v = bound, (C7b)
  struct Barrier {
    int t = 0, i = -1, k = 0;  // knot, constraint or -1, row or control
    double sign = 1, bound = 0;
    double below = 0, above = INFINITY;  // what |lambda| is less than on either side
    double stiff_s = 0, stiff_v = 0;
    double s = 0, v = 0, lambda = 0;
    double weight = 0, shift = 0;  // of the step: dlambda = weight (sign z + shift)
    double ds = 0, dv = 0, dlambda = 0;

    double dual_s() const { return lambda + below + stiff_s * s; }
    double dual_v() const { return above - lambda + stiff_v * v; }
    bool gives() const { return std::isfinite(above); }  // a control does not
  };

  Rows& At(int t, int i) const { return rows_[static_cast<std::size_t>(t * constraints_.size() + i)]; }
  void Keep(const LqProblem& lq);
  void Restore(LqProblem* lq) const;
  void Impose(int t, VectorXd* lx, MatrixXd* lxx, LqKnot* knot);
  void ImposeRows(LqProblem* lq);
  static void AddProximal(double regularization, LqProblem* lq);
  void Promise(RiccatiResult* out);
  bool IsDescent(RiccatiResult* out);

  // constrained_lq_scale.cc: how much things count
  double Scale(int i) const;
  double CurvatureAcross(const LqProblem& lq, const RiccatiResult& riccati, int t, const Rows& rows, Eigen::Index k);
  void FindCurvatures(const LqProblem& lq, double regularization, RiccatiResult* out);
  double LargestMultiplier(int i) const;
  void LimitMultipliers(LqProblem* lq, double regularization, RiccatiResult* out);
  bool AreWithinLimits() const;
  double Stiffness(int i) const;
  double PenaltyOf(int i) const;
  void FollowMultipliers();

  // rounds of recursion and multipliers
  bool Activate();
  void MoveToPrediction(LqProblem* lq, double regularization) const;
  void MovePolicyBack(RiccatiResult* riccati) const;
  bool Predict(const LqProblem& lq, const RiccatiResult& riccati);
  double Residual() const;
  void UpdateMultipliers();
  void Begin();
  bool Recur(LqProblem* lq, double regularization, RiccatiResult* out);
  bool Refine(LqProblem* lq, double regularization, RiccatiResult* out);

  // constrained_lq_barriers.cc: where these do not end
  double FirstBarrier() const;
  void PlaceBarriers(double mu);
  void PlaceSides(Barrier side, double c, double lower, double upper, double room, double mu);
  void ImposeBarriers(double mu, double regularization, LqProblem* lq);
  void FollowPolicy(const LqProblem& lq, const RiccatiResult& riccati);
  double StepBarriers(double mu);
  double Gap() const;
  bool SolveByBarriers(LqProblem* lq, double regularization, RiccatiResult* out);
  bool EaseEnds();
  bool FollowPath(LqProblem* lq, double regularization, RiccatiResult* out);

  const Cost& cost_;
  const ConstraintSet& constraints_;
  int N_;
  double tolerance_;
  mutable std::vector<Rows> rows_;  // knot by knot; each is written where its knot is expanded
  mutable const Trajectory* seen_ = nullptr;
  mutable bool fresh_ = false;   // lq is as the expansion left it
  std::vector<Base> base_;       // N + 1
  MatrixXd dX_, dU_;             // the predicted motion
  VectorXd across_;              // of each constraint, (C8); 0: nothing has moved it so far
  VectorXd largest_multiplier_;  // of each constraint, where no controls keep it
  bool exact_ = false;

  // memory
  VectorXd lxx_dx_, luu_du_, du_, across_x_, across_u_, across_moved_;
  std::vector<int> across_knots_;
  std::vector<MatrixXd> lambda_;  // before Solve
  std::vector<Barrier> barriers_;
  MatrixXd ahead_X_, ahead_U_;  // where a step of the barriers would lead
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_CONSTRAINED_LQ_H_
