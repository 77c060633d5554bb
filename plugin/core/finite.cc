#include "core/finite.h"

#include <bit>
#include <limits>

#include "core/simd.h"

namespace costate {

namespace {

// infinite and no numbers are those whose bits, but for the sign's, count more than the largest number's
template <int kLanes>
__attribute__((always_inline)) inline bool IsFiniteOf(const double* x, std::ptrdiff_t n) {
  using Bits = typename Lanes<kLanes>::Bits;
  const auto most = std::bit_cast<long long>(std::numeric_limits<double>::max());
  Bits excess = {};  // negative where a number counts more
  std::ptrdiff_t i = 0;
  for (; i + kLanes <= n; i += kLanes) excess |= most - (*reinterpret_cast<const Bits*>(x + i) & kNumberBits);
  long long all = 0;
  for (int k = 0; k < kLanes; k++) all |= excess[k];
  for (; i < n; i++) all |= most - (std::bit_cast<long long>(x[i]) & kNumberBits);
  return all >= 0;
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

bool AreAllFinite(const double* x, std::ptrdiff_t n) { return AreFinite(x, n); }

bool AreAllZero(const double* x, std::ptrdiff_t n) { return AreZeros(x, n); }

}  // namespace costate
