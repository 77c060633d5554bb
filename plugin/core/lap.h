// Seconds between two looks at the clock.
#ifndef COSTATE_CORE_LAP_H_
#define COSTATE_CORE_LAP_H_

#include <chrono>

namespace costate {

using Clock = std::chrono::steady_clock;

/// Seconds since `start`, which moves on to now.
inline double Lap(Clock::time_point* start) {
  const Clock::time_point now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - *start).count();
  *start = now;
  return seconds;
}

/// Seconds since `start`.
inline double SecondsSince(Clock::time_point start) { return Lap(&start); }

}  // namespace costate

#endif  // COSTATE_CORE_LAP_H_
