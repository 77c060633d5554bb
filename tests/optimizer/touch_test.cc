// Towards contact: slopes of what leads a hand against differences; which links and which body; a ball is grasped and
// lifted from a cost of its place alone.
#include "optimizer/touch.h"

#include <costate/costate.h>
#include <gtest/gtest.h>
#include <Eigen/Eigenvalues>

#include <algorithm>
#include <string>
#include <vector>

#include "optimizer/finger_and_puck.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using support::MatricesNear;
using TouchTest = support::EngineTest;

// a hand on a slide with two fingers, above a ball
constexpr char kGripper[] = R"(<mujoco model="gripper"><option timestep="0.005" cone="elliptic" impratio="10"/>
  <worldbody><geom name="floor" type="plane" size="2 2 .1"/>
    <body name="hand" pos="0 0 .35"><joint name="z" type="slide" axis="0 0 1" range="-.3 .3" damping="5"/>
      <geom name="palm" type="box" size=".02 .08 .02" mass=".5"/>
      <body name="left" pos="0 .06 -.02"><joint name="left" type="slide" axis="0 -1 0" range="0 .06" damping="2"/>
        <geom name="left" type="box" pos="0 0 -.05" size=".015 .008 .05" mass=".05"/></body>
      <body name="right" pos="0 -.06 -.02"><joint name="right" type="slide" axis="0 1 0" range="0 .06" damping="2"/>
        <geom name="right" type="box" pos="0 0 -.05" size=".015 .008 .05" mass=".05"/></body></body>
    <body name="ball" pos="0 0 .03"><freejoint/><geom name="ball" size=".03" mass=".08" condim="4"/></body></worldbody>
  <actuator><position joint="z" kp="400" ctrlrange="-.3 .3"/><position joint="left" kp="200" ctrlrange="0 .06"/>
    <position joint="right" kp="200" ctrlrange="0 .06"/></actuator></mujoco>)";

Task TaskOf(const std::string& model, const std::string& elements) {
  const support::TemporaryFolder folder;
  folder.Write("model.xml", model);
  return LoadTask(
      folder.Write("task.xml", "<task model='model.xml' horizon='1.2' controlstep='3'>" + elements + "</task>"));
}

constexpr char kLift[] =
    "<cost name='ball' body='ball' quantity='pos' target='0 0 0.2' weight='8' terminal='800'/>"
    "<cost name='rest' qvel='all' weight='0.01' terminal='1'/><cost name='effort' ctrl='all' weight='0.1'/>";

Trajectory AtRest(const Task& task) {
  Trajectory motion;
  const Problem problem = task.ToProblem();
  Simulator simulator(problem.model, problem.context, problem.substeps);
  EXPECT_TRUE(simulator.Rollout(problem.x0, task.ToGuess().U, &motion).ok());
  return motion;
}

std::vector<std::string> Names(const mjModel* m, const std::vector<int>& geoms) {
  std::vector<std::string> names;
  for (const int geom : geoms) names.emplace_back(mj_id2name(m, mjOBJ_GEOM, geom));
  return names;
}

TEST_F(TouchTest, SlopesAreThoseOfDifferences) {
  const Task task = TaskOf(kGripper, kLift);
  const Problem problem = task.ToProblem();
  const mjModel* m = problem.model;
  const Dims dims(m);
  const Trajectory motion = AtRest(task);
  std::vector<TouchPlan> plans = PlanTouches(problem, motion);
  ASSERT_FALSE(plans.empty());
  const TouchCost cost(problem, plans[0].touch, {.place = {0.01, 0.02, 0.03}, .reach = 0.5, .squeeze = 1}, motion);
  for (int trial = 0; trial < 5; ++trial) {
    const VectorXd x = Retract(m, motion.X.col(0), 0.1 * VectorXd::Random(dims.ndx)), u = VectorXd::Random(dims.nu);
    const VectorXd s = motion.S.col(0);
    KnotView knot{.t = 3, .N = task.N, .dt = 0.015, .x = x, .u = u, .s = s};
    CostExpansion found, own;
    const MatrixXd C = MatrixXd::Zero(s.size(), dims.ndx), D = MatrixXd::Zero(s.size(), dims.nu);
    cost.Expand(knot, C, D, &found);
    problem.cost->Expand(knot, C, D, &own);
    EXPECT_NEAR(found.l, cost.Value(knot), 1e-12);
    EXPECT_GT(found.l, own.l);
    VectorXd slope(dims.ndx);
    constexpr double kStep = 1e-6;
    for (int i = 0; i < dims.ndx; ++i) {
      const VectorXd d = kStep * VectorXd::Unit(dims.ndx, i), more = Retract(m, x, d), less = Retract(m, x, -d);
      const auto led = [&](const VectorXd& at) {
        const KnotView view{.t = 3, .N = task.N, .dt = 0.015, .x = at, .u = u, .s = s};
        return cost.Value(view) - problem.cost->Value(view);
      };
      slope[i] = (led(more) - led(less)) / (2 * kStep);
    }
    EXPECT_TRUE(MatricesNear(found.lx - own.lx, slope, 1e-6 * (1 + slope.cwiseAbs().maxCoeff())));
    EXPECT_EQ(found.lu, own.lu);
    const MatrixXd more = found.lxx - own.lxx;
    EXPECT_TRUE(MatricesNear(more, more.transpose(), 1e-12 * more.cwiseAbs().maxCoeff()));
    EXPECT_GE(more.selfadjointView<Eigen::Lower>().eigenvalues().minCoeff(), -1e-9 * more.cwiseAbs().maxCoeff());
  }
}

