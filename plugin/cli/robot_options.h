// Options that several commands share: what a robot without a task file shall reach, to which motion it is fitted, rounds
// of kicks.
#ifndef COSTATE_PLUGIN_CLI_ROBOT_OPTIONS_H_
#define COSTATE_PLUGIN_CLI_ROBOT_OPTIONS_H_

#include <costate/task.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace costate::cli {

/// --start, --goal, --time and --substeps, as they were said.
struct ReachArguments {
  std::string start;
  std::vector<std::string> goals;
  std::optional<double> time;
  std::optional<int> substeps;
  bool at_once = false;  ///< ReachOptions::at_once: always so for mpc and train, said for task

  ReachOptions options() const;  ///< what was not said as by default
};

/// Adds --start, --goal and --substeps.
void AddGoalOptions(CLI::App* command, ReachArguments* arguments);

/// Adds the same and --time.
void AddReachOptions(CLI::App* command, ReachArguments* arguments);

/// Adds --hops; TakeHops puts it in the place of the task's <hopping>, where it is said.
void AddHopsOption(CLI::App* command, std::optional<int>* hops);
void TakeHops(std::optional<int> hops, Task* task);

/// Which of these options were said: "--start", "--goal", "--time", "--substeps".
std::vector<std::string> Said(const ReachArguments& arguments);

/// "--start, --goal and --time belong", "--goal belongs". @param said  at least one.
std::string Belong(const std::vector<std::string>& said);

/// The task of a file, or of a robot and what it shall reach.
/// @throws Error{kInvalidArgument} for a task file with such options.
Task LoadTaskOrReach(const std::string& input, const ReachArguments& arguments);

/// Adds --fit, which is returned, and --ctrl.
CLI::Option* AddFitOptions(CLI::App* command, FitOptions* options);

}  // namespace costate::cli

#endif  // COSTATE_PLUGIN_CLI_ROBOT_OPTIONS_H_
