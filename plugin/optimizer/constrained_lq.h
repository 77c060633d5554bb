// The linear-quadratic problem of one iteration within linearized constraints: an augmented Lagrangian whose
// multipliers are found before a step is taken.
#ifndef COSTATE_OPTIMIZER_CONSTRAINED_LQ_H_
#define COSTATE_OPTIMIZER_CONSTRAINED_LQ_H_

#include <costate/lqr.h>

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

  /// Solves the problem of the last expansion: augmented.lambda changes until the linearized constraints hold at the
  /// predicted motion, by some rounds of the recursion; out has policy and promise of the last one: (C5) … (C7) of
  /// README.md. augmented.rho is chosen where a constraint holds for the first time: (C8).
  /// @param lq  as the expansion left it; its gradients and Hessians are overwritten.
  void Solve(LqProblem* lq, double regularization, RiccatiResult* out);

  /// The last Solve found multipliers of the linearized constraints; else it left them as they were.
  bool exact() const { return exact_; }

  AugmentedCost augmented;

 private:
  struct Rows {
    VectorXd c, z, y;  // value; shifted value and what it is out of bounds by at the predicted motion
    VectorXd pull;     // rho times the model's y at dx = 0, for active rows
    MatrixXd J, Ju, DJ, DJu;
    std::vector<char> active;
    bool holds = false;
  };
  struct Base {
    VectorXd lx, lu;
    MatrixXd lxx, lux, luu;
    VectorXd du_lower, du_upper;
  };

  Rows& At(int t, int i) const { return rows_[static_cast<std::size_t>(t * constraints_.size() + i)]; }
  void Keep(const LqProblem& lq);
  bool Activate();
  void Restore(LqProblem* lq) const;
  void Impose(int t, VectorXd* lx, MatrixXd* lxx, LqKnot* knot);
  void MoveToPrediction(LqProblem* lq, double regularization) const;
  void MovePolicyBack(RiccatiResult* riccati) const;
  bool Predict(const LqProblem& lq, const RiccatiResult& riccati);
  double CurvatureAcross(const LqProblem& lq, const RiccatiResult& riccati, int t, const Rows& rows, Eigen::Index k);
  void ScalePenalties(const LqProblem& lq, double regularization, RiccatiResult* out);
  double Residual();
  void UpdateMultipliers();
  bool Recur(LqProblem* lq, double regularization, bool from_prediction, RiccatiResult* out);
  void Begin();
  bool Refine(LqProblem* lq, double regularization, bool from_prediction, RiccatiResult* out);
  void Promise(RiccatiResult* out);

  const Cost& cost_;
  const ConstraintSet& constraints_;
  int N_;
  double tolerance_;
  mutable std::vector<Rows> rows_;  // knot by knot; each is written where its knot is expanded
  mutable const Trajectory* seen_ = nullptr;
  mutable bool fresh_ = false;  // lq is as the expansion left it
  std::vector<Base> base_;      // N + 1
  MatrixXd dX_, dU_;            // the predicted motion
  VectorXd largest_multiplier_, residual_, lxx_dx_, luu_du_, du_;
  bool bounds_changed_ = false;    // by the last prediction
  std::vector<char> scaled_;       // of each constraint, whether its penalty is chosen
  std::vector<int> across_knots_;  // memory of that choice
  VectorXd across_x_, across_u_, across_moved_;
  std::vector<MatrixXd> lambda_;  // before Refine
  bool exact_ = false;
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_CONSTRAINED_LQ_H_
