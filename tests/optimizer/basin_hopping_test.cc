// Beyond the nearest minimum: the deeper of two wells is found, whoever solves; what is told is what is returned.
#include <costate/basin_hopping.h>
#include <costate/fddp.h>
#include <costate/solve_task.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "optimizer/basin_hopping.h"
#include "optimizer/control_noise.h"
#include "optimizer/finger_and_puck.h"
#include "optimizer/hopping_rounds.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

// a point at q = 0.8 and wells ½·100 ((q² − 1)² + 0.05 (q + 1)²): 0 at −1, about 10 near +1
constexpr char kPoint[] =
    "<mujoco><option gravity='0 0 0' timestep='0.05'/><worldbody><body><joint name='q' type='slide' axis='1 0 0'/>"
    "<geom size='.1' mass='1'/></body></worldbody><actuator><motor joint='q' ctrlrange='-60 60'/></actuator>"
    "<keyframe><key name='right' qpos='0.8'/></keyframe></mujoco>";

Task WellTask(const std::string& elements) {
  const support::TemporaryFolder folder;
  folder.Write("point.xml", kPoint);
  return LoadTask(
      folder.Write("wells.xml",
                   "<task model='point.xml' horizon='0.4' scale='sum'><start key='right'/><guess ctrl='0'/>"
                   "<measure name='x' qpos='q'/><cost name='wells' value='x*x - 1' weight='0' terminal='100'/>"
                   "<cost name='left' qpos='q' target='-1' weight='0' terminal='5'/>"
                   "<cost name='effort' ctrl='all' weight='1e-6'/>" +
                       elements + "</task>"));
}

// a finger and a puck, a second long; costs beside a small one of the control, and what else the task says
TaskSolution SolvePush(const std::string& costs, const std::string& more) {
  const support::TemporaryFolder folder;
  folder.Write("push.xml", kFingerAndPuck);
  return SolveTask(LoadTask(folder.Write("push.task.xml", "<task model='push.xml' horizon='1'>" + costs +
                                                              "<cost ctrl='all' weight='0.01'/>" + more + "</task>")));
}

BasinHoppingOptions Kicks(int rounds) {
  BasinHoppingOptions options;
  options.rounds = rounds;
  options.size = 0.5;
  return options;
}

class BasinHopping : public support::EngineTest {};

TEST_F(BasinHopping, FindsTheDeeperWell) {
  const Task task = WellTask("");
  const double alone = Solve(task.ToProblem(), task.ToGuess(), task.solver).cost;
  EXPECT_GT(alone, 9) << "the nearest minimum is the higher one";
  for (const SolverType type : {SolverType::kIlqr, SolverType::kFddp}) {
    IlqrOptions options = task.solver;
    options.type = type;
    const BasinHoppingResult found = SolveBasinHopping(task.ToProblem(), task.ToGuess(), options, Kicks(20));
    EXPECT_LT(found.result.cost, 0.1) << ToString(type) << ": " << found.result.message;
    EXPECT_NEAR(found.result.trajectory.X(0, task.N), -1, 0.01);
    EXPECT_EQ(found.result.status, SolveStatus::kConverged) << found.result.message;

    // the first round is that of solves alone, and the best round is what is returned
    ASSERT_GE(found.rounds.size(), 2u);
    EXPECT_GT(found.rounds.front().cost, 9);
    double best = std::numeric_limits<double>::infinity();
    int iterations = 0;
    for (const BasinHoppingRound& round : found.rounds) {
      EXPECT_EQ(round.better, round.number > 20 ? round.cost <= best : round.cost < best);
      best = std::min(best, round.cost);
      iterations += round.iterations;
    }
    EXPECT_EQ(found.result.cost, best);
    EXPECT_EQ(static_cast<int>(found.result.iterations.size()), iterations);
    Trajectory again;
    Simulator simulator(task.model.get(), task.context, task.substeps, 1);
    ASSERT_TRUE(simulator.Rollout(task.x0, found.result.trajectory.U, &again).ok());
    EXPECT_NEAR(TotalCost(*task.cost, again, simulator.knot_time()), best, 1e-12 * best + 1e-15);
  }
}

// a boat with two screws, whose heading at the start may vary, turns into its berth beside a buoy: penalties alone all but
// reach it, steps that know of the screws' limits ahead do
TEST_F(BasinHopping, ABoatComesIntoItsBerth) {
  const support::TemporaryFolder folder;
  folder.Write("boat.xml", R"(<mujoco><option timestep="0.01" density="1000" viscosity="0.001" gravity="0 0 0"
      integrator="implicitfast"/><worldbody><body name="hull"><joint name="x" type="slide" axis="1 0 0"/>
    <joint name="y" type="slide" axis="0 1 0"/><joint name="psi" axis="0 0 1"/>
    <geom type="ellipsoid" size=".6 .2 .12" mass="60" fluidshape="ellipsoid"/><site name="l" pos="-.5 .15 0"/>
    <site name="r" pos="-.5 -.15 0"/></body><body name="buoy" pos="2 .3 0"><geom type="cylinder" size=".3 .2"/></body>
    </worldbody><actuator><general site="l" gear="1 0 0 0 0 0" ctrlrange="-40 80"/>
    <general site="r" gear="1 0 0 0 0 0" ctrlrange="-40 80"/></actuator>
    <keyframe><key name="dock" qpos="4 1 1.5708"/></keyframe></mujoco>)");
  const SolveResult found =
      SolveTask(
          LoadTask(folder.Write("dock.task.xml",
                                "<task model='boat.xml' horizon='10' controlstep='5'>"
                                "<start free='psi' lower='-.1' upper='.1'/><cost ctrl='all' weight='1e-4'/>"
                                "<constraint name='dock' qpos='all' equals='key:dock' when='end'/>"
                                "<constraint name='rest' qvel='all' equals='0' when='end'/>"
                                "<constraint name='clear' body='hull' quantity='distance' body2='buoy' lower='0.3'/>"
                                "<limit actuator='all' quantity='force' lower='-30' upper='50'/>"
                                "<hopping rounds='1' from='stall' back='false'/></task>")))
          .result;
  EXPECT_EQ(found.status, SolveStatus::kConverged) << found.message;
  EXPECT_LE(found.violation, 1e-6);
  EXPECT_LT(found.cost, 0.5);
  EXPECT_EQ(found.message.find("multiple shooting"), std::string::npos) << found.message;
  for (std::size_t i = 1; i < found.iterations.size(); i++)
    EXPECT_EQ(found.iterations[i].iteration, found.iterations[i - 1].iteration + 1);
}

TEST_F(BasinHopping, GivesTheSameBitsAtAnyThreadCount) {
  const Task task = WellTask("");
  BasinHoppingOptions hopping = Kicks(4);
  hopping.width = 3;
  IlqrOptions options = task.solver;
  options.threads = 1;
  const BasinHoppingResult one = SolveBasinHopping(task.ToProblem(), task.ToGuess(), options, hopping);
  for (const int threads : {2, 3, 7}) {
    options.threads = threads;
    const BasinHoppingResult other = SolveBasinHopping(task.ToProblem(), task.ToGuess(), options, hopping);
    EXPECT_EQ(one.result.trajectory.U, other.result.trajectory.U);
    ASSERT_EQ(one.result.iterations.size(), other.result.iterations.size());
    for (std::size_t i = 0; i < one.result.iterations.size(); ++i) {
      EXPECT_EQ(one.result.iterations[i].cost, other.result.iterations[i].cost);
    }
  }
  hopping.seed = 2;
  EXPECT_NE(one.result.trajectory.U,
            SolveBasinHopping(task.ToProblem(), task.ToGuess(), options, hopping).result.trajectory.U);
}

// every motion on the way has its controls within their ranges, wide kicks or not
TEST_F(BasinHopping, KeepsTheLimits) {
  const Task task = WellTask("");
  BasinHoppingOptions hopping = Kicks(3);
  hopping.size = 5;
  const BasinHoppingResult found = SolveBasinHopping(task.ToProblem(), task.ToGuess(), task.solver, hopping);
  EXPECT_LE(found.result.trajectory.U.cwiseAbs().maxCoeff(), 60);
}

