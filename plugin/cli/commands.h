// The commands of the program and the few things that they share: exit codes, warnings, interruption, kinds of input.
#ifndef COSTATE_PLUGIN_CLI_COMMANDS_H_
#define COSTATE_PLUGIN_CLI_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace costate::cli {

/// What the program returns to the shell; plugin/cli/README.md says what each means for each command.
enum ExitCode {
  kExitOk = 0,            ///< done, and the answer is yes
  kExitNo = 1,            ///< done, and the answer is no: disagrees, differs, diverged
  kExitError = 2,         ///< bad input or a system error; standard error names it
  kExitInterrupted = 130  ///< stopped by Ctrl-C or SIGTERM; what there was has been kept
};

/// Each adds one subcommand. Its callback runs the command and sets *exit_code; an Error may leave it, main prints it.
void AddCheckCommand(CLI::App& app, int* exit_code);
void AddGradientCommand(CLI::App& app, int* exit_code);
void AddInfoCommand(CLI::App& app, int* exit_code);
void AddMpcCommand(CLI::App& app, int* exit_code);
void AddOptimizeCommand(CLI::App& app, int* exit_code);
void AddReplayCommand(CLI::App& app, int* exit_code);
void AddRolloutCommand(CLI::App& app, int* exit_code);
void AddTaskCommand(CLI::App& app, int* exit_code);
void AddTrainCommand(CLI::App& app, int* exit_code);
void AddViewCommand(CLI::App& app, int* exit_code);

/// "costate: warning: …" on standard error, one line each.
void PrintWarnings(const std::vector<std::string>& warnings);

/// Checks of an option's number: finite, and above 0 or not below it.
CLI::Validator Positive();
CLI::Validator NonNegative();

/// A name that is empty, as of a variable that is not set, is no name.
CLI::Validator Given();

/// From here on Ctrl-C (SIGINT) and SIGTERM are remembered; a second signal ends the program at once.
void CatchInterrupts();

/// True once one of the two has arrived.
bool Interrupted();

/// True when the root element of the file is <task>. False for any other or unreadable file: the loader says why.
bool IsTaskFile(const std::string& path);

/// @throws Error{kInvalidArgument} for a task file where a robot is asked for.
void CheckIsRobot(const std::string& path);

/// True when the path is a folder: only a saved run is one.
bool IsRun(const std::string& path);

}  // namespace costate::cli

#endif  // COSTATE_PLUGIN_CLI_COMMANDS_H_
