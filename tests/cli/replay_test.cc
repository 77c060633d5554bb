// costate replay, as a process: identical, different, or not a run.
#include <costate/record.h>

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "cli/program.h"

namespace costate {
namespace {

namespace fs = std::filesystem;
using support::ProcessResult;
using support::ReadFile;
using support::TemporaryFolder;

class CliReplay : public ::testing::Test {
 protected:
  void SetUp() override {
    const ProcessResult result = Costate(
        {"rollout", folder_.Write("p.xml", kPendulum), "--key", "side", "--time", "0.3", "--out", run_, "--no-plots"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  TemporaryFolder folder_;
  std::string run_ = folder_.File("run");
};

TEST_F(CliReplay, SaysIdenticalBitForBit) {
  const ProcessResult result = Costate({"replay", run_});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Has(result.out, "rollout of 'pendulum' (ok)"));
  EXPECT_TRUE(Has(result.out, "identical, bit for bit: 151 knots, 0.3 s"));
}

// The run is whole in itself: another folder, no model file.
TEST_F(CliReplay, NeedsNeitherTheOriginalModelNorTheOriginalPlace) {
  fs::remove(folder_.path() / "p.xml");
  fs::rename(run_, folder_.path() / "moved");
  EXPECT_EQ(Costate({"replay", folder_.File("moved/")}).exit_code, 0);
}

TEST_F(CliReplay, SaysWhereItDiffersFirstAndByHowMuch) {
  Record record = ReadRecord(run_);
  record.trajectory.X(0, 7) = std::nextafter(record.trajectory.X(0, 7), 9.0);
  record.trajectory.X(1, 100) += 0.25;
  WriteRecord(run_, record, {.force = true, .plots = false});
  const ProcessResult result = Costate({"replay", run_});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_TRUE(Has(result.out, "differs first at knot 7 (0.014 s): qpos[hinge] was "));
  EXPECT_TRUE(Has(result.out, "largest difference of a state over the run: 0.25"));
}

// A rollout has no gains: the written model plays its controls alone, and judges itself.
TEST_F(CliReplay, ExportsAModelThatPlaysByItself) {
  const ProcessResult result = Costate({"replay", run_, "--export", folder_.File("play.xml"), "--end", "loop"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Has(result.out, "feedback off"));
  EXPECT_TRUE(Has(result.out, "played: identical to the run, bit for bit"));
  const std::string text = ReadFile(folder_.path() / "play.xml");
  EXPECT_TRUE(Has(text, "plugin=\"costate.policy\""));
  EXPECT_TRUE(Has(text, "key=\"end\" value=\"loop\""));
  EXPECT_EQ(Costate({"info", folder_.File("play.xml")}).exit_code, 0);
  EXPECT_EQ(Costate({"replay", run_, "--end", "loop"}).exit_code, 2);
}

TEST_F(CliReplay, ExportsOverAFileOnlyWhenForced) {
  const std::string mine = folder_.Write("mine.xml", "<mujoco model='mine'/>");
  EXPECT_TRUE(RefusedWith(Costate({"replay", run_, "--export", mine}), "--force"));
  EXPECT_EQ(ReadFile(mine), "<mujoco model='mine'/>");
  EXPECT_EQ(Costate({"replay", run_, "--export", mine, "--force"}).exit_code, 0);
  EXPECT_TRUE(Has(ReadFile(mine), "costate.policy"));
}

// … and not over one of the run's own, nor a table over the task that is read.
TEST_F(CliReplay, NothingThatIsReadIsWrittenOver) {
  const std::string record = ReadFile(fs::path(run_) / "record.json");
  EXPECT_TRUE(RefusedWith(Costate({"replay", run_, "--export", run_ + "/record.json", "--force"}), "is a file of run"));
  EXPECT_TRUE(
      RefusedWith(Costate({"replay", run_, "--export", run_ + "/trajectory.csv", "--force"}), "is a file of run"));
  EXPECT_EQ(ReadFile(fs::path(run_) / "record.json"), record);
  EXPECT_EQ(Costate({"replay", run_}).exit_code, 0);
  EXPECT_EQ(Costate({"replay", run_, "--export", run_ + "/play.xml"}).exit_code, 0);
  EXPECT_EQ(Costate({"replay", run_, "--export", run_ + "/play.xml", "--force"}).exit_code, 0);

  const std::string robot = folder_.File("p.xml"), before = ReadFile(robot);
  EXPECT_TRUE(RefusedWith(Costate({"task", robot, "--goal", "side", "-o", robot, "--force"}), "is what is read here"));
  const std::string text = "<task model='p.xml' horizon='0.1'><cost qpos='all' target='0.1' weight='1'/></task>";
  const std::string task = folder_.Write("t.xml", text);
  for (const std::string& input : {task, robot})
    EXPECT_TRUE(RefusedWith(Costate({"gradient", task, "--csv", input, "--force"}), "is what is read here"));
  EXPECT_EQ(ReadFile(robot), before);
  EXPECT_EQ(ReadFile(task), text);
}

// A ball that falls on to a plate, a mocap body that the keyframe has put there.
TEST_F(CliReplay, ExportsMocapBodiesWhereTheRunFoundThem) {
  const std::string model = folder_.Write("plate.xml", R"(<mujoco><worldbody>
      <body name="plate" mocap="true" pos="2 0 0" quat="1 1 0 0"><geom type="box" size=".5 .5 .05"/></body>
      <body pos="0 0 .4"><joint name="z" type="slide" axis="0 0 1"/><geom size=".1"/></body></worldbody>
      <actuator><motor joint="z" ctrlrange="-1 1"/></actuator>
      <keyframe><key name="under" mpos="0 0 .2" mquat="1 0 0 0"/></keyframe></mujoco>)");
  const std::string run = folder_.File("plate");
  ASSERT_EQ(Costate({"rollout", model, "--key", "under", "--time", "0.5", "--out", run, "--no-plots"}).exit_code, 0);
  const Record record = ReadRecord(run);
  EXPECT_GT(record.trajectory.X(0, record.trajectory.N()), -0.11) << "it fell past the plate";
  const ProcessResult result = Costate({"replay", run, "--export", folder_.File("plays.xml")});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "identical to the run, bit for bit"));
}

// The time step that the solver found, and an integrator of the task's, are in no source file.
TEST_F(CliReplay, ExportsTheModelThatATaskMade) {
  const std::string task = folder_.Write(
      "fast.xml",
      "<task model='p.xml' horizon='0.3'><option timestep='0.00123456789012345' integrator='RK4' solimp0='0.5'/>"
      "<start key='side'/><cost name='effort' ctrl='all' weight='0.1'/><cost name='angle' qpos='all' "
      "weight='1'/></task>");
  const std::string run = folder_.File("made"), play = folder_.File("play.xml");
  const ProcessResult made = Costate({"optimize", task, "--iterations", "3", "--out", run, "--no-plots"});
  ASSERT_NE(made.exit_code, 2) << made.err;
  const ProcessResult result = Costate({"replay", run, "--export", play});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const ModelPtr wanted = std::move(ReadRecord(run).model), model = LoadModel(play);
  EXPECT_EQ(model->opt.timestep, wanted->opt.timestep);
  EXPECT_EQ(model->opt.timestep, 0.00123456789012345);
  EXPECT_EQ(model->opt.integrator, mjINT_RK4);
  EXPECT_EQ(model->jnt_solimp[0], 0.5);
}

TEST_F(CliReplay, ExportsTheFittedParameters) {
  std::string stiff = kPendulum;
  stiff.replace(stiff.find(".01"), 3, ".34");
  const std::string film = folder_.File("film"), fit = folder_.File("fit"), play = folder_.File("play.xml");
  ASSERT_EQ(Costate({"rollout", folder_.Write("stiff.xml", stiff), "--key", "side", "--time", "0.3", "--out", film,
                     "--no-plots"})
                .exit_code,
            0);
  const ProcessResult fitted = Costate({"gradient", folder_.File("p.xml"), "--fit", film, "--parameter",
                                        "joint:hinge/damping", "--out", fit, "--no-plots"});
  ASSERT_EQ(fitted.exit_code, 0) << fitted.out << fitted.err;
  const ProcessResult result = Costate({"replay", fit, "--export", play});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Has(result.out, "played: identical to the run, bit for bit"));
  EXPECT_EQ(LoadModel(play)->dof_damping[0], ReadRecord(fit).model->dof_damping[0]);
}

TEST_F(CliReplay, BlamesAPushForWhatAPushDid) {
  folder_.Write("p.xml", std::string(kPendulum).replace(std::string(kPendulum).find("<body "), 6, "<body name='rod' "));
  const std::string task = folder_.Write(
      "hold.xml",
      "<task model='p.xml' horizon='0.1'><start key='side'/><cost name='effort' ctrl='all' weight='0.1'/></task>");
  const std::string run = folder_.File("pushed");
  const ProcessResult pushed = Costate(
      {"mpc", task, "--time", "0.2", "--push", "rod", "50", "0", "0", "0.05", "0.1", "--out", run, "--no-plots"});
  ASSERT_EQ(pushed.exit_code, 0) << pushed.err;
  const ProcessResult result = Costate({"replay", run, "--export", folder_.File("play.xml")});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_TRUE(Has(result.out, "(the robot was pushed in the run, and no push is part of the file)"));
  EXPECT_FALSE(Has(result.out, "digits"));
}

TEST_F(CliReplay, NamesEachKindOfDamage) {
  EXPECT_TRUE(RefusedWith(Costate({"replay", folder_.File("none")}), "there is no such folder"));
  EXPECT_TRUE(RefusedWith(Costate({"replay", folder_.path().string()}), "it has no record.json"));
  EXPECT_TRUE(RefusedWith(Costate({"replay", folder_.File("p.xml")}), "is not a folder"));

  const std::string table = ReadFile(run_ + "/trajectory.csv"), json = ReadFile(run_ + "/record.json");
  fs::resize_file(run_ + "/trajectory.csv", table.size() - 100);
  EXPECT_TRUE(RefusedWith(Costate({"replay", run_}), "trajectory.csv is cut off"));
  std::string edited = table;
  edited[table.size() - 20] = edited[table.size() - 20] == '1' ? '2' : '1';
  folder_.Write("run/trajectory.csv", edited);
  EXPECT_TRUE(RefusedWith(Costate({"replay", run_}), "trajectory.csv was changed after it was written"));
  fs::remove(run_ + "/trajectory.csv");
  EXPECT_TRUE(RefusedWith(Costate({"replay", run_}), "trajectory.csv does not exist"));
  folder_.Write("run/trajectory.csv", table);

  std::string newer = json;
  newer.replace(newer.find("\"schema\": 1"), 11, "\"schema\": 7");
  folder_.Write("run/record.json", newer);
  EXPECT_TRUE(RefusedWith(Costate({"replay", run_}), "it has schema 7"));
  folder_.Write("run/record.json", json.substr(0, json.size() / 3));
  EXPECT_TRUE(RefusedWith(Costate({"replay", run_}), "record.json is cut off"));
  folder_.Write("run/record.json", json);
  EXPECT_EQ(Costate({"replay", run_}).exit_code, 0);
}

}  // namespace
}  // namespace costate
