// Ways round: what stands in the way; sides; slopes of what leads round against differences; a puck finds its place
// behind a wall. Crashes: what one is; a lander leaves its own.
#include "optimizer/detour.h"

#include <costate/costate.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "optimizer/via_cost.h"
#include "support/engine_test.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using DetourTest = support::EngineTest;

// a puck on two slides above a plane, its place behind a wall
std::string Pitch(const std::string& walls) {
  return R"(<mujoco model="pitch"><option timestep="0.005" gravity="0 0 0"/><worldbody>
    <geom name="floor" type="plane" size="2 2 .1" pos="0 0 -.08"/>)" +
         walls + R"(
    <body name="puck" pos="-1 0 0"><joint name="x" type="slide" axis="1 0 0" damping="1"/>
      <joint name="y" type="slide" axis="0 1 0" damping="1"/><geom name="puck" type="sphere" size=".08" mass="1"/></body>
    </worldbody><actuator><motor joint="x" ctrlrange="-4 4"/><motor joint="y" ctrlrange="-4 4"/></actuator></mujoco>)";
}

constexpr char kWall[] = "<geom name='wall' type='box' size='.05 .4 .2'/>";

Task PuckTask(const std::string& walls, const std::string& elements = "") {
  const support::TemporaryFolder folder;
  folder.Write("model.xml", Pitch(walls));
  return LoadTask(folder.Write(
      "task.xml",
      "<task model='model.xml' horizon='3' controlstep='5'>"
      "<cost name='place' body='puck' quantity='pos' target='1 .1 0' weight='1' terminal='100'/>"
      "<cost name='rest' qvel='all' weight='0.01' terminal='1'/><cost name='effort' ctrl='all' weight='0.001'/>" +
          elements + "</task>"));
}

Trajectory Rolled(const Task& task, ConstMatrixRef U) {
  Simulator simulator(task.model.get(), task.context, task.substeps);
  Trajectory motion;
  EXPECT_TRUE(simulator.Rollout(task.x0, U, &motion).ok());
  return motion;
}

// constant velocity to the place
Trajectory Straight(const Task& task) {
  Trajectory motion = Rolled(task, task.ToGuess().U);
  for (int t = 0; t <= motion.N(); ++t) {
    const double s = static_cast<double>(t) / motion.N();
    motion.X.col(t) << 2 * s, 0.1 * s, 0.67, 0.033;
  }
  return motion;
}

std::vector<std::string> ObstacleNames(const Task& task) {
  std::vector<std::string> names;
  for (const int geom : FindObstacles(task.ToProblem(), Straight(task)))
    names.emplace_back(mj_id2name(task.model.get(), mjOBJ_GEOM, geom));
  return names;
}

TEST_F(DetourTest, FixedThingsThatNothingTouchesAtTheStartAreObstacles) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(ObstacleNames(PuckTask(kWall)), Names{"wall"});
  // one is touched: all that may be
  const std::string aside = "<geom name='aside' type='box' size='.05 .05 .2' pos='0 1 0'/>";
  EXPECT_EQ(ObstacleNames(PuckTask(kWall + aside)), (Names{"wall", "aside"}));
  EXPECT_EQ(ObstacleNames(PuckTask(aside)), Names{});
  // at the start, of a pair, out of touch
  EXPECT_EQ(ObstacleNames(PuckTask("<geom name='there' type='box' size='.05 .4 .2' pos='-1.1 0 0'/>")), Names{});
  EXPECT_EQ(ObstacleNames(PuckTask("<geom name='wall' type='box' size='.05 .4 .2' contype='0' conaffinity='0'/>")),
            Names{});
}

TEST_F(DetourTest, NothingTouchesTheModelWithoutObstacles) {
  const Task task = PuckTask(kWall);
  const Problem problem = task.ToProblem();
  const ModelPtr without = WithoutObstacles(problem.model, FindObstacles(problem, Straight(task)));
  const DataPtr with_data = MakeData(problem.model), data = MakeData(without.get());
  with_data->qpos[0] = data->qpos[0] = 1;  // in the wall
  mj_forward(problem.model, with_data.get());
  mj_forward(without.get(), data.get());
  EXPECT_EQ(with_data->ncon, data->ncon + 1);
}

int CountSides(const std::vector<Detour>& detours) {
  return static_cast<int>(std::ranges::count(detours, nullptr, [](const Detour& detour) { return detour.path; }));
}

