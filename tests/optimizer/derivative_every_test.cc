// Derivatives at every K-th knot: exact there, straight lines in between, never without saying so.
#include <costate/costate.h>

#include <gtest/gtest.h>

#include <mutex>
#include <string>

#include "support/engine_test.h"
#include "support/matrix_near.h"

namespace costate {
namespace {

using support::MatricesNear;
using DerivativeEvery = support::EngineTest;

Task PendulumTask() {
  Task task = LoadTask(std::string(COSTATE_MODELS) + "/reference/pendulum/swing_up.xml");
  task.solver.type = SolverType::kIlqr;
  task.solver.second_order = false;
  task.X_guess.resize(0, 0);
  task.U_guess.setConstant(0.5);
  return task;
}

// knots 0, 4, 8 … N-1 as always; the others on the line between their neighbours
TEST_F(DerivativeEvery, InterpolatesBetweenKnotsThatAreExact) {
  const Task task = PendulumTask();
  for (const int N : {0, 1, 2, 9, 11, 12}) {
    Simulator simulator(task.model.get(), task.context, task.substeps, 3);
    Trajectory motion;
    ASSERT_TRUE(simulator.Rollout(task.x0, task.U_guess.leftCols(N), &motion).ok());
    std::vector<StepDerivative> exact, taken(static_cast<std::size_t>(N) + 1);
    simulator.Linearize(motion, {.sensors = true}, &exact);
    simulator.SetDerivativeEvery(4);
    std::mutex lock;
    simulator.LinearizeEach(motion, {.sensors = true}, [&](int t, int, StepDerivative* derivative) {
      const std::lock_guard guard(lock);
      std::swap(taken[static_cast<std::size_t>(t)], *derivative);
    });
    for (int t = 0; t < N; ++t) {
      const int a = std::min(t / 4 * 4, N - 1), b = std::min(a + 4, N - 1);
      const double s = b > a ? static_cast<double>(t - a) / (b - a) : 0;
      const auto at = [&](int k) -> const StepDerivative& { return exact[static_cast<std::size_t>(k)]; };
      EXPECT_TRUE(MatricesNear(taken[static_cast<std::size_t>(t)].A, (1 - s) * at(a).A + s * at(b).A, 1e-14))
          << N << " " << t;
      EXPECT_TRUE(MatricesNear(taken[static_cast<std::size_t>(t)].B, (1 - s) * at(a).B + s * at(b).B, 1e-14))
          << N << " " << t;
      EXPECT_TRUE(s > 0 || taken[static_cast<std::size_t>(t)].A == at(t).A) << N << " " << t;
    }
    EXPECT_EQ(taken.back().C, exact.back().C);
    EXPECT_ERROR(simulator.SetDerivativeEvery(0), ErrorCode::kInvalidArgument, "every 0 knots");
  }
}

// both solvers still swing up; costs are true, gains and gradient of the result are exact
TEST_F(DerivativeEvery, SolversSayThatTheySkipped) {
  for (const SolverType type : {SolverType::kIlqr, SolverType::kFddp}) {
    Task task = PendulumTask();
    task.solver.type = type;
    task.solver.derivative_every = 3;
    const SolveResult result = Solve(task.ToProblem(), task.ToGuess(), task.solver);
    EXPECT_NE(result.message.find("derivatives at every 3rd knot, interpolated in between"), std::string::npos)
        << result.message;
    EXPECT_LT(result.cost, 0.0195) << result.message;  // the optimum is 0.018404605
    Simulator simulator(task.model.get(), task.context, task.substeps, 1);
    Trajectory motion;
    simulator.Rollout(task.x0, result.trajectory.U, &motion);
    EXPECT_DOUBLE_EQ(TotalCost(*task.cost, motion, simulator.knot_time()), result.cost);
    Adjoint adjoint(task.model.get(), task.context, task.substeps);
    RolloutGradient gradient;
    adjoint.Gradient(task.x0, result.trajectory.U, *task.cost, {}, &gradient);
    const VectorXd last = gradient.U.col(task.N - 1);
    EXPECT_NEAR(std::abs(last[0]), result.gradient_norm_per_knot[task.N - 1], 1e-6 + 1e-3 * std::abs(last[0]));

    task.solver.derivative_every = 1;
    EXPECT_EQ(Solve(task.ToProblem(), task.ToGuess(), task.solver).message.find("interpolated"), std::string::npos);
  }
  Task task = PendulumTask();
  task.solver.type = SolverType::kFddp;
  task.solver.second_order = true;
  task.solver.derivative_every = 2;
  EXPECT_ERROR(Solve(task.ToProblem(), task.ToGuess(), task.solver), ErrorCode::kInvalidArgument, "second_order",
               "every 2 knots");
  task.solver = {.derivative_every = 0};
  EXPECT_ERROR(SolveIlqr(task.ToProblem(), task.U_guess, task.solver), ErrorCode::kInvalidArgument,
               "derivative_every is 0");
}

// the same bits at any number of threads
TEST_F(DerivativeEvery, DoesNotDependOnThreads) {
  Task task = PendulumTask();
  task.solver.derivative_every = 5;
  task.solver.iterations = 6;
  task.solver.threads = 1;
  const SolveResult one = Solve(task.ToProblem(), task.ToGuess(), task.solver);
  task.solver.threads = 3;
  EXPECT_EQ(one.trajectory.U, Solve(task.ToProblem(), task.ToGuess(), task.solver).trajectory.U);
}

}  // namespace
}  // namespace costate
