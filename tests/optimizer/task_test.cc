// A task file as it is understood.
#include <costate/record.h>
#include <costate/rollout.h>
#include <costate/task.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "optimizer/cost_terms.h"
#include "optimizer/task_xml.h"
#include "support/comma_locale.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/random_state.h"
#include "support/task_file.h"

namespace costate {
namespace {

using support::LoadZooTask;
using support::MatricesNear;
using support::TemporaryFolder;
using support::ZooTask;
using TaskFile = support::EngineTest;

constexpr char kEffort[] = "<cost name='effort' ctrl='all'/>";

const ResidualCost& Residuals(const Task& task) { return dynamic_cast<const ResidualCost&>(*task.cost); }

VectorXd KeyState(const mjModel* model, const char* key) { return GetState(model, MakeDataAtKey(model, key).get()); }

TEST_F(TaskFile, StatesTheWholeProblem) {
  const Task task = LoadZooTask(
      std::string("<start key='pose'/><guess key='pose'/><limit actuator='all'/>"
                  "<solver type='ilqr' iterations='7' tolerance='1e-3' derivative='residual' threads='2' cost_unit='0'"
                  " leave_saddles='false'/>") +
          kEffort,
      "horizon='0.2' controlstep='4' name='dance'");
  const Problem problem = task.ToProblem();
  EXPECT_EQ(task.name, "dance");
  EXPECT_EQ(problem.N, 25);
  EXPECT_EQ(problem.substeps, 4);
  EXPECT_EQ(problem.model, task.model.get());
  EXPECT_EQ(problem.cost, task.cost.get());
  EXPECT_TRUE(task.warnings.empty());

  // the start is the keyframe's state with unit quaternions, its context with the keyframe's time
  VectorXd x = KeyState(task.model.get(), "pose");
  x.segment<4>(3).normalize();
  x.segment<4>(7).normalize();
  EXPECT_TRUE(MatricesNear(problem.x0, x, 1e-15));
  DataPtr data = MakeData(task.model.get());
  SetContext(task.model.get(), data.get(), problem.context);
  EXPECT_EQ(data->time, 0.5);
  EXPECT_TRUE(MatricesNear(task.U_guess, Eigen::Vector3d(0.5, -1, 0.7).replicate(1, 25), 0));

  // limits from the model, none for the tendon's motor
  EXPECT_TRUE(MatricesNear(problem.u_lower.head(2), Eigen::Vector2d(-1, -2), 0));
  EXPECT_EQ(problem.u_upper[2], std::numeric_limits<double>::infinity());
  EXPECT_EQ(task.solver.iterations, 7);
  EXPECT_EQ(task.solver.tolerance, 1e-3);
  EXPECT_EQ(task.solver.cost_unit, 0);
  EXPECT_FALSE(task.solver.leave_saddles);
  EXPECT_EQ(task.solver.threads, 2);
  EXPECT_EQ(task.solver.derivative.level, Level::kResidual);
}

TEST_F(TaskFile, AddsItsSensorsBehindTheUsersOnceEach) {
  const Task task = LoadZooTask(
      "<cost name='a' body='arm' quantity='pos'/><cost name='b' body='arm' quantity='pos' index='2'/>"
      "<cost name='c' site='tip' quantity='pos' target='body:arm'/><cost name='d' sensor='gyro'/><cost name='e' "
      "qvel='all'/>");
  const mjModel* model = task.model.get();
  EXPECT_EQ(task.user_sensors, 3 + 4 + 3 + 1);
  ASSERT_EQ(model->nsensor, 4 + 2);
  EXPECT_EQ(model->nsensordata, task.user_sensors + 6);
  EXPECT_EQ(ElementName(model, mjOBJ_SENSOR, 0), "gyro");
  EXPECT_EQ(ElementName(model, mjOBJ_SENSOR, 4), "body:arm.pos");
  EXPECT_EQ(ElementName(model, mjOBJ_SENSOR, 5), "site:tip.pos");
  EXPECT_TRUE(task.cost->NeedsSensors());
  EXPECT_FALSE(LoadZooTask(kEffort).cost->NeedsSensors());
}

double CostOfGuess(const Task& task) {
  Trajectory motion;
  Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  EXPECT_TRUE(simulator.Rollout(task.x0, task.U_guess, &motion).ok());
  return TotalCost(*task.cost, motion, simulator.knot_time());
}

// one component each, as so many costs of one of them have it
TEST_F(TaskFile, MeasuresSeveralJointsTendonsAndActuators) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> lists = {
      {"actuator='all' quantity='force'", {"shoulder", "extend", "pull"}},
      {"actuator='pull shoulder' quantity='velocity'", {"pull", "shoulder"}},
      {"joint='all' quantity='pos'", {"shoulder", "extend"}},
      {"joint='extend shoulder' quantity='force'", {"extend", "shoulder"}},
      {"tendon='all' quantity='length'", {"cord"}}};
  for (const auto& [list, names] : lists) {
    const Task task = LoadZooTask("<start key='pose'/><guess key='pose'/><cost " + list + " weight='2' target='0.1" +
                                  (names.size() > 1 ? " 0.2" : "") + (names.size() > 2 ? " 0.3" : "") + "'/>");
    std::string single;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string kind = list.substr(0, list.find('=')), quantity = list.substr(list.find("quantity"));
      single +=
          fmt::format("<cost name='{}' {}='{}' {} weight='2' target='0.{}'/>", i, kind, names[i], quantity, i + 1);
    }
    const Task each = LoadZooTask("<start key='pose'/><guess key='pose'/>" + single);
    const double cost = CostOfGuess(task);
    EXPECT_GT(cost, 0);
    EXPECT_NEAR(cost, CostOfGuess(each), 1e-12 * cost) << list;
    EXPECT_EQ(task.model->nsensordata, each.model->nsensordata) << list;
  }
  const TemporaryFolder folder;
  folder.Write("bare.xml",
               "<mujoco><worldbody><body><joint/><geom size='.1' pos='.1 0 0'/><body><joint name='b'/><geom size='.1'/>"
               "</body></body></worldbody><actuator><motor joint='b'/></actuator></mujoco>");
  EXPECT_ERROR(LoadTask(folder.Write("a.xml",
                                     "<task model='bare.xml' horizon='1'><cost joint='all' "
                                     "quantity='pos'/></task>")),
               ErrorCode::kParse, "joint=\"all\": a joint has no name");
  const Task bounded =
      LoadZooTask(std::string(kEffort) + "<constraint name='f' actuator='extend pull' quantity='force' upper='9'/>");
  EXPECT_EQ(bounded.constraints[0].info().components,
            (std::vector<std::string>{"sensor[actuator:extend.force]", "sensor[actuator:pull.force]"}));
}

