#include "optimizer/scaled_guess.h"

#include <fmt/format.h>

#include <cmath>

#include "optimizer/control_limits.h"
#include "optimizer/free_start.h"
#include "optimizer/line_search.h"

namespace costate {
namespace {

constexpr int kGuessScalings = 4;  // tried at 1, ¼, 1/16, 1/64, 0
constexpr double kGuessFactor = 0.25;

}  // namespace

ScaledGuess RolloutGuess(const Problem& problem, ConstMatrixRef U, Simulator* simulator, Trajectory* motion) {
  const VectorXd x0 = FirstStart(problem);
  const double dt = simulator->knot_time();
  ScaledGuess guess;
  for (int i = 0; i <= kGuessScalings; ++i) {
    guess.scale = i < kGuessScalings ? std::pow(kGuessFactor, i) : 0;
    const RolloutStatus status = simulator->Rollout(x0, WithinLimits(problem, guess.scale * U), motion);
    guess.cost = RolloutCost(problem, *motion, status, dt);
    if (std::isfinite(guess.cost)) return guess;
    if (i == 0) {
      guess.reason = status.ok() ? "the guess has no cost: " + NotFiniteText(problem, *motion, dt)
                                 : fmt::format("the guess cannot be simulated: {} at knot {} of {} ({:.3g} s)",
                                               ToString(status.status), status.knot, U.cols(), status.knot * dt);
    }
    if (U.isZero(0)) break;
  }
  guess.failure = guess.reason + "; scaled down to zero it fares no better";
  return guess;
}

}  // namespace costate
