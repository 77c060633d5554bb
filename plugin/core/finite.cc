#include "core/finite.h"

#include "core/simd.h"

namespace costate {

COSTATE_SIMD bool IsFinite(const double* x, std::ptrdiff_t n) {
  typedef double Loose8 __attribute__((vector_size(64), aligned(8)));

  // x − x is 0, unless x is infinite or no number; four sums, so that none waits for another
  const auto difference = [](const double* at) __attribute__((always_inline)) {
    const Loose8 value = *reinterpret_cast<const Loose8*>(at);
    return value - value;
  };
  Loose8 a = {}, b = {}, c = {}, d = {};
  std::ptrdiff_t i = 0;
  for (; i + 32 <= n; i += 32) {
    a += difference(x + i);
    b += difference(x + i + 8);
    c += difference(x + i + 16);
    d += difference(x + i + 24);
  }
  const Loose8 all = (a + b) + (c + d);
  double total = 0;
  for (int k = 0; k < 8; k++) total += all[k];
  for (; i < n; i++) total += x[i] - x[i];
  return total == 0;
}

}  // namespace costate