TEST_F(DetourTest, SidesAreThoseThatJointsLeadTo) {
  const Task task = PuckTask(kWall);
  const Problem problem = task.ToProblem();
  // left and right; not over it, nor along the way
  const auto detours = PlanDetours(problem, {.model = nullptr, .motion = Straight(task), .guess = {}, .gain = 1});
  EXPECT_EQ(CountSides(detours), 2);
  // and a path
  ASSERT_EQ(detours.size(), 3u);
  const MatrixXd& path = *detours.back().path;
  EXPECT_TRUE(path.col(0).isZero(0));
  EXPECT_TRUE(path.rightCols(1).isApprox(VectorXd{{2, .1}}));
  EXPECT_GT(path.row(1).cwiseAbs().maxCoeff(), .4);
  const Task free = PuckTask("<geom name='wall' type='box' size='.05 .4 .2' pos='0 1 0'/>");
  EXPECT_EQ(PlanDetours(free.ToProblem(), {.model = nullptr, .motion = Straight(free), .guess = {}, .gain = 1}).size(),
            1u);
}

TEST_F(DetourTest, SlopesOfViasAreThoseOfDifferences) {
  const Task task = PuckTask(kWall);
  const Problem problem = task.ToProblem();
  const mjModel* m = problem.model;
  const int puck = mj_name2id(m, mjOBJ_GEOM, "puck");
  const Vias vias{{3, {puck, {0.2, 0.3, 0.1}, 5}}, {3, {puck, {-0.4, 0.1, 0}, 2}}, {7, {puck, {0, 0, 0}, 1}}};
  const ViaCost cost(problem, vias);
  const VectorXd x{{0.3, -0.2, 0.1, 0.4}}, u{{1, -2}}, s = VectorXd::Zero(m->nsensordata);
  const MatrixXd C = MatrixXd::Zero(s.size(), 4), D = MatrixXd::Zero(s.size(), 2);
  const auto at = [&](int t, const VectorXd& there) {
    return cost.Value({.t = t, .N = task.N, .dt = 0.025, .x = there, .u = u, .s = s});
  };
  for (const int t : {2, 3, 7}) {
    CostExpansion found;
    cost.Expand({.t = t, .N = task.N, .dt = 0.025, .x = x, .u = u, .s = s}, C, D, &found);
    EXPECT_NEAR(found.l, at(t, x), 1e-14);
    for (int i = 0; i < 4; ++i) {
      const double h = 1e-5;
      const VectorXd step = h * VectorXd::Unit(4, i);
      EXPECT_NEAR(found.lx[i], (at(t, x + step) - at(t, x - step)) / (2 * h), 1e-9) << t << ' ' << i;
      EXPECT_NEAR(found.lxx(i, i), (at(t, x + step) - 2 * at(t, x) + at(t, x - step)) / (h * h), 1e-4) << t << ' ' << i;
    }
  }
  EXPECT_EQ(at(2, x), problem.cost->Value({.t = 2, .N = task.N, .dt = 0.025, .x = x, .u = u, .s = s}));
}

// a ball falls onto a step: to be stood on where its place is above it, in the way where that is beside it
TEST_F(DetourTest, AStepBelowTheGoalIsStoodOn) {
  const support::TemporaryFolder folder;
  const std::string model =
      "<mujoco><worldbody><geom name='step' type='box' size='.3 .3 .1' pos='0 0 .1'/><body name='ball' "
      "pos='0 0 .4'><joint name='z' type='slide' axis='0 0 1'/><geom size='.1'/></body></worldbody>"
      "<actuator><motor joint='z'/></actuator></mujoco>";
  folder.Write("model.xml", model);
  const auto stood_on = [&](const std::string& place) {
    const Task task = LoadTask(folder.Write(
        "task.xml", "<task model='model.xml' horizon='1'><cost name='place' body='ball' quantity='pos' target='" +
                        place + "' terminal='1'/></task>"));
    const Trajectory motion = Rolled(task, MatrixXd::Zero(1, task.N));
    EXPECT_EQ(ObstaclesThatAreHit(task.ToProblem(), motion).size(), 1u);
    return StoodOn(task.ToProblem(), motion, GoalPlaces(task)).size();
  };
  EXPECT_EQ(stood_on("0.1 0 0.3"), 1u);
  EXPECT_EQ(stood_on("0.5 0 0.3"), 0u);
  EXPECT_EQ(stood_on("0.1 0 -0.3"), 0u);
}

