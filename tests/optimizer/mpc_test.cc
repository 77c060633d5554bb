// MPC: what it promises of a robot that plans while it moves, in lock-step to the last bit, in threads as far as clocks
// allow.
#include <costate/costate.h>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <string>
#include <thread>

#include "optimizer/constrained_lq.h"
#include "optimizer/finger_and_puck.h"
#include "optimizer/goal_slots.h"
#include "optimizer/mpc_control.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using support::BitwiseEqual;
using support::MatricesNear;
using Mpc = support::EngineTest;

Task CartPole(double rate = 10) {
  Task task = LoadTask(COSTATE_MODELS "/cartpole/swing_up.xml");
  task.mpc.rate = rate;
  return task;
}

// a mass of 1 kg on a rail, pushed by a motor of 100 N; both keyframes at rest
constexpr char kMass[] = R"(
<mujoco model="mass"><option timestep="0.01" gravity="0 0 0"/>
  <worldbody><body name="mass"><joint name="rail" type="slide" axis="1 0 0"/><geom size="0.1" mass="1"/></body></worldbody>
  <actuator><motor name="motor" joint="rail" ctrlrange="-100 100"/></actuator>
  <keyframe><key name="here" qpos="0"/><key name="there" qpos="1"/></keyframe></mujoco>)";

Task MassTask(const std::string& elements) {
  const support::TemporaryFolder folder;
  folder.Write("mass.xml", kMass);
  return LoadTask(
      folder.Write("mass.task.xml", "<task model='mass.xml' horizon='0.2'><start key='here'/>" + elements + "</task>"));
}

// a mass in the plane with a motor for each way; a stand fixed in the world
constexpr char kPlane[] = R"(
<mujoco model="plane"><option timestep="0.01" gravity="0 0 0"/>
  <worldbody>
    <body name="mass"><joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/>
      <geom size="0.1" mass="1"/><site name="mass"/></body>
    <body name="stand" pos="1 0 0.5"><site name="stand" pos="0 0.25 -0.5"/></body>
  </worldbody>
  <actuator><motor joint="x" ctrlrange="-100 100"/><motor joint="y" ctrlrange="-100 100"/></actuator></mujoco>)";

Task PlaneTask(const std::string& elements) {
  const support::TemporaryFolder folder;
  folder.Write("plane.xml", kPlane);
  return LoadTask(folder.Write("plane.task.xml", "<task model='plane.xml' horizon='0.5'><mpc rate='20'/>" + elements +
                                                     "<cost qvel='all' weight='0.1' terminal='1'/></task>"));
}

// another cost that can take its time over each motion, and is not a number at some times of the task
class AwkwardCost final : public Cost {
 public:
  AwkwardCost(const Cost* inner, int milliseconds, double bad_begin, double bad_end)
      : inner_(inner), milliseconds_(milliseconds), bad_begin_(bad_begin), bad_end_(bad_end) {}
  double Value(const KnotView& knot) const override {
    if (!knot.start) throw std::logic_error("the knot's motion begins nowhere");
    if (knot.t == knot.N) std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds_));
    if (knot.t == knot.N && knot.shift > bad_begin_ && knot.shift < bad_end_) return std::nan("");
    return inner_->Value(knot);
  }
  void Expand(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const override {
    inner_->Expand(knot, C, D, out);
  }
  bool NeedsSensors() const override { return inner_->NeedsSensors(); }
  std::vector<CostTermValue> Terms(const Trajectory& trajectory) const override { return inner_->Terms(trajectory); }

 private:
  const Cost* inner_;
  int milliseconds_;
  double bad_begin_, bad_end_;
};

// the cost stays alive beside the one around it
struct Awkward {
  explicit Awkward(Task* task, int milliseconds, double bad_begin = 1e9, double bad_end = 1e9)
      : inner(std::move(task->cost)) {
    task->cost = std::make_unique<AwkwardCost>(inner.get(), milliseconds, bad_begin, bad_end);
  }
  std::unique_ptr<Cost> inner;
};

double Angle(const MpcResult& result, int t) { return result.trajectory.X(1, t); }

// the swing-up takes 2.5 s; then 1 N for 0.1 s turns the pole by some degrees, and it comes back
TEST_F(Mpc, SwingsACartPoleUpAndHoldsItAgainstAPush) {
  Task task = CartPole();
  const int pole = mj_name2id(task.model.get(), mjOBJ_BODY, "pole");
  const MpcResult result =
      RunMpc(task, {.duration = 6, .pushes = {{.body = pole, .force = {1, 0, 0}, .begin = 3.5, .end = 3.6}}});
  ASSERT_TRUE(result.status.ok());
  ASSERT_EQ(result.trajectory.N(), 300);
  const double upright = task.x_goal[1];
  EXPECT_NEAR(Angle(result, 175), upright, 0.02);
  double pushed = 0;
  for (int t = 175; t < 240; ++t) pushed = std::max(pushed, std::abs(Angle(result, t) - upright));
  EXPECT_GT(pushed, 0.02);
  EXPECT_NEAR(Angle(result, 300), upright, 0.02);
  EXPECT_NEAR(result.trajectory.X(0, 300), 0, 0.05);
  EXPECT_TRUE(result.events.empty()) << result.events[0].reason;
  EXPECT_EQ(result.plans, 59);  // one each 5 intervals, the first one before the clock starts
}

// with one thread and with three: every bit is the same. @return the latter
MpcResult RunAtTwoThreadCounts(Task& task, const MpcSimulation& simulation) {
  task.solver.threads = 1;
  const MpcResult one = RunMpc(task, simulation);
  task.solver.threads = 3;
  MpcResult three = RunMpc(task, simulation);
  EXPECT_TRUE(BitwiseEqual(one.trajectory.X, three.trajectory.X));
  EXPECT_TRUE(BitwiseEqual(one.trajectory.U, three.trajectory.U));
  EXPECT_EQ(one.constraints.size(), three.constraints.size());
  for (std::size_t i = 0; i < std::min(one.constraints.size(), three.constraints.size()); ++i) {
    EXPECT_EQ(one.constraints[i].plan.violation, three.constraints[i].plan.violation);
  }
  return three;
}

TEST_F(Mpc, RepeatsEveryBitInLockStepAtAnyThreadCount) {
  MpcSimulation simulation{.duration = 1, .noise_position = 0.01, .noise_velocity = 0.05, .seed = 3};
  Task task = CartPole();
  task.mpc.delay = 0.04;
  const MpcResult three = RunAtTwoThreadCounts(task, simulation);
  simulation.seed = 4;
  EXPECT_FALSE(BitwiseEqual(RunMpc(task, simulation).trajectory.U, three.trajectory.U));
}

