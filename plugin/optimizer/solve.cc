#include <costate/constraint.h>
#include <costate/fddp.h>
#include <costate/solve.h>

namespace costate {
namespace {

SolveResult SolveUnconstrained(const Problem& problem, const Guess& guess, const IlqrOptions& options,
                               const IterationCallback& callback) {
  if (options.type == SolverType::kFddp) return SolveFddp(problem, guess.X, guess.U, options, callback);
  if (guess.X.size() > 0) {
    throw Error(ErrorCode::kInvalidArgument, "ilqr starts from controls alone, the guess has states too: fddp takes them");
  }
  if (options.second_order) {
    throw Error(ErrorCode::kInvalidArgument, "ilqr has no second-order terms of the dynamics: fddp has");
  }
  return SolveIlqr(problem, guess.U, options, callback);
}

}  // namespace

SolveResult Solve(const Problem& problem, const Guess& guess, const IlqrOptions& options,
                  const IterationCallback& callback, const ConstrainedOptions& constrained) {
  if (!problem.constraints || problem.constraints->size() == 0) return SolveUnconstrained(problem, guess, options, callback);

  // states are a guess once: then there is a motion
  Guess from = guess;
  const InnerSolver inner = [&](const Problem& p, ConstMatrixRef U, const IlqrOptions& o, const IterationCallback& c) {
    from.U = U;
    SolveResult result = SolveUnconstrained(p, from, o, c);
    from.X.resize(0, 0);
    return result;
  };
  return SolveConstrained(problem, guess.U, options, constrained, callback, inner);
}

}  // namespace costate
