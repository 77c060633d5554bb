// --average of gradient, as a process: a quadratic loss has a closed form, a touch that the exact
// gradient misses.
#include <costate/record.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "cli/program.h"

namespace costate {
namespace {

using support::ProcessResult;
using support::TemporaryFolder;

const std::string kLand = std::string(COSTATE_MODELS) + "/projectile/land.xml";

// u_t moves x_N by dt² (N − t), so that E loss = 1.125 + σ²/2 (dt⁴ Σ k² + 2 w T), σ = 5 % of 100 N,
// w = 0.1; its slope is that without noise
TEST(CliAverage, AQuadraticLossHasAClosedForm) {
  TemporaryFolder folder;
  const ProcessResult result = Costate({"gradient", kLand, "--entries", "0", "--average", "0.05", "--pairs", "200",
                                        "--seed", "4", "--out", folder.File("run"), "--no-plots"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "200 pairs, seed 4; noise: 5 % of the range of 2 controls"));
  EXPECT_TRUE(Has(result.out, "without noise 1.125"));
  EXPECT_TRUE(Has(result.out, "1 of order one, 0 of order zero"));
  const std::map<std::string, std::string> settings = ReadRecord(folder.File("run")).settings;
  const auto number = [&](const std::string& name) { return std::stod(settings.at("average_" + name)); };
  const double loss = 1.125 + 12.5 * (1e-8 * 300 * 301 * 601 / 6 + 2 * 0.1 * 3);
  EXPECT_NEAR(number("loss"), loss, 4 * number("loss_standard_error"));
  EXPECT_LT(number("loss_standard_error"), 0.02 * loss);
  EXPECT_EQ(number("sigma"), 0.05);
  EXPECT_EQ(number("seed"), 4);
  EXPECT_LT(number("first_standard_error"), 1e-12);
  EXPECT_GT(number("zeroth_standard_error"), 0.1);
  EXPECT_EQ(number("bias_of_first"), 0);
  std::ifstream table(folder.File("run") + "/average.csv");
  std::string header, first;
  std::getline(table, header);
  std::getline(table, first);
  EXPECT_TRUE(Has(header, "knot,time (s),ctrl[jet_x] exact,ctrl[jet_x] first"));
  EXPECT_TRUE(Has(first, "0,0,0.045"));
}

// noise on the start: x_N = x + T v_x, so that E loss = 1.125 + σ²/2 (1 + T²), and the slopes (1.5, 4.5) stay
TEST(CliAverage, NoiseOnTheStartHasAClosedForm) {
  TemporaryFolder folder;
  const ProcessResult result = Costate({"gradient", kLand, "--entries", "0", "--average-start", "0.1", "--pairs", "400",
                                        "--out", folder.File("run"), "--no-plots"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "noise: 0.1 in the unit of 4 entries of the start"));
  EXPECT_TRUE(Has(result.out, "by start"));
  EXPECT_FALSE(Has(result.out, "by controls         "));
  const Record record = ReadRecord(folder.File("run"));
  const auto number = [&](const std::string& name) { return std::stod(record.settings.at("average_" + name)); };
  EXPECT_NEAR(number("loss"), 1.125 + 0.005 * (1 + 9), 4 * number("loss_standard_error"));
  EXPECT_LT(number("loss_standard_error"), 0.01);
  EXPECT_EQ(number("start_sigma"), 0.1);
  EXPECT_LT(number("first_standard_error"), 1e-12);
  const double allowed = 4 * number("zeroth_standard_error");
  EXPECT_GT(allowed, 0.01);
  std::ifstream table(folder.File("run") + "/average_start.csv");
  std::string line;
  std::getline(table, line);
  EXPECT_EQ(line, "start,exact,first,zeroth,combined");
  int rows = 0;
  while (std::getline(table, line)) {
    const std::size_t comma = line.find(',');
    double exact, first, zeroth;
    ASSERT_EQ(std::sscanf(line.c_str() + comma, ",%lf,%lf,%lf", &exact, &first, &zeroth), 3) << line;
    EXPECT_NEAR(exact, rows == 0 ? 1.5 : rows == 2 ? 4.5 : 0, 1e-9) << line;
    EXPECT_NEAR(first, exact, 1e-9);
    EXPECT_NEAR(zeroth, exact, allowed);
    rows++;
  }
  EXPECT_EQ(rows, 4);
}

// without limits the noise is in the control's unit: a finger that stays 2 cm from the block it
// should push
TEST(CliAverage, NoiseFindsATouchThatTheExactGradientMisses) {
  TemporaryFolder folder;
  folder.Write("reach.xml",
               "<mujoco><option timestep='.01' integrator='implicitfast'/><worldbody><body><joint "
               "name='finger' type='slide' "
               "axis='1 0 0' damping='1'/><geom size='.02' mass='.2'/></body><body pos='.06 0 "
               "0'><joint name='block' "
               "type='slide' axis='1 0 0' damping='2'/><geom size='.02' "
               "mass='.2'/></body></worldbody><actuator>"
               "<motor name='push' joint='finger'/></actuator><keyframe><key "
               "name='start'/></keyframe></mujoco>");
  const std::string task = folder.Write("task.xml",
                                        "<task model='reach.xml' horizon='.6'><start key='start'/>"
                                        "<cost name='block' qpos='block' target='.1' terminal='1000'/></task>");
  const auto averaged = [&] {  // from the table of orders on; what is before has times in it
    const ProcessResult result = Costate({"gradient", task, "--entries", "0", "--average", "1.8", "--pairs", "100"});
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_TRUE(Has(result.out, "exact                  0\n"));
    EXPECT_TRUE(Has(result.out, "noise: 1.8 in the unit of 1 control"));
    const std::size_t at = result.out.find("order one");
    return at == std::string::npos ? std::string() : result.out.substr(at);
  };
  const std::string orders = averaged();
  ASSERT_FALSE(orders.empty());
  EXPECT_GT(std::stod(orders.substr(9)), 0.1) << orders;
  EXPECT_EQ(averaged(), orders);
}

TEST(CliAverage, RefusesWhatMakesNoSense) {
  const auto refused = [](std::vector<std::string> more, const std::string& text) {
    more.insert(more.begin(), {"gradient", kLand});
    return RefusedWith(Costate(more), text);
  };
  EXPECT_TRUE(refused({"--pairs", "5"}, "--pairs belongs to --average"));
  EXPECT_TRUE(refused({"--seed", "5"}, "--seed belongs to --average"));
  EXPECT_TRUE(refused({"--average", "0"}, "--average"));
  EXPECT_TRUE(refused({"--average", ".1", "--pairs", "1"}, "--pairs"));
  EXPECT_TRUE(refused({"--average", ".1", "--smooth", "onset"}, "not together with --smooth"));
  EXPECT_TRUE(refused({"--average", ".1", "--descend", "gd"}, "not together with --descend"));
  EXPECT_TRUE(refused({"--average", ".1", "--window", "5"}, "not together with --window"));
  EXPECT_TRUE(refused({"--average", ".1", "--clip", "5"}, "not together with --clip"));
  EXPECT_TRUE(refused({"--average", ".1", "--parameter", "option/gravity[2]"}, "not together with parameters"));
  TemporaryFolder folder;
  folder.Write("pendulum.xml", kPendulum);
  const std::string task =
      folder.Write("task.xml",
                   "<task model='pendulum.xml' horizon='.1'><start key='side'/><cost qpos='hinge' weight='1'/>"
                   "<gradient start='all' controls='none'/></task>");
  EXPECT_TRUE(RefusedWith(Costate({"gradient", task, "--average", ".1"}), "this task names none"));
  const std::string controls =
      folder.Write("controls.xml",
                   "<task model='pendulum.xml' horizon='.1'><start key='side'/><cost qpos='hinge' weight='1'/>"
                   "<gradient start='none'/></task>");
  EXPECT_TRUE(RefusedWith(Costate({"gradient", controls, "--average-start", ".1"}), "this task names none"));
}

}  // namespace
}  // namespace costate
