// costate mpc, as a process: a robot that plans while it moves, its run on disk, and what is refused.
#include <costate/record.h>

#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "cli/program.h"

namespace costate {
namespace {

using support::Process;
using support::ProcessResult;
using support::TemporaryFolder;

constexpr char kMpcArm[] =
    "<mujoco model='arm'><option timestep='0.01'/><worldbody><body name='link' pos='0 0 1'><joint name='hinge' axis='0 "
    "1 0' damping='.05'/>"
    "<geom type='capsule' size='.02' fromto='0 0 0 0 0 -.5' mass='1'/></body></worldbody>"
    "<actuator><motor name='motor' joint='hinge' ctrlrange='-10 10'/></actuator>"
    "<keyframe><key name='hang' qpos='0'/><key name='side' qpos='1.5' ctrl='3'/></keyframe></mujoco>";

std::string WriteMpcTask(const TemporaryFolder& folder, const std::string& mpc = "") {
  folder.Write("arm.xml", kMpcArm);
  return folder.Write("arm.task.xml",
                      "<task model='arm.xml' horizon='0.4'><start key='hang'/>"
                      "<cost name='angle' qpos='all' target='key:side' weight='10'/>"
                      "<cost name='speed' qvel='all' weight='0.1'/><cost name='effort' ctrl='all' weight='0.001'/>" +
                          mpc + "</task>");
}

TEST(CliMpc, SavesAClosedLoopThatReplaysBitForBit) {
  TemporaryFolder folder;
  const std::string task = WriteMpcTask(folder, "<mpc rate='20' delay='0.01'/>");
  const ProcessResult result =
      Costate({"mpc", task, "--time", "2", "--noise", "0.001", "0.01", "--out", folder.File("run"), "--no-plots"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "a step of 10 ms"));
  EXPECT_TRUE(Has(result.out, "\n  first plan    converged after "));
  EXPECT_TRUE(Has(result.out, "\n  plans         39 in "));
  EXPECT_TRUE(Has(result.out, " ms median, "));
  EXPECT_TRUE(Has(result.out, " ms p99, "));
  EXPECT_TRUE(Has(result.out, "fall-back     in 0 of 200 control intervals"));
  const Record record = ReadRecord(folder.File("run"));
  EXPECT_EQ(record.command, "mpc");
  EXPECT_EQ(record.trajectory.N(), 200);
  EXPECT_NEAR(record.trajectory.X(0, 200), 1.5, 0.2);
  EXPECT_EQ(record.settings.at("mode"), "lock-step");
  EXPECT_EQ(record.settings.at("plans"), "39");
  EXPECT_TRUE(Has(record.tables.at("events.csv"), "time (s),event,reason\n"));
  EXPECT_TRUE(Has(record.tables.at("latency.csv"), "\n39,"));
  EXPECT_EQ(Costate({"replay", folder.File("run")}).exit_code, 0);
}

// the same arm as planned gets there; one whose link is a hundred times heavier hangs
TEST(CliMpc, SaysThatTheRobotEndsNoBetterThanItBegan) {
  TemporaryFolder folder;
  const std::string task = WriteMpcTask(folder), said = "the robot's running cost at the end is ";
  EXPECT_FALSE(Has(Costate({"mpc", task, "--time", "1", "--no-save"}).out, said));
  std::string heavy = kMpcArm;
  heavy.replace(heavy.find("mass='1'"), 8, "mass='100'");
  const ProcessResult result =
      Costate({"mpc", task, "--time", "1", "--no-save", "--plant", folder.Write("heavy.xml", heavy)});
  EXPECT_TRUE(Has(result.out, said)) << result.out;
}

// a pole that its motor holds upright but cannot lift, and a push
TEST(CliMpc, SaysThatTheRobotLosesWhatItHad) {
  TemporaryFolder folder;
  const std::string pole = folder.Write("pole.xml", R"(<mujoco><option timestep="0.01"/><worldbody><body name="pole">
      <joint name="hinge" axis="0 1 0" damping="0.01"/><geom type="capsule" fromto="0 0 0 0 0 0.5" size="0.02" mass="1"/>
    </body></worldbody><actuator><motor joint="hinge" ctrlrange="-0.3 0.3"/></actuator>
    <keyframe><key name="up"/></keyframe></mujoco>)");
  const std::vector<std::string> call{"mpc",    pole, "--start",   "up",  "--goal",   "key:up",
                                      "--time", "2",  "--horizon", "0.5", "--no-save"};
  EXPECT_FALSE(Has(Costate(call).out, "lost what it had"));
  std::vector<std::string> pushed = call;
  pushed.insert(pushed.end(), {"--push", "pole", "20", "0", "0", "0.5", "0.7"});
  const ProcessResult result = Costate(pushed);
  EXPECT_TRUE(Has(result.out, "it has lost what it had, as a robot that falls")) << result.out;
}

TEST(CliMpc, TellsOfTheForceThatPlansHaveLearned) {
  TemporaryFolder folder;
  const std::string task = WriteMpcTask(folder);
  std::string heavy = kMpcArm;
  heavy.replace(heavy.find("mass='1'"), 8, "mass='1.5'");
  const std::vector<std::string> call{
      "mpc", task, "--time", "1", "--no-save", "--plant", folder.Write("heavy.xml", heavy)};
  EXPECT_FALSE(Has(Costate(call).out, "an unknown force of "));
  std::vector<std::string> learning = call;
  learning.insert(learning.end(), {"--estimate", "0.2"});
  EXPECT_TRUE(Has(Costate(learning).out, "an unknown force of ")) << Costate(learning).out;
  learning.back() = "0";
  EXPECT_EQ(Costate(learning).exit_code, 2);
}

TEST(CliMpc, TellsHowConstraintsWereKept) {
  TemporaryFolder folder;
  const std::string task = WriteMpcTask(folder,
                                        "<limit name='top speed' joint='all' quantity='velocity' lower='-4' upper='4'/>"
                                        "<constraint name='rest' qvel='all' equals='0' when='end'/>");
  const ProcessResult result = Costate({"mpc", task, "--time", "1", "--out", folder.File("run"), "--no-plots"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, " top speed: ")) << result.out;
  EXPECT_TRUE(Has(result.out, " rest; in plans ")) << result.out;
  EXPECT_TRUE(Has(result.out, " of 100\n")) << result.out;
  const Record record = ReadRecord(folder.File("run"));
  ASSERT_EQ(record.constraints.size(), 1u);  // ends of plans are none of the robot's motion
  EXPECT_EQ(record.constraints[0].name, "top speed");
  EXPECT_LT(record.constraints[0].violation, 1e-3);
  EXPECT_NEAR(record.trajectory.X.row(1).maxCoeff(), 4, 1e-3);
  EXPECT_EQ(record.tables.at("violations.csv").rfind("time (s),top speed,rest\n0,", 0), 0u);
  EXPECT_EQ(Costate({"replay", folder.File("run")}).exit_code, 0);
}

TEST(CliMpc, TellsOfLatePlansAndPushes) {
  TemporaryFolder folder;
  const ProcessResult result = Costate({"mpc",
                                        WriteMpcTask(folder),
                                        "--time",
                                        "0.3",
                                        "--delay",
                                        "0.01",
                                        "--latency",
                                        "0.05",
                                        "--rate",
                                        "10",
                                        "--fallback",
                                        "hold",
                                        "--push",
                                        "link",
                                        "5",
                                        "0",
                                        "0",
                                        "0.1",
                                        "0.2",
                                        "--out",
                                        folder.File("run"),
                                        "--no-plots"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "late          at 0.11 s: plan 1 was due, and takes 0.04 s longer"));
  EXPECT_TRUE(Has(result.out, "fall-back     in 8 of 30 control intervals"));
  const Record record = ReadRecord(folder.File("run"));
  EXPECT_TRUE(Has(record.tables.at("events.csv"), ",late,\"plan 1 was due"));
  EXPECT_EQ(record.xfrc(6, 15), 5);
  EXPECT_TRUE(
      support::ReadFile(folder.path() / "run" / "pushes.csv").starts_with("knot,link force x (N),link force y"));
  EXPECT_GT(record.latency_used, 0);
  const ProcessResult replayed = Costate({"replay", folder.File("run")});
  EXPECT_TRUE(Has(replayed.out, "identical, bit for bit: 31 knots")) << replayed.out;
}

// one with twice the mass, half the time step and a body more, from a file of its own
TEST(CliMpc, MovesAnotherRobotThanThePlannedOne) {
  TemporaryFolder folder;
  const std::string task = WriteMpcTask(folder);
  std::string heavy = kMpcArm;
  heavy.replace(heavy.find("mass='1'"), 8, "mass='2'");
  heavy.replace(heavy.find("timestep='0.01'"), 15, "timestep='0.005'");
  heavy.replace(heavy.find("</worldbody>"), 0, "<body name='post' pos='1 1 0'><geom size='.1'/></body>");
  const std::string plant = folder.Write("heavy.xml", heavy), run = folder.File("run");
  const ProcessResult result = Costate({"mpc", task, "--plant", plant, "--time", "1", "--out", run, "--no-plots"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "planned by " + folder.File("arm.xml") + "; the robot is " + plant)) << result.out;
  const Record record = ReadRecord(run);
  EXPECT_EQ(record.substeps, 2);
  EXPECT_EQ(record.model->body_mass[1], 2);
  EXPECT_EQ(record.model_file, plant);
  EXPECT_EQ(record.settings.at("planned_model"), folder.File("arm.xml"));
  EXPECT_EQ(Costate({"replay", run}).exit_code, 0);

  const ProcessResult missing = Costate({"mpc", task, "--plant", folder.File("none.xml")});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_TRUE(Has(missing.err, "error: --plant: " + folder.File("none.xml") + " does not exist")) << missing.err;
}

// A robot goes to a goal and stays there, pushed away on the way, and its run has the task as a file.
TEST(CliMpc, NeedsNoTaskFile) {
  TemporaryFolder folder;
  const std::string arm = folder.Write("arm.xml", kMpcArm), run = folder.File("run");
  const ProcessResult result = Costate({"mpc",       arm,         "--start", "hang", "--goal", "joint:hinge=1.2",
                                        "--horizon", "0.4",       "--time",  "2",    "--push", "link",
                                        "20",        "0",         "0",       "1",    "1.1",    "--out",
                                        run,         "--no-plots"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const Record record = ReadRecord(run);
  EXPECT_EQ(std::stod(record.settings.at("horizon")), 0.4);
  EXPECT_EQ(record.trajectory.X(0, 0), 0);
  EXPECT_NEAR(record.trajectory.X(0, record.trajectory.N()), 1.2, 0.02);
  EXPECT_TRUE(Has(support::ReadFile(folder.path() / "run" / "task.xml"), "horizon=\"0.4\""));

  const std::string task = WriteMpcTask(folder);
  EXPECT_TRUE(RefusedWith(Costate({"mpc", task, "--goal", "side", "--no-save"}), "is a task file"));
  EXPECT_TRUE(RefusedWith(Costate({"mpc", task, "--start", "side", "--time", "1", "--no-save"}),
                          "is a task file: --start belongs to a robot without a task"));  // --time does not
  EXPECT_TRUE(RefusedWith(Costate({"mpc", task, "--substeps", "2", "--no-save"}), "is a task file"));
  EXPECT_TRUE(RefusedWith(Costate({"mpc", arm, "--goal", "sid", "--no-save"}), "side"));
}

TEST(CliMpc, TellsOfPlansOverBudgetInOneLine) {
  TemporaryFolder folder;
  const ProcessResult result = Costate(
      {"mpc", WriteMpcTask(folder), "--time", "0.3", "--budget", "1e-9", "--out", folder.File("run"), "--no-plots"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "\n  over budget   29 of 29 plans, by up to "));
  EXPECT_FALSE(Has(result.out, "plan 1 took"));
  const Record record = ReadRecord(folder.File("run"));
  EXPECT_TRUE(Has(record.tables.at("events.csv"), ",over budget,\"plan 29 took "));
  EXPECT_EQ(record.settings.at("plans_over_budget"), "29");
}

TEST(CliMpc, RunsInRealTime) {
  TemporaryFolder folder;
  const ProcessResult result = Costate({"mpc", WriteMpcTask(folder), "--time", "0.3", "--real-time", "--no-save"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "in real time"));
}

TEST(CliMpc, KeepsWhatThereIsWhenInterrupted) {
  // nothing is printed while it moves: longer, where it did not yet
  TemporaryFolder folder;
  for (useconds_t wait : {500000, 4000000, 20000000}) {
    Process process({COSTATE_PROGRAM, "mpc", WriteMpcTask(folder), "--time", "600", "--real-time", "--out",
                     folder.File("run"), "--no-plots"});
    ASSERT_TRUE(process.WaitForText("planning the first motion"));
    usleep(wait);
    process.Signal(SIGINT);
    const ProcessResult result = process.Wait();
    EXPECT_EQ(result.exit_code, 130) << result.out << result.err;
    if (Has(result.out, "saved in ")) break;
    EXPECT_TRUE(Has(result.out, "the robot has not moved"));
  }
  EXPECT_EQ(ReadRecord(folder.File("run")).status, "interrupted");
}

// 1.5 rad and no farther within reach; the robot goes where the plan of the least violation leads
TEST(CliMpc, FailsAsOptimizeDoesWhenTheFirstPlanDoes) {
  TemporaryFolder folder;
  const std::string far = WriteMpcTask(
      folder,
      "<constraint name='far' qpos='all' equals='100' when='end'/><hopping rounds='0'/><solver iterations='30'/>");
  const ProcessResult infeasible = Costate({"mpc", far, "--time", "0.1", "--out", folder.File("run"), "--no-plots"});
  EXPECT_EQ(infeasible.exit_code, 1) << infeasible.out << infeasible.err;
  EXPECT_EQ(Costate({"optimize", far, "--no-save"}).exit_code, 1);
  EXPECT_TRUE(Has(infeasible.out, "\nplanning the first motion …\n"));
  EXPECT_TRUE(Has(infeasible.out, "\n  first plan    FAILED, infeasible: ")) << infeasible.out;
  const Record record = ReadRecord(folder.File("run"));
  EXPECT_EQ(record.trajectory.N(), 10);
  ASSERT_FALSE(record.failures.empty());
  EXPECT_TRUE(Has(record.failures[0] + record.failures.back(), "first plan: FAILED, infeasible"));

  // what no control moves to first order
  folder.Write("push.xml", R"(<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody>
    <body><joint name="finger" type="slide" axis="1 0 0"/><geom size="0.05" mass="1"/></body>
    <body pos="0.15 0 0"><joint name="puck" type="slide" axis="1 0 0"/><geom size="0.05" mass="1"/></body></worldbody>
    <actuator><motor joint="finger" ctrlrange="-20 20"/></actuator></mujoco>)");
  const std::string puck = folder.Write("push.task.xml",
                                        "<task model='push.xml' horizon='0.4'><cost qpos='puck' target='0.2' "
                                        "terminal='9'/><cost ctrl='all' weight='0.01'/></task>");
  const ProcessResult untouched = Costate({"mpc", puck, "--hops", "0", "--time", "0.1", "--no-save"});
  EXPECT_EQ(untouched.exit_code, 1) << untouched.out << untouched.err;
  EXPECT_TRUE(Has(untouched.out, "\n  first plan    FAILED, stalled: no control changes 'qpos puck' along this motion"))
      << untouched.out;
  EXPECT_EQ(Costate({"optimize", puck, "--hops", "0", "--no-save"}).exit_code, 1);

  folder.Write("arm.xml", kMpcArm);
  const std::string fast = folder.Write(
      "fast.task.xml", "<task model='arm.xml' horizon='0.4'><start qpos='0' qvel='1e12'/><cost ctrl='all'/></task>");
  const ProcessResult diverged = Costate({"mpc", fast, "--out", folder.File("none")});
  EXPECT_EQ(diverged.exit_code, 1) << diverged.out << diverged.err;
  EXPECT_TRUE(Has(diverged.out, "\ndiverged: the guess cannot be simulated"));
  EXPECT_TRUE(Has(diverged.out, "The robot did not move, and nothing was saved.\n"));
}

// the first plan, as that of costate optimize
TEST(CliMpc, LeavesOutRoundsOfKicksWhenToldSo) {
  TemporaryFolder folder;
  const auto first_plan = [&](const std::string& hopping, const std::vector<std::string>& options) {
    std::vector<std::string> words{"mpc",
                                   WriteMpcTask(folder,
                                                "<constraint name='far' qpos='all' equals='100' when='end'/><solver "
                                                "iterations='30'/>" +
                                                    hopping),
                                   "--time",
                                   "0.02",
                                   "--out",
                                   folder.File("run"),
                                   "--force",
                                   "--no-plots"};
    words.insert(words.end(), options.begin(), options.end());
    const std::string out = Costate(words).out;
    const std::size_t begin = out.find("  first plan ");
    return begin == out.npos ? out : out.substr(begin, out.find('\n', begin) - begin);
  };
  const std::string one = first_plan("<hopping rounds='0'/>", {}), hopped = first_plan("<hopping rounds='2'/>", {});
  EXPECT_NE(one, hopped);
  EXPECT_EQ(first_plan("<hopping rounds='2'/>", {"--hops", "0"}), one);
  EXPECT_EQ(ReadRecord(folder.File("run")).settings.at("hops"), "0");
  EXPECT_EQ(first_plan("", {"--hops", "2"}), hopped);
  EXPECT_EQ(Costate({"mpc", WriteMpcTask(folder), "--hops", "-1", "--no-save"}).exit_code, 2);
}

// where the first plan takes longer than anyone waits in silence
TEST(CliMpc, SaysHowToEndALongFirstPlan) {
  TemporaryFolder folder;
  const std::string task = WriteMpcTask(folder, "<solver iterations='1000000' threads='1'/>");
  Process process({COSTATE_PROGRAM, "mpc", task, "--hops", "1000000", "--no-save"});
  ASSERT_TRUE(process.WaitForText("--hops 0 leaves rounds of kicks out"));
  process.Signal(SIGINT);
  const ProcessResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 130) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "  --hops 0 leaves rounds of kicks out; Ctrl-C ends before the robot moves\n"));
}

TEST(CliMpc, SaysThatThereIsNothingToSave) {
  TemporaryFolder folder;
  const ProcessResult result = Costate({"mpc", WriteMpcTask(folder), "--time", "0.1", "--push", "link", "1e300", "0",
                                        "0", "0", "1", "--out", folder.File("run"), "--no-plots"});
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "cannot be simulated beyond 0 s"));
  EXPECT_TRUE(Has(result.out, "nothing saved: the robot has not moved"));
}

