// One entry to all trajectory optimizers.
#ifndef COSTATE_SOLVE_H_
#define COSTATE_SOLVE_H_

#include <costate/constraint.h>

namespace costate {

/// What a solver starts from.
struct Guess {
  MatrixXd X{};  ///< nx × (N+1), for solvers that take states (fddp); empty: the motion under U
  MatrixXd U;    ///< nu × N
  /// SolveResult::state of a solve that goes on: its costates and barrier (fddp), and, where they are there, its
  /// regularization, multipliers and penalties in place of the options'. X and U are those above, the start is
  /// problem.free_start.guess.
  const SolveState* state = nullptr;
};

/// Minimizes problem.cost by the solver that options.type names; where the problem has constraints, by SolveConstrained
/// around it.
/// @throws Error as that solver; Error{kInvalidArgument} for an option or a guess that it has no use for.
SolveResult Solve(const Problem& problem, const Guess& guess, const IlqrOptions& options = {},
                  const IterationCallback& callback = {}, const ConstrainedOptions& constrained = {});

}  // namespace costate

#endif  // COSTATE_SOLVE_H_