TEST_F(BasinHopping, KeepsConstraints) {
  // the left well is out of reach
  const Task task = WellTask("<constraint name='stay' qpos='q' lower='-0.5' when='end'/>");
  const BasinHoppingResult found =
      SolveBasinHopping(task.ToProblem(), task.ToGuess(), task.solver, Kicks(4), {}, task.constrained);
  EXPECT_LE(found.result.violation, task.constrained.tolerance) << found.result.message;
  EXPECT_GT(found.result.trajectory.X(0, task.N), -0.5 - 1e-5);
  EXPECT_EQ(found.result.constraints.size(), 1u);
}

// the first round is two solves with less and less regularization, and one by the other rule: whichever is best from a
// guess
TEST_F(BasinHopping, BeginsWithBothRulesOfRegularization) {
  const Task task = WellTask("");
  int by_step_wins = 0, by_promise_wins = 0;
  for (int g = -5; g <= 5; ++g) {
    const Guess guess{{}, MatrixXd::Constant(1, task.N, g)};
    std::vector<double> costs;
    for (const bool by_step : {false, false, true}) {
      IlqrOptions options = task.solver;
      options.tolerance = 3e-4;
      options.regularization_init *= costs.empty() ? 0.3 : 0.3 * 0.1;
      options.regularization_sweep = false;
      options.line_search_steps = 6;
      if (by_step) options.regularization_rule = RegularizationRule::kStep;
      costs.push_back(SolveIlqr(task.ToProblem(), guess.U, options).cost);
    }
    const double best = *std::min_element(costs.begin(), costs.end());
    by_step_wins += costs[2] < std::min(costs[0], costs[1]);
    by_promise_wins += costs[2] > best;
    EXPECT_EQ(SolveBasinHopping(task.ToProblem(), guess, task.solver, Kicks(1)).rounds.front().cost, best) << g;
  }
  EXPECT_GT(by_step_wins, 0);
  EXPECT_GT(by_promise_wins, 0);
}

// a stage of smoothing ends in the higher well, each length of time would; the kicks after them do not
TEST_F(BasinHopping, GoesOnFromSmoothingAndAtEachLengthOfTime) {
  for (const std::string& beside :
       {std::string("<smooth strategy='onset:0.01' stages='1'/>"),
        std::string("<time shortest='0.3' longest='0.6' weight='1e-3' tolerance='0.2'/>")}) {
    EXPECT_GT(SolveTask(WellTask(beside)).result.cost, 9) << beside;
    const Task task = WellTask(beside + "<hopping rounds='20' size='0.5'/>");
    std::vector<int> iterations;
    const TaskSolution solution = SolveTask(task, {.iteration = [&](const IterationRecord& record) {
                                              iterations.push_back(record.iteration);
                                              return true;
                                            }});
    EXPECT_LT(solution.result.cost, 0.1) << beside << ": " << solution.result.message;
    EXPECT_GT(solution.rounds.size(), 2u);
    ASSERT_EQ(solution.result.iterations.size(), iterations.size());
    for (std::size_t i = 0; i < iterations.size(); ++i) {
      EXPECT_EQ(iterations[i], static_cast<int>(i) + 1);
      EXPECT_EQ(solution.result.iterations[i].iteration, iterations[i]);
    }
    if (!solution.stages.empty()) continue;
    EXPECT_GT(solution.timed.trials.size(), 2u);
    for (const FreeTimeTrial& trial : solution.timed.trials) EXPECT_LT(trial.cost, 0.1) << trial.time;
  }
}

// a solve that stalls at a kink is followed by kicks, one that converges is not
TEST_F(BasinHopping, FollowsASolveThatStalls) {
  const std::string hopping = "<hopping rounds='20' size='0.5' from='stall'/>";
  const TaskSolution smooth = SolveTask(WellTask(hopping));
  EXPECT_EQ(smooth.result.status, SolveStatus::kConverged) << smooth.result.message;
  EXPECT_GT(smooth.result.cost, 9);
  EXPECT_TRUE(smooth.rounds.empty());

  const std::string kink = "<cost name='kink' value='1 + abs(x*x - 1)' weight='0' terminal='100'/>";
  const SolveResult stalled = SolveTask(WellTask(kink + "<hopping rounds='0'/>")).result;
  EXPECT_GT(SolveTask(WellTask(kink)).rounds.size(), 2u) << "without <hopping>, too";
  ASSERT_EQ(stalled.status, SolveStatus::kStalled) << stalled.message;
  EXPECT_NEAR(stalled.cost, 60, 0.1);
  const Task task = WellTask(kink + hopping);
  const TaskSolution solution = SolveTask(task);
  EXPECT_GT(solution.rounds.size(), 2u);
  EXPECT_NEAR(solution.result.cost, 50, 0.1) << solution.result.message;
  EXPECT_NE(solution.result.message.find("rounds of kicked controls"), std::string::npos) << solution.result.message;
  EXPECT_EQ(solution.result.initial_cost, stalled.initial_cost);

  // the iterations of the plain solve are the first of all, up to where it creeps; the solver's own bound all of them
  const auto plain = static_cast<std::size_t>(solution.rounds.front().iterations);
  ASSERT_LE(plain, stalled.iterations.size());
  ASSERT_GT(plain, 0u);
  ASSERT_GT(solution.result.iterations.size(), plain);
  for (std::size_t i = 0; i < plain; ++i) {
    EXPECT_EQ(solution.result.iterations[i].cost, stalled.iterations[i].cost);
  }
  Task bounded = WellTask(kink + hopping);
  bounded.solver.iterations = static_cast<int>(plain) + 7;
  bounded.hopping.shooting = false;
  EXPECT_LE(SolveTask(bounded).result.iterations.size(), plain + 7);
  bounded.hopping.shooting = true;  // on top of them, each as long
  EXPECT_LE(SolveTask(bounded).result.iterations.size(), 3 * (plain + 7));

  // so at each length of time: a length whose solve converges has no rounds
  const std::string time = "<time shortest='0.3' longest='0.6' weight='1e-3' tolerance='0.2'/>";
  EXPECT_TRUE(SolveTask(WellTask(time + hopping)).rounds.empty());
  const TaskSolution timed = SolveTask(WellTask(time + kink + hopping));
  EXPECT_GT(timed.rounds.size(), 2u);
  EXPECT_NEAR(timed.result.cost, 50, 0.1) << timed.result.message;
}

// rounds that are asked for are made where the solve uses up its iterations; the default's need some that are left
TEST_F(BasinHopping, RoundsThatAreAskedForFollowASolveAtItsLimit) {
  Task task = WellTask("<hopping rounds='3' size='0.5'/>");
  task.solver.iterations = 2;
  const TaskSolution asked = SolveTask(task);
  EXPECT_EQ(asked.rounds.front().iterations, 2);
  EXPECT_NE(asked.result.message.find("of 3 rounds of kicked controls"), std::string::npos) << asked.result.message;
  EXPECT_LT(asked.result.cost, asked.rounds.front().cost);

  const std::string kink = "<cost name='kink' value='1 + abs(x*x - 1)' weight='0' terminal='100'/>";
  Task stalls = WellTask(kink);
  stalls.solver.iterations = SolveTask(stalls).rounds.front().iterations + 5;  // fewer than the last solve keeps
  const SolveResult stalled = SolveTask(stalls).result;
  EXPECT_NE(stalled.message.find("no iterations were left for rounds of kicked controls"), std::string::npos)
      << stalled.message;
}