// two stiff servos: the plain solve stalls at limits of their forces where the goal is met already, and the robot goes;
// what else would be looked for has time
TEST_F(Mpc, DoesNotWaitForRoundsWhereTheGoalIsMet) {
  const support::TemporaryFolder folder;
  const std::string arm = folder.Write("arm.xml", R"(<mujoco><option timestep="0.01" integrator="implicitfast"/>
    <default><geom type="capsule" size=".03" mass="1" contype="0" conaffinity="0"/><joint axis="0 1 0" damping=".1"/></default>
    <worldbody><body><joint name="a"/><geom fromto="0 0 0 .4 0 0"/>
      <body pos=".4 0 0"><joint name="b"/><geom fromto="0 0 0 .4 0 0"/><site name="tip" pos=".4 0 0"/></body></body></worldbody>
    <actuator><position joint="a" kp="500" kv="20" ctrlrange="-3 3" forcerange="-14 14"/>
      <position joint="b" kp="300" kv="10" ctrlrange="-3 3" forcerange="-6 6"/></actuator></mujoco>)");
  const Task task = MakeReachTask(arm, {.goals = {"site:tip=-0.3,_,0.4"}, .time = 1});
  const MpcResult result = RunMpc(task, {.duration = 0.1});
  EXPECT_EQ(result.first_status, SolveStatus::kStalled) << result.first_plan;
  EXPECT_EQ(result.first_plan.find("without limits of force"), std::string::npos) << result.first_plan;
  EXPECT_EQ(result.first_plan.find("rounds"), std::string::npos) << result.first_plan;
}

// what the robot did is a motion of the task's model under the controls that are on record
TEST_F(Mpc, RecordsAMotionThatARolloutRepeats) {
  const Task task = CartPole();
  const MpcResult result = RunMpc(task, {.duration = 0.6});
  Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  Trajectory again;
  ASSERT_TRUE(simulator.Rollout(task.x0, result.trajectory.U, &again).ok());
  EXPECT_TRUE(BitwiseEqual(again.X, result.trajectory.X));
  EXPECT_TRUE(BitwiseEqual(again.S, result.trajectory.S));
  EXPECT_TRUE(BitwiseEqual(again.context, result.trajectory.context));
  EXPECT_TRUE(BitwiseEqual(again.time, result.trajectory.time));
  EXPECT_EQ(result.cost_per_knot.size(), 31);
  EXPECT_NEAR(result.cost_per_step, result.cost_per_knot.head(30).mean(), 1e-15);
}

// F t = m v: 2 N on 1 kg for 0.5 s, with a cost that wants no control
TEST_F(Mpc, PushesWithTheForceItIsTold) {
  const Task task = MassTask("<guess ctrl='0'/><cost ctrl='all'/>");
  const MpcResult result =
      RunMpc(task, {.duration = 1, .pushes = {{.body = 1, .force = {2, 0, 0}, .begin = 0.2, .end = 0.7}}});
  EXPECT_EQ(result.trajectory.X(1, 20), 0);
  EXPECT_NEAR(result.trajectory.X(1, 70), 1, 1e-9);
  EXPECT_NEAR(result.trajectory.X(1, 100), 1, 1e-9);
}

// 80 ms are four control intervals. With (M3) the cost is that without delay but for a hundredth; without it, several
// times that
TEST_F(Mpc, CompensatesTheDelayOfItsActions) {
  Task task = CartPole();
  const MpcSimulation simulation{.duration = 4};
  const double at_once = RunMpc(task, simulation).cost_per_step;
  task.mpc.delay = 0.08;
  const double compensated = RunMpc(task, simulation).cost_per_step;
  task.mpc.compensate = false;
  const double late = RunMpc(task, simulation).cost_per_step;
  EXPECT_NEAR(compensated, at_once, 0.02 * at_once);
  EXPECT_GT(late, 2 * compensated);
}

// between plans that are 0.5 s apart, gains keep what noise-free controls alone do not
TEST_F(Mpc, FollowsItsPlansWithTheirFeedback) {
  Task task = CartPole(2);
  const int pole = mj_name2id(task.model.get(), mjOBJ_BODY, "pole");
  const MpcSimulation simulation{.duration = 5,
                                 .pushes = {{.body = pole, .force = {1, 0, 0}, .begin = 3.02, .end = 3.12}}};
  const double closed = RunMpc(task, simulation).cost_per_step;
  task.mpc.feedback = false;
  EXPECT_GT(RunMpc(task, simulation).cost_per_step, 2 * closed);
}

// A robot on two wheels, which its motors hold upright: at rest nothing is left to plan, but the plan has its feedback,
// and a push is answered by it. On its way a plan ends with a jolt that stops the wheels; the next one goes on behind
// that with what holds the robot.
constexpr char kSegway[] = R"(
<mujoco model="segway"><option timestep="0.004"/>
  <worldbody><geom name="floor" type="plane" size="10 10 .1"/>
    <body name="base" pos="0 0 .1"><freejoint name="root"/><geom type="capsule" fromto="0 0 0 0 0 .6" size=".04" mass="4"/>
      <geom type="box" pos="0 0 .55" size=".08 .12 .08" mass="3"/><site name="head" pos="0 0 .6"/>
      <body pos="0 .2 0"><joint name="left" axis="0 1 0" damping=".01"/>
        <geom type="cylinder" size=".1 .02" euler="90 0 0" mass=".6"/></body>
      <body pos="0 -.2 0"><joint name="right" axis="0 1 0" damping=".01"/>
        <geom type="cylinder" size=".1 .02" euler="90 0 0" mass=".6"/></body></body></worldbody>
  <actuator><motor joint="left" ctrlrange="-6 6"/><motor joint="right" ctrlrange="-6 6"/></actuator>
  <keyframe><key name="home" qpos="0 0 .1 1 0 0 0 0 0"/></keyframe></mujoco>)";

TEST_F(Mpc, KeepsARobotOnTwoWheelsUprightWhenItIsPushed) {
  const support::TemporaryFolder folder;
  const std::string model = folder.Write("segway.xml", kSegway);
  Task task = MakeReachTask(model, {.start = "home", .goals = {"home"}, .time = 1});
  task.hopping = {};
  const int base = mj_name2id(task.model.get(), mjOBJ_BODY, "base");
  const MpcSimulation simulation{.duration = 1.5,
                                 .pushes = {{.body = base, .force = {20, 0, 0}, .begin = 0.2, .end = 0.3}}};
  const MpcResult result = RunMpc(task, simulation);
  EXPECT_LT((result.trajectory.X.col(result.trajectory.N()) - task.x0).head(7).cwiseAbs().maxCoeff(), 0.02);
}

TEST_F(Mpc, GoesOnBehindThePlansEndByWhatCostsLess) {
  const support::TemporaryFolder folder;
  const std::string model = folder.Write("segway.xml", kSegway);
  Task task = MakeReachTask(model, {.start = "home", .goals = {"site:head=1,_,.7"}, .time = 1});
  task.hopping.rounds = 1;
  const MpcResult result = RunMpc(task, {.duration = 3});
  EXPECT_NEAR(result.trajectory.X(0, result.trajectory.N()), 1, 0.02);
  EXPECT_NEAR(result.trajectory.X(2, result.trajectory.N()), 0.1, 0.02) << "upright";
}

// measured at 0.1 s, due at 0.12 s, there at 0.2 s: four intervals without the plan that was due; the next one is due
// at 0.22 s
TEST_F(Mpc, FallsBackWhileAPlanIsLateAndSaysSo) {
  Task task = CartPole();
  task.mpc.delay = 0.02;
  task.mpc.fallback = MpcFallback::kHold;
  const MpcSimulation simulation{.duration = 0.22, .latency = 0.1};
  const MpcResult hold = RunMpc(task, simulation);
  ASSERT_EQ(hold.events.size(), 1u);
  EXPECT_EQ(hold.events[0].kind, MpcEventKind::kLate);
  EXPECT_NEAR(hold.events[0].time, 0.12, 1e-12);
  EXPECT_NE(hold.events[0].reason.find("plan 1 was due, and takes 0.08 s longer"), std::string::npos)
      << hold.events[0].reason;
  EXPECT_EQ(hold.fallback_steps, 4);
  for (int t = 6; t < 10; ++t) EXPECT_EQ(hold.trajectory.U(0, t), hold.trajectory.U(0, 5)) << t;
  EXPECT_NE(hold.trajectory.U(0, 10), hold.trajectory.U(0, 5));

  // the last plan goes on as if nothing had happened
  task.mpc.fallback = MpcFallback::kPlan;
  const MpcResult plan = RunMpc(task, simulation);
  EXPECT_EQ(plan.fallback_steps, 4);
  EXPECT_TRUE(BitwiseEqual(plan.trajectory.U.leftCols(6), hold.trajectory.U.leftCols(6)));
  EXPECT_NE(plan.trajectory.U(0, 6), plan.trajectory.U(0, 5));
}

