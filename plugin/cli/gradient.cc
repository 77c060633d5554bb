// costate gradient: a task's loss and its gradient by what the task names, checked, with its health; and a descent
// along it.
#include <costate/adjoint.h>
#include <costate/task.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <utility>

#include "cli/average.h"
#include "cli/commands.h"
#include "cli/descend.h"
#include "cli/gradient_record.h"
#include "cli/gradient_table.h"
#include "cli/robot_options.h"
#include "cli/run_output.h"
#include "cli/smooth_options.h"
#include "cli/terminal.h"
#include "core/convergence.h"
#include "core/extremes.h"
#include "core/lap.h"
#include "core/new_file.h"
#include "optimizer/hints.h"
#include "optimizer/loss_check.h"

namespace costate::cli {
namespace {

constexpr char kGradientFooter[] = R"(
The loss is the task's cost of its own guess, differentiated in one reverse sweep by what <gradient> in the task names:
controls, start, parameters such as joint:knee/damping, body:arm/mass or option/gravity[2]; without it by all controls and
all of the start. Entries (all parameters; of the rest the largest and some others) are compared with centred differences of
the loss at several step sizes. With --smooth the motion is the true one and the slopes are those of a model with smoother
contact: what they differ by is printed in place of the check, and --descend follows them (not by parameters).

A robot needs no task file to be fitted to a motion:

