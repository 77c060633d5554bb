// Tasks from what shall be reached.
#include <costate/model.h>
#include <costate/rollout.h>
#include <costate/solve_task.h>
#include <costate/state.h>
#include <costate/step.h>
#include <costate/task.h>
#include <gtest/gtest.h>

#include "core/posture.h"
#include "optimizer/cost_terms.h"
#include "optimizer/task_path.h"
#include "optimizer/untouched.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using support::MatricesNear;
using Reach = support::EngineTest;
constexpr char kReachZoo[] = COSTATE_TESTDATA "/task_zoo.xml";

TEST_F(Reach, GoesFromKeyframeToKeyframe) {
  const Task task = MakeReachTask(kReachZoo, {.start = "home", .goals = {"pose"}, .time = 0.6});
  EXPECT_EQ(task.N, 60);
  EXPECT_EQ(task.substeps, 5);
  EXPECT_TRUE(task.hopping.after_solve);
  EXPECT_EQ(task.hopping.rounds, 4);
  EXPECT_EQ(task.x0[2], 1);
  EXPECT_NEAR(task.x_goal.segment<4>(3).norm(), 1, 1e-15);
  EXPECT_EQ(task.x_goal[24], 0.4);

  // controls go straight from one keyframe's to the other's
  EXPECT_TRUE(MatricesNear(task.U_guess.col(0), Eigen::Vector3d(0.1, 0.2, -0.3), 0));
  EXPECT_TRUE(MatricesNear(task.U_guess.col(59), Eigen::Vector3d(0.5, -1, 0.7), 1e-15));

  // nothing is paid at the goal but running effort, and the far start costs
  Trajectory trajectory;
  trajectory.X = task.x_goal.replicate(1, 61);
  trajectory.U = task.U_guess;
  trajectory.S = MatrixXd::Zero(task.model->nsensordata, 61);
  trajectory.time = VectorXd::LinSpaced(61, 0, 0.6);
  const std::vector<CostTermValue> terms = task.cost->Terms(trajectory);
  ASSERT_EQ(terms.size(), 3u);
  EXPECT_LT(terms[0].value + terms[1].value, 1e-20);
  trajectory.X = task.x0.replicate(1, 61);
  EXPECT_GT(task.cost->Terms(trajectory)[0].value, 1);
}

TEST_F(Reach, NumbersAndTheDefaultStateWorkToo) {
  const Task task = MakeReachTask(kReachZoo, {.start = "", .goals = {"1"}, .time = 4, .substeps = 0});
  EXPECT_EQ(task.N, 200);  // 20 ms a knot
  EXPECT_EQ(task.substeps, 10);
  EXPECT_TRUE(MatricesNear(task.x0, GetState(task.model.get(), MakeData(task.model.get()).get()), 0));
  EXPECT_EQ(MakeReachTask(kReachZoo, {.goals = {"pose"}, .time = 0.1, .substeps = 2}).N, 25);

  // an interval that was chosen need not divide the motion, one that was given is told when it does not
  EXPECT_TRUE(MakeReachTask(kReachZoo, {.start = "home", .goals = {"pose"}, .time = 0.603}).warnings.empty());
  EXPECT_EQ(
      MakeReachTask(kReachZoo, {.start = "home", .goals = {"pose"}, .time = 0.603, .substeps = 5}).warnings.size(), 1u);
}

// rows of a term at the end of a motion that stays at a state
VectorXd AtTheEnd(const Task& task, int term, const VectorXd& x) {
  const auto& cost = dynamic_cast<const ResidualCost&>(*task.cost);
  const DataPtr data = MakeData(task.model.get());
  VectorXd s(task.model->nsensordata), r;
  EXPECT_EQ(Forward(task.model.get(), data.get(), x, VectorXd::Zero(task.model->nu), s), StepStatus::kOk);
  cost.Residual(term, {.t = task.N, .N = task.N, .time = 0, .dt = 0.01, .x = x, .u = VectorXd(), .s = s}, &r);
  return r;
}

// the zoo at its default state: the tip is at (0, 0.15, 0.6), its geom at z = 0.65
TEST_F(Reach, GoesToWherePartsShallBe) {
  const Task task =
      MakeReachTask(kReachZoo, {.goals = {"site:tip=0.5,_,0.7", "joint:shoulder=0.3", "joint:neck=0 1 0 0",
                                          "body:base:zaxis=1,0,0", "geom:tip_geom=_,_,1"}});
  const auto& terms = dynamic_cast<const ResidualCost&>(*task.cost).terms();
  ASSERT_EQ(terms.size(), 7u);
  EXPECT_EQ(task.x_goal.size(), 0);
  EXPECT_TRUE(MatricesNear(AtTheEnd(task, 0, task.x0), Eigen::Vector2d(-0.5, -0.1), 1e-12));
  EXPECT_TRUE(MatricesNear(AtTheEnd(task, 1, task.x0), VectorXd::Constant(1, -0.3), 1e-12));
  EXPECT_NEAR(AtTheEnd(task, 2, task.x0).norm(), mjPI, 1e-12);
  EXPECT_TRUE(MatricesNear(AtTheEnd(task, 3, task.x0), Eigen::Vector3d(-1, 0, 1), 1e-12));
  EXPECT_TRUE(MatricesNear(AtTheEnd(task, 4, task.x0), VectorXd::Constant(1, -0.35), 1e-12));

  // a shoulder's half range is above a radian, hence a radian; places by a quarter of the extent, within half a metre
  const double length = std::min(0.5, 0.25 * task.model->stat.extent);
  EXPECT_NEAR(terms[1].terminal[0], 20, 1e-9);
  EXPECT_NEAR(terms[0].terminal[0], 20 / (length * length), 1e-3);
  EXPECT_NEAR(terms[3].terminal[0], 20, 1e-9);

  // the tip's and the geom's are places, the direction is none
  const std::vector<GoalPlace> places = GoalPlaces(task);
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places[0].sensor, task.user_sensors);
  EXPECT_EQ(places[0].place[0], 0.5);
  EXPECT_TRUE(std::isnan(places[0].place[1]));
  EXPECT_EQ(places[0].place[2], 0.7);
  EXPECT_EQ(places[1].place[2], 1);

  // what the start's hold adds nothing to is free
  Trajectory still;
  still.X = task.x0.replicate(1, task.N + 1);
  still.U = task.U_guess;
  still.S = MatrixXd::Zero(task.model->nsensordata, task.N + 1);
  still.time = VectorXd::LinSpaced(task.N + 1, 0, 2);
  EXPECT_EQ(task.cost->Terms(still)[6].name, "effort");
  EXPECT_LT(task.cost->Terms(still)[6].value, 1e-20);
  still.U.row(0).array() += 0.5;
  EXPECT_GT(task.cost->Terms(still)[6].value, 1e-3);
}

