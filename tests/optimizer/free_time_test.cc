#include <costate/free_time.h>
#include <costate/solve_task.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "optimizer/finger_and_puck.h"
#include "support/engine_test.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using FreeTime = support::EngineTest;

// 1 kg on a rail, N intervals: q' = q + h v', v' = v + h u
struct RailCase {
  ModelPtr model;
  std::unique_ptr<Cost> cost;
  ConstraintSet constraints;
  Problem problem;
  MatrixXd U;
};

RailCase MakeRail(int N, double r, double u_max) {
  RailCase c;
  c.model = LoadModelFromString(R"(
<mujoco model="rail">
  <option timestep="0.05" gravity="0 0 0" integrator="Euler"/>
  <worldbody><body><joint name="slide" type="slide" axis="1 0 0"/><geom size="0.1" mass="1"/></body></worldbody>
  <actuator><motor joint="slide"/></actuator>
</mujoco>)");
  const mjModel* m = c.model.get();
  const MatrixXd none = MatrixXd::Zero(2, 2);
  c.cost = std::make_unique<QuadraticCost>(m, Eigen::Vector2d::Zero(), none, MatrixXd::Constant(1, 1, r), none);
  c.constraints.Add(MakeGoalConstraint(m, Eigen::Vector2d(1, 0)));
  c.problem.model = m;
  c.problem.cost = c.cost.get();
  c.problem.constraints = &c.constraints;
  c.problem.x0 = Eigen::Vector2d::Zero();
  c.problem.context = GetContext(m, MakeData(m).get());
  c.problem.N = N;
  c.problem.u_lower = VectorXd::Constant(1, -u_max);
  c.problem.u_upper = VectorXd::Constant(1, u_max);
  c.U = MatrixXd::Zero(1, N);
  return c;
}

// full thrust, then full brake: an even number of equal intervals of this integrator gives exactly d = u T² / 4
TEST_F(FreeTime, FindsTheBangBangTimeOfTheDoubleIntegrator) {
  for (const double u_max : {1.0, 4.0}) {
    RailCase c = MakeRail(20, 1e-4, u_max);
    const FreeTimeResult found = SolveFreeTime(c.problem, c.U, {}, {}, {.shortest = 0.4, .longest = 4, .weight = 1});
    const double best = 2 * std::sqrt(1 / u_max);
    EXPECT_NEAR(found.time, best, 3e-3 * best) << found.result.message;
    EXPECT_GE(found.time, best * (1 - 1e-5));
    EXPECT_LE(found.result.violation, 1e-6);
    EXPECT_NEAR(found.model->opt.timestep * 20, found.time, 1e-12);
    EXPECT_NEAR(found.result.trajectory.U(0, 2), u_max, 0.05 * u_max);
    EXPECT_NEAR(found.result.trajectory.U(0, 17), -u_max, 0.05 * u_max);
    EXPECT_NE(found.result.message.find("times from 0.4 s to 4 s"), std::string::npos) << found.result.message;
    EXPECT_EQ(c.model->opt.timestep, 0.05);
  }
}

// a length that no motion may have, as where a solve fails: those between are not kept, whatever the motion
class NotBetween final : public Constraint {
 public:
  NotBetween(double first, double last)
      : Constraint({.name = "length",
                    .unit = "1",
                    .components = {"length"},
                    .lower = VectorXd::Constant(1, -INFINITY),
                    .upper = VectorXd::Zero(1),
                    .first = -1}),
        first_(first),
        last_(last) {}
  void Value(const KnotView& knot, VectorXd* c) const override {
    const double length = knot.N * knot.dt;
    *c = VectorXd::Constant(1, length > first_ && length < last_ ? 1 : -1);
  }
  void Jacobian(const KnotView&, ConstMatrixRef, ConstMatrixRef, MatrixXd* J, MatrixXd* Ju) const override {
    J->setZero(1, 2);
    Ju->resize(1, 0);
  }
  bool NeedsSensors() const override { return false; }

 private:
  double first_, last_;
};

// a solve that fails just above the horizon says nothing of the lengths below it, which is known to do
TEST_F(FreeTime, SeeksShorterMotionsBelowALengthThatFails) {
  RailCase c = MakeRail(20, 1e-4, 1);
  c.problem.N = 20;
  ModelPtr longer = CopyModel(c.model.get());
  longer->opt.timestep = 0.5;
  c.problem.model = longer.get();
  c.constraints.Add(std::make_unique<NotBetween>(10.05, 11));
  const FreeTimeResult found = SolveFreeTime(c.problem, c.U, {}, {}, {.shortest = 1, .longest = 25, .weight = 1});
  EXPECT_NEAR(found.time, 2, 0.01) << found.result.message;
}

