// costate train: the weights of a feedback policy from many starts, by gradients through the closed loop.
#include <costate/policy.h>
#include <costate/record.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "cli/commands.h"
#include "cli/descend.h"
#include "cli/gradient_table.h"
#include "cli/robot_options.h"
#include "cli/run_output.h"
#include "cli/terminal.h"
#include "core/lap.h"
#include "core/number.h"
#include "optimizer/loss_check.h"
#include "rollout/csv.h"
#include "rollout/penetration.h"

namespace costate::cli {
namespace {

constexpr char kTrainFooter[] = R"(
<policy> in the task says what of state and sensors the policy sees (<observe>), its hidden layers, and how the starts differ
(<spread>); without it a linear law of the whole state is trained from the task's start; --hidden and --spread take the place of
the two. A robot with --goal, as of costate optimize, needs no task file. The mean cost over the starts falls
along its exact gradient by the weights: the adjoint of the closed loop. At first the policy plays the task's guess. The horizon
grows in --stages: what does not stabilize yet has slopes over long motions that say nothing; the last stage of a linear policy begins
with the gain of the linear-quadratic problem about the guess where that costs less. One line an iteration; Ctrl-C
keeps and saves the best.

The slope along the first gradient is compared with differences. At the end the policy is tried from as many other starts. The
run is saved in --out, by default runs/NAME-1, -2 … below the current folder; policy.json has all that another controller needs.

Exit code: 0 a lower mean cost; 1 none; 2 bad input; 130 interrupted.)";

struct TrainArguments {
  std::string file, out, method = "lbfgs";
  ReachArguments reach;
  std::vector<int> hidden;
  double spread = 0, rate = 0, clip = 0;
  int iterations = 400, stages = TrainOptions().stages, threads = 0, window = 0;
  bool force = false, no_plots = false, no_save = false, quiet = false;
};

std::string StartsTable(const mjModel* model, const TrainResult& result) {
  std::string text = "cost";
  for (const std::string& name : StateNames(model)) text += "," + QuotedCell(name);
  text += "\n";
  for (Eigen::Index i = 0; i < result.starts.cols(); i++) {
    text += ExactText(result.costs[i]);
    for (double value : result.starts.col(i)) text += "," + ExactText(value);
    text += "\n";
  }
  return text;
}

Record MakeTrainRecord(const Task& task, const NetworkPolicy& policy, const TrainResult& result,
                       const TrainArguments& arguments) {
  Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  Record record = TaskRecord(task, "train");
  record.model = CopyModel(task.model.get());
  record.seed = static_cast<unsigned>(task.policy.seed);
  RolloutStatus status = simulator.Rollout(task.x0, result.motion.U, &record.trajectory);
  if (status.ok()) status = result.motion_status;  // a control that was no number is none of U
  TakeCosts(task, record.trajectory, simulator.knot_time(), &record);
  record.metric =
      "sum over knots of the task's cost terms, of the motion from the task's own start; the iterations have the mean "
      "over starts.csv";
  record.diagnostics = simulator.Diagnose(record.trajectory);
  record.failures = LabelFailures(task.model.get(), record.trajectory, status, record.diagnostics);
  record.iterations = result.iterations;
  record.status = ToString(result.status);
  record.message = result.message;
  record.settings = {{"solver", arguments.method},
                     {"rate", arguments.rate > 0 ? ExactText(arguments.rate) : "default"},
                     {"weights", fmt::format("{}", policy.weights())},
                     {"starts", fmt::format("{}", result.starts.cols())},
                     {"mean_cost", ExactText(result.loss)},
                     {"mean_cost_of_unseen_starts", ExactText(result.unseen)},
                     {"window", fmt::format("{}", arguments.window)},
                     {"clip", ExactText(arguments.clip)}};
  record.tables["policy.json"] = policy.ToJson();
  record.tables["starts.csv"] = StartsTable(task.model.get(), result);
  return record;
}

void PrintCheck(const TrainCheck& check) {
  if (check.shortened) {
    fmt::print("check         {}\n", kNoGradientToCheck);
    return;
  }
  if (check.adjoint == 0) {
    fmt::print("check         none: the gradient at the first weights is 0, or the motion fails\n");
    return;
  }
  fmt::print(
      "check         slope along the gradient: adjoint {:.9g}, differences {:.9g} ± {:.1g}{}\n", check.adjoint,
      check.difference, check.error_bar,
      IsWithinError(std::abs(check.adjoint - check.difference), check.error_bar, check.adjoint) ? "" : ": DISAGREE");
}

Task LoadTrainTask(const TrainArguments& arguments) {
  ReachArguments reach = arguments.reach;
  reach.at_once = true;
  Task task = LoadTaskOrReach(arguments.file, reach);
  if (!arguments.hidden.empty()) task.policy.hidden = arguments.hidden;
  if (arguments.spread > 0) {
    const Dims dims(task.model.get());
    if (task.policy.spread.size() == 0) task.policy.spread.setZero(dims.ndx);
    task.policy.spread.head(dims.nv).setConstant(arguments.spread);
  }
  return task;
}

// starts that a spread puts inside of something: what throws them out is no motion that a law could help
void SayPenetration(const Task& task, const TrainResult& result) {
  const mjModel* model = task.model.get();
  const double own = Penetrations(model, task.context, task.x0)[0];
  const VectorXd found = Penetrations(model, task.context, result.starts);
  const double deepest = found.size() > 0 ? found.maxCoeff() : 0;
  int inside = 0;
  for (const double depth : found) inside += IsDeep(model, depth - own);
  if (inside == 0) return;
  fmt::print(
      "  note          at {} of {} starts a contact penetrates, by up to {:.3g} m (the task's own start: {:.3g} m, the "
      "mean body size is {:.3g} m): a smaller spread, or <spread> of some entries alone\n",
      inside, result.starts.cols(), deepest, own, model->stat.meansize);
}

int RunTrain(const TrainArguments& arguments) {
  const Task task = LoadTrainTask(arguments);
  PrintWarnings(task.warnings);
  TrainOptions options;
  options.descent.method = MethodOf(arguments.method);
  options.descent.iterations = arguments.iterations;
  options.descent.rate = arguments.rate;
  if (arguments.rate > 0 && arguments.method != "adam" && arguments.method != "gd") {
    throw Error(ErrorCode::kInvalidArgument,
                "--rate belongs to --method adam and gd: " + arguments.method + " searches for its step");
  }
  options.stages = arguments.stages;
  options.threads = arguments.threads;
  options.window = arguments.window;
  options.clip = arguments.clip;
  CheckTrain(task, options);
  const std::string folder = arguments.no_save ? "" : arguments.out.empty() ? FreeFolder(task) : arguments.out;
  if (!folder.empty()) CheckRunFolder(folder, arguments.force);
  NetworkPolicy policy = MakePolicy(task);

  CatchInterrupts();
  const bool spread = task.policy.spread.size() > 0 && !task.policy.spread.isZero(0);
  fmt::print(
      "{}: {} observations, {}, {} weights; {} from {}, {} knots of {:.4g} s\n\n", task.name, policy.observations(),
      task.policy.hidden.empty() ? std::string("linear") : fmt::format("{} hidden layers", task.policy.hidden.size()),
      policy.weights(), arguments.method,
      spread ? fmt::format("{} starts", task.policy.starts) : std::string("one start"), task.N, task.knot_time());
  const double dt = task.knot_time();
  const Clock::time_point begin = Clock::now();
  TrainResult result;
  {
    Progress progress(arguments.iterations);
    if (!arguments.quiet) progress.Line(" iter  horizon      mean cost     change   gradient       step |     ms");
    progress.Stage(0, "motions from all starts and their gradient");
    result = TrainPolicy(task, &policy, options, [&](const IterationRecord& r, int N) {
      if (!arguments.quiet) {
        progress.Line(fmt::format("{:5d} {:6.3g} s {:14.8g} {:10.3g} {:10.3g} {:10.3g} | {:6.1f}", r.iteration, N * dt,
                                  r.cost, 0 - r.actual_change, r.gradient_norm, r.step,
                                  1e3 * (r.seconds_rollout + r.seconds_derivative)));
      }
      progress.Update(r.iteration, fmt::format("mean cost {:.6g}", r.cost));
      return !Interrupted();
    });
  }
  const double seconds = SecondsSince(begin);

  fmt::print("\n{}\n", StatusText(ToString(result.status), result.message));
  fmt::print("  mean cost     {:.6g}, before {:.6g}; worst start {:.6g}; {}\n", result.loss, result.initial_loss,
             result.costs.maxCoeff(), FormatDuration(seconds));
  if (spread) {
    fmt::print("  unseen        {:.6g}, before {:.6g}; worst {:.6g}: as many starts that had no part in it\n",
               result.unseen, result.initial_unseen, result.unseen_costs.maxCoeff());
    constexpr double kHardly = 0.1;
    if (result.initial_unseen - result.unseen < kHardly * (result.initial_loss - result.loss)) {
      fmt::print(
          "  note          what has been gained is of the starts that it was trained from: from others the policy "
          "is hardly better than before (remedy: more starts in the task's <policy>, more iterations)\n");
    }
  }
  if (Trajectory motion;
      Simulator(task.model.get(), task.context, task.substeps, 1).Rollout(task.x0, result.motion.U, &motion).ok()) {
    PrintMissedGoals(task, motion);  // from the task's own start
  }
  if (spread) SayPenetration(task, result);
  fmt::print("  ");
  PrintCheck(result.check);
  if (result.status == SolveStatus::kDiverged) {
    fmt::print("Nothing was saved.\n");
    return kExitNo;
  }
  if (!folder.empty()) {
    Record record = MakeTrainRecord(task, policy, result, arguments);
    const std::string saved = SaveRunSomewhere(folder, &record, arguments.force, !arguments.no_plots);
    for (const std::string& failure : record.failures) fmt::print("  note          {}\n", failure);
    fmt::print(
        "  saved in      {0}: the motion from the task's start, policy.json, starts.csv\n\n  costate view {1}\n"
        "  costate replay {1} --export play.xml    (a model in which the policy acts, for simulate or Python)\n",
        saved, ShellWord(saved));
  }
  if (result.status == SolveStatus::kInterrupted) return kExitInterrupted;
  return result.loss < result.initial_loss ? kExitOk : kExitNo;
}

}  // namespace

