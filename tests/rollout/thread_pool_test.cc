#include "rollout/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace costate {
namespace {

// Short loops one after the other, in which workers wake up in time, too late or not at all; with loops inside.
TEST(ThreadPoolTest, DoesEveryJobOnceHoweverManyTakePart) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int loop = 0; loop < 3000; loop++) {
      const int n = loop % 7;
      std::vector<int> done(n, 0);
      std::atomic<int> inner{0}, strangers{0};
      pool.ParallelFor(n, [&](int i, int worker) {
        done[i]++;
        if (worker < 0 || worker >= threads) strangers++;
        pool.ParallelFor(2, [&](int, int same) { same == worker ? inner++ : strangers++; });
      });
      ASSERT_EQ(done, std::vector<int>(n, 1)) << "loop " << loop << " of " << threads << " threads";
      ASSERT_EQ(inner, 2 * n);
      ASSERT_EQ(strangers, 0);
    }
  }
}

TEST(ThreadPoolTest, ThrowsWhatTheFirstJobThrowsAndGoesOn) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int loop = 0; loop < 300; loop++) {
      std::string said;
      try {
        pool.ParallelFor(9, [](int i, int) {
          if (i % 3 == 2) throw std::runtime_error(std::to_string(i));
        });
      } catch (const std::runtime_error& error) {
        said = error.what();
      }
      ASSERT_EQ(said, "2") << "loop " << loop << " of " << threads << " threads";
    }
  }
}

// whoever has begun is waited for
TEST(ThreadPoolTest, EndsWhenTheLongestJobDoes) {
  ThreadPool pool(2);
  for (int loop = 0; loop < 20; loop++) {
    std::atomic<int> done{0};
    pool.ParallelFor(2, [&](int i, int) {
      if (i == loop % 2) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      done++;
    });
    ASSERT_EQ(done, 2);
  }
}

}  // namespace
}  // namespace costate
