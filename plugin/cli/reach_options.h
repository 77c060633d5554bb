// Options that say what a robot without a task file shall reach.
#ifndef COSTATE_PLUGIN_CLI_REACH_OPTIONS_H_
#define COSTATE_PLUGIN_CLI_REACH_OPTIONS_H_

#include <costate/task.h>

#include <CLI/CLI.hpp>

namespace costate::cli {

/// Adds --start, --goal, --time and --substeps.
void AddReachOptions(CLI::App* command, ReachOptions* options);

}  // namespace costate::cli

#endif  // COSTATE_PLUGIN_CLI_REACH_OPTIONS_H_
