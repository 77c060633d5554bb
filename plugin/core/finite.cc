#include "core/finite.h"

#include "core/simd.h"

namespace costate {

namespace {

template <int kLanes>
__attribute__((always_inline)) inline bool IsFiniteOf(const double* x, std::ptrdiff_t n) {
  using Loose = typename Lanes<kLanes>::Loose;

  // x − x is 0, unless x is infinite or no number; four sums, so that none waits for another
  const auto difference = [](const double* at) __attribute__((always_inline)) {
    const Loose value = *reinterpret_cast<const Loose*>(at);
    return value - value;
  };
  Loose a = {}, b = {}, c = {}, d = {};
  std::ptrdiff_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a += difference(x + i);
    b += difference(x + i + kLanes);
    c += difference(x + i + 2 * kLanes);
    d += difference(x + i + 3 * kLanes);
  }
  const Loose all = (a + b) + (c + d);
  double total = 0;
  for (int k = 0; k < kLanes; k++) total += all[k];
  for (; i < n; i++) total += x[i] - x[i];
  return total == 0;
}

}  // namespace

COSTATE_SIMD_LANES(bool, IsFinite, (const double* x, std::ptrdiff_t n), IsFiniteOf, (x, n))

}  // namespace costate
