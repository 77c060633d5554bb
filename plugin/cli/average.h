// --average and --average-start of gradient: what the loss is on average under noise on the controls and on the start,
// and the slope of that average.
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
  double start = 0;  // of the start's entries, each in its unit
  int pairs = 32;
  std::uint64_t seed = 1;
  CLI::Option *pairs_option = nullptr, *seed_option = nullptr;
  bool chosen() const { return sigma > 0 || start > 0; }
};

void AddAverageOptions(CLI::App* command, AverageArguments* arguments);

/// @throws Error{kInvalidArgument} for --pairs or --seed alone, and for noise on what the task's gradient is not by.
void CheckAverage(const AverageArguments& arguments, const Task& task);

/// Averages the gradient at the guess. @throws Error as Bundle::Gradient.
BundleGradient Average(const AverageArguments& arguments, const Task& task, const AdjointOptions& adjoint);

/// A table of the orders beside the exact gradient, by the task's controls and by its start.
void PrintAverage(const AverageArguments& arguments, const Task& task, const BundleGradient& average,
                  const RolloutGradient& exact);

/// The same for a record: its settings "average_…"; average.csv, one row a knot, and average_start.csv, one an entry.
std::map<std::string, std::string> AverageSettings(const AverageArguments& arguments, const BundleGradient& average);
std::map<std::string, std::string> AverageTables(const AverageArguments& arguments, const Task& task, double dt,
                                                 const BundleGradient& average, const RolloutGradient& exact);

}  // namespace costate::cli

#endif  // COSTATE_PLUGIN_CLI_AVERAGE_H_
