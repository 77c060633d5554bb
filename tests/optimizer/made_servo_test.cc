// Motors made servos: their numbers, what they hold, and gaits that begin from places they pull joints to.
#include "optimizer/made_servo.h"

#include <costate/sampling.h>
#include <costate/solve_task.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/engine_test.h"
#include "support/task_file.h"

namespace costate {
namespace {

using MadeServoTest = support::EngineTest;

// one joint each, 2 kg at 0.5 m: a moment of inertia of 0.5 kg m² about each pivot
std::string Pivots(const std::string& joint, const std::string& actuator) {
  return "<mujoco><option timestep='0.002' gravity='0 0 0'/><worldbody><body><joint name='j' " + joint +
         "/><inertial pos='0.5 0 0' mass='2' diaginertia='1e-9 1e-9 1e-9'/></body></worldbody><actuator>" + actuator +
         "</actuator></mujoco>";
}

struct PivotCase {
  PivotCase(const std::string& joint, const std::string& actuator)
      : model(LoadModelFromString(Pivots(joint, actuator))) {
    const DataPtr data = MakeData(model.get());
    problem.model = model.get();
    problem.x0 = GetState(model.get(), data.get());
    problem.context = GetContext(model.get(), data.get());
    problem.N = 100;
    problem.substeps = 5;
    ControlLimits(model.get(), &problem.u_lower, &problem.u_upper);
    servos = MakeServos(problem);
  }
  ModelPtr model;
  Problem problem;
  std::vector<MadeServo> servos;
};

TEST_F(MadeServoTest, AreAsStiffAsTheirForceAndTheStepAllow) {
  // ±3 of gear 2: 6 N m half a radian off, by control 6; damped critically
  const PivotCase free("axis='0 0 1'", "<motor joint='j' gear='2' ctrlrange='-3 3'/>");
  ASSERT_EQ(free.servos.size(), 1u);
  EXPECT_NEAR(free.servos[0].stiffness, 6 / 0.5 / 2, 1e-6);
  EXPECT_NEAR(free.servos[0].damping, 2 * std::sqrt(12 * 0.5) / 2, 1e-6);
  EXPECT_NEAR(free.servos[0].reach, 0.5, 1e-12);

  // a motor so strong that steps of 10 ms would not hold: m/4h², m/2h
  const PivotCase strong("axis='0 0 1' range='-40 20' limited='true'", "<motor joint='j' ctrlrange='-5000 5000'/>");
  ASSERT_EQ(strong.servos.size(), 1u);
  EXPECT_NEAR(strong.servos[0].stiffness, 0.5 / 4 / 1e-4, 1e-4);
  EXPECT_NEAR(strong.servos[0].damping, 0.5 / 2 / 1e-2, 1e-6);
  EXPECT_NEAR(strong.servos[0].reach, 30 * M_PI / 180, 1e-9) << "half of the range";

  // limits of force and of the joint's force bind, whichever is less; without any 20 rad/s
  const PivotCase forced("axis='0 0 1' actuatorfrcrange='-1 1'",
                         "<motor joint='j' ctrlrange='-3 3' forcerange='-2 2'/>");
  EXPECT_NEAR(forced.servos.at(0).stiffness, 1 / 0.5, 1e-9);
  const PivotCase unlimited("axis='0 0 1'", "<motor joint='j'/>");
  EXPECT_NEAR(unlimited.servos.at(0).stiffness, 400 * 0.5, 1e-4);

  // a slide by its range: 2 kg
  const PivotCase slide("type='slide' range='-1 1' limited='true'", "<motor joint='j' ctrlrange='-10 10'/>");
  EXPECT_NEAR(slide.servos.at(0).stiffness, 10 / 1.0, 1e-9);
}

TEST_F(MadeServoTest, AreMadeOfMotorsAlone) {
  for (const char* actuator :
       {"<position joint='j' kp='5'/>", "<velocity joint='j'/>", "<damper joint='j' kv='1' ctrlrange='0 1'/>",
        "<general joint='j' dyntype='filter' dynprm='0.1'/>"}) {
    EXPECT_TRUE(PivotCase("axis='0 0 1'", actuator).servos.empty()) << actuator;
  }
  EXPECT_TRUE(PivotCase("type='slide'", "<motor joint='j'/>").servos.empty()) << "no measure of a slide without range";
}

// a torso on two legs of two links in a plane, which no constant torque holds up
constexpr char kBiped[] = R"(<mujoco><option timestep="0.005"/><default><geom density="500"/>
  <motor gear="30" ctrlrange="-1 1"/></default><worldbody><geom type="plane" size="9 9 1"/>
  <body name="torso" pos="0 0 0.62"><joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0 1"/>
   <joint name="pitch" axis="0 1 0"/><geom type="box" size="0.2 0.1 0.06"/>
   <body name="rear" pos="-0.15 0 0"><joint name="rear hip" axis="0 1 0" range="-60 60"/>
    <geom type="capsule" fromto="0 0 0 0.1 0 -0.28" size="0.03"/>
    <body pos="0.1 0 -0.28"><joint name="rear knee" axis="0 1 0" range="-60 60"/>
     <geom type="capsule" fromto="0 0 0 -0.1 0 -0.28" size="0.03"/></body></body>
   <body name="fore" pos="0.15 0 0"><joint name="fore hip" axis="0 1 0" range="-60 60"/>
    <geom type="capsule" fromto="0 0 0 0.1 0 -0.28" size="0.03"/>
    <body pos="0.1 0 -0.28"><joint name="fore knee" axis="0 1 0" range="-60 60"/>
     <geom type="capsule" fromto="0 0 0 -0.1 0 -0.28" size="0.03"/></body></body></body></worldbody>
  <actuator><motor joint="rear hip"/><motor joint="rear knee"/><motor joint="fore hip"/><motor joint="fore knee"/></actuator>
  </mujoco>)";

Task BipedTask(const std::string& solver, const std::string& horizon, const std::string& speed) {
  const support::TemporaryFolder folder;
  folder.Write("biped.xml", kBiped);
  return LoadTask(folder.Write(
      "run.xml", "<task model='biped.xml' controlstep='2' horizon='" + horizon + "'>" + solver +
                     "<cost name='speed' subtree='torso' quantity='linvel' index='0' weight='20' target='" + speed +
                     "'/>"
                     "<cost name='height' qpos='z' weight='100'/><cost name='level' qpos='pitch' weight='5'/>"
                     "<cost name='effort' ctrl='all' weight='0.05'/></task>"));
}

TEST_F(MadeServoTest, PlacesThatRepeatBeatTorquesThatRepeat) {
  const Task task = BipedTask("<solver start='servos' rounds='6'/>", "1.2", "0.6");
  ASSERT_TRUE(task.sampling.periodic && task.sampling.servos);
  const Problem problem = task.ToProblem();
  SamplingOptions options = task.sampling;
  options.threads = 1;
  const SamplingResult found = SampleControls(problem, task.U_guess, options);
  options.threads = 3;
  EXPECT_EQ(found.U, SampleControls(problem, task.U_guess, options).U) << "the same bits";
  EXPECT_LE(found.U.cwiseAbs().maxCoeff(), 1);

  // what the motors did, played without servos
  Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  Trajectory motion;
  ASSERT_TRUE(simulator.Rollout(task.x0, found.U, &motion).ok());
  EXPECT_EQ(TotalCost(*task.cost, motion, simulator.knot_time()), found.cost);

  options.servos = false;
  const SamplingResult torques = SampleControls(problem, task.U_guess, options);
  EXPECT_EQ(torques.initial_cost, found.initial_cost) << "of the guess";
  EXPECT_LT(found.cost, 0.7 * torques.cost);
}

TEST_F(MadeServoTest, AFirstRoundBeginsFromThem) {
  Task task = BipedTask("", "2", "1");
  task.hopping.rounds = 1;
  const BasinHoppingResult found = SolveBasinHopping(task.ToProblem(), task.ToGuess(), task.solver, task.hopping);
  ASSERT_GE(found.rounds.size(), 2u) << found.result.message;
  EXPECT_TRUE(found.rounds[1].origin == RoundOrigin::kServos && found.rounds[1].better)
      << ToString(found.rounds[1].origin);
}

TEST_F(MadeServoTest, AModelWithoutMotorsIsTold) {
  const support::TemporaryFolder folder;
  folder.Write("p.xml", Pivots("axis='0 0 1'", "<position joint='j' kp='5'/>"));
  try {
    LoadTask(folder.Write("t.xml", "<task model='p.xml' horizon='2'><solver start='servos'/><cost qpos='j'/></task>"));
    FAIL() << "servos were made of nothing";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("start=\"servos\" needs motors"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace costate