TEST(CliMpc, PrintsNothingOfARunThatItRefuses) {
  TemporaryFolder folder;
  const std::string task = WriteMpcTask(folder);
  const auto refused = [&](const std::vector<std::string>& options, const std::string& text) {
    std::vector<std::string> words{"mpc", task, "--no-save"};
    words.insert(words.end(), options.begin(), options.end());
    const ProcessResult result = Costate(words);
    EXPECT_TRUE(RefusedWith(result, text));
    EXPECT_EQ(result.out, "") << text;
  };
  refused({"--push", "link", "1", "0", "0", "7", "8"}, "begin of a push is 7");
  refused({"--time", "1e-9"}, "duration");
  refused({"--horizon", "1e12"}, "horizon is 1e+12");
  refused({"--delay", "6"}, "delay is 6");
}

TEST(CliMpc, RefusesBadInputByName) {
  TemporaryFolder folder;
  const std::string task = WriteMpcTask(folder);
  EXPECT_TRUE(
      RefusedWith(Costate({"mpc", folder.File("arm.xml"), "--no-save"}), "is a model, not a task: say what to reach"));
  EXPECT_TRUE(RefusedWith(Costate({"mpc", task, "--no-save", "--push", "lnk", "1", "0", "0", "0", "1"}),
                          "did you mean 'link'?"));
  EXPECT_TRUE(RefusedWith(Costate({"mpc", task, "--no-save", "--push", "link", "1", "x", "0", "0", "1"}),
                          "'x' is not a number"));
  EXPECT_TRUE(
      RefusedWith(Costate({"mpc", task, "--no-save", "--push", "link", "1", "0", "0", "1", "1"}), "after its begin"));
  EXPECT_EQ(Costate({"mpc", task, "--no-save", "--rate", "-1"}).exit_code, 2);
  EXPECT_EQ(Costate({"mpc", task, "--no-save", "--fallback", "pray"}).exit_code, 2);
  EXPECT_TRUE(RefusedWith(Costate({"mpc", WriteMpcTask(folder, "<periodic qpos='all'/>"), "--no-save"}),
                          "plans begin elsewhere"));
  EXPECT_TRUE(RefusedWith(Costate({"mpc", WriteMpcTask(folder, "<mpc delay='-1'/>"), "--no-save"}), "delay is -1"));
}

