// Each example prints what the comment at its top says it prints.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "support/process.h"

namespace costate {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> ExampleNames() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(COSTATE_MODELS) / ".." / "examples")) {
    if (entry.path().extension() == ".cc") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> Lines(std::istream& stream) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// the lines between "// Prints:" and the end of the comment, without their "//   "
std::string ExpectedOutput(const std::vector<std::string>& source) {
  std::string expected;
  bool inside = false;
  for (const std::string& line : source) {
    if (inside && line.rfind("//", 0) != 0) break;
    if (inside) expected += (line.size() > 5 ? line.substr(5) : "") + "\n";
    if (line == "// Prints:") inside = true;
  }
  return expected;
}

class Example : public testing::TestWithParam<std::string> {};

TEST_P(Example, PrintsWhatItsHeaderSaysAndIsShort) {
  std::ifstream file(fs::path(COSTATE_MODELS) / ".." / "examples" / (GetParam() + ".cc"));
  const std::vector<std::string> source = Lines(file);
  const std::string expected = ExpectedOutput(source);
  ASSERT_FALSE(expected.empty()) << "the comment at the top has no '// Prints:'";
  EXPECT_LT(source.size(), 100u);

  const fs::path program = fs::path(COSTATE_PROGRAM).parent_path() / ("example_" + GetParam());
  const support::ProcessResult result = support::Process({program.string()}).Wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, expected);
}

INSTANTIATE_TEST_SUITE_P(All, Example, testing::ValuesIn(ExampleNames()),
                         [](const auto& info) { return "N" + info.param; });

}  // namespace
}  // namespace costate
