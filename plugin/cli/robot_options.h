// Options that say what a robot without a task file shall reach, or to which motion it is fitted.
#ifndef COSTATE_PLUGIN_CLI_ROBOT_OPTIONS_H_
#define COSTATE_PLUGIN_CLI_ROBOT_OPTIONS_H_

#include <costate/task.h>

#include <CLI/CLI.hpp>

namespace costate::cli {

/// Adds --start, --goal, --time and --substeps.
void AddReachOptions(CLI::App* command, ReachOptions* options);

/// Adds --fit, which is returned, and --ctrl.
CLI::Option* AddFitOptions(CLI::App* command, FitOptions* options);

}  // namespace costate::cli

#endif  // COSTATE_PLUGIN_CLI_ROBOT_OPTIONS_H_
