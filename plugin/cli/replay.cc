// costate replay: the same motion again from the run alone, compared bit for bit.
#include <costate/record.h>
#include <fmt/core.h>

#include <memory>

#include "cli/commands.h"
#include "cli/run_output.h"
#include "engine/playback.h"

namespace costate::cli {
namespace {

constexpr char kReplayFooter[] = R"(
The run is simulated again from the compiled model, start, context and controls that it holds; the original files are not
needed. Every state, sensor, time and warm start of every knot is compared.

--export writes the model as one MJCF file that plays the run by itself, with feedback where the run has gains, by its policy
where one was trained, in any MuJoCo host that has loaded libcostate.so: simulate (put the library into its plugin folder),
Studio, Python's viewer. The file is played once, and how far it strays from the run is printed, with the cause. It holds the
run's own model, with what its task or fit changed; what MJCF cannot say of that is refused by name.

Exit code: 0 identical, bit for bit, with --export as the file plays; 1 different (the file is there all the same); 2 not a run,
damaged, newer, or made with another MuJoCo.)";

struct ReplayOptions {
  std::string folder, file;
  PlaybackOptions playback;
};

int Export(const ReplayOptions& options) {
  CheckOutputFile(options.file, options.playback.force, {});
  const PlaybackResult result = WritePlayback(options.folder, options.file, options.playback);
  const char* feedback = result.feedback == PolicyFeedback::kLaw  ? "the policy that was trained acts"
                         : result.feedback == PolicyFeedback::kOn ? "feedback on"
                                                                  : "feedback off";
  fmt::print("{}: plays {} in any host that has loaded libcostate.so, {}{}\n", options.file, options.folder, feedback,
             result.feedback == PolicyFeedback::kOff ? "" : " (--no-feedback plays the controls alone)");
  if (result.identical) {
    fmt::print("played: identical to the run, bit for bit\n");
    return kExitOk;
  }
  fmt::print("played: a state differs from the run by at most {:.3g} ({})\n", result.largest_difference, result.cause);
  return kExitNo;
}

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
  auto options = std::make_shared<ReplayOptions>();
  CLI::App* command = app.add_subcommand("replay", "Simulate a saved run again and compare bit for bit");
  command->add_option("RUN", options->folder, "folder of the run")->required();
  CLI::Option* file =
      command->add_option("--export", options->file, "write an MJCF file that plays the run in any MuJoCo host");
  command->add_option("--end", options->playback.end, "with --export, behind the end: hold (default), loop or zero")
      ->check(CLI::IsMember({"hold", "loop", "zero"}))
      ->needs(file);
  command->add_flag("--force", options->playback.force, "with --export: replace the file that is there")->needs(file);
  command->add_flag("!--no-feedback", options->playback.feedback, "with --export: controls alone")->needs(file);
  command->footer(kReplayFooter);
  command->callback(
      [options, exit_code] { *exit_code = options->file.empty() ? RunReplay(options->folder) : Export(*options); });
}

}  // namespace costate::cli
