// When plans are made and how long they may take: rate, delay, budget, and the iterations that these leave room for.
#include <costate/costate.h>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>

#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using MpcRate = support::EngineTest;

// ten control intervals of 10 ms are a plan of 0.1 s
Task RailTask(double rate) {
  const support::TemporaryFolder folder;
  folder.Write("mass.xml", R"(
<mujoco model="mass"><option timestep="0.01" gravity="0 0 0"/>
  <worldbody><body name="mass"><joint name="rail" type="slide" axis="1 0 0"/><geom size="0.1" mass="1"/></body></worldbody>
  <actuator><motor joint="rail" ctrlrange="-100 100"/></actuator>
  <keyframe><key name="here" qpos="0"/></keyframe></mujoco>)");
  Task task = LoadTask(
      folder.Write("mass.task.xml",
                   "<task model='mass.xml' horizon='0.2'><start key='here'/><cost qpos='all' target='1' weight='10'/>"
                   "<cost qvel='all' weight='0.1'/><cost ctrl='all' weight='0.001'/></task>"));
  task.mpc.rate = rate;
  return task;
}

// in 3 s at 10 a second they begin at 0.1, 0.2 … 2.9 s, whether the last one came just before or just then
TEST_F(MpcRate, BeginsAPlanWhenTheLastOneArrives) {
  for (const double delay : {0.0, 0.09, 0.1}) {
    Task task = RailTask(10);
    task.mpc.delay = delay;
    const MpcResult result = RunMpc(task, {.duration = 3});
    EXPECT_EQ(result.plans, 29) << delay;
    EXPECT_EQ(result.plans_taken, delay == 0.1 ? 29 : 30)
        << delay;  // the first one counted, and the last one on its way
    EXPECT_TRUE(result.events.empty()) << delay;
  }
  Task task = RailTask(10);
  task.mpc.delay = 0.11;
  EXPECT_EQ(RunMpc(task, {.duration = 3}).plans, 15);
}

// each of them comes when the next one is due and begins: each is late, none is lost
TEST_F(MpcRate, TellsOfEachPlanThatIsLateByAWholePeriod) {
  const MpcResult result = RunMpc(RailTask(10), {.duration = 0.5, .latency = 0.1});
  EXPECT_EQ(result.plans, 4);
  EXPECT_EQ(result.plans_taken, 4);
  ASSERT_EQ(result.events.size(), 4u);
  for (const MpcEvent& event : result.events) EXPECT_EQ(event.kind, MpcEventKind::kLate) << event.reason;
  EXPECT_EQ(result.fallback_steps, 40);
}

// a nanosecond is over before the first iteration is: that one is made all the same, and the plans are those without a
// budget, for a plan has one iteration
TEST_F(MpcRate, MakesOneIterationWhateverTheBudget) {
  Task task = RailTask(0);
  const MpcResult unbounded = RunMpc(task, {.duration = 0.5});
  EXPECT_EQ(unbounded.plans_over_budget, 0);
  task.mpc.budget = 1e-9;
  const MpcResult result = RunMpc(task, {.duration = 0.5});
  EXPECT_TRUE(support::BitwiseEqual(result.trajectory.U, unbounded.trajectory.U));
  EXPECT_EQ(result.plans_over_budget, result.plans);
  ASSERT_EQ(result.events.size(), static_cast<std::size_t>(result.plans));
  EXPECT_EQ(result.events[2].kind, MpcEventKind::kOverBudget);
  EXPECT_NEAR(result.events[2].time, 0.03, 1e-12);
  EXPECT_NE(result.events[2].reason.find("plan 3 took "), std::string::npos) << result.events[2].reason;
  EXPECT_NE(result.events[2].reason.find(" ms beyond its budget of 1e-06 ms"), std::string::npos);
  EXPECT_EQ(result.fallback_steps, 0);
}

TEST_F(MpcRate, CountsPlansOverBudgetInRealTime) {
  Task task = RailTask(0);
  task.mpc.budget = 1e-9;
  const MpcResult result = RunMpc(task, {.duration = 0.2, .threads = true});
  EXPECT_GT(result.plans_over_budget, 0);
  EXPECT_LE(result.plans_over_budget, result.plans);
}

// knots of 10 ms; what the task says counts whatever the rate
TEST_F(MpcRate, LeavesRoomForAnIterationAKnotBetweenPlans) {
  const auto iterations = [](double rate, double delay = -1, double timestep = 0, int said = 0) {
    Task task = RailTask(rate);
    task.mpc.delay = delay;
    task.mpc.timestep = timestep;
    task.mpc.iterations = said;
    return RunMpc(task, {.duration = 0.1}).plan_iterations;
  };
  EXPECT_EQ(iterations(0), 1);
  EXPECT_EQ(iterations(100), 1);
  EXPECT_EQ(iterations(1e12), 1);
  EXPECT_EQ(iterations(35), 3);
  EXPECT_EQ(iterations(10), 10);
  EXPECT_EQ(iterations(1), 20);
  EXPECT_EQ(iterations(1e-12), 20);
  EXPECT_EQ(iterations(0, 0.05), 5);
  EXPECT_EQ(iterations(20, 0.06), 10);  // every second time no plan is begun, for the last one is on its way
  EXPECT_EQ(iterations(0, -1, 0.02), 1);
  EXPECT_EQ(iterations(10, -1, 0.02), 5);
  EXPECT_EQ(iterations(10, -1, 0, 3), 3);
  EXPECT_EQ(iterations(0, -1, 0, 3), 3);
}

