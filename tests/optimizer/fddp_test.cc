#include <costate/fddp.h>

#include <costate/costate.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "optimizer/second_order.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/task_file.h"

namespace costate {
namespace {

using support::BitwiseEqual;
using support::MatricesNear;
using FddpTest = support::EngineTest;

Task LoadModelTask(const std::string& file) { return LoadTask(std::string(COSTATE_MODELS) + "/" + file); }

MatrixXd RandomMatrix(Eigen::Index rows, Eigen::Index cols, double size, unsigned seed) {
  srand(seed);
  return size * MatrixXd::Random(rows, cols);
}

// states off the motion by `size`, the start excepted
MatrixXd Scatter(const mjModel* model, const MatrixXd& X, double size, unsigned seed) {
  MatrixXd result = X;
  const MatrixXd noise = RandomMatrix(Dims(model).ndx, X.cols(), size, seed);
  for (int t = 1; t < X.cols(); ++t) result.col(t) = Retract(model, X.col(t), noise.col(t));
  return result;
}

Trajectory MotionOf(const Task& task, Simulator* simulator) {
  Trajectory motion;
  EXPECT_TRUE(simulator->Rollout(task.x0, task.U_guess, &motion).ok());
  return motion;
}

// gap(α) = (1 − α) gap exactly, rotations and activations included: f ⊖ (f ⊕ −(1 − α) gap) = (1 − α) gap
TEST_F(FddpTest, RolloutsLeaveOneMinusAlphaOfEveryGap) {
  Task task = LoadModelTask("quadrotor/fly.xml");
  Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  const MatrixXd X = Scatter(task.model.get(), MotionOf(task, &simulator).X, 0.2, 1);
  Trajectory guess, next, again;
  MatrixXd gaps, left;
  ASSERT_TRUE(simulator.Follow(X, task.U_guess, &guess, &gaps).ok());
  EXPECT_EQ(guess.X, X);
  EXPECT_GT(gaps.cwiseAbs().minCoeff(), 0);
  const int nu = static_cast<int>(task.u_lower.size()), ndx = static_cast<int>(gaps.rows());
  const Policy policy{RandomMatrix(nu, task.N, 0.1, 2),
                      std::vector<MatrixXd>(static_cast<std::size_t>(task.N), RandomMatrix(nu, ndx, 0.05, 3))};
  for (const double alpha : {0.25, 1.0}) {
    ASSERT_TRUE(simulator
                    .RolloutGaps(guess, gaps, policy, alpha, task.u_lower.replicate(1, task.N),
                                 task.u_upper.replicate(1, task.N), &next)
                    .ok());
    ASSERT_TRUE(simulator.Follow(next.X, next.U, &again, &left).ok());
    EXPECT_TRUE(MatricesNear(left, (1 - alpha) * gaps, 1e-12));
  }
}

// with gaps closed the same rollout is RolloutPolicy, bit for bit
TEST_F(FddpTest, RolloutsWithoutGapsAreThoseOfThePolicy) {
  Task task = LoadModelTask("hopper/hop.xml");
  Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  const Trajectory motion = MotionOf(task, &simulator);
  Trajectory guess, a, b;
  MatrixXd gaps;
  ASSERT_TRUE(simulator.Follow(motion.X, motion.U, &guess, &gaps).ok());
  EXPECT_TRUE(gaps.isZero(0));
  EXPECT_TRUE(BitwiseEqual(guess.S, motion.S));
  const int nu = static_cast<int>(task.u_lower.size()), ndx = static_cast<int>(gaps.rows());
  const Policy policy{RandomMatrix(nu, task.N, 0.1, 2),
                      std::vector<MatrixXd>(static_cast<std::size_t>(task.N), RandomMatrix(nu, ndx, 0.05, 3))};
  ASSERT_TRUE(simulator.RolloutPolicy(motion, policy, 0.5, task.u_lower, task.u_upper, &a).ok());
  ASSERT_TRUE(simulator
                  .RolloutGaps(motion, gaps, policy, 0.5, task.u_lower.replicate(1, task.N),
                               task.u_upper.replicate(1, task.N), &b)
                  .ok());
  EXPECT_TRUE(BitwiseEqual(a.X, b.X));
}

// linear dynamics and quadratic cost: the recursion with gaps is exact, whatever the states of the guess
TEST_F(FddpTest, SolvesLinearQuadraticProblemsInOneIterationFromStatesThatAreNoMotion) {
  Task task = LoadModelTask("reference/chain/rest.xml");
  const SolveResult from_motion = SolveFddp(task.ToProblem(), MatrixXd(), task.U_guess, task.solver);
  const MatrixXd X = RandomMatrix(task.x0.size(), task.N + 1, 3, 4),
                 U = RandomMatrix(task.u_lower.size(), task.N, 5, 5);
  const SolveResult result = SolveFddp(task.ToProblem(), X, U, task.solver);
  EXPECT_EQ(result.status, SolveStatus::kConverged) << result.message;
  EXPECT_EQ(result.iterations.size(), 1u);
  EXPECT_EQ(result.iterations[0].gap, 0);
  EXPECT_NEAR(result.cost, from_motion.cost, 1e-10 * from_motion.cost);
  EXPECT_TRUE(MatricesNear(result.trajectory.X.col(0), task.x0, 0));
}

TEST_F(FddpTest, IsTheSameBitForBitAtAnyThreadCount) {
  Task task = LoadModelTask("reference/cartpole/swing_up.xml");
  task.solver.iterations = 12;
  task.solver.threads = 1;
  const SolveResult one = Solve(task.ToProblem(), task.ToGuess(), task.solver);
  for (const int threads : {2, 5}) {
    task.solver.threads = threads;
    const SolveResult many = Solve(task.ToProblem(), task.ToGuess(), task.solver);
    EXPECT_EQ(one.cost, many.cost);
    EXPECT_TRUE(BitwiseEqual(one.trajectory.X, many.trajectory.X)) << threads;
    EXPECT_TRUE(BitwiseEqual(one.policy.k, many.policy.k)) << threads;
  }
}

// dᵀHd along the tangent of a motion, from the blocks of its knots and from the sweeps of Curvature
TEST_F(FddpTest, BlocksOfTheHessianAreThoseOfTheMotionsCurvature) {
  for (const char* file : {"reference/cartpole/swing_up.xml", "quadrotor/fly.xml", "arm/reach.xml"}) {
    Task task = LoadModelTask(file);
    task.N = 5;
    task.U_guess = task.U_guess.leftCols(5).eval() + RandomMatrix(task.u_lower.size(), 5, 0.2, 6);
    const Problem problem = task.ToProblem();
    Simulator simulator(task.model.get(), task.context, task.substeps, 1);
    const Trajectory motion = MotionOf(task, &simulator);
    std::vector<StepDerivative> steps;
    const bool sensors = task.cost->NeedsSensors();
    simulator.Linearize(motion, {.substeps = task.substeps, .sensors = sensors}, &steps);
    const double dt = simulator.knot_time();
    const Dims dims(task.model.get());

    // multipliers backward, a tangent forward
    std::vector<VectorXd> lambda(6);
    for (int t = 5; t >= 0; --t) {
      CostExpansion e;
      task.cost->Expand(ViewKnot(motion, t, dt), steps[static_cast<std::size_t>(t)].C,
                        steps[static_cast<std::size_t>(t)].D, &e);
      lambda[static_cast<std::size_t>(t)] = e.lx;
      if (t < 5)
        lambda[static_cast<std::size_t>(t)] +=
            steps[static_cast<std::size_t>(t)].A.transpose() * lambda[static_cast<std::size_t>(t) + 1];
    }
    RolloutDirection d{VectorXd::Zero(dims.ndx), RandomMatrix(dims.nu, 5, 1, 7), {}};
    VectorXd dx = d.x0;
    SecondOrder second_order(problem, problem.model, Level::kBest, 1);
    double blocks = 0, gauss_newton = 0;
    for (int t = 0; t <= 5; ++t) {
      const StepDerivative& step = steps[static_cast<std::size_t>(t)];
      MatrixXd H;
      const VectorXd next = t < 5 ? lambda[static_cast<std::size_t>(t) + 1] : lambda[5];
      ASSERT_EQ(second_order.Hessian(motion, t, dt, next, step.C, step.D, 0, &H), StepStatus::kOk);
      VectorXd w(H.rows());
      w << dx, (t < 5 ? VectorXd(d.U.col(t)) : VectorXd());
      blocks += w.dot(H * w);
      if (t < 5) dx = step.A * dx + step.B * d.U.col(t);
    }
    Curvature curvature(task.model.get(), task.context, task.substeps);
    ASSERT_TRUE(curvature.SetPoint(motion, *task.cost).ok());
    CurvatureProduct product;
    curvature.Hessian(d, &product);
    const double exact = (product.product.U.array() * d.U.array()).sum();
    curvature.GaussNewton(d, &product);
    gauss_newton = (product.product.U.array() * d.U.array()).sum();
    EXPECT_NEAR(blocks, exact, 1e-6 * std::abs(exact)) << file;
    EXPECT_GT(std::abs(exact - gauss_newton), 1e-5 * std::abs(exact)) << file;
  }
}

// near the solution what an exact model promises is squared from step to step; Gauss–Newton's shrinks by a constant
// factor
TEST_F(FddpTest, ConvergesQuadraticallyWithSecondOrderTerms) {
  Task task = LoadModelTask("reference/double_pendulum/swing_up.xml");
  task.solver.tolerance = 0;
  task.solver.gradient_tolerance = 1e-9;
  const auto least_ratio = [&](bool second_order) {
    task.solver.second_order = second_order;
    const SolveResult result = Solve(task.ToProblem(), task.ToGuess(), task.solver);
    EXPECT_LT(result.cost, 0.0036821) << result.message;
    double least = 1;
    const std::vector<IterationRecord>& all = result.iterations;
    for (std::size_t i = 1; i < all.size(); ++i) {
      if (all[i].step < 1 || all[i - 1].step < 1 || all[i].cost > 0.0036840 || all[i].expected_change > -1e-12)
        continue;
      least = std::min(least, all[i].expected_change / all[i - 1].expected_change);
    }
    return least;
  };
  EXPECT_LT(least_ratio(true), 0.01);
  EXPECT_GT(least_ratio(false), 0.05);
}

// no iteration: the states stay what they were guessed; what is returned is a motion, and the worst gap has a name
TEST_F(FddpTest, ReturnsAMotionAndNamesTheLargestGapWhenGapsAreLeft) {
  Task task = LoadModelTask("reference/cartpole/swing_up.xml");
  task.solver.iterations = 0;
  task.X_guess(3, 41) += 50;
  const SolveResult result = Solve(task.ToProblem(), task.ToGuess(), task.solver);
  EXPECT_EQ(result.status, SolveStatus::kIterationLimit);
  EXPECT_NE(result.message.find("at knot 41 in qvel[hinge]"), std::string::npos) << result.message;
  Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  Trajectory motion;
  ASSERT_TRUE(simulator.Rollout(task.x0, result.trajectory.U, &motion).ok());
  EXPECT_TRUE(BitwiseEqual(motion.X, result.trajectory.X));
}

TEST_F(FddpTest, StopsBetweenIterationsWhenItsOptionSaysSo) {
  Task task = LoadTask(std::string(COSTATE_MODELS) + "/reference/cartpole/swing_up.xml");
  int asked = 0;
  task.solver.type = SolverType::kFddp;
  task.solver.stop = [&] { return ++asked == 3; };
  const SolveResult result = Solve(task.ToProblem(), {{}, task.U_guess}, task.solver);
  EXPECT_EQ(result.status, SolveStatus::kInterrupted) << result.message;
  EXPECT_EQ(result.iterations.size(), 2u);
}

TEST_F(FddpTest, RefusesGuessesAndOptionsThatASolverCannotUse) {
  Task task = LoadModelTask("reference/cartpole/swing_up.xml");
  const Problem problem = task.ToProblem();
  EXPECT_ERROR(SolveFddp(problem, task.X_guess.leftCols(7), task.U_guess), ErrorCode::kDimensionMismatch, "4 x 7",
               "N + 1 = 101");
  EXPECT_ERROR(Solve(problem, task.ToGuess()), ErrorCode::kInvalidArgument, "ilqr starts from controls alone");
  EXPECT_ERROR(Solve(problem, {{}, task.U_guess}, {.second_order = true}), ErrorCode::kInvalidArgument, "second-order");
  EXPECT_ERROR(SolveFddp(problem, MatrixXd(), task.U_guess, {.barrier_init = 0}), ErrorCode::kInvalidArgument,
               "barrier_init is 0");
  EXPECT_ERROR(SolveFddp(problem, MatrixXd(), task.U_guess, {.line_search_ratio = 1}), ErrorCode::kInvalidArgument,
               "fddp option line_search_ratio is 1");
  EXPECT_ERROR(SolveFddp(problem, MatrixXd(), task.U_guess, {.seconds = 5}), ErrorCode::kInvalidArgument,
               "fddp option seconds is 5", "iLQR alone");
}

TEST_F(FddpTest, StatesOfAGuessGoStraightFromKeyframeToKeyframeWithThatVelocity) {
  const Task task = LoadModelTask("reference/cartpole/swing_up.xml");
  ASSERT_EQ(task.X_guess.cols(), 101);
  EXPECT_TRUE(MatricesNear(task.X_guess.col(0), task.x0, 0));
  EXPECT_NEAR(task.X_guess(1, 10), 0.4, 1e-12);   // half way to 0.8 at 1 s
  EXPECT_NEAR(task.X_guess(3, 10), 0.8, 1e-12);   // rad/s
  EXPECT_NEAR(task.X_guess(3, 30), -2.3, 1e-12);  // from 0.8 to -1.5 within a second
  EXPECT_NEAR(task.X_guess(1, 100), M_PI, 1e-12);
  EXPECT_EQ(task.X_guess(3, 100), 0);  // held behind the last keyframe
}

// gap and gap_knot of the record are those of the iterate itself, which is what a later solve goes on from
TEST_F(FddpTest, RecordsTheLargestGapAndItsKnot) {
  Task task = LoadModelTask("reference/cartpole/swing_up.xml");
  task.solver.iterations = 1;
  Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  int seen = 0;
  for (unsigned seed = 1; seed < 12; ++seed) {
    const MatrixXd X = Scatter(task.model.get(), task.X_guess, 3, seed);
    const SolveResult result = SolveFddp(task.ToProblem(), X, task.U_guess, task.solver);
    ASSERT_EQ(result.iterations.size(), 1u);
    const IterationRecord& record = result.iterations[0];
    if (record.gap == 0) {
      EXPECT_EQ(record.gap_knot, 0);
      EXPECT_EQ(result.state.X.cols(), 0);
      continue;
    }
    Trajectory iterate;
    MatrixXd gaps;
    ASSERT_TRUE(simulator.Follow(result.state.X, result.state.U, &iterate, &gaps).ok());
    Eigen::Index row = 0, t = 0;
    EXPECT_NEAR(gaps.cwiseAbs().maxCoeff(&row, &t), record.gap, 1e-9 * record.gap);
    EXPECT_EQ(record.gap_knot, t + 1);
    ++seen;
  }
  EXPECT_GT(seen, 0);
}

// the cart-pole's, of another size at one knot
class MisshapenCost final : public Cost {
 public:
  double Value(const KnotView& k) const override { return k.x.squaredNorm(); }
  void Expand(const KnotView& k, ConstMatrixRef, ConstMatrixRef, CostExpansion* out) const override {
    out->l = Value(k);
    out->lx = 2 * k.x;
    out->lxx = 2 * MatrixXd::Identity(4, 4);
    const bool last = k.t == k.N;
    out->lu = VectorXd::Zero(last ? 0 : k.t == 3 ? lu_size : 1);
    out->luu = MatrixXd::Identity(last ? 0 : k.t == 3 ? luu_size : 1, last ? 0 : k.t == 3 ? luu_size : 1);
    out->lux = MatrixXd::Zero(last ? 0 : 1, last ? 0 : 4);
  }
  bool NeedsSensors() const override { return false; }
  std::vector<CostTermValue> Terms(const Trajectory&) const override { return {}; }
  int lu_size = 1, luu_size = 1;
};

TEST_F(FddpTest, NamesWhatACostGivesAnotherSize) {
  const Task task = LoadModelTask("reference/cartpole/swing_up.xml");
  MisshapenCost cost;
  Problem problem = task.ToProblem();
  problem.cost = &cost;
  for (const int size : {0, 2}) {
    cost.luu_size = size;
    EXPECT_ERROR(SolveFddp(problem, MatrixXd(), task.U_guess, task.solver), ErrorCode::kDimensionMismatch,
                 "luu of knot 3 is", "expected 1 × 1");
    cost.luu_size = 1;
    cost.lu_size = size;
    EXPECT_ERROR(SolveFddp(problem, MatrixXd(), task.U_guess, task.solver), ErrorCode::kDimensionMismatch,
                 "lu of knot 3 is");
    cost.lu_size = 1;
  }
}

}  // namespace
}  // namespace costate
