// The linear-quadratic problem about a motion.
#ifndef COSTATE_OPTIMIZER_EXPANDER_H_
#define COSTATE_OPTIMIZER_EXPANDER_H_

#include <costate/lqr.h>
#include <costate/solver.h>

#include <string>
#include <vector>

#include "optimizer/bounds_ahead.h"
#include "optimizer/force_limits.h"

namespace costate {

/// Derivatives of step and cost at all knots, in parallel; its memory is kept.
class Expander {
 public:
  /// All must outlive it. @param derivative  how A, B, C, D are had; sensors are set.
  Expander(const Problem& problem, Simulator* simulator, const LinearizeOptions& derivative);

  /// @param lq  receives the problem, with the bounds that `problem` leaves du and a start that may move.
  /// @param limits  with controls that are at their force's limit as ForceLimits has them.
  /// @return    the first knot without a derivative, or -1; N + 1 where the simulator was stopped.
  int Expand(const Trajectory& motion, LqProblem* lq, bool limits = false);
  const ForceLimits& forces() const { return forces_; }

  /// Of the last motion; null where the cost has no constraints in it.
  BoundsAhead* bounds() { return augmented_ ? &bounds_ : nullptr; }

  bool stopped() const { return stopped_; }
  StepStatus status(int knot) const { return failed_[static_cast<std::size_t>(knot)]; }

 private:
  const Problem& problem_;
  Simulator* simulator_;
  LinearizeOptions derivative_;
  VectorXd unit_;  // LqProblem::unit
  bool bounded_, stopped_ = false;
  ForceLimits forces_;
  const AugmentedCost* augmented_;  // null: the cost is another one
  BoundsAhead bounds_;
  std::vector<CostExpansion> expansions_;  // one a worker
  CostExpansion last_;                     // of the last knot, which has other sizes
  std::vector<StepStatus> failed_;         // of the derivative at each knot
};

/// Why the backward pass fails at a knot, whatever the regularization: by a knot behind it that has no finite expansion,
/// with the names of cost terms, where there is one. @param dt  the control interval [s].
std::string BackwardFailsText(const Problem& problem, const Trajectory& motion, const LqProblem& lq, double dt,
                              int failed_knot, double regularization);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_EXPANDER_H_
