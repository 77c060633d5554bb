#include "optimizer/box_qp.h"

#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <Eigen/LU>
#include <Eigen/QR>

#include <cmath>
#include <limits>
#include <random>

#include "core/extremes.h"
#include "support/matrix_near.h"

namespace costate {
namespace {

using support::MatricesNear;

constexpr double kExact = 1e-10;  // condition numbers stay below 1e4: rounding alone

struct Qp {
  MatrixXd H;
  VectorXd g, lower, upper;
  double Objective(const VectorXd& x) const { return x.dot(0.5 * H * x + g); }
};

// H = RᵀR + I/10 and bounds about zero: some are active at the minimum, some are not
Qp RandomQp(int n, std::mt19937* generator) {
  std::normal_distribution<double> normal;
  const auto draw = [&] { return normal(*generator); };
  Qp qp;
  const MatrixXd R = MatrixXd::NullaryExpr(n, n, draw);
  qp.H = R.transpose() * R + 0.1 * MatrixXd::Identity(n, n);
  qp.g = 3 * VectorXd::NullaryExpr(n, draw);
  const VectorXd middle = 0.3 * VectorXd::NullaryExpr(n, draw);
  const VectorXd half = VectorXd::NullaryExpr(n, draw).cwiseAbs();
  qp.lower = middle - half;
  qp.upper = middle + half;
  return qp;
}

// each variable free, at its lower or at its upper bound: the best feasible of all 3ⁿ stationary points
VectorXd BruteForce(const Qp& qp) {
  const int n = static_cast<int>(qp.g.size());
  VectorXd best;
  int combinations = 1;
  for (int i = 0; i < n; ++i) combinations *= 3;
  for (int code = 0; code < combinations; ++code) {
    MatrixXd S = qp.H;
    VectorXd right = -qp.g;
    for (int i = 0, rest = code; i < n; ++i, rest /= 3) {
      if (rest % 3 == 0) continue;
      S.row(i).setZero();
      S(i, i) = 1;
      right[i] = rest % 3 == 1 ? qp.lower[i] : qp.upper[i];
    }
    const VectorXd x = S.partialPivLu().solve(right);
    if (((x - qp.lower).array() < -kExact).any() || ((qp.upper - x).array() < -kExact).any()) continue;
    if (best.size() == 0 || qp.Objective(x) < qp.Objective(best)) best = x;
  }
  return best;
}

// strictly convex: the minimum is unique, so that all active sets tried one by one must find the same
TEST(BoxQp, FindsTheMinimumOverAllActiveSets) {
  std::mt19937 generator(1);
  BoxQpScratch scratch;
  for (int n = 1; n <= 5; ++n) {
    for (int sample = 0; sample < 60; ++sample) {
      const Qp qp = RandomQp(n, &generator);
      VectorXd x = VectorXd::Zero(n);
      ASSERT_EQ(SolveBoxQp(qp.H, qp.g, qp.lower, qp.upper, x, &scratch), BoxQpStatus::kSolved);
      EXPECT_TRUE(MatricesNear(x, BruteForce(qp), kExact)) << "n " << n << ", sample " << sample;
    }
  }
}

// the KKT conditions are sufficient; 40 variables are too many to enumerate
TEST(BoxQp, SatisfiesTheKktConditionsWithManyVariables) {
  std::mt19937 generator(2);
  BoxQpScratch scratch;
  for (int sample = 0; sample < 50; ++sample) {
    const Qp qp = RandomQp(40, &generator);
    VectorXd x = VectorXd::Zero(40);
    ASSERT_EQ(SolveBoxQp(qp.H, qp.g, qp.lower, qp.upper, x, &scratch), BoxQpStatus::kSolved);
    const VectorXd gradient = qp.g + qp.H * x;
    for (int i = 0; i < 40; ++i) {
      EXPECT_TRUE(x[i] == qp.lower[i] || gradient[i] <= kExact) << "sample " << sample << ", variable " << i;
      EXPECT_TRUE(x[i] == qp.upper[i] || gradient[i] >= -kExact) << "sample " << sample << ", variable " << i;
    }
  }
}

// curvatures from 1 to 1e-10, as of small costs of controls beside large ones of the end, and starts at many bounds: the
// KKT conditions hold to rounding
TEST(BoxQp, SatisfiesTheKktConditionsAtCurvaturesFarApart) {
  std::mt19937 generator(6);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(0, 1);
  const auto draw = [&] { return normal(generator); };
  const auto spread = [&] { return uniform(generator); };
  BoxQpScratch scratch;
  for (const int n : {2, 6, 12}) {
    for (int sample = 0; sample < 400; ++sample) {
      const MatrixXd R = MatrixXd::NullaryExpr(n, n, draw);
      const MatrixXd Q = R.householderQr().householderQ();
      const VectorXd curvature = VectorXd::NullaryExpr(n, [&] { return std::pow(10, -10 * spread()); });
      Qp qp;
      qp.H = Q * curvature.asDiagonal() * Q.transpose();
      qp.H = 0.5 * (qp.H + qp.H.transpose()).eval();
      qp.g = VectorXd::NullaryExpr(n, [&] { return draw() * std::pow(10, -3 * spread()); });
      qp.lower = VectorXd::NullaryExpr(n, [&] { return -8 * spread(); });
      qp.upper = VectorXd::NullaryExpr(n, [&] { return 8 * spread(); });
      VectorXd x = 8 * VectorXd::NullaryExpr(n, draw);
      ASSERT_EQ(SolveBoxQp(qp.H, qp.g, qp.lower, qp.upper, x, &scratch), BoxQpStatus::kSolved);
      EXPECT_LE(qp.Objective(x), 0);  // 0 is inside
      const VectorXd gradient = qp.g + qp.H * x;
      const VectorXd size = qp.g.cwiseAbs() + qp.H.cwiseAbs() * x.cwiseAbs();
      for (int i = 0; i < n; ++i) {
        EXPECT_TRUE(x[i] == qp.lower[i] || gradient[i] <= kExact * size[i]) << n << ", sample " << sample << ", " << i;
        EXPECT_TRUE(x[i] == qp.upper[i] || gradient[i] >= -kExact * size[i]) << n << ", sample " << sample << ", " << i;
      }
    }
  }
}

// without bounds the minimum is -H⁻¹g
TEST(BoxQp, InfiniteBoundsGiveTheNewtonStep) {
  std::mt19937 generator(3);
  Qp qp = RandomQp(6, &generator);
  qp.lower.setConstant(-kInf);
  qp.upper.setConstant(kInf);
  BoxQpScratch scratch;
  VectorXd x = VectorXd::Constant(6, 5);
  ASSERT_EQ(SolveBoxQp(qp.H, qp.g, qp.lower, qp.upper, x, &scratch), BoxQpStatus::kSolved);
  EXPECT_TRUE(MatricesNear(x, -qp.H.llt().solve(qp.g), kExact));
}

// a variable that just touches its bound has a multiplier of zero: both active sets are right
TEST(BoxQp, EndsWhenAConstraintIsActiveWithZeroMultiplier) {
  std::mt19937 generator(4);
  BoxQpScratch scratch;
  for (int sample = 0; sample < 100; ++sample) {
    Qp qp = RandomQp(5, &generator);
    const VectorXd minimum = -qp.H.llt().solve(qp.g);
    qp.lower = minimum;
    qp.upper = minimum.array() + 1;
    VectorXd x = qp.upper;
    ASSERT_EQ(SolveBoxQp(qp.H, qp.g, qp.lower, qp.upper, x, &scratch), BoxQpStatus::kSolved) << "sample " << sample;
    EXPECT_TRUE(MatricesNear(x, minimum, kExact)) << "sample " << sample;
  }
}

TEST(BoxQp, KeepsAVariableWhoseBoundsCoincide) {
  Qp qp{MatrixXd::Identity(2, 2), VectorXd::Constant(2, -5.0), Eigen::Vector2d(1, -9), Eigen::Vector2d(1, 9)};
  qp.H(0, 1) = qp.H(1, 0) = 0.5;
  BoxQpScratch scratch;
  VectorXd x = VectorXd::Zero(2);
  ASSERT_EQ(SolveBoxQp(qp.H, qp.g, qp.lower, qp.upper, x, &scratch), BoxQpStatus::kSolved);
  EXPECT_TRUE(MatricesNear(x, Eigen::Vector2d(1, 4.5), kExact));
}

// only the free block must be positive definite: here it is, once x0 is clamped
TEST(BoxQp, ReportsAnIndefiniteFreeBlock) {
  const MatrixXd H = Eigen::Vector2d(-1, 1).asDiagonal();
  BoxQpScratch scratch;
  VectorXd x = VectorXd::Zero(2);
  const VectorXd g = Eigen::Vector2d(1, 1), free = Eigen::Vector2d(9, 9);
  EXPECT_EQ(SolveBoxQp(H, g, -free, free, x, &scratch), BoxQpStatus::kIndefinite);
  x.setZero();
  ASSERT_EQ(SolveBoxQp(H, g, Eigen::Vector2d(0, -9), free, x, &scratch), BoxQpStatus::kSolved);
  EXPECT_TRUE(MatricesNear(x, Eigen::Vector2d(0, -1), kExact));
}

// with x0 clamped, Y = H_ff⁻¹ Y in the other rows and zero in its own
TEST(BoxQp, SolvesWithTheFreeBlock) {
  Qp qp{MatrixXd::Identity(3, 3) * 2, VectorXd::Zero(3), VectorXd::Constant(3, -1), VectorXd::Constant(3, 1)};
  qp.H(1, 2) = qp.H(2, 1) = 1;
  qp.g[0] = 100;
  BoxQpScratch scratch;
  VectorXd x = VectorXd::Zero(3);
  ASSERT_EQ(SolveBoxQp(qp.H, qp.g, qp.lower, qp.upper, x, &scratch), BoxQpStatus::kSolved);
  MatrixXd Y = MatrixXd::Constant(3, 2, 3);
  SolveFree(&scratch, Y);
  MatrixXd expected = MatrixXd::Zero(3, 2);
  expected.bottomRows(2) = qp.H.bottomRightCorner(2, 2).llt().solve(MatrixXd::Constant(2, 2, 3));
  EXPECT_TRUE(MatricesNear(Y, expected, kExact));
}

// pivots are judged against their own diagonal entry: units may differ by any factor, dependence may not hide
TEST(BoxQp, FactorsBadlyScaledButNotSingularMatrices) {
  MatrixXd S = Eigen::Vector3d(1e-18, 1, 1e18).asDiagonal();
  EXPECT_TRUE(FactorInPlace(&S));
  S = MatrixXd::Constant(2, 2, 1);
  EXPECT_FALSE(FactorInPlace(&S));
  S = MatrixXd::Identity(2, 2);
  S(1, 0) = std::nan("");
  EXPECT_FALSE(FactorInPlace(&S));
  S = Eigen::Vector2d(1, kInf).asDiagonal();
  EXPECT_FALSE(FactorInPlace(&S));
}

}  // namespace
}  // namespace costate