TEST_F(Reach, JointsMayHaveBlanksInTheirNames) {
  support::TemporaryFolder folder;
  const std::string model = folder.Write("blanks.xml", R"(<mujoco><worldbody><body><joint name="left hip" type="ball"/>
      <geom size=".1" pos=".3 0 0"/><body pos=".3 0 0"><joint name="left knee"/><geom size=".1" pos=".3 0 0"/></body></body>
      </worldbody><actuator><motor joint="left knee"/></actuator></mujoco>)");
  const Task task = MakeReachTask(model, {.goals = {"joint:left knee=.5", "joint:left hip=0 1 0 0"}});
  EXPECT_TRUE(MatricesNear(AtTheEnd(task, 0, task.x0), VectorXd::Constant(1, -0.5), 1e-12));
  EXPECT_NEAR(AtTheEnd(task, 1, task.x0).norm(), mjPI, 1e-12);
}

// three links whose servos are at their limit of force a few hundredths of a radian from where they pull nowhere, with
// a block where the straight way to some postures ends; a motor has no posture of its own
constexpr char kServoArm[] = R"(<mujoco>
  <option integrator="implicitfast"/>
  <worldbody>
    <body name="upper" pos="0 0 0.5"><joint name="shoulder" axis="0 1 0" range="-170 170"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".03" mass="1.5"/>
      <body name="fore" pos=".3 0 0"><joint name="elbow" axis="0 1 0" range="-150 150"/>
        <geom type="capsule" fromto="0 0 0 .25 0 0" size=".025" mass="1"/>
        <body name="hand" pos=".25 0 0"><joint name="wrist" axis="0 0 1" range="-90 90"/>
          <geom type="capsule" fromto="0 0 0 .08 0 0" size=".02" mass=".3"/><site name="tip" pos=".1 0 0"/></body></body></body>
    <body pos="0 2 0"><joint name="other" type="slide" axis="0 0 1"/><geom size=".05" mass="1"/></body>
  </worldbody>
  <actuator>
    <position joint="shoulder" kp="2000" kv="150" forcerange="-40 40"/>
    <position joint="elbow" kp="1000" kv="80" forcerange="-20 20"/>
    <position joint="wrist" kp="200" kv="10" forcerange="-5 5"/>
    <motor joint="other" gear="2" ctrlrange="-20 20"/>
  </actuator></mujoco>)";

// Where servos drive a robot there is a posture that reaches the goals, and the guess goes there: within the joints'
// ranges, by these joints alone, and held there at the end.
TEST_F(Reach, ServosAreLedToAPostureThatReachesTheGoals) {
  support::TemporaryFolder folder;
  const std::string arm = folder.Write("arm.xml", kServoArm);
  for (const std::vector<std::string>& goals : {std::vector<std::string>{"site:tip=0.2,0.05,0.8"},
                                                {"body:hand=0.3,_,0.2", "joint:wrist=0.4"},
                                                {"site:tip:xaxis=0,0,1", "site:tip=_,_,0.9"},
                                                {"site:tip:quat=0.7071067811865476,0,-0.7071067811865476,0"}}) {
    SCOPED_TRACE(goals[0]);
    const Task task = MakeReachTask(arm, {.goals = goals, .time = 2});
    const mjModel* m = task.model.get();

    // statically: what the last controls hold reaches all goals
    VectorXd x = task.x0;
    for (int i = 0; i < 3; ++i) x[i] = task.U_guess(i, task.N - 1);
    const DataPtr data = MakeData(m);
    for (int i = 0; i < 20; ++i) {  // servos sag: positions at which their forces carry gravity
      VectorXd s(m->nsensordata);
      ASSERT_EQ(Forward(m, data.get(), x, VectorXd::Zero(4), s), StepStatus::kOk);
      x[0] = task.U_guess(0, task.N - 1) - data->qfrc_bias[0] / 2000;
      x[1] = task.U_guess(1, task.N - 1) - data->qfrc_bias[1] / 1000;
      x[2] = task.U_guess(2, task.N - 1) - data->qfrc_bias[2] / 200;
    }
    for (int j = 0; j < 3; ++j) {
      EXPECT_GT(x[j], m->jnt_range[2 * j]);
      EXPECT_LT(x[j], m->jnt_range[2 * j + 1]);
    }
    for (std::size_t k = 0; k < goals.size(); ++k)
      EXPECT_LT(AtTheEnd(task, static_cast<int>(k), x).cwiseAbs().maxCoeff(), 2e-5) << goals[k];

    // the motor has what holds it from the start on, the others begin there
    EXPECT_NEAR(task.U_guess(3, task.N - 1), task.U_guess(3, 0), 1e-7);  // least squares, damped by 1e-8
    EXPECT_NEAR(task.U_guess(2, 0), 0, 1e-7);
    EXPECT_TRUE(MatricesNear(task.U_guess.col(task.N - 1), task.U_guess.col(static_cast<int>(0.61 * task.N)), 1e-12));
  }

  // out of reach: what holds the start
  const Task task = MakeReachTask(arm, {.goals = {"site:tip=2,0,0"}, .time = 1});
  EXPECT_TRUE(MatricesNear(task.U_guess.col(task.N - 1), task.U_guess.col(0), 0));
}

// a ball that nothing drives: the guess goes to a posture of the hand, and a warning names the goal that it leaves
TEST_F(Reach, AGoalThatNoJointLeadsToIsLeftOutOfThePosture) {
  support::TemporaryFolder folder;
  std::string with_ball = kServoArm;
  with_ball.replace(with_ball.find("<worldbody>"), 11,
                    "<worldbody><body name='ball' pos='3 0 0'><joint name='roll' type='slide' axis='1 0 0'/>"
                    "<geom size='.1' contype='0' conaffinity='0'/></body>");
  const std::string arm = folder.Write("arm.xml", with_ball), hand = "site:tip=0.2,0.05,0.8";
  const Task alone = MakeReachTask(arm, {.goals = {hand}, .time = 2});
  const Task both = MakeReachTask(arm, {.goals = {hand, "joint:roll=0.5"}, .time = 2});
  EXPECT_TRUE(MatricesNear(both.U_guess, alone.U_guess, 1e-12));
  EXPECT_TRUE(alone.warnings.empty());

  // without a goal it may roll on; the arm is to be at rest
  const auto velocity_weights = [](const Task& task) -> VectorXd {
    for (const ResidualTerm& term : dynamic_cast<const ResidualCost&>(*task.cost).terms())
      if (term.name == "velocity") return term.terminal;
    return {};
  };
  const VectorXd weights = velocity_weights(alone);
  ASSERT_EQ(weights.size(), 5);
  EXPECT_EQ(weights[0], 0);
  EXPECT_GT(weights.tail(4).minCoeff(), 0);
  EXPECT_GT(velocity_weights(both).minCoeff(), 0);
  ASSERT_EQ(both.warnings.size(), 1u);
  EXPECT_EQ(both.warnings[0].find("goal of joint roll: no joint that an actuator moves leads there"), 0u)
      << both.warnings[0];
}

