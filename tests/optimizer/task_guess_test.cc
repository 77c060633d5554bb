// Guesses of robots that stand on a floor, where the controls of keyframes, the joints' angles, let them fall.
#include <costate/cost.h>
#include <costate/rollout.h>
#include <costate/task.h>
#include <gtest/gtest.h>

#include "optimizer/cost_terms.h"
#include "support/engine_test.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using TaskGuess = support::EngineTest;

// a leg whose servos are weaker than gravity is on its ankle
constexpr char kLeg[] =
    R"(<mujoco model="leg"><option timestep=".002" integrator="implicitfast"/><worldbody><geom type="plane" size="3 3 .1"/>
  <body name="torso"><joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0 1"/><joint name="pitch" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 .05 0 0 .35" size=".06" mass="8" contype="0"/>
    <body pos="0 0 .35"><joint name="shoulder" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .3 0 0" size=".03" mass=".5" contype="0"/>
      <site name="hand" pos=".3 0 0"/></body>
    <body><joint name="hip" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 -.4" size=".04" mass="2" contype="0"/>
      <body pos="0 0 -.4"><joint name="knee" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 -.4" size=".03" mass="1" contype="0"/>
        <body pos="0 0 -.4"><joint name="ankle" axis="0 1 0"/><geom type="box" size=".12 .08 .02" pos="0 0 -.02" mass=".5"/></body></body></body></body>
  </worldbody><actuator>
    <position joint="shoulder" kp="40" kv="2" ctrlrange="-3 3"/><position joint="hip" kp="80" kv="4" ctrlrange="-3 3"/>
    <position joint="knee" kp="80" kv="4" ctrlrange="-3 3"/><position joint="ankle" kp="80" kv="4" ctrlrange="-3 3"/></actuator>
  <keyframe><key name="stand" qpos="0 .82405 0 0 -.2 .4 -.2" ctrl="0 -.2 .4 -.2"/>
    <key name="above" qpos="0 .82905 0 0 -.2 .4 -.2" ctrl="0 -.2 .4 -.2"/>
    <key name="bent" qpos="0 .70027 0 0 -.6 1.2 -.6" ctrl="0 -.6 1.2 -.6"/></keyframe></mujoco>)";

Trajectory Play(const Task& task, const MatrixXd& U) {
  Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  Trajectory motion;
  EXPECT_TRUE(simulator.Rollout(task.x0, U, &motion).ok());
  return motion;
}

// of all terms but the effort, which counts from the guess
double CostPlayed(const Task& task, const MatrixXd& U) {
  double cost = 0;
  for (const CostTermValue& term : task.cost->Terms(Play(task, U))) cost += term.name == "effort" ? 0 : term.value;
  return cost;
}

// the ctrl of its keyframes, straight from one to the other
MatrixXd ControlsOfKeys(const Task& task, const Eigen::Vector4d& from, const Eigen::Vector4d& to) {
  MatrixXd U(4, task.N);
  for (int t = 0; t < task.N; ++t) U.col(t) = from + t / (task.N - 1.0) * (to - from);
  return U;
}
const Eigen::Vector4d kStandControls(0, -.2, .4, -.2), kBentControls(0, -.6, 1.2, -.6);

TEST_F(TaskGuess, AKeyframeWhoseControlsLetItFallIsHeld) {
  const support::TemporaryFolder folder;
  const std::string leg = folder.Write("leg.xml", kLeg);
  const Task task = MakeReachTask(leg, {.start = "stand", .goals = {"stand"}, .time = 1});
  EXPECT_GT(CostPlayed(task, ControlsOfKeys(task, kStandControls, kStandControls)), 1);
  EXPECT_LT(CostPlayed(task, task.U_guess), 1e-3);
}

TEST_F(TaskGuess, AKeyframeThatItsControlsDoNotLeadToIsGoneToOtherwise) {
  const support::TemporaryFolder folder;
  const std::string leg = folder.Write("leg.xml", kLeg);
  const Task task = MakeReachTask(leg, {.start = "stand", .goals = {"bent"}, .time = 1});
  EXPECT_GT(CostPlayed(task, ControlsOfKeys(task, kStandControls, kBentControls)), 5);
  EXPECT_LT(CostPlayed(task, task.U_guess), 1);
}

