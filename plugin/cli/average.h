// --average of gradient: what the loss is on average under noise on the controls, and the slope of
// that average.
#ifndef COSTATE_PLUGIN_CLI_AVERAGE_H_
#define COSTATE_PLUGIN_CLI_AVERAGE_H_

#include <costate/bundle.h>
#include <costate/task.h>

#include <map>
#include <string>

#include "cli/commands.h"

namespace costate::cli {

struct AverageArguments {
  double sigma = 0;  // of the range of a control that has limits, in its unit of others
  int pairs = 32;
  std::uint64_t seed = 1;
  CLI::Option *pairs_option = nullptr, *seed_option = nullptr;
  bool chosen() const { return sigma > 0; }
};

void AddAverageOptions(CLI::App* command, AverageArguments* arguments);

/// @throws Error{kInvalidArgument} for --pairs or --seed alone, and for a task whose gradient is
/// not by controls.
void CheckAverage(const AverageArguments& arguments, const Task& task);

/// Averages the gradient at the guess. @throws Error as Bundle::Gradient.
BundleGradient Average(const AverageArguments& arguments, const Task& task,
                       const AdjointOptions& adjoint);

/// A table of the orders beside the exact gradient, by the task's controls alone.
void PrintAverage(const AverageArguments& arguments, const Task& task,
                  const BundleGradient& average, const RolloutGradient& exact);

/// The same for a record: its settings "average_…", and one row a knot.
std::map<std::string, std::string> AverageSettings(const AverageArguments& arguments,
                                                   const BundleGradient& average);
std::string AverageTable(const Task& task, double dt, const BundleGradient& average,
                         const RolloutGradient& exact);

}  // namespace costate::cli

#endif  // COSTATE_PLUGIN_CLI_AVERAGE_H_