// the dynamics do not feel the sensors: same model otherwise, same motion bit for bit
TEST_F(TaskFile, LeavesTheMotionAsItIs) {
  const Task task =
      LoadZooTask("<cost subtree='base' quantity='momentum'/><cost geom='skull' geom2='floor' quantity='distance'/>");
  const ModelPtr plain = LoadModel(COSTATE_TESTDATA "/task_zoo.xml");
  const VectorXd x = support::RandomState(plain.get(), 5), u = support::RandomControl(plain.get(), 5);
  VectorXd next(x.size()), next_plain(x.size()), none;
  DataPtr data = MakeData(task.model.get()), data_plain = MakeData(plain.get());
  ASSERT_EQ(Step(task.model.get(), data.get(), x, u, 20, next, none), StepStatus::kOk);
  ASSERT_EQ(Step(plain.get(), data_plain.get(), x, u, 20, next_plain, none), StepStatus::kOk);
  EXPECT_TRUE(support::BitwiseEqual(next, next_plain));
}

TEST_F(TaskFile, StartsWhereItSays) {
  EXPECT_TRUE(MatricesNear(LoadZooTask(kEffort).x0,
                           GetState(LoadZooTask(kEffort).model.get(), MakeData(LoadZooTask(kEffort).model.get()).get()),
                           0));
  const Task task = LoadZooTask(std::string("<start key='pose' qvel='1 2 3 4 5 6 7 8 9 10 11' act='-0.5'/>") + kEffort);
  EXPECT_EQ(task.x0[0], 0.3);
  EXPECT_EQ(task.x0[13], 1);
  EXPECT_EQ(task.x0[23], 11);
  EXPECT_EQ(task.x0[24], -0.5);
  const Task numbers = LoadZooTask(std::string("<start qpos='0 0 2 0 2 0 0 1 0 0 0 .5 .1'/>") + kEffort);
  EXPECT_EQ(numbers.x0[2], 2);
  EXPECT_EQ(numbers.x0[4], 1);  // made a unit quaternion
}

// such a cost would be left out without a word; a constraint there is refused (task_constraint_test.cc)
TEST_F(TaskFile, WarnsOfACostThatHoldsAtNoKnot) {
  const auto warnings = [](const std::string& when) {
    return LoadZooTask("<cost name='c' ctrl='all' when='" + when + "'/>", "horizon='0.1' controlstep='5'").warnings;
  };
  EXPECT_TRUE(warnings("0 0.05").empty());
  EXPECT_TRUE(warnings("0.09 end").empty());
  const std::vector<std::string> behind = warnings("0.1 0.2"), between = warnings("0.051 0.059");
  ASSERT_EQ(behind.size(), 1u);
  EXPECT_NE(
      behind[0].find("<cost name='c'>: when=\"0.1 0.2\" begins behind the last control, the motion ends at 0.1 s"),
      std::string::npos)
      << behind[0];
  ASSERT_EQ(between.size(), 1u);
  EXPECT_NE(between[0].find("when=\"0.051 0.059\" lies between two knots, which are 0.01 s apart"), std::string::npos)
      << between[0];
}

TEST_F(TaskFile, SaysWhereTheStartIsBeyondAJointsRange) {
  const support::TemporaryFolder folder;
  folder.Write("rail.xml",
               R"(<mujoco><worldbody><body><joint name="x" type="slide" axis="1 0 0" range="-5 5" limited="true"/>
    <geom size=".1"/></body></worldbody><actuator><motor joint="x"/></actuator></mujoco>)");
  for (const auto& [start, count] : {std::pair("8", 1u), std::pair("5.05", 0u), std::pair("-5", 0u)}) {
    const Task task = LoadTask(folder.Write("t.xml", std::string("<task model='rail.xml' horizon='1'><start qpos='") +
                                                         start + "'/><cost ctrl='all'/></task>"));
    ASSERT_EQ(task.warnings.size(), count) << start;
    if (count > 0) {
      EXPECT_NE(task.warnings[0].find("the start has x at 8, beyond its range -5 to 5"), std::string::npos)
          << task.warnings[0];
    }
  }
}

TEST_F(TaskFile, SaysWhereNoCostWeighsAnything) {
  const auto warnings = [](const std::string& costs) { return LoadZooTask(costs).warnings; };
  const std::vector<std::string> none =
      warnings("<cost ctrl='all' weight='0'/><cost qpos='all' weight='0' terminal='0'/>");
  ASSERT_EQ(none.size(), 1u);
  EXPECT_NE(none[0].find("no cost has a weight other than 0"), std::string::npos) << none[0];
  EXPECT_TRUE(warnings("<cost ctrl='all' weight='0'/><cost qpos='all' weight='0' terminal='1'/>").empty());
}

TEST_F(TaskFile, RoundsTheHorizonToKnotsAndSaysSo) {
  const Task task = LoadZooTask(kEffort, "horizon='0.1' controlstep='3'");
  EXPECT_EQ(task.N, 17);
  ASSERT_EQ(task.warnings.size(), 1u);
  EXPECT_NE(task.warnings[0].find("0.1 s is no whole number of control intervals of 0.006 s: 17 of them, 0.102 s"),
            std::string::npos)
      << task.warnings[0];
}

// ---- guesses --------------------------------------------------------------------------------------------------------

