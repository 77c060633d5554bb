// The solver that is kept: the same answers as a new one, no memory taken while it iterates, an end when its time is
// up.
#include <costate/costate.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <thread>

#include "optimizer/augmented_cost.h"
#include "optimizer/constrained_lq.h"
#include "support/count_allocations.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using support::BitwiseEqual;
using IlqrSolverTest = support::EngineTest;

Task ModelTask(const std::string& file) { return LoadTask(std::string(COSTATE_MODELS "/") + file); }

void ExpectSameBits(const SolveResult& a, const SolveResult& b) {
  EXPECT_EQ(a.message, b.message);
  EXPECT_EQ(a.cost, b.cost);
  EXPECT_EQ(a.iterations.size(), b.iterations.size());
  EXPECT_TRUE(BitwiseEqual(a.trajectory.X, b.trajectory.X));
  EXPECT_TRUE(BitwiseEqual(a.trajectory.U, b.trajectory.U));
  EXPECT_TRUE(BitwiseEqual(a.policy.k, b.policy.k));
  ASSERT_EQ(a.policy.K.size(), b.policy.K.size());
  for (std::size_t t = 0; t < a.policy.K.size(); ++t) EXPECT_TRUE(BitwiseEqual(a.policy.K[t], b.policy.K[t]));
}