// (M4) on one mass: v' = v + h u / m vanishes for u = -m v / h, which is within the limits of a slow mass
TEST_F(Mpc, DampsByTheControlThatTakesMostEnergyOut) {
  Task task = MassTask("<cost qpos='all' target='key:there' weight='0.05'/><cost ctrl='all' weight='0.001'/>");
  task.mpc.rate = 10;
  task.mpc.delay = 0.01;
  task.mpc.fallback = MpcFallback::kDamp;
  const MpcResult result = RunMpc(task, {.duration = 0.2, .latency = 0.08});
  const double moving = result.trajectory.X(1, 11);
  ASSERT_GT(std::abs(moving), 0.01);
  ASSERT_LT(std::abs(moving), 0.9);
  EXPECT_NEAR(result.trajectory.U(0, 11), -moving / 0.01, 1e-4 * moving / 0.01);
  EXPECT_NEAR(result.trajectory.X(1, 12), 0, 1e-4 * moving);
}

// one interval of rest on the mass's rail
MpcPlanPtr RestPlan(const Task& task) {
  auto plan = std::make_shared<MpcPlan>();
  plan->knot_time = 0.01;
  Simulator simulator(task.model.get(), task.context, 1, 1);
  EXPECT_TRUE(simulator.Rollout(task.x0, MatrixXd::Constant(1, 1, 3), &plan->motion).ok());
  plan->K.assign(1, MatrixXd::Constant(1, 2, 1e300));
  return plan;
}

// v' = v + h (u + d) / m vanishes for u = -m v / h - d, where d is the force that has been estimated
TEST_F(Mpc, DampsAgainstTheForceThatItKnowsOf) {
  Task task = MassTask("<cost ctrl='all' weight='0.001'/>");
  task.mpc.fallback = MpcFallback::kDamp;
  const Problem problem = task.ToProblem();
  std::vector<MpcEvent> events;
  MpcControl control(task, problem, &events);
  control.Take(RestPlan(task), 0, 0, "");
  control.SetLate(0, "late");
  const MpcMeasurement measured{.x = Eigen::Vector2d(0, 0.5),
                                .moving = GetMovingContext(task.model.get(), MakeData(task.model.get()).get()),
                                .force = VectorXd::Constant(1, 20)};
  EXPECT_NEAR(control.At(0, measured)[0], -70, 1e-3);
}

TEST_F(Mpc, HoldsTheLastControlWhereFeedbackOverflows) {
  const Task task = MassTask("<cost ctrl='all' weight='0.001'/>");
  const Problem problem = task.ToProblem();
  const MpcPlanPtr plan = RestPlan(task);
  VectorXd u = VectorXd::Constant(1, 7);
  EXPECT_FALSE(plan->Control(problem, true, 0, Eigen::Vector2d(1e10, 0), &u));
  EXPECT_EQ(u[0], 7) << "not its own";
  EXPECT_TRUE(plan->Control(problem, false, 0, Eigen::Vector2d(1e10, 0), &u));
  EXPECT_EQ(u[0], 3);

  std::vector<MpcEvent> events;
  MpcControl control(task, problem, &events);
  control.Take(plan, 0, 0, "");
  EXPECT_EQ(control.At(0, {.x = Eigen::Vector2d(1e10, 0), .moving = {}})[0], 0) << "of the guess";
  ASSERT_EQ(events.size(), 1u);
  EXPECT_NE(events[0].reason.find("has a control that is not finite"), std::string::npos) << events[0].reason;
}

TEST_F(Mpc, DoesNotTakeAPlanThatCannotBeSimulated) {
  Task task = CartPole();
  const Awkward awkward(&task, 0, 0.25, 0.45);  // plans from 0.3 and 0.4 s on
  const MpcResult result = RunMpc(task, {.duration = 0.7});
  ASSERT_EQ(result.events.size(), 2u);
  EXPECT_EQ(result.events[0].kind, MpcEventKind::kDiverged);
  EXPECT_NEAR(result.events[0].time, 0.3, 1e-12);
  EXPECT_NEAR(result.events[1].time, 0.4, 1e-12);
  EXPECT_NE(result.events[0].reason.find("plan 3 is not taken"), std::string::npos) << result.events[0].reason;
  EXPECT_NE(result.events[0].reason.find("not finite"), std::string::npos) << result.events[0].reason;
  EXPECT_EQ(result.fallback_steps, 10);
  EXPECT_TRUE(result.status.ok());
}

// a plan of 0.2 s, and the next one takes 0.4 s
TEST_F(Mpc, HoldsTheLastControlBehindTheEndOfAPlan) {
  Task task = CartPole();
  task.mpc.horizon = 0.2;
  const MpcResult result = RunMpc(task, {.duration = 0.4, .latency = 0.4});
  ASSERT_EQ(result.events.size(), 2u);
  EXPECT_EQ(result.events[0].kind, MpcEventKind::kLate);
  EXPECT_EQ(result.events[1].kind, MpcEventKind::kExhausted);
  EXPECT_NEAR(result.events[1].time, 0.2, 1e-12);
  for (int t = 10; t < 20; ++t) EXPECT_EQ(result.trajectory.U(0, t), result.trajectory.U(0, 9)) << t;
}

// the target goes from 0 to 1 m in 1 s, far beyond the 0.2 s of a plan
TEST_F(Mpc, FollowsAReferenceThroughAllPlans) {
  Task task =
      MassTask("<cost qpos='all' target='key:here@0 key:there@1' weight='1000'/><cost ctrl='all' weight='0.0001'/>");
  const MpcResult result = RunMpc(task, {.duration = 0.9});
  for (const int t : {30, 60, 90}) EXPECT_NEAR(result.trajectory.X(0, t), 0.01 * t, 0.01);
}

// knots of 20 ms in plans, controls each 10 ms
TEST_F(Mpc, PlansWithATimestepOfItsOwn) {
  Task task = MassTask(
      "<cost qpos='all' target='key:there' weight='10'/><cost qvel='all' weight='0.1'/><cost ctrl='all' "
      "weight='0.001'/>");
  task.mpc.timestep = 0.02;
  task.mpc.horizon = 0.4;
  const MpcResult result = RunMpc(task, {.duration = 2});
  EXPECT_NEAR(result.trajectory.X(0, 200), 1, 0.01);
  EXPECT_NEAR(result.trajectory.X(1, 200), 0, 0.02);
}

