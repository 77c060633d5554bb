#include <costate/lqr.h>

#include <gtest/gtest.h>

#include <set>

#include <Eigen/LU>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "core/extremes.h"
#include "optimizer/random_lq.h"
#include "optimizer/step_rows.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"

namespace costate {
namespace {

using support::BitwiseEqual;
using support::MatricesNear;

constexpr double kRounding = 1e-9;  // well-conditioned problems of a few knots: rounding alone, with room

struct LqSolution {
  MatrixXd dX, dU;  // ndx × (N+1), nu × N
  double cost = 0;
};

double LqCost(const LqProblem& problem, const MatrixXd& dX, const MatrixXd& dU) {
  const int N = static_cast<int>(problem.knots.size());
  double cost = 0;
  for (int t = 0; t < N; ++t) {
    const LqKnot& knot = problem.knots[t];
    const VectorXd dx = dX.col(t), du = dU.col(t);
    cost += knot.lx.dot(dx) + knot.lu.dot(du) + 0.5 * dx.dot(knot.lxx * dx) + du.dot(knot.lux * dx) +
            0.5 * du.dot(knot.luu * du);
  }
  const VectorXd dx = dX.col(N);
  return cost + problem.lx.dot(dx) + 0.5 * dx.dot(problem.lxx * dx);
}

// the policy rolled out on the linear model
LqSolution FollowPolicy(const LqProblem& problem, const RiccatiResult& riccati) {
  const int N = static_cast<int>(problem.knots.size());
  LqSolution out;
  out.dX.setZero(problem.lx.size(), N + 1);
  out.dU.setZero(riccati.k.rows(), N);
  for (int t = 0; t < N; ++t) {
    const LqKnot& knot = problem.knots[t];
    out.dU.col(t) = riccati.k.col(t) + riccati.K[t] * out.dX.col(t);
    out.dX.col(t + 1) = knot.A * out.dX.col(t) + knot.B * out.dU.col(t);
    if (knot.gap.size() > 0) out.dX.col(t + 1) += knot.gap;
  }
  out.cost = LqCost(problem, out.dX, out.dU);
  return out;
}

// [H Jᵀ; J 0] [z; y] = [-h; c] with z = (du_0, dx_1, du_1, …, dx_N) and J z = c the dynamics of all knots, solved
// densely
LqSolution SolveKkt(const LqProblem& problem) {
  const int N = static_cast<int>(problem.knots.size());
  const int nu = static_cast<int>(problem.knots[0].lu.size()), ndx = static_cast<int>(problem.lx.size());
  const int block = nu + ndx, nz = N * block, ny = N * ndx;
  MatrixXd S = MatrixXd::Zero(nz + ny, nz + ny);
  VectorXd right = VectorXd::Zero(nz + ny);
  const auto u_at = [&](int t) { return t * block; };
  const auto x_at = [&](int t) { return t * block - ndx; };
  for (int t = 0; t < N; ++t) {
    const LqKnot& knot = problem.knots[t];
    S.block(u_at(t), u_at(t), nu, nu) = knot.luu;
    right.segment(u_at(t), nu) = -knot.lu;
    if (t > 0) {
      S.block(x_at(t), x_at(t), ndx, ndx) = knot.lxx;
      S.block(u_at(t), x_at(t), nu, ndx) = knot.lux;
      S.block(x_at(t), u_at(t), ndx, nu) = knot.lux.transpose();
      right.segment(x_at(t), ndx) = -knot.lx;
    }

    // dx_{t+1} - A dx_t - B du_t = gap
    MatrixXd J = MatrixXd::Zero(ndx, nz);
    J.middleCols(x_at(t + 1), ndx).setIdentity();
    J.middleCols(u_at(t), nu) = -knot.B;
    if (t > 0) J.middleCols(x_at(t), ndx) = -knot.A;
    S.block(nz + t * ndx, 0, ndx, nz) = J;
    S.block(0, nz + t * ndx, nz, ndx) = J.transpose();
    if (knot.gap.size() > 0) right.segment(nz + t * ndx, ndx) = knot.gap;
  }
  S.block(x_at(N), x_at(N), ndx, ndx) = problem.lxx;
  right.segment(x_at(N), ndx) = -problem.lx;

  const VectorXd z = S.fullPivLu().solve(right);
  LqSolution out;
  out.dX.setZero(ndx, N + 1);
  out.dU.setZero(nu, N);
  for (int t = 0; t < N; ++t) {
    out.dU.col(t) = z.segment(u_at(t), nu);
    out.dX.col(t + 1) = z.segment(x_at(t + 1), ndx);
  }
  out.cost = LqCost(problem, out.dX, out.dU);
  return out;
}

// both solve the same convex problem; the promised change is the cost itself, since the cost at dx = du = 0 is zero
void ExpectTheSolutionOfTheKktSystem(bool gaps, unsigned seed) {
  SCOPED_TRACE(seed);
  const LqProblem problem = RandomProblem(6, 4, 2, gaps, seed);
  RiccatiResult riccati;
  SolveRiccati(problem, {}, &riccati);
  ASSERT_TRUE(riccati.ok);
  const LqSolution expected = SolveKkt(problem), value = FollowPolicy(problem, riccati);
  EXPECT_TRUE(MatricesNear(value.dU, expected.dU, kRounding));
  EXPECT_TRUE(MatricesNear(value.dX, expected.dX, kRounding));
  EXPECT_NEAR(riccati.expected_linear + 0.5 * riccati.expected_quadratic + riccati.expected_gap, expected.cost,
              kRounding * (gaps ? std::abs(expected.cost) : 1));
  if (!gaps) {
    EXPECT_EQ(riccati.expected_gap, 0);
  }
}

TEST(Riccati, SolvesTheKktSystemOfTheWholeProblem) {
  for (unsigned seed = 0; seed < 20; ++seed) ExpectTheSolutionOfTheKktSystem(false, seed);
}

TEST(Riccati, SolvesTheKktSystemWithGaps) {
  for (unsigned seed = 0; seed < 20; ++seed) ExpectTheSolutionOfTheKktSystem(true, seed);
}

// K solves the KKT system for any start: the first state displaced by dx0 enters as an offset of the first knot
TEST(Riccati, GainsAreTheDerivativeOfTheOptimalControl) {
  const LqProblem problem = RandomProblem(5, 3, 2, false, 3);
  RiccatiResult riccati;
  SolveRiccati(problem, {}, &riccati);
  const LqSolution base = SolveKkt(problem);
  for (int j = 0; j < 3; ++j) {
    LqProblem moved = problem;
    moved.knots[0].gap = problem.knots[0].A.col(j);
    moved.knots[0].lu += problem.knots[0].lux.col(j);
    EXPECT_TRUE(MatricesNear(riccati.K[0].col(j), SolveKkt(moved).dU.col(0) - base.dU.col(0), kRounding));
  }
}

// V has its minimum where the gradient lambda of the KKT system says: Vx and Vxx at dx = 0 by differences of the
// optimum
TEST(Riccati, ValueAtTheStartIsTheOptimalCostOfADisplacedStart) {
  const LqProblem problem = RandomProblem(5, 3, 2, false, 4);
  RiccatiResult riccati;
  SolveRiccati(problem, {}, &riccati);
  const auto cost_from = [&](const VectorXd& dx0) {
    LqProblem moved = problem;
    moved.knots[0].gap = problem.knots[0].A * dx0;
    moved.knots[0].lu += problem.knots[0].lux * dx0;
    const LqKnot& first = problem.knots[0];
    return SolveKkt(moved).cost + first.lx.dot(dx0) + 0.5 * dx0.dot(first.lxx * dx0);
  };
  const VectorXd dx0 = Eigen::Vector3d(0.3, -1.2, 0.7);
  EXPECT_NEAR(cost_from(dx0) - cost_from(VectorXd::Zero(3)),
              riccati.Vx[0].dot(dx0) + 0.5 * dx0.dot(riccati.Vxx[0] * dx0), kRounding);
}

// far from the end, Vxx is the fixed point p = q + a²p - (abp)²/(r + b²p), a quadratic in p
TEST(Riccati, ConvergesToTheScalarDare) {
  const double a = 1.1, b = 0.5, q = 2, r = 0.3;
  LqProblem problem;
  problem.knots.resize(200);
  for (LqKnot& knot : problem.knots) {
    knot.A = MatrixXd::Constant(1, 1, a);
    knot.B = MatrixXd::Constant(1, 1, b);
    knot.lx = knot.lu = VectorXd::Zero(1);
    knot.lxx = MatrixXd::Constant(1, 1, q);
    knot.luu = MatrixXd::Constant(1, 1, r);
    knot.lux = MatrixXd::Zero(1, 1);
  }
  problem.lx = VectorXd::Zero(1);
  problem.lxx = MatrixXd::Zero(1, 1);
  RiccatiResult riccati;
  SolveRiccati(problem, {}, &riccati);
  ASSERT_TRUE(riccati.ok);

  // b² p² + (r - a² r - b² q) p - q r = 0
  const double c1 = r - a * a * r - b * b * q;
  const double p = (-c1 + std::sqrt(c1 * c1 + 4 * b * b * q * r)) / (2 * b * b);
  EXPECT_NEAR(riccati.Vxx[0](0, 0), p, 1e-12 * p);
  EXPECT_NEAR(riccati.K[0](0, 0), -a * b * p / (r + b * b * p), 1e-12);
}

// a unit mass at rest moves by -1 in one second with least Σu²dt: u = b tau is linear in time (its costate is), with
// tau the time of the interval's middle less ½; -b Σ tau² dt = -1 and Σ tau² dt = (1 - dt²)/12 give b = 12/(1 - dt²)
TEST(Riccati, DoubleIntegratorFollowsTheMinimumEnergyClosedForm) {
  const int N = 50;
  const double dt = 1.0 / N, weight = 1e10;
  LqProblem problem;
  problem.knots.resize(N);
  for (LqKnot& knot : problem.knots) {
    knot.A = (MatrixXd(2, 2) << 1, dt, 0, 1).finished();
    knot.B = (MatrixXd(2, 1) << dt * dt / 2, dt).finished();
    knot.lx = VectorXd::Zero(2);
    knot.lu = VectorXd::Zero(1);
    knot.lxx = MatrixXd::Zero(2, 2);
    knot.lux = MatrixXd::Zero(1, 2);
    knot.luu = MatrixXd::Constant(1, 1, dt);
  }
  // ½ weight ‖dx_N - (-1, 0)‖²
  problem.lx = weight * Eigen::Vector2d(1, 0);
  problem.lxx = weight * MatrixXd::Identity(2, 2);
  RiccatiResult riccati;
  SolveRiccati(problem, {}, &riccati);
  ASSERT_TRUE(riccati.ok);
  const LqSolution solution = FollowPolicy(problem, riccati);
  for (int t = 0; t < N; ++t) {
    const double expected = 12 / (1 - dt * dt) * ((t + 0.5) * dt - 0.5);
    EXPECT_NEAR(solution.dU(0, t), expected, 1e-6) << "knot " << t;  // 1e-6: cancellation against the weight of 1e10
  }
}

// bounds act at dx = 0: each k solves its own box QP with Quu and Qu from the value of the next knot
TEST(Riccati, BoundedControlsSatisfyTheKktConditionsOfEachKnot) {
  LqProblem problem = RandomProblem(8, 4, 3, false, 11);
  for (LqKnot& knot : problem.knots) {
    knot.du_lower = VectorXd::Constant(3, -0.1);
    knot.du_upper = VectorXd::Constant(3, 0.05);
    knot.du_upper[2] = kInf;
  }
  RiccatiResult riccati;
  SolveRiccati(problem, {}, &riccati);
  ASSERT_TRUE(riccati.ok);
  int clamped = 0, free = 0;
  for (int t = 0; t < 8; ++t) {
    const LqKnot& knot = problem.knots[t];
    const VectorXd k = riccati.k.col(t);
    const MatrixXd Quu = knot.luu + knot.B.transpose() * riccati.Vxx[t + 1] * knot.B;
    const VectorXd gradient = knot.lu + knot.B.transpose() * riccati.Vx[t + 1] + Quu * k;
    for (int i = 0; i < 3; ++i) {
      EXPECT_GE(k[i], knot.du_lower[i]);
      EXPECT_LE(k[i], knot.du_upper[i]);
      const bool at_lower = k[i] == knot.du_lower[i], at_upper = k[i] == knot.du_upper[i];
      const std::string where = "knot " + std::to_string(t) + ", control " + std::to_string(i);
      EXPECT_TRUE(at_lower || gradient[i] <= kRounding) << where;
      EXPECT_TRUE(at_upper || gradient[i] >= -kRounding) << where;
      EXPECT_TRUE(!(at_lower || at_upper) || riccati.K[t].row(i).norm() == 0) << where;
      (at_lower || at_upper ? clamped : free)++;
    }
  }
  EXPECT_GT(clamped, 3);
  EXPECT_GT(free, 3);
}

// bounds that hold nothing back change nothing
TEST(Riccati, WideBoundsGiveTheUnboundedSolution) {
  LqProblem problem = RandomProblem(5, 4, 2, false, 12);
  RiccatiResult unbounded, bounded;
  SolveRiccati(problem, {}, &unbounded);
  for (LqKnot& knot : problem.knots) {
    knot.du_lower = VectorXd::Constant(2, -1e6);
    knot.du_upper = VectorXd::Constant(2, kInf);
  }
  SolveRiccati(problem, {}, &bounded);
  EXPECT_TRUE(MatricesNear(bounded.k, unbounded.k, kRounding));
  EXPECT_TRUE(MatricesNear(bounded.Vxx[0], unbounded.Vxx[0], kRounding * unbounded.Vxx[0].norm()));
}

// one knot: k = -(luu + BᵀVxxB + mu I + mu_state BᵀB)⁻¹ (lu + BᵀVx), written out; the promise uses the model without mu
TEST(Riccati, RegularizesControlsOrStates) {
  const LqProblem problem = RandomProblem(1, 3, 2, false, 5);
  const LqKnot& knot = problem.knots[0];
  const double mu = 7, mu_state = 3;
  RiccatiResult riccati;
  SolveRiccati(problem, {.regularization = mu, .regularization_state = mu_state}, &riccati);
  ASSERT_TRUE(riccati.ok);
  const MatrixXd Quu = knot.luu + knot.B.transpose() * problem.lxx * knot.B;
  const MatrixXd Quu_mu = Quu + mu * MatrixXd::Identity(2, 2) + mu_state * knot.B.transpose() * knot.B;
  const MatrixXd Qux = knot.lux + knot.B.transpose() * problem.lxx * knot.A;
  const VectorXd Qu = knot.lu + knot.B.transpose() * problem.lx;
  const VectorXd k = -Quu_mu.inverse() * Qu;
  EXPECT_TRUE(MatricesNear(riccati.k, k, kRounding));
  EXPECT_TRUE(
      MatricesNear(riccati.K[0], -Quu_mu.inverse() * (Qux + mu_state * knot.B.transpose() * knot.A), kRounding));
  EXPECT_NEAR(riccati.expected_linear, k.dot(Qu), kRounding);
  EXPECT_NEAR(riccati.expected_quadratic, k.dot(Quu * k), kRounding);
}

// at a bound, only the gradient that points inward is left to reduce
TEST(Riccati, GradientNormIgnoresControlsThatTheirBoundHolds) {
  LqProblem problem = RandomProblem(1, 2, 2, false, 6);
  LqKnot& knot = problem.knots[0];
  knot.B.setZero();
  knot.lu = Eigen::Vector2d(5, -3);
  RiccatiResult riccati;
  SolveRiccati(problem, {}, &riccati);
  EXPECT_EQ(riccati.gradient_norm, 5);
  knot.du_lower = Eigen::Vector2d(0, -1);
  knot.du_upper = Eigen::Vector2d(1, 1);
  SolveRiccati(problem, {}, &riccati);
  EXPECT_EQ(riccati.gradient_norm, 3);
  EXPECT_EQ(riccati.gradient_norm_per_knot[0], 3);
  knot.du_upper[1] = 0;
  SolveRiccati(problem, {}, &riccati);
  EXPECT_EQ(riccati.gradient_norm, 0);
}

TEST(Riccati, NamesTheKnotWhoseQuuIsNotPositiveDefinite) {
  LqProblem problem = RandomProblem(5, 3, 2, false, 7);
  problem.knots[2].luu -= 1e6 * MatrixXd::Identity(2, 2);
  RiccatiResult riccati;
  SolveRiccati(problem, {}, &riccati);
  EXPECT_FALSE(riccati.ok);
  EXPECT_EQ(riccati.failed_knot, 2);
  SolveRiccati(problem, {.regularization = 1e7}, &riccati);
  EXPECT_TRUE(riccati.ok);
}

TEST(Riccati, ReportsNumbersThatAreNotFinite) {
  for (const double bad : {std::nan(""), kInf}) {
    for (const bool bounded : {false, true}) {
      LqProblem problem = RandomProblem(5, 3, 2, false, 8);
      if (bounded) problem.knots[3].du_lower = problem.knots[3].du_upper = VectorXd::Zero(2);
      problem.knots[3].A(1, 1) = bad;
      RiccatiResult riccati;
      SolveRiccati(problem, {}, &riccati);
      EXPECT_FALSE(riccati.ok);
    }
  }
}

// the backward recursion averages rounding away from symmetry: the factor and the next knots rely on it
TEST(Riccati, ValueHessiansAreSymmetricToTheLastBit) {
  const LqProblem problem = RandomProblem(30, 7, 3, false, 9);
  RiccatiResult riccati;
  SolveRiccati(problem, {}, &riccati);
  for (int t = 0; t < 30; ++t) EXPECT_TRUE(BitwiseEqual(riccati.Vxx[t], riccati.Vxx[t].transpose())) << "knot " << t;
}

TEST(Riccati, ReusesItsMemoryAndForgetsItsPast) {
  const LqProblem other = RandomProblem(6, 4, 2, false, 13), problem = RandomProblem(6, 4, 2, true, 14);
  RiccatiResult fresh, reused;
  SolveRiccati(problem, {}, &fresh);
  SolveRiccati(other, {}, &reused);
  const double* const k = reused.k.data();
  std::set<const double*> Vxx{reused.scratch.Qxx.data()};  // they change places
  for (const MatrixXd& V : reused.Vxx) Vxx.insert(V.data());
  const double* const Quu = reused.scratch.Quu.data();
  SolveRiccati(problem, {}, &reused);
  EXPECT_EQ(reused.k.data(), k);
  for (const MatrixXd& V : reused.Vxx) EXPECT_TRUE(Vxx.count(V.data()));
  EXPECT_EQ(reused.scratch.Quu.data(), Quu);
  EXPECT_TRUE(BitwiseEqual(reused.k, fresh.k));
  EXPECT_TRUE(BitwiseEqual(reused.Vxx[0], fresh.Vxx[0]));
  EXPECT_EQ(reused.expected_linear, fresh.expected_linear);
}

// positions 0, 2 and 3 go along their new velocities, 1 has a row of its own; behind the velocities there is one more
LqProblem IntegratedProblem(bool gaps) {
  constexpr double kStep = 0.03;
  LqProblem problem = RandomProblem(12, 9, 3, gaps, 21);
  for (LqKnot& knot : problem.knots) {
    for (const int i : {0, 2, 3}) {
      knot.A.row(i) = kStep * knot.A.row(4 + i);
      knot.A(i, i) += 1;
      knot.B.row(i) = kStep * knot.B.row(4 + i);
    }
  }
  return problem;
}

TEST(Riccati, DoesWithoutRowsThatAreIntegrated) {
  for (const bool bounded : {false, true}) {
    LqProblem problem = IntegratedProblem(true);
    for (LqKnot& knot : problem.knots) {
      if (bounded) knot.du_upper = -(knot.du_lower = VectorXd::Constant(3, -0.05));
    }
    RiccatiResult whole, without;
    SolveRiccati(problem, {.regularization = 0.1}, &whole);
    for (LqKnot& knot : problem.knots) {
      FindIntegratedRows(4, 0.03, &knot);
      EXPECT_TRUE(MatricesNear(knot.integrated, Eigen::Vector4d(0.03, 0, 0.03, 0.03), 0));
    }
    SolveRiccati(problem, {.regularization = 0.1}, &without);
    ASSERT_TRUE(whole.ok && without.ok);
    EXPECT_TRUE(MatricesNear(without.k, whole.k, 1e-12));
    EXPECT_NEAR(without.expected_linear, whole.expected_linear, 1e-12 * std::abs(whole.expected_linear));
    for (std::size_t t = 0; t < problem.knots.size(); ++t) {
      EXPECT_TRUE(MatricesNear(without.K[t], whole.K[t], 1e-12)) << t;
      const double size = whole.Vxx[t].cwiseAbs().maxCoeff();
      EXPECT_TRUE(MatricesNear(without.Vxx[t], whole.Vxx[t], 1e-13 * size)) << t;
      EXPECT_TRUE(MatricesNear(without.Vx[t], whole.Vx[t], 1e-13 * size)) << t;
    }
  }
}

TEST(Riccati, FindsNoIntegratedRowsWhereThereAreNone) {
  LqProblem problem = IntegratedProblem(false);
  LqKnot& knot = problem.knots[0];
  const auto found = [&](double h) {
    FindIntegratedRows(4, h, &knot);
    return knot.integrated;
  };
  EXPECT_TRUE(found(0.031).isZero(0));
  EXPECT_EQ(found(0).size(), 0);
  knot.A(2, 7) *= 1 + 1e-13;
  EXPECT_TRUE(MatricesNear(found(0.03), Eigen::Vector4d(0.03, 0, 0, 0.03), 0));
  knot.B(0, 1) += 1e-13;
  EXPECT_TRUE(MatricesNear(found(0.03), Eigen::Vector4d(0, 0, 0, 0.03), 0));
  knot.A(3, 3) = std::nan("");
  EXPECT_TRUE(found(0.03).isZero(0));

  problem.knots[1].integrated.setConstant(5, 0.03);
  RiccatiResult riccati;
  EXPECT_ERROR(SolveRiccati(problem, {}, &riccati), ErrorCode::kDimensionMismatch, "integrated of knot 1", "5", "4");
}

// a control held at du = upper + S dx, the other free: the same as the free one alone about A + b S, with what the held
// one costs among the costs of states
TEST(Lqr, ABoundThatMovesIsFollowed) {
  std::srand(5);
  const int ndx = 4;
  LqProblem problem;
  problem.knots.resize(1);
  LqKnot& knot = problem.knots[0];
  knot.A = MatrixXd::Random(ndx, ndx);
  knot.B = MatrixXd::Random(ndx, 2);
  knot.lx = VectorXd::Random(ndx);
  knot.lu = Eigen::Vector2d(-100, 0.3);  // the first is pushed against its upper bound
  knot.lxx = MatrixXd::Identity(ndx, ndx);
  knot.lux = MatrixXd::Random(2, ndx);
  knot.luu = (Eigen::Matrix2d() << 2, 0.5, 0.5, 3).finished();
  knot.du_lower = Eigen::Vector2d(-1, -1e3);
  knot.du_upper = Eigen::Vector2d(0.1, 1e3);
  knot.lower_slope = MatrixXd::Random(2, ndx);
  knot.upper_slope = MatrixXd::Random(2, ndx);
  problem.lx = VectorXd::Random(ndx);
  problem.lxx = 2 * MatrixXd::Identity(ndx, ndx);
  RiccatiResult both;
  SolveRiccati(problem, {}, &both);
  ASSERT_TRUE(both.ok);
  ASSERT_EQ(both.k(0, 0), 0.1);
  const Eigen::RowVectorXd S = knot.upper_slope.row(0);
  EXPECT_TRUE(MatricesNear(both.K[0].row(0), S, kRounding));

  LqProblem one = problem;
  LqKnot& rest = one.knots[0];
  rest.A = knot.A + knot.B.col(0) * S;
  rest.B = knot.B.col(1);
  rest.gap = knot.B.col(0) * 0.1;
  const VectorXd first = knot.lux.row(0).transpose();
  rest.lx = knot.lx + first * 0.1 + S.transpose() * (knot.lu[0] + knot.luu(0, 0) * 0.1);
  rest.lxx = knot.lxx + first * S + S.transpose() * first.transpose() + knot.luu(0, 0) * S.transpose() * S;
  rest.lu = VectorXd::Constant(1, knot.lu[1] + knot.luu(1, 0) * 0.1);
  rest.lux = knot.lux.row(1) + knot.luu(1, 0) * S;
  rest.luu = MatrixXd::Constant(1, 1, knot.luu(1, 1));
  rest.du_lower = rest.du_upper = VectorXd();
  rest.lower_slope = rest.upper_slope = MatrixXd();
  RiccatiResult alone;
  SolveRiccati(one, {}, &alone);
  ASSERT_TRUE(alone.ok);
  EXPECT_NEAR(both.k(1, 0), alone.k(0, 0), kRounding);
  EXPECT_TRUE(MatricesNear(both.K[0].row(1), alone.K[0], kRounding));
  EXPECT_TRUE(MatricesNear(both.Vx[0], alone.Vx[0], kRounding));
  EXPECT_TRUE(MatricesNear(both.Vxx[0], alone.Vxx[0], kRounding));
}

// what a caller may have left out or mixed up, each by itself
TEST(Lqr, RefusesPartsOfOtherSizes) {
  RiccatiResult riccati;
  EXPECT_ERROR(SolveRiccati(LqProblem(), {}, &riccati), ErrorCode::kInvalidArgument, "it has no knots");
  const LqProblem right = RandomProblem(3, 4, 2, true, 1);
  const auto refused = [&](const std::function<void(LqProblem*)>& change, const char* what, const char* sizes) {
    LqProblem wrong = right;
    change(&wrong);
    EXPECT_ERROR(SolveRiccati(wrong, {}, &riccati), ErrorCode::kDimensionMismatch, what, sizes);
  };
  refused([](LqProblem* p) { p->knots[1].A = MatrixXd(4, 3); }, "A of knot 1", "is 4 × 3, expected 4 × 4");
  refused([](LqProblem* p) { p->knots[2].B = MatrixXd(4, 1); }, "B of knot 2", "is 4 × 1, expected 4 × 2");
  refused([](LqProblem* p) { p->knots[1].lux = MatrixXd(4, 2); }, "lux of knot 1", "is 4 × 2, expected 2 × 4");
  refused([](LqProblem* p) { p->knots[0].luu.resize(0, 0); }, "luu of knot 0", "is 0 × 0, expected 2 × 2");
  refused([](LqProblem* p) { p->knots[0].lxx = MatrixXd(3, 3); }, "lxx of knot 0", "is 3 × 3, expected 4 × 4");
  refused([](LqProblem* p) { p->knots[0].lx = VectorXd(3); }, "lx of knot 0", "is of size 3, expected 4");
  refused([](LqProblem* p) { p->knots[1].lu = VectorXd(); }, "lu of knot 1", "is of size 0, expected 2");
  refused([](LqProblem* p) { p->knots[1].gap = VectorXd(5); }, "gap of knot 1", "is of size 5, expected 4");
  refused([](LqProblem* p) { p->knots[1].du_lower = VectorXd(2); }, "du_upper of knot 1", "is of size 0, expected 2");
  refused([](LqProblem* p) { p->knots[1].upper_slope = MatrixXd(2, 4); }, "lower_slope of knot 1", "is 0 × 0");
  refused([](LqProblem* p) { p->lx = VectorXd(); }, "lx of the end", "is of size 0, expected 4");
  refused([](LqProblem* p) { p->lxx = MatrixXd(4, 2); }, "lxx of the end", "is 4 × 2, expected 4 × 4");
  refused([](LqProblem* p) { p->start.entries = {1, 2}; }, "lower of the start", "is of size 0, expected 2");
  LqProblem start = right;
  start.start = {.entries = {1, 4}, .lower = VectorXd::Constant(2, -1), .upper = VectorXd::Ones(2)};
  EXPECT_ERROR(SolveRiccati(start, {}, &riccati), ErrorCode::kInvalidArgument, "entry 1 of the start is 4");
  start.start.entries = {2, 1};
  EXPECT_ERROR(SolveRiccati(start, {}, &riccati), ErrorCode::kInvalidArgument, "entry 1 of the start is 1");
  start.start.entries = {1, 2};
  SolveRiccati(start, {}, &riccati);
  EXPECT_TRUE(riccati.ok);
}

// a NaN is no bound that is left out, and nothing lies between bounds that exclude each other
TEST(Lqr, RefusesBoundsThatAreNone) {
  RiccatiResult riccati;
  const LqProblem right = RandomProblem(3, 4, 2, true, 1);
  const auto refused = [&](const VectorXd& lower, const VectorXd& upper, const char* what, const char* numbers) {
    LqProblem wrong = right;
    wrong.knots[1].du_lower = lower;
    wrong.knots[1].du_upper = upper;
    EXPECT_ERROR(SolveRiccati(wrong, {}, &riccati), ErrorCode::kInvalidArgument, what, numbers);
    wrong = right;
    wrong.start = {.entries = {0, 3}, .lower = lower, .upper = upper};
    EXPECT_ERROR(SolveRiccati(wrong, {}, &riccati), ErrorCode::kInvalidArgument, "of the start are", numbers);
  };
  const VectorXd ones = VectorXd::Ones(2), second = Eigen::Vector2d(-1, std::nan(""));
  refused(second, ones, "bounds 1 of du of knot 1 are", "nan and 1");
  refused(-ones, Eigen::Vector2d(1, std::nan("")), "bounds 1 of du of knot 1 are", "-1 and nan");
  refused(ones, -ones, "bounds 0 of du of knot 1 are", "1 and -1, expected lower ≤ upper");
}

}  // namespace
}  // namespace costate