// a motor that carries a mass against gravity, and a position servo that sags: both must stand still under the guess
TEST_F(TaskFile, HoldsTheStartWithMotorsAndServos) {
  const TemporaryFolder folder;
  folder.Write("lift.xml", R"(<mujoco model="lift"><worldbody>
    <body><joint name="lift" type="slide" axis="0 0 1"/><geom size=".1" mass="2"/></body>
    <body pos="1 0 0"><joint name="swing" axis="0 1 0"/><geom size=".1" pos=".5 0 0" mass="1"/></body>
    <body pos="2 0 0"><joint name="weak" type="slide" axis="0 0 1"/><geom size=".1" mass="1"/></body></worldbody>
    <actuator><motor joint="lift" gear="2"/><position joint="swing" kp="50"/>
      <motor joint="weak" ctrlrange="-3 3"/></actuator></mujoco>)");
  for (const char* guess : {"", "<guess hold='true'/>"}) {
    const Task task = LoadTask(
        folder.Write("lift.task.xml", std::string("<task model='lift.xml' horizon='0.1'><start qpos='0 0.3 0'/>") +
                                          guess + "<cost ctrl='all'/></task>"));
    const double torque = -9.81 * 0.5 * std::cos(0.3);  // gravity turns the swing down: positive about y
    EXPECT_NEAR(task.U_guess(0, 0), 2 * 9.81 / 2, 1e-5);
    EXPECT_NEAR(task.U_guess(1, 7), 0.3 + torque / 50, 1e-5);
    EXPECT_EQ(task.U_guess(2, 3), 3);  // its limit: 9.81 N are out of reach
  }
}

// Two jaws press a ball that hangs between them: what is at rest within one step presses nothing and lets it fall. The
// keyframe's own controls hold it for good, and those of a motor that sags are not taken.
TEST_F(TaskFile, HoldsAGripByTheKeyframesOwnControls) {
  const TemporaryFolder folder;
  folder.Write("grip.xml", R"(<mujoco model="grip"><option cone="elliptic" impratio="10"/><worldbody>
    <body pos="-.06 0 1"><joint name="left" type="slide" axis="1 0 0" damping="2"/>
      <geom type="box" size=".02 .05 .05" mass=".1" friction="1.5"/></body>
    <body pos=".06 0 1"><joint name="right" type="slide" axis="-1 0 0" damping="2"/>
      <geom type="box" size=".02 .05 .05" mass=".1" friction="1.5"/></body>
    <body pos="0 0 1"><freejoint/><geom type="box" size=".04 .02 .02" mass=".05" friction="1.5"/></body>
    </worldbody><actuator><motor joint="left" ctrlrange="-5 5"/><motor joint="right" ctrlrange="-5 5"/></actuator>
    <keyframe><key name="grip" qpos="0 0 0 0 1 1 0 0 0" ctrl="2 2"/>
      <key name="weak" qpos="0 0 0 0 1 1 0 0 0" ctrl=".1 .1"/></keyframe></mujoco>)");
  const auto guess = [&](const std::string& key) {
    return LoadTask(folder.Write("grip.task.xml", "<task model='grip.xml' horizon='0.5'><start key='" + key +
                                                      "'/><cost ctrl='all'/></task>"))
        .U_guess;
  };
  EXPECT_TRUE(MatricesNear(guess("grip").col(3), Eigen::Vector2d(2, 2), 0));
  EXPECT_NE(guess("weak")(0, 0), 0.1);
}

// A pole on a cart falls under any constant force. The guess is what a feedback to the start does, as it is simulated, or
// to where the pole would stand; of a start that moves, and of one that stays by itself, it is constant.
TEST_F(TaskFile, HoldsByFeedbackWhatWouldFall) {
  const TemporaryFolder folder;
  folder.Write("pole.xml",
               R"(<mujoco><option timestep="0.01"/><worldbody><body><joint name="cart" type="slide" axis="1 0 0"/>
    <geom size=".1" mass="1" contype="0"/><body><joint name="pole" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 .5" size=".02" mass=".2" contype="0"/></body></body></worldbody>
    <actuator><motor joint="cart" ctrlrange="-20 20"/></actuator></mujoco>)");
  const auto load = [&](const std::string& start) {
    return LoadTask(folder.Write("pole.task.xml", "<task model='pole.xml' horizon='3' controlstep='2'><start " + start +
                                                      "/><cost ctrl='all'/></task>"));
  };
  const auto largest_angle = [](const Task& task, const MatrixXd& U) {
    Trajectory motion;
    Simulator simulator(task.model.get(), task.context, task.substeps, 1);
    EXPECT_TRUE(simulator.Rollout(task.x0, U, &motion).ok());
    return motion.X.row(1).cwiseAbs().maxCoeff();
  };
  const Task task = load("qpos='0 0.02'");
  EXPECT_GT(largest_angle(task, task.U_guess.col(0).replicate(1, task.N)), 1);
  EXPECT_LT(largest_angle(task, task.U_guess), 0.05);
  // one that leans so far that no force keeps it there: to where it stands
  for (const char* start : {"qpos='0 0.3'", "qpos='1 -0.4'"}) {
    const Task leaning = load(start);
    EXPECT_GT(largest_angle(leaning, leaning.U_guess.col(0).replicate(1, leaning.N)), 1);
    EXPECT_LT(largest_angle(leaning, leaning.U_guess), 0.5);
    Trajectory motion;
    Simulator simulator(leaning.model.get(), leaning.context, leaning.substeps, 1);
    ASSERT_TRUE(simulator.Rollout(leaning.x0, leaning.U_guess, &motion).ok());
    EXPECT_LT(motion.X.col(leaning.N).tail(3).norm(), 0.05);
  }
  for (const char* start : {"qpos='0 0.02' qvel='0 0.1'", "qpos='0 3.14159265358979'"}) {
    const MatrixXd U = load(start).U_guess;
    EXPECT_TRUE((U.array() == U(0, 0)).all()) << start;
  }

  // nothing to hold it by
  folder.Write("ball.xml", "<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>");
  const Task ball = LoadTask(folder.Write(
      "ball.task.xml", "<task model='ball.xml' horizon='1'><gradient start='qvel'/><cost qpos='0 1 2'/></task>"));
  EXPECT_EQ(ball.U_guess.rows(), 0);
  EXPECT_EQ(ball.U_guess.cols(), ball.N);
}

