// costate task: a task file as it is understood, or only whether it is.
#include <costate/error.h>
#include <costate/mjpc.h>
#include <costate/task.h>
#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/model_facts.h"
#include "cli/robot_options.h"
#include "cli/run_output.h"
#include "core/new_file.h"
#include "optimizer/hints.h"
#include "optimizer/task_write.h"

namespace costate::cli {
namespace {

struct TaskArguments {
  std::string file, residuals, output;
  bool check = false, import = false, force = false;
  ReachArguments reach;
  FitOptions fit;
};

void WarnOfDeepStart(const Task& task) {
  if (const std::string deep = DeepStart(task); !deep.empty()) PrintWarnings({deep});
}

// a task of MuJoCo MPC as one of ours
int RunImport(const TaskArguments& arguments) {
  if (arguments.output.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "--import needs --output FILE: where the task file is written");
  }
  CheckOutputFile(arguments.output, arguments.force, {arguments.file, arguments.residuals});
  const MjpcImport import = ImportMjpcTask(arguments.file, arguments.residuals,
                                           std::filesystem::path(arguments.output).parent_path().string());
  if (!import.missing.empty()) {
    std::string text = "what these residuals measure stands in C++ code and has to be told:\n";
    for (const std::string& missing : import.missing) text += "  " + missing + "\n";
    text +=
        "Fill in such a file and give it as --residuals FILE (value: an expression of <measure>s; or attributes of a "
        "<cost>):\n";
    throw Error(ErrorCode::kInvalidArgument, text + import.form);
  }
  CheckMjpcImport(arguments.file, ParseWrittenTask(import.text, arguments.output));
  WriteNewFile(arguments.output, import.text, arguments.force);
  for (const std::string& note : import.notes) fmt::print("note: {}\n", note);
  fmt::print("written: {}\n\n", arguments.output);
  const Task task = LoadTask(arguments.output);
  PrintWarnings(task.warnings);
  WarnOfDeepStart(task);
  fmt::print("{}", Describe(task));
  return kExitOk;
}

// what it asks for beyond costs, in one line
std::string Asked(const Task& task) {
  std::string text = ToString(task.solver.type);
  if (task.solver.second_order) text += " with exact second derivatives";
  const auto add = [&](bool given, const std::string& words) { text += given ? ", " + words : ""; };
  add(task.solver.derivative_every > 1, fmt::format("derivatives at every {} knots", task.solver.derivative_every));
  add(!task.free_start.entries.empty(), fmt::format("{} entries of the start free", task.free_start.entries.size()));
  add(task.constraints.size() > 0,
      fmt::format("{} constraint{}", task.constraints.size(), task.constraints.size() == 1 ? "" : "s"));
  add(task.free_time.longest > 0,
      fmt::format("free time from {:g} s to {:g} s", task.free_time.shortest, task.free_time.longest));
  add(task.sampling.iterations > 0, "start by sampling");
  add(task.spline.knots > 0, fmt::format("a {} spline of {} knots", ToString(task.spline.order), task.spline.knots));
  add(task.hopping.rounds > 0,
      fmt::format("{} round{} of kicked controls{}", task.hopping.rounds, task.hopping.rounds == 1 ? "" : "s",
                  task.hopping.when_stuck ? " where it stalls, ends infeasible or never leaves its guess" : ""));
  add(task.continuation.smooth.any(), "by way of smoother contact");
  return text;
}

// of the options of --goal
std::vector<std::string> SaidOfReach(const ReachArguments& arguments) {
  std::vector<std::string> said = Said(arguments);
  if (arguments.at_once) said.push_back("--at-once");
  return said;
}

// a robot and what to reach, or a motion to fit it to, as a task file to go on from
int RunRobot(const TaskArguments& arguments) {
  const bool fits = !arguments.fit.motion.empty();
  if (fits && !arguments.reach.goals.empty())
    throw Error(ErrorCode::kInvalidArgument, "--goal and --fit are two tasks: give one of them");
  if (!fits && !arguments.fit.parameters.empty())
    throw Error(ErrorCode::kInvalidArgument, "--parameter needs --fit FILE: the motion to fit it to");
  std::vector<std::string> reached = SaidOfReach(arguments.reach);
  std::erase(reached, "--start");
  if (fits && !reached.empty())
    throw Error(ErrorCode::kInvalidArgument, Belong(reached) + " to --goal: a fit lasts as long as its motion");
  FitOptions fit = arguments.fit;
  fit.start = arguments.reach.start;
  const auto text = [&](const std::string& folder) {
    if (fits) return WriteFitTask(arguments.file, fit, folder);
    std::vector<std::string> warnings;
    const std::string written = WriteReachTask(arguments.file, arguments.reach.options(), folder, &warnings);
    PrintWarnings(warnings);
    return written;
  };
  if (arguments.output.empty()) {
    const std::string written = text("");
    if (!fits) WarnOfDeepStart(ParseWrittenTask(written, arguments.file));
    fmt::print("{}", written);
    return kExitOk;
  }
  CheckOutputFile(arguments.output, arguments.force, {arguments.file, fit.motion});
  const std::string folder = std::filesystem::path(arguments.output).parent_path().string();
  WriteNewFile(arguments.output, text(folder.empty() ? "." : folder), arguments.force);
  if (!fits) WarnOfDeepStart(LoadTask(arguments.output));
  fmt::print("written: {}\n\n  costate {} {}{}\n", arguments.output,
             fits                      ? "gradient"
             : arguments.reach.at_once ? "mpc"
                                       : "optimize",
             arguments.output, fits ? " --descend gauss-newton" : "");
  if (!fits && !arguments.reach.at_once) fmt::print("\nFor costate mpc and train write it with --at-once.\n");
  return kExitOk;
}

int RunTask(const TaskArguments& arguments) {
  std::vector<std::string> said = SaidOfReach(arguments.reach);
  if (!arguments.fit.motion.empty()) said.push_back("--fit");
  if (!arguments.fit.parameters.empty()) said.push_back("--parameter");
  if (arguments.import) {
    if (!said.empty()) throw Error(ErrorCode::kInvalidArgument, Belong(said) + " to a robot, not to --import");
    if (arguments.check) throw Error(ErrorCode::kInvalidArgument, "--check reads a task file, --import writes one");
    return RunImport(arguments);
  }
  if (!arguments.residuals.empty()) throw Error(ErrorCode::kInvalidArgument, "--residuals belongs to --import");
  const bool robot = !arguments.check && !IsTaskFile(arguments.file);
  if (robot) return RunRobot(arguments);
  if (!arguments.output.empty()) said.push_back("--output");
  if (!said.empty() && !IsTaskFile(arguments.file))
    throw Error(ErrorCode::kInvalidArgument, arguments.file + " is a robot: --check reads a task file, leave it out");
  if (!said.empty())
    throw Error(ErrorCode::kInvalidArgument, arguments.file + " is a task file: " + Belong(said) + " to a robot");
  const Task task = LoadTask(arguments.file);
  PrintWarnings(task.warnings);
  WarnOfDeepStart(task);
  if (arguments.check) {
    fmt::print("{}: is a task for {}: {} control intervals, {}\n", arguments.file, task.model_file, task.N,
               Asked(task));
    const GuessTrouble trouble = FindGuessTrouble(task);
    if (!trouble.text.empty()) PrintWarnings({trouble.text});
    if (trouble.ends && task.sampling.iterations == 0) return kExitNo;
  } else {
    fmt::print("{}", Describe(task));
  }
  return kExitOk;
}

}  // namespace

