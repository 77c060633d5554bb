// The start without derivatives: it finds what slopes do not see, and gives the same bits at any thread count.
#include <costate/ilqr.h>
#include <costate/sampling.h>
#include <costate/solve_task.h>
#include <costate/task.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/engine_test.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

// a pusher and a box out of reach: at rest, the cost of the box's place has no slope by the control
constexpr char kPush[] =
    "<mujoco><option gravity='0 0 0' timestep='0.01'/><worldbody><body><joint name='hand' type='slide' axis='1 0 0' "
    "damping='1'/><geom size='.1' mass='1'/></body>"
    "<body pos='.4 0 0'><joint name='box' type='slide' axis='1 0 0' damping='1'/><geom type='box' size='.1 .1 .1' "
    "mass='.5'/></body></worldbody>"
    "<actuator><motor joint='hand' ctrlrange='-10 10'/></actuator></mujoco>";

Task PushTask(const support::TemporaryFolder& folder, const std::string& elements =
                                                          "<cost name='box' qpos='box' target='0.3' terminal='10'/>"
                                                          "<cost name='effort' ctrl='all' weight='1e-4'/>") {
  folder.Write("push.xml", kPush);
  return LoadTask(
      folder.Write("t.xml", "<task model='push.xml' horizon='0.6'><guess ctrl='0'/>" + elements + "</task>"));
}

class Sampling : public support::EngineTest {};

TEST_F(Sampling, FindsTheBoxThatSlopesDoNotSee) {
  const support::TemporaryFolder folder;
  const Task task = PushTask(folder);
  const Problem problem = task.ToProblem();
  const SolveResult alone = SolveIlqr(problem, task.U_guess, task.solver);
  ASSERT_GT(alone.cost, 0.449) << "½ · 10 · 0.3²: the gradient is zero at the guess";
  const SamplingResult start = SampleControls(problem, task.U_guess);
  EXPECT_LT(start.cost, 0.2 * start.initial_cost);
  EXPECT_LT(SolveIlqr(problem, start.U, task.solver).cost, start.cost) << "and hands over";
}

// A start that may move begins where its guess says; so do the samples.
TEST_F(Sampling, BeginsAtTheGuessOfAFreeStart) {
  const support::TemporaryFolder folder;
  const Task task = PushTask(folder, "<start free='hand' lower='-2' upper='2'/><cost qpos='hand' target='1'/>");
  Problem problem = task.ToProblem();
  const double from_zero = SampleControls(problem, task.U_guess, {.iterations = 0}).cost;
  problem.free_start.guess = problem.x0;
  problem.free_start.guess[0] = 1;
  EXPECT_GT(from_zero, 0.01);
  EXPECT_LT(SampleControls(problem, task.U_guess, {.iterations = 0}).cost, 1e-9);
}

TEST_F(Sampling, GivesTheSameBitsAtAnyThreadCount) {
  const support::TemporaryFolder folder;
  const Task task = PushTask(folder);
  for (int elites : {1, 8}) {
    const SamplingResult one =
        SampleControls(task.ToProblem(), task.U_guess, {.iterations = 5, .elites = elites, .threads = 1});
    const SamplingResult three =
        SampleControls(task.ToProblem(), task.U_guess, {.iterations = 5, .elites = elites, .threads = 3});
    EXPECT_EQ(one.U, three.U);
    EXPECT_EQ(one.best, three.best);
    const SamplingResult other =
        SampleControls(task.ToProblem(), task.U_guess, {.iterations = 5, .elites = elites, .seed = 2});
    EXPECT_NE(one.U, other.U);
  }
}

// never worse than the guess, never beyond the limits, its cost that of its controls
TEST_F(Sampling, KeepsTheBestAndTheLimits) {
  const support::TemporaryFolder folder;
  const Task task = PushTask(folder);
  const Problem problem = task.ToProblem();
  const SamplingResult result =
      SampleControls(problem, task.U_guess, {.samples = 16, .iterations = 8, .elites = 4, .exploration = 3});
  for (std::size_t i = 1; i < result.best.size(); i++) EXPECT_LE(result.best[i], result.best[i - 1]);
  EXPECT_LE(result.U.cwiseAbs().maxCoeff(), 10);
  EXPECT_GT(result.U.cwiseAbs().maxCoeff(), 9.99) << "three half ranges of spread reach the limit";
  Simulator simulator(problem.model, problem.context, problem.substeps, 1);
  Trajectory motion;
  ASSERT_TRUE(simulator.Rollout(problem.x0, result.U, &motion).ok());
  EXPECT_EQ(TotalCost(*problem.cost, motion, simulator.knot_time()), result.cost);
  const SamplingResult none = SampleControls(problem, task.U_guess, {.iterations = 0});
  EXPECT_EQ(none.U, task.U_guess);
  EXPECT_EQ(none.cost, none.initial_cost);
}