double CostOf(const std::string& walls, const std::string& detour) {
  const Task task =
      PuckTask(walls, "<hopping from='stall' rounds='1' lean='false' smooth='false' detour='" + detour + "'/>");
  const BasinHoppingResult found =
      SolveBasinHopping(task.ToProblem(), task.ToGuess(), task.solver, task.hopping, {}, task.constrained);
  bool led = false;
  for (const BasinHoppingRound& round : found.rounds)
    led = led || (round.origin == RoundOrigin::kDetour && round.better);
  EXPECT_EQ(led, detour == "true");

  // what costs other than the task, or elsewhere, is told as such and never as its cost
  int beside = 0, through = 0;
  for (const IterationRecord& record : found.result.iterations) {
    EXPECT_GE(record.cost, (1 - 1e-9) * found.result.cost) << record.iteration;
    const std::string what = record.beside ? record.beside : "";
    beside += what == "led round what is in the way";
    through += what == "without what is in the way";
  }
  EXPECT_EQ(through > 0, detour == "true");
  EXPECT_LE(beside, detour == "true" ? static_cast<int>(found.result.iterations.size()) : 0);
  return found.result.cost;
}

TEST_F(DetourTest, APuckFindsItsPlaceBehindAWall) {
  EXPECT_GT(CostOf(kWall, "false"), 60);
  EXPECT_LT(CostOf(kWall, "true"), 1.4);
}

TEST_F(DetourTest, APuckGoesBetweenTwoWalls) {
  const std::string walls =
      "<geom name='left' type='box' size='.05 .6 .2' pos='-.4 .3 0'/>"
      "<geom name='right' type='box' size='.05 .6 .2' pos='.3 -.3 0'/>";
  EXPECT_GT(CostOf(walls, "false"), 100);
  EXPECT_LT(CostOf(walls, "true"), 5);
}

constexpr char kThreeWalls[] = R"(<geom type="box" size="1.5 .05 .2" pos="0 .7 0"/>
  <geom type="box" size="1.5 .05 .2" pos="0 -.7 0"/><geom type="box" size=".05 .4 .2" pos="-.5 -.25 0"/>
  <geom type="box" size=".05 .4 .2" pos="0 .25 0"/><geom type="box" size=".05 .4 .2" pos=".5 -.25 0"/>)";

// by sides alone 6.7: the nearest of each wall do not lead round all
TEST_F(DetourTest, APuckGoesAlongAPathThroughAMaze) { EXPECT_LT(CostOf(kThreeWalls, "true"), 2.5); }

// a wall is met head-on, from where no slope leads aside: that solve converges
TEST_F(DetourTest, ASolveThatConvergesAtAnObstacleIsLedRoundIt) {
  const auto solve = [](const std::string& detour) {
    const support::TemporaryFolder folder;
    folder.Write("model.xml", R"(<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody>
      <geom type="box" size=".05 .4 .2"/><body name="puck" pos="-1 0 0"><joint name="x" type="slide" axis="1 0 0" damping=".5"/>
        <joint name="y" type="slide" axis="0 1 0" damping=".5"/><geom type="sphere" size=".08" mass="1"/></body></worldbody>
      <actuator><motor joint="x" ctrlrange="-10 10"/><motor joint="y" ctrlrange="-10 10"/></actuator></mujoco>)");
    return SolveTask(LoadTask(folder.Write(
        "task.xml",
        "<task model='model.xml' horizon='3' controlstep='2'>"
        "<cost name='place' body='puck' quantity='pos' target='1 0 0' weight='1' terminal='100'/>"
        "<cost name='rest' qvel='all' weight='0.01' terminal='1'/><cost name='effort' ctrl='all' weight='0.001'/>"
        "<hopping from='stall' rounds='1' race='0' detour='" +
            detour + "'/></task>")));
  };
  const TaskSolution without = solve("false"), with = solve("true");
  EXPECT_EQ(without.result.status, SolveStatus::kConverged) << without.result.message;
  EXPECT_TRUE(without.rounds.empty());
  EXPECT_GT(without.result.cost, 60);
  EXPECT_LT(with.result.cost, 1);
}

constexpr char kClear[] =
    "<constraint name='clear' geom='puck' quantity='distance' geom2='wall' lower='0.01'/>"
    "<constraint name='beside' qpos='y' upper='1.5'/>";