  costate gradient robot.xml --fit motion.csv --parameter body:arm/mass --parameter joint:knee/damping

motion.csv has a column "time" and columns named as in a run's trajectory.csv: qpos[knee] (or knee), qvel[knee], sensor[imu].0,
ctrl[knee]; those it has are compared, the start is its first row and is fitted too, and --descend gauss-newton follows. Controls may stand in a file
of their own, --ctrl. `costate task robot.xml --fit … -o FILE` writes the task file.

--average puts noise on the controls, --average-start on the start, and prints the slope of the averaged loss: from
gradients (order one, blind for jumps), from values alone (order zero), and their mixture of least error, with standard
errors, beside the exact gradient. Controls beyond their limits are clamped by the model, as always. Health: how the costate
grows or fades on its way back through time, and how often contacts or limits switched.

--descend then changes those inputs, within the ranges of controls and the bounds of parameters, until the loss falls no
more: gd, gradient descent with a fixed --rate or else a line search, lbfgs, adam, whose --rate is in typical sizes (half a
control's range), or gauss-newton, the one for fits: of starts and parameters, not of controls. With <spline knots="…"> in the task the controls are splines and their knots are what changes. One line an
iteration; Ctrl-C keeps and saves the best. The run is saved in --out, by default runs/NAME-1, -2 … below the current folder;
inputs.csv has what was fitted.

Of a fit to a recorded motion ± is two standard errors (95 %), from what the fit leaves and how it moves with each number; what the
motion cannot tell apart is named: only the ratio of a mass and a spring, a damper of a joint that rests.

Exit code: 0 agrees; 1 disagrees, none can be judged, or there is no gradient; 2 bad input. With --descend: 0 a lower loss;
1 none; 2 bad input; 130 interrupted.)";

struct GradientArguments {
  std::string file, csv, out, descend;
  std::vector<std::string> parameters;
  FitOptions fit;
  SmoothArguments smooth;
  AverageArguments average;
  double memory = 0;  // [MiB]
  int entries = 12, window = 0, iterations = 100;
  double clip = 0, rate = 0;
  bool force = false, spectral = false, certify = false, no_plots = false, no_save = false, quiet = false;
};

constexpr int kRepeats = 3;
constexpr double kLong = 1;  // [s] what takes longer is not repeated

double Fastest(const std::function<void()>& call) {
  double best = kInf;
  for (int i = 0; i < kRepeats && (i == 0 || best < kLong); i++) {
    const Clock::time_point start = Clock::now();
    call();
    best = std::min(best, SecondsSince(start));
  }
  return best;
}

// 0 is all; a little is never taken for that
std::size_t Bytes(double mebibytes) {
  constexpr double kMost = 0x1p62;
  return mebibytes > 0 ? static_cast<std::size_t>(std::clamp(mebibytes * 0x1p20, 1.0, kMost)) : 0;
}

constexpr int kListed = 5;  // entries that disagree, or are rough, by name

// do all that can be judged agree?
bool PrintCheck(const std::vector<LossCheckEntry>& entries) {
  using Verdict = LossCheckEntry::Verdict;
  const LossCheckEntry* worst = nullptr;
  int rough = 0, wrong = 0;
  for (const LossCheckEntry& e : entries) {
    rough += e.verdict == Verdict::kRough;
    wrong += e.verdict == Verdict::kWrong;
    if (e.verdict != Verdict::kRough && (!worst || e.relative > worst->relative)) worst = &e;
  }
  const bool agrees = wrong == 0 && worst;
  fmt::print("check         {} entries against centred differences of the loss: {}\n", entries.size(),
             wrong    ? fmt::format("{} DISAGREE", wrong)
             : agrees ? "agree"
                      : "NONE CAN BE JUDGED");
  const auto print = [](const char* label, const LossCheckEntry& e) {
    fmt::print("  {:<11} {}: adjoint {:.9g}, differences {:.9g} ± {:.1g}; {:.1g} of the largest\n", label, e.name,
               e.adjoint, e.difference, e.error_bar, e.relative);
  };
  if (worst) print("worst", *worst);
  int listed = 0;
  for (const LossCheckEntry& e : entries) {
    if (e.verdict == Verdict::kWrong && &e != worst && listed++ < kListed) print("disagrees", e);
  }
  if (rough == 0) return agrees;
  fmt::print("  not judged  {}: there the loss is not smooth on the scale of any step that was tried\n", rough);
  listed = 0;
  for (const LossCheckEntry& e : entries) {
    if (e.verdict == Verdict::kRough && listed++ < kListed) print("rough", e);
  }
  return agrees;
}

// where a step stands on a switch its derivative is one of two or more, and differences may have another
void PrintSwitches(const GradientHealth& health) {
  const auto first = std::find(health.labels.begin(), health.labels.end(), Smoothness::kModeCrossing);
  if (first == health.labels.end()) return;
  const auto knot = first - health.labels.begin();
  fmt::print(
      "  switches    {} of {} knots stand on a switch, where there is no one gradient to agree with; knot {}: {}\n",
      std::count(first, health.labels.end(), Smoothness::kModeCrossing), health.labels.size(), knot,
      health.crossing[static_cast<std::size_t>(knot)]);
}

// steps that the constraint solver leaves before it has converged are not those whose derivatives these are: do both
// agree where it goes on to the end?
void CheckConverged(Task* task, Level level, int entries) {
  ModelPtr converged = CopyModel(task->model.get());
  converged->opt.solver = mjSOL_NEWTON;
  SearchUntil(LeastTolerance(converged.get()), 200, &converged->opt);
  std::swap(task->model, converged);
  const std::unique_ptr<ParameterSet> parameters = MakeParameters(*task);
  const mjModel* model = parameters ? parameters->model() : task->model.get();
  RolloutGradient g;
  Adjoint(model, task->context, task->substeps)
      .Gradient(task->x0, task->U_guess, *task->cost, {.level = level, .parameters = parameters.get()}, &g);
  using Verdict = LossCheckEntry::Verdict;
  if (g.status.ok()) {
    const std::vector<LossCheckEntry> check = CheckLossGradient(*task, parameters.get(), g, entries);
    const auto count = [&](Verdict verdict) {
      return std::count_if(check.begin(), check.end(), [&](const auto& e) { return e.verdict == verdict; });
    };
    if (count(Verdict::kWrong) == 0 && count(Verdict::kAgrees) > 0) {
      fmt::print(
          "  converged   with <option solver=\"Newton\" iterations=\"{}\" tolerance=\"{:g}\"> all agree: the model's "
          "own constraint solver leaves its steps before, and derivatives are those of converged ones\n",
          task->model->opt.iterations, task->model->opt.tolerance);
    }
  }
  std::swap(task->model, converged);
}

// what the gradient is by: "its controls, its start and 2 parameters"
std::string InputsText(const TaskInputs& inputs) {
  std::vector<std::string> words;
  if (!inputs.controls.empty()) words.push_back("its controls");
  if (!inputs.start.empty()) words.push_back("its start");
  const std::size_t n = inputs.parameters.size();
  if (n > 0) words.push_back(fmt::format("{} parameter{}", n, n == 1 ? "" : "s"));
  std::string text;
  for (std::size_t i = 0; i < words.size(); i++)
    text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return text;
}

void PrintGradient(const Task& task, const ParameterSet* parameters, const RolloutGradient& g) {
  const std::vector<std::string> controls = ControlNames(task.model.get()), tangents = TangentNames(task.model.get());
  const TaskInputs& inputs = task.inputs;
  Eigen::Index i = 0, t = 0;
  if (!inputs.controls.empty()) {
    const MatrixXd U = g.U(inputs.controls, Eigen::all);
    const double most = U.cwiseAbs().maxCoeff(&i, &t);
    fmt::print("by controls   norm {:.6g}; largest {:.6g} by {} at knot {}\n", U.norm(), std::copysign(most, U(i, t)),
               controls[static_cast<std::size_t>(inputs.controls[static_cast<std::size_t>(i)])], t);
  }
  if (!inputs.start.empty()) {
    const VectorXd start = g.x0(inputs.start);
    start.cwiseAbs().maxCoeff(&i);
    fmt::print("by the start  norm {:.6g}; largest {:.6g} by {}\n", start.norm(), start[i],
               tangents[static_cast<std::size_t>(inputs.start[static_cast<std::size_t>(i)])]);
  }
  for (int k = 0; k < g.theta.size(); k++) {
    const Parameter& p = (*parameters)[k];
    fmt::print("{}{:<24} {:.9g} a {}, at {:.9g}\n", k == 0 ? "by            " : "              ", p.name, g.theta[k],
               p.unit, parameters->Get()[k]);
    if (!p.note.empty()) fmt::print("                {}\n", p.note);
  }
}

DescendArguments ReadDescend(const GradientArguments& arguments, const Task& task) {
  DescendArguments descend;
  descend.options.method = MethodOf(arguments.descend);
  descend.options.iterations = arguments.iterations;
  descend.options.rate = arguments.rate;
  if (arguments.rate > 0 && (arguments.descend == "lbfgs" || arguments.descend == "gauss-newton")) {
    throw Error(ErrorCode::kInvalidArgument, "--rate belongs to --descend gd and adam: " +
                                                 std::string(arguments.descend == "lbfgs" ? "L-BFGS" : "Gauss-Newton") +
                                                 " searches for its step");
  }
  if (arguments.window > 0 || arguments.clip > 0) {
    throw Error(ErrorCode::kInvalidArgument, "--descend takes the whole gradient: neither --window nor --clip");
  }
  if (!arguments.no_save) descend.folder = arguments.out.empty() ? FreeFolder(task) : arguments.out;
  descend.force = arguments.force;
  descend.plots = !arguments.no_plots;
  descend.quiet = arguments.quiet;
  return descend;
}

// the gradient at the guess alone
void Save(const GradientArguments& arguments, const GradientReport& report, const std::string& smoothing,
          const BundleGradient* average) {
  Record record = MakeGradientRecord(report);
  if (!smoothing.empty()) record.settings["smoothing"] = smoothing;
  if (average) {
    const Task& task = *report.task;
    record.settings.merge(AverageSettings(arguments.average, *average));
    const double dt = task.knot_time();
    record.tables.merge(AverageTables(arguments.average, task, dt, *average, *report.gradient));
  }
  fmt::print("saved in      {}\n",
             WriteGradientRun(arguments.out, report, std::move(record), arguments.force, !arguments.no_plots));
}

void CheckSmooth(const GradientArguments& arguments, const Task& task) {
  if (arguments.smooth.chosen() && !task.inputs.parameters.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "--smooth has slopes by controls and start alone, and this gradient is by '" +
                    task.inputs.parameters.front().name + "' too");
  }
}

void CheckAverageAlone(const GradientArguments& arguments, const Task& task) {
  CheckAverage(arguments.average, task);
  if (!arguments.average.chosen()) return;
  const std::pair<bool, const char*> others[] = {{arguments.smooth.chosen(), "--smooth"},
                                                 {!arguments.descend.empty(), "--descend"},
                                                 {arguments.window > 0, "--window"},
                                                 {arguments.clip > 0, "--clip"},
                                                 {!task.inputs.parameters.empty(), "parameters"}};
  for (const auto& [given, name] : others) {
    if (given) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("--average looks at the exact gradient by controls and start: not together with {}", name));
    }
  }
}

