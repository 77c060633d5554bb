#include <costate/constraint.h>
#include <costate/fddp.h>
#include <costate/solve.h>

#include <memory>

#include "optimizer/fddp.h"

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

  // fddp goes on after each update of the multipliers: states are a guess once
  std::unique_ptr<Fddp> fddp;
  const InnerSolver inner = [&](const Problem& p, ConstMatrixRef U, const IlqrOptions& o, const IterationCallback& c) {
    if (o.type != SolverType::kFddp) return SolveUnconstrained(p, {guess.X, U}, o, c);
    if (fddp) return fddp->Resume(o.iterations, c);
    CheckFddp(p, guess.X, U, o);
    fddp = std::make_unique<Fddp>(p, o);
    return fddp->Run(guess.X, U, c);
  };
  return SolveConstrained(problem, guess.U, options, constrained, callback, inner);
}

}  // namespace costate
