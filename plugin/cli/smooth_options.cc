#include "cli/smooth_options.h"

#include <fmt/core.h>

namespace costate::cli {

void AddSmoothOptions(CLI::App* command, SmoothArguments* arguments, const std::string& what) {
  command->add_option("--smooth", arguments->smooth,
                      what +
                          ": auto, onset, softness, distance, friction, solver, with strengths: "
                          "onset:0.002,distance:0.01");
  command->add_option("--smooth-only", arguments->only,
                      "smooth only these: geom:NAME,pair:NAME/NAME,joint:NAME,tendon:NAME");
}

SmoothContact ReadSmooth(const mjModel* model, const SmoothArguments& arguments) {
  if (!arguments.chosen()) {
    if (arguments.only.empty()) return {};
    throw Error(ErrorCode::kInvalidArgument, "--smooth-only says what is smoothed: --smooth has to say how");
  }
  SmoothContact smooth = ParseSmooth(model, arguments.smooth);
  if (!arguments.only.empty()) smooth.targets = ParseSmoothTargets(arguments.only);
  return smooth;
}

void PrintSmoothChanges(const SmoothModel& smooth) {
  fmt::print("{}\n", smooth.label);
  for (const SmoothChange& change : smooth.changes) {
    fmt::print("  {:<11} {:g} {} on {} elements: {}\n", change.strategy, change.strength, change.unit, change.elements,
               change.motion);
    if (change.jump_before > 0) {
      fmt::print(
          "  {:<11} at its onset a row applies {:g} of its stopping acceleration at once, before "
          "{:g}\n",
          "", change.jump_after, change.jump_before);
    }
  }
}

}  // namespace costate::cli
