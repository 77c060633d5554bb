// The worked examples: each is checked against differences, then fitted, by the program; the answer is known.
#include <costate/record.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "cli/program.h"

namespace costate {
namespace {

using support::ProcessResult;
using support::TemporaryFolder;

const std::string kKnown = std::string(COSTATE_MODELS) + "/../examples/known_answers/";

struct Answer {
  std::string task, input;
  double value, tolerance;  // absolute
};
void PrintTo(const Answer& answer, std::ostream* out) { *out << answer.task << ", " << answer.input; }

// cells of a row of inputs.csv; names are quoted and hold no comma
std::vector<std::string> Cells(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) {
    if (cell.size() >= 2 && cell.front() == '"') cell = cell.substr(1, cell.size() - 2);
    cells.push_back(cell);
  }
  return cells;
}

// input → fitted value
std::map<std::string, double> Fitted(const std::string& run) {
  std::map<std::string, double> fitted;
  std::ifstream table(run + "/inputs.csv");
  std::string line;
  std::getline(table, line);
  EXPECT_EQ(line, "input,unit,guess,value,lower,upper,d loss / d input,standard error");
  while (std::getline(table, line)) {
    const std::vector<std::string> cells = Cells(line);
    fitted[cells.at(0)] = std::stod(cells.at(3));
  }
  return fitted;
}

// the two columns behind the time (2 × rows)
MatrixXd ReadRecordedPath(const std::string& file) {
  std::ifstream table(file);
  std::string line;
  std::getline(table, line);
  std::vector<double> numbers;
  while (std::getline(table, line)) {
    for (int i : {1, 2}) numbers.push_back(std::stod(Cells(line).at(static_cast<std::size_t>(i))));
  }
  return Eigen::Map<MatrixXd>(numbers.data(), 2, static_cast<Eigen::Index>(numbers.size()) / 2);
}

class KnownAnswer : public testing::TestWithParam<Answer> {};

TEST_P(KnownAnswer, IsCheckedThenFound) {
  const Answer& answer = GetParam();
  TemporaryFolder folder;
  const std::string run = folder.File("run");
  const ProcessResult result =
      Costate({"gradient", kKnown + answer.task + "/task.xml", "--descend", "lbfgs", "--out", run, "--no-plots"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "differences of the loss: agree")) << result.out;
  EXPECT_FALSE(Has(result.out, "not judged")) << result.out;
  const std::map<std::string, double> fitted = Fitted(run);
  ASSERT_EQ(fitted.count(answer.input), 1u) << result.out;
  EXPECT_NEAR(fitted.at(answer.input), answer.value, answer.tolerance) << result.out;
  EXPECT_EQ(Costate({"replay", run}).exit_code, 0);
}

// What is left is RK4's error where the film is a closed form in continuous time (drag, pendulum, spring), the box's
// settling into its contact, else what the descent leaves.
INSTANTIATE_TEST_SUITE_P(
    All, KnownAnswer,
    testing::Values(Answer{"throw", "qvel[x] of the start", -0.5, 1e-9},
                    Answer{"moon", "option/gravity[2]", -1.62, 1e-9}, Answer{"drag", "option/density", 1.2, 1e-7},
                    Answer{"pendulum", "body:bob/pos[2]", -0.8, 1e-8},
                    Answer{"spring", "joint:spring/stiffness", 20, 2e-6},
                    Answer{"spring", "joint:spring/damping", 0.4, 1e-7}, Answer{"box", "body:box/scale", 1.5, 2e-4},
                    Answer{"arm", "body:forearm/pos[0]", 0.4, 1e-8}, Answer{"arm", "site:tip/pos[0]", 0.35, 1e-8},
                    Answer{"bounce", "pair:touch/solref[1]", -20, 1e-7}),
    [](const auto& info) {
      std::string name = info.param.task + "_" + info.param.input;
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      return name;
    });

TEST(CliDescend, WritesARunThatSaysWhatWasDone) {
  TemporaryFolder folder;
  const std::string run = folder.File("run");
  const std::vector<std::string> words = {
      "gradient", kKnown + "throw/task.xml", "--descend", "gd", "--rate", "0.05", "--iterations", "25", "--out", run};
  const ProcessResult result = Costate(words);
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "by the start  norm 4.5; largest 4.5 by qvel[x]")) << result.out;

  // half the square of 1.5 · 0.55
  EXPECT_TRUE(Has(result.out, "    1      0.3403125 ")) << result.out;

  // of the 2.5 m/s that the start had, less each step's 0.45 of what is left to 2
  EXPECT_TRUE(Has(result.out, "  qvel[x] of the start     2.0000001")) << result.out;
  EXPECT_TRUE(Has(result.out, " m/s, guess 2.5\n")) << result.out;
  std::stringstream record;
  record << std::ifstream(run + "/record.json").rdbuf();
  for (const char* text : {"\"command\": \"gradient --descend\"", "\"rate\": \"0.050000000000000003\"",
                           "\"by_start\": \"qvel[x] qvel[z]\"", "\"name\": \"descent.csv\"",
                           "\"check\": \"2 entries against centred differences: 0 disagree, 0 not judged\""}) {
    EXPECT_TRUE(Has(record.str(), text)) << record.str();
  }
  if (result.err.find("gnuplot is not installed") == std::string::npos) {
    EXPECT_GT(std::filesystem::file_size(run + "/iterations.png"), 1000u);
    EXPECT_GT(std::filesystem::file_size(run + "/costate.png"), 1000u);
  }

  // a run is not replaced unasked, and damage to its further tables is seen
  EXPECT_TRUE(RefusedWith(Costate(words), "--force"));
  std::ofstream(run + "/inputs.csv", std::ios::app) << "x";
  EXPECT_TRUE(RefusedWith(Costate({"replay", run}), "inputs.csv"));
}