TEST_F(TouchTest, TheHandIsTheLastLinksThatMayTouchWhatCosts) {
  const Task task = TaskOf(kGripper, kLift);
  const std::vector<TouchPlan> plans = PlanTouches(task.ToProblem(), AtRest(task));
  ASSERT_EQ(plans.size(), 5u);
  std::vector<std::string> hand = Names(task.model.get(), plans[0].touch.hand);
  std::sort(hand.begin(), hand.end());
  EXPECT_EQ(hand, (std::vector<std::string>{"left", "right"}));
  EXPECT_EQ(Names(task.model.get(), {plans[0].touch.object}), std::vector<std::string>{"ball"});
  EXPECT_EQ(plans[2].places.size(), 2u);
  EXPECT_GT(plans[2].places[0].z(), 0.03);
  EXPECT_EQ(plans[3].touch.hand.size(), 1u);
  EXPECT_LT(plans[3].places[0].z(), 0);  // behind what shall go up
  EXPECT_LT(plans[4].places[0].z(), plans[3].places[0].z());
  EXPECT_TRUE(plans[3].passing.empty());
  EXPECT_EQ(Names(task.model.get(), plans[4].passing), (std::vector<std::string>{"left", "right"}));

  // fingers that pass through the ball: the palm is the last link that may touch it
  std::string masked = kGripper;
  for (const std::string name : {"geom name=\"left\"", "geom name=\"right\""})
    masked.insert(masked.find(name) + name.size(), " contype='2' conaffinity='2'");
  const Task palm = TaskOf(masked, kLift);
  const std::vector<TouchPlan> by_palm = PlanTouches(palm.ToProblem(), AtRest(palm));
  ASSERT_FALSE(by_palm.empty());
  EXPECT_EQ(Names(palm.model.get(), by_palm[0].touch.hand), std::vector<std::string>{"palm"});
}

TEST_F(TouchTest, NothingIsLedWhereControlsChangeWhatCosts) {
  const Task hand = TaskOf(kGripper, "<cost name='z' qpos='z' target='0.1'/><cost ctrl='all' weight='0.01'/>");
  EXPECT_TRUE(PlanTouches(hand.ToProblem(), AtRest(hand)).empty());
  // nor where nothing may touch the body
  std::string masked = kGripper;
  const std::string ball = "geom name=\"ball\"";
  masked.insert(masked.find(ball) + ball.size(), " contype='2' conaffinity='2'");
  const Task apart = TaskOf(masked, kLift);
  EXPECT_TRUE(PlanTouches(apart.ToProblem(), AtRest(apart)).empty());
  // without gravity there is no above
  const Task flat =
      TaskOf(kFingerAndPuck, "<cost qpos='puck' target='0.2' terminal='100'/><cost ctrl='all' weight='0.01'/>");
  EXPECT_EQ(PlanTouches(flat.ToProblem(), AtRest(flat)).size(), 4u);
}

