// Rotation vectors and the cross product.
#include "core/rotation.h"

#include <gtest/gtest.h>

#include <Eigen/Geometry>
#include <cmath>
#include <numbers>

namespace costate {
namespace {

constexpr double kHalfTurn = std::numbers::pi;

// a_n = 2 ζ(2n) / (2π)^(2n), of Bernoulli's numbers where the sum over k is long
long double Term(int n) {
  constexpr long double kFirst[] = {0, 1.0L / 12, 1.0L / 720, 1.0L / 30240, 1.0L / 1209600};
  if (n < 5) return kFirst[n];
  long double sum = 0;
  for (int k = 100; k > 0; --k) sum += std::pow(2 * std::numbers::pi_v<long double> * k, -2.0L * n);
  return 2 * sum;
}

// c(θ) = Σ_n a_n θ^(2n-2), which converges up to a whole turn; and c'/θ
struct Series {
  long double c = 0, slope = 0;

  explicit Series(long double theta) {
    for (int n = 40; n >= 1; --n) {
      c = theta * theta * c + Term(n);
      if (n > 1) slope = theta * theta * slope + (2 * n - 2) * Term(n);
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
