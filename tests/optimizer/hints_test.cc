// What is said of a motion that was found.
#include "optimizer/hints.h"

#include <costate/cost.h>
#include <costate/rollout.h>
#include <gtest/gtest.h>

#include "support/engine_test.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using Hints = support::EngineTest;

// a solve of costs 10, 9 … 1, then another one that begins above them and ends at `last`
SolveResult TwoSolves(double last, const char* beside) {
  SolveResult result;
  result.status = SolveStatus::kIterationLimit;
  for (int i = 0; i < 10; ++i) result.iterations.push_back({.cost = 10.0 - i});
  for (int i = kLateIterations; i >= 0; --i) result.iterations.push_back({.cost = last + 0.1 * i, .beside = beside});
  return result;
}

// 1.5 … 0.5: half of what was had before; 2 … 1: nothing new
TEST_F(Hints, LateIterationsGainOverTheBestBefore) {
  const Task task;
  EXPECT_NEAR(LateGain(task, TwoSolves(0.5, nullptr)), 0.5, 1e-12);
  EXPECT_EQ(LateGain(task, TwoSolves(1, nullptr)), 0);
  EXPECT_EQ(LateGain(task, TwoSolves(0.5, "a round of samples")), 0);
  SolveResult done = TwoSolves(0.5, nullptr);
  done.status = SolveStatus::kConverged;
  EXPECT_EQ(LateGain(task, done), 0);
}

// A motion from 0 to a hinge's goal at 1 rad, missed by so much, for half of what its guess costs, which leads there:
// a ten-thousandth of 0.02 is less than a milliradian costs.
TEST_F(Hints, AMotionIsThereInTermsOfItsWay) {
  support::TemporaryFolder folder;
  const Task task = MakeReachTask(
      folder.Write("hinge.xml", R"(<mujoco><option gravity="0 0 0"/><worldbody><body><joint name="a" axis="0 0 1"/>
        <geom size=".1" pos=".5 0 0"/><site name="tip" pos=".5 0 0"/></body></worldbody>
        <actuator><motor joint="a" ctrlrange="-9 9"/></actuator>
        <keyframe><key name="there" qpos="1"/></keyframe></mujoco>)"),
      {.goals = {"there"}, .time = 1});
  Simulator simulator(task.model.get(), task.context, task.substeps);
  const auto is_there = [&](double miss, double cost) {
    SolveResult result;
    EXPECT_TRUE(simulator.Rollout(task.x0, MatrixXd::Zero(1, task.N), &result.trajectory).ok());
    result.trajectory.X.row(0) = VectorXd::LinSpaced(task.N + 1, 0, 1 - miss).transpose();
    result.initial_cost = 0.02;
    result.cost = cost;
    std::vector<double> costs;
    TotalCost(*task.cost, result.trajectory, simulator.knot_time(), &costs);
    return IsThere(task, result, Eigen::Map<const VectorXd>(costs.data(), static_cast<Eigen::Index>(costs.size())));
  };
  EXPECT_TRUE(is_there(1e-3, 0.01));
  EXPECT_TRUE(is_there(1e-3, 0.02)) << "the guess was there";
  EXPECT_FALSE(is_there(0.1, 0.01));
}

// Three arms that gravity turns by one radian or so: one falls onto its stop, one lies on it, one has none.
TEST_F(Hints, AMotionLeansOnTheStopsThatItComesTo) {
  support::TemporaryFolder folder;
  const Task task =
      MakeReachTask(folder.Write("arms.xml", R"(<mujoco><option timestep=".01"/><default><joint axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02"/></default><worldbody>
        <body><joint name="falls" range="-90 30"/><geom/></body>
        <body pos="0 1 0"><joint name="lies" range="-90 0"/><geom/></body>
        <body pos="0 2 0"><joint name="swings"/><geom/></body></worldbody>
        <actuator><motor joint="falls" ctrlrange="-1 1"/></actuator>
        <keyframe><key name="start"/></keyframe></mujoco>)"),
                    {.goals = {"start"}, .time = 1});
  Trajectory motion;
  ASSERT_TRUE(Simulator(task.model.get(), task.context, task.substeps)
                  .Rollout(task.x0, MatrixXd::Zero(1, task.N), &motion)
                  .ok());
  const std::vector<int> knots = KnotsAtStop(task, task.model.get(), motion);
  EXPECT_GT(knots[0], task.N / 2);
  EXPECT_LT(knots[0], task.N - 5);
  EXPECT_EQ(knots[1], 0);
  EXPECT_EQ(knots[2], 0);
}

}  // namespace
}  // namespace costate
