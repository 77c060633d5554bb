// Intervals of time that begin where sums of time steps put them.
#ifndef COSTATE_CORE_INTERVAL_H_
#define COSTATE_CORE_INTERVAL_H_

namespace costate {

/// An interval begins this share of its length early: the rounding of a sum of time steps is less.
inline constexpr double kIntervalSlack = 1e-6;

}  // namespace costate

#endif  // COSTATE_CORE_INTERVAL_H_
