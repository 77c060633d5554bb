// MPC: what it promises of a robot that plans while it moves, in lock-step to the last bit, in threads as far as clocks allow.
#include <costate/costate.h>

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <string>
#include <thread>

#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using support::BitwiseEqual;
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
  return LoadTask(folder.Write("mass.task.xml", "<task model='mass.xml' horizon='0.2'><start key='here'/>" + elements + "</task>"));
}

// another cost that can take its time over each motion, and is not a number at some times of the task
class AwkwardCost final : public Cost {
 public:
  AwkwardCost(const Cost* inner, int milliseconds, double bad_begin, double bad_end)
      : inner_(inner), milliseconds_(milliseconds), bad_begin_(bad_begin), bad_end_(bad_end) {}
  double Value(const KnotView& knot) const override {
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
  explicit Awkward(Task* task, int milliseconds, double bad_begin = 1e9, double bad_end = 1e9) : inner(std::move(task->cost)) {
    task->cost = std::make_unique<AwkwardCost>(inner.get(), milliseconds, bad_begin, bad_end);
  }
  std::unique_ptr<Cost> inner;
};

double Angle(const MpcResult& result, int t) { return result.trajectory.X(1, t); }

// the swing-up takes 2.5 s; then 1 N for 0.1 s turns the pole by some degrees, and it comes back
TEST_F(Mpc, SwingsACartPoleUpAndHoldsItAgainstAPush) {
  Task task = CartPole();
  const int pole = mj_name2id(task.model.get(), mjOBJ_BODY, "pole");
  const MpcResult result = RunMpc(task, {.duration = 6, .pushes = {{.body = pole, .force = {1, 0, 0}, .begin = 3.5, .end = 3.6}}});
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

TEST_F(Mpc, RepeatsEveryBitInLockStepAtAnyThreadCount) {
  MpcSimulation simulation{.duration = 1, .noise_position = 0.01, .noise_velocity = 0.05, .seed = 3};
  Task task = CartPole();
  task.mpc.delay = 0.04;
  task.solver.threads = 1;
  const MpcResult one = RunMpc(task, simulation);
  task.solver.threads = 3;
  const MpcResult three = RunMpc(task, simulation);
  EXPECT_TRUE(BitwiseEqual(one.trajectory.X, three.trajectory.X));
  EXPECT_TRUE(BitwiseEqual(one.trajectory.U, three.trajectory.U));
  simulation.seed = 4;
  EXPECT_FALSE(BitwiseEqual(RunMpc(task, simulation).trajectory.U, three.trajectory.U));
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
  const MpcResult result = RunMpc(task, {.duration = 1, .pushes = {{.body = 1, .force = {2, 0, 0}, .begin = 0.2, .end = 0.7}}});
  EXPECT_EQ(result.trajectory.X(1, 20), 0);
  EXPECT_NEAR(result.trajectory.X(1, 70), 1, 1e-9);
  EXPECT_NEAR(result.trajectory.X(1, 100), 1, 1e-9);
}

// 80 ms are four control intervals. With (M3) the cost is that without delay but for a hundredth; without it, several times that
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
  const MpcSimulation simulation{.duration = 4, .pushes = {{.body = pole, .force = {1, 0, 0}, .begin = 0.6, .end = 0.7}}};
  const double closed = RunMpc(task, simulation).cost_per_step;
  task.mpc.feedback = false;
  EXPECT_GT(RunMpc(task, simulation).cost_per_step, 1.1 * closed);
}

// measured at 0.1 s, due at 0.12 s, there at 0.2 s: four intervals without the plan that was due
TEST_F(Mpc, FallsBackWhileAPlanIsLateAndSaysSo) {
  Task task = CartPole();
  task.mpc.delay = 0.02;
  task.mpc.fallback = MpcFallback::kHold;
  const MpcSimulation simulation{.duration = 0.24, .latency = 0.1};
  const MpcResult hold = RunMpc(task, simulation);
  ASSERT_EQ(hold.events.size(), 1u);
  EXPECT_EQ(hold.events[0].kind, MpcEventKind::kLate);
  EXPECT_NEAR(hold.events[0].time, 0.12, 1e-12);
  EXPECT_NE(hold.events[0].reason.find("plan 1 was due, and takes 0.08 s longer"), std::string::npos) << hold.events[0].reason;
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
  Task task = MassTask("<cost qpos='all' target='key:here@0 key:there@1' weight='1000'/><cost ctrl='all' weight='0.0001'/>");
  const MpcResult result = RunMpc(task, {.duration = 0.9});
  for (const int t : {30, 60, 90}) EXPECT_NEAR(result.trajectory.X(0, t), 0.01 * t, 0.01);
}

// knots of 20 ms in plans, controls each 10 ms
TEST_F(Mpc, PlansWithATimestepOfItsOwn) {
  Task task = MassTask("<cost qpos='all' target='key:there' weight='10'/><cost qvel='all' weight='0.1'/><cost ctrl='all' weight='0.001'/>");
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

// no plan can be there after 10 ms when each of its motions takes 30
TEST_F(Mpc, IsLateInRealTimeWhenPlansTakeTooLong) {
  Task task = CartPole();
  task.mpc.rate = 0;
  task.mpc.delay = 0.01;
  task.solver.iterations = 1;
  const Awkward awkward(&task, 30);
  const MpcResult result = RunMpc(task, {.duration = 0.5, .threads = true});
  ASSERT_FALSE(result.events.empty());
  EXPECT_EQ(result.events[0].kind, MpcEventKind::kLate);
  EXPECT_GT(result.fallback_steps, 2);
  EXPECT_GT(result.Latency(0.5), 0.03);
}

TEST_F(Mpc, EndsWhenTheCallbackSaysSo) {
  const Task task = CartPole();
  const MpcResult result = RunMpc(task, {.duration = 2}, [](int steps) { return steps < 7; });
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.trajectory.N(), 7);
  EXPECT_EQ(result.trajectory.X.cols(), 8);
}

TEST_F(Mpc, ReadsItsSettingsFromTheTask) {
  const Task task = MassTask("<cost ctrl='all'/><mpc rate='50' horizon='0.1' timestep='0.02' delay='0.005' budget='0.01' "
                             "iterations='3' fallback='damp' compensate='false' feedback='false'/>");
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
  ASSERT_TRUE(task.continuation.smooth.any());
  const SolveResult solved = SolveContinuation(task.ToProblem(), task.U_guess, task.solver, task.continuation).result;
  const MpcResult result = RunMpc(task, {.duration = 0.04});
  EXPECT_EQ(result.first_plan, solved.message);
  EXPECT_EQ(result.trajectory.U(0, 0), solved.trajectory.U(0, 0));
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
  EXPECT_ERROR(RunMpc(refused("<constraint name='rest' qvel='all' equals='0' when='end'/>"), {}), ErrorCode::kUnsupported, "'rest'");
  EXPECT_ERROR(RunMpc(refused("<time shortest='0.1' longest='0.3'/>"), {}), ErrorCode::kUnsupported, "<time>", "0.1 and 0.3");
}

TEST_F(Mpc, RefusesWhatItCannotDo) {
  Task task = CartPole();
  EXPECT_ERROR(RunMpc(task, {.duration = 0}), ErrorCode::kInvalidArgument, "duration", "0");
  EXPECT_ERROR(RunMpc(task, {.pushes = {{.body = 0, .force = {1, 0, 0}, .begin = 0, .end = 1}}}), ErrorCode::kInvalidArgument, "push", "0");
  EXPECT_ERROR(RunMpc(task, {.pushes = {{.body = 1, .force = {1, 0, 0}, .begin = 1, .end = 1}}}), ErrorCode::kInvalidArgument, "push", "1");
  EXPECT_ERROR(RunMpc(task, {.duration = 1, .pushes = {{.body = 1, .force = {1, 0, 0}, .begin = 1, .end = 2}}}), ErrorCode::kInvalidArgument,
               "begin of a push is 1", "duration of 1 s");
  EXPECT_ERROR(RunMpc(task, {.pushes = {{.body = 1, .force = {1, 0, 0}, .begin = std::nan(""), .end = 2}}}), ErrorCode::kInvalidArgument,
               "begin of a push is nan");
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

}  // namespace
}  // namespace costate
