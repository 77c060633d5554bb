// Cost that no control changes: a box that the robot has not touched yet. README.md, "Basin hopping".
#ifndef COSTATE_OPTIMIZER_UNTOUCHED_H_
#define COSTATE_OPTIMIZER_UNTOUCHED_H_

#include <string>
#include <vector>

#include <costate/solver.h>

namespace costate {

struct Untouched {
  std::vector<std::string> terms;
  double cost = 0;  ///< of them all
  VectorXd slope;   ///< of that cost by the tangent of the motion's start (ndx); empty without terms
};

/// Terms of problem.cost that make up a tenth of it or more along a motion, and whose own slope by each control (and by
/// a start that is free), in its unit of kicks, is at most `slope` of the term: zero to rounding, if not given. None
/// where the cost has no terms, or there is no adjoint.
///
/// Cost: one adjoint sweep a term of that size.
Untouched FindUntouched(const Problem& problem, const Trajectory& motion, double slope = 1e-10);

/// Are there no contacts at any knot of the motion?
bool TouchesNothing(const Problem& problem, const Trajectory& motion);

/// Their names.
std::vector<std::string> UntouchedTerms(const Problem& problem, const Trajectory& motion, double slope = 1e-10);

/// Of a solve that has converged: all the slopes that there are may be zero, and most of the cost still be where it was.
/// It has then stalled, and says so. @return  their names.
std::vector<std::string> SayUntouched(const Problem& problem, SolveResult* result);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_UNTOUCHED_H_