// how far the smoothed gradient is from that of the loss
void PrintBias(const RolloutGradient& smoothed, const RolloutGradient& truth) {
  const auto print = [](const char* label, const auto& a, const auto& b) {
    if (a.size() == 0) return;
    const double cosine = a.norm() * b.norm() > 0 ? (a.array() * b.array()).sum() / (a.norm() * b.norm()) : 0;
    fmt::print("  {:<11} norm {:.6g}, of the true gradient {:.6g}; they differ by {:.6g}, cosine {:.4f}\n", label,
               a.norm(), b.norm(), (a - b).norm(), cosine);
  };
  fmt::print("bias          of the smoothed gradient, along the true motion\n");
  print("controls", smoothed.U, truth.U);
  print("start", smoothed.x0, truth.x0);
}

// a task file, or a robot and the motion that it is fitted to
Task ReadTask(const GradientArguments& arguments) {
  if (arguments.fit.motion.empty()) {
    if (!arguments.fit.start.empty()) throw Error(ErrorCode::kInvalidArgument, "--start belongs to --fit");
    Task task = LoadTask(arguments.file);
    for (const std::string& name : arguments.parameters) AddParameter(name, &task);
    return task;
  }
  if (IsTaskFile(arguments.file)) {
    throw Error(ErrorCode::kInvalidArgument, arguments.file +
                                                 " is a task file, which says what it is fitted to itself: "
                                                 "--fit belongs to a robot");
  }
  FitOptions fit = arguments.fit;
  fit.parameters = arguments.parameters;
  return MakeFitTask(arguments.file, fit);
}

