// costate gradient, as a process: numbers with a closed form, agreement in contact, bad input.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cli/program.h"
#include "core/number.h"

namespace costate {
namespace {

using support::ProcessResult;
using support::TemporaryFolder;

const std::string kModels = COSTATE_MODELS;

TEST(CliGradient, PrintsTheClosedFormOfTheProjectile) {
  // loss 1.125, gradient 4.5 by the start's velocity; ∂loss/∂u_0 = 1.5 dt² N = 0.045
  TemporaryFolder folder;
  const std::string csv = folder.File("gradient.csv");
  const ProcessResult result = Costate({"gradient", kModels + "/projectile/land.xml", "--csv", csv});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "loss          1.125\n")) << result.out;
  EXPECT_TRUE(Has(result.out, "largest 4.5 by qvel[x]")) << result.out;
  EXPECT_TRUE(Has(result.out, "largest 0.045 by ctrl[jet_x] at knot 0")) << result.out;
  EXPECT_TRUE(Has(result.out, "healthy")) << result.out;
  std::ifstream table(csv);
  std::string line;
  int lines = 0;
  for (; std::getline(table, line); lines++) {
    if (lines == 0) {
      EXPECT_EQ(line,
                "knot,time (s),d loss / d ctrl[jet_x],d loss / d ctrl[jet_z],costate norm,growth,switched,shortened");
    }
  }
  EXPECT_EQ(lines, 302);

  // what there is is not replaced unasked
  const ProcessResult again = Costate({"gradient", kModels + "/projectile/land.xml", "--csv", csv});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_TRUE(Has(again.err, "--force")) << again.err;
  EXPECT_EQ(Costate({"gradient", kModels + "/projectile/land.xml", "--csv", csv, "--force"}).exit_code, 0);
}

TEST(CliGradient, AgreesInContactWithLittleMemory) {
  const ProcessResult result =
      Costate({"gradient", kModels + "/hopper/hop.xml", "--memory", "0.002", "--entries", "6"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "differences of the loss: agree")) << result.out;
  EXPECT_FALSE(Has(result.out, " 0 knots simulated again")) << result.out;
}

// a solver that ends early leaves other steps than the converged ones whose derivatives there are
TEST(CliGradient, SaysThatStepsAreNotConverged) {
  TemporaryFolder folder;
  folder.Write("slide.xml", R"(<mujoco><option timestep="0.005" solver="PGS" iterations="3"/><worldbody>
    <geom type="plane" size="1 1 0.1"/>
    <body pos="0 0 0.1"><joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0 1"/>
      <joint name="turn" axis="0 1 0"/><geom type="box" size="0.2 0.1 0.1"/></body></worldbody>
    <actuator><motor joint="x"/></actuator></mujoco>)");
  const std::string task = folder.Write("task.xml",
                                        "<task model='slide.xml' horizon='0.1'><start qvel='1 0 0'/>"
                                        "<cost qpos='x' target='0' weight='0' terminal='1'/></task>");
  const ProcessResult result = Costate({"gradient", task});
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "used all its 3 iterations")) << result.out;
  EXPECT_TRUE(Has(result.out, "with <option solver=\"Newton\" iterations=\"200\" tolerance=\"0\"> all agree"))
      << result.out;

  // by parameters, too
  const ProcessResult by = Costate({"gradient", task, "--parameter", "option/gravity[2]"});
  EXPECT_EQ(by.exit_code, 1) << by.out << by.err;
  EXPECT_TRUE(Has(by.out, "DISAGREE")) << by.out;
  EXPECT_TRUE(Has(by.out, "tolerance=\"0\"> all agree")) << by.out;
}