// A start that may move within [-½, ¼] and [0, ½] goes to both upper ends, nearest to the goal and fastest towards it:
// with d = ¾ left, u = 1 and v_0 = ½ thrust and brake take T = 2 sqrt(d + ½ h v_0 + ½ v_0²) - v_0, h = T / N, where ½ h
// v_0 is what semi-implicit Euler loses of the trapezoid
TEST_F(FreeTime, MovesAFreeStart) {
  for (const SolverType type : {SolverType::kIlqr, SolverType::kFddp}) {
    RailCase c = MakeRail(40, 1e-4, 1);
    c.problem.free_start = {.entries = {0, 1}, .lower = Eigen::Vector2d(-0.5, 0), .upper = Eigen::Vector2d(0.25, 0.5)};
    const FreeTimeResult found =
        SolveFreeTime(c.problem, c.U, {.type = type}, {}, {.shortest = 0.4, .longest = 4, .weight = 1});
    double best = 1;
    for (int i = 0; i < 30; ++i) best = 2 * std::sqrt(0.75 + 0.25 * best / 40 + 0.125) - 0.5;
    EXPECT_NEAR(found.time, best, 3e-3 * best) << ToString(type) << ": " << found.result.message;
    EXPECT_GE(found.time, best * (1 - 1e-5));
    EXPECT_LE(found.result.violation, 1e-6);
    EXPECT_NEAR(found.result.trajectory.X(0, 0), 0.25, 1e-6);
    EXPECT_NEAR(found.result.trajectory.X(1, 0), 0.5, 1e-6);
  }
}

// An undamped spring returns without effort after 2 pi / 3 s, from any position; at every other length that is tried
// its cycle takes some, least from another start
TEST_F(FreeTime, FindsTheLengthOfACycleWithItsStart) {
  const support::TemporaryFolder folder;
  folder.Write("spring.xml", R"(<mujoco model="spring"><option timestep="0.01" gravity="0 0 0"/>
  <worldbody><body><joint name="slide" type="slide" axis="1 0 0" stiffness="9"/><geom size="0.1" mass="1"/></body></worldbody>
  <actuator><motor joint="slide" ctrlrange="-5 5"/></actuator></mujoco>)");
  for (const char* solver : {"ilqr", "fddp"}) {
    const Task task = LoadTask(folder.Write(
        "spring.task.xml",
        fmt::format(R"xml(<task model="spring.xml" horizon="1.8"><start qvel="1" free="qpos" lower="-1" upper="1"/>
  <guess ctrl="0"/><time shortest="1.2" longest="2.8" weight="0.01"/><cost ctrl="all" weight="1"/>
  <periodic qpos="all" qvel="all"/><solver type="{}"/></task>)xml",
                    solver)));
    const TaskSolution found = SolveTask(task);
    EXPECT_NEAR(found.timed.time, 2 * M_PI / 3, 0.03) << solver << ": " << found.result.message;
    EXPECT_LE(found.result.violation, 1e-6);
  }
}

// effort alone is c / T³, hence c / T³ + w T is least at (3 c / w)^(1/4); c from the effort at one time
TEST_F(FreeTime, WeighsTimeAgainstEffort) {
  RailCase c = MakeRail(20, 0.3, std::numeric_limits<double>::infinity());
  const SolveResult once = SolveConstrained(c.problem, c.U);  // T = 1
  const double w = 2, best = std::pow(3 * once.cost / w, 0.25);
  const FreeTimeResult found =
      SolveFreeTime(c.problem, c.U, {}, {}, {.shortest = 0.3, .longest = 3, .weight = w, .tolerance = 1e-3});
  EXPECT_NEAR(found.time, best, 2e-3 * best);
  EXPECT_NEAR(found.result.cost, once.cost / std::pow(best, 3), 1e-2 * found.result.cost);
  EXPECT_LE(found.trials.size(), 25u);
}

// Solves of a few iterations end a little off the goal: that is no sign that such a motion cannot be had, and the
// search does not turn to longer ones (4 s and 2.63 s were found with 12 and 14 iterations a solve, 2 s is best).
TEST_F(FreeTime, GoesOnWhereOnlyIterationsAreMissing) {
  for (const int iterations : {12, 14, 40}) {
    RailCase c = MakeRail(20, 1e-4, 1);
    const FreeTimeResult found =
        SolveFreeTime(c.problem, c.U, {.iterations = iterations}, {}, {.shortest = 0.4, .longest = 4, .weight = 1});
    EXPECT_NEAR(found.time, 2, 0.02) << iterations << ": " << found.result.message;
    EXPECT_LE(found.result.violation, 1e-6);
  }
}