void WarnOfWhatIsLeftOut(Task* task) {
  if (task->constraints.size() > 0) {
    task->warnings.push_back(
        fmt::format("the loss is the cost alone: {} constraints of the task have no part in it, '{}' the first of them",
                    task->constraints.size(), task->constraints[0].info().name));
  }
  if (task->free_time.longest > 0) {
    task->warnings.push_back(fmt::format("<time> is for costate optimize: the gradient is that of the horizon, {:g} s",
                                         task->N * task->substeps * task->model->opt.timestep));
  }
}

// what a gradient and the rollout alone take
struct Work {
  double seconds, rollout_seconds;
};

void PrintReport(const Task& task, const ParameterSet* parameters, const Trajectory& motion, const RolloutGradient& g,
                 const Work& work) {
  fmt::print("loss          {:.9g}\n", g.loss);
  for (const CostTermValue& term : task.cost->Terms(motion)) fmt::print("    {:<24} {:.6g}\n", term.name, term.value);
  PrintGradient(task, parameters, g);
  fmt::print("health        {}\n", g.health.text);
  fmt::print("work          {:.3g} ms, {:.2g} rollouts; {:.3g} MiB of states kept, {} knots simulated again\n",
             1e3 * work.seconds, work.seconds / work.rollout_seconds, static_cast<double>(g.kept_bytes) / (1 << 20),
             g.recomputed);
  fmt::print("peak memory   {:.0f} MiB of the whole program\n", PeakMemory());
  for (const TermCoverage& term : g.coverage.terms) {
    if (!term.reason.empty()) fmt::print("  {:<11} {}: {}\n", ToString(term.level), term.term, term.reason);
  }
}

AdjointOptions ReadAdjoint(const GradientArguments& arguments, const Task& task, const ParameterSet* parameters) {
  AdjointOptions options;
  options.level = task.solver.derivative.level;
  options.parameters = parameters;
  options.memory = Bytes(arguments.memory);
  options.window = arguments.window;
  options.clip = arguments.clip;
  return options;
}

// the guess, its gradient, and what both take
struct Evaluation {
  Trajectory motion;
  RolloutStatus status;  // of the motion
  RolloutGradient g;
  Work work{};
};

// before a while in which nothing is seen
void AnnounceSlowGradient(const Task& task, const AdjointOptions& options, Adjoint* adjoint) {
  constexpr double kSlow = 10;  // [s]
  RolloutGradient knot;
  double seconds = 0;
  try {
    for (int i = 0; i < 2; i++) {  // the first call makes the memory
      const Clock::time_point start = Clock::now();
      adjoint->Gradient(task.x0, task.U_guess.leftCols(1), *task.cost, options, &knot);
      seconds = SecondsSince(start) * task.N;
      if (seconds < kSlow) return;
    }
  } catch (const Error&) {
    return;  // the whole gradient says it
  }
  const std::string why = WithoutClosedForm(knot.coverage);
  fmt::print("the gradient takes about {}{}\n\n", FormatDuration(seconds), why.empty() ? "" : " (" + why + ")");
  std::fflush(stdout);
}

