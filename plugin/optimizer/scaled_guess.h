// The first rollout of a solve: its guess, or as much of it as can be simulated.
#ifndef COSTATE_OPTIMIZER_SCALED_GUESS_H_
#define COSTATE_OPTIMIZER_SCALED_GUESS_H_

#include <costate/ilqr.h>
#include <costate/rollout.h>

#include <string>

namespace costate {

struct ScaledGuess {
  double scale = 1;     ///< the share of U that was simulated last
  double cost = 0;      ///< of that motion, infinite where it failed
  std::string reason;   ///< why U as it is cannot be; empty where it can
  std::string failure;  ///< of U as it is, where neither it nor a share can be simulated
};

/// Rolls U out from FirstStart within the limits of the problem; a guess that diverges is scaled down, in the end to no
/// control at all.
ScaledGuess RolloutGuess(const Problem& problem, ConstMatrixRef U, Simulator* simulator, Trajectory* motion);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_SCALED_GUESS_H_
