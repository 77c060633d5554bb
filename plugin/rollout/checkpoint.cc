#include "rollout/checkpoint.h"

#include <algorithm>
#include <cmath>

namespace costate {
namespace {

constexpr double kCap = 1e15;

// the least r with β(kept, r) ≥ knots
int Sweeps(int knots, int kept) {
  int r = 0;
  while (Reach(kept, r) < knots) r++;
  return r;
}

}  // namespace

double Reach(int kept, int sweeps) {
  if (kept < 0 || sweeps < 0) return 0;
  double value = 1;
  for (int i = 1; i <= std::min(kept, sweeps); i++) {
    value = value * (std::max(kept, sweeps) + i) / i;
    if (value > kCap) return kCap;
  }
  return std::round(value);
}

// any m with m ≤ β(s, r − 1) and β(s − 1, r − 1) ≤ knots − m ≤ β(s − 1, r) is optimal
int NextCheckpoint(int knots, int kept) {
  const int r = Sweeps(knots, kept);
  const double m = std::min(Reach(kept, r - 1), knots - Reach(kept - 1, r - 1));
  return std::clamp(static_cast<int>(m), 1, knots - 1);
}

}  // namespace costate
