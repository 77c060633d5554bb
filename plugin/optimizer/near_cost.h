// Motions near another one, within constraints that it misses: README.md, "Back within constraints".
#ifndef COSTATE_OPTIMIZER_NEAR_COST_H_
#define COSTATE_OPTIMIZER_NEAR_COST_H_

#include <costate/constraint.h>
#include <costate/solve.h>

#include <string>
#include <vector>

namespace costate {

/// What a motion costs in another's neighbourhood: (B2) of README.md.
class NearCost final : public Cost {
 public:
  /// What must outlive it: the problem's model and cost, and U. @param U, x0  of the neighbour.  @param unit  of
  /// controls (nu).  @param weight  w [1/s].  @param own  the problem's own cost is part of it.
  NearCost(const Problem& problem, const MatrixXd& U, const VectorXd& x0, const VectorXd& unit, double weight,
           bool own);

  double Value(const KnotView& knot) const override;
  void Expand(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const override;
  void Gradient(const KnotView& knot, KnotGradient* out) const override;
  bool NeedsSensors() const override { return own_ && cost_.NeedsSensors(); }
  void MarkSensors(std::vector<char>* read) const override {
    if (own_) cost_.MarkSensors(read);
  }
  double LowerBound(int t) const override { return own_ ? cost_.LowerBound(t) : 0; }
  std::vector<CostTermValue> Terms(const Trajectory& trajectory) const override { return cost_.Terms(trajectory); }
  std::vector<std::string> TermsWithoutSlope(const KnotView& knot) const override {
    return cost_.TermsWithoutSlope(knot);
  }
  void Observe(const Trajectory& trajectory, double dt, IterationRecord* record) const override;

 private:
  const Cost& cost_;
  const MatrixXd& U_;
  VectorXd weights_;  // of each control [1/s]
  bool own_, free_start_;
  QuadraticCost start_;  // as of a last knot
  int ndx_;
};

/// A motion, and the kicks by which one of several solves side by side leaves it.
struct NearSolve {
  const SolveResult* from = nullptr;
  VectorXd unit;                  ///< of kicks (nu)
  std::vector<MatrixXd> kicks{};  ///< of its controls: the first one of the step, the others of ways back
  double weight = 1;              ///< of the step, in terms of what the motion costs a second
};

/// Where the motion misses the constraints: one near it that keeps them. Else a step to a cheaper motion near it, and
/// where that one misses them one near that, which keeps them. cost and violation of the result are the problem's; it
/// has no multipliers and no gradient norms, which would be those of (B2). Its policy is that of (B2).
/// @param options  options.iterations bounds the iterations in all.
SolveResult SolveNear(const Problem& problem, const NearSolve& near, const IlqrOptions& options,
                      const ConstrainedOptions& constrained, const IterationCallback& callback);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_NEAR_COST_H_