// where the end costs nothing, and the way little of what staying would, neither rounds nor a race follow a stall
TEST_F(BasinHopping, AMotionThatIsThereIsEnough) {
  const support::TemporaryFolder folder;
  folder.Write("point.xml", kPoint);
  const auto solve = [&](const char* rest, const char* enough) {
    return SolveTask(LoadTask(folder.Write(
        "there.xml",
        std::string("<task model='point.xml' horizon='0.4' scale='sum'><start key='right'/><guess ctrl='0'/>"
                    "<cost name='kink' qpos='q' target='1' norm='smooth_abs' param='0' weight='0' terminal='1e4'/>"
                    "<cost name='rest' value='") +
            rest + "' weight='0' terminal='1'/><cost name='effort' ctrl='all' weight='1e-6'/>" +
            "<hopping rounds='4' from='stall' enough='" + enough + "'/></task>")));
  };
  const TaskSolution polished = solve("0", "0"), there = solve("0", "0.01");
  EXPECT_GT(polished.rounds.size(), 2u) << polished.result.message;
  EXPECT_TRUE(there.rounds.empty());
  EXPECT_EQ(there.result.status, SolveStatus::kConverged);
  EXPECT_NE(there.result.message.find("it is there"), std::string::npos) << there.result.message;
  EXPECT_LT(there.result.iterations.size(), polished.result.iterations.size());
  EXPECT_NEAR(there.result.trajectory.X(0, there.result.trajectory.N()), 1, 1e-3);

  // too much for so little, and an end that costs something
  EXPECT_GT(solve("0", "1e-9").rounds.size(), 2u);
  const TaskSolution dear = solve("2", "0.99");
  EXPECT_GT(dear.rounds.size(), 2u);
  EXPECT_EQ(dear.result.trajectory.U, solve("2", "0").result.trajectory.U);
}

// rounds that are asked for follow whatever the solve's end: no shorter way than those that follow a stall
TEST_F(BasinHopping, AskedForFollowsASolveThatConverges) {
  const TaskSolution plain = SolveTask(WellTask(""));
  ASSERT_EQ(plain.result.status, SolveStatus::kConverged) << plain.result.message;
  const TaskSolution asked = SolveTask(WellTask("<hopping rounds='20' size='0.5'/>"));
  ASSERT_GT(asked.rounds.size(), 2u);
  EXPECT_NEAR(asked.rounds.front().cost, plain.result.cost, 1e-3 * plain.result.cost);
  EXPECT_LT(asked.result.cost, 0.1) << asked.result.message;
}

// two wells beside a hill: the guess leads to the higher one, its mirror image to the lower
TEST_F(BasinHopping, TriesTheMirrorImage) {
  Task task = WellTask("");
  task.x0[0] = 0.1;
  task.hopping.mirror = false;
  const SolveResult alone = SolveTask(task).result;
  EXPECT_GT(alone.cost, 9) << "uphill from the side it begins at is the higher well";
  task.hopping.mirror = true;
  const SolveResult found = SolveTask(task).result;
  EXPECT_LT(found.cost, 0.1) << found.message;
  EXPECT_NEAR(found.trajectory.X(0, task.N), -1, 0.01);
  EXPECT_EQ(found.initial_cost, alone.initial_cost);
  EXPECT_NE(found.message.find("mirror image of a motion of cost"), std::string::npos) << found.message;
  EXPECT_GT(found.iterations.size(), alone.iterations.size());
  EXPECT_EQ(found.iterations.back().iteration, static_cast<int>(found.iterations.size()));

  task = WellTask("");  // from 0.8 the image of a push flies off
  const SolveResult as_before = SolveTask(task).result;
  task.hopping.mirror = false;
  const SolveResult without = SolveTask(task).result;
  EXPECT_EQ(as_before.iterations.size(), without.iterations.size());
  EXPECT_TRUE(as_before.trajectory.U == without.trajectory.U);
}

// which round began where the best motion was found; 0: none
int RoundFrom(RoundOrigin origin, const TaskSolution& solution) {
  for (const BasinHoppingRound& round : solution.rounds)
    if (round.origin == origin && round.better) return round.number;
  return 0;
}

// one round of kicks without and with what a flag of <hopping> adds: from above one cost to below another
void ExpectLeadsOn(RoundOrigin origin, const std::string& flag, const char* model, const std::string& start_and_costs,
                   double above, double below) {
  const support::TemporaryFolder folder;
  folder.Write("model.xml", model);
  const auto solve = [&](const std::string& value) {
    Task task = LoadTask(folder.Write("task.xml", "<task model='model.xml' horizon='2' controlstep='4'>" +
                                                      start_and_costs + "<hopping from='stall' rounds='1' " + flag +
                                                      "='" + value + "'/></task>"));
    task.hopping.smooth = task.hopping.smooth && origin == RoundOrigin::kSmoothed;
    return SolveTask(task);
  };
  const TaskSolution without = solve("false"), with = solve("true");
  EXPECT_GT(without.result.cost, above);
  EXPECT_LT(with.result.cost, below) << with.result.message;
  EXPECT_EQ(RoundFrom(origin, without), 0);
  EXPECT_EQ(RoundFrom(origin, with), 1);
}

// A pole that falls is caught by a wall, which its cart must push against all the time: kicks have a mean of none.
TEST_F(BasinHopping, LeansToOneSide) {
  ExpectLeadsOn(RoundOrigin::kLeaning, "lean", R"(
<mujoco>
  <option timestep="0.005" integrator="implicitfast"/>
  <worldbody>
    <geom type="box" pos="-0.35 0 1" size="0.02 0.2 0.3"/>
    <geom type="box" pos="0.35 0 1" size="0.02 0.2 0.3"/>
    <body pos="0 0 .5"><joint name="x" type="slide" axis="1 0 0" damping="0.1"/>
      <geom type="box" size=".1 .05 .05" mass="1" contype="0" conaffinity="0"/>
      <body><joint name="th" type="hinge" axis="0 1 0" damping="0.01"/>
        <geom type="capsule" fromto="0 0 0 0 0 .5" size=".01" mass="0.1" contype="0" conaffinity="0"/>
        <geom type="sphere" pos="0 0 .5" size=".03" mass="0.4"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="x" ctrlrange="-3 3"/></actuator>
</mujoco>)",
                R"(
  <start qpos="0 0.3" qvel="0 1.5"/>
  <cost qpos="th" weight="5" terminal="50"/>
  <cost qpos="x" weight="1" terminal="10"/>
  <cost qvel="all" weight="0.05" terminal="5"/>
  <cost ctrl="all" weight="0.001"/>)",
                40, 15);
}

// a hopper that is to run: the plain solve drives its foot into the floor, kicks stay there
TEST_F(BasinHopping, GoesBySmootherContacts) {
  ExpectLeadsOn(RoundOrigin::kSmoothed, "smooth", R"(
<mujoco>
  <option timestep="0.005" integrator="implicitfast"/>
  <worldbody>
    <geom type="plane" size="10 1 .1"/>
    <body name="body" pos="0 0 .55">
      <joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/><joint name="pitch" axis="0 1 0"/>
      <geom type="box" size=".15 .1 .05" mass="3"/>
      <body>
        <joint name="hip" axis="0 1 0" range="-60 60"/>
        <geom type="capsule" fromto="0 0 0 0 0 -.2" size=".015" mass=".3" contype="0" conaffinity="0"/>
        <body pos="0 0 -.2">
          <joint name="leg" type="slide" axis="0 0 1" range="-.1 .25" damping="2"/>
          <geom type="capsule" fromto="0 0 0 0 0 -.3" size=".012" mass=".1" contype="0" conaffinity="0"/>
          <geom type="sphere" pos="0 0 -.3" size=".03" mass=".1"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="hip" ctrlrange="-15 15"/><motor joint="leg" ctrlrange="-150 150"/></actuator>
</mujoco>)",
                R"(
  <cost body="body" quantity="linvel" index="0" target="1" weight="2"/>
  <cost body="body" quantity="pos" index="2" target="0.55" weight="5"/>
  <cost qpos="pitch" weight="2"/>
  <cost ctrl="all" weight="0.001 0.00002"/>)",
                0.4, 0.25);
}