TEST_F(Mpc, PlansBesideTheRobotInRealTime) {
  Task task = CartPole();
  task.mpc.rate = 0;
  const MpcResult result = RunMpc(task, {.duration = 0.5, .threads = true});
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(result.trajectory.N(), 25);
  EXPECT_TRUE(result.trajectory.X.allFinite());
  EXPECT_GT(result.plans, 0);
  EXPECT_LE(result.plans, 25);
  EXPECT_GE(result.latency.size() + 1, static_cast<std::size_t>(result.plans));  // the last one may still be on its way
  EXPECT_GE(result.seconds, 0.48);
  EXPECT_LE(result.Latency(0.5), result.Latency(0.99));
  EXPECT_LE(result.Latency(0.99), result.Latency(1));
}

// no plan can be there after 10 ms when each of its motions takes 60
TEST_F(Mpc, IsLateInRealTimeWhenPlansTakeTooLong) {
  Task task = CartPole();
  task.mpc.rate = 0;
  task.mpc.delay = 0.01;
  task.solver.iterations = 1;
  const Awkward awkward(&task, 60);
  const MpcResult result = RunMpc(task, {.duration = 0.5, .threads = true});
  ASSERT_FALSE(result.events.empty());
  EXPECT_EQ(result.events[0].kind, MpcEventKind::kLate);
  EXPECT_GT(result.fallback_steps, 2);
  EXPECT_GT(result.Latency(0.5), 0.06);
}

TEST_F(Mpc, EndsWhenTheCallbackSaysSo) {
  const Task task = CartPole();
  const MpcResult result = RunMpc(task, {.duration = 2}, [](int steps) { return steps < 7; });
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.trajectory.N(), 7);
  EXPECT_EQ(result.trajectory.X.cols(), 8);
}

TEST_F(Mpc, ReadsItsSettingsFromTheTask) {
  const Task task = MassTask(
      "<cost ctrl='all'/><mpc rate='50' horizon='0.1' timestep='0.02' delay='0.005' budget='0.01' "
      "iterations='3' fallback='damp' compensate='false' feedback='false' estimate='0.3'/>");
  EXPECT_EQ(task.mpc.estimate, 0.3);
  EXPECT_EQ(task.mpc.rate, 50);
  EXPECT_EQ(task.mpc.horizon, 0.1);
  EXPECT_EQ(task.mpc.timestep, 0.02);
  EXPECT_EQ(task.mpc.delay, 0.005);
  EXPECT_EQ(task.mpc.budget, 0.01);
  EXPECT_EQ(task.mpc.iterations, 3);
  EXPECT_EQ(task.mpc.fallback, MpcFallback::kDamp);
  EXPECT_FALSE(task.mpc.compensate);
  EXPECT_FALSE(task.mpc.feedback);
}

// as costate optimize finds it: the first control interval is that of Solve's motion
TEST_F(Mpc, MakesTheFirstPlanAsTheTaskSays) {
  Task task = CartPole();
  const double usual = RunMpc(task, {.duration = 0.1}).trajectory.U(0, 0);
  task.solver.iterations = 3;
  task.solver.type = SolverType::kFddp;
  const MpcResult shooting = RunMpc(task, {.duration = 0.1});
  const SolveResult solved = Solve(task.ToProblem(), task.ToGuess(), task.solver);
  ASSERT_GT(std::abs(solved.trajectory.U(0, 0) - usual), 1e-3);
  EXPECT_EQ(shooting.trajectory.U(0, 0), solved.trajectory.U(0, 0));
  EXPECT_EQ(shooting.first_plan, solved.message);
  task.X_guess = task.x0.replicate(1, task.N + 1);
  task.X_guess.row(1).setLinSpaced(task.x0[1], task.x_goal[1]);
  const SolveResult from_states = Solve(task.ToProblem(), task.ToGuess(), task.solver);
  ASSERT_NE(from_states.message, solved.message);
  EXPECT_EQ(RunMpc(task, {.duration = 0.1}).first_plan, from_states.message);
  task.solver.type = SolverType::kIlqr;
  EXPECT_ERROR(RunMpc(task, {.duration = 0.1}), ErrorCode::kInvalidArgument, "states");

  task.X_guess.resize(0, 0);
  task.sampling = {.samples = 8, .iterations = 2};
  const MatrixXd sampled = SampleControls(task.ToProblem(), task.U_guess, task.sampling).U;
  EXPECT_EQ(RunMpc(task, {.duration = 0.1}).first_plan, SolveIlqr(task.ToProblem(), sampled, task.solver).message);
}

TEST_F(Mpc, MakesTheFirstPlanByWayOfSmoothContacts) {
  Task task = LoadTask(COSTATE_MODELS "/toss/bin.xml");
  task.solver.iterations = task.continuation.stage_iterations = 2;
  task.hopping.rounds = 0;
  ASSERT_TRUE(task.continuation.smooth.any());
  const ContinuationResult solved = SolveContinuation(task.ToProblem(), task.U_guess, task.solver, task.continuation);
  const MpcResult result = RunMpc(task, {.duration = 0.04});
  EXPECT_EQ(result.first_plan, solved.result.message + "; " + solved.message);
  EXPECT_EQ(result.trajectory.U(0, 0), solved.result.trajectory.U(0, 0));
}

TEST_F(Mpc, MakesTheFirstPlanByHopping) {
  Task task = MassTask(
      "<cost name='place' qpos='rail' target='1' terminal='10'/><cost name='effort' ctrl='all' weight='1e-4'/>"
      "<hopping rounds='2'/>");
  const BasinHoppingResult found = SolveBasinHopping(task.ToProblem(), task.ToGuess(), task.solver, task.hopping);
  EXPECT_EQ(RunMpc(task, {.duration = 0.1}).first_plan, found.result.message);
}

// a puck that nothing touches: a solve that never leaves its guess is followed by kicks, and is told where none follow
TEST_F(Mpc, MakesTheFirstPlanByHoppingWhereNoControlMattersYet) {
  const support::TemporaryFolder folder;
  folder.Write("push.xml", kFingerAndPuck);
  Task task = LoadTask(folder.Write(
      "push.task.xml",
      "<task model='push.xml' horizon='1'><cost name='puck' qpos='puck' target='0.2' terminal='100'/><cost "
      "ctrl='all' weight='0.01'/></task>"));
  ASSERT_GT(task.hopping.rounds, 0);
  const SolveResult found = SolveTask(task).result;
  const MpcResult result = RunMpc(task, {.duration = 0.02});
  EXPECT_EQ(result.first_plan, found.message);
  EXPECT_TRUE(result.first_gained);
  EXPECT_EQ(result.trajectory.U(0, 0), found.trajectory.U(0, 0));

  task.hopping.rounds = 0;
  const MpcResult alone = RunMpc(task, {.duration = 0.02});
  EXPECT_EQ(alone.first_plan, SolveTask(task).result.message);
  EXPECT_EQ(alone.first_plan.find("no control changes 'puck' along this motion"), 0u) << alone.first_plan;
  EXPECT_EQ(alone.first_status, SolveStatus::kStalled);
  EXPECT_FALSE(alone.first_gained);
}

TEST_F(Mpc, EndsWhileTheFirstPlanIsMade) {
  const Task task = CartPole();
  int calls = 0;
  const MpcResult result = RunMpc(task, {.duration = 1}, [&](int steps) {
    EXPECT_EQ(steps, 0);
    return ++calls < 3;
  });
  EXPECT_EQ(calls, 3);
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.trajectory.N(), 0);
}