// From what holds the start the forces of these servos are at their limits in almost all steps, and the solve ended at
// 27.1, .79 m from the goal.
TEST_F(Reach, ServosWithLimitedForcesReachTheirGoal) {
  support::TemporaryFolder folder;
  Task task = MakeReachTask(folder.Write("arm.xml", kServoArm), {.goals = {"site:tip=-0.2,0.05,0.9"}, .time = 2});
  task.hopping.rounds = 0;
  task.solver.iterations = 15;
  const TaskSolution solution = SolveTask(task);
  EXPECT_LT(solution.result.cost, 0.1);
  const GoalPlace goal = GoalPlaces(task)[0];
  EXPECT_LT(
      (solution.result.trajectory.S.col(task.N).segment<3>(goal.sensor) - Eigen::Vector3d(-0.2, 0.05, 0.9)).norm(),
      1e-3);
}

// A torque-driven arm that stands upright, as arms do at qpos = 0: held there it falls over at the first change, and 30
// iterations ended at 13.1 and 666. Its motors can follow a way to a posture at the goals, and to a keyframe without
// controls.
constexpr char kMotorArm[] = R"(<mujoco>
  <worldbody><body pos="0 0 0.3"><joint name="pan" axis="0 0 1" damping=".1"/><geom size=".05" mass="2"/>
    <body><joint name="shoulder" axis="0 1 0" damping=".1"/><geom type="capsule" fromto="0 0 0 0 0 .4" size=".04" mass="4"/>
      <body pos="0 0 .4"><joint name="roll" axis="0 0 1" damping=".1"/><joint name="elbow" axis="0 1 0" damping=".1"/>
        <geom type="capsule" fromto="0 0 0 0 0 .4" size=".03" mass="3"/>
        <body pos="0 0 .4"><joint name="turn" axis="0 0 1" damping=".1"/><joint name="wrist" axis="0 1 0" damping=".1"/>
          <geom type="capsule" fromto="0 0 0 0 0 .1" size=".02" mass="1"/><site name="tip" pos="0 0 .12"/></body></body></body>
  </body></worldbody>
  <actuator><motor joint="pan" ctrlrange="-100 100"/><motor joint="shoulder" ctrlrange="-100 100"/><motor joint="roll" ctrlrange="-60 60"/>
    <motor joint="elbow" ctrlrange="-60 60"/><motor joint="turn" ctrlrange="-20 20"/><motor joint="wrist" ctrlrange="-20 20"/></actuator>
  <keyframe><key name="ready" qpos="0.5 0.6 0 1.2 0 0.5"/></keyframe></mujoco>)";

TEST_F(Reach, MotorsFollowAWayToTheGoals) {
  support::TemporaryFolder folder;
  const std::string arm = folder.Write("arm.xml", kMotorArm);
  for (const char* goal : {"site:tip=0.4,0.3,0.5", "key:ready"}) {
    SCOPED_TRACE(goal);
    Task task = MakeReachTask(arm, {.goals = {goal}, .time = 2});
    EXPECT_NE(task.text.find("<guess follow="), std::string::npos);
    task.hopping.rounds = 0;
    task.solver.iterations = 30;
    const TaskSolution solution = SolveTask(task);
    EXPECT_LT(solution.result.cost, 0.3);
    EXPECT_LT(MissedGoals(task, solution.result.trajectory)[0].miss, 1e-3);
  }
  // out of reach, or further than the motors come: what holds the start
  for (const char* goal : {"site:tip=2,0,0", "joint:pan=300"}) {
    const Task task = MakeReachTask(arm, {.goals = {goal}, .time = 0.3});
    EXPECT_EQ(task.text.find("<guess"), std::string::npos) << goal;
    EXPECT_TRUE(MatricesNear(task.U_guess.col(task.N - 1), task.U_guess.col(0), 0)) << goal;
  }
}

// two links in a plane, a wall in the way of the outer one
constexpr char kWalledArm[] = R"(<mujoco><option timestep="0.005" gravity="0 0 0" integrator="implicitfast"/><worldbody>
  <geom name="wall" type="box" size=".25 .03 .2" pos=".75 0 0"/>
  <body><joint name="shoulder" axis="0 0 1" damping=".1"/><geom type="capsule" fromto="0 0 0 .43 0 0" size=".03" mass="1"/>
    <body pos=".43 0 0"><joint name="elbow" axis="0 0 1" damping=".1"/>
      <geom type="capsule" fromto="0 0 0 .4 0 0" size=".03" mass=".5"/><site name="tip" pos=".4 0 0"/></body></body></worldbody>
  <actuator><motor joint="shoulder" ctrlrange="-5 5"/><motor joint="elbow" ctrlrange="-5 5"/></actuator>
  <keyframe><key name="here" qpos="-.8 .3"/><key name="there" qpos=".8 -.3"/></keyframe></mujoco>)";

// What follows a straight way ends at the wall, and held at the start a solve does, too: the guess goes round it, by
// postures that it is clear of.
TEST_F(Reach, MotorsAndServosAreLedRoundAWall) {
  support::TemporaryFolder folder;
  std::string servos = kWalledArm;
  for (const char* joint : {"shoulder", "elbow"}) {
    const std::string motor = std::string("<motor joint=\"") + joint + "\" ctrlrange=\"-5 5\"/>";
    servos.replace(servos.find(motor), motor.size(),
                   std::string("<position joint=\"") + joint + "\" kp=\"40\" kv=\"4\" ctrlrange=\"-3 3\"/>");
  }
  for (const bool pulled : {false, true}) {
    const std::string arm = folder.Write("arm.xml", pulled ? servos : kWalledArm);
    for (const char* goal : {"site:tip=.55,.55,0", "key:there"}) {
      SCOPED_TRACE(goal);
      Task task = MakeReachTask(arm, {.start = "here", .goals = {goal}, .time = 2});
      EXPECT_NE(task.text.find("<guess follow=\"true\" qpos="), std::string::npos) << task.text;
      task.hopping.rounds = 0;
      const TaskSolution solution = SolveTask(task);
      EXPECT_LT(MissedGoals(task, solution.result.trajectory)[0].miss, 1e-2) << solution.result.message;
    }
  }
}

