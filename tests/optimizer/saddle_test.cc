#include "optimizer/saddle.h"

#include <costate/curvature.h>
#include <costate/ilqr.h>
#include <gtest/gtest.h>

#include <Eigen/Eigenvalues>

#include <cmath>
#include <string>
#include <vector>

#include "support/engine_test.h"
#include "support/matrix_near.h"

namespace costate {
namespace {

using support::BitwiseEqual;
using SaddleTest = support::EngineTest;

// a mass that slides in a plane
constexpr char kPuck[] = R"(
<mujoco model="puck">
  <option timestep="0.02" gravity="0 0 0"/>
  <worldbody>
    <body><joint name="x" type="slide" axis="1 0 0" damping="0.3"/><joint name="y" type="slide" axis="0 1 0"/>
      <geom size="0.1" mass="1"/></body>
  </worldbody>
  <actuator><motor joint="x"/><motor joint="y"/></actuator>
</mujoco>)";

// a cart with a pole that stands on it and falls by itself, four times as far every 0.3 s
constexpr char kPole[] = R"(
<mujoco model="pole">
  <option timestep="0.02" integrator="implicitfast"/>
  <worldbody>
    <body><joint name="x" type="slide" axis="1 0 0"/><geom size="0.1" mass="1"/>
      <body><joint name="pole" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 0.6" size="0.02" mass="0.2"/></body>
    </body>
  </worldbody>
  <actuator><motor joint="x"/></actuator>
</mujoco>)";

// ½ Σ dt r u² + ½ w ((depth - x²)² + (y - side)²) at the end. depth > 0: two equal minima beside a ridge x = 0;
// depth < 0: one minimum, there.
class ForkCost final : public Cost {
 public:
  ForkCost(double depth, double side) : depth_(depth), side_(side) {}
  double Value(const KnotView& knot) const override {
    if (knot.t < knot.N) return 0.5 * knot.dt * kEffort * knot.u.squaredNorm();
    const double fork = depth_ - knot.x[0] * knot.x[0], y = knot.x[1] - side_;
    return 0.5 * kWeight * (fork * fork + y * y);
  }
  void Expand(const KnotView& knot, ConstMatrixRef, ConstMatrixRef, CostExpansion* out) const override {
    const Eigen::Index nu = knot.u.size();
    out->l = Value(knot);
    out->lx.setZero(4);
    out->lxx.setZero(4, 4);
    out->lu = knot.dt * kEffort * knot.u;
    out->lux.setZero(nu, 4);
    out->luu = knot.dt * kEffort * MatrixXd::Identity(nu, nu);
    if (knot.t < knot.N) return;
    const double x = knot.x[0];
    out->lx[0] = -2 * kWeight * x * (depth_ - x * x);
    out->lx[1] = kWeight * (knot.x[1] - side_);
    out->lxx(0, 0) = 4 * kWeight * x * x;
    out->lxx(1, 1) = kWeight;
  }
  bool NeedsSensors() const override { return false; }
  std::vector<CostTermValue> Terms(const Trajectory&) const override { return {}; }

 private:
  static constexpr double kEffort = 0.1, kWeight = 5;
  double depth_, side_;
};

struct Fork {
  explicit Fork(double depth, const char* mjcf = kPuck, int N = 40, double side = 1)
      : model(LoadModelFromString(mjcf)), cost(depth, side), U(MatrixXd::Zero(model->nu, N)) {
    const DataPtr start = MakeData(model.get());
    problem.model = model.get();
    problem.cost = &cost;
    problem.x0 = GetState(model.get(), start.get());
    problem.context = GetContext(model.get(), start.get());
    problem.N = N;
    ControlLimits(model.get(), &problem.u_lower, &problem.u_upper);
  }
  ModelPtr model;
  ForkCost cost;
  Problem problem;
  MatrixXd U;
};