// counts evaluated knots and motions, and can take its time over each motion
class CountingCost final : public Cost {
 public:
  explicit CountingCost(const Cost* inner, std::chrono::milliseconds pause = {}) : inner_(inner), pause_(pause) {}
  double Value(const KnotView& knot) const override {
    ++knots;
    if (knot.t == knot.N) {
      ++motions;
      if (pause_.count() > 0) std::this_thread::sleep_for(pause_);
    }
    return inner_->Value(knot);
  }
  void Expand(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const override {
    inner_->Expand(knot, C, D, out);
  }
  bool NeedsSensors() const override { return inner_->NeedsSensors(); }
  std::vector<CostTermValue> Terms(const Trajectory& trajectory) const override { return inner_->Terms(trajectory); }

  double LowerBound(int t) const override { return bounded ? inner_->LowerBound(t) : Cost::LowerBound(t); }

  mutable std::atomic<int> motions{0}, knots{0};
  bool bounded = false;

 private:
  const Cost* inner_;
  std::chrono::milliseconds pause_;
};

TEST_F(IlqrSolverTest, SolvesAgainAsANewSolverWould) {
  const Task task = ModelTask("hopper/hop.xml");
  IlqrOptions options = task.solver;
  options.iterations = 8;
  options.threads = 1;
  const SolveResult alone = SolveIlqr(task.ToProblem(), task.U_guess, options);
  IlqrSolver solver(task.ToProblem(), options);
  VectorXd elsewhere = task.x0;
  elsewhere[1] += 0.05;
  solver.SetStart(elsewhere, task.context);
  const double other = solver.Solve(0.5 * task.U_guess).cost;
  EXPECT_NE(other, alone.cost);
  solver.SetStart(task.x0, task.context);
  ExpectSameBits(solver.Solve(task.U_guess), alone);
}

// what a cost is never below spares knots of rollouts that are too dear already, and changes nothing else
TEST_F(IlqrSolverTest, EndsRolloutsThatCannotBeGoodAnyMore) {
  for (const char* file : {"quadruped/walk.xml", "cartpole/short_rail.xml"}) {
    SCOPED_TRACE(file);
    const Task task = ModelTask(file);
    SolveResult results[2];
    int knots[2];
    for (const bool bounded : {false, true}) {
      CountingCost counting(task.cost.get());
      counting.bounded = bounded;
      Problem problem = task.ToProblem();
      problem.cost = &counting;
      IlqrOptions options = task.solver;
      options.iterations = 12;
      options.threads = 1;
      results[bounded] = SolveConstrained(problem, task.U_guess, options, task.constrained);
      knots[bounded] = counting.knots;
    }
    ExpectSameBits(results[0], results[1]);
    EXPECT_LT(knots[1], 0.95 * knots[0]);
  }
}

TEST_F(IlqrSolverTest, KnowsWhatACostIsNeverBelow) {
  const Task task = ModelTask("cartpole/short_rail.xml");
  const int N = static_cast<int>(task.U_guess.cols());
  ASSERT_GT(task.constraints.size(), 0);
  AugmentedCost augmented(task.model.get(), *task.cost, task.constraints, N);
  augmented.rho.setConstant(7);
  for (MatrixXd& lambda : augmented.lambda) lambda.setRandom();
  Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  Trajectory motion;
  ASSERT_TRUE(simulator.Rollout(task.x0, task.U_guess, &motion).ok());
  const Dims dims(task.model.get());
  MatrixXd Q = MatrixXd::Identity(dims.ndx, dims.ndx);
  const MatrixXd R = MatrixXd::Identity(dims.nu, dims.nu);
  // of the constraints alone: reached where none is active
  const QuadraticCost none(task.model.get(), task.x0, 0 * Q, 0 * R, 0 * Q);
  AugmentedCost alone(task.model.get(), none, task.constraints, N);
  alone.rho = augmented.rho;
  alone.lambda = augmented.lambda;
  int reached = 0;
  for (int t = 0; t <= N; ++t) {
    const KnotView knot = ViewKnot(motion, t, simulator.knot_time());
    EXPECT_EQ(task.cost->LowerBound(t), 0);
    EXPECT_LT(augmented.LowerBound(t), 0);
    EXPECT_GE(augmented.Value(knot), augmented.LowerBound(t));
    EXPECT_GE(alone.Value(knot), alone.LowerBound(t) * (1 + 1e-12));
    reached += std::abs(alone.Value(knot) / alone.LowerBound(t) - 1) < 1e-12;
  }
  EXPECT_GT(reached, N / 2);

  // a matrix that is not positive: nothing is known
  EXPECT_EQ(QuadraticCost(task.model.get(), task.x0, Q, R, 0 * Q).LowerBound(0), 0);
  Q(0, 0) = -1e-3;
  EXPECT_EQ(QuadraticCost(task.model.get(), task.x0, Q, R, 0 * Q).LowerBound(0),
            -std::numeric_limits<double>::infinity());
}

TEST_F(IlqrSolverTest, StartsWhereItIsTold) {
  const Task task = ModelTask("pendulum/swing_up.xml");
  IlqrOptions options = task.solver;
  options.iterations = 5;
  Problem moved = task.ToProblem();
  moved.x0[0] = 0.4;
  moved.x0[1] = -1;
  IlqrSolver solver(task.ToProblem(), options);
  solver.SetStart(moved.x0, moved.context);
  ExpectSameBits(solver.Solve(task.U_guess), SolveIlqr(moved, task.U_guess, options));
  EXPECT_EQ(solver.problem().x0[0], 0.4);
}

// from a start that is a little off, the feedback of the last solution is a better beginning than its controls alone
TEST_F(IlqrSolverTest, ResolvesFromTheLastMotionAndItsGains) {
  const Task task = ModelTask("cartpole/swing_up.xml");
  IlqrSolver solver(task.ToProblem(), task.solver);
  const SolveResult first = solver.Solve(task.U_guess);
  VectorXd x0 = task.x0;
  x0[1] += 0.02;
  Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  Trajectory open;
  ASSERT_TRUE(simulator.Rollout(x0, first.trajectory.U, &open).ok());
  const double open_cost = TotalCost(*task.cost, open, simulator.knot_time());

  solver.SetStart(x0, task.context);
  solver.SetLimits(3, 1e9);
  const SolveResult& second = solver.Resolve(first.trajectory, first.policy.K);
  EXPECT_LT(second.initial_cost, 0.5 * open_cost);
  EXPECT_LE(second.cost, second.initial_cost);
  EXPECT_LT(second.cost, 1.2 * first.cost);
  EXPECT_EQ(second.trajectory.X(1, 0), x0[1]);
}

// rest is at a kink of the cost, where no step is good: what regularization grew there in vain must not make steps
// short for ever when the motion goes on elsewhere
TEST_F(IlqrSolverTest, GoesOnWithLittleOfWhatItGrewInVain) {
  const support::TemporaryFolder folder;
  folder.Write(
      "mass.xml",
      "<mujoco><worldbody><body><joint name='rail' type='slide' axis='1 0 0'/><geom size='.1' mass='1'/></body>"
      "</worldbody><actuator><motor joint='rail' gear='1000'/></actuator></mujoco>");
  const Task task = LoadTask(
      folder.Write("mass.task.xml",
                   "<task model='mass.xml' horizon='0.1'><measure name='q' qpos='rail'/>"
                   "<cost value='max(1 + q, 1 - 0.5 * q)' norm='rectify' param='0' weight='100'/><cost qvel='all'/>"
                   "<cost ctrl='all' weight='0.01'/></task>"));
  IlqrOptions options = task.solver;
  options.final_policy = options.regularization_sweep = options.long_steps = false;
  IlqrSolver solver(task.ToProblem(), options);
  const SolveResult first = solver.Solve(task.U_guess);
  EXPECT_EQ(first.status, SolveStatus::kStalled) << first.message;
  solver.SetLimits(1, 1e9);
  double largest = 0;
  for (int i = 0; i < 20; ++i) {
    const SolveResult& result = solver.Resolve(first.trajectory, first.policy.K);
    for (const IterationRecord& record : result.iterations) {
      EXPECT_EQ(record.step, 0);
      largest = std::max(largest, record.regularization);
    }
  }
  EXPECT_GT(largest, 1);
  EXPECT_LE(largest, 100);
}

struct Allocations {
  int iterations = 0;
  long count = 0;  // in all of them but the first
};

// counted in malloc itself, on the only thread that works, in the second of two solves
Allocations CountInIterations(IlqrSolver* solver, ConstMatrixRef U) {
  solver->Solve(U);
  Allocations found;
  long before = -1;
  solver->Solve(U, [&](const IterationRecord&) {
    if (before >= 0) found.count += support::allocations - before;
    found.iterations++;
    before = support::allocations;
    return true;
  });
  return found;
}

// where the cost reads sensors, their derivative at the last knot, which has no D, takes one matrix
TEST_F(IlqrSolverTest, AllocatesNothingWhileItIteratesAgain) {
  for (const char* file :
       {"hopper/hop.xml", "quadruped/jump.xml", "arm/reach.xml", "pendulum/swing_up.xml", "cartpole/swing_up.xml"}) {
    const Task task = ModelTask(file);
    IlqrOptions options = task.solver;
    options.iterations = 12;
    options.threads = 1;
    options.tolerance = 0;
    IlqrSolver solver(task.ToProblem(), options);
    const Allocations found = CountInIterations(&solver, task.U_guess);
    EXPECT_GT(found.iterations, 8) << file;
    EXPECT_LE(found.count, task.cost->NeedsSensors() ? found.iterations : 0) << file;
  }
}

// as the plans of MPC are made; the constraints of the second task read sensors, and there are many of other sizes
TEST_F(IlqrSolverTest, AllocatesNothingWithinConstraintsEither) {
  for (const char* file : {"cartpole/short_rail.xml", "posts/reach.xml"}) {
    const Task task = ModelTask(file);
    Problem problem = task.ToProblem();
    ConstrainedLq constrained(task.model.get(), *task.cost, task.constraints, task.N, task.constrained.tolerance);
    problem.cost = &constrained;
    problem.constraints = nullptr;
    IlqrOptions options = task.solver;
    options.iterations = 12;
    options.threads = 1;
    options.tolerance = 0;
    options.regularization_sweep = options.long_steps = options.final_policy = false;
    IlqrSolver solver(problem, options);
    solver.SetLqSolver(
        [&](LqProblem* lq, double regularization, RiccatiResult* out) { constrained.Solve(lq, regularization, out); });
    const Allocations found = CountInIterations(&solver, task.U_guess);
    EXPECT_GT(found.iterations, 8) << file;
    EXPECT_LE(found.count, constrained.NeedsSensors() ? found.iterations : 0) << file;
  }
}

// told to solve them as it would anyway
TEST_F(IlqrSolverTest, SolvesLinearQuadraticProblemsAsItIsTold) {
  const Task task = ModelTask("cartpole/swing_up.xml");
  IlqrOptions options = task.solver;
  options.iterations = 10;
  options.regularization_sweep = options.long_steps = options.final_policy = false;
  options.regularization_rule = RegularizationRule::kPromise;
  IlqrSolver plain(task.ToProblem(), options), told(task.ToProblem(), options);
  int calls = 0;
  told.SetLqSolver([&](LqProblem* lq, double regularization, RiccatiResult* out) {
    ++calls;
    SolveRiccati(*lq, {.regularization = regularization, .values = false}, out);
  });
  ExpectSameBits(told.Solve(task.U_guess), plain.Solve(task.U_guess));
  EXPECT_GE(calls, 10);
}

TEST_F(IlqrSolverTest, EndsWhenItsTimeIsUpWithTheBestSoFar) {
  const Task task = ModelTask("acrobot/swing_up.xml");
  const CountingCost slow(task.cost.get(), std::chrono::milliseconds(2));
  Problem problem = task.ToProblem();
  problem.cost = &slow;
  IlqrOptions options = task.solver;
  options.threads = 1;
  options.tolerance = 0;
  options.seconds = 0.2;  // some iterations of at least 2 ms, never 200
  const auto start = std::chrono::steady_clock::now();
  const SolveResult result = SolveIlqr(problem, task.U_guess, options);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_EQ(result.status, SolveStatus::kTimeLimit) << result.message;
  EXPECT_GT(result.iterations.size(), 0u);
  EXPECT_LT(result.iterations.size(), 100u);
  EXPECT_EQ(result.cost, result.iterations.back().cost);
  EXPECT_LT(result.cost, result.initial_cost);
  EXPECT_LT(seconds, 2);

  // not even one: the guess
  options.seconds = 1e-9;
  const SolveResult none = SolveIlqr(problem, task.U_guess, options);
  EXPECT_EQ(none.status, SolveStatus::kTimeLimit);
  EXPECT_TRUE(none.iterations.empty());
  EXPECT_TRUE(BitwiseEqual(none.trajectory.U, task.U_guess));
}

// where the whole step is good, nothing else is tried, whatever the number of threads: the guess and one step
TEST_F(IlqrSolverTest, RollsOutNoStepThatIsNotNeeded) {
  const Task task = ModelTask("projectile/land.xml");
  for (const int threads : {1, 4}) {
    const CountingCost counting(task.cost.get());
    Problem problem = task.ToProblem();
    problem.cost = &counting;
    IlqrOptions options = task.solver;
    options.iterations = 1;
    options.threads = threads;
    const SolveResult result = SolveIlqr(problem, task.U_guess, options);
    ASSERT_EQ(result.iterations.size(), 1u);
    EXPECT_EQ(result.iterations[0].step, 1);
    EXPECT_EQ(counting.motions, 2) << threads << " threads";
  }
}

TEST_F(IlqrSolverTest, RefusesAStartOfTheWrongSizeOrWithoutNumbers) {
  const Task task = ModelTask("pendulum/swing_up.xml");
  IlqrSolver solver(task.ToProblem(), task.solver);
  EXPECT_ERROR(solver.SetStart(VectorXd::Zero(3), task.context), ErrorCode::kDimensionMismatch, "x0", "3", "nx = 2");
  EXPECT_ERROR(solver.SetStart(VectorXd::Constant(2, std::nan("")), task.context), ErrorCode::kInvalidArgument, "x0",
               "nan");
  EXPECT_ERROR(solver.SetStart(task.x0, VectorXd::Zero(1)), ErrorCode::kDimensionMismatch, "context", "1");
  EXPECT_ERROR(solver.SetLimits(-1, 1), ErrorCode::kInvalidArgument, "iterations", "-1");
  EXPECT_ERROR(solver.SetLimits(1, 0), ErrorCode::kInvalidArgument, "seconds", "0");
}

TEST_F(IlqrSolverTest, RefusesToGoOnFromWhatIsNoMotionOfTheProblem) {
  const Task task = ModelTask("cartpole/swing_up.xml");
  IlqrOptions options = task.solver;
  options.iterations = 2;
  IlqrSolver solver(task.ToProblem(), options);
  const SolveResult first = solver.Solve(task.U_guess);
  std::vector<MatrixXd> K = first.policy.K;
  K[3](0, 1) = std::numeric_limits<double>::infinity();
  EXPECT_ERROR(solver.Resolve(first.trajectory, K), ErrorCode::kInvalidArgument, "K of knot 3 is not finite");
  K[3].resize(1, 3);
  K[3].setZero();
  EXPECT_ERROR(solver.Resolve(first.trajectory, K), ErrorCode::kDimensionMismatch, "K of knot 3 is 1 x 3");
  Trajectory motion = first.trajectory;
  motion.X(1, 7) = std::nan("");
  EXPECT_ERROR(solver.Resolve(motion, first.policy.K), ErrorCode::kInvalidArgument, "X is not finite", "at knot 7");
  EXPECT_ERROR(solver.Resolve({}, first.policy.K), ErrorCode::kDimensionMismatch, "the reference has N = 0");
  const SolveResult& own = solver.Resolve(first.trajectory, first.policy.K);
  EXPECT_ERROR(solver.Resolve(own.trajectory, own.policy.K), ErrorCode::kInvalidArgument, "its own reference");
}

// The same mass by newtons and by meganewtons: slopes by a newton are small, and there is as far to go.
TEST_F(IlqrSolverTest, SmallSlopesByLargeControlsAreNoConvergence) {
  for (const double unit : {1.0, 1e7}) {
    const ModelPtr model = LoadModelFromString(
        "<mujoco><option timestep='0.1' gravity='0 0 0'/><worldbody><body><joint name='x' type='slide' axis='1 0 0'/>"
        "<geom size='1' mass='" +
        std::to_string(unit) + "'/></body></worldbody><actuator><motor joint='x' ctrlrange='-" +
        std::to_string(9 * unit) + " " + std::to_string(9 * unit) + "'/></actuator></mujoco>");
    const DataPtr data = MakeData(model.get());
    const VectorXd x0 = GetState(model.get(), data.get());
    MatrixXd terminal = MatrixXd::Zero(2, 2);
    terminal(0, 0) = 1;
    const QuadraticCost cost(model.get(), Eigen::Vector2d(10, 0), MatrixXd::Zero(2, 2),
                             MatrixXd::Constant(1, 1, 1e-4 / (unit * unit)), terminal);
    const Problem problem{model.get(),
                          &cost,
                          x0,
                          GetContext(model.get(), data.get()),
                          20,
                          1,
                          VectorXd::Constant(1, -9 * unit),
                          VectorXd::Constant(1, 9 * unit)};
    const SolveResult result = SolveIlqr(problem, MatrixXd::Zero(1, 20), {});
    EXPECT_EQ(result.status, SolveStatus::kConverged) << result.message;
    EXPECT_LT(result.cost, 0.01 * result.initial_cost) << unit << ": " << result.message;
  }
}

}  // namespace
}  // namespace costate
