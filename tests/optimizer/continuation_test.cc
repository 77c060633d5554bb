#include <costate/continuation.h>
#include <costate/solve_task.h>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/engine_test.h"

namespace costate {
namespace {

using ContinuationTest = support::EngineTest;

// a finger 2 cm away from a block that shall move: without touch the true model has nothing to say
// about the block
constexpr char kReach[] =
    R"(<mujoco model="reach"><option timestep="0.01" integrator="implicitfast"/><worldbody>
  <body name="finger"><joint name="finger" type="slide" axis="1 0 0" damping="1"/><geom name="finger" size="0.02" mass="0.2"/></body>
  <body name="block" pos="0.06 0 0"><joint name="block" type="slide" axis="1 0 0" damping="2"/><geom name="block" size="0.02" mass="0.2"/></body>
  </worldbody><actuator><motor joint="finger" ctrlrange="-3 3"/></actuator></mujoco>)";

struct Reach {
  ModelPtr model = LoadModelFromString(kReach);
  std::unique_ptr<QuadraticCost> cost;
  Problem problem;
  MatrixXd U = MatrixXd::Zero(1, 60);
  Reach() {
    VectorXd goal = VectorXd::Zero(4);
    goal[1] = 0.1;
    MatrixXd Q = MatrixXd::Zero(4, 4), Qf = Q;
    Qf(1, 1) = 1000;
    cost = std::make_unique<QuadraticCost>(model.get(), goal, Q, MatrixXd::Constant(1, 1, 1e-3), Qf);
    const DataPtr data = MakeData(model.get());
    problem = {model.get(), cost.get(), GetState(model.get(), data.get()), GetContext(model.get(), data.get()), 60, 1,
               {},          {}};
    ControlLimits(model.get(), &problem.u_lower, &problem.u_upper);
  }
};

TEST_F(ContinuationTest, ReachesWhatTheTrueGradientDoesNotSee) {
  const Reach r;
  const SolveResult plain = SolveIlqr(r.problem, r.U);
  EXPECT_EQ(plain.cost, plain.initial_cost);
  for (bool backward_only : {false, true}) {
    SCOPED_TRACE(backward_only);
    ContinuationOptions options;
    options.smooth.distance = 0.05;
    options.backward_only = backward_only;
    int calls = 0, stages = 0;
    const ContinuationResult found = SolveContinuation(
        r.problem, r.U, {}, options, [&](const IterationRecord& record) { return record.iteration == ++calls; },
        [&](int stage, const ContinuationStage&) { EXPECT_EQ(stage, stages++); });
    EXPECT_LT(found.result.cost, 0.1 * plain.cost) << found.message;
    EXPECT_EQ(found.stages.size(), static_cast<std::size_t>(stages));
    EXPECT_EQ(found.stages.back().factor, 0);
    EXPECT_EQ(found.stages[0].factor, 0);  // the plain solve
    EXPECT_EQ(found.stages[0].cost, plain.cost);
    EXPECT_EQ(found.stages[1].factor, 1);
    EXPECT_EQ(found.result.initial_cost, plain.initial_cost);

    // it is the true model's: its controls give its cost there
    Simulator simulator(r.model.get(), r.problem.context, 1, 1);
    Trajectory motion;
    ASSERT_TRUE(simulator.Rollout(r.problem.x0, found.result.trajectory.U, &motion).ok());
    EXPECT_EQ(TotalCost(*r.cost, motion, simulator.knot_time()), found.result.cost);
    for (const ContinuationStage& stage : found.stages) EXPECT_LE(found.result.cost, stage.true_cost);
  }
}

// far from everything smoothing has no part in the motion: the certificate ends the smooth stages
TEST_F(ContinuationTest, EndsSmoothStagesWhereNothingIsNear) {
  Reach r;
  r.problem.x0[1] = 2;
  ContinuationOptions options;
  options.smooth.distance = 0.05;
  const ContinuationResult found = SolveContinuation(r.problem, r.U, {}, options);
  ASSERT_EQ(found.stages.size(), 3u);
  EXPECT_EQ(found.stages[1].factor, 1);
  EXPECT_EQ(found.stages[2].factor, 0);
  EXPECT_NE(found.message.find("nothing is as near"), std::string::npos);
}

// a pole that is balanced for three seconds on a cart with dry friction, which the smoothed model has not: the same
// controls alone let it fall on the true one, the policy does not
TEST_F(ContinuationTest, StagesHandOnWhatTheirPolicyHolds) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.01" integrator="implicitfast"/><worldbody>
    <body><joint name="cart" type="slide" axis="1 0 0" frictionloss="0.3"/><geom size="0.1" mass="1"/>
      <body><joint name="pole" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 0.6" size="0.02" mass="0.2"/></body></body>
    </worldbody><actuator><motor joint="cart" ctrlrange="-20 20"/></actuator></mujoco>)");
  const QuadraticCost cost(model.get(), VectorXd::Zero(4), MatrixXd::Identity(4, 4), MatrixXd::Constant(1, 1, 1e-3),
                           MatrixXd::Identity(4, 4));
  const DataPtr data = MakeData(model.get());
  data->qpos[1] = 0.1;
  Problem problem{model.get(), &cost, GetState(model.get(), data.get()), GetContext(model.get(), data.get()), 300, 1,
                  {},          {}};
  ControlLimits(model.get(), &problem.u_lower, &problem.u_upper);
  ContinuationOptions options;
  options.smooth.friction = 2;
  options.stages = 1;
  options.plain_first = false;
  const ContinuationResult found = SolveContinuation(problem, MatrixXd::Zero(1, 300), {}, options);
  ASSERT_EQ(found.stages[0].factor, 1);
  EXPECT_LT(found.stages[0].true_cost, 1.1 * found.stages[0].cost);  // the controls alone: 2.7
  EXPECT_LE(found.result.cost, found.stages[0].true_cost);
}

