#include "rollout/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "rollout/simulated_knots.h"

namespace costate {
namespace {

// fewest knots simulated to stand at each of `knots` in reverse, by trying every place for the next kept state
std::vector<std::vector<std::int64_t>> Optimum(int knots, int kept) {
  std::vector<std::vector<std::int64_t>> best(kept + 1, std::vector<std::int64_t>(knots + 1, 0));
  for (int l = 2; l <= knots; l++) {
    best[1][l] = static_cast<std::int64_t>(l) * (l - 1) / 2;
    for (int s = 2; s <= kept; s++) {
      best[s][l] = best[1][l];
      for (int m = 1; m < l; m++) best[s][l] = std::min(best[s][l], m + best[s - 1][l - m] + best[s][m]);
    }
  }
  return best;
}

TEST(Checkpoint, SpendsTheFewestKnots) {
  const auto best = Optimum(60, 12);
  for (int kept = 1; kept <= 12; kept++) {
    for (int knots = 2; knots <= 60; knots++) {
      EXPECT_EQ(SimulatedKnots(knots, kept), best[kept][knots]) << knots << " knots, " << kept << " kept";
    }
  }
}

TEST(Checkpoint, ReachesLongMotionsWithFewStates) {
  EXPECT_EQ(Reach(3, 2), 10);
  EXPECT_EQ(Reach(0, 5), 1);
  EXPECT_EQ(Reach(1000000, 1000000), 1e15);
  EXPECT_EQ(NextCheckpoint(100000, 100000), 1);
  EXPECT_LE(SimulatedKnots(100000, 100), 3 * 100000);
}

}  // namespace
}  // namespace costate
