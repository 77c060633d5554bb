// A way round the limits of forces: constraints kept first at a cost of forces. README.md, "Forces at their limits".
#ifndef COSTATE_OPTIMIZER_FORCE_COST_H_
#define COSTATE_OPTIMIZER_FORCE_COST_H_

#include <costate/constraint.h>
#include <costate/solve.h>

#include <functional>
#include <vector>

#include "optimizer/added_cost.h"
#include "optimizer/force_limits.h"

namespace costate {

/// A cost and one of forces beyond a part of their limits, as they were without these: (I6) of README.md.
class ForceCost final : public AddedCost {
 public:
  /// What both must outlive. @param weight  a second, of a force as far again from the middle of its limits: half of
  /// it.
  ForceCost(const Cost& cost, const ForceLimits& forces, double weight, double part);

  double Value(const KnotView& knot) const override;
  void Expand(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const override;
  void Gradient(const KnotView& knot, KnotGradient* out) const override;
  std::vector<CostTermValue> Terms(const Trajectory& trajectory) const override;

 private:
  double Beyond(const ForceLimits::Drive& d, const KnotView& knot) const;

  const ForceLimits& forces_;
  double weight_, part_;
};

/// Solves a problem within constraints.
using ConstrainedSolver = std::function<SolveResult(const Problem& problem, const Guess& guess, int iterations,
                                                    const ConstrainedOptions& constrained)>;

/// `first`, or where it misses the constraints with forces at their limits, the better of it and of what is found
/// without these limits and then within them by a ForceCost that grows: README.md, (I6).
/// @param guess    where it begins: from a motion at the limits it would seldom lead away.
/// @param options  as of `first`; three times as many iterations again at most.
SolveResult SolveAroundForceLimits(const Problem& problem, const Guess& guess, const IlqrOptions& options,
                                   const ConstrainedOptions& constrained, const ConstrainedSolver& solve,
                                   SolveResult first);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_FORCE_COST_H_