// home at 0.01 s, pose at 0.03 s: held before, linear in between, held after
TEST_F(TaskFile, LeadsTheGuessThroughKeyframes) {
  const Task task =
      LoadZooTask("<guess key='home@0.01 pose@0.03'/>" + std::string(kEffort), "horizon='0.05' controlstep='5'");
  const Eigen::Vector3d home(0.1, 0.2, -0.3), pose(0.5, -1, 0.7);
  EXPECT_TRUE(MatricesNear(task.U_guess.col(0), home, 0));
  EXPECT_TRUE(MatricesNear(task.U_guess.col(2), 0.5 * (home + pose), 1e-12));
  EXPECT_TRUE(MatricesNear(task.U_guess.col(4), pose, 0));
}

// between equal values in a table the same value stands, but for rounding
TEST_F(TaskFile, ControlsAtTheEndOfTheirRangeAreNotBeyondIt) {
  const TemporaryFolder folder;
  folder.Write("slide.xml",
               "<mujoco><worldbody><body><joint name='x' type='slide'/><geom size='.1'/></body></worldbody>"
               "<actuator><motor name='u' joint='x' ctrlrange='0 .04'/></actuator></mujoco>");
  const auto warnings = [&](const std::string& value) {
    folder.Write("u.csv", "time,u\n0," + value + "\n3," + value + "\n");
    return LoadTask(folder.Write("slide.task.xml",
                                 "<task model='slide.xml' horizon='3'><guess file='u.csv'/>"
                                 "<cost ctrl='all'/></task>"))
        .warnings;
  };
  EXPECT_TRUE(warnings("0.04").empty());
  ASSERT_EQ(warnings("0.0401").size(), 1u);
  EXPECT_NE(warnings("0.0401")[0].find("lay beyond their range"), std::string::npos);
}

// An arm that would fall over: motors that follow a path have it where the path is, a servo too; at rest at each
// keyframe, halfway at half time, and not beyond their limits.
TEST_F(TaskFile, FollowsAPathOfPositions) {
  const TemporaryFolder folder;
  folder.Write("arm.xml", R"(<mujoco model="arm"><worldbody><body pos="0 0 2"><joint name="a" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 .5" size=".04"/><body pos="0 0 .5"><joint name="b" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 .4" size=".03"/><body pos="0 0 .4"><joint name="c" axis="1 0 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 .1" size=".03"/></body></body></body></worldbody>
    <actuator><motor joint="a" ctrlrange="-150 150"/><motor joint="b" gear="2" ctrlrange="-50 50"/><position joint="c" kp="40" kv="2"/>
    </actuator><keyframe><key name="out" qpos="1.2 -.5 .3"/><key name="in" qpos=".4 1.5 0"/></keyframe></mujoco>)");
  const auto motion = [&](const std::string& guess) {
    const Task task = LoadTask(folder.Write(
        "arm.task.xml", "<task model='arm.xml' horizon='1.2' controlstep='5'>" + guess + "<cost ctrl='all'/></task>"));
    EXPECT_TRUE(task.warnings.empty());
    Trajectory trajectory;
    Simulator simulator(task.model.get(), task.context, task.substeps, 1);
    EXPECT_TRUE(simulator.Rollout(task.x0, task.U_guess, &trajectory).ok());
    return trajectory.X;
  };
  VectorXd out(6), in(6), half(3);
  out << 1.2, -.5, .3, 0, 0, 0;
  in << .4, 1.5, 0, 0, 0, 0;
  const MatrixXd keys = motion("<guess follow='out@0.6 in@1'/>");
  EXPECT_TRUE(MatricesNear(keys.col(60), out, 2e-2));
  EXPECT_TRUE(MatricesNear(keys.col(30).head(3), 0.5 * out.head(3), 1e-2));
  EXPECT_TRUE(MatricesNear(keys.col(110), in, 5e-3));
  EXPECT_TRUE(MatricesNear(keys.col(120), in, 1e-3));
  EXPECT_TRUE(MatricesNear(motion("<guess follow='true' qpos='1.2 -.5 .3' at='0.6'/>").col(70), out, 5e-3));
}

// a two-link robot in free flight: no torque takes its falling away, so none is applied
TEST_F(TaskFile, HoldsNothingInFreeFlight) {
  const TemporaryFolder folder;
  folder.Write("fall.xml", R"(<mujoco model="fall"><worldbody><body pos="0 0 5"><freejoint/><geom size=".1" mass="1"/>
    <body pos=".3 0 0"><joint name="j" axis="0 1 0"/><geom size=".1" pos=".3 0 0" mass="1"/></body></body></worldbody>
    <actuator><motor joint="j"/></actuator></mujoco>)");
  const std::string text = "<task model='fall.xml' horizon='0.1'><cost ctrl='all'/></task>";
  EXPECT_EQ(LoadTask(folder.Write("fall.task.xml", text)).U_guess.cwiseAbs().maxCoeff(), 0);
}

