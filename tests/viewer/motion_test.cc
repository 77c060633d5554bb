#include "viewer/motion.h"

#include <gtest/gtest.h>

#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "viewer/scenes.h"

namespace costate::viewer {
namespace {

using support::BitwiseEqual;
using MotionTest = support::EngineTest;

// a Player promises every engine step of the recorded simulation, in any order, warm starts included
TEST_F(MotionTest, ShowsEachEngineStepOfTheRecordedSimulationBitForBit) {
  const ModelPtr model = LoadModelFromString(kCar);
  const ViewSource source = Simulate(FromModel(model.get(), "go", "car"), 0.5);
  ASSERT_EQ(source.substeps, 5);

  // the reference: one simulation without a stop
  const DataPtr data = MakeDataAtKey(model.get(), "go");
  std::vector<VectorXd> states;
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) {
    states.push_back(GetState(model.get(), data.get()));
    times.push_back(data->time);
    mj_step(model.get(), data.get());
  }

  Player player(source);
  for (int i = 0; i < 200; ++i) {
    const int k = (i * 77) % 200;
    player.SetTime(times[k] + 0.3 * model->opt.timestep);
    ASSERT_TRUE(BitwiseEqual(GetState(model.get(), player.data()), states[k])) << "at step " << k;
    ASSERT_NEAR(player.time(), times[k], 1e-12);
    ASSERT_EQ(player.knot(), k / 5);
  }
}

TEST_F(MotionTest, ClampsTimeAndKnotToTheMotion) {
  const ModelPtr model = LoadModelFromString(kPendulum);
  const ViewSource source = Simulate(FromModel(model.get(), "", "pendulum"), 0.2);
  Player player(source);
  player.SetTime(-5);
  EXPECT_EQ(player.knot(), 0);
  player.SetTime(5);
  EXPECT_EQ(player.knot(), 20);
  EXPECT_EQ(player.last_knot(), 20);
  player.SetKnot(1000);
  EXPECT_TRUE(BitwiseEqual(GetState(model.get(), player.data()), source.trajectory.X.col(20)));
}

TEST_F(MotionTest, ALiveSimulationGoesOnAsFarAsItIsAsked) {
  const ModelPtr model = LoadModelFromString(kCar);
  const ViewSource live = FromModel(model.get(), "go", "car");
  const ViewSource recorded = Simulate(live, 1);
  Player player(live);
  EXPECT_EQ(player.last_knot(), 0);
  player.SetTime(0.503);
  EXPECT_EQ(player.last_knot(), 51);
  player.SetTime(1);
  EXPECT_TRUE(BitwiseEqual(GetState(model.get(), player.data()), recorded.trajectory.X.col(100)));

  // and back into its history
  player.SetKnot(7);
  EXPECT_TRUE(BitwiseEqual(GetState(model.get(), player.data()), recorded.trajectory.X.col(7)));
}

TEST_F(MotionTest, ALiveSimulationThatDivergesStopsAndSaysWhen) {
  // a spring far too stiff for the time step
  const ModelPtr model = LoadModelFromString(R"(
    <mujoco><option timestep=".05"/><worldbody><body>
      <joint type="slide" stiffness="1e9"/><geom size=".1"/>
    </body></worldbody><keyframe><key qpos="1"/></keyframe></mujoco>)");
  const ViewSource live = FromModel(model.get(), "0", "spring");
  Player player(live);
  player.SetTime(100);
  EXPECT_LT(player.end(), 100);
  EXPECT_NE(player.failure().find("stopped at"), std::string::npos) << player.failure();
  EXPECT_TRUE(player.State(player.last_knot()).allFinite());
  const ViewSource recorded = Simulate(live, 100);
  EXPECT_NE(recorded.title.find("diverges at"), std::string::npos) << recorded.title;
  EXPECT_LT(recorded.trajectory.N(), 2000);
  TakeWarnings();
}

TEST_F(MotionTest, TheLastKnotHasNoControl) {
  const ModelPtr model = LoadModelFromString(kPendulum);
  ViewSource source = FromModel(model.get(), "", "pendulum");
  source.u_live = VectorXd::Constant(1, 0.5);
  source = Simulate(source, 0.1);
  Player player(source);
  EXPECT_EQ(player.Control(3)[0], 0.5);
  EXPECT_EQ(player.Control(10)[0], 0);
}

}  // namespace
}  // namespace costate::viewer
