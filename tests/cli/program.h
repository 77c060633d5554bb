// The program run as its user runs it, and the few models that the tests of its commands share.
#ifndef COSTATE_TESTS_CLI_PROGRAM_H_
#define COSTATE_TESTS_CLI_PROGRAM_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/process.h"
#include "support/temporary_folder.h"

namespace costate {

inline constexpr char kPendulum[] =
    "<mujoco model='pendulum'><worldbody><body pos='0 0 1'><joint name='hinge' axis='0 1 0' damping='.01'/>"
    "<geom type='capsule' size='.02' fromto='0 0 0 0 0 -.5'/></body></worldbody>"
    "<actuator><motor name='motor' joint='hinge' ctrlrange='-1 1'/></actuator>"
    "<keyframe><key name='side' qpos='1.5' ctrl='0.25'/></keyframe></mujoco>";

/// Runs `costate ARGUMENTS` and waits; a signal is a failure of the test that no test has to ask for.
inline support::ProcessResult Costate(std::vector<std::string> arguments, const support::ProcessOptions& options = {}) {
  arguments.insert(arguments.begin(), COSTATE_PROGRAM);
  support::ProcessResult result = support::Process(arguments, options).Wait();
  EXPECT_EQ(result.signal, 0) << "a signal ended the program: " << result.err;
  EXPECT_FALSE(result.timed_out) << result.out << result.err;
  return result;
}

/// The same through the shell, for redirections and limits; "$0" is the program.
inline support::ProcessResult CostateInShell(const std::string& script) {
  support::ProcessResult result = support::Process({"sh", "-c", script, COSTATE_PROGRAM}).Wait();
  EXPECT_EQ(result.signal, 0) << "a signal ended the program: " << result.err;
  EXPECT_FALSE(result.timed_out) << result.out << result.err;
  return result;
}

/// The text is in the output (or the error).
inline ::testing::AssertionResult Has(const std::string& output, const std::string& text) {
  if (output.find(text) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "'" << text << "' is not in: " << output;
}

/// Exit code 2 and one line "costate: error: … text …" on standard error, nothing worse.
inline ::testing::AssertionResult RefusedWith(const support::ProcessResult& result, const std::string& text) {
  if (result.exit_code != 2) {
    return ::testing::AssertionFailure() << "exit code " << result.exit_code << ", output: " << result.out
                                         << result.err;
  }
  if (result.err.find("costate: error: ") == std::string::npos) return ::testing::AssertionFailure() << result.err;
  return Has(result.err, text);
}

}  // namespace costate

#endif  // COSTATE_TESTS_CLI_PROGRAM_H_
