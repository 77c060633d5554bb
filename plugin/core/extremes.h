// Infinity and not-a-number under short names; the largest of some numbers.
#ifndef COSTATE_CORE_EXTREMES_H_
#define COSTATE_CORE_EXTREMES_H_

#include <algorithm>
#include <cmath>
#include <limits>

#include <costate/types.h>

namespace costate {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// max |v_i|, 0 without entries.
inline double Largest(ConstVectorRef v) { return v.size() > 0 ? v.lpNorm<Eigen::Infinity>() : 0; }

/// max |v_i| of n numbers in a row, those that are none passed over.
template <typename T, typename Count>
double Largest(const T* v, Count n) {
  double largest = 0;
  for (Count i = 0; i < n; ++i) largest = std::max(largest, std::abs(static_cast<double>(v[i])));
  return largest;
}

}  // namespace costate

#endif  // COSTATE_CORE_EXTREMES_H_
