// MPC of a robot that is another than the planned one, and of one that is pushed: its motion repeats from what is known
// of it.
#include <costate/costate.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using support::BitwiseEqual;
using MpcPlantTest = support::EngineTest;

// a pendulum with a motor; %s: its mass, its step, what else there is
std::string Pendulum(const std::string& mass, const std::string& timestep, const std::string& more = "",
                     const std::string& joint = "hinge") {
  return "<mujoco model='pendulum'><option timestep='" + timestep + "'/><worldbody>" + more +
         "<body name='link'><joint name='" + joint +
         "' axis='0 1 0' damping='.1'/><geom type='capsule' size='.02' fromto='0 0 0 0 0 -.5' mass='" + mass +
         "'/></body></worldbody><actuator><motor name='motor' joint='" + joint +
         "' ctrlrange='-10 10'/></actuator><keyframe><key name='side' qpos='1'/></keyframe></mujoco>";
}

struct Plants {
  Plants() {
    folder.Write("light.xml", Pendulum("1", "0.01"));
    task =
        LoadTask(folder.Write("side.task.xml",
                              "<task model='light.xml' horizon='0.5'><cost qpos='all' target='key:side' weight='10'/>"
                              "<cost body='link' quantity='linvel' weight='.1'/><cost ctrl='all' "
                              "weight='0.001'/></task>"));
  }
  ModelPtr Load(const std::string& mass, const std::string& timestep, const std::string& more = "",
                const std::string& joint = "hinge") {
    return LoadPlant(task, folder.Write("plant.xml", Pendulum(mass, timestep, more, joint)));
  }
  support::TemporaryFolder folder;
  Task task;
};

// the sensor that the task adds is in both
TEST_F(MpcPlantTest, TheSameModelFromAFileIsTheSameRobot) {
  Plants plants;
  const ModelPtr same = plants.Load("1", "0.01");
  EXPECT_EQ(same->nsensordata, 3);
  const MpcResult own = RunMpc(plants.task, {.duration = 1});
  const MpcResult other = RunMpc(plants.task, {.plant = same.get(), .duration = 1});
  EXPECT_TRUE(BitwiseEqual(own.trajectory.X, other.trajectory.X));
  EXPECT_TRUE(BitwiseEqual(own.trajectory.S, other.trajectory.S));
  EXPECT_EQ(own.cost_per_step, other.cost_per_step);
}

// said before what the task says of its own robot is read as of the other one
TEST_F(MpcPlantTest, ARobotOfAnotherSizeIsNamedAsSuch) {
  Plants plants;
  const std::string other = plants.folder.Write(
      "two.xml",
      "<mujoco model='two'><worldbody><body><joint/><geom size='.1'/><body><joint/><geom size='.1'/></body></body>"
      "</worldbody></mujoco>");
  plants.task = LoadTask(plants.folder.Write("posed.task.xml",
                                             "<task model='light.xml' horizon='0.5'><start qpos='0.5'/><cost "
                                             "qpos='all' target='key:side' weight='10'/></task>"));
  EXPECT_ERROR(LoadPlant(plants.task, other), ErrorCode::kInvalidArgument,
               "the simulated robot 'two' has 4 states, the planned one 'pendulum' has 2");
}

// twice the mass, a quarter of the step, a body more: the motion is the plant's own under the controls, and comes to
// the goal all the same, where nothing but feedback and new plans makes up for the weight
TEST_F(MpcPlantTest, ARobotOfAnotherMassStepAndSceneIsControlledByThePlansOfTheTask) {
  Plants plants;
  const ModelPtr heavy = plants.Load("2", "0.0025", "<body name='post' pos='1 1 0'><geom size='.1'/></body>");
  const MpcResult result = RunMpc(plants.task, {.plant = heavy.get(), .duration = 2});
  ASSERT_TRUE(result.status.ok());
  EXPECT_EQ(result.substeps, 4);
  EXPECT_NEAR(result.trajectory.X(0, 200), 1, 0.1);
  Simulator simulator(heavy.get(), result.context, 4, 1);
  Trajectory again;
  ASSERT_TRUE(simulator.Rollout(plants.task.x0, result.trajectory.U, &again).ok());
  EXPECT_TRUE(BitwiseEqual(again.X, result.trajectory.X));
  EXPECT_TRUE(BitwiseEqual(again.context, result.trajectory.context));
  EXPECT_EQ(result.xfrc.size(), 0);
}

