// Linear-quadratic problems whose start may move, against the dense problem in all that is chosen.
#include <costate/lqr.h>

#include <gtest/gtest.h>

#include <Eigen/Cholesky>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "optimizer/random_lq.h"
#include "support/matrix_near.h"

namespace costate {
namespace {

using support::MatricesNear;

constexpr double kUnbounded = std::numeric_limits<double>::infinity();
constexpr double kDenseRounding = 1e-9;  // well-conditioned problems of a few knots

// convex, with cross terms and gaps; the end's cost reads the start where it is tied
LqProblem RandomStartProblem(bool tied, unsigned seed) {
  constexpr int kStates = 4;
  LqProblem problem = RandomProblem(5, kStates, 2, true, seed);
  std::mt19937 generator(seed + 1000);
  std::normal_distribution<double> normal;
  const auto draw = [&] { return normal(generator); };
  const MatrixXd R = MatrixXd::NullaryExpr(2 * kStates, 2 * kStates, draw);
  const MatrixXd H = R.transpose() * R + 0.1 * MatrixXd::Identity(2 * kStates, 2 * kStates);
  problem.lxx = H.topLeftCorner(kStates, kStates);
  problem.start.entries = {0, 2, 3};
  problem.start.lower = VectorXd::Constant(3, -kUnbounded);
  problem.start.upper = VectorXd::Constant(3, kUnbounded);
  if (!tied) return problem;
  problem.start.l0 = VectorXd::NullaryExpr(kStates, draw);
  problem.start.l0x = H.bottomLeftCorner(kStates, kStates);
  problem.start.l00 = H.bottomRightCorner(kStates, kStates);
  return problem;
}

// the cost of z = (theta, du_0, du_1 …) on the linear model
double DenseCost(const LqProblem& problem, const VectorXd& z) {
  const LqStart& start = problem.start;
  const Eigen::Index m = static_cast<Eigen::Index>(start.entries.size()), nu = problem.knots[0].lu.size();
  VectorXd dx0 = VectorXd::Zero(problem.lx.size());
  dx0(start.entries) = z.head(m);
  VectorXd dx = dx0;
  double cost = 0;
  Eigen::Index at = m;
  for (const LqKnot& knot : problem.knots) {
    const VectorXd du = z.segment(at, nu);
    cost += knot.lx.dot(dx) + knot.lu.dot(du) + 0.5 * dx.dot(knot.lxx * dx) + du.dot(knot.lux * dx) +
            0.5 * du.dot(knot.luu * du);
    dx = knot.A * dx + knot.B * du + knot.gap;
    at += nu;
  }
  cost += problem.lx.dot(dx) + 0.5 * dx.dot(problem.lxx * dx);
  if (start.l0.size() > 0) cost += start.l0.dot(dx0) + dx0.dot(start.l0x * dx) + 0.5 * dx0.dot(start.l00 * dx0);
  return cost;
}

// its minimum over the entries of z that are not held; the others are 0 or what `held` has
VectorXd DenseMinimum(const LqProblem& problem, const VectorXd& held, const std::vector<bool>& is_held) {
  const Eigen::Index n = held.size();
  const auto unit = [n](Eigen::Index i) { return VectorXd(VectorXd::Unit(n, i)); };
  const double at_zero = DenseCost(problem, VectorXd::Zero(n));
  MatrixXd H(n, n);
  VectorXd g(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const double plus = DenseCost(problem, unit(i)), minus = DenseCost(problem, -unit(i));
    g[i] = (plus - minus) / 2;
    H(i, i) = plus + minus - 2 * at_zero;
    for (Eigen::Index j = 0; j < i; ++j) {
      H(i, j) = H(j, i) = DenseCost(problem, unit(i) + unit(j)) - plus - DenseCost(problem, unit(j)) + at_zero;
    }
  }
  std::vector<Eigen::Index> free;
  for (Eigen::Index i = 0; i < n; ++i)
    if (!is_held[static_cast<std::size_t>(i)]) free.push_back(i);
  VectorXd z = held;
  const MatrixXd left = H(free, free);
  const VectorXd right = -(g + H * held);
  const VectorXd minimum = left.llt().solve(VectorXd(right(free)));
  z(free) = minimum;
  return z;
}

// (theta, du_0, du_1 …) of the policy on the linear model
VectorXd FollowFromStart(const LqProblem& problem, const RiccatiResult& riccati) {
  const Eigen::Index nu = riccati.k.rows(), m = static_cast<Eigen::Index>(problem.start.entries.size());
  VectorXd z(m + riccati.k.size()), dx = riccati.dx0;
  z.head(m) = dx(problem.start.entries);
  for (std::size_t t = 0; t < problem.knots.size(); ++t) {
    const auto at = static_cast<Eigen::Index>(t);
    const LqKnot& knot = problem.knots[t];
    const VectorXd du = riccati.k.col(at) + riccati.K[t] * dx;
    z.segment(m + at * nu, nu) = du;
    dx = knot.A * dx + knot.B * du + knot.gap;
  }
  return z;
}

TEST(RiccatiStart, SolvesTheDenseProblemInStartAndControls) {
  for (const bool tied : {false, true}) {
    for (const bool values : {false, true}) {
      const LqProblem problem = RandomStartProblem(tied, 3);
      RiccatiResult riccati;
      SolveRiccati(problem, {.values = values}, &riccati);
      ASSERT_TRUE(riccati.ok);
      EXPECT_EQ(riccati.dx0[1], 0);
      const VectorXd z = FollowFromStart(problem, riccati), none = VectorXd::Zero(z.size());
      const VectorXd best = DenseMinimum(problem, none, std::vector<bool>(static_cast<std::size_t>(z.size())));
      EXPECT_TRUE(MatricesNear(z, best, kDenseRounding));

      // what is promised is what it comes to; values are those along the best start
      const double promise = riccati.expected_linear + 0.5 * riccati.expected_quadratic + riccati.expected_gap;
      EXPECT_NEAR(promise, DenseCost(problem, best), kDenseRounding * std::abs(promise));
      if (values) {
        const VectorXd slope = riccati.Vx[0] + riccati.Vxx[0] * riccati.dx0;
        if (!tied) {
          EXPECT_LE(slope(problem.start.entries).cwiseAbs().maxCoeff(), kDenseRounding);
        }
        VectorXd dx = riccati.dx0;
        for (const LqKnot& knot : problem.knots) {
          const auto t = &knot - problem.knots.data();
          dx = (knot.A + knot.B * riccati.K[static_cast<std::size_t>(t)]) * dx + knot.B * riccati.k.col(t) + knot.gap;
        }
        VectorXd end = problem.lx + problem.lxx * dx;
        if (tied) end += problem.start.l0x.transpose() * riccati.dx0;
        EXPECT_TRUE(MatricesNear(riccati.Vx.back() + riccati.Vxx.back() * dx, end, kDenseRounding));
      }
    }
  }
}

// what would go further stands at its bound, the rest is the minimum beside it
TEST(RiccatiStart, KeepsTheBoundsOfTheStart) {
  for (const bool tied : {false, true}) {
    LqProblem problem = RandomStartProblem(tied, 4);
    RiccatiResult free, bounded;
    SolveRiccati(problem, {}, &free);
    const VectorXd theta = free.dx0(problem.start.entries);
    ASSERT_GT(theta.cwiseAbs().minCoeff(), 0.01);
    const double half = 0.5 * theta[1];
    problem.start.lower[1] = std::min(0.0, half);
    problem.start.upper[1] = std::max(0.0, half);
    SolveRiccati(problem, {}, &bounded);
    ASSERT_TRUE(bounded.ok);
    EXPECT_EQ(bounded.dx0[2], half);
    const VectorXd z = FollowFromStart(problem, bounded);
    VectorXd held = VectorXd::Zero(z.size());
    std::vector<bool> is_held(static_cast<std::size_t>(z.size()));
    held[1] = half;
    is_held[1] = true;
    EXPECT_TRUE(MatricesNear(z, DenseMinimum(problem, held, is_held), kDenseRounding));
    EXPECT_GT(DenseCost(problem, z), DenseCost(problem, FollowFromStart(problem, free)));

    // a start that its bounds hold has no slope that counts
    problem.start.lower.setZero();
    problem.start.upper.setZero();
    SolveRiccati(problem, {}, &bounded);
    EXPECT_TRUE(bounded.dx0.isZero(0));
    LqProblem given = problem;
    given.start = {};
    SolveRiccati(given, {}, &free);
    EXPECT_EQ(free.dx0.size(), 0);
    EXPECT_EQ(bounded.gradient_norm, free.gradient_norm);
  }
}

// regularization is that of (H + mu I) theta = -g
TEST(RiccatiStart, IsRegularizedAsControlsAre) {
  LqProblem problem = RandomStartProblem(false, 5);
  RiccatiResult riccati;
  SolveRiccati(problem, {.regularization = 3}, &riccati);
  const std::vector<int>& entries = problem.start.entries;
  MatrixXd H = riccati.Vxx[0](entries, entries);
  H.diagonal().array() += 3;
  EXPECT_TRUE(MatricesNear(riccati.dx0(entries), H.llt().solve(VectorXd(-riccati.Vx[0](entries))), kDenseRounding));
}

// a place that nothing minds stays; a value that curves down is no minimum
TEST(RiccatiStart, StaysWhereNothingMindsAndRefusesNegativeCurvature) {
  LqProblem problem = RandomStartProblem(false, 6);
  for (LqKnot& knot : problem.knots) {
    knot.A.col(0).setZero();
    knot.A(0, 0) = 1;
    knot.A.row(0).tail(3).setZero();
    knot.B.row(0).setZero();
    knot.gap[0] = knot.lx[0] = 0;
    knot.lxx.row(0).setZero();
    knot.lxx.col(0).setZero();
    knot.lux.col(0).setZero();
  }
  problem.lx[0] = 0;
  problem.lxx.row(0).setZero();
  problem.lxx.col(0).setZero();
  RiccatiResult riccati;
  SolveRiccati(problem, {}, &riccati);
  ASSERT_TRUE(riccati.ok);
  EXPECT_EQ(riccati.dx0[0], 0);
  EXPECT_GT(std::abs(riccati.dx0[2]), 0.01);

  problem.knots[0].lxx(0, 0) = -1;
  SolveRiccati(problem, {}, &riccati);
  EXPECT_FALSE(riccati.ok);
  EXPECT_EQ(riccati.failed_knot, 0);
  SolveRiccati(problem, {.regularization = 2}, &riccati);
  EXPECT_TRUE(riccati.ok);
}

}  // namespace
}  // namespace costate