TEST_F(DetourTest, ConstraintsKeepClearOfObstacles) {
  const Task task = PuckTask(kWall, kClear);
  const Problem problem = task.ToProblem();
  const int wall = mj_name2id(task.model.get(), mjOBJ_GEOM, "wall");
  EXPECT_EQ(ObstaclesKeptClear(problem, Rolled(PuckTask(kWall, kClear), MatrixXd::Zero(2, task.N))),
            std::vector<int>{});
  // to the wall and no further: 0.95 m less both
  MatrixXd U = MatrixXd::Zero(2, task.N);
  U.row(0).setConstant(0.8);
  const Trajectory motion = Rolled(task, U);
  ASSERT_GT(motion.X.row(0).maxCoeff(), 0.8);
  EXPECT_EQ(ObstaclesKeptClear(problem, motion), std::vector<int>{wall});

  const std::shared_ptr<const ConstraintSet> others = WithoutClearances(problem);
  ASSERT_TRUE(others);
  ASSERT_EQ(others->size(), 1);
  EXPECT_EQ((*others)[0].info().name, "beside");
  EXPECT_FALSE(WithoutClearances(PuckTask(kWall).ToProblem()));
  // with contacts that are off, it is seen all the same
  const std::string off = "<geom name='wall' type='box' size='.05 .4 .2' contype='0' conaffinity='0'/>";
  const Task off_task = PuckTask(off, kClear);
  Problem unseen = off_task.ToProblem();
  const Trajectory through = Straight(off_task);
  EXPECT_TRUE(ObstaclesThatAreHit(unseen, through).empty());
  const ModelPtr seen = WithContactsKeptClear(unseen);
  unseen.model = seen.get();
  EXPECT_EQ(ObstaclesThatAreHit(unseen, through), std::vector<int>{wall});
  // and with all contacts off, it alone, though others are in the way
  const Task none =
      PuckTask("<geom name='other' type='box' size='.05 .4 .2' pos='.5 0 0'/>" + std::string(kWall), kClear);
  none.model->opt.disableflags |= mjDSBL_CONTACT;
  Problem touching_nothing = none.ToProblem();
  const Trajectory past = Straight(none);
  EXPECT_TRUE(ObstaclesThatAreHit(touching_nothing, past).empty());
  const ModelPtr touching = WithContactsKeptClear(touching_nothing);
  touching_nothing.model = touching.get();
  EXPECT_EQ(ObstaclesThatAreHit(touching_nothing, past),
            std::vector<int>{mj_name2id(none.model.get(), mjOBJ_GEOM, "wall")});
  // no further than that, no nearer than this: that is none
  const Task tied =
      PuckTask(kWall, "<constraint geom='puck' quantity='distance' geom2='wall' lower='0.01' upper='2'/>");
  EXPECT_FALSE(WithoutClearances(tied.ToProblem()));
}

// the same puck, kept clear of the wall, and with its place as a cost or as a constraint: slopes lead to the wall
TEST_F(DetourTest, WhatAConstraintKeepsClearOfIsLedRound) {
  const Task soft = PuckTask(kWall, kClear);
  const TaskSolution found = SolveTask(soft);
  EXPECT_LT(found.result.cost, 1.5) << found.result.message;
  EXPECT_LE(found.result.violation, 1e-6);

  // where its contacts are off, or all are, too
  const std::string all_off = "</worldbody><option><flag contact='disable'/></option><worldbody>" + std::string(kWall);
  const std::string untouched = "<geom name='wall' type='box' size='.05 .4 .2' contype='0' conaffinity='0'/>";
  for (const auto& [wall, weight] :
       {std::pair{std::string(kWall), "1e-2"}, {kWall, "1.00001e-2"}, {untouched, "1e-2"}, {all_off, "1e-2"}}) {
    const support::TemporaryFolder folder;
    folder.Write("model.xml", Pitch(wall));
    const TaskSolution hard = SolveTask(
        LoadTask(folder.Write("task.xml", std::string("<task model='model.xml' horizon='3' controlstep='10'>"
                                                      "<cost ctrl='all' weight='") +
                                              weight +
                                              "'/><constraint name='there' qpos='all' equals='2 .05' when='end'/>"
                                              "<constraint name='rest' qvel='all' equals='0' when='end'/>" +
                                              kClear + "</task>")));
    EXPECT_LE(hard.result.violation, 1e-6) << hard.result.message;
    EXPECT_NE(hard.result.status, SolveStatus::kInfeasible);
  }
}