// gradients follow delays, the tangents of Gauss-Newton do not
TEST(CliGradient, FitsAModelWithDelaysByGradients) {
  TemporaryFolder folder;
  const std::string model = folder.Write("late.xml", R"(<mujoco><option timestep="0.01"/><worldbody>
    <body><joint name="j" axis="0 1 0" damping="0.05"/><geom type="capsule" fromto="0 0 0 0 0 -.5" size=".03"/></body></worldbody>
    <actuator><motor name="m" joint="j" delay="0.03" nsample="5"/></actuator></mujoco>)");
  std::string text = "time,qpos[j],ctrl[m]\n";
  for (int t = 0; t < 20; t++) text += std::to_string(0.01 * t) + "," + std::to_string(1e-3 * t * t) + ",0.5\n";
  const std::string motion = folder.Write("motion.csv", text), out = folder.File("run");
  const std::vector<std::string> words = {"gradient",        model,   "--fit", motion,      "--parameter",
                                          "joint:j/damping", "--out", out,     "--no-plots"};
  EXPECT_TRUE(RefusedWith(Costate(words), "(--descend lbfgs)"));
  std::vector<std::string> by_gradients = words;
  by_gradients.insert(by_gradients.end(), {"--descend", "lbfgs", "--iterations", "3"});
  const ProcessResult result = Costate(by_gradients);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(std::filesystem::exists(out + "/inputs.csv")) << result.out;
}

// a servo that Euler cannot hold: what is exact at rest grows beyond any step of a difference
TEST(CliGradient, DoesNotJudgeWhatGrowsBeyondAllSteps) {
  TemporaryFolder folder;
  folder.Write("servo.xml", R"(<mujoco><option timestep="0.01"/><worldbody>
    <body><joint name="turn" axis="0 0 1"/><geom size="0.1" mass="0.1"/></body></worldbody>
    <actuator><velocity joint="turn" kv="1" forcerange="-1 1"/></actuator></mujoco>)");
  const std::string task = folder.Write(
      "task.xml",
      "<task model='servo.xml' horizon='0.3'><cost qpos='turn' target='1' weight='0' terminal='1'/></task>");
  const ProcessResult result = Costate({"gradient", task, "--entries", "4"});
  EXPECT_TRUE(Has(result.out, "exploding")) << result.out;
  EXPECT_FALSE(Has(result.out, "DISAGREE")) << result.out;
  EXPECT_TRUE(Has(result.out, "not judged")) << result.out;
}

// the film begins 3 cm beyond the joint's range, the guess 2 cm within
TEST(CliGradient, SaysThatAStartIsAtItsBound) {
  TemporaryFolder folder;
  folder.Write("slide.xml",
               "<mujoco><option timestep='.01' gravity='0 0 0'/><worldbody><body><joint name='x' type='slide' "
               "range='-9 .32' limited='true'/><geom size='.1'/></body></worldbody></mujoco>");
  std::string film = "time,qpos[x]";
  for (int t = 0; t <= 50; t++) film += fmt::format("\n{},{}", 0.01 * t, 0.35 - 0.005 * t);
  folder.Write("film.csv", film);
  const std::string task =
      folder.Write("task.xml",
                   "<task model='slide.xml' horizon='0.5'><start qpos='0.3'/><gradient controls='none' start='all'/>"
                   "<cost qpos='x' target='file:film.csv'/></task>");
  const std::string out = folder.File("run");
  const ProcessResult result =
      Costate({"gradient", task, "--descend", "gauss-newton", "--entries", "0", "--out", out, "--no-plots"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "qpos[x] of the start     0.32 m, guess 0.3, at its upper bound")) << result.out;
  EXPECT_TRUE(Has(result.out, "qvel[x] of the start     -0.")) << result.out;

  // a start that stays is told, too
  folder.Write("film.csv", "time,qpos[x]\n0,0.3\n0.5,0.3");
  const ProcessResult still = Costate({"gradient", task, "--descend", "gauss-newton", "--entries", "0", "--no-save"});
  EXPECT_TRUE(Has(still.out, "qpos[x] of the start     0.3 ")) << still.out;
  const std::string table = support::ReadFile(out + "/inputs.csv");
  EXPECT_TRUE(
      Has(table, ",change,0," + ExactText(0.32 - 0.3) + "," + ExactText(-9 - 0.3) + "," + ExactText(0.32 - 0.3)))
      << table;
  EXPECT_TRUE(Has(table, ",-inf,inf,")) << table;
}

