// costate rollout, as a process: what it simulates, says and saves.
#include <costate/record.h>

#include <gtest/gtest.h>

#include <filesystem>

#include "cli/program.h"

namespace costate {
namespace {

namespace fs = std::filesystem;
using support::ProcessResult;
using support::TemporaryFolder;

TEST(CliRollout, SimulatesAndJudgesInWords) {
  TemporaryFolder folder;
  const ProcessResult result = Costate({"rollout", folder.Write("p.xml", kPendulum), "--time", "0.5"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Has(result.out, "pendulum: nq 1, nv 1, na 0, nu 1, ns 0, 250 steps of 2 ms (0.5 s), Euler"));
  EXPECT_TRUE(Has(result.out, "energy "));
  EXPECT_TRUE(Has(result.out, "contacts      none"));
  EXPECT_TRUE(Has(result.out, "actuators     none at a limit\n"));
  EXPECT_EQ(result.err, "");
}

// The saved run is what the library computes from the same start and controls.
TEST(CliRollout, SavesTheMotionOfTheKeyframesControls) {
  TemporaryFolder folder;
  const std::string model_file = folder.Write("p.xml", kPendulum);
  const ProcessResult result = Costate({"rollout", std::filesystem::relative(model_file), "--key", "side", "--time",
                                        "0.2", "--substeps", "4", "--out", folder.File("run")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Has(result.out, "saved in      " + folder.File("run")));
  const Record record = ReadRecord(folder.File("run"));
  EXPECT_EQ(record.command, "rollout");
  EXPECT_EQ(record.model_file, model_file) << "from whatever folder it is read";
  EXPECT_EQ(record.substeps, 4);
  EXPECT_EQ(record.settings.at("key"), "side");
  ASSERT_EQ(record.trajectory.N(), 25);
  EXPECT_EQ(record.trajectory.X(0, 0), 1.5);
  EXPECT_EQ(record.trajectory.U.minCoeff(), 0.25);
  EXPECT_EQ(record.trajectory.U.maxCoeff(), 0.25);
  EXPECT_EQ(record.diagnostics.size(), 26u);
  EXPECT_TRUE(Replay(record).identical);
}

TEST(CliRollout, TakesControlsFromAFileAndHoldsTheLastOne) {
  TemporaryFolder folder;
  const std::string model = folder.Write("p.xml", kPendulum),
                    controls = folder.Write("u.csv", "motor\n0.5\n-0.5\n0.25\n");
  ASSERT_EQ(Costate({"rollout", model, "--ctrl", controls, "--out", folder.File("a"), "--no-plots"}).exit_code, 0);
  EXPECT_EQ(ReadRecord(folder.File("a")).trajectory.U, (MatrixXd(1, 3) << 0.5, -0.5, 0.25).finished());
  ASSERT_EQ(Costate({"rollout", model, "--ctrl", controls, "--time", "0.01", "--out", folder.File("b"), "--no-plots"})
                .exit_code,
            0);
  EXPECT_EQ(ReadRecord(folder.File("b")).trajectory.U, (MatrixXd(1, 5) << 0.5, -0.5, 0.25, 0.25, 0.25).finished());
  ASSERT_EQ(Costate({"rollout", model, "--ctrl", controls, "--time", "0.004", "--out", folder.File("c"), "--no-plots"})
                .exit_code,
            0);
  EXPECT_EQ(ReadRecord(folder.File("c")).trajectory.U, (MatrixXd(1, 2) << 0.5, -0.5).finished());
  EXPECT_TRUE(Has(Costate({"rollout", model, "--ctrl", controls, "--time", "0.004"}).err,
                  "u.csv has 3 rows, one a control interval, and there are 2: "));

  // a run's own table is such a file
  ASSERT_EQ(
      Costate({"rollout", model, "--ctrl", folder.File("a/trajectory.csv"), "--out", folder.File("d"), "--no-plots"})
          .exit_code,
      0);
  EXPECT_EQ(ReadRecord(folder.File("d")).trajectory.X, ReadRecord(folder.File("a")).trajectory.X);
}

// The guess of a task, its cost by term, and the sensors that the cost needs, all in one run.
TEST(CliRollout, SimulatesTheGuessOfATask) {
  TemporaryFolder folder;
  folder.Write("p.xml", kPendulum);
  const std::string text =
      "<task model='p.xml' horizon='0.4' controlstep='2'><start key='side'/><guess ctrl='0.5'/>"
      "<cost name='up' qpos='all' target='3' weight='2'/><cost name='effort' ctrl='all' weight='0.1'/></task>";
  const std::string task = folder.Write("p.task.xml", text);
  const ProcessResult result = Costate({"rollout", task, "--out", folder.File("run"), "--no-plots"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Has(result.out, "200 steps of 2 ms (0.4 s)"));
  EXPECT_TRUE(Has(result.out, "  cost          "));
  EXPECT_TRUE(Has(result.out, " = up "));
  EXPECT_TRUE(Has(result.out, " + effort "));
  const Record record = ReadRecord(folder.File("run"));
  EXPECT_EQ(record.task_text, "<task model='" + folder.File("p.xml") + text.substr(text.find("' horizon")));
  EXPECT_EQ(record.task_file, task);
  EXPECT_EQ(record.trajectory.N(), 100);
  EXPECT_EQ(record.trajectory.U.minCoeff(), 0.5);
  ASSERT_EQ(record.cost_terms.size(), 2u);
  EXPECT_NEAR(record.cost_terms[0].value + record.cost_terms[1].value, record.cost_per_knot.sum(), 1e-12);
  EXPECT_NEAR(record.cost_terms[1].value, 0.1 * 0.5 * 0.25 * 0.4, 1e-12);  // weight ½u² over 0.4 s
  EXPECT_TRUE(Replay(record).identical);

  EXPECT_TRUE(RefusedWith(Costate({"rollout", task, "--key", "side"}), "--key and --substeps are for models"));
  EXPECT_TRUE(RefusedWith(
      Costate(
          {"rollout", folder.Write("bad.task.xml", "<task model='none.xml' horizon='1'><cost ctrl='all'/></task>")}),
      "none.xml"));
}

// A pendulum does not turn three times in 0.4 s: what is violated is told once, and stands in the run as a failure.
TEST(CliRollout, SavesAViolatedConstraintAsAFailure) {
  TemporaryFolder folder;
  folder.Write("p.xml", kPendulum);
  const std::string task = folder.Write("p.task.xml",
                                        "<task model='p.xml' horizon='0.4'><start key='side'/><cost ctrl='all'/>"
                                        "<constraint name='there' qpos='all' equals='20' when='end'/>"
                                        "<constraint name='within' qpos='all' upper='100'/></task>");
  const ProcessResult result = Costate({"rollout", task, "--out", folder.File("run"), "--no-plots"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Has(result.out, "  VIOLATED      there: violated by ")) << result.out;
  EXPECT_TRUE(Has(result.out, "  kept          within\n")) << result.out;
  EXPECT_FALSE(Has(result.out, "constraint: ")) << result.out;
  const Record record = ReadRecord(folder.File("run"));
  EXPECT_EQ(record.constraints.size(), 2u);
  ASSERT_FALSE(record.failures.empty());
  EXPECT_TRUE(Has(record.failures.back(), "constraint: 'there' is violated by ")) << record.failures.back();
}

TEST(CliRollout, NamesWhatIsWrongWithAFileOfControls) {
  TemporaryFolder folder;
  const std::string model = folder.Write("p.xml", kPendulum);
  auto rollout = [&](const std::string& text) {
    return Costate({"rollout", model, "--ctrl", folder.Write("u.csv", text)});
  };
  EXPECT_TRUE(RefusedWith(Costate({"rollout", model, "--ctrl", folder.File("none.csv")}), "none.csv"));
  EXPECT_TRUE(RefusedWith(rollout(""), "no rows"));
  EXPECT_TRUE(RefusedWith(rollout("1,2,3\n"), "u.csv:1"));
  EXPECT_TRUE(RefusedWith(rollout("motor\n1\nx\n"), "u.csv:3: 'x'"));
  EXPECT_TRUE(RefusedWith(rollout("time,motor\n1,1\n2,\n3,3\n"), "u.csv:3"));
  EXPECT_TRUE(RefusedWith(rollout("motor,extra\n1,1\n"), "u.csv:1: column 'extra' is no control of model"));
}

TEST(CliRollout, AnswersNoWhenTheSimulationDiverges) {
  TemporaryFolder folder;
  const std::string model =
      folder.Write("m.xml",
                   "<mujoco><worldbody><body><joint name='j' type='slide'/><geom size='.1'/></body></worldbody>"
                   "<actuator><motor joint='j' gear='1e9'/></actuator></mujoco>");
  const std::string controls = folder.Write("u.csv", "0\n0\n1e9\n0\n");
  const ProcessResult result = Costate({"rollout", model, "--ctrl", controls, "--out", folder.File("run")});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_TRUE(Has(result.out, "state: "));
  EXPECT_TRUE(Has(result.out, "at knot 2 (0.004 s)"));

  // what there is has been kept, and says so
  const Record record = ReadRecord(folder.File("run"));
  EXPECT_EQ(record.status, "diverged");
  ASSERT_EQ(record.failures.size(), 1u);
}

// Ctrl-C in the middle of a long simulation: the beginning is judged, saved, and replays.
// a robot's file without its scene
TEST(CliRollout, SaysThatNothingOfTheWorldCanTouchARobot) {
  TemporaryFolder folder;
  const auto robot = [&](const std::string& name, const std::string& world, const std::string& actuator,
                         const std::string& option = "") {
    return folder.Write(name, "<mujoco><option " + option + "/><worldbody>" + world + R"(<body name="trunk" pos="0 0 1">
      <freejoint/><site name="s"/><geom size=".1"/><body pos="0 0 -.2"><joint name="leg" axis="0 1 0"/>
      <geom type="capsule" size=".02" fromto="0 0 0 0 0 -.2"/></body></body></worldbody><actuator>)" +
                                  actuator + "</actuator></mujoco>");
  };
  const std::string leg = "<motor joint='leg'/>", floor = "<geom type='plane' size='1 1 1'/>";
  const std::string says = "nothing of the world can touch 'trunk': it falls freely; is there a scene file";
  const std::string bare = robot("bare.xml", "", leg);
  const auto rollout = [](const std::string& file) {
    return Costate({"rollout", file, "--time", "0.01", "--no-save"}).err;
  };
  EXPECT_TRUE(Has(rollout(bare), says));
  EXPECT_TRUE(Has(Costate({"info", bare}).out, "nothing of the world can touch 'trunk'"));
  EXPECT_TRUE(Has(Costate({"optimize", bare, "--goal", "joint:leg=0.1", "--time", "0.05", "--no-save"}).err, says));
  EXPECT_TRUE(Has(Costate({"mpc", bare, "--goal", "joint:leg=0.1", "--time", "0.05", "--no-save"}).err, says));
  EXPECT_TRUE(
      Has(rollout(robot("visual.xml", "<geom type='plane' size='1 1 1' contype='0' conaffinity='0'/>", leg)), says));
  EXPECT_TRUE(Has(rollout(robot("off.xml", floor + "<site/>", leg, "><flag contact='disable'/></option><option")),
                  "for contacts are disabled"));
  for (const std::string& held :
       {robot("floor.xml", floor, leg), robot("space.xml", "", leg, "gravity='0 0 0'"),
        robot("drone.xml", "", leg + "<motor site='s' gear='0 0 1 0 0 0'/>"),
        robot("fish.xml", "", leg, "density='1000'"), folder.Write("pendulum.xml", kPendulum)}) {
    EXPECT_EQ(rollout(held).find("falls freely"), std::string::npos) << held;
  }
}

TEST(CliRollout, KeepsWhatThereIsWhenInterrupted) {
  TemporaryFolder folder;
  const std::string model = folder.Write("p.xml", kPendulum);
  support::Process process(
      {COSTATE_PROGRAM, "rollout", model, "--time", "20000", "--out", folder.File("run"), "--no-plots"});
  ASSERT_TRUE(process.WaitForText("10000000 steps"));
  process.Signal(SIGINT);
  const ProcessResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_TRUE(Has(result.out, "of 10000000 control intervals, which are kept"));
  const Record record = ReadRecord(folder.File("run"));
  EXPECT_EQ(record.status, "interrupted");
  EXPECT_LT(record.trajectory.N(), 10000000);
  EXPECT_EQ(Costate({"replay", folder.File("run")}).exit_code, 0);
}

TEST(CliRollout, ReplacesARunOnlyByForce) {
  TemporaryFolder folder;
  const std::string model = folder.Write("p.xml", kPendulum), run = folder.File("run");
  ASSERT_EQ(Costate({"rollout", model, "--time", "0.1", "--out", run, "--no-plots"}).exit_code, 0);
  EXPECT_TRUE(RefusedWith(Costate({"rollout", model, "--time", "0.2", "--out", run, "--no-plots"}), "run exists"));
  EXPECT_EQ(ReadRecord(run).trajectory.N(), 50);
  EXPECT_EQ(Costate({"rollout", model, "--time", "0.2", "--out", run, "--no-plots", "--force"}).exit_code, 0);
  EXPECT_EQ(ReadRecord(run).trajectory.N(), 100);
}

// the word of costate optimize, mpc and gradient, for what a rollout does unasked
TEST(CliRollout, SavesNothingWhenToldSo) {
  TemporaryFolder folder;
  const std::string model = folder.Write("p.xml", kPendulum), run = folder.File("run");
  const ProcessResult result = Costate({"rollout", model, "--time", "0.1", "--no-save"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_FALSE(Has(result.out, "saved in"));
  EXPECT_EQ(Costate({"rollout", model, "--time", "0.1", "--no-save", "--out", run}).exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(run));
}

// as the folder of a run that has no name: those above it are made
TEST(CliRollout, MakesTheFoldersAboveItsRun) {
  TemporaryFolder folder;
  const std::string model = folder.Write("p.xml", kPendulum), run = folder.File("runs/today/1");
  ASSERT_EQ(Costate({"rollout", model, "--time", "0.1", "--out", run, "--no-plots"}).exit_code, 0);
  EXPECT_EQ(ReadRecord(run).trajectory.N(), 50);
  EXPECT_TRUE(RefusedWith(Costate({"rollout", model, "--time", "0.1", "--out", model + "/run"}), "is not a folder"));
}

TEST(CliRollout, RefusesATimeThatIsNone) {
  TemporaryFolder folder;
  const std::string model = folder.Write("p.xml", kPendulum);
  EXPECT_TRUE(RefusedWith(Costate({"rollout", model, "--time", "0"}), "shorter than one control interval of 0.002 s"));
  EXPECT_TRUE(RefusedWith(Costate({"rollout", model, "--time", "-1"}), "--time -1 s"));
  EXPECT_TRUE(RefusedWith(Costate({"rollout", model, "--time", "nan"}), "--time nan s"));
  EXPECT_TRUE(RefusedWith(Costate({"rollout", model, "--time", "1e12"}), "at most 10000000"));
  EXPECT_TRUE(RefusedWith(Costate({"rollout", model, "--time", "soon"}), "soon"));
  EXPECT_TRUE(RefusedWith(Costate({"rollout", model, "--substeps", "0"}), "--substeps"));
}

// A scene without joints or actuators is simulated like any other.
TEST(CliRollout, TakesModelsWithoutActuatorsAndWithoutJoints) {
  TemporaryFolder folder;
  for (const char* xml : {"<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>",
                          "<mujoco><worldbody><geom size='.1'/></worldbody></mujoco>", "<mujoco/>"}) {
    const ProcessResult result =
        Costate({"rollout", folder.Write("m.xml", xml), "--time", "0.1", "--out", folder.File("run"), "--force"});
    EXPECT_EQ(result.exit_code, 0) << xml << result.err;
    EXPECT_EQ(Costate({"replay", folder.File("run")}).exit_code, 0) << xml;
  }
}

}  // namespace
}  // namespace costate