// false where there is none, and says why. The first call makes the memory; the fastest of a few says what the work
// costs.
bool Evaluate(const Task& task, const AdjointOptions& options, Simulator* simulator, Adjoint* adjoint,
              Evaluation* out) {
  out->work.rollout_seconds = Fastest([&] { out->status = simulator->Rollout(task.x0, task.U_guess, &out->motion); });
  fmt::print("{}: {} knots of {:.4g} s; gradient of the guess's loss by {}\n\n", task.name, task.N,
             simulator->knot_time(), InputsText(task.inputs));
  std::fflush(stdout);  // before what may take its time
  if (!out->status.ok()) {
    fmt::print("the guess cannot be simulated: {} at knot {}\n", ToString(out->status.status), out->status.knot);
    return false;
  }
  AnnounceSlowGradient(task, options, adjoint);
  out->work.seconds = Fastest([&] { adjoint->Gradient(task.x0, task.U_guess, *task.cost, options, &out->g); });
  PrintWarnings(out->g.status.warnings);
  if (out->g.status.ok()) return true;
  fmt::print("there is no gradient: {} at knot {}\n", ToString(out->g.status.status), out->g.status.knot);
  return false;
}

// where entries disagree: is it a solver that has not converged, or a switch?
void LookForReasons(const GradientArguments& arguments, AdjointOptions options, const mjModel* model, Adjoint* adjoint,
                    Task* task) {
  if (model->opt.tolerance > 0) CheckConverged(task, options.level, arguments.entries);
  if (arguments.certify) return;
  options.certify = true;
  RolloutGradient certified;
  adjoint->Gradient(task->x0, task->U_guess, *task->cost, options, &certified);
  PrintSwitches(certified.health);
}

int RunGradient(const GradientArguments& given) {
  GradientArguments arguments = given;
  if (!given.fit.motion.empty() && given.descend.empty()) arguments.descend = "gauss-newton";
  Task task = ReadTask(arguments);
  WarnOfWhatIsLeftOut(&task);
  PrintWarnings(task.warnings);
  CheckSmooth(arguments, task);
  CheckAverageAlone(arguments, task);
  const SmoothContact smoothing = ReadSmooth(task.model.get(), arguments.smooth);
  if (!arguments.csv.empty())
    CheckOutputFile(arguments.csv, arguments.force, {arguments.file, task.file, task.model_file, arguments.fit.motion});
  const bool descends = !arguments.descend.empty();
  DescendArguments descend;
  if (descends) descend = ReadDescend(arguments, task);
  descend.options.smooth = smoothing;
  const std::string folder = descends ? descend.folder : arguments.out;
  if (!folder.empty()) CheckRunFolder(folder, arguments.force);
  const std::unique_ptr<ParameterSet> parameters = MakeParameters(task);
  const mjModel* model = parameters ? parameters->model() : task.model.get();
  AdjointOptions options = ReadAdjoint(arguments, task, parameters.get());
  if (descends) CheckDescent(task, parameters.get(), descend.options);

  SmoothModel smooth;
  const AdjointOptions truth = options;
  if (smoothing.any()) {
    smooth = MakeSmoothModel(model, smoothing);
    PrintSmoothChanges(smooth);
    options.derivative_model = smooth.model.get();
    options.smoothing = smooth.smoothing;
  }

  Simulator simulator(model, task.context, task.substeps, 1);
  Adjoint adjoint(model, task.context, task.substeps);
  Evaluation at_guess;
  if (!Evaluate(task, options, &simulator, &adjoint, &at_guess)) return kExitNo;
  RolloutGradient& g = at_guess.g;

  // what is looked at closer is not part of the work that was timed
  if (arguments.spectral || arguments.certify) {
    options.spectral_radius = arguments.spectral;
    options.certify = arguments.certify;
    adjoint.Gradient(task.x0, task.U_guess, *task.cost, options, &g);
  }

  PrintReport(task, parameters.get(), at_guess.motion, g, at_guess.work);
  const auto diagnostics = simulator.Diagnose(at_guess.motion);
  for (const std::string& label : LabelFailures(model, at_guess.motion, at_guess.status, diagnostics))
    fmt::print("note          {}\n", label);
  std::fflush(stdout);

  bool agrees = true;
  std::vector<LossCheckEntry> check;
  const bool whole = g.health.clipped.empty() && g.health.dropped.empty();
  if (smoothing.any()) {
    RolloutGradient of_loss;
    adjoint.Gradient(task.x0, task.U_guess, *task.cost, truth, &of_loss);
    if (of_loss.status.ok()) PrintBias(g, of_loss);
    fmt::print("check         none: a smoothed gradient is not that of the loss\n");
  } else if (arguments.entries > 0 && whole) {
    check = CheckLossGradient(task, parameters.get(), g, arguments.entries);
    agrees = PrintCheck(check);
    if (!agrees) LookForReasons(arguments, options, model, &adjoint, &task);
  }
  std::unique_ptr<BundleGradient> average;
  if (arguments.average.chosen()) {
    average = std::make_unique<BundleGradient>(Average(arguments.average, task, truth));
    PrintAverage(arguments.average, task, *average, g);
  }
  if (!whole) fmt::print("check         {}\n", kNoGradientToCheck);
  if (!arguments.csv.empty()) {
    WriteNewFile(arguments.csv, GradientTable(model, simulator.knot_time(), g), arguments.force);
    fmt::print("table         {}\n", arguments.csv);
  }
  if (descends) return RunDescend(task, parameters.get(), check, descend);
  if (!arguments.out.empty()) {
    Save(arguments,
         {&task, parameters.get(), &g, check.empty() ? nullptr : &check, nullptr, nullptr, task.x0, task.U_guess,
          at_guess.work.seconds},
         smoothing.any() ? ToString(smoothing) : "", average.get());
  }
  return agrees ? kExitOk : kExitNo;
}

}  // namespace