// ---- in other hosts --------------------------------------------------------------------------------------------------

// the file plans by itself where it is stepped; its goal is a ball that can be moved, in keyframes, too
TEST(CliMpc, ExportsAModelThatPlansInAnyHost) {
  const TemporaryFolder folder;
  folder.Write(
      "crane.xml",
      "<mujoco model='crane'><option timestep='0.01' gravity='0 0 0'/><worldbody><body name='hook'>"
      "<joint name='x' type='slide' axis='1 0 0'/><joint name='z' type='slide' axis='0 0 1'/>"
      "<geom size='.05' mass='1'/><site name='tip'/></body><body name='post' mocap='true' pos='0 2 0'/></worldbody>"
      "<actuator><motor joint='x' ctrlrange='-50 50'/><motor joint='z' ctrlrange='-50 50'/></actuator>"
      "<keyframe><key name='up' qpos='0 1' mpos='0 3 0'/></keyframe></mujoco>");
  const std::string task =
      folder.Write("crane.task.xml",
                   "<task model='crane.xml' horizon='0.5'><start key='up'/><option timestep='0.005'/><cost site='tip' "
                   "quantity='pos' index='0 2' target='1 0.5' terminal='100'/><cost qvel='all' terminal='1'/></task>");
  const std::string live = folder.File("live.xml");
  const ProcessResult result = Costate({"mpc", task, "--export", live});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Has(result.out, "wrote " + live));
  EXPECT_TRUE(Has(result.out, "a green ball, 'goal of site tip', moves that goal"));
  std::string text = support::ReadFile(live);
  EXPECT_TRUE(Has(text, "timestep=\"0.005\""));

  // stepped like any model; plans within steps, that the machine's speed says nothing
  text.replace(text.find("<config key=\"start\""), 0, "<config key='wait' value='on'/>");
  const ModelPtr model = LoadModel(folder.Write("waits.xml", text));
  const mjModel* m = model.get();
  const DataPtr d = MakeData(m);
  EXPECT_EQ(d->qpos[1], 1);
  const int ball = m->body_mocapid[mj_name2id(m, mjOBJ_BODY, "goal of site tip")];
  ASSERT_GE(ball, 0);
  EXPECT_EQ(d->mocap_pos[3 * ball], 1);
  EXPECT_EQ(d->mocap_pos[3 * ball + 2], 0.5);
  EXPECT_EQ(m->key_mpos[3 * ball], 1);
  const auto run = [&](double seconds) {
    for (const double end = d->time + seconds; d->time < end;) mj_step(m, d.get());
  };
  run(2);
  EXPECT_NEAR(d->qpos[0], 1, 0.02);
  EXPECT_NEAR(d->qpos[1], 0.5, 0.02);
  d->mocap_pos[3 * ball] = -0.5;
  run(2);
  EXPECT_NEAR(d->qpos[0], -0.5, 0.02);

  EXPECT_TRUE(RefusedWith(Costate({"mpc", task, "--export", live}), "--force"));
  EXPECT_TRUE(RefusedWith(Costate({"mpc", task, "--export", task, "--force"}), "is the task file itself"));
  EXPECT_TRUE(RefusedWith(Costate({"mpc", task, "--export", folder.File("crane.xml"), "--force"}), "was made from"));
  EXPECT_TRUE(RefusedWith(Costate({"mpc", folder.File("crane.xml"), "--export", live}), "a host reads a task file"));
  EXPECT_TRUE(RefusedWith(Costate({"mpc", task, "--export", live, "--rate", "5"}), "--rate excludes --export"));
}

}  // namespace
}  // namespace costate