// intervals of 20 ms: no more plans a second than the rate, be it no whole number of intervals or next to none
TEST_F(Mpc, PlansNoFasterThanItsRate) {
  EXPECT_EQ(RunMpc(CartPole(35), {.duration = 0.4}).plans, 9);
  EXPECT_EQ(RunMpc(CartPole(1e-12), {.duration = 0.4}).plans, 0);
  EXPECT_EQ(RunMpc(CartPole(1e12), {.duration = 0.4}).plans, 19);
}

TEST_F(Mpc, RefusesWhatPlansDoNotKeep) {
  const auto refused = [](const std::string& element) { return MassTask("<cost ctrl='all'/>" + element); };
  EXPECT_ERROR(RunMpc(refused("<periodic name='gait' qpos='all'/>"), {}), ErrorCode::kUnsupported,
               "<periodic> 'gait qpos'", "plans begin elsewhere");
  EXPECT_ERROR(RunMpc(refused("<time shortest='0.1' longest='0.3'/>"), {}), ErrorCode::kUnsupported, "<time>",
               "0.1 and 0.3");
}

// ---- constraints
// ------------------------------------------------------------------------------------------------------

// the mass with a motor of so many newtons
Task LimitedMassTask(double horizon, double force, const std::string& elements) {
  const support::TemporaryFolder folder;
  std::string model = kMass;
  model.replace(model.find("-100 100"), 8, fmt::format("{} {}", -force, force));
  folder.Write("mass.xml", model);
  return LoadTask(folder.Write("mass.task.xml",
                               fmt::format("<task model='mass.xml' horizon='{}'>", horizon) + elements + "</task>"));
}

const MpcConstraintReport& ReportOf(const MpcResult& result, const std::string& name) {
  for (const MpcConstraintReport& report : result.constraints) {
    if (report.plan.name == name) return report;
  }
  throw std::runtime_error("no report of " + name);
}

// the speed 1 m/s after N = 10 steps of h = 10 ms at ½ r u² h a step: u = 1/(N h) everywhere, lambda = -r u, and kappa
// of (C8) is r/(N h)
TEST_F(Mpc, FindsTheMultipliersOfALinearQuadraticProblem) {
  constexpr int N = 10;
  constexpr double h = 0.01, r = 0.5;
  const ModelPtr model = LoadModelFromString(kMass);
  const VectorXd x = VectorXd::Zero(2), u = VectorXd::Zero(1), none;
  const QuadraticCost cost(model.get(), x, MatrixXd::Zero(2, 2), MatrixXd::Constant(1, 1, r), MatrixXd::Zero(2, 2));
  ConstraintSet constraints;
  ConstraintInfo info;
  info.name = "speed";
  info.lower = info.upper = VectorXd::Ones(1);
  info.first = -1;
  constraints.Add(std::make_unique<StateConstraint>(model.get(), info, x, std::vector<int>{1}));
  ConstrainedLq constrained(model.get(), cost, constraints, N, 1e-9);
  LqProblem lq;
  lq.knots.resize(N);
  const auto expand = [&] {
    CostExpansion e;
    for (int t = 0; t < N; ++t) {
      constrained.Expand({.t = t, .N = N, .time = t * h, .dt = h, .x = x, .u = u, .s = none}, MatrixXd(), MatrixXd(),
                         &e);
      LqKnot& knot = lq.knots[static_cast<std::size_t>(t)];
      knot.A = MatrixXd{{1, h}, {0, 1}};
      knot.B = MatrixXd{{h * h}, {h}};
      knot.lx = e.lx;
      knot.lu = e.lu;
      knot.lxx = e.lxx;
      knot.lux = e.lux;
      knot.luu = e.luu;
    }
    constrained.Expand({.t = N, .N = N, .time = N * h, .dt = h, .x = x, .u = none, .s = none}, MatrixXd(), MatrixXd(),
                       &e);
    lq.lx = e.lx;
    lq.lxx = e.lxx;
  };
  expand();
  RiccatiResult riccati;
  constrained.Solve(&lq, 0, &riccati);
  ASSERT_TRUE(riccati.ok);
  EXPECT_TRUE(constrained.exact());
  EXPECT_NEAR(constrained.augmented.rho[0], 300 * r / (N * h), 1e-9);
  EXPECT_NEAR(constrained.augmented.lambda[0](0, N), -10 * r, 1e-6);
  EXPECT_NEAR(riccati.k(0, 0), 10, 1e-6);

  // bounds that allow a tenth of it: all of them, and an end that nothing reaches is dear, not infinitely so: (C7e)
  expand();
  constrained.augmented.lambda[0].setZero();
  for (LqKnot& knot : lq.knots) {
    knot.du_lower = VectorXd::Constant(1, -1);
    knot.du_upper = VectorXd::Constant(1, 1);
  }
  constrained.Solve(&lq, 0, &riccati);
  ASSERT_TRUE(riccati.ok);
  EXPECT_TRUE(constrained.exact());
  EXPECT_NEAR(constrained.augmented.lambda[0](0, N), -r / (N * h), 1e-6);
  EXPECT_NEAR(riccati.k(0, 0), 1, 1e-6);
}

// the least effort from rest at 0 to rest at 1 m within T = 1 s, no faster than v = 1.2 m/s: the force falls linearly
// from 2 v / t1 to 0 until t1 = 1.5 (T - 1 / v) = 0.25 s, v is held, and all goes backwards. What is left of an optimal
// motion is optimal from where it begins, so plans do not change it, although each goes on behind T
TEST_F(Mpc, FollowsTheConstrainedOptimum) {
  const Task task = LimitedMassTask(
      1.2, 100,
      "<start key='here'/><cost ctrl='all'/><constraint name='there' qpos='all' equals='key:there' when='1'/>"
      "<constraint name='rest' qvel='all' equals='0' when='1'/>"
      "<limit name='speed' joint='all' quantity='velocity' upper='1.2'/>");
  const MpcResult result = RunMpc(task, {.duration = 1.1});
  const MatrixXd &X = result.trajectory.X, &U = result.trajectory.U;
  EXPECT_TRUE(result.events.empty());
  EXPECT_NEAR(X(0, 100), 1, 1e-5);
  EXPECT_NEAR(X(1, 100), 0, 1e-4);
  EXPECT_LT(X.row(1).maxCoeff(), 1.2 + 1e-5);
  EXPECT_NEAR(U(0, 0), 9.6, 0.5);  // steps of 10 ms of the 250 that the force takes to fall: 4 %
  EXPECT_NEAR(0.5 * 0.01 * U.row(0).head(100).squaredNorm(), 7.68, 0.2);
  for (int t = 30; t < 70; ++t) EXPECT_NEAR(X(1, t), 1.2, 1e-3) << t;
  const SolveResult optimum = Solve(task.ToProblem(), task.ToGuess(), task.solver, {}, task.constrained);
  EXPECT_TRUE(MatricesNear(U.leftCols(100), optimum.trajectory.U.leftCols(100), 0.02));
  const MpcConstraintReport& speed = ReportOf(result, "speed");
  EXPECT_LT(speed.motion.violation, 1e-5);
  EXPECT_EQ(speed.violation_per_knot.size(), 111);
  EXPECT_EQ(ReportOf(result, "there").motion.knot, 100);
}