// the gain about a start that touches nothing yet holds nothing
TEST_F(TaskGuess, AStartJustAboveTheFloorIsHeldWhereItLands) {
  const support::TemporaryFolder folder;
  folder.Write("leg.xml", kLeg);
  const Task task = LoadTask(folder.Write("leg.task.xml", R"(<task model="leg.xml" horizon="1" controlstep="5">
      <start key="above"/><guess hold="true"/><cost qpos="all" target="key:stand" terminal="20"/></task>)"));
  EXPECT_GT(CostPlayed(task, ControlsOfKeys(task, kStandControls, kStandControls)), 0.5);
  EXPECT_LT(CostPlayed(task, task.U_guess), 0.06);  // 0.19 by gains about the start
}

// the hand's way is a servo's, the rest falls under constant controls: the guess stands still, and as it does not lead
// to the goal its place counts in full on the way
TEST_F(TaskGuess, ARobotThatWouldFallOnItsHandsWayIsHeld) {
  const support::TemporaryFolder folder;
  const std::string leg = folder.Write("leg.xml", kLeg);
  const Task task = MakeReachTask(leg, {.start = "stand", .goals = {"site:hand=_,_,1.3"}, .time = 2});
  const Trajectory motion = Play(task, task.U_guess);
  EXPECT_LT(motion.X.row(2).cwiseAbs().maxCoeff(), 0.1) << task.text;
  const ResidualTerm& hand = dynamic_cast<const ResidualCost&>(*task.cost).terms()[0];
  EXPECT_NEAR(hand.terminal[0] / hand.weight[0], 100, 1e-3);
}

// two legs of motors under a trunk
constexpr char kLegs[] =
    R"(<mujoco model="legs"><option timestep=".002" integrator="implicitfast"/><worldbody><geom type="plane" size="3 3 .1"/>
  <body name="trunk"><joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0 1"/><joint name="pitch" axis="0 1 0"/>
    <geom type="box" size=".25 .1 .06" mass="8" contype="0"/>
    <body pos=".2 0 0"><joint name="hip1" axis="0 1 0" damping=".2" armature=".01"/><geom type="capsule" fromto="0 0 0 0 0 -.25" size=".03" mass=".6" contype="0"/>
      <body pos="0 0 -.25"><joint name="knee1" axis="0 1 0" damping=".2" armature=".01"/><geom type="capsule" fromto="0 0 0 0 0 -.25" size=".02" mass=".3"/></body></body>
    <body pos="-.2 0 0"><joint name="hip2" axis="0 1 0" damping=".2" armature=".01"/><geom type="capsule" fromto="0 0 0 0 0 -.25" size=".03" mass=".6" contype="0"/>
      <body pos="0 0 -.25"><joint name="knee2" axis="0 1 0" damping=".2" armature=".01"/><geom type="capsule" fromto="0 0 0 0 0 -.25" size=".02" mass=".3"/></body></body></body>
  </worldbody><actuator><motor joint="hip1" ctrlrange="-60 60"/><motor joint="knee1" ctrlrange="-60 60"/><motor joint="hip2" ctrlrange="-60 60"/><motor joint="knee2" ctrlrange="-60 60"/></actuator>
  <keyframe><key name="low" qpos="0 .17 0 1.1 -2.2 1.1 -2.2"/><key name="high" qpos="0 .43 0 .6 -1.2 .6 -1.2"/><key name="away" qpos="1 .43 0 .6 -1.2 .6 -1.2"/><key name="drop" qpos="0 .5 0 .6 -1.2 .6 -1.2"/><key name="lean" qpos="0 .45 .15 .6 -1.2 .6 -1.2"/></keyframe></mujoco>)";

// a trunk that no actuator moves stays behind where legs are to be, too; the legs themselves go there and carry it
TEST_F(TaskGuess, LegsGoWhereTheyShallAndCarryTheirTrunk) {
  const support::TemporaryFolder folder;
  folder.Write("legs.xml", kLegs);
  const auto end = [&](const std::string& guess) -> VectorXd {
    const Task task = LoadTask(folder.Write("legs.task.xml", R"(<task model="legs.xml" horizon="1.5" controlstep="5">
      <start key="high"/><guess )" + guess + R"(/><cost qpos="all" target="key:away"/></task>)"));
    const Trajectory motion = Play(task, task.U_guess);
    return motion.X.col(motion.N());
  };
  const Eigen::Vector4d legs(.6, -1.2, .6, -1.2);
  const VectorXd all = end("follow='away@0.6'"), driven = end("follow='away@0.6' driven='true'");
  EXPECT_GT((all.segment<4>(3) - legs).cwiseAbs().maxCoeff(), 0.1);
  EXPECT_LT((driven.segment<4>(3) - legs).cwiseAbs().maxCoeff(), 1e-3);
  EXPECT_NEAR(driven[1], .43, 3e-3);  // [m] on its feet
}

// dropped from 7 cm, and from a lean: gains about either hold nothing
TEST_F(TaskGuess, WhatFeedbackCannotHoldStandsByItsLegs) {
  const support::TemporaryFolder folder;
  folder.Write("legs.xml", kLegs);
  for (const char* start : {"drop", "lean"}) {
    SCOPED_TRACE(start);
    const Task task =
        LoadTask(folder.Write("legs.task.xml", std::string(R"(<task model="legs.xml" horizon="1.5" controlstep="5">
      <start key=")") + start + R"("/><guess hold="true"/><cost qpos="all" target="key:high" terminal="20"/></task>)"));
    EXPECT_LT(CostPlayed(task, task.U_guess), 0.1);  // 59 and 427 by gains
  }
}

}  // namespace
}  // namespace costate
