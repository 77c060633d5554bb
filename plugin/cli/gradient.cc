// costate gradient: a task's loss and its gradient by every control and by the start, checked, with its health.
#include <costate/adjoint.h>
#include <costate/task.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "cli/commands.h"
#include "cli/gradient_table.h"
#include "cli/loss_check.h"
#include "core/new_file.h"

namespace costate::cli {
namespace {

struct GradientArguments {
  std::string file, csv, out;
  double memory = 0;  // [MiB]
  int entries = 12, window = 0;
  double clip = 0;
  bool force = false, spectral = false, certify = false;
};

constexpr int kRepeats = 3;
constexpr double kLong = 1;  // [s] what takes longer is not repeated

double Fastest(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRepeats && (i == 0 || best < kLong); i++) {
    const Clock::time_point start = Clock::now();
    call();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

void PrintCheck(const std::vector<LossCheckEntry>& entries, bool* agrees) {
  const LossCheckEntry* worst = nullptr;
  int rough = 0, wrong = 0;
  for (const LossCheckEntry& e : entries) {
    rough += e.verdict == LossCheckEntry::Verdict::kRough;
    wrong += e.verdict == LossCheckEntry::Verdict::kWrong;
    if (e.verdict != LossCheckEntry::Verdict::kRough && (!worst || e.relative > worst->relative)) worst = &e;
  }
  *agrees = wrong == 0;
  fmt::print("check         {} entries against centred differences of the loss: {}\n", entries.size(),
             wrong ? fmt::format("{} DISAGREE", wrong) : "agree");
  if (worst) {
    fmt::print("  worst       {}: adjoint {:.9g}, differences {:.9g} ± {:.1g}; {:.1g} of the largest\n", worst->name,
               worst->adjoint, worst->difference, worst->error_bar, worst->relative);
  }
  if (rough > 0) {
    fmt::print("  not judged  {}: there the loss is not smooth on the scale of any step that was tried\n", rough);
  }
}

int RunGradient(const GradientArguments& arguments) {
  const Task task = LoadTask(arguments.file);
  PrintWarnings(task.warnings);
  if (!arguments.csv.empty()) CheckWritable(arguments.csv, arguments.force);
  if (!arguments.out.empty()) CheckGradientFolder(arguments.out, arguments.force);
  const mjModel* model = task.model.get();
  AdjointOptions options;
  options.memory = static_cast<std::size_t>(arguments.memory * (1 << 20));
  options.window = arguments.window;
  options.clip = arguments.clip;

  // the first call makes the memory; the fastest of a few says what the work costs
  Simulator simulator(model, task.context, task.substeps, 1);
  Trajectory motion;
  RolloutStatus status;
  const double rollout_seconds =
      Fastest([&] { status = simulator.Rollout(task.x0, task.U_guess, &motion); });
  fmt::print("{}: {} knots of {:.4g} s; {}\n\n", task.name, task.N, simulator.knot_time(),
             "gradient of the guess's loss by its controls and its start");
  if (!status.ok()) {
    fmt::print("the guess cannot be simulated: {} at knot {}\n", ToString(status.status), status.knot);
    return kExitNo;
  }
  Adjoint adjoint(model, task.context, task.substeps);
  RolloutGradient g;
  const double seconds = Fastest([&] { adjoint.Gradient(task.x0, task.U_guess, *task.cost, options, &g); });
  PrintWarnings(g.status.warnings);
  if (!g.status.ok()) {
    fmt::print("there is no gradient: {} at knot {}\n", ToString(g.status.status), g.status.knot);
    return kExitNo;
  }

  // what is looked at closer is not part of the work that was timed
  if (arguments.spectral || arguments.certify) {
    options.spectral_radius = arguments.spectral;
    options.certify = arguments.certify;
    adjoint.Gradient(task.x0, task.U_guess, *task.cost, options, &g);
  }

  fmt::print("loss          {:.9g}\n", g.loss);
  for (const CostTermValue& term : task.cost->Terms(motion)) fmt::print("    {:<24} {:.6g}\n", term.name, term.value);
  const std::vector<std::string> controls = ControlNames(model), tangents = TangentNames(model);
  Eigen::Index i = 0, t = 0;
  if (g.U.size() > 0) {
    const double most = g.U.cwiseAbs().maxCoeff(&i, &t);
    fmt::print("by controls   norm {:.6g}; largest {:.6g} by {} at knot {}\n", g.U.norm(), std::copysign(most, g.U(i, t)),
               controls[static_cast<std::size_t>(i)], t);
  }
  if (g.x0.size() > 0) {
    g.x0.cwiseAbs().maxCoeff(&i);
    fmt::print("by the start  norm {:.6g}; largest {:.6g} by {}\n", g.x0.norm(), g.x0[i], tangents[static_cast<std::size_t>(i)]);
  }
  fmt::print("health        {}\n", g.health.text);
  fmt::print("work          {:.3g} ms, {:.2g} rollouts; {:.3g} MiB of states kept, {} knots simulated again\n", 1e3 * seconds,
             seconds / rollout_seconds, static_cast<double>(g.kept_bytes) / (1 << 20), g.recomputed);
  for (const TermCoverage& term : g.coverage.terms) {
    if (!term.reason.empty()) fmt::print("  {:<11} {}: {}\n", ToString(term.level), term.term, term.reason);
  }

  bool agrees = true;
  const bool whole = g.health.clipped.empty() && g.health.dropped.empty();
  if (arguments.entries > 0 && whole) PrintCheck(CheckLossGradient(task, g, arguments.entries), &agrees);
  if (!whole) fmt::print("check         none: what was clipped or truncated is not the gradient\n");
  if (!arguments.csv.empty()) {
    WriteNewFile(arguments.csv, GradientTable(model, simulator.knot_time(), g), arguments.force);
    fmt::print("table         {}\n", arguments.csv);
  }
  if (!arguments.out.empty()) {
    const std::string missing =
        WriteGradientFolder(arguments.out, GradientTable(model, simulator.knot_time(), g), g, arguments.force);
    if (!missing.empty()) PrintWarnings({arguments.out + " has no pictures: " + missing});
    fmt::print("saved in      {}\n", arguments.out);
  }
  return agrees ? kExitOk : kExitNo;
}

}  // namespace

void AddGradientCommand(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<GradientArguments>();
  CLI::App* command = app.add_subcommand(
      "gradient", "The gradient of a task's loss by all controls and the start, checked against differences");
  command->footer(R"(
The loss is the task's cost of its own guess, differentiated in one reverse sweep. Entries (the largest and some others) are
compared with centred differences of the loss at several step sizes. Health: how the costate grows or fades on its way back
through time, and how often contacts or limits switched.

Exit code: 0 agrees; 1 disagrees, or there is no gradient; 2 bad input.)");
  command->add_option("TASK", arguments->file, "task file")->required();
  command->add_option("--memory", arguments->memory, "MiB for the states that are kept; what does not fit is simulated again")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--entries", arguments->entries, "how many controls and starts to compare; 0: none")
      ->check(CLI::Range(0, 10000));
  command->add_option("--window", arguments->window, "truncate: drop the costate after each so many knots")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--clip", arguments->clip, "shorten a costate that is longer than this")->check(CLI::NonNegativeNumber);
  command->add_option("--csv", arguments->csv, "write the gradient, the costate's norm and growth, one row a knot");
  command->add_option("--out", arguments->out, "the same table in this folder, with pictures of the costate and its growth");
  command->add_flag("--spectral", arguments->spectral, "also the spectral radius of each step's A");
  command->add_flag("--certify", arguments->certify, "also each knot's label: smooth or mode-crossing, and which switch");
  command->add_flag("--force", arguments->force, "replace an existing table");
  command->callback([arguments, exit_code] { *exit_code = RunGradient(*arguments); });
}

}  // namespace costate::cli