TEST_F(TaskFile, TakesControlsFromAFile) {
  const TemporaryFolder folder;
  const std::string task = ZooTask("<guess file='u.csv'/>" + std::string(kEffort), "horizon='0.05' controlstep='5'");

  // no header: one row a knot, the last one held
  folder.Write("u.csv", "0.1,0.2,0.3\n0.4,0.5,0.6\n");
  Task loaded = LoadTask(folder.Write("zoo.task.xml", task));
  ASSERT_EQ(loaded.U_guess.cols(), 5);
  EXPECT_TRUE(MatricesNear(loaded.U_guess.col(0), Eigen::Vector3d(0.1, 0.2, 0.3), 0));
  EXPECT_TRUE(MatricesNear(loaded.U_guess.col(4), Eigen::Vector3d(0.4, 0.5, 0.6), 0));

  // names that say the order alone, as a spreadsheet saves them
  folder.Write("u.csv", "\xef\xbb\xbftime,u1,u2,u3\r\n0,0.1,0.2,0.3\r\n");
  loaded = LoadTask(folder.Write("zoo.task.xml", task));
  EXPECT_TRUE(MatricesNear(loaded.U_guess.col(0), Eigen::Vector3d(0.1, 0.2, 0.3), 0));

  // a table like a run's: named columns anywhere, times from any start, linear in between, an empty last row
  folder.Write("u.csv",
               "time (s),qpos[x] (m),ctrl[pull] (ctrl),ctrl[shoulder] (ctrl),\"ctrl[extend] (ctrl)\"\n"
               "3.00,9,1,0.2,2\n3.02,9,3,0.4,1\n3.03,9,5,0.6,9\n3.04,9,,,\n");
  loaded = LoadTask(folder.Write("zoo.task.xml", task));
  EXPECT_TRUE(MatricesNear(loaded.U_guess.col(0), Eigen::Vector3d(0.2, 2, 1), 0));
  EXPECT_TRUE(MatricesNear(loaded.U_guess.col(1), Eigen::Vector3d(0.3, 1.5, 2), 1e-12));
  EXPECT_TRUE(MatricesNear(loaded.U_guess.col(2), Eigen::Vector3d(0.4, 1, 3), 0));
  EXPECT_TRUE(MatricesNear(loaded.U_guess.col(4), Eigen::Vector3d(0.6, 2, 5), 0));  // 9 is beyond the limit of 2
  ASSERT_EQ(loaded.warnings.size(), 1u);
  EXPECT_NE(loaded.warnings[0].find("2 of 15 controls"), std::string::npos) << loaded.warnings[0];
}

// What is not taken is said: rows behind the end, and columns that are nothing. What a run has beside its controls, or
// a recorded motion, is no such column.
TEST_F(TaskFile, TakesNoPartOfAFileOfControlsSilently) {
  const TemporaryFolder folder;
  const std::string task = folder.Write(
      "zoo.task.xml", ZooTask("<guess file='u.csv'/>" + std::string(kEffort), "horizon='0.05' controlstep='5'"));
  const auto warnings = [&](const std::string& controls) {
    folder.Write("u.csv", controls);
    const Task loaded = LoadTask(task);
    return loaded.warnings.empty() ? "" : loaded.warnings[0];
  };
  std::string rows;
  for (int t = 0; t < 5; ++t) rows += "0,0,0\n";
  EXPECT_EQ(warnings(rows), "");
  EXPECT_NE(warnings(rows + "0,0,0\n").find("<guess>: u.csv has 6 rows, one a control interval, and there are 5: "),
            std::string::npos);
  const std::string header = "time,shoulder,extend,pull";
  EXPECT_EQ(warnings(header + "\n0,0,0,0\n0.05,0,0,0\n"), "");  // a motion's last row
  EXPECT_NE(
      warnings(header + "\n0,0,0,0\n0.09,0,0,0\n").find("controls until 0.09 s, and the motion ends after 0.05 s"),
      std::string::npos);

  folder.Write("u.csv", header + ",winch\n0,0,0,0,0\n");
  EXPECT_ERROR(LoadTask(task), ErrorCode::kParse, "u.csv:1: column 'winch' is no control of model 'zoo', which has",
               "ctrl[shoulder]");
  EXPECT_EQ(warnings(header + ",cost,energy_kinetic (J)\n0,0,0,0,0,0\n"), "");
  EXPECT_EQ(warnings(header + ",sensor[other]\n0,0,0,0,0\n"), "");
  EXPECT_EQ(warnings("time,qpos[shoulder],ctrl[shoulder],ctrl[extend],ctrl[pull],mood\n0,0,0,0,0,0\n"), "");
}

TEST(Xml, EscapedTextIsReadAsItWas) {
  const std::string text = "a < b && c > \"d\", it's\ntwo lines";
  const XmlFile file("<a b=\"" + XmlEscaped(text) + "\" c='" + XmlEscaped(text) + "'/>", "x.xml");
  for (const auto& [name, value] : file.Root().Attributes()) EXPECT_EQ(value, text) << name;
}

// names of a model may have what a table's header means something by: brackets behind a blank, commas, quotes
TEST_F(TaskFile, TakesControlsOfStrangeNamesFromARunsTable) {
  const TemporaryFolder folder;
  folder.Write("odd.xml",
               "<mujoco><worldbody><body><joint name='j'/><geom size='.1'/></body></worldbody><actuator>"
               "<motor name='left (1)' joint='j'/><motor name='left (2)' joint='j'/>"
               "<motor name='c&quot;d, e' joint='j'/></actuator></mujoco>");
  folder.Write("u.csv", "time (s),ctrl[left (1)],ctrl[left (2)] (N),\"ctrl[c\"\"d, e]\"\n0,1,2,3\n");
  const Task task = LoadTask(folder.Write(
      "odd.task.xml", "<task model='odd.xml' horizon='0.1'><guess file='u.csv'/><cost ctrl='all'/></task>"));
  EXPECT_TRUE(MatricesNear(task.U_guess.col(0), Eigen::Vector3d(1, 2, 3), 0));
}

// a rotation has two quaternions; between rows of different signs lies what is between the rotations
TEST_F(TaskFile, StatesBetweenRowsLieBetweenTheirRotations) {
  const TemporaryFolder folder;
  folder.Write(
      "ball.xml",
      R"(<mujoco><worldbody><body><joint type="ball" name="b"/><geom size=".1" pos=".1 0 0"/></body></worldbody>
    <actuator><motor joint="b" gear="0 0 1"/></actuator></mujoco>)");
  const double c = std::cos(0.1), s = std::sin(0.1);
  folder.Write("x.csv", fmt::format("time,{}\n0,1,0,0,0,0,0,2\n0.1,{},0,0,{},0,0,4\n",
                                    fmt::join(StateNames(LoadModel(folder.File("ball.xml")).get()), ","), -c, -s));
  const Task task =
      LoadTask(folder.Write("ball.task.xml",
                            "<task model='ball.xml' horizon='0.1'><guess states='file:x.csv'/><cost ctrl='all'/>"
                            "<solver type='fddp'/></task>"));
  const Eigen::Index half = task.N / 2;
  EXPECT_NEAR(task.X_guess(3, half), std::sin(0.05), 1e-9);
  EXPECT_NEAR(task.X_guess(0, half), std::cos(0.05), 1e-9);
  EXPECT_NEAR(task.X_guess(6, half), 3, 1e-9);
}

