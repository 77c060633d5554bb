// How fast tasks from goals alone want to be there, and what recorded motions begin with.
#include <costate/model.h>
#include <costate/rollout.h>
#include <costate/solve_task.h>
#include <costate/task.h>

#include <fstream>
#include <string>

#include "support/engine_test.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using Pace = support::EngineTest;

// by how much more a cost's first entry counts at the end than on the way
double EndOverWay(const Task& task, const std::string& cost) {
  const std::size_t at = task.text.find("name=\"" + cost + "\"");
  const auto number = [&](const char* attribute) {
    const std::string begin = std::string(" ") + attribute + "=\"";
    return std::stod(task.text.substr(task.text.find(begin, at) + begin.size()));
  };
  return number("terminal") / number("weight");
}

TEST_F(Pace, AKeyframeThatTheGuessReachesCountsLittleOnTheWay) {
  EXPECT_NEAR(
      EndOverWay(MakeReachTask(COSTATE_MODELS "/arm/arm.xml", {.start = "home", .goals = {"straight"}}), "posture"),
      1e4, 1);
  const Task legs = MakeReachTask(COSTATE_MODELS "/quadruped/quadruped.xml", {.start = "stand", .goals = {"crouch"}});
  EXPECT_NEAR(EndOverWay(legs, "posture"), 1e4, 1);
  // for plans that are made anew all the time
  const Task again =
      MakeReachTask(COSTATE_MODELS "/arm/arm.xml", {.start = "home", .goals = {"straight"}, .at_once = true});
  EXPECT_NEAR(EndOverWay(again, "posture"), 100, 1e-9);
  // a guess that falls
  const Task falls = MakeReachTask(COSTATE_MODELS "/humanoid/humanoid.xml", {.start = "stand", .goals = {"crouch"}});
  EXPECT_NEAR(EndOverWay(falls, "posture"), 100, 1e-9);
}

TEST_F(Pace, WhatFliesTakesTheTimeThatItIsGiven) {
  Task task =
      MakeReachTask(COSTATE_MODELS "/quadrotor/quadrotor.xml", {.start = "hover", .goals = {"goal"}, .time = 2});
  EXPECT_NEAR(EndOverWay(task, "posture"), 1e4, 1);
  const SolveResult result = SolveTask(task).result;
  const MatrixXd& X = result.trajectory.X;
  EXPECT_LT((X.col(X.cols() - 1) - task.x_goal).head(3).norm(), 1e-3);
  EXPECT_LT(X.middleRows(10, 3).cwiseAbs().maxCoeff(), 6);  // rad/s: as fast as forces allow it turned at 10
}

// a block out of reach of any posture, and dry friction that leaves no slope at rest
TEST_F(Pace, ConstantControlsAreTriedWhereNothingLeads) {
  const support::TemporaryFolder folder;
  const std::string model = folder.Write("push.xml", R"(<mujoco><worldbody><geom type="plane" size="3 3 .1"/>
      <body pos="0 0 .1"><joint name="rail" type="slide" axis="1 0 0" frictionloss="3" damping="10"/><geom type="box" size=".05 .1 .05" mass="1"/></body>
      <body name="block" pos=".3 0 .1"><joint type="slide" axis="1 0 0" damping="2" frictionloss=".5"/><geom type="box" size=".05 .1 .05" mass=".5"/></body>
    </worldbody><actuator><motor joint="rail" ctrlrange="-10 10"/></actuator></mujoco>)");
  const Task task = MakeReachTask(model, {.goals = {"body:block=0.7,_,_"}, .time = 1});
  EXPECT_NE(task.text.find("<guess ctrl=\""), std::string::npos) << task.text;
  EXPECT_GT(task.U_guess(0, 0), 0);
}

// A servo that sets out from rest within the first rows: the line through them is no velocity that it had.
TEST_F(Pace, AFitBeginsAtRestWhereThatExplainsMore) {
  const support::TemporaryFolder folder;
  const std::string model =
      folder.Write("servo.xml", R"(<mujoco><option timestep=".002" integrator="implicitfast"/><worldbody>
      <body><joint name="j" axis="0 1 0" damping="1" armature=".05"/><geom type="capsule" size=".03" fromto="0 0 0 .4 0 0"/></body>
    </worldbody><actuator><position name="a" joint="j" kp="400" kv="20"/></actuator></mujoco>)");
  const ModelPtr m = LoadModel(model);
  const DataPtr data = MakeData(m.get());
  std::ofstream film(folder.File("film.csv"));
  film << "time,qpos[j],ctrl[a]\n";
  for (int row = 0; row < 60; row++) {
    data->ctrl[0] = 0.8;
    film << 0.01 * row << "," << data->qpos[0] << "," << data->ctrl[0] << "\n";
    for (int k = 0; k < 5; k++) mj_step(m.get(), data.get());
  }
  film.close();
  const std::string text = WriteFitTask(model, {.motion = folder.File("film.csv"), .parameters = {"joint:j/damping"}});
  EXPECT_EQ(text.find("qvel=\""), text.find("qvel=\"all\"")) << text;
  EXPECT_EQ(ParseTask(text, model).x0[1], 0);
}

}  // namespace
}  // namespace costate