// a window that comes into the plan's end is met at once by the controls of the least effort, although by the bounds at
// the motion as it is, at rest, the last of them would all be at full force: half a metre in half a second, with force
// to spare and with little
TEST_F(Mpc, PreparesForAWindowAsSoonAsAPlanReachesIt) {
  for (const double force : {20.0, 6.0}) {
    const std::string costs = "<start key='here'/><cost ctrl='all' weight='0.01'/><cost qvel='all' weight='0.1'/>";
    Task task = LimitedMassTask(3, force, costs + "<constraint name='there' qpos='all' lower='0.5' when='1 1.5'/>");
    task.mpc.horizon = 0.5;
    const MpcResult result = RunMpc(task, {.duration = 1.5});
    const Task plan =
        LimitedMassTask(0.5, force, costs + "<constraint name='there' qpos='all' lower='0.5' when='end'/>");
    const SolveResult optimum = Solve(plan.ToProblem(), plan.ToGuess(), plan.solver, {}, plan.constrained);
    EXPECT_TRUE(result.trajectory.U.leftCols(50).isZero(1e-9)) << force;
    EXPECT_NEAR(result.trajectory.U(0, 50), optimum.trajectory.U(0, 0), 1e-4) << force;
    EXPECT_LT(ReportOf(result, "there").motion.violation, 1e-5) << force;
  }
}

// half a metre of rail to each side, where without the limit it takes 0.9
TEST_F(Mpc, SwingsUpOnAShortRail) {
  Task task = LoadTask(COSTATE_MODELS "/cartpole/short_rail.xml");
  const MpcResult result = RunMpc(task, {.duration = 4});
  ASSERT_TRUE(result.status.ok());
  EXPECT_NEAR(Angle(result, 200), task.x_goal[1], 0.01);
  EXPECT_LT(result.trajectory.X.row(0).cwiseAbs().maxCoeff(), 0.5 + 1e-4);
  EXPECT_LT(result.trajectory.X.row(2).cwiseAbs().maxCoeff(), 2.5 + 1e-4);
  EXPECT_GT(result.trajectory.X.row(0).cwiseAbs().maxCoeff(), 0.499);  // it is used

  // the worst of the record is the worst of the motion
  const MpcConstraintReport& rail = ReportOf(result, "rail");
  EXPECT_EQ(rail.motion.violation, std::max(0.0, result.trajectory.X.row(0).cwiseAbs().maxCoeff() - 0.5));
  EXPECT_EQ(result.plans_taken, result.plans + 1);
  EXPECT_GE(result.constraints[0].motion.relative, result.constraints[1].motion.relative);
}

TEST_F(Mpc, RepeatsEveryBitWithinConstraints) {
  Task task = LoadTask(COSTATE_MODELS "/cartpole/short_rail.xml");
  task.mpc.rate = 20;
  task.mpc.delay = 0.02;
  ASSERT_FALSE(task.constraints.size() == 0);
  RunAtTwoThreadCounts(task, {.duration = 1.2, .noise_position = 0.001, .noise_velocity = 0.01, .seed = 3});
}

// a start at 3 m/s where 1 is allowed, and a motor that takes 0.2 s to brake: no control keeps the limit before
TEST_F(Mpc, RecoversFromAStartThatNoControlAllows) {
  const Task task =
      LimitedMassTask(0.3, 10,
                      "<start qpos='0' qvel='3'/><cost ctrl='all' weight='0.01'/><cost qvel='all' target='5'/>"
                      "<limit name='speed' joint='all' quantity='velocity' lower='-1' upper='1'/>");
  const MpcResult result = RunMpc(task, {.duration = 1});
  ASSERT_TRUE(result.trajectory.X.allFinite());
  const auto speed = result.trajectory.X.row(1);
  EXPECT_NEAR(speed[10], 2, 0.05);  // at full brakes
  for (int t = 22; t <= 100; ++t) EXPECT_LT(speed[t], 1 + 1e-3) << t;
  EXPECT_NEAR(speed[100], 1, 1e-2);  // as fast as it may
  EXPECT_NEAR(ReportOf(result, "speed").motion.violation, 1.9, 1e-2);
}

// 1 m lies beyond what 10 N reach from rest to rest in a plan of 0.2 s, ¼ F T² = 0.1 m, until the end is near
TEST_F(Mpc, ComesToAnEndThatFirstPlansCannotReach) {
  const Task task = LimitedMassTask(0.2, 10,
                                    "<start key='here'/><cost ctrl='all' weight='0.001'/>"
                                    "<constraint name='there' qpos='all' equals='key:there' when='end'/>"
                                    "<constraint name='rest' qvel='all' equals='0' when='end'/>");
  const MpcResult result = RunMpc(task, {.duration = 3});
  ASSERT_TRUE(result.trajectory.X.allFinite());
  EXPECT_NEAR(result.trajectory.X(0, 300), 1, 1e-3);
  EXPECT_NEAR(result.trajectory.X(1, 300), 0, 1e-3);
  EXPECT_EQ(ReportOf(result, "there").motion.knot, -1);
  EXPECT_GT(ReportOf(result, "there").plan.violation, 0.5);
}

// a product of force and velocity: what the motor delivers, counted from states and controls by hand
TEST_F(Mpc, KeepsTheLimitOfAMotorsPower) {
  const Task task =
      LimitedMassTask(0.5, 10,
                      "<start key='here'/><cost qpos='all' target='key:there' weight='100' terminal='100'/>"
                      "<cost qvel='all' weight='0.1' terminal='10'/><cost ctrl='all' weight='0.01'/>"
                      "<limit name='power' actuator='all' quantity='power' upper='3'/>");
  const MpcResult result = RunMpc(task, {.duration = 2});
  const int N = result.trajectory.N();
  const double most = (result.trajectory.U.row(0).array() * result.trajectory.X.row(1).head(N).array()).maxCoeff();
  EXPECT_LT(most, 3 + 1e-4);
  EXPECT_GT(most, 2.99);
  EXPECT_NEAR(result.trajectory.X(0, N), 1, 0.01);
}

// a servo that the hand's path asks for more than speeds, torques and powers allow, a plan of one iteration an interval:
// rounds of multipliers alone do not end there
TEST_F(Mpc, KeepsLimitsThatAreReachedAllTheTime) {
  const support::TemporaryFolder folder;
  folder.Write("arm.xml",
               "<mujoco><option timestep='.002' integrator='implicitfast'/><default><geom contype='0' conaffinity='0'/>"
               "</default><worldbody><body pos='0 0 1'><joint name='shoulder' axis='0 1 0' armature='.1'/>"
               "<geom type='capsule' size='.05' fromto='0 0 0 .4 0 0' mass='8'/><body pos='.4 0 0'>"
               "<joint name='elbow' axis='0 1 0' armature='.1'/><geom type='capsule' size='.04' fromto='0 0 0 .4 0 0' "
               "mass='4'/><site name='tip' pos='.4 0 0'/></body></body></worldbody><actuator>"
               "<position joint='shoulder' kp='2000' kv='100' ctrlrange='-6 6' forcerange='-150 150'/>"
               "<position joint='elbow' kp='2000' kv='100' ctrlrange='-6 6' forcerange='-150 150'/></actuator>"
               "<keyframe><key name='home' qpos='-.6 1.5' ctrl='-.6 1.5'/></keyframe></mujoco>");
  std::string circle = "time,x,y,z\n";
  for (int i = 0; i <= 150; ++i) {
    const double angle = 0.1 * i;
    circle += fmt::format("{},{},0,{}\n", 0.02 * i, 0.5 + 0.2 * std::cos(angle), 1 + 0.2 * std::sin(angle));
  }
  folder.Write("circle.csv", circle);
  const Task task = LoadTask(folder.Write(
      "task.xml",
      "<task model='arm.xml' horizon='.5' controlstep='5'><start key='home'/><guess key='home'/>"
      "<cost site='tip' quantity='pos' target='file:circle.csv' weight='100'/><cost ctrl='all' target='key:home' "
      "weight='1e-3'/><cost qvel='all' weight='1e-3'/>"
      "<limit name='speed' joint='all' quantity='velocity' lower='-2' upper='2'/>"
      "<limit name='torque' actuator='all' quantity='force' lower='-70' upper='70'/>"
      "<limit name='power' actuator='all' quantity='power' upper='40'/></task>"));
  const MpcResult result = RunMpc(task, {.duration = 2});
  for (const MpcConstraintReport& report : result.constraints)
    EXPECT_LT(report.motion.relative, 1e-3) << report.plan.name;
  const double speed = result.trajectory.X.bottomRows(2).cwiseAbs().maxCoeff();
  EXPECT_GT(speed, 1.99);
}