// The cheapest way round a wall grazes it: costs of distances keep off, where what moves and what stands have names and
// no meshes.
TEST_F(Reach, KeepsOffWhatItGoesRound) {
  support::TemporaryFolder folder;
  std::string arm = kWalledArm;
  const std::string fore = "<geom type=\"capsule\" fromto=\"0 0 0 .4 0 0\"";
  arm.replace(arm.find(fore), 5, "<geom name=\"fore\"");
  for (const char* goal : {"site:tip=.55,.55,0", "key:there"}) {
    SCOPED_TRACE(goal);
    const ReachOptions options{.start = "here", .goals = {goal}, .time = 2};
    EXPECT_EQ(MakeReachTask(folder.Write("nameless.xml", kWalledArm), options).text.find("clear of"),
              std::string::npos);
    Task task = MakeReachTask(folder.Write("arm.xml", arm), options);
    const mjModel* m = task.model.get();
    ASSERT_NE(
        task.text.find("<constraint name=\"fore clear of wall\" geom=\"fore\" quantity=\"distance\" geom2=\"wall\""),
        std::string::npos)
        << task.text;
    task.hopping.rounds = 0;
    const Trajectory motion = SolveTask(task).result.trajectory;
    EXPECT_LT(MissedGoals(task, motion)[0].miss, 1e-2);
    const DataPtr data = MakeData(m);
    double nearest = 1;
    for (int t = 0; t <= task.N; ++t) {
      SetPosture(m, data.get(), motion.X.col(t));
      nearest = std::min(nearest, GeomDistance(m, data.get(), mj_name2id(m, mjOBJ_GEOM, "wall"),
                                               mj_name2id(m, mjOBJ_GEOM, "fore"), 1));
    }
    EXPECT_GT(nearest, 0.01 * m->stat.extent);  // of 0.015
  }
  // straight ways have none
  EXPECT_EQ(
      MakeReachTask(folder.Write("arm.xml", arm), {.start = "here", .goals = {"joint:elbow=.5"}}).text.find("clear of"),
      std::string::npos);
}

// Two links whose tip has two postures at (.85, 0), elbow up or down. A post beside the upper arm is in the way to the
// nearer one, and ranges keep the arm from going there the other way; a second one in the way to the other.
std::string PostedArm(bool servos, bool boxed) {
  std::string arm = R"(<mujoco><option timestep="0.005" gravity="0 0 0" integrator="implicitfast"/><worldbody>
  <geom type="sphere" size=".03" pos=".4465 .0561 0"/>)";
  if (boxed) arm += R"(<geom type="sphere" size=".03" pos=".443 -.0784 0"/>)";
  arm += R"(<body><joint name="shoulder" axis="0 0 1" damping=".1" range="-100 100"/>
    <geom type="capsule" fromto="0 0 0 .5 0 0" size=".01" mass="1"/>
    <body pos=".5 0 0"><joint name="elbow" axis="0 0 1" damping=".1" range="-170 170"/>
      <geom type="capsule" fromto=".05 0 0 .4 0 0" size=".01" mass=".5"/><site name="tip" pos=".4 0 0"/></body></body></worldbody>
  <keyframe><key name="here" qpos="-.05 -.9"/></keyframe><actuator>)";
  for (const std::string joint : {"shoulder", "elbow"})
    arm += servos ? "<position kp='40' kv='4' ctrlrange='-3 3' joint='" + joint + "'/>"
                  : "<motor ctrlrange='-5 5' joint='" + joint + "'/>";
  return arm + "</actuator></mujoco>";
}

TEST_F(Reach, AnotherPostureServesWhereTheNearestHasNoWay) {
  support::TemporaryFolder folder;
  const auto reach = [&](bool servos, bool boxed) {
    return MakeReachTask(folder.Write("arm.xml", PostedArm(servos, boxed)),
                         {.start = "here", .goals = {"site:tip=.85,0,0"}, .time = 2});
  };
  for (const bool servos : {false, true}) {
    SCOPED_TRACE(servos);
    const Task task = reach(servos, false);
    EXPECT_NE(task.text.find(servos ? "<guess hold=" : "<guess follow="), std::string::npos) << task.text;
    EXPECT_TRUE(task.warnings.empty()) << task.warnings[0];
    Simulator simulator(task.model.get(), task.context, task.substeps);
    Trajectory motion;
    ASSERT_TRUE(simulator.Rollout(task.x0, task.U_guess, &motion).ok());
    EXPECT_TRUE(MatricesNear(motion.X.col(task.N).head(2), Eigen::Vector2d(-0.2984, 0.6751), 0.1));
  }
  // behind posts on both sides there is none
  const Task boxed = reach(false, true);
  EXPECT_EQ(boxed.text.find("<guess"), std::string::npos) << boxed.text;
  ASSERT_EQ(boxed.warnings.size(), 1u);
  EXPECT_EQ(boxed.warnings[0],
            "the motors can follow no way that was found to one of 2 postures at the goals in 2 s; the guess holds the "
            "start");
}

// a ball of 0.1 m that shall be 0.05 m inside of the floor, or on it
TEST_F(Reach, SaysThatAKeyframeIsInsideOfSomething) {
  support::TemporaryFolder folder;
  const std::string ball = folder.Write("ball.xml", R"(<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/>
    <body name="ball" pos="0 0 .1"><joint name="up" type="slide" axis="0 0 1"/><geom size=".1"/></body></worldbody>
    <actuator><motor joint="up" ctrlrange="-9 9"/></actuator>
    <keyframe><key name="on" qpos="0"/><key name="sunk" qpos="-.05"/></keyframe></mujoco>)");
  const auto told = [&](const std::string& goal) {
    return MakeReachTask(ball, {.start = "on", .goals = {goal}, .time = 0.1}).warnings;
  };
  EXPECT_TRUE(told("on").empty());
  ASSERT_EQ(told("sunk").size(), 1u);
  EXPECT_EQ(told("sunk")[0].find("at keyframe 'sunk', the goal, 'ball' penetrates 'floor' by 0.05 m"), 0u)
      << told("sunk")[0];
}

// two balls that turn about their centres, 0.1 m in each other wherever they are
TEST_F(Reach, SaysNothingOfWhatAlwaysOverlaps) {
  support::TemporaryFolder folder;
  const std::string balls = folder.Write("balls.xml", R"(<mujoco><worldbody>
    <body name="one"><joint name="turn" axis="0 0 1" damping=".1"/><geom size=".1"/></body>
    <body name="other" pos=".1 0 0"><joint axis="0 0 1"/><geom size=".1"/></body></worldbody>
    <actuator><motor joint="turn" ctrlrange="-9 9"/></actuator>
    <keyframe><key name="on" qpos="0 0"/><key name="turned" qpos=".1 0"/></keyframe></mujoco>)");
  const std::vector<std::string> told =
      MakeReachTask(balls, {.start = "on", .goals = {"turned"}, .time = 0.1}).warnings;
  EXPECT_TRUE(told.empty()) << told[0];
}