// At x = 0 the fork has no slope by x, and its model none of the curvature -2 w depth: every step of iLQR stays on the
// ridge.
TEST_F(SaddleTest, IsLeftForAMinimumBesideIt) {
  const Fork fork(1);
  const SolveResult stays = SolveIlqr(fork.problem, fork.U, {.leave_saddles = false});
  EXPECT_EQ(stays.status, SolveStatus::kConverged);
  EXPECT_EQ(stays.trajectory.X.row(0).cwiseAbs().maxCoeff(), 0);

  const SolveResult leaves = SolveIlqr(fork.problem, fork.U);
  EXPECT_EQ(leaves.status, SolveStatus::kConverged);
  EXPECT_NE(leaves.message.find("left 1 saddle along negative curvature"), std::string::npos) << leaves.message;
  EXPECT_NEAR(std::abs(leaves.trajectory.X(0, 40)), 1, 0.1);
  EXPECT_LT(leaves.cost, 0.5 * stays.cost);

  // as from a guess that is not symmetric
  const SolveResult beside = SolveIlqr(fork.problem, MatrixXd::Constant(2, 40, 0.1));
  EXPECT_EQ(beside.message.find("saddle"), std::string::npos) << beside.message;
  EXPECT_NEAR(leaves.cost, beside.cost, 1e-5 * beside.cost);

  // a step as any other: records add up, and one of them says so
  int left = 0;
  double cost = leaves.initial_cost;
  for (const IterationRecord& record : leaves.iterations) {
    EXPECT_NEAR(record.cost, cost + record.actual_change, 1e-12 * leaves.initial_cost);
    EXPECT_LE(record.actual_change, 0);
    cost = record.cost;
    if (record.curvature == 0) continue;
    ++left;
    EXPECT_LT(record.curvature, 0);
    EXPECT_GT(record.step, 0);
    EXPECT_LT(record.expected_change, 0);
  }
  EXPECT_EQ(left, 1);
}

// The pole's fall grows by exp(20) over the motion, which an open rollout leaves at once; with the model's feedback the
// first step leads nearly all the way.
TEST_F(SaddleTest, IsLeftByAnUnstableMotion) {
  const Fork fork(1, kPole, 200, 0);
  const SolveResult result = SolveIlqr(fork.problem, fork.U);
  EXPECT_NE(result.message.find("left 1 saddle"), std::string::npos) << result.message;
  EXPECT_NEAR(std::abs(result.trajectory.X(0, 200)), 1, 0.1);
  EXPECT_NEAR(result.trajectory.X(1, 200), 0, 0.1);
  ASSERT_LT(result.iterations.at(0).curvature, 0);
  EXPECT_LT(result.iterations[0].cost, 0.01 * result.initial_cost);
}

// Also where iterations would go on without end, the tolerance being 0.
TEST_F(SaddleTest, IsLeftWhateverTheTolerance) {
  const Fork fork(1);
  const SolveResult result =
      SolveIlqr(fork.problem, fork.U, {.iterations = 40, .tolerance = 0, .gradient_tolerance = 0});
  EXPECT_NEAR(std::abs(result.trajectory.X(0, 40)), 1, 0.1);
}

// At a minimum nothing curves down: the same iterations to the last bit.
TEST_F(SaddleTest, ChangesNothingAtAMinimum) {
  const Fork fork(-1);
  for (const double guess : {0.0, 0.3}) {
    const MatrixXd U = MatrixXd::Constant(2, 40, guess);
    const SolveResult with = SolveIlqr(fork.problem, U), without = SolveIlqr(fork.problem, U, {.leave_saddles = false});
    EXPECT_EQ(with.message, without.message);
    EXPECT_EQ(with.iterations.size(), without.iterations.size());
    EXPECT_TRUE(BitwiseEqual(with.trajectory.U, without.trajectory.U));
  }
}

TEST_F(SaddleTest, DoesNotDependOnTheThreadCount) {
  const Fork fork(1);
  const SolveResult one = SolveIlqr(fork.problem, fork.U, {.threads = 1});
  const SolveResult many = SolveIlqr(fork.problem, fork.U, {.threads = 3});
  EXPECT_EQ(one.iterations.size(), many.iterations.size());
  EXPECT_TRUE(BitwiseEqual(one.trajectory.U, many.trajectory.U));
}

