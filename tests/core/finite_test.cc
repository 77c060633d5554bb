#include "core/finite.h"

#include <gtest/gtest.h>

#include <limits>

namespace costate {
namespace {

using Limits = std::numeric_limits<double>;

// of every remainder of a vector, wherever the number is
TEST(Finite, IsAskedOfEachNumber) {
  for (int n = 1; n < 40; n++) {
    VectorXd x = VectorXd::LinSpaced(n, -1, 1);
    EXPECT_TRUE(IsFinite(x));
    for (int i = 0; i < n; i++) {
      const double number = x[i];
      for (const double good : {Limits::max(), Limits::lowest(), Limits::denorm_min(), -0.0}) {
        x[i] = good;
        EXPECT_TRUE(IsFinite(x)) << good << " at " << i << " of " << n;
      }
      for (const double bad : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), -Limits::quiet_NaN()}) {
        x[i] = bad;
        EXPECT_FALSE(IsFinite(x)) << bad << " at " << i << " of " << n;
      }
      x[i] = number;
    }
  }
}

TEST(Finite, ZerosHaveEitherSign) {
  for (int n = 1; n < 40; n++) {
    VectorXd x = VectorXd::Zero(n);
    for (int i = 0; i < n; i++) {
      x[i] = -0.0;
      EXPECT_TRUE(AreZero(x.data(), n)) << i << " of " << n;
      for (const double other : {Limits::denorm_min(), -1.0, Limits::quiet_NaN()}) {
        x[i] = other;
        EXPECT_FALSE(AreZero(x.data(), n)) << other << " at " << i << " of " << n;
      }
      x[i] = 0;
    }
  }
}

}  // namespace
}  // namespace costate