// Trunks that shall go down, on flat feet and on four balls: their feet stay where they are, and the guess is there. What
// no posture has is left to the solver.
TEST_F(Reach, WhatStandsGoesDownOnItsFeet) {
  const struct {
    const char *model, *goal;
    double height;
  } cases[] = {{"humanoid", "body:pelvis=0,0,.85", .85}, {"quadruped", "body:trunk=0,0,.24", .24}};
  for (const auto& c : cases) {
    const std::string robot = std::string(COSTATE_MODELS) + "/" + c.model + "/" + c.model + ".xml";
    const Task task = MakeReachTask(robot, {.start = "stand", .goals = {c.goal}});
    EXPECT_NE(task.text.find("<guess hold=\"true\" qpos="), std::string::npos) << task.text;
    Simulator simulator(task.model.get(), task.context, task.substeps, 1);
    Trajectory motion;
    ASSERT_TRUE(simulator.Rollout(task.x0, task.U_guess, &motion).ok());
    EXPECT_TRUE(MatricesNear(motion.X.col(task.N).head(3), Eigen::Vector3d(0, 0, c.height), .03)) << c.model;
  }
  const std::string humanoid = std::string(COSTATE_MODELS) + "/humanoid/humanoid.xml";
  EXPECT_EQ(MakeReachTask(humanoid, {.start = "stand", .goals = {"body:pelvis=0,0,1.2"}}).text.find("<guess"),
            std::string::npos);

  // a box on the floor has no legs
  support::TemporaryFolder folder;
  const std::string pushed = folder.Write("push.xml", R"(<mujoco><worldbody><geom type="plane" size="5 5 1"/>
    <body name="box" pos=".3 0 .1"><freejoint/><geom type="box" size=".1 .1 .1"/></body>
    <body name="ball" pos="0 .5 .1"><freejoint/><geom size=".1"/></body>
    <body pos="0 0 .1"><joint name="pusher" type="slide" axis="1 0 0"/><geom size=".1"/></body></worldbody>
    <actuator><position joint="pusher" kp="100" kv="20"/></actuator></mujoco>)");
  EXPECT_EQ(MakeReachTask(pushed, {.goals = {"body:box=.5,0,_"}}).text.find("<guess hold=\"true\" qpos="),
            std::string::npos);
}

// joints without a name are called by their number, here as everywhere
TEST_F(Reach, AJointWithoutANameIsCalledByItsNumber) {
  support::TemporaryFolder folder;
  const auto robot = [&](const char* joint) {
    return folder.Write("robot.xml",
                        std::string("<mujoco><option gravity='0 0 0'/><worldbody><body>") + joint +
                            "<geom size='.1' pos='.1 0 0'/><site name='s' pos='.1 0 0'/></body></worldbody>"
                            "<actuator><motor site='s' gear='0 1 0 0 0 0' ctrlrange='-9 9'/></actuator>"
                            "</mujoco>");
  };
  const std::string flyer = robot("<freejoint/>");
  const Task task = MakeReachTask(flyer, {.goals = {"joint:joint 0=0,.1,0,1,0,0,0"}, .time = 1});
  EXPECT_NE(task.text.find("<cost name=\"joint joint 0\" qpos=\"joint 0\""), std::string::npos) << task.text;
  const Task door = MakeReachTask(robot("<joint axis='0 0 1'/>"), {.goals = {"joint:joint 0=0.3"}, .time = 1});
  EXPECT_NE(door.text.find("<cost name=\"joint joint 0\" qpos=\"0\""), std::string::npos) << door.text;
  EXPECT_ERROR(MakeReachTask(flyer, {.goals = {"joint:joint 1=0"}}), ErrorCode::kInvalidArgument, "no joint 'joint 1'");
}

// where the start has what is to be reached the way has no length
TEST_F(Reach, AGoalThatTheStartHasIsHeld) {
  support::TemporaryFolder folder;
  const std::string motors = kWalledArm;
  std::string servos = motors;
  for (std::size_t at; (at = servos.find("<motor ")) != std::string::npos;) servos.replace(at, 7, "<position kp='40' ");
  for (const std::string& text : {motors, servos}) {
    const Task task = MakeReachTask(folder.Write("arm.xml", text), {.start = "here", .goals = {"joint:elbow=.3"}});
    EXPECT_EQ(task.text.find("nan"), std::string::npos) << task.text;
    EXPECT_TRUE(task.U_guess.allFinite());
    Simulator simulator(task.model.get(), task.context, task.substeps);
    Trajectory motion;
    ASSERT_TRUE(simulator.Rollout(task.x0, task.U_guess, &motion).ok());
    EXPECT_TRUE(MatricesNear(motion.X.col(task.N), task.x0, 1e-6));
  }
}

TEST_F(Reach, APlannedPathIsClearAndNoLongerThanItNeedsToBe) {
  const ModelPtr model = LoadModelFromString(kWalledArm);
  const DataPtr data = MakeDataAtKey(model.get(), "here");
  const VectorXd x = GetState(model.get(), data.get()), sizes = VectorXd::Ones(2);
  const VectorXd there{{.8, -.3}}, near{{-.6, .2}};
  EXPECT_FALSE(IsInTheWay(model.get(), {x, {}, {}}, near, sizes));
  ASSERT_TRUE(IsInTheWay(model.get(), {x, {}, {}}, there, sizes));
  const MatrixXd path = PlanPath(model.get(), {x, {}, {}}, there, sizes, PostureJoints::kActuated);
  ASSERT_GT(path.cols(), 1);
  EXPECT_TRUE(MatricesNear(path.rightCols(1), there, 1e-12));
  EXPECT_TRUE(MatricesNear(path, PlanPath(model.get(), {x, {}, {}}, there, sizes, PostureJoints::kActuated), 0));
  double length = 0;
  VectorXd from = x.head(2);
  for (Eigen::Index i = 0; i < path.cols(); ++i) {
    const VectorXd to = path.col(i);
    length += (to - from).norm();
    for (int k = 0; k <= 100; ++k) {
      Eigen::Map<VectorXd>(data->qpos, 2) = from + 0.01 * k * (to - from);
      mj_forward(model.get(), data.get());
      EXPECT_EQ(data->ncon, 0) << i << ' ' << k;
    }
    from = to;
  }
  EXPECT_LT(length, 8) << "the elbow folds by about 2.6 and back";
  EXPECT_NEAR(SharesOfPath(model.get(), x, path, sizes).tail<1>()[0], 1, 1e-12);
  // a wall that leaves no way, and joints that nothing moves
  std::string shut = kWalledArm;
  shut.replace(shut.find(".25 .03 .2"), 10, ".69 .03 .2");
  EXPECT_EQ(PlanPath(LoadModelFromString(shut).get(), {x, {}, {}}, there, sizes, PostureJoints::kActuated).cols(), 0);
  EXPECT_EQ(PlanPath(model.get(), {x, {}, {}}, there, sizes, PostureJoints::kServos).cols(), 0);
}

