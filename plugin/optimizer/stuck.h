// When rounds of kicked controls follow a solve. README.md, "Basin hopping".
#ifndef COSTATE_OPTIMIZER_STUCK_H_
#define COSTATE_OPTIMIZER_STUCK_H_

#include <costate/basin_hopping.h>
#include <costate/solver.h>

#include <cmath>
#include <string>
#include <vector>

#include "optimizer/untouched.h"

namespace costate {

/// It ended where another motion nearby may lead further: at a kink, or with constraints that no step keeps better.
inline bool IsStuck(SolveStatus status) {
  return status == SolveStatus::kStalled || status == SolveStatus::kInfeasible;
}

/// It never left a guess that costs something which no control changes to first order: a symmetric motion, or one that
/// touches nothing yet.
inline bool IsStuckAtGuess(const SolveResult& result) {
  constexpr double kNoSlope = 1e-13;  // relative: what rounding leaves of a gradient that is zero
  return result.status == SolveStatus::kConverged && result.cost == result.initial_cost && result.cost != 0 &&
         result.gradient_norm <= kNoSlope * std::abs(result.cost);
}

/// A solve without a kink or constraint that has gained next to nothing.
inline bool HasNotMoved(const Problem& problem, const SolveResult& result) {
  constexpr double kUnmoved = 0.999;
  const bool constrained = problem.constraints && problem.constraints->size() > 0;
  return result.status == SolveStatus::kConverged && !constrained && result.cost > kUnmoved * result.initial_cost;
}

inline constexpr double kHardlyASlope = 1e-3;  // in terms of what is measured

/// Terms that such a solve has left where they were, as no control moves them by much.
inline std::vector<std::string> HardlyMoved(const Problem& problem, const SolveResult& result) {
  if (!HasNotMoved(problem, result)) return {};
  return UntouchedTerms(problem, result.trajectory, kHardlyASlope);
}

/// What it costs is hardly less than the guess.
inline bool HasHardlyGained(const SolveResult& result) {
  constexpr double kHardlyLess = 0.9;
  return result.cost > kHardlyLess * result.initial_cost;
}

/// Some of what it costs is changed by no control, or, where next to nothing was gained, by less than a thousandth.
inline bool LeavesUntouched(const Problem& problem, const SolveResult& result) {
  const bool unmoved = HasNotMoved(problem, result);
  return !(unmoved ? UntouchedTerms(problem, result.trajectory, kHardlyASlope)
                   : UntouchedTerms(problem, result.trajectory))
              .empty();
}

/// Stuck in one of the two ways, or with what is not touched.
inline bool IsStuck(const Problem& problem, const SolveResult& result) {
  return IsStuck(result.status) || IsStuckAtGuess(result) ||
         (result.status == SolveStatus::kConverged && LeavesUntouched(problem, result));
}

/// May one plain solve be all, without rounds behind it?
inline bool MayBeOneSolve(const BasinHoppingOptions& hopping) {
  return hopping.rounds == 0 || (hopping.after_solve && hopping.when_stuck);
}

/// Are there no rounds behind this solve?
inline bool IsEnough(const BasinHoppingOptions& hopping, const Problem& problem, const SolveResult& result) {
  return MayBeOneSolve(hopping) && (hopping.rounds == 0 || !IsStuck(problem, result));
}

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_STUCK_H_
