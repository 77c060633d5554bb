#include <costate/constraint.h>
#include <costate/fddp.h>
#include <costate/solve.h>

#include <algorithm>
#include <memory>

#include "optimizer/fddp.h"
#include "optimizer/force_cost.h"
#include "optimizer/free_start.h"
#include "optimizer/go_on.h"

namespace costate {
namespace {

SolveResult SolveUnconstrained(const Problem& problem, const Guess& guess, const IlqrOptions& options,
                               const IterationCallback& callback) {
  if (options.type == SolverType::kFddp) {
    CheckFddp(problem, guess.X, guess.U, options);
    return Fddp(problem, options).Run(guess.X, guess.U, callback, guess.state);
  }
  if (guess.X.size() > 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "ilqr starts from controls alone, the guess has states too: fddp takes them");
  }
  if (options.second_order) {
    throw Error(ErrorCode::kInvalidArgument, "ilqr has no second-order terms of the dynamics: fddp has");
  }
  SolveResult result = SolveIlqr(problem, guess.U, options, callback);
  result.state.U = result.trajectory.U;
  if (HasFreeStart(problem)) result.state.x0 = result.trajectory.X.col(0);
  return result;
}

}  // namespace

SolveResult Solve(const Problem& problem, const Guess& guess, const IlqrOptions& given,
                  const IterationCallback& callback, const ConstrainedOptions& constrained) {
  // what goes on from another solve
  IlqrOptions options = StaysStopped(given);
  ConstrainedOptions outer = constrained;
  if (const SolveState* state = guess.state) {
    if (state->regularization >= 0 && state->costates.size() == 0) {  // fddp's is another one
      options.regularization_init = std::min(state->regularization, options.regularization_max);
      options.regularization_by_step_init = std::min(state->regularization_by_step, options.regularization_max);
    }
    if (!state->multipliers.empty()) outer.multipliers = state->multipliers;
    if (state->penalties.size() > 0) outer.penalties = state->penalties;
    if (state->residuals.size() > 0) outer.residuals = state->residuals;
    if (state->tokens.size() > 0) outer.tokens = state->tokens;
  }
  if (!problem.constraints || problem.constraints->size() == 0)
    return SolveUnconstrained(problem, guess, options, callback);

  // fddp goes on after each update of the multipliers: states are a guess once
  std::unique_ptr<Fddp> fddp;
  const InnerSolver inner = [&](const Problem& p, ConstMatrixRef U, const IlqrOptions& o, const IterationCallback& c) {
    if (o.type != SolverType::kFddp) return SolveUnconstrained(p, {guess.X, U}, o, c);
    if (fddp) return fddp->Resume(o.iterations, o.tolerance, c);
    CheckFddp(p, guess.X, U, o);
    fddp = std::make_unique<Fddp>(p, o);
    return fddp->Run(guess.X, U, c, guess.state);
  };
  const bool around =
      outer.force_weight >= 0 && options.leave_saddles && !guess.state && options.type == SolverType::kIlqr;
  IlqrOptions plain = options;
  if (around && outer.force_weight > 0) plain.iterations = 0;  // what the guess costs
  SolveResult result = SolveConstrained(problem, guess.U, plain, outer, callback, inner);
  if (!around) return result;
  int before = static_cast<int>(result.iterations.size());
  const ConstrainedSolver further = [&](const Problem& p, const Guess& from, int iterations,
                                        const ConstrainedOptions& within) {
    IlqrOptions rest = options;
    rest.iterations = iterations;
    const IterationCallback count_on = [&, before](IterationRecord record) {
      record.iteration += before;
      return !callback || callback(record);
    };
    SolveResult led = SolveConstrained(p, from.U, rest, within, count_on, inner);
    for (IterationRecord& record : led.iterations) record.iteration += before;
    before += static_cast<int>(led.iterations.size());
    return led;
  };
  return SolveAroundForceLimits(problem, guess, options, outer, further, std::move(result));
}

}  // namespace costate