TEST_F(ContinuationTest, InterruptedItStillEndsOnTheTrueModel) {
  const Reach r;
  ContinuationOptions options;
  options.smooth.distance = 0.05;
  int calls = 0;
  const ContinuationResult found =
      SolveContinuation(r.problem, r.U, {}, options, [&](const IterationRecord&) { return ++calls != 2; });
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(found.result.status, SolveStatus::kInterrupted);
  EXPECT_EQ(found.stages.back().factor, 0);
  EXPECT_LE(found.result.cost, found.result.initial_cost);
}

// The smoothed way of the hopper ends twice as high as the race and the kicks of the task alone, which it has not: the
// task as it is stands first among the stages, whatever leads it, and is what is left where nothing betters it.
TEST_F(ContinuationTest, ATaskEndsNoWorseThanWithoutSmoothing) {
  Task task = LoadTask(COSTATE_MODELS "/hopper/hop.xml");
  task.continuation.stages = 1;
  const TaskSolution without = SolveTask(task);
  task.continuation.smooth = ParseSmooth(task.model.get(), "auto");
  const double smoothed = SolveContinuation(task.ToProblem(), task.U_guess, task.solver, task.continuation).result.cost;
  ASSERT_GT(smoothed, 1.5 * without.result.cost);

  std::vector<int> numbers, told;
  const TaskSolution with =
      SolveTask(task, {.iteration =
                           [&](const IterationRecord& record) {
                             numbers.push_back(record.iteration);
                             return true;
                           },
                       .stage = [&](int stage, const ContinuationStage&) { told.push_back(stage); }});
  EXPECT_LE(with.result.cost, without.result.cost) << with.result.message;
  EXPECT_EQ(with.result.initial_cost, without.result.initial_cost);
  ASSERT_EQ(with.stages.size(), 4u);  // as it is, plainly, smoothed, and on the true model again
  EXPECT_EQ(with.stages[0].true_cost, without.result.cost);
  EXPECT_EQ(with.stages[0].iterations, static_cast<int>(without.result.iterations.size()));
  EXPECT_EQ(with.stages[1].factor, 0);
  EXPECT_EQ(with.stages[2].factor, 1);
  for (const ContinuationStage& stage : with.stages) EXPECT_LE(with.result.cost, stage.true_cost);
  EXPECT_EQ(told, (std::vector<int>{0, 1, 2, 3}));

  // one record for all
  ASSERT_EQ(with.result.iterations.size(), numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(numbers[i], static_cast<int>(i) + 1);
    EXPECT_EQ(with.result.iterations[i].iteration, numbers[i]);
  }
}

TEST_F(ContinuationTest, RefusesBadOptions) {
  const Reach r;
  EXPECT_ERROR(SolveContinuation(r.problem, r.U, {}, {}), ErrorCode::kInvalidArgument, "no smoothing");
  ContinuationOptions options;
  options.smooth.onset = 0.01;
  options.shrink = 1;
  EXPECT_ERROR(SolveContinuation(r.problem, r.U, {}, options), ErrorCode::kInvalidArgument, "shrink is 1");
}

}  // namespace
}  // namespace costate