// A cost may pull towards what cannot be reached, but that is said; 0.7 0 0.7 is a direction, and so is a part of one.
TEST_F(TaskFile, SaysWhenATargetIsOutOfReach) {
  const auto warnings = [](const std::string& elements) { return LoadZooTask(elements).warnings; };
  for (const char* beyond : {"<cost qpos='shoulder' target='9'/>", "<cost joint='shoulder' quantity='pos' target='9'/>",
                             "<cost ctrl='all'/><constraint qpos='shoulder' equals='9' soft='1'/>"}) {
    ASSERT_EQ(warnings(beyond).size(), 1u) << beyond;
    EXPECT_NE(warnings(beyond)[0].find("shall be 9, beyond the range of joint 'shoulder'"), std::string::npos);
  }
  for (const char* possible :
       {"<cost qpos='shoulder' target='0.1'/>", "<cost body='arm' quantity='zaxis' target='0.7 0 0.7'/>",
        "<cost body='arm' quantity='zaxis' index='0 1'/>", "<cost body='arm' quantity='zaxis' index='2' target='0'/>",
        "<cost body='arm' quantity='zaxis' target='0 0 0' weight='1 1 0'/>", "<cost qpos='all' target='key:pose'/>",
        "<cost ctrl='all'/><limit joint='shoulder' lower='-9' upper='9'/>"}) {
    EXPECT_TRUE(warnings(possible).empty()) << warnings(possible)[0];
  }
}

