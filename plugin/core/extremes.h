// Infinity and not-a-number under short names; the largest of some numbers.
#ifndef COSTATE_CORE_EXTREMES_H_
#define COSTATE_CORE_EXTREMES_H_

#include <limits>

#include <costate/types.h>

namespace costate {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// max |v_i|, 0 without entries.
inline double Largest(ConstVectorRef v) { return v.size() > 0 ? v.lpNorm<Eigen::Infinity>() : 0; }

}  // namespace costate

#endif  // COSTATE_CORE_EXTREMES_H_