// a drone before a wall with a window; the way round is longer than that through it
TEST_F(Reach, WholeTreesFindTheirWayThroughAWindow) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option gravity="0 0 0"/><worldbody>
    <geom type="box" size=".05 3 1" pos="0 -3.3 0"/><geom type="box" size=".05 3 1" pos="0 3.3 0"/>
    <geom type="box" size=".05 .3 .3" pos="0 0 -.7"/><geom type="box" size=".05 .3 .3" pos="0 0 .7"/>
    <body pos="-1 .6 0"><freejoint/><geom type="box" size=".1 .1 .05"/></body>
    <body pos="0 0 0"><freejoint/><geom name="in the window" size=".1"/></body></worldbody></mujoco>)");
  VectorXd x = VectorXd::Zero(model->nq + model->nv), goal = Eigen::Map<const VectorXd>(model->qpos0, model->nq);
  x.head(model->nq) = goal;
  goal.head(7) << 1, .6, 0, .8, 0, 0, .6;
  goal[7] = 5;  // the other body's: it stays
  const TreesThatGo drone{{0}, Eigen::AlignedBox3d(Eigen::Vector3d(-.05, -6.3, -1), Eigen::Vector3d(.05, 6.3, 1))};
  const std::vector<MatrixXd> paths =
      PlanPaths(model.get(), {x, {}, {}}, goal, VectorXd::Constant(model->nv, .5), drone);
  ASSERT_FALSE(paths.empty());
  const MatrixXd& path = paths.back();
  goal[7] = 0;
  EXPECT_TRUE(MatricesNear(path.rightCols(1), goal, 1e-12));
  double length = 0;
  const DataPtr data = MakeData(model.get());
  VectorXd from = x;
  for (Eigen::Index i = 0; i < path.cols(); ++i) {
    VectorXd to = from;
    to.head(model->nq) = path.col(i);
    EXPECT_NEAR(to.segment<4>(3).norm(), 1, 1e-9);
    length += (to - from).head<3>().norm();
    for (int k = 0; k <= 50; ++k) {
      SetState(model.get(), data.get(), Retract(model.get(), from, 0.02 * k * Difference(model.get(), to, from)));
      mj_forward(model.get(), data.get());
      for (int c = 0; c < data->ncon; ++c)
        EXPECT_EQ(std::max(data->contact[c].geom[0], data->contact[c].geom[1]), 5) << "of the bodies: it is ignored";
    }
    from = to;
  }
  EXPECT_LT(length, 3);
  // a joint that no actuator moves of a tree without free ones goes, too; a tied body has none
  const ModelPtr tied = LoadModelFromString(R"(<mujoco><worldbody><body name="a"><freejoint/><geom size=".1"/></body>
    </worldbody><equality><connect body1="a" anchor="0 0 0"/></equality></mujoco>)");
  EXPECT_TRUE(PlanPaths(tied.get(), {VectorXd::Unit(13, 3), {}, {}}, VectorXd::Unit(7, 3), VectorXd::Ones(6), {{0}, {}})
                  .empty());
}

// a keyframe puts the wall where it stands
TEST_F(Reach, AGuessGoesRoundWhatItsKeyframeSets) {
  support::TemporaryFolder folder;
  std::string arm = kWalledArm;
  const std::string wall = "<geom name=\"wall\" type=\"box\" size=\".25 .03 .2\" pos=\".75 0 0\"/>";
  arm.replace(arm.find(wall), wall.size(),
              "<body mocap='true' pos='5 5 5'><geom name='wall' type='box' size='.25 .03 .2'/></body>");
  for (const char* name : {"here", "there"}) {
    const std::string key = std::string("<key name=\"") + name + "\"";
    arm.replace(arm.find(key), key.size(), key + " mpos='.75 0 0'");
  }
  const std::string file = folder.Write("arm.xml", arm);
  for (const char* goal : {"site:tip=.55,.55,0", "key:there"}) {
    const Task task = MakeReachTask(file, {.start = "here", .goals = {goal}, .time = 2});
    EXPECT_NE(task.text.find("<guess follow=\"true\" qpos="), std::string::npos) << task.text;
  }
}