void AddTrainCommand(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command =
      app.add_subcommand("train", "Train a feedback policy, linear or a small network, through the rollout");
  command->footer(kTrainFooter);
  command->add_option("TASK|MODEL", arguments->file, "task file, or a robot with --goal")->required();
  AddReachOptions(command, &arguments->reach);
  command->add_option("--spread", arguments->spread, "starts differ by at most so much [rad, m] in every position")
      ->check(Positive());
  command->add_option("--hidden", arguments->hidden, "sizes of the network's hidden layers, as in 32,32")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  command->add_option("--method", arguments->method, "lbfgs (default), gauss-newton, adam or gd")
      ->check(CLI::IsMember({"adam", "gauss-newton", "gd", "lbfgs"}));
  command->add_option("--rate", arguments->rate, "step of adam (default 0.03), or of gd without line search")
      ->check(Positive());
  command->add_option("--iterations", arguments->iterations, "at most")->check(CLI::Range(0, 1000000));
  command
      ->add_option("--stages", arguments->stages, "the horizon doubles so often less one; 1: the whole horizon at once")
      ->check(CLI::Range(1, 30));
  command->add_option("--threads", arguments->threads, "0: all cores")->check(CLI::Range(0, 512));
  command->add_option("--window", arguments->window, "truncate: drop the costate after each so many knots")
      ->check(NonNegative());
  command->add_option("--clip", arguments->clip, "shorten a costate that is longer than this")->check(NonNegative());
  command->add_option("--out", arguments->out, "folder of the saved run")->check(Given());
  command->add_flag("--force", arguments->force, "replace the run that is there");
  command->add_flag("--no-plots", arguments->no_plots, "draw no pictures");
  command->add_flag("--no-save", arguments->no_save, "save nothing")->excludes("--out");
  command->add_flag("--quiet", arguments->quiet, "no line for each iteration");
  command->callback([arguments, exit_code] { *exit_code = RunTrain(*arguments); });
}

}  // namespace costate::cli
