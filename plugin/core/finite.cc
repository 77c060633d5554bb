#include "core/finite.h"

#include "core/simd.h"

namespace costate {

COSTATE_SIMD bool IsFinite(const double* x, std::ptrdiff_t n) {
  typedef double Loose8 __attribute__((vector_size(64), aligned(8)));

  // x − x is 0, unless x is infinite or no number; two sums, so that neither waits for the other
  Loose8 sum[2] = {};
  std::ptrdiff_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int k = 0; k < 2; k++) {
      const Loose8 value = *reinterpret_cast<const Loose8*>(x + i + 8 * k);
      sum[k] += value - value;
    }
  }
  const Loose8 all = sum[0] + sum[1];
  double total = 0;
  for (int k = 0; k < 8; k++) total += all[k];
  for (; i < n; i++) total += x[i] - x[i];
  return total == 0;
}

}  // namespace costate
