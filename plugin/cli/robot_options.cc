#include "cli/robot_options.h"

#include <string>
#include <vector>

#include "cli/commands.h"

namespace costate::cli {

ReachOptions ReachArguments::options() const {
  ReachOptions options{.start = start, .goals = goals};
  options.time = time.value_or(options.time);
  options.substeps = substeps.value_or(options.substeps);
  options.at_once = at_once;
  return options;
}

void AddGoalOptions(CLI::App* command, ReachArguments* arguments) {
  command->add_option("--start", arguments->start, "keyframe to start at, by name or number (key:NAME works too)");
  command
      ->add_option("--goal", arguments->goals,
                   "what to reach: key:NAME, joint:NAME=VALUE, site:NAME=X,Y,Z …; again for more")
      ->allow_extra_args(false);
  command->add_option("--substeps", arguments->substeps, "engine steps that hold one control, with --goal")
      ->check(CLI::Range(1, 100000));
}

void AddReachOptions(CLI::App* command, ReachArguments* arguments) {
  AddGoalOptions(command, arguments);
  command->add_option("--time", arguments->time, "seconds from start to goal (default 2)")->check(Positive());
}

void AddHopsOption(CLI::App* command, std::optional<int>* hops) {
  command
      ->add_option(
          "--hops", *hops,
          "so many rounds of kicked controls from the best motion, more while they lead on (default 4, where the "
          "solve stalls, ends infeasible or cannot leave its guess)")
      ->check(CLI::Range(0, 1000000));
}

void TakeHops(std::optional<int> hops, Task* task) {
  if (!hops) return;
  task->hopping.rounds = *hops;
  task->hopping.after_solve = true;
  task->hopping.when_stuck = false;
  task->hopping.enough = 0;
}

std::vector<std::string> Said(const ReachArguments& arguments) {
  std::vector<std::string> said;
  if (!arguments.start.empty()) said.push_back("--start");
  if (!arguments.goals.empty()) said.push_back("--goal");
  if (arguments.time) said.push_back("--time");
  if (arguments.substeps) said.push_back("--substeps");
  return said;
}

std::string Belong(const std::vector<std::string>& said) {
  std::string names = said[0];
  for (std::size_t i = 1; i < said.size(); i++) names += (i + 1 < said.size() ? ", " : " and ") + said[i];
  return names + (said.size() == 1 ? " belongs" : " belong");
}

Task LoadTaskOrReach(const std::string& input, const ReachArguments& arguments) {
  if (!IsTaskFile(input)) return MakeReachTask(input, arguments.options());
  const std::vector<std::string> said = Said(arguments);
  if (said.empty()) return LoadTask(input);
  throw Error(ErrorCode::kInvalidArgument, input + " is a task file: " + Belong(said) + " to a robot without a task");
}

CLI::Option* AddFitOptions(CLI::App* command, FitOptions* options) {
  CLI::Option* fit = command->add_option(
      "--fit", options->motion, "of a robot: fit --parameter to this recorded motion, a CSV file or a saved run");
  command
      ->add_option("--ctrl", options->controls, "controls of that motion, where its file has none: a CSV file or a run")
      ->needs(fit);
  return fit;
}

}  // namespace costate::cli