// Names with blanks work in lists, too.
TEST_F(TaskFile, TakesNamesWithBlanks) {
  const TemporaryFolder folder;
  folder.Write("names.xml", R"(<mujoco><worldbody>
      <body><joint name="left knee" axis="0 1 0" range="-60 60"/><geom size=".1" pos=".3 0 0"/>
      <body pos=".5 0 0"><joint name="knee" axis="0 1 0" range="-60 60"/><geom size=".1" pos=".3 0 0"/></body></body>
      </worldbody><actuator><motor name="left motor" joint="left knee"/><motor name="motor" joint="knee"/></actuator>
      <keyframe><key name="my home"/><key name="bent knees" qpos="1 1" ctrl="1 2"/></keyframe></mujoco>)");
  const Task task = LoadTask(folder.Write("names.task.xml", R"(<task model="names.xml" horizon="1">
      <start key="my home" free="left knee"/><guess key="my home@0 bent knees@0.5"/>
      <cost name="both" qpos="left knee knee" target="key:my home@0 key:bent knees@0.5"/>
      <cost name="one" qvel="knee"/><cost name="left" ctrl="left motor"/>
      <limit joint="left knee knee"/><limit actuator="motor left motor" quantity="force" upper="5"/>
      <periodic qpos="all" except="left knee"/><gradient start="left knee" controls="left motor"/></task>)"));
  EXPECT_EQ(task.U_guess.col(task.N - 1), Eigen::Vector2d(1, 2));
  EXPECT_EQ(task.constraints.size(), 3);
  EXPECT_EQ(task.constraints[0].info().components, (std::vector<std::string>{"qpos[left knee]", "qpos[knee]"}));
  EXPECT_EQ(task.constraints[1].info().components[1], "actuator:left motor.force");
  EXPECT_EQ(task.constraints[2].info().components, std::vector<std::string>{"qpos[knee]"});
  EXPECT_EQ(task.free_start.entries, (std::vector<int>{0, 2}));
  EXPECT_EQ(task.inputs.controls, std::vector<int>{0});
}

// A bracket in a name ends nothing, and the part in front of it is another's name.
TEST_F(TaskFile, TakesNamesWithBrackets) {
  const TemporaryFolder folder;
  folder.Write("names.xml", R"(<mujoco><worldbody>
      <body><joint name="a" axis="0 1 0"/><geom size=".1" pos=".3 0 0"/>
      <body pos=".5 0 0"><joint name="a]b" axis="0 1 0"/><geom size=".1" pos=".3 0 0"/></body></body></worldbody>
      <actuator><motor name="m" joint="a"/></actuator></mujoco>)");
  const auto starts = [&](const std::string& free) {
    return LoadTask(folder.Write("names.task.xml", "<task model='names.xml' horizon='1'><start free='" + free +
                                                       "'/><cost ctrl='all'/></task>"))
        .free_start.entries;
  };
  EXPECT_EQ(starts("a]b"), (std::vector<int>{1, 3}));
  EXPECT_EQ(starts("a"), (std::vector<int>{0, 2}));
  EXPECT_EQ(starts("qvel[a]b]"), std::vector<int>{3});
}

// as the command line and the plugin call them
TEST_F(TaskFile, CallsLevelsOfDerivativesAsAllElse) {
  const auto level = [](const std::string& word) {
    return LoadZooTask("<cost ctrl='all'/><solver derivative='" + word + "'/>").solver.derivative.level;
  };
  EXPECT_EQ(level("best"), Level::kBest);
  EXPECT_EQ(level("auto"), Level::kBest);
  EXPECT_EQ(level("analytic"), Level::kAnalytic);
  EXPECT_EQ(level("step"), Level::kStep);
}

// a run's controls come back bit for bit, and its own states and sensors are a reference that it follows exactly
TEST_F(TaskFile, ContinuesAndFollowsASavedRun) {
  const TemporaryFolder folder;
  const std::string costs =
      "<cost name='q' qpos='all' target='file:run'/><cost name='v' qvel='root' target='file:run/trajectory.csv'/>"
      "<cost name='s' sensor='attitude' target='file:run'/><cost name='w' act='all' target='file:run'/>";
  const std::string head = "horizon='0.06' controlstep='3'";
  Task first = LoadZooTask("<start key='pose'/><cost sensor='gyro'/>", head);
  Record record;
  record.context = first.context;
  record.substeps = first.substeps;
  Simulator simulator(first.model.get(), first.context, first.substeps, 1);
  support::Random random(4);
  MatrixXd U(3, first.N);
  for (int t = 0; t < first.N; ++t) U.col(t) = random.Vector(3, 0.9);
  ASSERT_TRUE(simulator.Rollout(first.x0, U, &record.trajectory).ok());
  const Trajectory trajectory = record.trajectory;
  record.model = std::move(first.model);
  WriteRecord(folder.File("run"), record, {.plots = false});

  const std::string start = "<start key='pose'/><guess file='run'/>";
  const Task task = LoadTask(folder.Write("zoo.task.xml", ZooTask(start + costs, head)));
  EXPECT_TRUE(support::BitwiseEqual(task.U_guess, U));
  EXPECT_TRUE(task.warnings.empty());
  for (const CostTermValue& term : task.cost->Terms(trajectory)) EXPECT_LT(term.value, 1e-24) << term.name;

  // twice as fine a control step: in between lies the mean
  const Task fine = LoadTask(folder.Write("fine.task.xml", ZooTask(start + costs, "horizon='0.06' controlstep='1'")));
  EXPECT_TRUE(MatricesNear(fine.U_guess.col(3), U.col(1), 1e-12));
  EXPECT_TRUE(MatricesNear(fine.U_guess.col(4), (2 * U.col(1) + U.col(2)) / 3, 1e-12));
}

// ---- targets --------------------------------------------------------------------------------------------------------

VectorXd ResidualAt(const Task& task, int term, const VectorXd& x, const VectorXd& u, int t, const VectorXd& context) {
  const DataPtr data = MakeData(task.model.get());
  SetContext(task.model.get(), data.get(), context);
  VectorXd s(task.model->nsensordata), r;
  EXPECT_EQ(Forward(task.model.get(), data.get(), x, u, s), StepStatus::kOk);
  Residuals(task).Residual(term, {.t = t, .N = task.N, .time = 0, .dt = 0.01, .x = x, .u = u, .s = s}, &r);
  return r;
}

// each residual vanishes at its own keyframe, and for qpos it is ⊖ elsewhere
// one number is that of every component, as equals has it
TEST_F(TaskFile, AimsAtOneNumberInEveryComponent) {
  const Task task = LoadZooTask("<cost name='a' ctrl='all' target='0.3'/><cost name='b' sensor='gyro' target='1.2'/>");
  EXPECT_TRUE(MatricesNear(Residuals(task).terms()[0].target.values, VectorXd::Constant(3, 0.3), 0));
  EXPECT_TRUE(MatricesNear(Residuals(task).terms()[1].target.values, VectorXd::Constant(3, 1.2), 0));
}

TEST_F(TaskFile, AimsAtKeyframes) {
  const Task task = LoadZooTask(
      "<start key='pose'/><cost name='q' qpos='all' target='key:pose' terminal='1'/><cost name='v' qvel='all' "
      "target='key:pose'/>"
      "<cost name='w' act='all' target='key:pose'/><cost name='u' ctrl='all' target='key:pose'/><cost name='s' "
      "sensor='attitude' target='key:pose'/>"
      "<cost name='e' site='tip' quantity='linvel' target='key:pose'/>");
  const Eigen::Vector3d u(0.5, -1, 0.7);
  for (int term = 0; term < 6; ++term) {
    EXPECT_LT(ResidualAt(task, term, task.x0, u, 0, task.context).cwiseAbs().maxCoeff(), 1e-9) << "term " << term;
  }
  const VectorXd x = support::RandomState(task.model.get(), 8);
  EXPECT_TRUE(MatricesNear(ResidualAt(task, 0, x, u, 0, task.context),
                           Difference(task.model.get(), x, task.x0).head(11), 1e-12));
  EXPECT_TRUE(MatricesNear(task.x_goal, task.x0, 0));
}

// a posture on the way, or of some joints, is no state to arrive at
TEST_F(TaskFile, HasAGoalOnlyWhereAllJointsShallBeAtTheEnd) {
  EXPECT_EQ(LoadZooTask("<cost qpos='all' target='key:pose'/>").x_goal.size(), 0);
  EXPECT_EQ(LoadZooTask("<cost qpos='all' index='0 1' target='key:pose' terminal='1'/>").x_goal.size(), 0);
  EXPECT_GT(LoadZooTask("<cost qpos='all' target='key:pose' when='end'/>").x_goal.size(), 0);
}

// between two keyframes the target moves along the shortest rotation; before and after it rests
TEST_F(TaskFile, MovesFromKeyframeToKeyframe) {
  const Task task = LoadZooTask("<cost qpos='all' target='key:home@0.02 key:pose@0.06' terminal='1'/>");
  const mjModel* model = task.model.get();
  const VectorXd home = KeyState(model, "home");
  VectorXd pose = KeyState(model, "pose");
  mj_normalizeQuat(model, pose.data());
  const VectorXd way = Difference(model, pose, home).head(11), u = VectorXd::Zero(3);
  auto residual = [&](int t) { return ResidualAt(task, 0, home, u, t, task.context); };
  EXPECT_LT(residual(0).norm(), 1e-12);
  EXPECT_LT(residual(2).norm(), 1e-12);
  EXPECT_TRUE(MatricesNear(residual(3), -0.25 * way, 1e-12));
  EXPECT_TRUE(MatricesNear(residual(6), -way, 1e-12));
  EXPECT_TRUE(MatricesNear(residual(9), -way, 1e-12));
  EXPECT_TRUE(MatricesNear(task.x_goal, pose, 0));
}

TEST_F(TaskFile, FollowsAReferenceFile) {
  const TemporaryFolder folder;
  folder.Write("ref.csv", "# height and forward position\ntime,z,x\n0,1,0\n0.02,2,4\n0.04,2,8\n");
  const Task task = LoadTask(folder.Write("zoo.task.xml", ZooTask("<cost qpos='2 0' target='file:ref.csv'/>")));
  const VectorXd u = VectorXd::Zero(3);  // the model rests at (x, z) = (0, 1)
  EXPECT_TRUE(MatricesNear(ResidualAt(task, 0, task.x0, u, 0, task.context), Eigen::Vector2d(0, 0), 1e-12));
  EXPECT_TRUE(MatricesNear(ResidualAt(task, 0, task.x0, u, 1, task.context), Eigen::Vector2d(-0.5, -2), 1e-12));
  EXPECT_TRUE(MatricesNear(ResidualAt(task, 0, task.x0, u, 9, task.context), Eigen::Vector2d(-1, -8), 1e-12));
}

// the target is read again at each evaluation: moving the mocap body moves it
TEST_F(TaskFile, AimsAtAMocapBodyWhereverItIs) {
  const Task task = LoadZooTask("<cost site='tip' quantity='pos' target='mocap:hand'/>");
  const mjModel* model = task.model.get();
  const VectorXd u = VectorXd::Zero(3), before = ResidualAt(task, 0, task.x0, u, 0, task.context);
  const DataPtr data = MakeData(model);
  SetContext(model, data.get(), task.context);
  data->mocap_pos[1] += 0.25;
  const VectorXd after = ResidualAt(task, 0, task.x0, u, 0, GetContext(model, data.get()));
  EXPECT_TRUE(MatricesNear(after, before - Eigen::Vector3d(0, 0.25, 0), 1e-15));
}

// ---- kinds of model -------------------------------------------------------------------------------------------------

TEST_F(TaskFile, ReadsCompiledModelsWithTheirOwnSensors) {
  const TemporaryFolder folder;
  const ModelPtr model = LoadModel(COSTATE_TESTDATA "/task_zoo.xml");
  mj_saveModel(model.get(), folder.File("zoo.mjb").c_str(), nullptr, 0);
  const Task task =
      LoadTask(folder.Write("a.task.xml", "<task model='zoo.mjb' horizon='0.1'><cost sensor='gyro'/></task>"));
  EXPECT_EQ(task.user_sensors, task.model->nsensordata);

  // its name may be in capitals, as of every model
  mj_saveModel(model.get(), folder.File("ZOO.MJB").c_str(), nullptr, 0);
  EXPECT_EQ(LoadTask(folder.Write("c.task.xml", "<task model='ZOO.MJB' horizon='0.1'><cost sensor='gyro'/></task>")).N,
            task.N);
  const std::string element =
      folder.Write("b.task.xml", "<task model='zoo.mjb' horizon='0.1'><cost site='tip' quantity='pos'/></task>");
  EXPECT_ERROR(LoadTask(element), ErrorCode::kUnsupported, "b.task.xml:1: <cost>", "compiled model", "'tip'", "MJCF");
}

TEST_F(TaskFile, ReadsUrdf) {
  const TemporaryFolder folder;
  folder.Write("arm.urdf", R"(<robot name="arm"><mujoco><compiler fusestatic="false"/></mujoco>
    <link name="base"><inertial><mass value="1"/>
      <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
    <link name="hand"><inertial><mass value="1"/>
      <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
    <joint name="elbow" type="revolute"><parent link="base"/><child link="hand"/><axis xyz="0 1 0"/>
      <limit lower="-1" upper="1" effort="5" velocity="1"/></joint></robot>)");
  const std::string task =
      folder.Write("arm.task.xml", "<task model='arm.urdf' horizon='0.1'><cost body='hand' quantity='pos'/></task>");
  EXPECT_ERROR(LoadTask(task), ErrorCode::kInvalidArgument, "arm.task.xml:1: <task>", "no actuators (nu = 0)");
}

TEST_F(TaskFile, MarksTheSensorsThatItReads) {
  const Task task = LoadZooTask("<cost sensor='gyro'/>");
  const mjModel* m = task.model.get();
  std::vector<char> read(m->nsensordata, 0), expected = read;
  task.cost->MarkSensors(&read);
  const int gyro = mj_name2id(m, mjOBJ_SENSOR, "gyro");
  std::fill_n(expected.begin() + m->sensor_adr[gyro], 3, 1);
  EXPECT_GT(m->nsensordata, 3);
  EXPECT_EQ(read, expected);
}

TEST_F(TaskFile, IsUnderstoodAlikeInEveryLocale) {
  const std::string path = COSTATE_MODELS "/quadruped/walk.xml", text = Describe(LoadTask(path));
  const support::CommaLocale locale;
  EXPECT_EQ(Describe(LoadTask(path)), text);
}

TEST_F(TaskFile, IsDescribedWithItsSolver) {
  const std::string text =
      Describe(LoadZooTask("<cost ctrl='all'/><solver type='fddp' iterations='7' cost_unit='0.5'/>"));
  EXPECT_NE(text.find("solver    fddp: 7 iterations"), std::string::npos) << text;
  EXPECT_NE(text.find("the unit of the cost is 0.5"), std::string::npos) << text;
}

TEST_F(TaskFile, IsDescribedWithUnitsAndInitialCost) {
  const Task task = LoadZooTask(
      "<start key='home'/><guess key='home'/><cost name='height' body='base' quantity='pos' index='2' target='1.5' "
      "weight='8'/>"
      "<cost name='still' qvel='all' terminal='3' norm='huber' param='0.5'/>",
      "horizon='0.02' controlstep='2' scale='mean'");
  const std::string text = Describe(task);
  for (const char* part : {"zoo.task.xml", "'zoo'", "nq 13, nv 11, na 1, nu 3", "11 numbers of the model, 3 added",
                           "0.02 s: 5 control intervals of 0.004 s (2 steps", "2 of 3", "mean", "height",
                           "body:base.pos[2]", "1.5", "huber 0.5", "m/s and rad/s", "total"}) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in:\n" << text;
  }

  // at the first knots the base is at 1 m: mean of 8 · ½ (1 - 1.5)² is about 1
  EXPECT_NE(text.find("1.0"), std::string::npos) << text;
}

}  // namespace
}  // namespace costate