// a cost of next to nothing across the limits leaves their multipliers: penalties are theirs
TEST_F(Mpc, KeepsTheLimitsOfSpeedThatAllJointsAreAt) {
  const support::TemporaryFolder folder;
  folder.Write("arm.xml",
               "<mujoco><option timestep='.005'/><default><geom contype='0' conaffinity='0'/></default><worldbody>"
               "<body pos='0 0 1'><joint name='shoulder' axis='0 1 0' damping='.05'/>"
               "<geom type='capsule' size='.03' fromto='0 0 0 .3 0 0'/><body pos='.3 0 0'>"
               "<joint name='elbow' axis='0 1 0' damping='.05'/><geom type='capsule' size='.02' fromto='0 0 0 .3 0 0'/>"
               "<site name='tip' pos='.3 0 0'/></body></body></worldbody><actuator>"
               "<motor joint='shoulder' ctrlrange='-40 40'/><motor joint='elbow' ctrlrange='-15 15'/></actuator>"
               "<keyframe><key name='home' qpos='1.2 .5'/></keyframe></mujoco>");
  const Task task = LoadTask(folder.Write(
      "task.xml",
      "<task model='arm.xml' horizon='.6' controlstep='2'><start key='home'/><cost site='tip' quantity='pos' "
      "target='.4 0 1.3' weight='100' terminal='100'/><cost ctrl='all' target='guess' weight='1e-5'/>"
      "<cost qvel='all' weight='.01'/><limit joint='all' quantity='velocity' lower='-1' upper='1'/></task>"));
  const MpcResult result = RunMpc(task, {.duration = 0.6});
  ASSERT_TRUE(result.status.ok());
  const double most = result.trajectory.X.bottomRows(2).cwiseAbs().maxCoeff();
  EXPECT_LT(most, 1 + 1e-4);
  EXPECT_GT(most, 0.99);
}

// a disc between start and goal, a centimetre to be kept: half a centimetre beside the line there is no straight way
TEST_F(Mpc, DrivesAroundAnObstacle) {
  const support::TemporaryFolder folder;
  folder.Write("plane.xml", R"(<mujoco model="plane"><option timestep="0.02" gravity="0 0 0"/>
  <worldbody><geom name="post" pos="0.5 0.005 0" size="0.15" contype="0" conaffinity="0"/>
    <body name="mass"><joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/>
      <geom name="mass" size="0.1" mass="1" contype="0" conaffinity="0"/></body></worldbody>
  <actuator><motor joint="x" ctrlrange="-5 5"/><motor joint="y" ctrlrange="-5 5"/></actuator>
  <keyframe><key name="here" qpos="0 0"/><key name="there" qpos="1 0"/></keyframe></mujoco>)");
  const Task task = LoadTask(
      folder.Write("plane.task.xml",
                   "<task model='plane.xml' horizon='0.8'><start key='here'/><cost qpos='all' target='key:there' "
                   "weight='5' terminal='50'/>"
                   "<cost qvel='all' weight='0.5' terminal='5'/><cost ctrl='all' weight='0.05'/>"
                   "<constraint name='clear' geom='mass' quantity='distance' geom2='post' lower='0.01'/></task>"));
  const MpcResult result = RunMpc(task, {.duration = 4});
  const int N = result.trajectory.N();
  double nearest = 1;
  for (int t = 0; t <= N; ++t)
    nearest = std::min(nearest, (result.trajectory.X.col(t).head(2) - Eigen::Vector2d(0.5, 0.005)).norm() - 0.25);
  EXPECT_GT(nearest, 0.01 - 1e-3);
  EXPECT_LT(nearest, 0.02);  // no wider than it must
  EXPECT_NEAR(result.trajectory.X(0, N), 1, 0.01);
  EXPECT_NEAR(result.trajectory.X(1, N), 0, 0.01);
}

// ½ v² ≤ 0.5, with a Jacobian of its own
class KineticEnergy final : public Constraint {
 public:
  KineticEnergy()
      : Constraint({.name = "energy",
                    .unit = "J",
                    .components = {"energy"},
                    .lower = VectorXd::Constant(1, -INFINITY),
                    .upper = VectorXd::Constant(1, 0.5)}) {}
  void Value(const KnotView& knot, VectorXd* c) const override {
    *c = VectorXd::Constant(1, 0.5 * knot.x[1] * knot.x[1]);
  }
  void Jacobian(const KnotView& knot, ConstMatrixRef, ConstMatrixRef, MatrixXd* J, MatrixXd* Ju) const override {
    J->setZero(1, 2);
    (*J)(0, 1) = knot.x[1];
    Ju->resize(1, 0);
  }
  bool NeedsSensors() const override { return false; }
};

// a first plan that solves of the cost itself miss is led back within the constraints, and has no multipliers
TEST_F(Mpc, FirstPlanMayComeBackWithinConstraints) {
  const support::TemporaryFolder folder;
  const Task task = LoadTask(folder.Write(
      "hop.xml", std::string("<task model='") + COSTATE_MODELS +
                     "/hopper/hopper.xml' horizon='0.6' controlstep='2'><start key='stand'/><guess key='stand'/>"
                     "<cost name='posture' qpos='root_z root_pitch hip knee ankle' target='key:stand'/>"
                     "<cost name='effort' ctrl='all' target='key:stand'/><constraint name='high' qpos='root_z' "
                     "lower='0.2' when='0.5'/><hopping rounds='1' iterations='3'/><solver iterations='5'/></task>"));
  const MpcResult result = RunMpc(task, {.duration = 0.1});
  EXPECT_NE(result.first_plan.find("back within the constraints"), std::string::npos) << result.first_plan;
  EXPECT_TRUE(result.trajectory.X.allFinite());
}

TEST_F(Mpc, KeepsAConstraintOfOnesOwn) {
  Task task = LimitedMassTask(0.5, 100,
                              "<start key='here'/><cost qpos='all' target='key:there' weight='100' terminal='100'/>"
                              "<cost qvel='all' weight='0.1' terminal='10'/><cost ctrl='all' weight='0.01'/>");
  task.constraints.Add(std::make_unique<KineticEnergy>());
  const MpcResult result = RunMpc(task, {.duration = 2});
  EXPECT_LT(result.trajectory.X.row(1).maxCoeff(), 1 + 1e-3);
  EXPECT_GT(result.trajectory.X.row(1).maxCoeff(), 0.99);
  EXPECT_NEAR(result.trajectory.X(0, 200), 1, 0.01);
}