// costs only fall: a round that ends at ten times the best, or twice, was there after five iterations, or ten
TEST_F(BasinHopping, GivesUpWhatKicksHaveLedFarAboveTheBest) {
  Task task = LoadTask(COSTATE_MODELS "/hopper/hop.xml");
  task.hopping = {.rounds = 4, .after_solve = true};
  const TaskSolution solution = SolveTask(task);
  double best = solution.rounds.front().cost;
  int given_up = 0;
  for (const BasinHoppingRound& round : solution.rounds) {
    if (round.origin == RoundOrigin::kKicked && !round.last) {
      const int most = round.cost > 10 * best ? 5 : round.cost > 2 * best ? 10 : task.hopping.iterations;
      EXPECT_LE(round.iterations, most) << round.number << ": " << round.cost << " beside " << best;
      given_up += most < task.hopping.iterations;
    }
    best = std::min(best, round.cost);
  }
  EXPECT_GT(given_up, 0);
}

// about contacts the plain solve is the one that leads of five: each of its iterations is no worse than those of one
// alone while that is among them, and the same on any number of threads
// which leads after ten iterations need not lead in the end: the task as it is set is one of those that kicks follow
TEST_F(BasinHopping, TheSolveThatLostTheRaceGoesOnBesideTheFirstKicks) {
  Task task = LoadTask(COSTATE_MODELS "/box_push/push.xml");
  task.hopping.rounds = 1;
  const TaskSolution raced = SolveTask(task);
  ASSERT_GE(raced.rounds.size(), 2u);
  EXPECT_EQ(raced.rounds[1].origin, RoundOrigin::kPlain);
  EXPECT_TRUE(raced.rounds[1].better);
  task.hopping.race = 0;
  const TaskSolution plain = SolveTask(task);
  EXPECT_NE(plain.rounds[1].origin, RoundOrigin::kPlain);
  EXPECT_NEAR(raced.rounds[1].cost, plain.rounds[0].cost, 0.01 * plain.rounds[0].cost);
  EXPECT_LT(raced.rounds[1].cost, raced.rounds[0].cost);
}

TEST_F(BasinHopping, RacesAboutContacts) {
  Task task = LoadTask(COSTATE_MODELS "/box_push/push.xml");
  ASSERT_TRUE(Races(task.model.get(), task.N, task.solver, task.hopping));
  EXPECT_NE(Describe(task).find("five solves side by side, after 10 iterations the best"), std::string::npos);
  EXPECT_FALSE(Races(task.model.get(), 100000, task.solver, task.hopping)) << "memory";
  task.solver.iterations = 14;
  task.solver.threads = 1;
  const TaskSolution race = SolveTask(task);
  const std::vector<IterationRecord>& iterations = race.result.iterations;
  ASSERT_EQ(iterations.size(), 14u);
  EXPECT_EQ(iterations.back().iteration, 14);
  EXPECT_EQ(race.result.status, SolveStatus::kIterationLimit);
  EXPECT_NE(race.result.message.find("; before them 10 iterations of 5 solves side by side"), std::string::npos)
      << race.result.message;
  EXPECT_EQ(race.result.cost, iterations.back().cost);
  task.solver.threads = 2;
  const TaskSolution same = SolveTask(task);
  EXPECT_EQ(same.result.cost, race.result.cost);
  EXPECT_EQ(same.result.trajectory.U, race.result.trajectory.U);

  // told to stop, in the race and behind it
  for (const int last : {3, 5, 12}) {
    int calls = 0;
    const SolveResult stopped =
        SolveTask(task, {.iteration = [&](const IterationRecord&) { return ++calls < last; }}).result;
    EXPECT_EQ(stopped.status, SolveStatus::kInterrupted) << last;
    EXPECT_EQ(calls, last);
    EXPECT_EQ(stopped.cost, iterations[static_cast<std::size_t>(last - 1)].cost);
  }

  // of one solve alone, which --hops 0 and race="0" are
  task.hopping.race = 0;
  EXPECT_FALSE(Races(task.model.get(), task.N, task.solver, task.hopping));
  const SolveResult unraced = SolveTask(task).result;
  task.hopping = {};
  const SolveResult plain = SolveTask(task).result;
  EXPECT_EQ(unraced.cost, plain.cost);
  EXPECT_EQ(race.result.initial_cost, plain.initial_cost);
  int ahead = 0;
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_LE(iterations[i].cost, plain.iterations[i].cost) << i;
    ahead += iterations[i].cost < plain.iterations[i].cost;
  }
  EXPECT_GT(ahead, 0);
}

// within constraints, too, what follows the race ends no worse than it
TEST_F(BasinHopping, RacesWithinConstraints) {
  const support::TemporaryFolder folder;
  const std::string file = folder.Write(
      "push.xml", "<task model='" COSTATE_MODELS
                  "/box_push/box_push.xml' horizon='2' controlstep='4'><start key='touching'/><guess ctrl='1 0'/>"
                  "<cost name='rest' qvel='all' weight='0.01' terminal='1'/><cost name='effort' ctrl='all' "
                  "weight='0.005'/><constraint name='there' qpos='box_x' equals='0.3' when='end'/></task>");
  Task task = LoadTask(file);
  ASSERT_TRUE(Races(task.model.get(), task.N, task.solver, task.hopping));
  std::vector<SolveResult> results;
  for (const int iterations : {10, 11, 13, 40}) {
    task.solver.iterations = iterations;
    results.push_back(SolveTask(task).result);
    EXPECT_LE(results.back().iterations.size(), static_cast<std::size_t>(iterations));
    EXPECT_NE(results.back().status, SolveStatus::kDiverged);
  }
  const double tolerance = task.constrained.tolerance;
  for (std::size_t i = 1; i < results.size(); ++i) {
    const bool kept = results[0].violation <= tolerance;
    EXPECT_LE(results[i].violation, std::max(tolerance, results[0].violation)) << i;
    if (kept) {
      EXPECT_LE(results[i].cost, results[0].cost) << i;
    }
  }
  EXPECT_LT(results.back().violation, 1e-3);
}

// a solve that goes on does not race again
TEST_F(BasinHopping, RacesFromNoSavedState) {
  Task task = LoadTask(COSTATE_MODELS "/box_push/push.xml");
  task.solver.iterations = 3;
  const SolveResult led = SolveTask(task).result;
  task.state = led.state;
  task.U_guess = led.state.U;
  const SolveResult on = SolveTask(task).result;
  EXPECT_EQ(on.message.find("side by side"), std::string::npos) << on.message;
  EXPECT_LE(on.cost, led.cost);
}

