// The unit in which solvers count what is not relative to a cost by itself. README.md, "The unit of the cost".
#ifndef COSTATE_OPTIMIZER_COST_UNIT_H_
#define COSTATE_OPTIMIZER_COST_UNIT_H_

#include <costate/ilqr.h>

namespace costate {

/// A hundred times the geometric mean of Quu's diagonal over knots and controls, without regularization; 1 where no
/// entry is positive.
double CostUnit(const LqProblem& lq);

/// The same about a motion of the problem; 0 where a derivative fails.
double CostUnit(const Problem& problem, const Trajectory& motion, const IlqrOptions& options);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_COST_UNIT_H_