void AddTaskCommand(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<TaskArguments>();
  CLI::App* command = app.add_subcommand(
      "task", "Print a task file as it is understood: terms, sizes, units, initial cost; or write a first one");
  command
      ->add_option("FILE", arguments->file,
                   "task file (.task.xml), or a robot with --goal or --fit: its first task file")
      ->required();
  AddReachOptions(command, &arguments->reach);
  command->add_flag("--at-once", arguments->reach.at_once,
                    "with --goal: be there as soon as forces allow, not in --time; for costate mpc and train, whose "
                    "plans and policies put off for ever what counts at the end alone");
  AddFitOptions(command, &arguments->fit);
  command
      ->add_option("--parameter", arguments->fit.parameters,
                   "with --fit: what to fit, kind:element/field[index]; again for more")
      ->allow_extra_args(false);
  command->add_flag("--import", arguments->import, "FILE is a task of MuJoCo MPC (task.xml): write it as a task file");
  command->add_option("--residuals", arguments->residuals,
                      "with --import: what each of its residuals measures (XML; without it a form is shown)");
  command->add_option("-o,--output", arguments->output, "the task file to write, of a robot or with --import");
  command->add_flag("--force", arguments->force, "replace an existing file");
  command->add_flag(
      "--check", arguments->check,
      "only check the file; exit code 2 and a sentence when it is wrong, 1 when its guess has no cost to begin with");
  command->callback([arguments, exit_code] { *exit_code = RunTask(*arguments); });
}

}  // namespace costate::cli
