// Random numbers that are the same wherever they are drawn.
#include "core/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>

namespace costate {
namespace {

TEST(Random, UniformNumbersAreThoseOfTheirBits) {
  EXPECT_EQ(Uniform(0), 0);
  EXPECT_EQ(Uniform(0x7ff), 0) << "the last bits have no part in it";
  EXPECT_EQ(Uniform(std::uint64_t{1} << 63), 0.5);
  EXPECT_EQ(Uniform(~std::uint64_t{0}), 1 - 0x1p-53);
}

// the engine's numbers are the standard's, and all else is arithmetic: no library may choose how
TEST(Random, NormalNumbersAreAlikeEverywhere) {
  NormalStream stream(std::mt19937_64(1));
  std::mt19937_64 engine(1);
  for (int i = 0; i < 1000; i++) {
    const double u = (static_cast<double>(engine() >> 11) + 0.5) * 0x1p-53;
    const double a = 2 * std::numbers::pi * static_cast<double>(engine() >> 11) * 0x1p-53;
    const double r = std::sqrt(-2 * std::log(u));
    ASSERT_DOUBLE_EQ(stream.Next(), r * std::cos(a)) << i;
    ASSERT_DOUBLE_EQ(stream.Next(), r * std::sin(a)) << i;
  }
}

// of n numbers the mean is within 1/√n of 0, the variance within √(2/n) of 1, both here three times that
TEST(Random, NormalNumbersHaveTheirMeanAndVariance) {
  constexpr int kNumbers = 100000;
  NormalStream stream(std::mt19937_64(7));
  double sum = 0, squares = 0, products = 0, before = 0;
  for (int i = 0; i < kNumbers; i++) {
    const double x = stream.Next();
    sum += x / kNumbers;
    squares += x * x / kNumbers;
    products += x * before / kNumbers;
    before = x;
  }
  EXPECT_NEAR(sum, 0, 3 / std::sqrt(kNumbers));
  EXPECT_NEAR(squares, 1, 3 * std::sqrt(2.0 / kNumbers));
  EXPECT_NEAR(products, 0, 3 / std::sqrt(kNumbers)) << "two of a pair have nothing to do with each other";
}

}  // namespace
}  // namespace costate