TEST(CliGradient, DrawsTheWayBack) {
  TemporaryFolder folder;
  const std::string out = folder.File("health");
  const std::vector<std::string> words = {
      "gradient", kModels + "/bouncing_ball/volley.xml", "--entries", "0", "--out", out, "--spectral", "--certify"};
  const ProcessResult result = Costate(words);
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "switches of contacts or limits; largest spectral radius ")) << result.out;
  EXPECT_TRUE(Has(result.out, "on a switch")) << result.out;
  std::ifstream table(out + "/gradient.csv");
  std::string line;
  std::getline(table, line);
  EXPECT_TRUE(Has(line, ",costate norm,growth,switched,shortened,spectral radius,label,switch")) << line;
  if (result.err.find("gnuplot is not installed") == std::string::npos) {
    EXPECT_GT(std::filesystem::file_size(out + "/costate.png"), 1000u);
    EXPECT_GT(std::filesystem::file_size(out + "/growth.png"), 1000u);
  }

  // what there is is not replaced unasked
  const ProcessResult again = Costate(words);
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_TRUE(Has(again.err, "--force")) << again.err;
}

TEST(CliGradient, SaysThatATruncatedGradientIsNone) {
  const ProcessResult result = Costate({"gradient", kModels + "/pendulum/swing_up.xml", "--window", "20"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "truncated at ")) << result.out;
  EXPECT_TRUE(Has(result.out, "check         none")) << result.out;
}

// a control at the edge of its range is compared towards the inside, where its slope is that of the model
TEST(CliGradient, ChecksControlsAtTheEdgeOfTheirRange) {
  TemporaryFolder folder;
  std::ofstream(folder.File("model.xml")) << R"(
    <mujoco><worldbody><body><joint name="x" type="slide" axis="1 0 0"/><geom size="0.1" mass="1"/></body></worldbody>
    <actuator><motor name="push" joint="x" ctrlrange="-1 1"/></actuator>
    <keyframe><key name="full" ctrl="1"/></keyframe></mujoco>)";
  const std::string task = folder.File("task.xml");
  std::ofstream(task) << R"(
    <task model="model.xml" horizon="0.1"><guess key="full"/><gradient controls="all" start="none"/>
    <cost name="place" qpos="x" target="2" terminal="1"/></task>)";
  const ProcessResult result = Costate({"gradient", task, "--entries", "6"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "6 entries against centred differences of the loss: agree")) << result.out;
}

TEST(CliGradient, TakesNoOptionSilently) {
  const std::string task = kModels + "/pendulum/swing_up.xml";
  for (const char* option : {"--rate", "--iterations"}) {
    const ProcessResult result = Costate({"gradient", task, option, "1"});
    EXPECT_EQ(result.exit_code, 2) << option;
    EXPECT_TRUE(Has(result.err, "--descend")) << result.err;
  }
  EXPECT_EQ(Costate({"gradient", task, "--no-save"}).exit_code, 2);
  for (const char* option : {"--memory", "--average", "--clip"}) {
    const ProcessResult result = Costate({"gradient", task, option, "nan"});
    EXPECT_EQ(result.exit_code, 2) << option;
    EXPECT_TRUE(Has(result.err, "'nan' is no number")) << result.err;
  }

  // next to no memory is not all of it
  const ProcessResult tiny = Costate({"gradient", task, "--memory", "1e-9", "--entries", "0"});
  EXPECT_EQ(tiny.exit_code, 0) << tiny.err;
  EXPECT_FALSE(Has(tiny.out, " 0 knots simulated again")) << tiny.out;
}

TEST(CliGradient, NamesWhatIsWrong) {
  TemporaryFolder folder;
  EXPECT_EQ(Costate({"gradient", folder.File("none.xml")}).exit_code, 2);
  EXPECT_EQ(Costate({"gradient", kModels + "/pendulum/swing_up.xml", "--memory", "-1"}).exit_code, 2);
  const ProcessResult result =
      Costate({"gradient", kModels + "/pendulum/swing_up.xml", "--csv", folder.File("no/where.csv")});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(Has(result.err, "cannot be written")) << result.err;
}

}  // namespace
}  // namespace costate