TEST_F(Sampling, RefusesOptionsOutOfRange) {
  const support::TemporaryFolder folder;
  const Task task = PushTask(folder);
  const Problem problem = task.ToProblem();
  for (const SamplingOptions& options :
       {SamplingOptions{.samples = 1}, SamplingOptions{.iterations = -1}, SamplingOptions{.elites = 0},
        SamplingOptions{.elites = 65}, SamplingOptions{.node_time = 0}, SamplingOptions{.exploration = 0},
        SamplingOptions{.spread_min = -1}}) {
    EXPECT_THROW(SampleControls(problem, task.U_guess, options), Error);
  }
  EXPECT_THROW(SampleControls(problem, MatrixXd::Zero(1, 3)), Error);
}

// A weak motor on a spring: energy grows by pushing in time with it alone. From rest no slope says so, for the energy
// is even in the control, and splines of a tenth of a second find it worse than periodic controls do.
TEST_F(Sampling, PeriodicControlsPumpASpring) {
  const support::TemporaryFolder folder;
  folder.Write(
      "spring.xml",
      "<mujoco><option gravity='0 0 0' timestep='0.01'/><worldbody><body><joint name='x' type='slide' axis='1 0 0' "
      "stiffness='80' damping='.1'/><geom size='.1' mass='1'/></body></worldbody><actuator><motor joint='x' "
      "ctrlrange='-1 1'/></actuator></mujoco>");
  const auto load = [&](const std::string& horizon, const std::string& solver) {
    return LoadTask(folder.Write("t.xml", "<task model='spring.xml' horizon='" + horizon + "'>" + solver +
                                              "<guess ctrl='0'/><measure name='q' qpos='x'/><measure name='v' "
                                              "qvel='x'/><cost value='1 - 80 * q * q - v * v'/></task>"));
  };
  const Task task = load("4", "<solver start='periodic' rounds='10'/>");
  ASSERT_TRUE(task.sampling.periodic);
  const auto best = [&](const SamplingOptions& options) {
    return SampleControls(task.ToProblem(), task.U_guess, options);
  };
  SamplingOptions options = task.sampling;
  options.threads = 1;
  const SamplingResult one = best(options);
  options.threads = 3;
  EXPECT_EQ(one.U, best(options).U) << "the same bits";
  EXPECT_LE(one.U.cwiseAbs().maxCoeff(), 1);
  EXPECT_EQ(one.U(0, 0), 0) << "begins at the guess";
  EXPECT_LT(one.cost, 0.9 * best({.iterations = 10}).cost);
  EXPECT_LT(one.cost, 0.8 * one.initial_cost);

  // the frequency is the spring's: half a period between changes of sign
  int signs = 0;
  for (int t = 1; t < task.N; t++) signs += (one.U(0, t) > 0) != (one.U(0, t - 1) > 0);
  EXPECT_NEAR(signs / 2 / 4.0, std::sqrt(80) / (2 * 3.14159265), 0.3);

  const FrequencyRange range = PeriodicRange(4, 0.01);
  EXPECT_EQ(range.low, 0.5);
  EXPECT_EQ(range.high, 5);
  EXPECT_THROW(load("0.3", "<solver start='periodic'/>"), Error) << "two periods of a fifth of a second";
  const Task brief = load("0.3", "");
  EXPECT_THROW(SampleControls(brief.ToProblem(), brief.U_guess, {.periodic = true}), Error);
}

TEST_F(Sampling, EndsWhereTheCallbackSaysSo) {
  const support::TemporaryFolder folder;
  Task task = PushTask(folder);
  std::vector<double> costs;
  const SamplingResult part =
      SampleControls(task.ToProblem(), task.U_guess, {.threads = 1}, [&](int round, double cost) {
        EXPECT_EQ(round, static_cast<int>(costs.size()) + 1);
        costs.push_back(cost);
        return round < 3;
      });
  EXPECT_EQ(part.best, costs);
  ASSERT_EQ(costs.size(), 3u);
  EXPECT_EQ(part.cost, costs.back());

  // of a task's start: the solve ends, too, with what has been found
  task.sampling.iterations = 20;
  const TaskSolution solution = SolveTask(task, {.sampling = [](int, double) { return false; }});
  EXPECT_EQ(solution.result.status, SolveStatus::kInterrupted) << solution.result.message;
  EXPECT_LE(solution.result.iterations.size(), 1u);
}

TEST_F(Sampling, RefusesSamplesBeyondMemory) {
  const support::TemporaryFolder folder;
  const Task task = PushTask(folder);
  try {
    SampleControls(task.ToProblem(), task.U_guess, {.samples = 500'000'000});
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("samples is 500000000"), std::string::npos) << error.what();
  }
}

TEST_F(Sampling, IsTheTaskFilesStart) {
  const support::TemporaryFolder folder;
  const Task task = PushTask(folder,
                             "<cost qpos='box' target='0.3' terminal='10'/>"
                             "<solver start='sampling' samples='32' seed='7'/>");
  EXPECT_EQ(task.sampling.iterations, 20);
  EXPECT_EQ(task.sampling.samples, 32);
  EXPECT_EQ(task.sampling.seed, 7u);
}

}  // namespace
}  // namespace costate