// gymnasium's pusher: an arm that hangs beside a table, and a puck on it
constexpr char kPusher[] = R"(<mujoco model="pusher"><option timestep="0.01" gravity="0 0 0" iterations="20"/>
  <default><joint armature="0.04" damping="1" limited="true"/>
    <geom type="capsule" density="300" margin="0.002" condim="1" contype="0" conaffinity="0"/></default>
  <worldbody><geom name="table" type="plane" pos="0 .5 -.325" size="1 1 .1" contype="1" conaffinity="1"/>
    <body pos="0 -.6 0"><geom fromto="0 0 -.4 0 0 .2" size=".1"/><joint axis="0 0 1" range="-131 98" name="pan"/>
    <body pos=".1 0 0"><geom fromto="0 -.1 0 0 .1 0" size=".1"/><joint axis="0 1 0" range="-30 80" name="lift"/>
    <body><geom fromto="-.1 0 0 .1 0 0" size=".02"/><joint axis="1 0 0" range="-86 97" damping=".1" name="roll"/>
    <body><geom fromto="0 0 0 .4 0 0" size=".06"/>
    <body pos=".4 0 0"><geom fromto="0 -.02 0 0 .02 0" size=".06"/>
      <joint axis="0 1 0" range="-133 0" damping=".1" name="elbow"/>
    <body><geom fromto="-.1 0 0 .1 0 0" size=".02"/><joint axis="1 0 0" range="-86 86" damping=".1" name="forearm"/>
    <body><geom fromto="0 0 0 .291 0 0" size=".05"/>
    <body pos=".321 0 0"><geom fromto="0 -.02 0 0 .02 0" size=".01"/>
      <joint axis="0 1 0" range="-63 0" damping=".1" name="flex"/>
    <body><joint axis="1 0 0" range="-86 86" damping=".1" name="wrist"/>
      <geom fromto="0 -.1 0 0 .1 0" size=".02" contype="1" conaffinity="1"/>
      <geom fromto="0 -.1 0 .1 -.1 0" size=".02" contype="1" conaffinity="1"/>
      <geom fromto="0 .1 0 .1 .1 0" size=".02" contype="1" conaffinity="1"/></body>
    </body></body></body></body></body></body></body></body>
    <body name="puck" pos=".45 -.05 -.275"><geom type="cylinder" size=".05 .05" density=".01" contype="1"/>
      <joint type="slide" axis="0 1 0" range="-10 10" damping=".5"/>
      <joint type="slide" axis="1 0 0" range="-10 10" damping=".5"/></body></worldbody>
  <actuator><motor joint="pan" ctrlrange="-2 2"/><motor joint="lift" ctrlrange="-2 2"/>
    <motor joint="roll" ctrlrange="-2 2"/><motor joint="elbow" ctrlrange="-2 2"/>
    <motor joint="forearm" ctrlrange="-2 2"/><motor joint="flex" ctrlrange="-2 2"/>
    <motor joint="wrist" ctrlrange="-2 2"/></actuator></mujoco>)";

// a hand that touches things on its way stops short of the puck, or on the wrong side: one that passes through them
// comes behind it, and pushes
TEST_F(TouchTest, AHandComesBehindAPuckOnATable) {
  const support::TemporaryFolder folder;
  folder.Write("pusher.xml", kPusher);
  const Task task = LoadTask(folder.Write(
      "task.xml",
      "<task model='pusher.xml' horizon='2'><cost body='puck' quantity='pos' index='0 1' target='0.55 0.2' "
      "weight='1.25' terminal='125'/><cost qvel='all' weight='0.001' terminal='1'/><cost ctrl='all' weight='0.005'/>"
      "<hopping rounds='1' from='stall'/></task>"));
  const TaskSolution found = SolveTask(task);
  ASSERT_GE(found.rounds.size(), 2u);
  EXPECT_TRUE(found.rounds[1].origin == RoundOrigin::kTouching && found.rounds[1].better);
  EXPECT_LT(found.result.cost, 0.85 * found.result.initial_cost) << found.result.message;
}

TEST_F(TouchTest, ABallIsGraspedAndLifted) {
  const auto solve = [](const std::string& hopping, int threads) {
    Task task = TaskOf(kGripper, kLift + hopping);
    task.solver.threads = threads;
    return SolveTask(task);
  };
  const TaskSolution without = solve("<hopping rounds='1' from='stall' touch='false'/>", 0);
  ASSERT_GE(without.rounds.size(), 2u);
  const TaskSolution with = solve("<hopping rounds='1' from='stall'/>", 1);
  ASSERT_GE(with.rounds.size(), 2u);
  EXPECT_TRUE(with.rounds[1].origin == RoundOrigin::kTouching && with.rounds[1].better);
  EXPECT_LT(with.rounds[1].cost, 0.2 * without.rounds[1].cost) << with.result.message;
  EXPECT_LT(with.result.cost, 0.01 * with.result.initial_cost) << with.result.message;
  EXPECT_TRUE(with.untouched.empty());
  const TaskSolution again = solve("<hopping rounds='1' from='stall'/>", 3);
  EXPECT_EQ(with.result.trajectory.U, again.result.trajectory.U);
}

}  // namespace
}  // namespace costate