// What falls may be 1 m lower at the end: 0.45 s last, and none of the first two lengths, between 0.1 s and 3 s, is as
// short. The length that the horizon says is.
TEST_F(FreeTime, TurnsToWhereConstraintsAreKept) {
  const support::TemporaryFolder folder;
  folder.Write("fall.xml", R"(<mujoco model="fall"><option timestep="0.02"/>
  <worldbody><body><joint name="z" type="slide" axis="0 0 1"/><geom size="0.1" mass="1"/></body></worldbody>
  <actuator><motor joint="z" ctrlrange="-1 1"/></actuator></mujoco>)");
  const Task task = LoadTask(folder.Write("fall.task.xml", R"xml(<task model="fall.xml" horizon="0.4">
  <guess ctrl="0"/><time shortest="0.1" longest="3" weight="1"/><cost ctrl="all" weight="1e-3"/>
  <constraint name="above" qpos="z" lower="-1" when="end"/></task>)xml"));
  const TaskSolution found = SolveTask(task);
  EXPECT_NEAR(found.timed.time, 0.1, 0.002) << found.result.message;
  EXPECT_LE(found.result.violation, 1e-6);
}

// A puck straight in front of a wall: from the guess no length leads round it, kicks of one of them do.
TEST_F(FreeTime, GoesOnBeyondTheNearestMinimumWhereNoTimeKeepsConstraints) {
  const support::TemporaryFolder folder;
  folder.Write("wall.xml", R"(
<mujoco>
  <option timestep="0.01" gravity="0 0 0"/>
  <worldbody>
    <geom name="wall" type="box" size=".05 1 .1" pos="0 -.8 .1"/>
    <body pos="-1.1 -.9 .1">
      <joint name="x" type="slide" axis="1 0 0" damping=".5"/><joint name="y" type="slide" axis="0 1 0" damping=".5"/>
      <geom name="puck" type="cylinder" size=".08 .08" mass="1"/>
    </body>
  </worldbody>
  <actuator><motor joint="x" ctrlrange="-10 10"/><motor joint="y" ctrlrange="-10 10"/></actuator>
</mujoco>)");
  const Task task = LoadTask(folder.Write("wall.task.xml", R"(
<task model="wall.xml" horizon="2" controlstep="4">
  <time shortest="0.8" longest="3" tolerance="0.3"/>
  <cost ctrl="all" weight="1e-5"/>
  <constraint name="there" qpos="all" equals="2.2 0" when="end"/>
  <constraint name="rest" qvel="all" equals="0" when="end"/>
  <constraint name="clear" geom="puck" quantity="distance" geom2="wall" lower="0.01"/>
</task>)"));
  const TaskSolution found = SolveTask(task);
  EXPECT_LE(found.result.violation, 1e-6) << found.result.message;
  EXPECT_FALSE(found.rounds.empty());
}

TEST_F(FreeTime, SaysWhenNoTimeIsLongEnough) {
  RailCase c = MakeRail(10, 1e-3, 0.01);
  const FreeTimeResult found = SolveFreeTime(c.problem, c.U, {}, {}, {.shortest = 0.4, .longest = 1, .tolerance = 0.2});
  EXPECT_NE(found.result.status, SolveStatus::kConverged);
  EXPECT_GT(found.result.violation, 0.9);
  EXPECT_NE(found.result.message.find("none was found long enough to keep the constraints, the nearest is"),
            std::string::npos)
      << found.result.message;
}

// two goals, 1 m away and half a metre behind. The guess moves on to 0.37 m at first, where the goal ahead is the
// nearer one, and at times too short for that to less than 0.25 m; motions to the goal ahead do not lead back
TEST_F(FreeTime, SeeksAShorterMotionFromTheGuessToo) {
  const support::TemporaryFolder folder;
  folder.Write("rail.xml", R"(<mujoco model="rail"><option timestep="0.05" gravity="0 0 0"/>
  <worldbody><body><joint name="slide" type="slide" axis="1 0 0"/><geom size="0.1" mass="1"/></body></worldbody>
  <actuator><motor joint="slide" ctrlrange="-1 1"/></actuator></mujoco>)");
  const Task task = LoadTask(folder.Write("rail.task.xml", R"xml(<task model="rail.xml" horizon="2.5">
  <guess ctrl="0.12"/><time shortest="1.2" longest="2.6" weight="1" tolerance="0.003"/><cost ctrl="all" weight="1e-4"/>
  <measure name="q" qpos="slide"/><constraint name="goals" value="(q - 1) * (q + 0.5)" equals="0" when="end"/>
  <constraint name="rest" qvel="all" equals="0" when="end"/></task>)xml"));
  const TaskSolution found = SolveTask(task);
  EXPECT_GT(found.timed.trials.front().time, 2.4);
  const double behind = 2 * std::sqrt(0.5);  // from 2 s on there is the goal ahead, too
  EXPECT_NEAR(found.timed.time, behind, 0.01 * behind) << found.result.message;
  EXPECT_NEAR(found.result.trajectory.X(0, task.N), -0.5, 1e-4);
}

// a puck that nothing touches yet has no slope, at no length of the motion: smooth contact leads to the push, and from
// there on its time is searched
TEST_F(FreeTime, StartsFromWhereSmoothContactHasLed) {
  const support::TemporaryFolder folder;
  folder.Write("push.xml", kFingerAndPuck);
  const auto solve = [&](const std::string& smooth) {
    const Task task = LoadTask(
        folder.Write("push.task.xml",
                     "<task model='push.xml' horizon='1'><cost qpos='puck' target='0.2' terminal='100'/><cost "
                     "ctrl='all' weight='0.01'/>" +
                         smooth + "<time shortest='0.5' longest='1.5' weight='0.5' tolerance='0.02'/></task>"));
    return SolveTask(task);
  };
  EXPECT_NEAR(solve("").result.cost, 2, 1e-12);  // ½ 100 · 0.2²
  const TaskSolution found = solve("<smooth strategy='distance:0.1'/>");
  EXPECT_LT(found.result.cost, 0.1);
  EXPECT_NEAR(found.result.initial_cost, 2, 1e-12);
  EXPECT_LT(found.timed.time, 0.6);
  EXPECT_EQ(found.stages.size(), 6u);

  // the records of both, one after the other
  int iterations = 0;
  for (const ContinuationStage& stage : found.stages) iterations += stage.iterations;
  for (const FreeTimeTrial& trial : found.timed.trials) iterations += trial.iterations;
  ASSERT_EQ(found.result.iterations.size(), static_cast<std::size_t>(iterations));
  EXPECT_EQ(found.result.iterations.back().iteration, iterations);
}

// in the first of several solves, smoothed or not, with the callback's word or the option's
TEST_F(FreeTime, ASearchThatIsStoppedTriesNoOtherTime) {
  const support::TemporaryFolder folder;
  folder.Write("push.xml", kFingerAndPuck);
  for (const char* smooth : {"", "<smooth strategy='distance:0.1'/>"}) {
    Task task = LoadTask(
        folder.Write("push.task.xml",
                     "<task model='push.xml' horizon='1'><cost qpos='finger' target='0.05' terminal='100'/><cost "
                     "ctrl='all' weight='0.01'/>" +
                         std::string(smooth) + "<time shortest='0.5' longest='1.5' weight='0.5'/></task>"));
    task.solver.threads = 1;
    int calls = 0;
    const TaskSolution by_callback =
        SolveTask(task, {.iteration = [&](const IterationRecord&) { return ++calls != 1; }});
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(by_callback.result.status, SolveStatus::kInterrupted) << by_callback.result.message;
    EXPECT_EQ(by_callback.timed.trials.size(), 1u);
    EXPECT_EQ(by_callback.result.iterations.size(), 1u);

    int asked = 0;
    task.solver.stop = [&] { return ++asked == 2; };
    const TaskSolution by_option = SolveTask(task);
    EXPECT_EQ(by_option.result.status, SolveStatus::kInterrupted) << by_option.result.message;
    EXPECT_EQ(by_option.timed.trials.size(), 1u);
    EXPECT_LE(by_option.result.iterations.size(), 1u);
  }
}

TEST_F(FreeTime, RefusesWhatIsMalformed) {
  RailCase c = MakeRail(10, 1e-3, 1);
  EXPECT_ERROR(SolveFreeTime(c.problem, c.U, {}, {}, {.shortest = 0, .longest = 1}), ErrorCode::kInvalidArgument,
               "shortest is 0");
  EXPECT_ERROR(SolveFreeTime(c.problem, c.U, {}, {}, {.shortest = 2, .longest = 1}), ErrorCode::kInvalidArgument,
               "longest is 1");
}

}  // namespace
}  // namespace costate