// straight in front of a post every step leads straight on: the plain solve ends inside it, a kicked one goes around
TEST_F(BasinHopping, FollowsASolveThatEndsInfeasible) {
  const support::TemporaryFolder folder;
  folder.Write(
      "puck.xml",
      "<mujoco model='puck'><option timestep='0.01' gravity='0 0 0'/><worldbody>"
      "<geom name='post' type='cylinder' size='.3 .5' contype='0' conaffinity='0'/><body>"
      "<joint name='x' type='slide' axis='1 0 0'/><joint name='y' type='slide' axis='0 1 0'/>"
      "<geom name='puck' type='sphere' size='.05' mass='1' contype='0' conaffinity='0'/></body></worldbody>"
      "<actuator><motor joint='x' ctrlrange='-20 20'/><motor joint='y' ctrlrange='-20 20'/></actuator></mujoco>");
  const auto task = [&](const std::string& elements) {
    return LoadTask(folder.Write(
        "around.xml",
        "<task model='puck.xml' horizon='1.5' controlstep='2'><start qpos='-1 0'/><guess ctrl='0'/>"
        "<cost name='effort' ctrl='all' weight='0.01'/><constraint name='there' qpos='all' equals='1 0' when='end'/>"
        "<constraint name='clear' geom='puck' quantity='distance' geom2='post' lower='0.02'/>" +
            elements + "</task>"));
  };
  const TaskSolution plain = SolveTask(task("<hopping rounds='0'/>"));
  ASSERT_EQ(plain.result.status, SolveStatus::kInfeasible) << plain.result.message;
  EXPECT_GT(plain.result.violation, 0.1);
  const Task kicked = task("");
  const TaskSolution around = SolveTask(kicked);
  EXPECT_EQ(around.result.status, SolveStatus::kConverged) << around.result.message;
  EXPECT_LE(around.result.violation, kicked.constrained.tolerance);
  EXPECT_GT(around.result.trajectory.X.row(1).cwiseAbs().maxCoeff(), 0.3);
  EXPECT_GE(around.rounds.size(), 2u);
  for (std::size_t i = 0; i < plain.result.iterations.size(); ++i)
    EXPECT_EQ(around.result.iterations[i].cost, plain.result.iterations[i].cost);

  // what no motion keeps is said to be so after the rounds, too, with the least violation that they met
  const std::string slow = "<limit joint='all' quantity='velocity' lower='-0.5' upper='0.5'/>";
  const TaskSolution given_up = SolveTask(task(slow + "<hopping rounds='0'/>")), never = SolveTask(task(slow));
  EXPECT_EQ(never.result.status, SolveStatus::kInfeasible) << never.result.message;
  EXPECT_GT(never.rounds.size(), 2u);
  EXPECT_LE(never.result.violation, given_up.result.violation);
  EXPECT_NE(never.result.message.find("no motion found that keeps the constraints"), std::string::npos);
}

// the same puck in one term with what the finger does reach: a solve that gains next to nothing there is none either
TEST_F(BasinHopping, FollowsASolveThatHardlyAnythingHelps) {
  const auto solve = [&](const std::string& hopping) {
    return SolvePush("<cost qpos='finger puck' target='.002 .2' terminal='100'/>", hopping);
  };
  const TaskSolution plain = solve("<hopping rounds='0'/>"),
                     found = solve("<hopping rounds='4' from='stall' mirror='false'/>");
  EXPECT_EQ(plain.result.status, SolveStatus::kConverged);
  EXPECT_LT(plain.result.cost, plain.result.initial_cost) << "the finger moves";
  EXPECT_GT(plain.result.cost, 0.999 * plain.result.initial_cost);
  EXPECT_FALSE(found.rounds.empty());
  EXPECT_LT(found.result.cost, 0.5 * plain.result.cost) << found.result.message;
}

// a puck that nothing touches has no slope: plainly solved, the finger stays where it is, and that converges at once
TEST_F(BasinHopping, FollowsAGuessWithoutASlope) {
  const auto solve = [&](const std::string& target, const std::string& hopping) {
    return SolvePush("<cost qpos='puck' target='" + target + "' terminal='100'/>", hopping);
  };
  const TaskSolution plain = solve("0.2", "<hopping rounds='0'/>"), found = solve("0.2", "");
  EXPECT_EQ(plain.result.status, SolveStatus::kStalled);
  EXPECT_EQ(plain.result.message.find("no control changes 'qpos puck' along this motion"), 0u) << plain.result.message;
  EXPECT_EQ(plain.untouched, std::vector<std::string>{"qpos puck"});
  EXPECT_NEAR(plain.result.cost, 2, 1e-12);  // ½ 100 · 0.2²
  EXPECT_FALSE(found.rounds.empty());
  EXPECT_LT(found.result.cost, 0.1);

  // where there is nothing to gain none follow
  EXPECT_TRUE(solve("0", "").rounds.empty());
  EXPECT_EQ(solve("0", "").result.status, SolveStatus::kConverged);
}

// kicks too small to reach the puck, from a guess that moves a little, hence without periodic controls: where nothing
// is gained a round from sampled controls follows, and where that finds nothing either all further ones
TEST_F(BasinHopping, SamplesWhereKicksGainNothing) {
  const support::TemporaryFolder folder;
  folder.Write("push.xml", kFingerAndPuck);
  folder.Write("guess.csv", "0\n-0.4\n0\n");
  const auto solve = [&](const std::string& horizon, int threads) {
    Task task = LoadTask(folder.Write(
        "push.task.xml",
        "<task model='push.xml' horizon='" + horizon +
            "'><guess file='guess.csv'/><cost qpos='puck' target='0.2' terminal='100'/>"
            "<cost ctrl='all' weight='1e-4'/><hopping rounds='2' size='1e-4' from='stall' touch='false'/></task>"));
    task.solver.threads = threads;
    return SolveTask(task);
  };
  const TaskSolution found = solve("1", 1), again = solve("1", 3);
  ASSERT_GT(found.rounds.size(), 4u);
  for (const BasinHoppingRound& round : found.rounds) {
    EXPECT_EQ(round.origin == RoundOrigin::kSampled, round.number == 3);
    EXPECT_EQ(round.last, &round == &found.rounds.back());
  }
  EXPECT_NEAR(found.rounds[2].cost, 2, 1e-6);
  EXPECT_LT(found.rounds[3].cost, 0.5);
  EXPECT_LT(found.result.cost, 0.1) << found.result.message;
  EXPECT_EQ(found.result.cost, again.result.cost);
  EXPECT_EQ(found.result.trajectory.U, again.result.trajectory.U);

  // not to be reached in the time: from the guess, two rounds, four more, the last solve
  const TaskSolution never = solve("0.05", 1);
  EXPECT_NEAR(never.result.cost, 2, 1e-6);
  EXPECT_EQ(never.rounds.size(), 8u);
  for (const BasinHoppingRound& round : never.rounds) EXPECT_NE(round.origin, RoundOrigin::kSampled);
}

// A weak motor swings a mass on a spring by pushing in time with it: no slope says so from rest. The first round of
// kicks has a solve from periodic controls, the next ones as long as those lead; but from a guess that moves by itself,
// over less time than two periods take, and within constraints.
TEST_F(BasinHopping, TriesPeriodicControlsWhereTheGuessStays) {
  const support::TemporaryFolder folder;
  folder.Write("spring.xml",
               "<mujoco><option gravity='0 0 0' timestep='0.02'/><worldbody><body><joint name='x' type='slide' axis='1 "
               "0 0' stiffness='80' damping='.1'/><geom size='.1' mass='1'/></body></worldbody><actuator><motor "
               "joint='x' ctrlrange='-1 1'/></actuator></mujoco>");
  folder.Write("moving.csv", "0\n0.1\n0\n");
  const auto solve = [&](const std::string& horizon, const std::string& elements) {
    Task task = LoadTask(folder.Write("t.xml", "<task model='spring.xml' horizon='" + horizon + "'>" + elements +
                                                   "<measure name='q' qpos='x'/><measure name='v' qvel='x'/><cost "
                                                   "value='1 - 80 * q * q - v * v'/></task>"));
    task.solver.leave_saddles = false;
    task.hopping.size = 1e-9;  // no kick leads anywhere
    task.hopping.rounds = 3;
    return SolveBasinHopping(task.ToProblem(), task.ToGuess(), task.solver, task.hopping);
  };
  const BasinHoppingResult found = solve("4", "<guess ctrl='0'/>");
  ASSERT_GE(found.rounds.size(), 3u) << found.result.message;
  EXPECT_EQ(ToString(found.rounds[1].origin), std::string("periodic controls"));
  EXPECT_TRUE(found.rounds[1].better);
  EXPECT_LT(found.result.cost, 0.7 * found.result.initial_cost);
  const auto none = [](const BasinHoppingResult& result) {
    return std::none_of(result.rounds.begin(), result.rounds.end(),
                        [](const BasinHoppingRound& round) { return round.origin == RoundOrigin::kPeriodic; });
  };
  EXPECT_TRUE(none(solve("0.38", "<guess ctrl='0'/>")));
  EXPECT_TRUE(none(solve("4", "<guess file='moving.csv'/>")));
  EXPECT_TRUE(none(solve("4", "<guess ctrl='0'/><constraint qpos='x' lower='-9' upper='9'/>")));
}