TEST_F(MpcRate, HasOneIterationAPlanAtEachKnot) {
  Task task = LoadTask(COSTATE_MODELS "/cartpole/swing_up.xml");
  const MpcSimulation simulation{.duration = 0.6, .noise_position = 0.01, .noise_velocity = 0.05};
  const MpcResult usual = RunMpc(task, simulation);
  task.mpc.iterations = 1;
  EXPECT_TRUE(support::BitwiseEqual(RunMpc(task, simulation).trajectory.U, usual.trajectory.U));
}

// a quadcopter that starts on its head, in wind: a plan each 0.2 s keeps it as well as one each 0.01 s (0.0163 a step),
// with one iteration it falls
TEST_F(MpcRate, KeepsAQuadcopterInTheAirByRarePlans) {
  const support::TemporaryFolder folder;
  folder.Write("quadcopter.xml", R"(
<mujoco model="quadcopter"><option timestep="0.005" density="1.2" viscosity="1.8e-5" wind="3 1 0" integrator="RK4"/>
  <worldbody><geom type="plane" size="5 5 .1"/>
    <body name="body" pos="0 0 1"><freejoint name="root"/><geom type="box" size=".12 .12 .03" mass=".8"/>
      <geom type="capsule" size=".015" fromto="-.25 -.25 0 .25 .25 0" mass=".1"/>
      <geom type="capsule" size=".015" fromto="-.25 .25 0 .25 -.25 0" mass=".1"/>
      <site name="r1" pos=".25 .25 0"/><site name="r2" pos="-.25 .25 0"/>
      <site name="r3" pos="-.25 -.25 0"/><site name="r4" pos=".25 -.25 0"/></body></worldbody>
  <actuator><motor site="r1" gear="0 0 1 0 0 .02" ctrlrange="0 6"/><motor site="r2" gear="0 0 1 0 0 -.02" ctrlrange="0 6"/>
    <motor site="r3" gear="0 0 1 0 0 .02" ctrlrange="0 6"/><motor site="r4" gear="0 0 1 0 0 -.02" ctrlrange="0 6"/></actuator>
  <keyframe><key name="tilt" qpos="0 0 1 .5 .866 0 0"/></keyframe></mujoco>)");
  Task task =
      LoadTask(folder.Write("quadcopter.task.xml",
                            "<task model='quadcopter.xml' horizon='0.8' controlstep='2'><start key='tilt'/>"
                            "<cost body='body' quantity='pos' target='0 0 1.5' weight='20' terminal='20'/>"
                            "<cost body='body' quantity='quat' weight='1'/><cost qvel='all' weight='.2' terminal='2'/>"
                            "<cost ctrl='all' target='guess' weight='.01'/><mpc rate='5'/></task>"));
  const MpcSimulation simulation{.duration = 3};
  const MpcResult result = RunMpc(task, simulation);
  EXPECT_EQ(result.plan_iterations, 20);
  EXPECT_NEAR(result.cost_per_step, 0.0163, 0.0003);
  task.mpc.iterations = 1;
  EXPECT_GT(RunMpc(task, simulation).cost_per_step, 3 * result.cost_per_step);
}

// multipliers follow each of five iterations, not the last one alone
TEST_F(MpcRate, KeepsConstraintsByPlansOfSeveralIterations) {
  Task task = LoadTask(COSTATE_MODELS "/cartpole/short_rail.xml");
  task.mpc.rate = 10;
  const MpcResult result = RunMpc(task, {.duration = 3});
  EXPECT_EQ(result.plan_iterations, 5);
  ASSERT_EQ(result.constraints.size(), 2u);
  for (const MpcConstraintReport& report : result.constraints) EXPECT_LT(report.motion.violation, 1e-5);
}

// beyond 1e10 rad/s nothing is simulated, whatever the controls
TEST_F(MpcRate, DoesNotMoveWithoutAFirstPlan) {
  Task task = RailTask(0);
  task.x0[1] = 1e12;
  const MpcResult result = RunMpc(task, {.duration = 0.1});
  EXPECT_EQ(result.first_status, SolveStatus::kDiverged);
  EXPECT_NE(result.first_plan.find("cannot be simulated"), std::string::npos) << result.first_plan;
  EXPECT_EQ(result.trajectory.N(), 0);
  EXPECT_EQ(result.plans_taken, 0);
}

TEST_F(MpcRate, TellsOfTheIterationsOfTheFirstPlan) {
  const Task task = RailTask(0);
  int iterations = 0;
  const MpcResult result = RunMpc(task, {.duration = 0.05}, {}, [&](const IterationRecord& record) {
    EXPECT_EQ(record.iteration, ++iterations);
    return true;
  });
  EXPECT_GT(iterations, 0);
  EXPECT_EQ(result.first_status, SolveStatus::kConverged);
  EXPECT_TRUE(result.first_gained);
  EXPECT_EQ(result.trajectory.N(), 5);
  const MpcResult stopped = RunMpc(task, {.duration = 0.05}, {}, [](const IterationRecord&) { return false; });
  EXPECT_TRUE(stopped.interrupted);
  EXPECT_EQ(stopped.trajectory.N(), 0);
}

}  // namespace
}  // namespace costate