// (M6): the weight that nobody told of, m g l/2 sin(1) at rest, is what is learned, and nothing is left to be missed
TEST_F(MpcPlantTest, LearnsOfAWeightThatNobodyToldOf) {
  Plants plants;
  const ModelPtr heavy = plants.Load("2", "0.01");
  const auto missed = [&](const MpcResult& result) {
    return std::abs(result.trajectory.X(0, result.trajectory.N()) - 1);
  };
  const MpcResult without = RunMpc(plants.task, {.plant = heavy.get(), .duration = 4});
  EXPECT_EQ(without.unknown_force.size(), 0);
  plants.task.mpc.estimate = 0.2;
  const MpcResult with = RunMpc(plants.task, {.plant = heavy.get(), .duration = 4});
  ASSERT_TRUE(with.status.ok());
  EXPECT_GT(missed(without), 0.02);
  EXPECT_LT(missed(with), 0.2 * missed(without));
  const double angle = with.trajectory.X(0, with.trajectory.N());
  ASSERT_EQ(with.unknown_force.size(), 1);
  EXPECT_NEAR(with.unknown_force[0], -9.81 * 0.25 * std::sin(angle), 0.02);

  // of its own model's robot there is nothing to learn
  EXPECT_LT(RunMpc(plants.task, {.duration = 1}).unknown_force.cwiseAbs().maxCoeff(), 1e-9);
  const MpcResult again = RunMpc(plants.task, {.plant = heavy.get(), .duration = 4});
  EXPECT_TRUE(BitwiseEqual(again.trajectory.X, with.trajectory.X));
}

TEST_F(MpcPlantTest, AnEstimateTakesSomeTime) {
  Plants plants;
  plants.task.mpc.estimate = -1;
  EXPECT_THROW(RunMpc(plants.task, {.duration = 1}), Error);
}

// also beside what the task's context applies anyway
TEST_F(MpcPlantTest, APushedMotionRepeatsFromItsForces) {
  Plants plants;
  const DataPtr data = MakeData(plants.task.model.get());
  SetContext(plants.task.model.get(), data.get(), plants.task.context);
  data->xfrc_applied[6] = 0.5;
  plants.task.context = GetContext(plants.task.model.get(), data.get());
  const MpcResult result =
      RunMpc(plants.task, {.duration = 1, .pushes = {{.body = 1, .force = {3, 0, 0}, .begin = 0.2, .end = 0.4}}});
  EXPECT_EQ(result.xfrc(6, 19), 0.5);
  EXPECT_EQ(result.xfrc(6, 20), 3.5);
  EXPECT_EQ(result.xfrc(6, 40), 0.5);
  Simulator simulator(plants.task.model.get(), plants.task.context, plants.task.substeps, 1);
  Trajectory again;
  ASSERT_TRUE(simulator.RolloutPushed(plants.task.x0, result.trajectory.U, result.xfrc, &again).ok());
  EXPECT_TRUE(BitwiseEqual(again.X, result.trajectory.X));
  EXPECT_TRUE(BitwiseEqual(again.S, result.trajectory.S));
}

TEST_F(MpcPlantTest, RefusesWhatPlansCannotMove) {
  Plants plants;
  const auto refuses = [&](const ModelPtr& plant, const char* first, const char* second) {
    EXPECT_ERROR(RunMpc(plants.task, {.plant = plant.get(), .duration = 1}), ErrorCode::kInvalidArgument, first,
                 second);
  };
  refuses(plants.Load("1", "0.003"), "time step of 0.003 s", "control interval of 0.01 s");
  const char* body = "<body><joint name='slide' type='slide'/><geom size='.1'/></body>";
  refuses(LoadModelFromString(Pendulum("1", "0.01", "", "hip")), "qpos[hip] in place 0", "qpos[hinge]");
  refuses(LoadModelFromString(Pendulum("1", "0.01", body)), "4 states", "has 2");
  EXPECT_ERROR(plants.Load("1", "0.01", "", "hip"), ErrorCode::kInvalidArgument, "qpos[hip] in place 0", "qpos[hinge]");
  EXPECT_ERROR(plants.Load("1", "0.01", body), ErrorCode::kInvalidArgument, "4 states", "has 2");
  EXPECT_ERROR(plants.Load("1", "0.01", "<geom"), ErrorCode::kParse, "plant.xml");
  plants.task.text.clear();
  EXPECT_ERROR(plants.Load("1", "0.01"), ErrorCode::kInvalidArgument, "no text");
}

}  // namespace
}  // namespace costate