TEST_F(Mpc, KeepsConstraintsBesideTheRobotInRealTime) {
  const MpcResult result =
      RunMpc(LoadTask(COSTATE_MODELS "/cartpole/short_rail.xml"), {.duration = 0.3, .threads = true});
  EXPECT_TRUE(result.trajectory.X.allFinite());
  EXPECT_EQ(result.constraints.size(), 2u);
  EXPECT_GT(result.plans, 0);
}

TEST_F(Mpc, RefusesWhatItCannotDo) {
  Task task = CartPole();
  EXPECT_ERROR(RunMpc(task, {.duration = 0}), ErrorCode::kInvalidArgument, "duration", "0");
  EXPECT_ERROR(RunMpc(task, {.pushes = {{.body = 0, .force = {1, 0, 0}, .begin = 0, .end = 1}}}),
               ErrorCode::kInvalidArgument, "push", "0");
  EXPECT_ERROR(RunMpc(task, {.pushes = {{.body = 1, .force = {1, 0, 0}, .begin = 1, .end = 1}}}),
               ErrorCode::kInvalidArgument, "push", "1");
  EXPECT_ERROR(RunMpc(task, {.duration = 1, .pushes = {{.body = 1, .force = {1, 0, 0}, .begin = 1, .end = 2}}}),
               ErrorCode::kInvalidArgument, "begin of a push is 1", "duration of 1 s");
  EXPECT_ERROR(RunMpc(task, {.pushes = {{.body = 1, .force = {1, 0, 0}, .begin = std::nan(""), .end = 2}}}),
               ErrorCode::kInvalidArgument, "begin of a push is nan");
  EXPECT_ERROR(RunMpc(task, {.noise_position = -1}), ErrorCode::kInvalidArgument, "noise", "-1");
  task.mpc.delay = 9e5;
  EXPECT_ERROR(RunMpc(task, {}), ErrorCode::kInvalidArgument, "delay is 900000", "5 s");
  task.mpc.delay = -1;
  task.mpc.horizon = 1e12;
  EXPECT_ERROR(RunMpc(task, {}), ErrorCode::kInvalidArgument, "horizon is 1e+12", "a million knots of 0.02 s");
  task.mpc.horizon = 0;
  task.mpc.timestep = 5;
  EXPECT_ERROR(RunMpc(task, {}), ErrorCode::kInvalidArgument, "horizon is 2.5", "knots of 10 s");
  task.mpc.timestep = 0;
  task.mpc.horizon = std::nan("");
  EXPECT_ERROR(RunMpc(task, {}), ErrorCode::kInvalidArgument, "horizon", "nan");
}

TEST_F(Mpc, ATaskWithoutAModelIsAnError) {
  const Task none;
  EXPECT_ERROR(CheckMpc(none, {}), ErrorCode::kInvalidArgument, "the model is NULL");
  EXPECT_ERROR(RunMpc(none, {}), ErrorCode::kInvalidArgument, "the model is NULL");
  EXPECT_ERROR(MakePolicy(none), ErrorCode::kInvalidArgument, "the model is NULL");
  EXPECT_ERROR(MissedGoals(none, {}), ErrorCode::kInvalidArgument, "the model is NULL");
  EXPECT_ERROR(LoadPolicy(nullptr, "policy.json"), ErrorCode::kInvalidArgument, "the model is NULL");
}

// ---- goals that move ------------------------------------------------------------------------------------------------

// a goal is a number, or where something stands: both move, in the middle of a run, and what is open stays open
TEST_F(Mpc, FollowsGoalsThatMove) {
  for (const char* target : {"1 0.25 0", "site:stand"}) {
    const Task task = PlaneTask(std::string("<cost site='mass' quantity='pos' index='0 1' target='") +
                                (target[0] == 's' ? target : "1 0.25") + "' weight='1' terminal='100'/>");
    MpcGoals goals(task);
    ASSERT_EQ(goals.size(), 1) << target;
    EXPECT_NEAR(goals.Place(0)[0], 1, 1e-12);
    EXPECT_NEAR(goals.Place(0)[1], 0.25, 1e-12);
    EXPECT_TRUE(std::isnan(goals.Place(0)[2]));
    MpcSimulation simulation{.duration = 4};
    simulation.goals = &goals;
    Eigen::Vector2d halfway(0, 0), end(0, 0);
    int watched = 0;
    simulation.watch = [&](const mjData* robot) {
      end = {robot->qpos[0], robot->qpos[1]};
      if (++watched == 200) {
        halfway = end;
        goals.Move(0, {-0.5, 0.75, 3});
      }
    };
    EXPECT_FALSE(goals.moved());
    const MpcResult result = RunMpc(task, simulation);
    EXPECT_TRUE(goals.moved());
    EXPECT_EQ(watched, result.trajectory.N());
    EXPECT_LT((halfway - Eigen::Vector2d(1, 0.25)).norm(), 0.02) << target;
    EXPECT_LT((end - Eigen::Vector2d(-0.5, 0.75)).norm(), 0.02) << target;
    EXPECT_TRUE(std::isnan(goals.Place(0)[2]));

    // without a hand on them nothing changes
    MpcGoals still(task);
    MpcSimulation plain{.duration = 1};
    const MpcResult without = RunMpc(task, plain);
    plain.goals = &still;
    EXPECT_TRUE(MatricesNear(RunMpc(task, plain).trajectory.X, without.trajectory.X, 1e-9)) << target;
  }
}

TEST_F(Mpc, RefusesGoalsThatThereAreNot) {
  const Task none = PlaneTask("<cost qpos='all' target='1 1' terminal='100'/>");
  EXPECT_EQ(MpcGoals(none).size(), 0);
  const Task task = PlaneTask("<cost site='mass' quantity='pos' index='0 1' target='1 0.25' terminal='100'/>");
  MpcGoals goals(task);
  EXPECT_ERROR(goals.Move(1, {0, 0, 0}), ErrorCode::kInvalidArgument, "MPC: goal 1 of a task that has 1");
  EXPECT_ERROR(goals.Move(0, {std::nan(""), 0, 0}), ErrorCode::kInvalidArgument, "expected finite numbers");
  EXPECT_ERROR(goals.Move(0, {0, INFINITY, 0}), ErrorCode::kInvalidArgument, "expected finite numbers");
  EXPECT_EQ(goals.Place(0)[0], 1);
  EXPECT_FALSE(goals.moved());
}

// running and terminal terms of one place are one goal; a part that moves is no place
TEST_F(Mpc, TermsOfOnePlaceAreOneGoal) {
  const Task task = PlaneTask(
      "<cost site='mass' quantity='pos' index='0 1' target='1 0.25' terminal='100'/>"
      "<cost name='on the way' site='mass' quantity='pos' index='0' target='1' weight='1'/>"
      "<cost name='another' site='mass' quantity='pos' index='1' target='0.5' weight='1'/>");
  const std::unique_ptr<ResidualCost> cost = MovableCost(task);
  const std::vector<SlottedGoal> found = FindGoals(task.model.get(), *cost);
  ASSERT_EQ(found.size(), 1u);
  ASSERT_EQ(found[0].slots.size(), 3u);
  EXPECT_EQ(found[0].slots[2].term, 1);
  cost->MoveTarget(1, found[0].slots[2].slot, 4);
  EXPECT_EQ(cost->terms()[1].target.values(0, 0), 4);
}

}  // namespace
}  // namespace costate
