// costate train, as a process: a law that balances, its file read by somebody else, and what is refused.
#include <costate/policy.h>
#include <costate/record.h>

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/program.h"

namespace costate {
namespace {

using support::ProcessResult;
using support::TemporaryFolder;

const std::string kBalance = std::string(COSTATE_MODELS) + "/cartpole/balance.xml";

TEST(CliTrain, BalancesFromStartsThatItHasNotSeen) {
  TemporaryFolder folder;
  const std::string run = folder.File("run");
  const ProcessResult result = Costate({"train", kBalance, "--out", run, "--no-plots", "--threads", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "4 observations, linear, 5 weights; lbfgs from 16 starts")) << result.out;
  EXPECT_FALSE(Has(result.out, "DISAGREE")) << result.out;
  const auto number = [&](const std::string& after) {
    return std::stod(result.out.substr(result.out.find(after) + after.size()));
  };
  EXPECT_LT(number("\n  mean cost     "), 0.1);
  EXPECT_GT(number(", before "), 20);
  EXPECT_LT(number("unseen        "), 0.15);
  EXPECT_FALSE(Has(result.out, "what has been gained is of the starts")) << result.out;

  // the file alone gives the controls of the motion
  std::ifstream file(run + "/policy.json");
  const nlohmann::json policy = nlohmann::json::parse(file);
  ASSERT_EQ(policy["layers"].size(), 1u);
  const Record record = ReadRecord(run);
  EXPECT_EQ(record.trajectory.N(), 150);
  for (int t : {0, 40, 149}) {
    double z = policy["layers"][0]["b"][0];
    for (int i = 0; i < 4; i++) {
      const double seen = record.trajectory.X(i, t) - policy["x_ref"][static_cast<std::size_t>(i)].get<double>();
      z += policy["layers"][0]["W"][0][static_cast<std::size_t>(i)].get<double>() *
           policy["observations"][static_cast<std::size_t>(i)]["scale"].get<double>() * seen;
    }
    EXPECT_NEAR(record.trajectory.U(0, t), 12 * std::tanh(z), 1e-12) << t;
  }
  EXPECT_EQ(Costate({"replay", run}).exit_code, 0);
  const ProcessResult exported = Costate({"replay", run, "--export", folder.File("plays.xml")});
  EXPECT_TRUE(Has(exported.out, "the policy that was trained acts")) << exported.out;
  EXPECT_TRUE(Has(exported.out, "played: identical to the run, bit for bit")) << exported.out;
}

// The law sees accelerations, which no state holds: what it plays is what mj_forward shows under the control before.
TEST(CliTrain, BalancesByWhatAnInertialUnitFeels) {
  TemporaryFolder folder;
  const std::string run = folder.File("run");
  const ProcessResult result = Costate({"train", std::string(COSTATE_MODELS) + "/imu/balance.xml", "--out", run,
                                        "--no-plots", "--threads", "2", "--iterations", "60"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "5 observations, linear, 6 weights")) << result.out;
  EXPECT_FALSE(Has(result.out, "DISAGREE")) << result.out;
  const std::string before = "\n  mean cost     ";
  EXPECT_LT(std::stod(result.out.substr(result.out.find(before) + before.size())), 0.45) << result.out;

  const Record record = ReadRecord(run);
  const mjModel* m = record.model.get();
  const NetworkPolicy law = LoadPolicy(m, run + "/policy.json");
  EXPECT_TRUE(law.NeedsSensors());
  EXPECT_EQ(law.knot_time(), 0.02);
  const DataPtr data = MakeData(m);
  VectorXd u(1);
  for (int t : {0, 1, 40, 149}) {
    const double time = record.trajectory.time[t];
    SetState(m, data.get(), record.trajectory.X.col(t));
    data->ctrl[0] = t > 0 ? record.trajectory.U(0, t - 1) : 0;
    mj_forward(m, data.get());
    law.Control({law.KnotAt(time), time, record.trajectory.X.col(t),
                 Eigen::Map<const VectorXd>(data->sensordata, m->nsensordata)},
                u);
    EXPECT_NEAR(u[0], record.trajectory.U(0, t), 1e-10) << t;
  }
}

// A law that holds a pole up from starts beside the keyframe, of a robot alone.
TEST(CliTrain, NeedsNoTaskFile) {
  TemporaryFolder folder;
  const std::string run = folder.File("run"), robot = std::string(COSTATE_MODELS) + "/cartpole/cartpole.xml";
  const ProcessResult result =
      Costate({"train", robot, "--start", "upright", "--goal", "upright", "--spread", "0.1", "--hidden", "8,4",
               "--time", "1", "--threads", "2", "--iterations", "40", "--out", run, "--no-plots"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "4 observations, 2 hidden layers, 81 weights; lbfgs from 16 starts")) << result.out;
  const Record record = ReadRecord(run);
  const NetworkPolicy law = LoadPolicy(record.model.get(), run + "/policy.json");
  EXPECT_EQ(law.weights(), 4 * 8 + 8 + 8 * 4 + 4 + 4 + 1);

  EXPECT_TRUE(RefusedWith(Costate({"train", robot, "--no-save"}), "is a model, not a task: say what to reach"));
  EXPECT_TRUE(RefusedWith(Costate({"train", kBalance, "--goal", "upright", "--no-save"}), "is a task file"));
  EXPECT_TRUE(RefusedWith(Costate({"train", kBalance, "--time", "1", "--no-save"}), "is a task file"));
  EXPECT_EQ(Costate({"train", kBalance, "--hidden", "0", "--no-save"}).exit_code, 2);
  EXPECT_EQ(Costate({"train", kBalance, "--spread", "-1", "--no-save"}).exit_code, 2);
}

// a ball that rests on the floor: a spread of its height puts half of the starts inside
TEST(CliTrain, SaysWhichStartsPenetrate) {
  TemporaryFolder folder;
  const std::string ball = folder.Write(
      "ball.xml",
      "<mujoco><worldbody><geom type='plane' size='1 1 .1'/><body pos='0 0 .1'><joint name='z' type='slide' axis='0 0 "
      "1'/>"
      "<geom size='.1'/></body></worldbody><actuator><motor joint='z' ctrlrange='-50 50'/></actuator><keyframe><key "
      "name='on' qpos='0'/></keyframe></mujoco>");
  const std::vector<std::string> train{"train", ball,           "--goal", "on",        "--time",
                                       "0.1",   "--iterations", "1",      "--no-save", "--spread"};
  auto with = [&](const std::string& spread) {
    std::vector<std::string> arguments = train;
    arguments.push_back(spread);
    return Costate(arguments).out;
  };
  EXPECT_TRUE(Has(with("0.08"), " of 16 starts a contact penetrates, by up to 0.0")) << with("0.08");
  EXPECT_FALSE(Has(with("0.001"), "penetrates")) << with("0.001");
}

TEST(CliTrain, SaysWhatIsWrong) {
  TemporaryFolder folder;
  const ProcessResult gone = Costate({"train", folder.File("gone.xml")});
  EXPECT_EQ(gone.exit_code, 2);
  const ProcessResult rate = Costate({"train", kBalance, "--no-save", "--method", "lbfgs", "--rate", "0.1"});
  EXPECT_EQ(rate.exit_code, 2);
  EXPECT_TRUE(Has(rate.err, "--rate belongs to --method adam and gd")) << rate.err;
  const ProcessResult constrained = Costate({"train", std::string(COSTATE_MODELS) + "/posts/reach.xml", "--no-save"});
  EXPECT_EQ(constrained.exit_code, 2);
  EXPECT_TRUE(Has(constrained.err, "a policy keeps no constraints")) << constrained.err;
  EXPECT_EQ(constrained.out, "");
}

}  // namespace
}  // namespace costate
