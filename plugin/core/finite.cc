#include "core/finite.h"

#include "core/simd.h"

namespace costate {

namespace {

template <int kLanes>
__attribute__((always_inline)) inline bool IsFiniteOf(const double* x, std::ptrdiff_t n) {
  using Loose = typename Lanes<kLanes>::Loose;

  // 0 x is 0, unless x is infinite or no number; four sums, so that none waits for another
  const auto zero = [](const double* at) __attribute__((always_inline)) {
    return 0 * *reinterpret_cast<const Loose*>(at);
  };
  Loose a = {}, b = {}, c = {}, d = {};
  std::ptrdiff_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a += zero(x + i);
    b += zero(x + i + kLanes);
    c += zero(x + i + 2 * kLanes);
    d += zero(x + i + 3 * kLanes);
  }
  const Loose all = (a + b) + (c + d);
  double total = 0;
  for (int k = 0; k < kLanes; k++) total += all[k];
  for (; i < n; i++) total += 0 * x[i];
  return total == 0;
}

COSTATE_SIMD_LANES(bool, AreFinite, (const double* x, std::ptrdiff_t n), IsFiniteOf, (x, n))

// a number at a time would take as long as a pass over the tree
template <int kLanes>
__attribute__((always_inline)) inline bool AreZeroOf(const double* x, std::ptrdiff_t n) {
  using Bits = typename Lanes<kLanes>::Bits;
  Bits any = {};
  std::ptrdiff_t i = 0;
  for (; i + kLanes <= n; i += kLanes) any |= *reinterpret_cast<const Bits*>(x + i);
  long long bits = 0;
  for (int k = 0; k < kLanes; k++) bits |= any[k];
  for (; i < n; i++) bits |= x[i] != 0;
  return (bits & kNumberBits) == 0;
}

COSTATE_SIMD_LANES(bool, AreZeros, (const double* x, std::ptrdiff_t n), AreZeroOf, (x, n))

}  // namespace

bool IsFinite(const double* x, std::ptrdiff_t n) { return AreFinite(x, n); }

bool AreAllZero(const double* x, std::ptrdiff_t n) { return AreZeros(x, n); }

}  // namespace costate
