// The stopwatch of all benchmarks: seconds of one call, the least of several parts of a measuring time.
#ifndef COSTATE_TESTS_BENCHMARK_FASTEST_H_
#define COSTATE_TESTS_BENCHMARK_FASTEST_H_

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>

namespace costate {

inline double FastestCall(const std::function<void()>& call, double measure = 0.15, int parts = 5) {
  using Clock = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity();
  call();
  for (int part = 0; part < parts; ++part) {
    const Clock::time_point start = Clock::now();
    double seconds = 0;
    int calls = 0;
    while (calls == 0 || seconds < measure / parts) {
      call();
      ++calls;
      seconds = std::chrono::duration<double>(Clock::now() - start).count();
    }
    best = std::min(best, seconds / calls);
  }
  return best;
}

}  // namespace costate

#endif  // COSTATE_TESTS_BENCHMARK_FASTEST_H_
