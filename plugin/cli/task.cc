// costate task: a task file as it is understood, or only whether it is.
#include <costate/task.h>
#include <fmt/core.h>

#include <memory>

#include "cli/commands.h"

namespace costate::cli {
namespace {

struct TaskArguments {
  std::string file;
  bool check = false;
};

int RunTask(const TaskArguments& arguments) {
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
  command->add_flag("--check", arguments->check, "only check the file; exit code 2 and a sentence when it is wrong");
  command->callback([arguments, exit_code] { *exit_code = RunTask(*arguments); });
}

}  // namespace costate::cli
