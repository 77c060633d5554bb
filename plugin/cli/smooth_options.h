// The options --smooth and --smooth-only, and what a smoothing changes in words.
#ifndef COSTATE_PLUGIN_CLI_SMOOTH_OPTIONS_H_
#define COSTATE_PLUGIN_CLI_SMOOTH_OPTIONS_H_

#include <costate/smooth_contact.h>

#include <string>

#include "cli/commands.h"

namespace costate::cli {

struct SmoothArguments {
  std::string smooth, only;
  bool chosen() const { return !smooth.empty(); }
};

/// @param what  for the help: what the command does with it.
void AddSmoothOptions(CLI::App* command, SmoothArguments* arguments, const std::string& what);

/// @throws Error{kInvalidArgument}; also for --smooth-only alone.
SmoothContact ReadSmooth(const mjModel* model, const SmoothArguments& arguments);

/// One line a strategy: what changes in the forward motion, and the jump that remains at onset.
void PrintSmoothChanges(const SmoothModel& smooth);

}  // namespace costate::cli

#endif  // COSTATE_PLUGIN_CLI_SMOOTH_OPTIONS_H_