// The least eigenvalue of M⁻¹ H over all free controls, both matrices formed column by column: H by second derivatives
// of the rollout, M by those of the model. Three controls are at a bound and count in neither.
TEST_F(SaddleTest, FindsTheLeastCurvature) {
  Fork fork(0.7);
  fork.problem.u_lower.setConstant(-1);
  fork.problem.u_upper.setConstant(1);
  fork.U(0, 3) = 1;
  fork.U(0, 4) = -1;
  fork.U(1, 5) = 1;
  const IlqrOptions options;
  Simulator simulator(fork.model.get(), fork.problem.context, 1, 1);
  Trajectory motion;
  ASSERT_TRUE(simulator.Rollout(fork.problem.x0, fork.U, &motion).ok());
  LqProblem lq;
  ASSERT_EQ(Expander(fork.problem, &simulator, options.derivative).Expand(motion, &lq), -1);
  Saddle saddle(fork.problem, &simulator, options);
  const double curvature = saddle.Find(motion, lq, 1);

  Curvature exact(fork.model.get(), fork.problem.context);
  ASSERT_TRUE(exact.SetPoint(motion, fork.cost).ok());
  MatrixXd H(80, 80), M(80, 80);
  for (int i = 0; i < 80; ++i) {
    RolloutDirection unit{VectorXd::Zero(4), MatrixXd::Zero(2, 40)};
    unit.U(i % 2, i / 2) = 1;
    CurvatureProduct product;
    exact.Hessian(unit, &product);
    H.col(i) = product.product.U.reshaped();

    // M: along the linear motion, and back
    MatrixXd dX = MatrixXd::Zero(4, 41);
    for (int t = 0; t < 40; ++t) {
      const LqKnot& knot = lq.knots[static_cast<std::size_t>(t)];
      dX.col(t + 1) = knot.A * dX.col(t) + knot.B * unit.U.col(t);
    }
    VectorXd lambda = lq.lxx * dX.col(40);
    for (int t = 39; t >= 0; --t) {
      const LqKnot& knot = lq.knots[static_cast<std::size_t>(t)];
      M.col(i).segment(2 * t, 2) = knot.luu * unit.U.col(t) + knot.B.transpose() * lambda;
      lambda = knot.lxx * dX.col(t) + knot.A.transpose() * lambda;
    }
  }
  std::vector<int> within;
  for (int i = 0; i < 80; ++i)
    if (std::abs(fork.U(i % 2, i / 2)) < 1) within.push_back(i);
  ASSERT_EQ(within.size(), 77u);
  const MatrixXd H_free = H(within, within), M_free = M(within, within);
  const Eigen::GeneralizedSelfAdjointEigenSolver<MatrixXd> eigen(H_free, M_free);
  EXPECT_LT(eigen.eigenvalues()[0], -0.1);
  EXPECT_NEAR(curvature, eigen.eigenvalues()[0], 1e-4 * std::abs(eigen.eigenvalues()[0]));
}

// With fewer free controls than products the search ends when it has seen them all, and with none it finds nothing.
TEST_F(SaddleTest, EndsWhereFewControlsAreFree) {
  Fork fork(2000, kPuck, 5);
  fork.problem.u_lower.setConstant(-1);
  fork.problem.u_upper.setConstant(1);
  Simulator simulator(fork.model.get(), fork.problem.context, 1, 1);
  const IlqrOptions options;
  Saddle saddle(fork.problem, &simulator, options);
  const auto find = [&](const MatrixXd& U, LqProblem* lq) {
    Trajectory motion;
    EXPECT_TRUE(simulator.Rollout(fork.problem.x0, U, &motion).ok());
    EXPECT_EQ(Expander(fork.problem, &simulator, options.derivative).Expand(motion, lq), -1);
    return saddle.Find(motion, *lq, 1);
  };
  fork.U.setOnes();
  LqProblem lq;
  EXPECT_EQ(find(fork.U, &lq), 0);

  // of one control: d²J/du² = effort + w (6 x² - 2 depth) (dx/du)², of the model effort + 4 w x² (dx/du)²
  fork.U(0, 0) = 0;
  const double curvature = find(fork.U, &lq);
  Trajectory motion;
  ASSERT_TRUE(simulator.Rollout(fork.problem.x0, fork.U, &motion).ok());
  VectorXd dx = lq.knots[0].B.col(0);
  for (std::size_t t = 1; t < 5; ++t) dx = lq.knots[t].A * dx;
  const double x = motion.X(0, 5), effort = 0.02 * 0.1, by_u = dx[0] * dx[0];
  const double exact = (effort + 5 * (6 * x * x - 4000) * by_u) / (effort + 20 * x * x * by_u);
  EXPECT_LT(exact, -1);
  EXPECT_NEAR(curvature, exact, 1e-4 * std::abs(exact));
}

}  // namespace
}  // namespace costate