TEST_F(Reach, AGuessGoesByWayOfSeveralPostures) {
  support::TemporaryFolder folder;
  folder.Write("arm.xml", kWalledArm);
  const auto load = [&](const std::string& guess) {
    return LoadTask(folder.Write("t.xml", "<task model='arm.xml' horizon='1'><start key='here'/><guess " + guess +
                                              "/><cost ctrl='all'/></task>"));
  };
  const Task task = load("follow='true' qpos='-.8 1 -.5 .2' at='.4 .9'");
  Simulator simulator(task.model.get(), task.context, task.substeps);
  Trajectory motion;
  ASSERT_TRUE(simulator.Rollout(task.x0, task.U_guess, &motion).ok());
  EXPECT_TRUE(MatricesNear(motion.X.col(80).head(2), VectorXd{{-.8, 1}}, 0.02));
  EXPECT_TRUE(MatricesNear(motion.X.col(motion.N()).head(2), VectorXd{{-.5, .2}}, 0.02));
  for (const auto& [guess, words] : std::initializer_list<std::pair<const char*, const char*>>{
           {"follow='true' qpos='-.8 1 -.5' at='.4 .9'", "expected 4: 2 for each of the 2 times"},
           {"hold='true' qpos='-.8 1 -.5 .2' at='.9 .4'", "0.4 s comes behind 0.9 s"}}) {
    try {
      load(guess);
      ADD_FAILURE() << guess;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
}

// A box that no control moves from where it lies: its cost stands alone, so that the solve says so.
TEST_F(Reach, WhatLiesAboutHasACostOfItsOwn) {
  const support::TemporaryFolder folder;
  const std::string model = folder.Write("pick.xml", R"(<mujoco><worldbody><geom type="plane" size="1 1 .1"/>
    <body name="crate" pos="0 0 .02"><freejoint name="box"/><geom type="box" size=".02 .02 .02" mass=".1"/></body>
    <body pos="0 0 .3"><joint name="lift" type="slide" axis="0 0 1" range="-.1 .1"/><geom size=".03"/></body></worldbody>
    <actuator><position joint="lift" kp="100" dampratio="1" ctrlrange="-.1 .1"/></actuator>
    <keyframe><key name="low" qpos="0 0 .02 1 0 0 0 0"/><key name="high" qpos="0 0 .12 1 0 0 0 .05" ctrl=".05"/></keyframe></mujoco>)");
  const Task task = MakeReachTask(model, {.start = "key:low", .goals = {"key:high"}, .time = 0.4});
  const auto& terms = dynamic_cast<const ResidualCost&>(*task.cost).terms();
  ASSERT_EQ(terms[0].name, "posture");
  ASSERT_EQ(terms[1].name, "place of box");
  const Problem problem = task.ToProblem();
  Simulator simulator(problem.model, problem.context, problem.substeps, 1);
  Trajectory motion;
  simulator.Rollout(task.x0, task.U_guess, &motion);
  EXPECT_EQ(UntouchedTerms(problem, motion), std::vector<std::string>{"place of box"});
}

// The file says the same as the task, wherever it lies.
TEST_F(Reach, WritesTheTaskAsAFile) {
  const support::TemporaryFolder folder;
  const ReachOptions options{.start = "key:home", .goals = {"key:pose", "site:tip=0.5,_,0.7"}, .time = 0.6};
  const Task task = MakeReachTask(kReachZoo, options);
  const std::string path = folder.Write("go.task.xml", WriteReachTask(kReachZoo, options, folder.path().string()));
  const Task file = LoadTask(path);
  EXPECT_EQ(task.file, "");
  EXPECT_EQ(file.name, "reach pose tip");
  EXPECT_EQ(task.text.find("model=\"/") != std::string::npos, true);
  EXPECT_TRUE(file.hopping.after_solve);
  EXPECT_TRUE(MatricesNear(file.x0, task.x0, 0));
  EXPECT_TRUE(MatricesNear(file.x_goal, task.x_goal, 0));
  EXPECT_TRUE(MatricesNear(file.U_guess, task.U_guess, 0));
  const auto &terms = dynamic_cast<const ResidualCost&>(*task.cost).terms(),
             &again = dynamic_cast<const ResidualCost&>(*file.cost).terms();
  ASSERT_EQ(terms.size(), 4u);
  ASSERT_EQ(again.size(), 4u);
  for (std::size_t i = 0; i < terms.size(); ++i) {
    EXPECT_TRUE(MatricesNear(again[i].weight, terms[i].weight, 0));
    EXPECT_TRUE(MatricesNear(again[i].terminal, terms[i].terminal, 0));
  }
}

// lists of keyframes are split at blanks, their names are not
TEST_F(Reach, NamesOfKeyframesMayHaveBlanks) {
  const support::TemporaryFolder folder;
  const std::string rod = folder.Write("rod.xml", R"(<mujoco><worldbody><body><joint name="j"/><geom size=".1"/></body>
      </worldbody><actuator><motor joint="j" ctrlrange="-1 1"/></actuator><keyframe><key name="lie down" qpos="0"
      ctrl=".1"/><key name="stand up" qpos="1" ctrl=".5"/></keyframe></mujoco>)");
  const Task task = MakeReachTask(rod, {.start = "lie down", .goals = {"stand up"}, .time = 0.1});
  EXPECT_EQ(task.name, "reach stand up");
  EXPECT_EQ(task.x_goal[0], 1);
  EXPECT_EQ(task.U_guess(0, 0), 0.1);
  EXPECT_EQ(task.U_guess(0, task.N - 1), 0.5);
}

// a place that an arm reaches, told by how much it is missed
TEST_F(Reach, SolvesAndTellsTheMiss) {
  const support::TemporaryFolder folder;
  const std::string arm = folder.Write("arm.xml", R"(<mujoco model="arm"><worldbody><body>
      <joint name="a" axis="0 1 0" damping=".5"/><geom type="capsule" fromto="0 0 0 .4 0 0" size=".03"/>
      <body pos=".4 0 0"><joint name="b" axis="0 1 0" damping=".5"/><geom type="capsule" fromto="0 0 0 .4 0 0"
      size=".03"/><site name="tip" pos=".4 0 0"/></body></body></worldbody>
      <actuator><motor joint="a" gear="40"/><motor joint="b" gear="20"/></actuator></mujoco>)");
  const Task task = MakeReachTask(arm, {.goals = {"site:tip=0.4,_,0.4"}, .time = 1});
  const TaskSolution solution = SolveTask(task);
  const std::vector<MissedGoal> goals = MissedGoals(task, solution.result.trajectory);
  ASSERT_EQ(goals.size(), 2u);
  EXPECT_ERROR(MissedGoals(task, {}), ErrorCode::kDimensionMismatch, "the motion is none of model 'arm'");
  EXPECT_EQ(goals[0].name, "site tip");
  EXPECT_EQ(goals[0].unit, "m");
  EXPECT_LT(goals[0].miss, 0.01);
  EXPECT_EQ(goals[1].name, "velocity");
  EXPECT_EQ(goals[1].component.substr(0, 5), "qvel[");

  const DataPtr data = MakeData(task.model.get());
  SetState(task.model.get(), data.get(), solution.result.trajectory.X.rightCols(1));
  mj_kinematics(task.model.get(), data.get());
  const double miss = std::max(std::abs(data->site_xpos[0] - 0.4), std::abs(data->site_xpos[2] - 0.4));
  EXPECT_NEAR(goals[0].miss, miss, 1e-12);
}

TEST_F(Reach, RefusesGoalsThatAreNotUnderstood) {
  const auto refuses = [](const std::string& goal, const char* words) {
    EXPECT_ERROR(MakeReachTask(kReachZoo, {.goals = {goal}}), ErrorCode::kInvalidArgument, words);
  };
  refuses("site:tib=0,0,0", "has no site 'tib', did you mean 'tip'?");
  refuses("site:tip=0,0", "has 2 numbers, expected 3: x, y and z; _ leaves one open");
  EXPECT_NO_THROW(MakeReachTask(kReachZoo, {.goals = {"joint:extend=0.2000001"}}));  // its end in other digits
  refuses("joint:extend=9", "9 is beyond the joint's range, -0.1 to 0.2 m");
  refuses("joint:shoulder=90",
          "90 is beyond the joint's range, -1.5708 to 1.5708 rad; if these are degrees, say 90deg");
  refuses("joint:shoulder=100deg", "1.74533 is beyond the joint's range, -1.5708 to 1.5708 rad");
  refuses("joint:extend=9deg", "only the angle of a hinge can be in degrees");
  const Task bent = MakeReachTask(kReachZoo, {.goals = {"joint:shoulder=-45deg"}});
  EXPECT_TRUE(MatricesNear(AtTheEnd(bent, 0, bent.x0), VectorXd::Constant(1, mjPI / 4), 1e-9));
  refuses("site:tip:zaxis=0,0,2", "a direction has length 1, this one 2");
  refuses("site:tip:zaxis=0,0,0", "a direction has length 1, this one 0");
  refuses("site:tip:zaxis=1,1,_", "a direction has length 1, its given part has 1.41");
  refuses("site:tip=0,0,o", "'o' is no number");
  refuses("site:tip=_,_,_", "leaves everything open");
  refuses("site:tip:yaxes=0,0,1", "there is no quantity 'yaxes', did you mean 'yaxis'?");
  refuses("joint:shoulder=_", "only places and directions");
  refuses("joint:neck=1", "has 1 number, expected 4");
  refuses("tip=1", "expected a keyframe, or joint:");
  refuses("tendon:cord=1", "expected a keyframe, or joint:");
  refuses("joint:shoulder",
          "goal 'joint:shoulder': expected a keyframe, or joint:, body:, site: or geom: with a name, = and numbers");
  refuses("site:tip=1e300,0,0", "1e+300 is beyond what the engine takes, 1e+10");
  EXPECT_ERROR(MakeReachTask(kReachZoo, {.goals = {"home", "joint:shoulder=1"}}), ErrorCode::kInvalidArgument,
               "goal 'joint:shoulder=1': keyframe 'home', a goal too, has 0 there");
  EXPECT_ERROR(MakeReachTask(kReachZoo, {.goals = {"home", "key:pose"}}), ErrorCode::kInvalidArgument,
               "'home' is a keyframe to reach already");
  EXPECT_ERROR(MakeReachTask(kReachZoo, {.goals = {"site:tip=0,0,_", "site:tip:pos=_,_,1"}}),
               ErrorCode::kInvalidArgument, "site tip has a goal already");
  EXPECT_ERROR(MakeReachTask(kReachZoo, {}), ErrorCode::kInvalidArgument, "is a model, not a task: say what to reach");
}

// what a program sets, or what is fixed to that, no control moves; a hand that hangs on it is told of
TEST_F(Reach, SaysWhatAProgramMoves) {
  support::TemporaryFolder folder;
  const std::string robot = folder.Write("fetch.xml", R"(<mujoco><worldbody>
      <body name="target" mocap="true"><geom size=".1" contype="0" conaffinity="0"/><body name="mark"><site name="mark"/></body></body>
      <body name="hand"><freejoint/><geom size=".1"/><body name="finger"><joint name="finger" type="slide"/>
      <geom size=".05"/></body></body></worldbody>
      <equality><weld body1="hand" body2="target"/></equality>
      <actuator><motor joint="finger"/></actuator></mujoco>)");
  EXPECT_ERROR(MakeReachTask(robot, {.goals = {"body:target=1,0,0"}}), ErrorCode::kInvalidArgument,
               "body 'target' stands where a program sets mocap body 'target', no control moves it");
  EXPECT_ERROR(MakeReachTask(robot, {.goals = {"site:mark=1,0,0"}}), ErrorCode::kInvalidArgument,
               "site 'mark' stands where a program sets mocap body 'target', no control moves it");
  const auto told = [&](const std::string& goal) { return MakeReachTask(robot, {.goals = {goal}}).warnings; };
  ASSERT_EQ(told("body:hand=1,0,0").size(), 1u);
  EXPECT_EQ(told("body:hand=1,0,0")[0].find("goal of body hand: mocap body 'target' holds 'hand'"), 0u)
      << told("body:hand=1,0,0")[0];
  EXPECT_TRUE(told("body:finger=_,_,.01").empty());
}

// links of 0.5 and 0.4 m reach 0.9 m, a robot that also slides along a rail without a motor may reach further
TEST_F(Reach, SaysThatAGoalIsOutOfReach) {
  support::TemporaryFolder folder;
  const auto told = [&](const std::string& rail, const std::string& goal) {
    const std::string robot = folder.Write(
        "arm.xml", R"(<mujoco><worldbody><body><geom size=".01"/>)" + rail +
                       R"(<body><joint name="a" axis="0 0 1"/><geom size=".01" fromto="0 0 0 .5 0 0" type="capsule"/>
           <body pos=".5 0 0"><joint name="b" axis="0 0 1"/><geom size=".01" fromto="0 0 0 .4 0 0" type="capsule"/>
           <site name="tip" pos=".4 0 0"/></body></body></body></worldbody>
           <actuator><motor joint="a" ctrlrange="-1 1"/><motor joint="b" ctrlrange="-1 1"/></actuator></mujoco>)");
    return MakeReachTask(robot, {.goals = {goal}, .time = 1}).warnings;
  };
  ASSERT_EQ(told("", "site:tip=3,0,_").size(), 1u);
  EXPECT_EQ(told("", "site:tip=3,0,_")[0],
            "goal of site tip: the nearest posture found is 2.1 m off; is it out of reach?");
  EXPECT_EQ(told("", "site:tip=1,0,_").size(), 1u) << "a tenth of a metre";
  EXPECT_TRUE(told("", "site:tip=.6,.3,_").empty());
  EXPECT_TRUE(told("", "site:tip=.89,0,_").empty());
  EXPECT_TRUE(told(R"(<joint type="slide" axis="1 0 0"/>)", "site:tip=3,0,_").empty());
}

TEST_F(Reach, RefusesWhatIsNotThere) {
  EXPECT_ERROR(MakeReachTask(kReachZoo, {.start = "hom", .goals = {"pose"}}), ErrorCode::kInvalidArgument,
               "did you mean 'home'?");
  EXPECT_ERROR(MakeReachTask(kReachZoo, {.goals = {"nothing like it"}}), ErrorCode::kInvalidArgument,
               "(there is home and pose)");
  EXPECT_ERROR(MakeReachTask(kReachZoo, {.goals = {"7"}}), ErrorCode::kInvalidArgument, "no keyframe 7");
  EXPECT_ERROR(MakeReachTask(kReachZoo, {.goals = {"pose"}, .time = 0}), ErrorCode::kInvalidArgument, "time is 0 s");
  EXPECT_ERROR(MakeReachTask(kReachZoo, {.goals = {"pose"}, .time = NAN}), ErrorCode::kInvalidArgument, "time is nan");
  EXPECT_ERROR(MakeReachTask(kReachZoo, {.goals = {"pose"}, .substeps = -1}), ErrorCode::kInvalidArgument,
               "substeps is -1");
  const support::TemporaryFolder folder;
  const std::string passive = folder.Write(
      "p.xml", "<mujoco model='p'><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>");
  EXPECT_ERROR(MakeReachTask(passive, {.goals = {"0"}}), ErrorCode::kInvalidArgument, "no actuators (nu = 0)");
}

}  // namespace
}  // namespace costate