void AddGradientCommand(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<GradientArguments>();
  CLI::App* command = app.add_subcommand(
      "gradient", "The gradient of a task's loss, checked against differences; --descend follows it");
  command->footer(kGradientFooter);
  command->add_option("TASK|MODEL", arguments->file, "task file, or a robot with --fit")->required();
  CLI::Option* fit = AddFitOptions(command, &arguments->fit);
  command->add_option("--start", arguments->fit.start,
                      "with --fit: keyframe for what the motion's first row does not say");
  command
      ->add_option(
          "--parameter", arguments->parameters,
          "also by this parameter, kind:element/field[index]; may be repeated. Of a body /mass leaves its inertia "
          "as it is, /scale changes both")
      ->allow_extra_args(false);
  AddSmoothOptions(command, &arguments->smooth, "slopes of a model with smoother contact along the true motion");
  AddAverageOptions(command, &arguments->average);
  CLI::Option* descend =
      command->add_option("--descend", arguments->descend,
                          "gd, lbfgs, adam or gauss-newton: follow the gradient; with --fit gauss-newton unless said");
  descend->check(CLI::IsMember({"gd", "lbfgs", "adam", "gauss-newton"}));
  CLI::Option* rate = command->add_option(
      "--rate", arguments->rate,
      "of gd: step = rate x gradient, without line search; of adam: step in typical sizes (default 0.03)");
  rate->check(Positive());
  CLI::Option* iterations = command->add_option("--iterations", arguments->iterations,
                                                "of the descent, at most (default 100); where a recorded motion is "
                                                "not met, as many again by way of its beginning");
  iterations->check(CLI::Range(0, 1000000));
  command
      ->add_option("--memory", arguments->memory,
                   "MiB for the states that are kept; what does not fit is simulated again")
      ->check(NonNegative());
  command->add_option("--entries", arguments->entries, "how many controls and starts to compare; 0: nothing")
      ->check(CLI::Range(0, 10000));
  command->add_option("--window", arguments->window, "truncate: drop the costate after each so many knots")
      ->check(NonNegative());
  command->add_option("--clip", arguments->clip, "shorten a costate that is longer than this")->check(NonNegative());
  command->add_option("--csv", arguments->csv, "write the gradient, the costate's norm and growth, one row a knot");
  command
      ->add_option("--out", arguments->out, "save the run in this folder: motion, that table, inputs, check, pictures")
      ->check(Given());
  command->add_flag("--spectral", arguments->spectral, "also the spectral radius of each step's A");
  command->add_flag("--certify", arguments->certify,
                    "also each knot's label: smooth or mode-crossing, and which switch");
  command->add_flag("--force", arguments->force, "replace the table or run that is there");
  command->add_flag("--no-plots", arguments->no_plots, "draw no pictures");
  CLI::Option* no_save =
      command->add_flag("--no-save", arguments->no_save, "of a descent: save nothing")->excludes("--out");
  command->add_flag("--quiet", arguments->quiet, "no line for each iteration");
  command->callback([=] {
    for (const CLI::Option* option : {rate, iterations, no_save})
      if (*option && !*descend && !*fit) throw CLI::RequiresError(option->get_name(), "--descend or --fit");
    *exit_code = RunGradient(*arguments);
  });
}

}  // namespace costate::cli
