// costate task: a task file as it is understood, or only whether it is.
#include <costate/error.h>
#include <costate/mjpc.h>
#include <costate/task.h>
#include <fmt/core.h>

#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "core/new_file.h"

namespace costate::cli {
namespace {

struct TaskArguments {
  std::string file, residuals, output;
  bool check = false, import = false, force = false;
};

// a task of MuJoCo MPC as one of ours
int RunImport(const TaskArguments& arguments) {
  if (arguments.output.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "--import needs --output FILE: where the task file is written");
  }
  CheckWritable(arguments.output, arguments.force);
  const MjpcImport import =
      ImportMjpcTask(arguments.file, arguments.residuals, std::filesystem::path(arguments.output).parent_path().string());
  if (!import.missing.empty()) {
    std::string text = "what these residuals measure stands in C++ code and has to be told:\n";
    for (const std::string& missing : import.missing) text += "  " + missing + "\n";
    text += "Fill in such a file and give it as --residuals FILE (value: an expression of <measure>s; or attributes of a <cost>):\n";
    throw Error(ErrorCode::kInvalidArgument, text + import.form);
  }
  WriteNewFile(arguments.output, import.text, arguments.force);
  for (const std::string& note : import.notes) fmt::print("note: {}\n", note);
  CheckMjpcImport(arguments.file, arguments.output);
  fmt::print("written: {}\n\n", arguments.output);
  const Task task = LoadTask(arguments.output);
  PrintWarnings(task.warnings);
  fmt::print("{}", Describe(task));
  return kExitOk;
}

int RunTask(const TaskArguments& arguments) {
  if (arguments.import) return RunImport(arguments);
  if (!arguments.residuals.empty() || !arguments.output.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "--residuals and --output belong to --import");
  }
  const Task task = LoadTask(arguments.file);
  PrintWarnings(task.warnings);
  if (arguments.check) {
    fmt::print("{}: is a task for {}\n", arguments.file, task.model_file);
  } else {
    fmt::print("{}", Describe(task));
  }
  return kExitOk;
}

}  // namespace

void AddTaskCommand(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<TaskArguments>();
  CLI::App* command =
      app.add_subcommand("task", "Print a task file as it is understood: terms, sizes, units, initial cost");
  command->add_option("FILE", arguments->file, "task file (.task.xml)")->required();
  command->add_flag("--import", arguments->import, "FILE is a task of MuJoCo MPC (task.xml): write it as a task file");
  command->add_option("--residuals", arguments->residuals,
                      "with --import: what each of its residuals measures (XML; without it a form is shown)");
  command->add_option("-o,--output", arguments->output, "with --import: the task file to write");
  command->add_flag("--force", arguments->force, "replace an existing file");
  command->add_flag("--check", arguments->check, "only check the file; exit code 2 and a sentence when it is wrong");
  command->callback([arguments, exit_code] { *exit_code = RunTask(*arguments); });
}

}  // namespace costate::cli