// an arm that is where it shall be, along what it keeps clear of, is not stopped by that
TEST_F(DetourTest, AHardEndThatIsReachedIsNotHindered) {
  const TaskSolution found = SolveTask(LoadTask(COSTATE_MODELS "/posts/reach.xml"));
  EXPECT_LE(found.result.violation, 1e-6);
  for (const IterationRecord& record : found.result.iterations) EXPECT_FALSE(record.beside) << record.beside;
}

// a capsule on wide legs with an engine below that hardly tilts, its guess too weak to stop it above the ground
Task LanderTask(const std::string& elements = "", const std::string& beside = "", const std::string& qpos = "8 20 .5",
                const std::string& qvel = "-3 -8 0") {
  const support::TemporaryFolder folder;
  folder.Write("lander.xml", R"(<mujoco><option timestep=".01"/><worldbody>
    <geom name="ground" type="plane" size="20 20 1"/>)" +
                                 beside + R"(
    <body name="hull"><joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0 1"/>
      <joint name="pitch" axis="0 1 0"/><geom type="capsule" fromto="0 0 -1 0 0 1" size=".2" mass="100"/>
      <geom type="box" size=".8 .1 .05" pos="0 0 -1.3" mass="10"/><site name="engine" pos="0 0 -1.2"/></body></worldbody>
    <actuator><general name="thrust" site="engine" gear="0 0 1 0 0 0" ctrlrange=".3 2.5" gainprm="1000"/>
      <general name="side" site="engine" gear="1 0 0 0 0 0" ctrlrange="-.1 .1" gainprm="1000"/></actuator>
    <keyframe><key name="falling" qpos=")" +
                                 qpos + R"(" qvel=")" + qvel + R"(" ctrl="1.08 0"/></keyframe></mujoco>)");
  return LoadTask(folder.Write("task.xml",
                               "<task model='lander.xml' horizon='4' controlstep='5'><start key='falling'/>"
                               "<cost name='effort' ctrl='all' weight='1'/>"
                               "<cost name='place' qpos='x z pitch' target='0 1.36 0' terminal='100'/>"
                               "<cost name='rest' qvel='all' terminal='20'/>" +
                                   elements + "</task>"));
}

// with the least thrust
bool FallCrashes(const Task& task) {
  return Crashes(task.ToProblem(), Rolled(task, VectorXd{{.3, 0}}.replicate(1, task.N)));
}

TEST_F(DetourTest, AMotionCrashesThatTouchesSomethingFixedButNothingAtItsStart) {
  EXPECT_TRUE(FallCrashes(LanderTask()));
  EXPECT_FALSE(FallCrashes(LanderTask("", "", "8 200 .5")));
  // at the start on the ground, or something else there
  EXPECT_FALSE(FallCrashes(LanderTask("", "", "8 1.34 0")));
  const std::string other =
      "<body pos='-5 0 0'><joint type='slide' axis='0 0 1'/><geom type='sphere' size='.1' mass='1'/></body>";
  EXPECT_FALSE(FallCrashes(LanderTask("", other, ".09 8 20 .5", "0 -3 -8 0")));
}

TEST_F(DetourTest, NothingTouchesTheModelWithoutContacts) {
  const Task task = LanderTask();
  const ModelPtr without = WithoutContacts(task.model.get());
  const DataPtr data = MakeData(without.get());
  data->qpos[1] = -1;
  mj_forward(without.get(), data.get());
  EXPECT_EQ(data->ncon, 0);
  EXPECT_EQ(task.model->opt.disableflags & mjDSBL_CONTACT, 0);
}

bool IsFreed(const BasinHoppingRound& round) { return round.origin == RoundOrigin::kFreed; }

// costs about 0.5 a second of hovering, upright; on its side it costs 100 π²/8
TEST_F(DetourTest, AGuessThatCrashesIsLeftByWayOfASolveWithoutContacts) {
  const auto solve = [](const std::string& detour) {
    return SolveTask(LanderTask("<hopping from='stall' rounds='1' detour='" + detour + "'/>"));
  };
  const TaskSolution without = solve("false"), with = solve("true");
  EXPECT_GT(without.result.cost, 100);
  EXPECT_TRUE(std::ranges::none_of(without.rounds, IsFreed));
  EXPECT_LT(with.result.cost, 4);
  ASSERT_GE(with.rounds.size(), 2u);
  EXPECT_TRUE(IsFreed(with.rounds[1]) && with.rounds[1].better) << ToString(with.rounds[1].origin);
}

}  // namespace
}  // namespace costate
