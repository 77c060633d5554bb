// Basin hopping within the module: whether a plain solve races others; rounds behind a solve that was made elsewhere.
// README.md, "Basin hopping".
#ifndef COSTATE_OPTIMIZER_BASIN_HOPPING_H_
#define COSTATE_OPTIMIZER_BASIN_HOPPING_H_

#include <costate/basin_hopping.h>

namespace costate {

/// Solves that begin side by side where a plain one races others.
inline constexpr int kRaced = 5;

/// Does a plain solve of N knots begin side by side with others, of which the best goes on (BasinHoppingOptions::race)?
/// Not where their linear-quadratic problems would take more than 128 MiB.
bool Races(const mjModel* model, int N, const IlqrOptions& options, const BasinHoppingOptions& hopping);

/// SolveBasinHopping behind its round 0, which `led` is: the end of a solve of this problem. Its iterations stand
/// before those of the rounds and count among options.iterations.
/// @param guess  where that solve began.
///
/// @throws as SolveBasinHopping.
BasinHoppingResult HopBehind(const Problem& problem, SolveResult led, const Guess& guess, const IlqrOptions& options,
                             const BasinHoppingOptions& hopping, const IterationCallback& callback = {},
                             const ConstrainedOptions& constrained = {},
                             const BasinHoppingCallback& round_callback = {});

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_BASIN_HOPPING_H_
