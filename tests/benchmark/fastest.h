// The stopwatch of all benchmarks: seconds of one call, the least of several parts of a measuring time.
#ifndef COSTATE_TESTS_BENCHMARK_FASTEST_H_
#define COSTATE_TESTS_BENCHMARK_FASTEST_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

namespace costate {

/// Of several calls, in turn: what else the machine does strikes all of them, so that ratios keep.
inline std::vector<double> FastestCalls(const std::vector<std::function<void()>>& calls, double measure = 0.15,
                                        int parts = 5) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> best(calls.size(), std::numeric_limits<double>::infinity());
  for (const auto& call : calls) call();
  for (int part = 0; part < parts; ++part) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const Clock::time_point start = Clock::now();
      double seconds = 0;
      int count = 0;
      while (count == 0 || seconds < measure / parts) {
        calls[i]();
        ++count;
        seconds = std::chrono::duration<double>(Clock::now() - start).count();
      }
      best[i] = std::min(best[i], seconds / count);
    }
  }
  return best;
}

inline double FastestCall(const std::function<void()>& call, double measure = 0.15, int parts = 5) {
  return FastestCalls({call}, measure, parts)[0];
}

}  // namespace costate

#endif  // COSTATE_TESTS_BENCHMARK_FASTEST_H_