// Three links in water, by actuators that no servos are made of: the second joint of the chain follows the first by a
// part of a turn, and the best of these waves swims.
TEST_F(BasinHopping, TriesWavesAlongChains) {
  const support::TemporaryFolder folder;
  const std::string link = "<geom type='capsule' fromto='0 0 0 -1 0 0' size='.1' density='1000'/>";
  folder.Write(
      "swimmer.xml",
      "<mujoco><option timestep='.01' density='4000' viscosity='.1' integrator='RK4' gravity='0 0 0'/><default>"
      "<joint armature='.1'/><general gear='150' ctrlrange='-1 1' biastype='affine'/></default>"
      "<worldbody><body name='head'><joint name='x' type='slide' axis='1 0 0'/>"
      "<joint name='y' type='slide' axis='0 1 0'/><joint name='turn' axis='0 0 1'/>" +
          link + "<body pos='-1 0 0'><joint name='a' axis='0 0 1'/>" + link +
          "<body pos='-1 0 0'><joint name='b' axis='0 0 1'/>" + link +
          "</body></body></body></worldbody><actuator><general joint='a'/><general "
          "joint='b'/></actuator></mujoco>");
  const Task task = LoadTask(folder.Write(
      "swim.xml",
      "<task model='swimmer.xml' horizon='4' controlstep='4'><guess ctrl='0'/><cost name='speed' subtree='head' "
      "quantity='linvel' index='0 1' target='0.5 0' weight='50'/><cost name='effort' ctrl='all' "
      "weight='0.01'/></task>"));
  const Problem problem = task.ToProblem();
  const MatrixXd rest = task.ToGuess().U;
  Simulator simulator(problem.model, problem.context, problem.substeps, 1);
  const auto cost_of = [&](const MatrixXd& U) {
    Trajectory motion;
    EXPECT_TRUE(simulator.Rollout(problem.x0, U, &motion).ok());
    return TotalCost(*problem.cost, motion, problem.knot_time());
  };
  double best = 1e9;
  for (const MatrixXd& U : WavesAlongChains(problem, rest)) {
    best = std::min(best, cost_of(U));
    EXPECT_GT((U.row(0) - U.row(1)).cwiseAbs().maxCoeff(), 0.2 * U.cwiseAbs().maxCoeff());
    EXPECT_NEAR(U.row(0).cwiseAbs().maxCoeff(), U.row(1).cwiseAbs().maxCoeff(), 0.1 * U.cwiseAbs().maxCoeff());
  }
  EXPECT_LT(best, 0.85 * cost_of(rest));
}

// A rotary pendulum with a weak motor swings up in many ways: kicks do not leave the one that iLQR finds, where
// multiple shooting finds one of a third of its cost.
TEST_F(BasinHopping, ShootsWhereNothingTouches) {
  const support::TemporaryFolder folder;
  const std::string model =
      "<mujoco><option timestep='.002'/><worldbody><body pos='0 0 .22'><joint name='yaw' axis='0 0 1' damping='.0005' "
      "range='-143 143'/><geom type='capsule' fromto='0 0 0 .12 0 0' size='.008' mass='.1'/><body pos='.12 0 0'><joint "
      "name='swing' axis='1 0 0' damping='.00005'/><geom type='capsule' fromto='.015 0 0 .015 0 -.16' size='.006' "
      "mass='.03'/></body></body></worldbody><actuator><motor joint='yaw' ctrlrange='-.06 .06'/></actuator></mujoco>";
  folder.Write("furuta.xml", model);
  const auto task = [&](const std::string& more) {
    return LoadTask(folder.Write(
        "task.xml",
        "<task model='furuta.xml' horizon='2' controlstep='5'><cost qpos='all' target='0 3.14159265' weight='0.2' "
        "terminal='20'/><cost qvel='all' weight='0.0009' terminal='1.8'/><cost ctrl='all' weight='5.55556'/>" +
            more + "</task>"));
  };
  const TaskSolution without = SolveTask(task("<hopping rounds='1' from='stall' shooting='false'/>"));
  const TaskSolution with = SolveTask(task("<hopping rounds='1' from='stall'/>"));
  ASSERT_GE(with.rounds.size(), 2u) << with.result.message;
  EXPECT_TRUE(with.rounds[1].origin == RoundOrigin::kShooting && with.rounds[1].better);
  EXPECT_LT(with.result.cost, 0.7 * without.result.cost);
  // within constraints it has no part
  const TaskSolution within = SolveTask(
      task("<limit joint='yaw' lower='-140' upper='140'/><hopping rounds='1' from='stall'/><solver iterations='20'/>"));
  for (const BasinHoppingRound& round : within.rounds) EXPECT_NE(round.origin, RoundOrigin::kShooting);
}

// the same where the finger has something else to do, which it does: kicks find the puck, and so do contacts that begin
// far enough off
TEST_F(BasinHopping, FollowsWhereNothingTouchesWhatCosts) {
  const auto solve = [&](const std::string& more) {
    return SolvePush(
        "<cost name='puck' qpos='puck' target='0.2' terminal='100'/>"
        "<cost name='back' qpos='finger' target='-0.1' weight='1'/>",
        more);
  };
  const TaskSolution plain = solve("<hopping rounds='0'/>");
  EXPECT_LT(plain.result.cost, plain.result.initial_cost);
  EXPECT_EQ(plain.untouched, std::vector<std::string>{"puck"});
  EXPECT_EQ(plain.result.status, SolveStatus::kStalled);

  const TaskSolution kicked = solve("<hopping rounds='4' from='stall' mirror='false'/>");
  EXPECT_FALSE(kicked.rounds.empty());
  EXPECT_LE(kicked.result.cost, plain.result.cost);

  const TaskSolution smooth = solve("<hopping rounds='0'/><smooth strategy='distance:0.01'/>");
  ASSERT_GT(smooth.stages.size(), 2u);
  EXPECT_EQ(smooth.stages[0].factor, 0);
  EXPECT_EQ(smooth.stages[1].smoothing, "distance 0.08 m");  // the puck is 5 cm away
  EXPECT_LT(smooth.result.cost, 0.5 * plain.result.cost) << smooth.result.message;
  EXPECT_TRUE(smooth.untouched.empty());
}

// where a solve creeps it may end early, as others go on from there; one that converges is the same to the last bit
TEST_F(BasinHopping, EndsASolveThatCreeps) {
  IlqrOptions creeping = WellTask("").solver;
  creeping.stall_tolerance = 3e-4;
  const Task kink = WellTask("<cost name='kink' value='1 + abs(x*x - 1)' weight='0' terminal='100'/>");
  const SolveResult whole = SolveIlqr(kink.ToProblem(), kink.U_guess, kink.solver);
  const SolveResult part = SolveIlqr(kink.ToProblem(), kink.U_guess, creeping);
  EXPECT_EQ(part.status, SolveStatus::kStalled) << part.message;
  EXPECT_NE(part.message.find("each of the last 8 reduced the cost"), std::string::npos) << part.message;
  EXPECT_LT(part.iterations.size(), whole.iterations.size());
  EXPECT_LT(part.cost, whole.cost * (1 + 1e-2));

  // multiple shooting: not by the size of regularization, which steps that gain nothing lower again
  const SolveResult shot = SolveFddp(kink.ToProblem(), MatrixXd(), kink.U_guess, kink.solver);
  EXPECT_EQ(shot.status, SolveStatus::kStalled) << shot.message;
  EXPECT_NE(shot.message.find("of itself together"), std::string::npos) << shot.message;

  const Task well = WellTask("");
  const SolveResult plain = SolveIlqr(well.ToProblem(), well.U_guess, well.solver);
  const SolveResult same = SolveIlqr(well.ToProblem(), well.U_guess, creeping);
  EXPECT_EQ(same.status, SolveStatus::kConverged) << same.message;
  EXPECT_EQ(same.trajectory.U, plain.trajectory.U);
  creeping.stall_tolerance = -1;
  EXPECT_THROW(SolveIlqr(well.ToProblem(), well.U_guess, creeping), Error);
}