// an oscillation shows stiffness and damping by the mass alone
TEST(CliDescend, SaysHowWellTheMotionDeterminesWhatWasFitted) {
  TemporaryFolder folder;
  const std::string task = kKnown + "spring/task.xml", run = folder.File("run");
  const ProcessResult two = Costate({"gradient", task, "--descend", "lbfgs", "--no-plots", "--out", run});
  EXPECT_TRUE(Has(two.out, " ± ")) << two.out;
  EXPECT_TRUE(Has(two.out, "two standard errors: 40 numbers are compared")) << two.out;
  EXPECT_FALSE(Has(two.out, "undetermined")) << two.out;
  EXPECT_FALSE(Has(two.out, "is no noise")) << two.out << "what RK4 leaves is a millionth of a millionth";
  std::ifstream table(run + "/inputs.csv");
  std::string line;
  std::getline(table, line);
  std::getline(table, line);
  const double deviation = std::stod(Cells(line).at(7));
  EXPECT_GT(deviation, 0);
  EXPECT_LT(deviation, 1e-5);

  const ProcessResult three =
      Costate({"gradient", task, "--parameter", "body:cart/mass", "--descend", "lbfgs", "--no-save"});
  EXPECT_TRUE(Has(three.out, "undetermined  joint:spring/stiffness by ")) << three.out;
  EXPECT_TRUE(Has(three.out, ", body:cart/mass by ")) << three.out;
  EXPECT_TRUE(Has(three.out, "nothing that is compared moves")) << three.out;
}

TEST(CliDescend, KeepsTheBestWhenInterrupted) {
  // a rate so small that it would take hours
  TemporaryFolder folder;
  const std::string run = folder.File("run");
  support::Process process({COSTATE_PROGRAM, "gradient", kKnown + "spring/task.xml", "--descend", "gd", "--rate",
                            "1e-9", "--iterations", "1000000", "--no-plots", "--out", run});
  ASSERT_TRUE(process.WaitForText("\n    1 "));
  process.Signal(SIGINT);
  const ProcessResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 130) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "interrupted after iteration")) << result.out << result.err;
  const std::map<std::string, double> fitted = Fitted(run);
  EXPECT_GT(fitted.at("joint:spring/damping"), 0.1) << "what was reached is kept";
  EXPECT_EQ(Costate({"replay", run}).exit_code, 0);
}

TEST(CliDescend, RefusesWhatMakesNoSense) {
  const std::string task = kKnown + "throw/task.xml";
  EXPECT_TRUE(
      RefusedWith(Costate({"gradient", task, "--descend", "lbfgs", "--rate", "1", "--no-save"}), "--rate belongs to"));
  EXPECT_TRUE(
      RefusedWith(Costate({"gradient", task, "--descend", "gd", "--window", "3", "--no-save"}), "whole gradient"));
  EXPECT_TRUE(RefusedWith(Costate({"gradient", task, "--parameter", "body:bal/mass"}), "did you mean 'ball'"));
  EXPECT_NE(Costate({"gradient", task, "--descend", "newton"}).exit_code, 0);
}

TEST(CliGradient, SaysWhereAContactMakesDifferencesAndAdjointPart) {
  // the ball is on the floor exactly at a step: every difference straddles the jump, and the certificate names it
  const ProcessResult result = Costate({"gradient", kKnown + "bounce/onset.xml", "--certify"});
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "NONE CAN BE JUDGED")) << result.out;
  EXPECT_TRUE(Has(result.out, "first knot 80: onset of contact of floor and ball")) << result.out;
  EXPECT_TRUE(Has(result.out, "rough       qpos[ball].z of the start: adjoint ")) << result.out;
}

TEST(CliGradientByParameters, AddsThoseOfTheCommandLine) {
  // the task names stiffness and damping
  const ProcessResult result = Costate({"gradient", kKnown + "spring/task.xml", "--parameter", "body:cart/mass"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "by 3 parameters")) << result.out;
  EXPECT_TRUE(Has(result.out, "3 entries against centred differences of the loss: agree")) << result.out;
}

// the air's drag on a ball, beside a model that knows no air
TEST(KnownAnswers, AForceIsLearnedBesideTheModel) {
  TemporaryFolder folder;
  const std::string run = folder.File("run");
  const ProcessResult result = Costate({"train", kKnown + "force/task.xml", "--method", "gauss-newton", "--iterations",
                                        "200", "--out", run, "--no-plots", "--quiet"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const Record record = ReadRecord(run);
  const MatrixXd film = ReadRecordedPath(kKnown + "force/motion.csv");
  ASSERT_EQ(film.cols(), record.trajectory.N() + 1);
  EXPECT_LT((record.trajectory.X.topRows(2) - film).norm() / std::sqrt(film.size()), 1e-3);
  double off = 0, whole = 0;
  for (int t = 0; t < record.trajectory.N(); t++) {
    for (int i = 0; i < 2; i++) {
      const double v = record.trajectory.X(2 + i, t), drag = -0.0036 * std::abs(v) * v;
      off += std::pow(record.trajectory.U(i, t) - drag, 2);
      whole += drag * drag;
    }
  }
  EXPECT_LT(std::sqrt(off / whole), 0.12);
}

}  // namespace
}  // namespace costate
