// costate replay: the same motion again from the run alone, compared bit for bit.
#include <costate/record.h>
#include <fmt/core.h>

#include <memory>

#include "cli/commands.h"

namespace costate::cli {
namespace {

constexpr char kReplayFooter[] = R"(
The run is simulated again from the compiled model, start, context and controls that it holds; the original files are not
needed. Every state, sensor, time and warm start of every knot is compared.

Exit code: 0 identical, bit for bit; 1 different; 2 not a run, damaged, newer, or made with another MuJoCo.)";

int RunReplay(const std::string& folder) {
  const Record record = ReadRecord(folder);
  const int N = record.trajectory.N();
  fmt::print("{}: {} of '{}'{}, written {}\n", folder, record.command, ModelName(record.model.get()),
             record.status.empty() ? "" : " (" + record.status + ")", record.created);
  for (const std::string& failure : record.failures) fmt::print("  note       {}\n", failure);

  const ReplayResult replay = Replay(record);
  if (replay.identical) {
    fmt::print("identical, bit for bit: {} knots, {:.4g} s\n", N + 1,
               record.trajectory.time[N] - record.trajectory.time[0]);
    return kExitOk;
  }
  const int t = replay.first_difference;
  fmt::print("differs first at knot {} ({:.4g} s): {} was {:.17g}, is {:.17g}\n", t, record.trajectory.time[t],
             replay.first_name, replay.recorded, replay.replayed);
  fmt::print("largest difference of a state over the run: {:.3g}\n", replay.largest_difference);
  return kExitNo;
}

}  // namespace

void AddReplayCommand(CLI::App& app, int* exit_code) {
  auto folder = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("replay", "Simulate a saved run again and compare bit for bit");
  command->add_option("RUN", *folder, "folder of the run")->required();
  command->footer(kReplayFooter);
  command->callback([folder, exit_code] { *exit_code = RunReplay(*folder); });
}

}  // namespace costate::cli
