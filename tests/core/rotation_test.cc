// Rotation vectors and the cross product.
#include "core/rotation.h"

#include <gtest/gtest.h>

#include <Eigen/Geometry>
#include <cmath>
#include <numbers>

namespace costate {
namespace {

constexpr double kHalfTurn = std::numbers::pi;

// c(θ) = Σ_n a_n θ^(2n-2) with a_n = 2 ζ(2n) / (2π)^(2n), which converges up to a whole turn; and c'/θ
struct Series {
  long double c = 0, slope = 0;

  explicit Series(long double theta) {
    constexpr long double kTurn = 2 * std::numbers::pi_v<long double>;
    for (int n = 1; n <= 60; ++n) {
      long double zeta = n == 1 ? kTurn * kTurn / 24 : n == 2 ? std::pow(kTurn, 4.0L) / 1440 : 0;
      for (int k = 4000; n > 2 && k > 0; --k) zeta += std::pow(static_cast<long double>(k), -2.0L * n);
      const long double a = 2 * zeta * std::pow(kTurn, -2.0L * n);
      c += a * std::pow(theta, 2.0L * n - 2);
      if (n > 1) slope += (2 * n - 2) * a * std::pow(theta, 2.0L * n - 4);
    }
  }
};

TEST(Rotation, SkewIsTheCrossProduct) {
  const Eigen::Vector3d a(0.3, -1, 2), b(-0.5, 0.7, 0.1);
  EXPECT_EQ(Skew(a) * b, a.cross(b));
}

// series and closed forms meet at 0.1, where the latter cancel most: by the rounding of 2/θ⁴ in the slope, which is
// multiplied by θ³ wherever it is used
TEST(Rotation, CoefficientIsItsSeriesFromRestToHalfATurn) {
  for (const double theta : {0.0, 1e-9, 1e-4, 0.05, 0.0999999, 0.1, 0.1000001, 0.3, 1.0, 2.0, 3.0, kHalfTurn - 1e-3,
                             kHalfTurn - 1e-7, kHalfTurn - 1e-12, kHalfTurn}) {
    const InverseJacobianCoefficient coefficient(theta);
    const Series series(theta);
    EXPECT_NEAR(coefficient.c, static_cast<double>(series.c), theta > 0.5 ? 1e-16 : 2e-14) << theta;
    EXPECT_NEAR(coefficient.slope, static_cast<double>(series.slope), theta > 0.5 ? 1e-15 : 1e-11) << theta;
  }
}

}  // namespace
}  // namespace costate