// A swimmer that inches its way at the same pace all along ends halfway, so that others follow with what is left; one
// that nears its end does not.
TEST_F(BasinHopping, EndsASolveThatCrawls) {
  const support::TemporaryFolder folder;
  const std::string geom = "<geom type='ellipsoid' fluidshape='ellipsoid' contype='0' size=";
  folder.Write(
      "swim.xml",
      "<mujoco><compiler angle='radian'/><option timestep='.005' density='1000' viscosity='.001' gravity='0 0 0' "
      "integrator='implicitfast'/>"
      "<worldbody>"
      "<body><joint type='slide' axis='1 0 0'/><joint type='slide' axis='0 1 0'/><joint axis='0 0 1'/>" +
          geom + "'.12 .03 .06'/><site name='nose' pos='-.12 0 0'/><body pos='.13 0 0'>" +
          "<joint name='a' axis='0 0 1' range='-1.2 1.2' damping='.02'/>" + geom +
          "'.1 .02 .06' pos='.1 0 0'/><body pos='.21 0 0'>" +
          "<joint name='b' axis='0 0 1' range='-1.2 1.2' damping='.02'/>" + geom +
          "'.1 .015 .06' pos='.1 0 0'/></body></body></body></worldbody><actuator>"
          "<motor joint='a' ctrlrange='-3 3'/><motor joint='b' ctrlrange='-3 3'/></actuator></mujoco>");
  Task task = LoadTask(
      folder.Write("task.xml",
                   "<task model='swim.xml' horizon='1.5' controlstep='6'><cost site='nose' quantity='pos' index='0 1' "
                   "target='-1.6 0' weight='1' terminal='100'/><cost ctrl='all' weight='0.002'/></task>"));
  task.hopping.shooting = task.hopping.lean = task.hopping.smooth = false;
  task.hopping.rounds = 1;
  task.hopping.iterations = 10;
  task.solver.iterations = 60;
  task.solver.threads = 1;
  const SolveResult alone = Solve(task.ToProblem(), task.ToGuess(), task.solver);
  ASSERT_EQ(alone.status, SolveStatus::kIterationLimit) << alone.message;
  const BasinHoppingResult found = SolveBasinHopping(task.ToProblem(), task.ToGuess(), task.solver, task.hopping);
  ASSERT_GE(found.rounds.size(), 2u) << found.result.message;
  EXPECT_EQ(found.rounds[0].iterations, 30);
  EXPECT_LT(found.result.cost, 0.8 * alone.cost);

  // too few are left for others
  task.hopping.iterations = 11;
  const BasinHoppingResult whole = SolveBasinHopping(task.ToProblem(), task.ToGuess(), task.solver, task.hopping);
  EXPECT_TRUE(whole.rounds.empty()) << whole.result.message;
}

// iterations bound all rounds together; the callback, called by this thread, ends them all
// IlqrOptions::stop ends solves between their derivatives and their steps, however many go side by side, within
// constraints and without; what there is has gains of the right size and a cost no higher than the guess's.
TEST_F(BasinHopping, StopsBetweenDerivativesAndSteps) {
  for (const char* constraint : {"", "<constraint qpos='q' lower='-3' upper='3'/>"}) {
    for (const int asked : {0, 1, 2, 5, 12, 40}) {
      Task task = WellTask(constraint);
      std::atomic<int> left = asked;
      task.solver.threads = 2;
      task.solver.stop = [&] { return left-- == 0; };  // once is enough
      const SolveResult result =
          SolveBasinHopping(task.ToProblem(), task.ToGuess(), task.solver, Kicks(20), {}, task.constrained).result;
      EXPECT_EQ(result.status, SolveStatus::kInterrupted) << asked << ": " << result.message;
      EXPECT_LE(result.cost, result.initial_cost);
      ASSERT_EQ(static_cast<int>(result.policy.K.size()), task.N);
      EXPECT_EQ(result.policy.K[0].rows(), 1);
      EXPECT_EQ(result.policy.K[0].cols(), 2);
      EXPECT_EQ(result.policy.k.cols(), task.N);
    }
  }
}

TEST_F(BasinHopping, EndsWhenItIsTold) {
  const Task task = WellTask("");
  IlqrOptions options = task.solver;
  options.iterations = 25;
  const BasinHoppingResult limited = SolveBasinHopping(task.ToProblem(), task.ToGuess(), options, Kicks(1000));
  EXPECT_EQ(limited.result.status, SolveStatus::kIterationLimit) << limited.result.message;
  EXPECT_EQ(limited.result.message.find("reached the limit of 25 iterations; among them the best motion's own solve "),
            0u)
      << limited.result.message;
  EXPECT_LE(limited.result.iterations.size(), 25u);

  // the last of them are those of the solve to the solver's own tolerance
  ASSERT_GE(limited.rounds.size(), 2u);
  EXPECT_EQ(limited.rounds.back().number, 1001);
  EXPECT_LE(limited.rounds.front().iterations, 10);
  EXPECT_LE(limited.result.gradient_norm, 1e-6);

  int calls = 0;
  double best = std::numeric_limits<double>::infinity();
  const BasinHoppingResult stopped =
      SolveBasinHopping(task.ToProblem(), task.ToGuess(), task.solver, Kicks(1000), [&](const IterationRecord& record) {
        EXPECT_EQ(record.iteration, ++calls);
        best = std::min(best, record.cost);
        return calls < 12;
      });
  EXPECT_EQ(stopped.result.status, SolveStatus::kInterrupted);
  EXPECT_EQ(stopped.result.message.find("interrupted after 12 iterations; "), 0u) << stopped.result.message;
  EXPECT_EQ(calls, 12);
  EXPECT_EQ(stopped.result.cost, best);
}

// a gait whose cost leads away from cycles: the rounds behind all others find one, or come nearer to it
class BackWithinConstraints : public BasinHopping {
 protected:
  const Task task_ = LoadTask(std::string(COSTATE_MODELS) + "/hopper/cycle.xml");

  BasinHoppingResult Found(bool back, int threads, const IterationCallback& callback = {}) const {
    IlqrOptions options = task_.solver;
    options.iterations = 10;
    options.threads = threads;
    BasinHoppingOptions hopping;
    hopping.rounds = 1;
    hopping.back = back;
    return SolveBasinHopping(task_.ToProblem(), task_.ToGuess(), options, hopping, callback, task_.constrained);
  }
};

TEST_F(BackWithinConstraints, TheyFollowWhereConstraintsAreMissed) {
  const BasinHoppingResult before = Found(false, 1), found = Found(true, 1);
  ASSERT_GT(before.result.violation, task_.constrained.tolerance) << "nothing to go back from";
  EXPECT_LT(found.result.violation, before.result.violation);
  EXPECT_EQ(found.result.initial_cost, before.result.initial_cost);
  EXPECT_TRUE(found.result.multipliers.empty());
  EXPECT_EQ(found.result.status,
            found.result.violation > task_.constrained.tolerance ? SolveStatus::kInfeasible : SolveStatus::kStalled)
      << found.result.message;
  EXPECT_NE(found.result.message.find("back within the constraints"), std::string::npos) << found.result.message;

  // they come behind the others, and have so many iterations of their own
  ASSERT_GT(found.rounds.size(), before.rounds.size());
  std::size_t iterations = before.result.iterations.size();
  for (std::size_t i = 0; i < found.rounds.size(); ++i) {
    EXPECT_EQ(found.rounds[i].origin == RoundOrigin::kBack, i >= before.rounds.size());
    if (found.rounds[i].origin == RoundOrigin::kBack)
      iterations += static_cast<std::size_t>(found.rounds[i].iterations);
  }
  EXPECT_EQ(found.result.iterations.size(), iterations);
  EXPECT_LE(iterations, before.result.iterations.size() + 60);

  // cost and violation are those of the motion
  const Problem problem = task_.ToProblem();
  Trajectory again;
  Simulator simulator(task_.model.get(), task_.context, task_.substeps, 1);
  ASSERT_TRUE(simulator.Rollout(found.result.state.x0, found.result.trajectory.U, &again).ok());
  EXPECT_EQ(again.X, found.result.trajectory.X);
  EXPECT_NEAR(TotalCost(*task_.cost, again, simulator.knot_time()), found.result.cost, 1e-12 * found.result.cost);
  const VectorXd miss = again.X.col(task_.N) - again.X.col(0);
  EXPECT_NEAR(miss.tail(miss.size() - 1).lpNorm<Eigen::Infinity>(), found.result.violation, 1e-12) << "all but root_x";
}

