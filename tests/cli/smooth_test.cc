// --smooth of optimize, gradient and check, as a process.
#include <costate/record.h>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/program.h"

namespace costate {
namespace {

using support::ProcessResult;
using support::TemporaryFolder;

// a finger 2 cm away from the block that it shall move: the true gradient by its force is zero
constexpr char kReach[] =
    "<mujoco model='reach'><option timestep='0.01' integrator='implicitfast'/><worldbody>"
    "<body name='finger'><joint name='finger' type='slide' axis='1 0 0' damping='1'/><geom name='finger' size='0.02' "
    "mass='0.2'/></body>"
    "<body name='block' pos='0.06 0 0'><joint name='block' type='slide' axis='1 0 0' damping='2'/>"
    "<geom name='block' size='0.02' mass='0.2'/></body></worldbody>"
    "<actuator><motor name='push' joint='finger' ctrlrange='-3 3'/></actuator><keyframe><key "
    "name='start'/></keyframe></mujoco>";
constexpr char kTask[] =
    "<task model='reach.xml' horizon='0.6'><start key='start'/>"
    "<cost name='block' qpos='block' target='0.1' terminal='1000'/><cost name='effort' ctrl='all' "
    "weight='0.1'/></task>";

class CliSmooth : public testing::Test {
 protected:
  TemporaryFolder folder_;
  std::string model_ = folder_.Write("reach.xml", kReach), task_ = folder_.Write("task.xml", kTask);
};

TEST_F(CliSmooth, OptimizeReachesTheBlockAndRecordsBothCosts) {
  EXPECT_EQ(Costate({"optimize", task_, "--no-save"}).exit_code, 0);  // stationary where it starts: nothing to see
  const ProcessResult result =
      Costate({"optimize", task_, "--smooth", "distance:0.05", "--out", folder_.File("run"), "--no-plots"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "smoothed: distance 0.05 m"));
  EXPECT_TRUE(Has(result.out, "stage 1: the task as it is"));
  EXPECT_TRUE(Has(result.out, "stage 2: none"));
  EXPECT_TRUE(Has(result.out, "stage 3: distance 0.05 m"));
  EXPECT_TRUE(Has(result.out, "on the true model"));
  const Record record = ReadRecord(folder_.File("run"));
  EXPECT_EQ(record.settings.at("smoothing"), "none");
  EXPECT_EQ(record.settings.at("continuation"), "distance 0.05 m");
  const double truth = std::stod(record.settings.at("cost_true"));
  EXPECT_GT(std::stod(record.settings.at("cost_smoothed")), 0);
  EXPECT_NEAR(record.cost_per_knot.sum(), truth, 1e-9 * truth);
  EXPECT_LT(truth, 1);
  EXPECT_EQ(record.model->geom_margin[0], 0);  // the saved motion is the true model's
  EXPECT_EQ(Costate({"replay", folder_.File("run")}).exit_code, 0);
}

TEST_F(CliSmooth, GradientSaysHowFarItIsFromTheTrueOne) {
  const ProcessResult result = Costate({"gradient", task_, "--smooth", "distance:0.05", "--smooth-only", "geom:block"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "of geom:block"));
  EXPECT_TRUE(Has(result.out, "of the true gradient 0;"));
  EXPECT_TRUE(RefusedWith(Costate({"gradient", task_, "--smooth", "onset", "--parameter", "option/gravity[2]"}),
                          "this gradient is by 'option/gravity[2]' too"));
  const ProcessResult saved =
      Costate({"gradient", task_, "--smooth", "distance:0.05", "--out", folder_.File("slopes"), "--no-plots"});
  EXPECT_EQ(saved.exit_code, 0) << saved.out << saved.err;
  EXPECT_EQ(ReadRecord(folder_.File("slopes")).settings.at("smoothing"), "distance 0.05 m");
}

// the true slope is 0, so that a descent along it ends where it begins; along the smoothed one it reaches the block
TEST_F(CliSmooth, DescendsAlongSmoothedSlopes) {
  const std::string task =
      folder_.Write("bare.task.xml",
                    "<task model='reach.xml' horizon='0.6'><start key='start'/><gradient start='none'/>"
                    "<cost name='block' qpos='block' target='0.1' terminal='1000'/></task>");
  const ProcessResult stays = Costate({"gradient", task, "--entries", "0", "--descend", "lbfgs", "--no-save"});
  EXPECT_TRUE(Has(stays.out, "loss          5, of the guess 5"));
  const ProcessResult result = Costate({"gradient", task, "--smooth", "distance:0.05", "--descend", "lbfgs", "--out",
                                        folder_.File("descent"), "--no-plots"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const Record record = ReadRecord(folder_.File("descent"));
  EXPECT_EQ(record.settings.at("smoothing"), "distance 0.05 m");
  EXPECT_LT(record.cost_per_knot.sum(), 1e-6);
}

TEST_F(CliSmooth, CheckTellsTheBiasBlockByBlock) {
  const ProcessResult result = Costate({"check", model_, "--smooth", "distance:0.05", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["smoothing"], "distance 0.05 m");
  bool found = false;
  for (const auto& block : json["states"][0]["smoothed"]) {
    if (block["block"] != "A qvel'/qpos") continue;
    found = true;
    EXPECT_EQ(block["true"], 0);
    EXPECT_GT(block["largest"], 0.1);
    EXPECT_GT(block["averaged"], 0);
    EXPECT_GT(block["deviation"], 0);
  }
  EXPECT_TRUE(found);
  EXPECT_TRUE(Has(Costate({"check", model_, "--smooth", "solver"}).out, "bias"));
}

TEST_F(CliSmooth, RefusesWordsThatMeanNothing) {
  EXPECT_TRUE(RefusedWith(Costate({"optimize", task_, "--smooth", "soft"}), "'soft' is none of auto"));
  EXPECT_TRUE(RefusedWith(Costate({"optimize", task_, "--smooth", "onset", "--smooth-only", "geom:blok"}),
                          "did you mean 'block'?"));
  EXPECT_TRUE(RefusedWith(Costate({"optimize", task_, "--backward-only"}), "which is not there"));
  EXPECT_TRUE(RefusedWith(Costate({"check", model_, "--smooth-only", "geom:block"}), "--smooth has to say how"));
}

}  // namespace
}  // namespace costate
