// The helpers themselves: a comparison that cannot fail would make every other test worthless.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cmath>

#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/process.h"
#include "support/temporary_folder.h"

namespace costate::support {
namespace {

using Eigen::MatrixXd;

TEST(MatricesNear, NamesTheWorstEntry) {
  MatrixXd value = MatrixXd::Zero(2, 3), reference = value;
  value(0, 1) = 0.5;
  value(1, 2) = 2;
  EXPECT_TRUE(MatricesNear(value, reference, 2));
  const ::testing::AssertionResult result = MatricesNear(value, reference, 0.1, {"a", "b"}, {"x", "y", "z"});
  EXPECT_FALSE(result);
  const std::string text = result.message();
  EXPECT_NE(text.find("2 of 6 entries"), std::string::npos) << text;
  EXPECT_NE(text.find("row 1 (b), column 2 (z): value 2, reference 0"), std::string::npos) << text;
}

TEST(MatricesNear, NanAndInfinityAreNeverNear) {
  MatrixXd value = MatrixXd::Zero(1, 2), reference = value;
  value(0, 1) = NAN;
  EXPECT_FALSE(MatricesNear(value, reference, HUGE_VAL));
  EXPECT_FALSE(MatricesNear(reference, value, HUGE_VAL));
  EXPECT_FALSE(MatricesNear(value, value, 1));
  EXPECT_FALSE(MatricesNearRelative(reference, value, 1));
  value(0, 1) = HUGE_VAL;
  EXPECT_FALSE(MatricesNear(value, reference, 1e300));
}

TEST(MatricesNear, SizesMustAgree) {
  EXPECT_FALSE(MatricesNear(MatrixXd::Zero(2, 3), MatrixXd::Zero(3, 2), 1));
  EXPECT_TRUE(MatricesNear(MatrixXd(0, 3), MatrixXd(0, 3), 0));
}

TEST(MatricesNear, RelativeToleranceIsOfTheLargestEntry) {
  MatrixXd reference = MatrixXd::Zero(1, 2), value;
  reference << 100, 0;
  value = reference;
  value(0, 1) = 0.9;
  EXPECT_TRUE(MatricesNearRelative(value, reference, 1e-2));
  EXPECT_FALSE(MatricesNearRelative(value, reference, 1e-3));
}

TEST(BitwiseEqual, SeesTheLastBitAndTheSignOfZero) {
  MatrixXd value = MatrixXd::Ones(1, 1), other = value;
  EXPECT_TRUE(BitwiseEqual(value, other));
  other(0, 0) = std::nextafter(1, 2);
  EXPECT_FALSE(BitwiseEqual(value, other));
  EXPECT_FALSE(BitwiseEqual(MatrixXd::Constant(1, 1, 0.0), MatrixXd::Constant(1, 1, -0.0)));
}

TEST(RunProcess, ReturnsBothStreamsAndTheExitCode) {
  const ProcessResult result = RunProcess({"sh", "-c", "echo out; echo err >&2; exit 3"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.out, "out\n");
  EXPECT_EQ(result.err, "err\n");
  EXPECT_FALSE(result.timed_out);
}

TEST(RunProcess, ReadsMoreThanAPipeHolds) {
  const ProcessResult result = RunProcess({"sh", "-c", "head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2"});
  EXPECT_EQ(result.out.size(), 1000000u);
  EXPECT_EQ(result.err.size(), 1000000u);
}

TEST(RunProcess, UsesFolderAndEnvironment) {
  TemporaryFolder folder;
  const ProcessResult result = RunProcess({"sh", "-c", "pwd; echo $COLOUR"}, {folder.path(), {{"COLOUR", "red"}}});
  EXPECT_EQ(result.out, std::filesystem::canonical(folder.path()).string() + "\nred\n");
}

TEST(RunProcess, KillsWhatExceedsItsTime) {
  const auto start = std::chrono::steady_clock::now();
  const ProcessResult result = RunProcess({"sleep", "60"}, {.folder = "", .environment = {}, .timeout = 0.2});
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.signal, SIGKILL);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST(RunProcess, SaysThatAProgramIsMissing) {
  const ProcessResult result = RunProcess({"no-such-program"});
  EXPECT_EQ(result.exit_code, 127);
  EXPECT_NE(result.err.find("no-such-program"), std::string::npos);
}

TEST(Process, CanBeWaitedForAndSignalled) {
  Process process({"sh", "-c", "trap 'echo caught; exit 5' INT; echo ready; while true; do sleep 0.05; done"});
  ASSERT_TRUE(process.WaitForText("ready"));
  process.Signal(SIGINT);
  const ProcessResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_EQ(result.out, "ready\ncaught\n");
}

TEST(TemporaryFolder, IsGoneWithItsObject) {
  std::filesystem::path path;
  {
    TemporaryFolder folder;
    path = folder.path();
    EXPECT_EQ(ReadFile(folder.Write("deep/down.txt", "text")), "text");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace costate::support
