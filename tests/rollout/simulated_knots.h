// What binomial checkpointing spends.
#ifndef COSTATE_TESTS_ROLLOUT_SIMULATED_KNOTS_H_
#define COSTATE_TESTS_ROLLOUT_SIMULATED_KNOTS_H_

#include <cstdint>

#include "rollout/checkpoint.h"

namespace costate {

/// Knots simulated in all, first sweep included, to reverse `knots` with `kept` states.
inline std::int64_t SimulatedKnots(int knots, int kept) {
  if (knots < 2) return 0;
  if (kept == 1) return static_cast<std::int64_t>(knots) * (knots - 1) / 2;
  const int m = NextCheckpoint(knots, kept);
  return m + SimulatedKnots(knots - m, kept - 1) + SimulatedKnots(m, kept);
}

}  // namespace costate

#endif  // COSTATE_TESTS_ROLLOUT_SIMULATED_KNOTS_H_
