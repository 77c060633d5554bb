// costate optimize, as a process: from a task or two keyframes to a saved run, and what happens when that is not
// possible.
#include <costate/record.h>

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "cli/program.h"

namespace costate {
namespace {

namespace fs = std::filesystem;
using support::Process;
using support::ProcessResult;
using support::TemporaryFolder;

constexpr char kSwing[] =
    "<mujoco model='swing'><option timestep='0.01'/><worldbody><body pos='0 0 1'><joint name='hinge' axis='0 1 0' "
    "damping='.05'/>"
    "<geom type='capsule' size='.02' fromto='0 0 0 0 0 -.5' mass='1'/></body></worldbody>"
    "<actuator><motor name='motor' joint='hinge' ctrlrange='-10 10'/></actuator>"
    "<keyframe><key name='hang' qpos='0'/><key name='side' qpos='1.5' ctrl='3'/></keyframe></mujoco>";

std::string ReadWhole(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string SwingTask(const std::string& solver, const std::string& horizon = "0.6") {
  return "<task model='swing.xml' horizon='" + horizon +
         "'><start key='hang'/><cost name='angle' qpos='all' target='key:side' weight='1' terminal='100'/>"
         "<cost name='speed' qvel='all' weight='0.01' terminal='1'/><cost name='effort' ctrl='all' weight='0.001'/>" +
         solver + "</task>";
}

// What comes before the first iteration takes a minute with hundreds of dofs: on a terminal it is said, in a pipe not.
TEST(CliOptimize, SaysOnATerminalWhatItIsAt) {
  support::TemporaryFolder folder;
  const std::string model = folder.Write("p.xml", kPendulum), rest = " --goal joint:hinge=1 --time 0.1 --no-save";
  const ProcessResult shown = CostateInShell("TERM=xterm script -qec \"$0 optimize " + model + rest + "\" /dev/null");
  EXPECT_EQ(shown.exit_code, 0) << shown.out << shown.err;
  EXPECT_TRUE(Has(shown.out, "the guess's motion and its derivatives"));
  EXPECT_EQ(CostateInShell("$0 optimize " + model + rest).out.find("the guess's motion"), std::string::npos);
}

TEST(CliOptimize, SavesARunThatReplaysBitForBit) {
  TemporaryFolder folder;
  folder.Write("swing.xml", kSwing);
  const std::string task = folder.Write("swing.task.xml", SwingTask(""));
  const ProcessResult result = Costate({"optimize", task, "--out", folder.File("run"), "--no-plots"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "converged after "));
  EXPECT_TRUE(Has(result.out, "\n    angle "));
  EXPECT_TRUE(Has(result.out, "goal          angle missed by"));
  EXPECT_TRUE(Has(result.out, "elsewhere     half the time step 100 %, "));
  EXPECT_TRUE(Has(result.out, "disturbed     pushed to "));
  EXPECT_TRUE(Has(result.out, " ms late "));
  EXPECT_TRUE(Has(result.out, "costate replay " + folder.File("run")));

  const Record record = ReadRecord(folder.File("run"));
  EXPECT_EQ(record.settings.count("exploit_check_half_the_time_step"), 1u);
  EXPECT_EQ(record.settings.count("robustness_check_pushed"), 1u);
  EXPECT_EQ(record.settings.count("robustness_check_late"), 1u);
  EXPECT_EQ(record.command, "optimize");
  EXPECT_EQ(record.status, "converged");
  EXPECT_EQ(record.trajectory.N(), 60);
  EXPECT_NEAR(record.trajectory.X(0, 60), 1.5, 0.05);
  EXPECT_EQ(record.policy.K.size(), 60u);
  EXPECT_EQ(record.cost_per_knot.size(), 61);
  EXPECT_FALSE(record.iterations.empty());
  EXPECT_NEAR(record.cost_per_knot.sum(), record.iterations.back().cost, 1e-9 * record.iterations.back().cost);
  EXPECT_EQ(Costate({"replay", folder.File("run")}).exit_code, 0);
}

// what the solver starts from is said and recorded; the run does not depend on when it was made
TEST(CliOptimize, StartsBySampling) {
  TemporaryFolder folder;
  folder.Write("swing.xml", kSwing);
  const std::string task = folder.Write(
      "swing.task.xml", SwingTask("<guess ctrl='0'/><solver start='sampling' samples='16' rounds='3' seed='5'/>"));
  for (const char* name : {"first", "second"}) {
    const ProcessResult result = Costate({"optimize", task, "--out", folder.File(name), "--no-plots"});
    ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_TRUE(Has(result.out, "sampling: 3 rounds of 16 samples take the cost of the guess from")) << result.out;
  }
  const Record first = ReadRecord(folder.File("first"));
  EXPECT_EQ(first.settings.at("guess"),
            "sampling: 3 rounds of 16 samples, 8 elites, nodes every 0.1 s, exploration 0.3, seed 5");
  EXPECT_EQ(first.trajectory.U, ReadRecord(folder.File("second")).trajectory.U);
  EXPECT_EQ(Costate({"replay", folder.File("first")}).exit_code, 0);
}

// Bounds are told by name, saved, and decide the exit code.
// each round is told, the best one is saved, and it says how it was found
TEST(CliOptimize, HopsFromTheBestMotion) {
  TemporaryFolder folder;
  folder.Write("swing.xml", kSwing);
  const std::string task = folder.Write("swing.task.xml", SwingTask("<hopping rounds='5' width='3'/>"));
  const ProcessResult result = Costate({"optimize", task, "--hops", "2", "--out", folder.File("run"), "--no-plots"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "from the guess: ")) << result.out;
  EXPECT_TRUE(Has(result.out, "round 2: "));
  EXPECT_FALSE(Has(result.out, "round 3: "));
  EXPECT_TRUE(Has(result.out, "of 2 rounds of kicked controls "));
  const Record record = ReadRecord(folder.File("run"));
  EXPECT_TRUE(Has(record.settings.at("hopping"), "2 rounds, 3 solves side by side"));
  EXPECT_EQ(record.settings.count("round_2"), 1u);
  EXPECT_EQ(Costate({"replay", folder.File("run")}).exit_code, 0);

  // kicks follow the stages, and all of it is one record
  const ProcessResult both =
      Costate({"optimize", task, "--hops", "1", "--smooth", "onset:0.01", "--out", folder.File("both"), "--no-plots"});
  EXPECT_EQ(both.exit_code, 0) << both.out << both.err;
  EXPECT_LT(both.out.find("stage 1: "), both.out.find("round 1: ")) << both.out;
  const Record of_both = ReadRecord(folder.File("both"));
  EXPECT_EQ(of_both.settings.count("round_1"), 1u);
  for (std::size_t i = 0; i < of_both.iterations.size(); i++)
    EXPECT_EQ(of_both.iterations[i].iteration, static_cast<int>(i) + 1);
}

// rounds behind the last solve are told as such, and their motion, of another cost's solve, has no multipliers
TEST(CliOptimize, GoesBackWithinConstraints) {
  TemporaryFolder folder;
  const std::string task = std::string(COSTATE_MODELS) + "/hopper/cycle.xml";
  const ProcessResult result =
      Costate({"optimize", task, "--hops", "1", "--iterations", "10", "--out", folder.File("run"), "--no-plots"});
  ASSERT_NE(result.exit_code, 2) << result.err;
  EXPECT_TRUE(Has(result.out, ", constraints missed by ")) << result.out;
  EXPECT_TRUE(Has(result.out, "back within the constraints, round 1: ")) << result.out;
  EXPECT_TRUE(Has(result.out, "periodic qpos: ")) << result.out;
  EXPECT_FALSE(Has(result.out, "; multiplier ")) << result.out;
  const Record record = ReadRecord(folder.File("run"));
  EXPECT_TRUE(Has(record.settings.at("round_3"), ", back within the constraints")) << record.settings.at("round_3");
  EXPECT_FALSE(Has(record.settings.at("round_0"), "back within")) << record.settings.at("round_0");
  EXPECT_EQ(Costate({"replay", folder.File("run")}).exit_code, 0);
}

TEST(CliOptimize, SaysWhereAForceAtItsLimitMayHoldTheMotion) {
  // a pole on a cart that a servo of limited force moves: from beyond that limit a control feels nothing
  TemporaryFolder folder;
  folder.Write(
      "cart.xml",
      R"(<mujoco><option timestep="0.04"/><default><geom contype="0" conaffinity="0"/></default><worldbody><body>
    <joint name="cart" type="slide" axis="1 0 0" damping="10"/><geom type="box" size=".2 .15 .1" mass="1"/><body>
    <joint name="pole" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 1" size=".045" mass=".1"/></body></body></worldbody>
    <actuator><position name="servo" joint="cart" kp="100" ctrlrange="-1.8 1.8" forcerange="-10 10"/></actuator></mujoco>)");
  const std::string task =
      folder.Write("up.xml", R"(<task model="cart.xml" horizon="2"><start qpos="0 0.1"/><guess ctrl="0"/>
    <cost name="p" qpos="all" weight="1"/><cost name="v" qvel="all" weight="0.05"/><cost name="e" ctrl="all" weight="0.001"/></task>)");
  const std::string hint = "its control has no slope; kicks may lead on: --hops 8";
  const ProcessResult alone = Costate({"optimize", task, "--no-save", "--quiet", "--hops", "0"});
  EXPECT_EQ(alone.exit_code, 0) << alone.err;
  EXPECT_TRUE(Has(alone.out, "stalled")) << alone.out;
  EXPECT_TRUE(Has(alone.out, hint)) << alone.out;
  EXPECT_FALSE(Has(Costate({"optimize", task, "--no-save", "--quiet", "--hops", "1"}).out, hint));
  const ProcessResult kicked = Costate({"optimize", task, "--no-save", "--quiet"});
  EXPECT_TRUE(Has(kicked.out, "of 4 rounds of kicked controls ")) << kicked.out;
  EXPECT_FALSE(Has(kicked.out, hint)) << kicked.out;
}

// a puck that a pusher may reach: no slope says so, but motions that are tried do
TEST(CliOptimize, SaysWhatLeadsWhereThereIsNoSlope) {
  TemporaryFolder folder;
  folder.Write(
      "push.xml",
      "<mujoco><worldbody><body><joint name='pusher' type='slide' axis='1 0 0'/><geom size='.1' mass='1'/></body>"
      "<body pos='.5 0 0'><joint name='puck' type='slide' axis='1 0 0' damping='1'/><geom size='.1' mass='1'/></body>"
      "</worldbody><actuator><motor joint='pusher' ctrlrange='-10 10'/></actuator></mujoco>");
  const auto optimize = [&](const char* more) {
    const std::string task = folder.Write("push.task.xml",
                                          "<task model='push.xml' horizon='1' controlstep='5'><cost name='puck' "
                                          "qpos='puck' target='.5' terminal='100'/><cost ctrl='all' weight='1e-4'/>" +
                                              std::string(more) + "</task>");
    return Costate({"optimize", task, "--no-save", "--quiet"});
  };
  const ProcessResult plain = optimize("<hopping rounds='0'/>");
  EXPECT_TRUE(Has(plain.out, "no control changes 'puck'")) << plain.out;
  EXPECT_TRUE(Has(plain.out, "<solver start=\"sampling\"/> in a task file")) << plain.out;
  const ProcessResult sampled = optimize("<solver start='sampling'/>");
  EXPECT_EQ(sampled.exit_code, 0) << sampled.out;
  EXPECT_FALSE(Has(sampled.out, "no control changes")) << sampled.out;
  EXPECT_FALSE(Has(optimize("").out, "no control changes")) << "rounds follow, from sampled controls in the end";
}

// what the solve of a robot and a goal says
std::string Reaching(const std::string& robot, const std::string& goal) {
  return Costate({"optimize", robot, "--goal", goal, "--no-save", "--quiet"}).out;
}

// metaworld's sawyer hangs from a mocap body, and its only motors are those of the gripper: the solve converges at once
TEST(CliOptimize, SaysWhereNoActuatorMovesWhatShallMove) {
  TemporaryFolder folder;
  const std::string robot = folder.Write(
      "grip.xml",
      "<mujoco><option gravity='0 0 0'/><worldbody><body name='hand'><joint name='carried' type='slide' axis='1 0 0'/>"
      "<geom size='.1' mass='1000'/><body><joint name='finger' type='slide' axis='1 0 0' damping='1'/><geom size='.01' "
      "mass='.01'/></body></body></worldbody><actuator><motor joint='finger' ctrlrange='-1 1'/></actuator></mujoco>");
  const char* hint = "is there an actuator that moves it?";
  const std::string hand = Reaching(robot, "joint:carried=1"), finger = Reaching(robot, "joint:finger=.1");
  EXPECT_TRUE(Has(hand, hint) && Has(hand, "'joint carried'")) << hand;
  EXPECT_FALSE(Has(finger, hint)) << finger;
}

// gymnasium's fetch: its hand is welded to a mocap body
TEST(CliOptimize, SaysWhatAMocapBodyHolds) {
  TemporaryFolder folder;
  const std::string robot = folder.Write("fetch.xml",
                                         "<mujoco><option gravity='0 0 0'/><worldbody><body name='pose' "
                                         "mocap='true'/><body name='hand'><freejoint/><geom size='.1'/>"
                                         "<body><joint name='finger' type='slide' axis='1 0 0' damping='1'/><geom "
                                         "size='.01' pos='.2 0 0'/></body></body></worldbody>"
                                         "<equality><weld body1='hand' body2='pose'/></equality><actuator><motor "
                                         "joint='finger' ctrlrange='-.01 .01'/></actuator></mujoco>");
  const char* hint = "mocap body 'pose' holds 'hand'";
  const std::string hand = Reaching(robot, "body:hand=1,0,0"), finger = Reaching(robot, "joint:finger=.0001");
  EXPECT_TRUE(Has(hand, hint)) << hand;
  EXPECT_FALSE(Has(finger, hint)) << finger;
}

// a ball of 0.1 m that begins 0.05 m inside of the floor is thrown out; one that rests on it is not
TEST(CliOptimize, SaysBeforeItWorksThatTheStartPenetrates) {
  TemporaryFolder folder;
  const auto told = [&](const char* height) {
    const std::string robot =
        folder.Write("ball.xml", std::string("<mujoco><worldbody><geom type='plane' size='1 1 1'/><body name='ball' "
                                             "pos='0 0 ") +
                                     height +
                                     "'><joint name='up' type='slide' axis='0 0 1'/><geom size='.1'/></body>"
                                     "</worldbody><actuator><motor joint='up' ctrlrange='-1 1'/></actuator></mujoco>");
    return Costate({"optimize", robot, "--goal", "joint:up=.1", "--time", ".1", "--iterations", "1", "--no-save"}).err;
  };
  EXPECT_TRUE(Has(told(".05"), "at the start 'ball' penetrates 'world' by 0.05 m")) << told(".05");
  EXPECT_FALSE(Has(told(".1"), "penetrates")) << told(".1");
  const std::string robot = (folder.path() / "ball.xml").string();
  const auto written = [&] { return Costate({"task", robot, "--goal", "joint:up=.1", "--time", ".1"}).err; };
  EXPECT_FALSE(Has(written(), "penetrates")) << written();
  told(".05");
  EXPECT_TRUE(Has(written(), "at the start 'ball' penetrates")) << written();
}

// rounds that are asked for follow though the goal is met
TEST(CliOptimize, ARobotThatIsThereHopsWhereItIsAskedTo) {
  const std::string arm = std::string(COSTATE_MODELS) + "/arm/arm.xml";
  const auto said = [&](const char* hops) {
    return Costate({"optimize", arm, "--goal", "joint:joint2=.3", "--time", ".3", "--no-save", "--hops", hops}).out;
  };
  const std::string there = Costate({"optimize", arm, "--goal", "joint:joint2=.3", "--time", ".3", "--no-save"}).out;
  EXPECT_TRUE(Has(there, "it is there")) << there;
  EXPECT_TRUE(Has(said("1"), "of 1 round of kicked controls")) << said("1");
  EXPECT_FALSE(Has(said("0"), "it is there")) << said("0");
}

// two pucks on one spot, which slide in the plane alone, on a floor ten times as large as they
TEST(CliOptimize, SaysThatBodiesStayInEachOther) {
  TemporaryFolder folder;
  const auto puck = [](const std::string& name) {
    return "<body name='" + name + "'><joint name='" + name + "' type='slide' axis='1 0 0' damping='4'/>" +
           "<geom type='cylinder' size='.25 .1' friction='0'/></body>";
  };
  const std::string robot = folder.Write(
      "pucks.xml", "<mujoco><worldbody><geom type='box' size='9 9 .1' pos='0 0 -.25'/>" + puck("pusher") +
                       puck("cart") +
                       "</worldbody><actuator><motor joint='pusher' ctrlrange='-9 9'/></actuator></mujoco>");
  const std::string told =
      Costate({"optimize", robot, "--goal", "joint:pusher=.1", "--time", ".1", "--iterations", "1", "--no-save"}).err;
  EXPECT_TRUE(Has(told, "at the start 'cart' penetrates 'pusher' by 0.2 m")) << told;
  EXPECT_TRUE(Has(told, ": they stay in each other")) << told;
}

// a tower whose motor is too weak to hold it, on a foot too small to stand on and on one that is not
TEST(CliOptimize, SaysWhatHasComeDown) {
  TemporaryFolder folder;
  const auto said = [&](const char* foot) {
    const std::string robot =
        folder.Write("tower.xml", std::string("<mujoco><worldbody><geom name='floor' type='plane' size='5 5 1'/>"
                                              "<body name='foot' pos='0 0 .05' euler='0 12 0'><freejoint name='root'/>"
                                              "<geom type='box' size='") +
                                      foot + R"( .05' mass='1'/><body name='head' pos='0 0 .05'>
        <joint name='waist' axis='0 1 0' damping='.2' stiffness='50'/><geom type='capsule' fromto='0 0 0 0 0 .6' size='.05' mass='1'/>
        </body></body></worldbody><actuator><motor joint='waist' ctrlrange='-.1 .1'/></actuator></mujoco>)");
    return Costate({"optimize", robot, "--goal", "joint:waist=0.01", "--time", "1.5", "--iterations", "3", "--hops",
                    "0", "--no-save"})
        .out;
  };
  const std::string fallen = said(".015 .02"), upright = said(".3 .3");
  EXPECT_TRUE(Has(fallen, "at the end 'head' touches 'floor', at the start it does not")) << fallen;
  EXPECT_TRUE(Has(fallen, "body:foot:zaxis=0,0,1")) << fallen;
  EXPECT_FALSE(Has(upright, "at the end")) << upright;
}

// menagerie's panda, its hand to a place and at rest there within 1.5 s: infeasible, or kept with costs of its forces
TEST(CliOptimize, SaysWhichCostsKeepForcesOffTheirLimits) {
  TemporaryFolder folder;
  const auto optimize = [&](const std::string& actuators, const char* place, const std::string& cost = "") {
    folder.Write("servo.xml",
                 "<mujoco><worldbody><body><joint name='x' type='slide' axis='1 0 0'/><geom size='.1' mass='1'/></body>"
                 "<body><joint name='y' axis='0 1 0'/><geom size='.1' pos='0 0 -1' mass='1'/></body>"
                 "</worldbody><actuator><position name='servo' joint='x' kp='1000' ctrlrange='-2 2' "
                 "forcerange='-20 20'/>" +
                     actuators + "</actuator></mujoco>");
    const std::string task =
        folder.Write("go.xml", "<task model='servo.xml' horizon='0.2'><cost ctrl='all' weight='1e-3'/>" + cost +
                                   "<constraint qpos='x' equals='" + place + "' when='end'/></task>");
    return Costate({"optimize", task, "--no-save", "--quiet", "--hops", "0"});
  };
  // 20 N take it 0.4 m far
  const ProcessResult far = optimize("", "1");
  EXPECT_TRUE(Has(far.out, "that of servo is there at ")) << far.out;
  const std::string all = "<cost name=\"forces\" actuator=\"all\" quantity=\"force\" weight=\"0.00025\"/>";
  EXPECT_TRUE(Has(far.out, all)) << far.out;
  const ProcessResult two = optimize("<motor name='free' joint='y' ctrlrange='-1 1'/>", "1");
  const std::string one = "<cost name=\"forces\" actuator=\"servo\" quantity=\"force\" weight=\"0.00025\"/>";
  EXPECT_TRUE(Has(two.out, one)) << two.out;
  const std::string weaker = "<motor name='weak' joint='y' ctrlrange='-1 1' forcerange='-1 2'/>";
  const std::string each = "<cost name=\"forces\" actuator=\"all\" quantity=\"force\" weight=\"0.00025 0.025\"/>";
  const ProcessResult three = optimize(weaker, "1");
  EXPECT_TRUE(Has(three.out, each)) << three.out;
  EXPECT_TRUE(Has(optimize(weaker, "1", each).out, "    forces  ")) << "what is said is what a task takes";
  const ProcessResult near = optimize("", "0.05");
  EXPECT_FALSE(Has(near.out, "limit of its force")) << near.out;
}

// a gantry crane over a wall, effort weighted by 1e-5: infeasible, or solved with the cost's own unit
TEST(CliOptimize, SaysThatACostOfAnotherSizeHasAUnitOfItsOwn) {
  TemporaryFolder folder;
  folder.Write("mass.xml",
               "<mujoco><worldbody><body><joint name='x' type='slide' axis='1 0 0'/><geom size='.1' mass='1'/></body>"
               "</worldbody><actuator><motor joint='x' ctrlrange='-1 1'/></actuator></mujoco>");
  const auto said = [&](const std::string& weight, const char* place, const std::string& solver = "") {
    const std::string task =
        folder.Write("go.xml", "<task model='mass.xml' horizon='0.2'><cost ctrl='all' weight='" + weight + "'/>" +
                                   solver + "<constraint qpos='x' equals='" + place + "' when='end'/></task>");
    return Costate({"optimize", task, "--no-save", "--quiet", "--hops", "0"}).out;
  };
  const char* hint = "cost's own unit is ";
  EXPECT_TRUE(Has(said("1e-8", "5"), hint));
  EXPECT_FALSE(Has(said("1e-8", "5", "<solver cost_unit='0'/>"), hint));
  EXPECT_FALSE(Has(said("1", "5"), hint)) << "half a newton squared is a unit like others";
  EXPECT_FALSE(Has(said("1e-8", "0.01"), hint)) << "feasible";
}

TEST(CliOptimize, KeepsConstraintsAndSaysWhichItCannot) {
  TemporaryFolder folder;
  folder.Write("swing.xml", kSwing);
  const std::string task =
      folder.Write("swing.task.xml", SwingTask("<constraint name='top speed' qvel='all' upper='3.5'/>"
                                               "<constraint name='there' qpos='all' equals='1.5' when='end'/>"));
  const ProcessResult result = Costate({"optimize", task, "--out", folder.File("run"), "--no-plots"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "| violation"));
  EXPECT_TRUE(Has(result.out, "kept          top speed"));
  const Record record = ReadRecord(folder.File("run"));
  ASSERT_EQ(record.constraints.size(), 2u);
  EXPECT_GE(record.constraints[0].relative, record.constraints[1].relative);
  EXPECT_LE(record.constraints[0].relative, 1e-6);
  EXPECT_NEAR(record.trajectory.X(0, 60), 1.5, 2e-6);
  EXPECT_LE(record.trajectory.X.row(1).maxCoeff(), 3.5 + 1e-5);
  EXPECT_GT(record.trajectory.X.row(1).maxCoeff(), 3.49);
  EXPECT_GT(record.iterations.front().violation, 1e-3);
  EXPECT_TRUE(Has(record.tables.at("constraints.csv"), ",top speed,qvel[hinge],"));
  EXPECT_EQ(Costate({"replay", folder.File("run")}).exit_code, 0);

  // a link that its motor cannot hold falls into its own limit, at which the model begins to push
  folder.Write("fall.xml",
               "<mujoco><worldbody><body><joint name='fall' axis='0 1 0' range='-10 40'/>"
               "<geom type='capsule' size='.02' fromto='0 0 0 .3 0 0'/></body></worldbody>"
               "<actuator><motor joint='fall' ctrlrange='-.01 .01'/></actuator></mujoco>");
  const auto fall = [&](const char* limit) {
    const std::string file = folder.Write(
        "fall.task.xml", "<task model='fall.xml' horizon='0.6'><cost qpos='all'/>" + std::string(limit) + "</task>");
    return Costate({"optimize", file, "--no-save", "--quiet", "--iterations", "3"}).out;
  };
  const char* hint = "presses into the model's own limit there";
  EXPECT_TRUE(Has(fall("<limit joint='all'/>"), hint)) << fall("<limit joint='all'/>");
  EXPECT_FALSE(Has(fall("<limit joint='all' margin='0.01'/>"), hint));
  EXPECT_TRUE(Has(fall("<limit joint='all' margin='0.01'/>"), "VIOLATED"));

  const std::string never =
      folder.Write("never.task.xml", SwingTask("<constraint name='far' qpos='all' equals='50' when='end'/>"));
  const ProcessResult failed = Costate({"optimize", never, "--no-save", "--quiet"});
  EXPECT_EQ(failed.exit_code, 1) << failed.out;
  EXPECT_TRUE(Has(failed.out, "VIOLATED      far: violated by ")) << failed.out;
  EXPECT_TRUE(Has(failed.out, "constraint: 'far' is violated by ")) << failed.out;
}

// A rail driven full thrust, then full brake: minimum time is told, saved with its time step, and replays.
TEST(CliOptimize, FindsTheShortestTime) {
  TemporaryFolder folder;
  folder.Write(
      "rail.xml",
      "<mujoco model='rail'><option timestep='0.05' gravity='0 0 0'/><worldbody><body><joint name='slide' type='slide' "
      "axis='1 0 0'/><geom size='.1' mass='1'/></body></worldbody><actuator><motor joint='slide' ctrlrange='-1 "
      "1'/></actuator>"
      "</mujoco>");
  const std::string text =
      "<task model='rail.xml' horizon='1'><cost name='effort' ctrl='all' weight='1e-3'/>"
      "<constraint name='there' qpos='all' equals='1' when='end'/><constraint name='at rest' qvel='all' equals='0' "
      "when='end'/>"
      "<time shortest='0.4' longest='4'/></task>";
  const std::string task = folder.Write("rail.task.xml", text);
  const ProcessResult result = Costate({"optimize", task, "--out", folder.File("run"), "--no-plots", "--quiet"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "time: 2.00")) << result.out;
  const Record record = ReadRecord(folder.File("run"));
  EXPECT_NEAR(std::stod(record.settings.at("time")), 2, 5e-3);
  EXPECT_NEAR(record.trajectory.time[20], 2, 5e-3);
  EXPECT_NEAR(record.trajectory.X(0, 20), 1, 2e-6);
  EXPECT_TRUE(Has(record.tables.at("times.csv"), "time (s),cost with time,violation,iterations\n1,inf,"));
  EXPECT_EQ(record.settings.at("solver"), "ilqr in an augmented Lagrangian");
  EXPECT_EQ(Costate({"replay", folder.File("run")}).exit_code, 0);

  // what does not go with it, and what leaves it out
  EXPECT_TRUE(
      Has(Costate({"gradient", task}).err, "<time> is for costate optimize: the gradient is that of the horizon, 1 s"));
  EXPECT_TRUE(Has(Costate({"task", task}).out, "time      free, 0.4 s to 4 s"));
  const ProcessResult guess = Costate({"rollout", task});
  EXPECT_TRUE(Has(guess.out, "VIOLATED      there: violated by 1 m at 1 s (qpos[slide]): -1, allowed 0 to 0"))
      << guess.out;
  EXPECT_TRUE(Has(guess.out, "kept          at rest\n"));
  EXPECT_TRUE(Has(Costate({"rollout", task, "--time", "0.5"}).out,
                  "not looked at: they are of 20 control intervals, the motion has 10"));
}

// The guess that a free time is compared with is the one that was given, not that of the last length that was tried.
TEST(CliOptimize, ComparesAFreeTimeWithItsGuess) {
  TemporaryFolder folder;
  folder.Write("swing.xml", kSwing);
  const std::string task = folder.Write(
      "swing.task.xml", SwingTask("<guess ctrl='0'/><time shortest='0.4' longest='0.8' tolerance='0.05'/>"));
  const ProcessResult guess = Costate({"rollout", task});
  const ProcessResult result = Costate({"optimize", task, "--no-save", "--quiet"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const std::string cost = guess.out.substr(guess.out.find("cost          ") + 14, 6);
  EXPECT_TRUE(Has(result.out, "% of the guess's " + cost)) << result.out << guess.out;
}

// A cost that is not finite is named, with the knot.
TEST(CliOptimize, NamesACostThatIsNotFinite) {
  TemporaryFolder folder;
  folder.Write("swing.xml", kSwing);
  for (const char* solver : {"ilqr", "fddp"}) {
    const std::string task =
        folder.Write("bad.task.xml", SwingTask("<measure name='q' qpos='all'/><cost name='far' value='1 / q'/>"));
    const ProcessResult result = Costate({"optimize", task, "--no-save", "--solver", solver});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_TRUE(Has(result.out, "the guess has no cost: its cost of 'far' is not finite at knot 0 of 60 (0 s)"))
        << result.out;
  }
  const std::string bound = folder.Write(
      "bound.task.xml",
      SwingTask(
          "<measure name='q' qpos='all'/><guess ctrl='0'/><constraint name='near' value='sqrt(-1 - q^2)' upper='9'/>"));
  const ProcessResult result = Costate({"optimize", bound, "--no-save"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(Has(result.out, "its cost of 'constraint near' is not finite at knot 1 of 60")) << result.out;
}

// The robot alone is enough; the folder is runs/… below the current one and never an old run.
TEST(CliOptimize, GoesFromKeyframeToKeyframeWithoutATask) {
  TemporaryFolder folder;
  folder.Write("swing.xml", kSwing);
  for (int n = 1; n <= 2; n++) {
    const ProcessResult result = Costate({"optimize", "swing.xml", "--start", "key:hang", "--goal", "key:side",
                                          "--time", "0.6", "--no-plots", "--quiet"},
                                         {.folder = folder.path().string(), .environment = {}});
    ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_TRUE(Has(result.out, "goal          posture missed by"));
  }
  int runs = 0;
  for (const auto& entry : fs::directory_iterator(folder.path() / "runs")) {
    EXPECT_TRUE(Replay(ReadRecord(entry.path().string())).identical) << entry.path();
    runs++;
  }
  EXPECT_EQ(runs, 2);
}

TEST(CliOptimize, PrintsOnePlainLineAnIterationIntoAPipe) {
  TemporaryFolder folder;
  folder.Write("swing.xml", kSwing);
  const std::string task = folder.Write("swing.task.xml", SwingTask(""));
  const ProcessResult result = Costate({"optimize", task, "--no-save", "--iterations", "2"});
  EXPECT_TRUE(Has(result.out, " iter "));
  EXPECT_TRUE(Has(result.out, "\n    1 "));
  EXPECT_TRUE(Has(result.out, "\n    2 "));
  EXPECT_EQ(result.out.find('\r'), std::string::npos) << "a progress bar in a pipe";
  EXPECT_EQ(result.out.find('\x1b'), std::string::npos) << "escape sequences in a pipe";
  EXPECT_FALSE(fs::exists(folder.path() / "runs"));
}

// Ctrl-C after the first iterations: the best motion so far is saved and replays.
TEST(CliOptimize, KeepsTheBestMotionWhenInterrupted) {
  TemporaryFolder folder;
  folder.Write("swing.xml", kSwing);
  const std::string task =
      folder.Write("swing.task.xml", SwingTask("<solver type='ilqr' iterations='1000000' tolerance='0'/>", "20"));
  Process process(
      {COSTATE_PROGRAM, "optimize", task, "--out", folder.File("run"), "--no-plots", "--derivative", "step"});
  ASSERT_TRUE(process.WaitForText("\n    1 "));
  process.Signal(SIGINT);
  usleep(5000);
  process.Signal(SIGINT);  // as timeout(1) does: to the program, then to its group
  const ProcessResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 130) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "interrupted after "));
  const Record record = ReadRecord(folder.File("run"));
  EXPECT_EQ(record.status, "interrupted");
  EXPECT_TRUE(Replay(record).identical);
}

// derivatives that take minutes: how long, why and what helps is said first, and Ctrl-C does not wait for their end
TEST(CliOptimize, SaysHowLongSlowDerivativesTakeAndLeavesThem) {
  TemporaryFolder folder;
  folder.Write("soft.xml", R"(<mujoco><option timestep="0.002" integrator="discrete"/><worldbody>
    <geom type="plane" size="2 2 .1"/>
    <flexcomp name="jelly" type="grid" count="3 3 3" spacing=".05 .05 .05" pos=".15 0 .055" dim="3" radius=".005" mass=".3" dof="trilinear">
      <elasticity young="3e4" poisson="0.2" damping="0.005"/><contact selfcollide="none"/></flexcomp>
    <body name="finger" pos="0 0 .06"><joint name="x" type="slide" axis="1 0 0"/><geom size=".03" mass=".2"/></body>
    </worldbody><actuator><motor joint="x" ctrlrange="-1 1"/></actuator></mujoco>)");
  const std::string task = folder.Write("soft.task.xml", R"(<task model="soft.xml" horizon="6" controlstep="5">
    <cost qpos="x" target="0.1"/><cost ctrl="all"/></task>)");
  Process process({COSTATE_PROGRAM, "optimize", task, "--no-save", "--hops", "0", "--threads", "1"});
  ASSERT_TRUE(process.WaitForText("the derivatives of an iteration take about "));
  ASSERT_TRUE(process.WaitForText(" iter "));
  process.Signal(SIGINT);
  const auto begin = std::chrono::steady_clock::now();
  const ProcessResult result = process.Wait();
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 30);
  EXPECT_EQ(result.exit_code, 130) << result.out << result.err;
  EXPECT_TRUE(Has(result.err, "integrator discrete: forces of jelly, which is interpolated"));
  EXPECT_TRUE(Has(result.err, "--derivative-every 4"));
  EXPECT_TRUE(Has(result.err, "fewer steps a control (now 5)"));
  EXPECT_TRUE(Has(result.out, "interrupted after 0 iterations"));
}

// the optimum of standing up lies at the edge of a contact, where no step may help any more: still a motion to use
TEST(CliOptimize, TakesAMotionThatStallsBelowItsGuess) {
  TemporaryFolder folder;
  const ProcessResult result =
      Costate({"optimize", COSTATE_MODELS "/quadruped/stand_up.xml", "--out", folder.File("run"), "--no-plots"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const Record record = ReadRecord(folder.File("run"));
  EXPECT_TRUE(record.status == "stalled" || record.status == "converged") << record.status;
  EXPECT_LT(record.iterations.back().cost, 0.6 * 0.962) << "of the guess";
}

TEST(CliOptimize, NeverOverwritesARunWithoutForce) {
  TemporaryFolder folder;
  folder.Write("swing.xml", kSwing);
  const std::string task = folder.Write("swing.task.xml", SwingTask(""));
  const std::vector<std::string> command = {"optimize",   task,           "--out", folder.File("run"),
                                            "--no-plots", "--iterations", "2"};
  ASSERT_EQ(Costate(command).exit_code, 0);
  const std::string before = support::ReadFile(folder.path() / "run" / "record.json");
  EXPECT_TRUE(RefusedWith(Costate(command), "run exists; --force replaces a run"));
  EXPECT_EQ(support::ReadFile(folder.path() / "run" / "record.json"), before);
  std::vector<std::string> forced = command;
  forced.push_back("--force");
  EXPECT_EQ(Costate(forced).exit_code, 0);
}

TEST(CliOptimize, NamesWhatIsWrongBeforeItWorks) {
  TemporaryFolder folder;
  const std::string model = folder.Write("swing.xml", kSwing);
  const std::string task = folder.Write("swing.task.xml", SwingTask(""));
  EXPECT_TRUE(RefusedWith(Costate({"optimize", folder.File("no.xml")}), "no.xml"));
  EXPECT_TRUE(RefusedWith(Costate({"optimize", model}), "is a model, not a task"));
  EXPECT_TRUE(RefusedWith(Costate({"optimize", model, "--goal", "sid"}), "side"));
  EXPECT_TRUE(RefusedWith(Costate({"optimize", task, "--goal", "side"}), "is a task file"));
  for (const char* time : {"1", "2"})  // by default a robot has 2 s
    EXPECT_TRUE(RefusedWith(Costate({"optimize", task, "--time", time}), "is a task file"));
  EXPECT_TRUE(RefusedWith(Costate({"optimize", task, "--time", "1", "--goal", "side", "--start", "side"}),
                          "is a task file: --start, --goal and --time belong to a robot without a task"));
  EXPECT_TRUE(RefusedWith(Costate({"optimize", task, "--out", folder.File("swing.xml") + "/run"}), "is not a folder"));
  EXPECT_TRUE(RefusedWith(Costate({"optimize", task, "--out", model, "--force"}), "exists and is not a folder"));
  std::filesystem::create_directory(folder.File("mine"));
  folder.Write("mine/thesis.txt", "not a run");
  EXPECT_TRUE(RefusedWith(Costate({"optimize", task, "--out", folder.File("mine"), "--force"}), "is not a run"));
  EXPECT_TRUE(RefusedWith(Costate({"optimize", folder.Write("zero.task.xml", SwingTask("", "0"))}), "horizon"));
  EXPECT_EQ(Costate({"optimize", model, "--goal", "side", "--time", "-1"}).exit_code, 2);
}

// Without actuators there is nothing to optimize, without dofs nothing moves: both are said.
TEST(CliOptimize, RefusesRobotsThatCannotBeMoved) {
  TemporaryFolder folder;
  const std::string passive = folder.Write("passive.xml",
                                           "<mujoco><worldbody><body><joint/><geom size='.1'/></body></worldbody>"
                                           "<keyframe><key name='a' qpos='1'/></keyframe></mujoco>");
  EXPECT_TRUE(RefusedWith(Costate({"optimize", passive, "--goal", "a"}), "actuator"));
  const std::string rigid = folder.Write("rigid.xml", "<mujoco><worldbody><geom size='.1'/></worldbody></mujoco>");
  EXPECT_EQ(Costate({"optimize", rigid, "--goal", "0"}).exit_code, 2);
}

// A wheel whose servo takes out 1.5 times its speed in a step of Euler turns faster and faster, to and fro;
// implicitfast holds it.
TEST(CliOptimize, WarnsOfAServoThatTheIntegratorCannotHold) {
  TemporaryFolder folder;
  const auto warns = [&](const std::string& integrator) {
    const std::string model = folder.Write(
        "wheel.xml",
        "<mujoco><option timestep='.01' integrator='" + integrator +
            "'/><worldbody><body><joint name='wheel' armature='1e-3'/><geom size='.01' mass='1e-6'/></body></worldbody>"
            "<actuator><velocity joint='wheel' kv='.25' ctrlrange='-1 1'/></actuator></mujoco>");
    const support::ProcessResult result =
        Costate({"optimize", model, "--goal", "joint:wheel=1", "--no-save", "--iterations", "1", "--hops", "0"});
    return Has(result.err, "turns qvel[wheel] over and makes it 1.5 times as large");
  };
  EXPECT_TRUE(warns("Euler"));
  EXPECT_FALSE(warns("implicitfast"));
}

// A limit of iterations, then --resume: the same motion as in one go, and both runs say what they are.
TEST(CliOptimize, ResumesARun) {
  TemporaryFolder folder;
  folder.Write("swing.xml", kSwing);
  const std::string task =
      folder.Write("swing.task.xml", SwingTask("<constraint name='top speed' qvel='all' upper='3.5'/>"
                                               "<constraint name='there' qpos='all' equals='1.5' when='end'/>"));
  ASSERT_EQ(Costate({"optimize", task, "--out", folder.File("whole"), "--no-plots"}).exit_code, 0);
  const int n = static_cast<int>(ReadRecord(folder.File("whole")).iterations.size());
  const ProcessResult part =
      Costate({"optimize", task, "--out", folder.File("part"), "--no-plots", "--iterations", std::to_string(n / 2)});
  EXPECT_TRUE(Has(part.out, "--resume " + folder.File("part"))) << part.out;
  const ProcessResult rest =
      Costate({"optimize", task, "--resume", folder.File("part"), "--out", folder.File("rest"), "--no-plots"});
  ASSERT_EQ(rest.exit_code, 0) << rest.out << rest.err;
  const Record record = ReadRecord(folder.File("rest"));
  EXPECT_EQ(record.settings.at("resumed_from"), folder.File("part"));
  EXPECT_LE(static_cast<int>(record.iterations.size()), n - n / 2 + n / 10);
  const Record whole = ReadRecord(folder.File("whole"));
  EXPECT_NEAR(record.cost_per_knot.sum(), whole.cost_per_knot.sum(), 1e-5 * whole.cost_per_knot.sum());
  EXPECT_TRUE(RefusedWith(Costate({"optimize", task, "--resume", folder.File("nowhere"), "--no-save"}),
                          "there is no such folder"));
  const std::string other = folder.Write("other.task.xml", SwingTask(""));
  EXPECT_TRUE(RefusedWith(Costate({"optimize", other, "--resume", folder.File("part"), "--no-save"}),
                          "constraint 'top speed' of the run is not in the task"));
}

// What is gained is gained over the task's guess, not over the motion that a run has come to.
TEST(CliOptimize, ComparesAResumedMotionWithTheTasksGuess) {
  TemporaryFolder folder;
  folder.Write("swing.xml", kSwing);
  const std::string task = folder.Write("swing.task.xml", SwingTask("")), part = folder.File("part");
  const ProcessResult begun = Costate({"optimize", task, "--out", part, "--no-plots", "--iterations", "2"});
  const std::string run = folder.File("rest");
  const ProcessResult result = Costate({"optimize", task, "--resume", part, "--out", run, "--no-plots"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const auto number = [](const std::string& text, const std::string& before) {
    const std::size_t at = text.find(before);
    return at == text.npos ? -1 : std::stod(text.substr(at + before.size()));
  };
  const Record record = ReadRecord(run);
  const double cost = record.cost_per_knot.sum(), guess = number(begun.out, "% of the guess's ");
  EXPECT_NEAR(number(result.out, "(the task's guess: "), guess, 1e-6 * guess) << result.out;
  EXPECT_NEAR(number(result.out, "% of the resumed motion's "), ReadRecord(part).cost_per_knot.sum(), 1e-6 * guess);
  const std::string& half = record.settings.at("exploit_check_half_the_time_step");
  const double there = std::min(number(half, "cost "), number(half, "controls, "));
  EXPECT_NEAR(number(half, "feedback: "), 1 - (there - cost) / (guess - cost), 1e-5) << half;
}

// A solve whose iterations end on the way says so, and how to go on: also of a robot without a task file, by the task
// of its run.
TEST(CliOptimize, TellsThatMoreIterationsLeadFurther) {
  TemporaryFolder folder;
  const std::string arm = folder.Write("arm.xml", R"(<mujoco><worldbody><body><joint name="a" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 -.5" size=".03"/><body pos="0 0 -.5"><joint name="b" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 -.5" size=".03"/></body></body></worldbody>
    <actuator><motor joint="b" ctrlrange="-6 6"/></actuator></mujoco>)");
  const auto solve = [&](const std::vector<std::string>& more, const std::string& goal = "joint:a=3.1") {
    std::vector<std::string> words{"optimize", arm, "--goal", goal, "--quiet", "--no-plots"};
    words.insert(words.end(), more.begin(), more.end());
    return Costate(words).out;
  };
  const std::string hint = "of them lead further";
  const std::string part = solve({"--iterations", "12", "--out", folder.File("part")});
  EXPECT_TRUE(Has(part, hint)) << part;
  const std::string way = "costate optimize " + folder.File("part") + "/task.xml --resume " + folder.File("part");
  EXPECT_TRUE(Has(part, way)) << part;
  EXPECT_EQ(
      Costate({"optimize", folder.File("part") + "/task.xml", "--resume", folder.File("part"), "--no-save"}).exit_code,
      0);
  EXPECT_TRUE(Has(solve({"--iterations", "12", "--no-save"}), "lead further, --iterations N"));
  EXPECT_FALSE(Has(solve({"--no-save"}, "joint:b=0.5"), hint)) << "converges";
}

// By the solver that is taken without asking: how far the start went is told, kept in the run, and gone on from.
TEST(CliOptimize, MovesAFreeStart) {
  TemporaryFolder folder;
  folder.Write("swing.xml", kSwing);
  std::string text = SwingTask("<constraint name='there' qpos='all' equals='1.5' when='end'/>");
  text.replace(text.find("<start key='hang'/>"), 19, "<start key='hang' free='qvel' lower='-1' upper='2'/>");
  const std::string task = folder.Write("swing.task.xml", text);
  const ProcessResult whole = Costate({"optimize", task, "--out", folder.File("whole"), "--no-plots"});
  ASSERT_EQ(whole.exit_code, 0) << whole.out << whole.err;
  EXPECT_TRUE(Has(whole.out, "  start         moved: qvel[hinge] by 2\n")) << whole.out;
  const Record record = ReadRecord(folder.File("whole"));
  EXPECT_EQ(record.trajectory.X(0, 0), 0);
  EXPECT_NEAR(record.trajectory.X(1, 0), 2, 1e-12);
  EXPECT_NEAR(record.trajectory.X(0, 60), 1.5, 2e-6);
  EXPECT_EQ(Costate({"replay", folder.File("whole")}).exit_code, 0);

  Costate({"optimize", task, "--out", folder.File("part"), "--no-plots", "--iterations", "3"});
  const ProcessResult rest =
      Costate({"optimize", task, "--resume", folder.File("part"), "--out", folder.File("rest"), "--no-plots"});
  EXPECT_EQ(rest.exit_code, 0) << rest.out << rest.err;
  EXPECT_FALSE(Has(rest.err, "another start")) << rest.err;
  EXPECT_TRUE(Has(rest.out, "  start         moved: qvel[hinge] by ")) << rest.out;
  const Record end = ReadRecord(folder.File("rest"));
  EXPECT_NEAR(end.cost_per_knot.sum(), record.cost_per_knot.sum(), 1e-5 * record.cost_per_knot.sum());

  // of a motion of free length it is that of the best length, and the run replays
  text.replace(text.find("</task>"), 7, "<time shortest='0.3' longest='1' tolerance='0.05'/></task>");
  const ProcessResult timed = Costate(
      {"optimize", folder.Write("timed.task.xml", text), "--out", folder.File("timed"), "--no-plots", "--quiet"});
  EXPECT_EQ(timed.exit_code, 0) << timed.out << timed.err;
  EXPECT_TRUE(Has(timed.out, "  start         moved: qvel[hinge] by 2\n")) << timed.out;
  EXPECT_NEAR(ReadRecord(folder.File("timed")).trajectory.X(1, 0), 2, 1e-9);
  EXPECT_EQ(Costate({"replay", folder.File("timed")}).exit_code, 0);
}

// The largest gap and its knot: printed, in iterations.csv and in the record, of multiple shooting alone.
TEST(CliOptimize, ShowsTheGapsOfMultipleShooting) {
  TemporaryFolder folder;
  folder.Write("swing.xml", kSwing);
  const std::string task = folder.Write(
      "swing.task.xml",
      SwingTask("<guess ctrl='0' states='key:hang@0 key:side@0.6'/><solver type='fddp' derivative_every='2'/>"));
  const ProcessResult result =
      Costate({"optimize", task, "--out", folder.File("run"), "--no-plots", "--iterations", "1"});
  EXPECT_TRUE(Has(result.out, "| gap") || Has(result.out, "gap  knot")) << result.out;
  EXPECT_TRUE(Has(result.out, "derivatives at every 2 knots, interpolated in between")) << result.out;
  const Record record = ReadRecord(folder.File("run"));
  ASSERT_EQ(record.iterations.size(), 1u);
  EXPECT_EQ(record.settings.at("derivative_every"), "2 knots, interpolated in between");
  EXPECT_TRUE(Has(record.message, "derivatives at every 2nd knot")) << record.message;
  const std::string json = ReadWhole(folder.File("run") + "/record.json"),
                    csv = ReadWhole(folder.File("run") + "/iterations.csv");
  EXPECT_TRUE(Has(csv, ",gap,gap_knot\n"));
  EXPECT_TRUE(Has(json, "\"largest\": "));
  const ProcessResult plain =
      Costate({"optimize", folder.Write("plain.task.xml", SwingTask("")), "--out", folder.File("plain"), "--no-plots"});
  EXPECT_FALSE(Has(plain.out, "knot ")) << plain.out;
  const std::string plain_csv = ReadWhole(folder.File("plain") + "/iterations.csv");
  EXPECT_FALSE(Has(plain_csv, "gap"));
  EXPECT_EQ(ReadRecord(folder.File("plain")).iterations[0].gap_knot, -1);

  // the second regularization and the curvature along which a saddle was left: of iLQR alone
  EXPECT_FALSE(Has(csv, "regularization_by_step"));
  EXPECT_TRUE(Has(plain_csv, ",regularization_by_step,curvature\n"));
  const Record of_plain = ReadRecord(folder.File("plain"));
  EXPECT_GT(of_plain.iterations[0].regularization_by_step, 0);
  EXPECT_EQ(of_plain.iterations[0].curvature, 0);
}

}  // namespace
}  // namespace costate
