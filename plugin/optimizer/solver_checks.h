// What every solver refuses before it starts.
#ifndef COSTATE_OPTIMIZER_SOLVER_CHECKS_H_
#define COSTATE_OPTIMIZER_SOLVER_CHECKS_H_

#include <costate/solver.h>

namespace costate {

/// @throws Error{kInvalidArgument} when the problem lacks a model, cost, degree of freedom, actuator or horizon, holds a
///         number that is not finite or limits that exclude each other; Error{kDimensionMismatch} for a wrong size.
void CheckProblem(const Problem& problem, ConstMatrixRef U);

/// @throws Error{kInvalidArgument} for a start that is not finite, by the name of its entry.
void CheckFiniteStart(const mjModel* model, ConstVectorRef x0);
/// @throws Error{kUnsupported} for an actuator that acts late: a control on its way is no part of x, and B would not know it.
void RefuseDelays(const mjModel* model, const char* solver);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_SOLVER_CHECKS_H_