TEST_F(BackWithinConstraints, TheBitsAreTheSameAtAnyThreadCount) {
  const BasinHoppingResult one = Found(true, 1), three = Found(true, 3);
  EXPECT_TRUE(std::any_of(one.rounds.begin(), one.rounds.end(),
                          [](const auto& round) { return round.origin == RoundOrigin::kBack; }));
  EXPECT_EQ(one.result.trajectory.U, three.result.trajectory.U);
  EXPECT_EQ(one.result.iterations.size(), three.result.iterations.size());
}

TEST_F(BackWithinConstraints, TheCallbackEndsThem) {
  const BasinHoppingResult before = Found(false, 2);
  const int last = static_cast<int>(before.result.iterations.size()) + 10;
  const BasinHoppingResult ended =
      Found(true, 2, [&](const IterationRecord& record) { return record.iteration < last; });
  EXPECT_EQ(ended.result.status, SolveStatus::kInterrupted);
  EXPECT_EQ(ended.result.message.find("interrupted after "), 0u) << ended.result.message;
  EXPECT_EQ(static_cast<int>(ended.result.iterations.size()), last);
  EXPECT_LE(ended.result.violation, before.result.violation);
}

// what a solver throws in its thread arrives here
TEST_F(BasinHopping, PassesErrorsOn) {
  const Task task = WellTask("");
  IlqrOptions options = task.solver;
  options.second_order = true;  // iLQR has none
  EXPECT_THROW(SolveBasinHopping(task.ToProblem(), task.ToGuess(), options, Kicks(1)), Error);
  options = task.solver;
  options.seconds = 1;
  EXPECT_THROW(SolveBasinHopping(task.ToProblem(), task.ToGuess(), options, Kicks(1)), Error);
  BasinHoppingOptions none = Kicks(1);
  none.width = 0;
  EXPECT_THROW(SolveBasinHopping(task.ToProblem(), task.ToGuess(), task.solver, none), Error);
  none = Kicks(1);
  none.size = 0;
  EXPECT_THROW(SolveBasinHopping(task.ToProblem(), task.ToGuess(), task.solver, none), Error);

  // the callback's, once the solves that wait for its word have ended
  const IterationCallback throws = [](const IterationRecord& record) -> bool {
    if (record.iteration < 3) return true;
    throw std::range_error("enough");
  };
  EXPECT_THROW(SolveBasinHopping(task.ToProblem(), task.ToGuess(), task.solver, Kicks(1), throws), std::range_error);
}

// A kick of a motor is a part of its force, whatever that does; of a servo it is a part of the control's range, unless
// that is more than takes its force from one limit to the other: 2 · 150 N m / 2000 of a range of 12.56, of which a
// kick of 5 % would throw the joint about at full force.
TEST_F(BasinHopping, ServosAreKickedByNoMoreThanTheirForce) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody>
    <body><joint name="a"/><geom size=".1"/><body><joint name="b"/><geom size=".1"/><body><joint name="c"/><geom size=".1"/>
    <body><joint name="d" actuatorfrcrange="-8 8"/><geom size=".1"/><body><joint name="e"/><geom size=".1"/>
    </body></body></body></body></body></worldbody><actuator>
    <motor joint="a" ctrlrange="-60 60" forcerange="-60 60"/>
    <position joint="b" kp="2000" ctrlrange="-6.28 6.28" forcerange="-150 150"/>
    <position joint="c" kp="2000" ctrlrange="-6.28 6.28"/>
    <position joint="d" kp="20" gear="4" ctrlrange="-3 3"/>
    <position joint="e" kp="20" ctrlrange="-.5 .5" forcerange="-15 15"/></actuator></mujoco>)");
  Problem problem;
  problem.model = model.get();
  ControlLimits(model.get(), &problem.u_lower, &problem.u_upper);
  VectorXd expected(5);
  expected << 60, 150.0 / 2000, 6.28, 2.0 / 20, 0.5;
  EXPECT_TRUE(support::MatricesNear(KickUnits(problem), expected, 1e-15));
}

TEST_F(BasinHopping, IsReadFromTheTask) {
  EXPECT_EQ(WellTask("").hopping.rounds, 4);
  EXPECT_TRUE(WellTask("").hopping.after_solve);
  EXPECT_TRUE(WellTask("").hopping.when_stuck);
  EXPECT_EQ(WellTask("<time shortest='0.3' longest='0.6'/>").hopping.rounds, 0);
  EXPECT_EQ(WellTask("<hopping rounds='0'/>").hopping.rounds, 0);
  EXPECT_TRUE(WellTask("").hopping.touch);
  EXPECT_FALSE(WellTask("<hopping touch='false'/>").hopping.touch);
  EXPECT_TRUE(WellTask("").hopping.shooting);
  EXPECT_FALSE(WellTask("<hopping shooting='false'/>").hopping.shooting);
  EXPECT_TRUE(WellTask("").hopping.mirror);
  EXPECT_FALSE(WellTask("<hopping mirror='false'/>").hopping.mirror);
  EXPECT_TRUE(WellTask("").hopping.lean);
  EXPECT_FALSE(WellTask("<hopping lean='false'/>").hopping.lean);
  EXPECT_TRUE(WellTask("").hopping.smooth);
  EXPECT_FALSE(WellTask("<hopping smooth='false'/>").hopping.smooth);
  EXPECT_TRUE(WellTask("").hopping.forces);
  EXPECT_FALSE(WellTask("<hopping forces='false'/>").hopping.forces);
  EXPECT_EQ(WellTask("").hopping.enough, 0);
  EXPECT_EQ(WellTask("<hopping enough='.01'/>").hopping.enough, 0.01);
  EXPECT_ERROR(WellTask("<hopping enough='1'/>"), ErrorCode::kParse, "enough is 1, expected 0 or more and less than 1");
  EXPECT_TRUE(WellTask("").hopping.back);
  EXPECT_FALSE(WellTask("<hopping back='false'/>").hopping.back);
  EXPECT_EQ(WellTask("<hopping/>").hopping.rounds, 8);
  const BasinHoppingOptions o = WellTask("<hopping rounds='3' width='4' iterations='7' size='0.2' seed='9'/>").hopping;
  EXPECT_TRUE(o.after_solve);
  EXPECT_FALSE(o.when_stuck);
  EXPECT_TRUE(WellTask("<hopping from='stall'/>").hopping.when_stuck);
  EXPECT_FALSE(WellTask("<hopping from='guess'/>").hopping.after_solve);
  EXPECT_EQ(o.rounds, 3);
  EXPECT_EQ(o.width, 4);
  EXPECT_EQ(o.iterations, 7);
  EXPECT_EQ(o.size, 0.2);
  EXPECT_EQ(o.seed, 9u);
  EXPECT_EQ(WellTask("<hopping from='stall' race='4'/>").hopping.race, 4);
  EXPECT_THROW(WellTask("<hopping from='guess' race='4'/>"), Error);
  EXPECT_NE(
      Describe(WellTask("<hopping rounds='3'/>")).find("3 rounds of kicked controls at most, 2 solves side by side"),
      std::string::npos);
}

}  // namespace
}  // namespace costate
