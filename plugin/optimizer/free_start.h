// A start that may move, for all solvers that move it. README.md, "A free start".
#ifndef COSTATE_OPTIMIZER_FREE_START_H_
#define COSTATE_OPTIMIZER_FREE_START_H_

#include <costate/lqr.h>
#include <costate/solver.h>

namespace costate {

inline bool HasFreeStart(const Problem& problem) { return !problem.free_start.entries.empty(); }

/// x0 ⊕ d with what of x ⊖ x0 is free and within its bounds; x0 to the last bit where that is nothing.
VectorXd NearestStart(const Problem& problem, ConstVectorRef x);

/// Where a search begins: x0, or the start nearest to free_start.guess.
VectorXd FirstStart(const Problem& problem);

/// lq->start of steps from a motion's start x: what is free and how far its bounds are, and how the cost at the end
/// reads x_0.
/// @param last  at knot N; l0, l0x and l00 change places with those of lq.
void TakeStart(const Problem& problem, ConstVectorRef x, CostExpansion* last, LqProblem* lq);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_FREE_START_H_
