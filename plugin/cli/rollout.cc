// costate rollout: simulate a model or a task's guess, judge the motion in words, save it when asked.
#include <costate/constraint.h>
#include <costate/record.h>
#include <costate/task.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "cli/commands.h"
#include "cli/model_facts.h"
#include "cli/run_output.h"
#include "cli/terminal.h"
#include "core/lap.h"
#include "optimizer/task_csv.h"

namespace costate::cli {
namespace {

constexpr char kRolloutFooter[] = R"(
Controls come from --ctrl FILE.csv (or a saved run), else from a task's guess, else the keyframe's ctrl is held, else they
are zero. The file's columns are named as in trajectory.csv ("ctrl[hip]") or as the actuators ("hip"); without a header there
is one for each control. With a column "time" (the first of a file without header) they are interpolated, else each row is one
control interval. Beside controls there may be the other columns of a saved run or of a recorded motion, no others.

Printed are energies, contacts, constraint violation, solver iterations, saturated actuators and, as notes, everything
that makes a motion doubtful. --out saves the run: record.json, trajectory.csv, pictures; see `costate replay`.

Ctrl-C ends the simulation; what there is is judged and saved.

Exit code: 0 simulated, 1 the simulation diverged, 2 bad input, 130 interrupted.)";

constexpr double kDefaultTime = 2;    // [s]
constexpr int kMostKnots = 10000000;  // far beyond what anyone looks at; a typing error, not memory, ends it
constexpr int kKnotsPerUpdate = 100;  // of the progress bar: milliseconds at most

struct RolloutOptions {
  std::string input, key, controls, out;
  std::optional<double> time;
  int substeps = 0;  // 0: the task's, else 1
  bool force = false, no_plots = false, no_save = false;
};

// what is to be simulated; a model file makes a task without a cost
struct Setup {
  Task task;
  int task_N = 0;  // knots of which the task's constraints speak
};

// knots in `time`, rounded
int Knots(double time, double knot_time) {
  const double N = std::round(time / knot_time);
  if (!(time > 0) || N < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("--time {} s is shorter than one control interval of {} s", time, knot_time));
  }
  if (N > kMostKnots) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("--time {} s takes {} control intervals of {} s, at most {} are kept", time, N, knot_time,
                            kMostKnots));
  }
  return static_cast<int>(N);
}

// the first N of the given controls, the last one held beyond them
MatrixXd Extended(const MatrixXd& U, int N) {
  MatrixXd result(U.rows(), N);
  for (int t = 0; t < N; ++t) result.col(t) = U.col(std::min<Eigen::Index>(t, U.cols() - 1));
  return result;
}

Setup LoadTaskSetup(const RolloutOptions& options) {
  if (!options.key.empty() || options.substeps > 0) {
    throw Error(ErrorCode::kInvalidArgument, options.input +
                                                 " is a task, which states its own start and control interval: " +
                                                 "--key and --substeps are for models");
  }
  Setup setup;
  setup.task = LoadTask(options.input);
  setup.task_N = setup.task.N;
  return setup;
}

Setup LoadModelSetup(const RolloutOptions& options) {
  Setup setup;
  Task& task = setup.task;
  task.model_file = options.input;
  task.model = LoadModel(options.input, &task.warnings);
  task.substeps = std::max(1, options.substeps);
  const mjModel* m = task.model.get();
  DataPtr data = options.key.empty() ? MakeData(m) : MakeDataAtKey(m, options.key);
  task.x0 = GetState(m, data.get());
  task.context = GetContext(m, data.get());
  task.U_guess = Eigen::Map<VectorXd>(data->ctrl, m->nu);  // the keyframe's, held
  task.N = Knots(options.time.value_or(kDefaultTime), task.knot_time());
  return setup;
}

Setup MakeSetup(const RolloutOptions& options) {
  Setup setup = IsTaskFile(options.input) ? LoadTaskSetup(options) : LoadModelSetup(options);
  Task& task = setup.task;
  const double knot_time = task.knot_time();
  if (options.time) task.N = Knots(*options.time, knot_time);

  // a file of controls lasts as long as it lasts
  if (!options.controls.empty()) {
    const TimeSeries series = ReadControls(options.controls, task.model.get());
    const double rows = static_cast<double>(series.values.cols());
    const double duration = series.time.size() > 0 ? series.time[series.time.size() - 1] + knot_time : rows * knot_time;
    if (!options.time) task.N = Knots(duration, knot_time);
    task.U_guess = Sample(series, task.N, knot_time);
    const std::string more = LeftOut(series, task.N, knot_time);
    if (!more.empty())
      task.warnings.push_back(fmt::format("{} has {}: what is beyond them is left out", options.controls, more));
  }
  task.U_guess = Extended(task.U_guess, task.N);
  return setup;
}

// the knot where a number is largest
template <typename Member>
int LargestAt(const std::vector<KnotDiagnostics>& diagnostics, Member member) {
  const auto less = [member](const KnotDiagnostics& a, const KnotDiagnostics& b) { return a.*member < b.*member; };
  return static_cast<int>(std::max_element(diagnostics.begin(), diagnostics.end(), less) - diagnostics.begin());
}

void PrintDiagnostics(const mjModel* m, const Trajectory& trajectory, const std::vector<KnotDiagnostics>& diagnostics) {
  auto at = [&](int t) -> const KnotDiagnostics& { return diagnostics[static_cast<std::size_t>(t)]; };
  auto energy = [](const KnotDiagnostics& knot) { return knot.energy_potential + knot.energy_kinetic; };
  const KnotDiagnostics &first = diagnostics.front(), &last = diagnostics.back();
  fmt::print("  energy        {:.6g} J at the start, {:.6g} J at the end (kinetic {:.3g} J, potential {:.6g} J)\n",
             energy(first), energy(last), last.energy_kinetic, last.energy_potential);

  const int contacts = at(LargestAt(diagnostics, &KnotDiagnostics::contacts)).contacts;
  if (contacts > 0) {
    const int t = LargestAt(diagnostics, &KnotDiagnostics::penetration);
    fmt::print("  contacts      up to {}; deepest penetration {:.3g} mm at {:.4g} s\n", contacts,
               1e3 * at(t).penetration, trajectory.time[t]);
  } else {
    fmt::print("  contacts      none\n");
  }
  const int violated = LargestAt(diagnostics, &KnotDiagnostics::constraint_violation);
  if (at(violated).constraint_violation > 0) {
    fmt::print("  constraints   equality or limit violated by up to {:.3g} (m or rad) at {:.4g} s\n",
               at(violated).constraint_violation, trajectory.time[violated]);
  }
  const int slowest = LargestAt(diagnostics, &KnotDiagnostics::solver_iterations);
  fmt::print("  solver        up to {} of {} iterations\n", at(slowest).solver_iterations, m->opt.iterations);
  if (m->nu > 0) {
    const auto saturated = std::count_if(diagnostics.begin(), diagnostics.end() - 1,
                                         [](const KnotDiagnostics& knot) { return knot.saturated_actuators > 0; });
    fmt::print("  actuators     {}\n",
               saturated == 0 ? "none at a limit"
                              : fmt::format("some at a limit at {} of {} knots", saturated, trajectory.N()));
  }
}

void PrintCost(const Record& record) {
  std::string terms;
  for (const CostTermValue& term : record.cost_terms) {
    terms += fmt::format("{}{} {:.4g}", terms.empty() ? " = " : " + ", term.name, term.value);
  }
  fmt::print("  cost          {:.6g}{}\n", record.cost_per_knot.sum(), terms);
}

// what the task wants kept, as far as it can be told of a motion of this length
void JudgeConstraints(const Setup& setup, double knot_time, Record* record) {
  const Task& task = setup.task;
  if (task.constraints.size() == 0) return;
  if (record->trajectory.N() != setup.task_N) {
    fmt::print("  constraints   not looked at: they are of {} control intervals, the motion has {}\n", setup.task_N,
               record->trajectory.N());
    return;
  }
  for (const ConstraintReport& c : CheckConstraints(task.constraints, record->trajectory, knot_time)) {
    RecordConstraint(c, task.constrained.tolerance, record);
    PrintConstraint(c, task.constrained.tolerance, record->trajectory.time[c.knot] - record->trajectory.time[0]);
  }
}

void Save(const RolloutOptions& options, Setup* setup, Record* record) {
  Task& task = setup->task;
  record->settings = {{"key", options.key}, {"controls", options.controls}};
  record->model = std::move(task.model);
  SaveRun(options.out, record, options.force, !options.no_plots);
  fmt::print("  saved in      {}\n", options.out);
}

RolloutStatus Simulate(const Task& task, Simulator* simulator, Trajectory* trajectory) {
  Progress progress(task.N);
  return simulator->Rollout(task.x0, task.U_guess, trajectory, 0, [&](int knots) {
    if (knots % kKnotsPerUpdate != 0) return true;
    progress.Update(knots, "simulating");
    return !Interrupted();
  });
}

int RunRollout(const RolloutOptions& options) {
  CatchInterrupts();
  Setup setup = MakeSetup(options);
  if (!options.out.empty()) CheckRunFolder(options.out, options.force);
  const Task& task = setup.task;
  const mjModel* m = task.model.get();
  PrintWarnings(task.warnings);
  if (const std::string falls = FallsFreely(m); !falls.empty()) PrintWarnings({falls});
  Simulator simulator(m, task.context, task.substeps);
  const double duration = task.N * simulator.knot_time();
  fmt::print("{}: {}, {} steps of {:.4g} ms ({:.4g} s), {}\n", ModelName(m), SizesText(m), task.N * task.substeps,
             1e3 * m->opt.timestep, duration, IntegratorName(m));
  std::fflush(stdout);

  // simulate
  Record record = TaskRecord(task, "rollout");
  const Clock::time_point start = Clock::now();
  const RolloutStatus status = Simulate(task, &simulator, &record.trajectory);
  const double seconds = SecondsSince(start);
  const int N = record.trajectory.N();
  if (N < task.N) fmt::print("  interrupted   after {} of {} control intervals, which are kept\n", N, task.N);
  fmt::print("  simulated in  {:.3g} s, {:.3g} times real time\n", seconds, N * simulator.knot_time() / seconds);

  // judge
  record.diagnostics = simulator.Diagnose(record.trajectory);
  record.failures = LabelFailures(m, record.trajectory, status, record.diagnostics);
  record.status = !status.ok() ? "diverged" : N < task.N ? "interrupted" : "ok";
  record.message = status.ok() ? "" : record.failures.front();
  if (task.cost) {
    TakeCosts(task, record.trajectory, simulator.knot_time(), &record);
    PrintCost(record);
    if (status.ok()) JudgeConstraints(setup, simulator.knot_time(), &record);
  }
  PrintDiagnostics(m, record.trajectory, record.diagnostics);
  for (const std::string& failure : record.failures) {
    if (!failure.starts_with(kConstraintFailure)) fmt::print("  note          {}\n", failure);  // which stand above
  }
  if (!options.out.empty()) Save(options, &setup, &record);
  return !status.ok() ? kExitNo : N < task.N ? kExitInterrupted : kExitOk;
}

}  // namespace

void AddRolloutCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<RolloutOptions>();
  CLI::App* command = app.add_subcommand("rollout", "Simulate a model, or the guess of a task, and judge the motion");
  command->add_option("MODEL|TASK", options->input, "MJCF, URDF or MJB file, or a task file")->required();
  command->add_option("--key", options->key, "start at this keyframe, by name or number");
  command->add_option("--time", options->time, "seconds (default: the controls' or the task's, else 2)");
  command->add_option("--ctrl", options->controls, "controls from a CSV file or a saved run");
  command->add_option("--substeps", options->substeps, "engine steps that hold one control (default 1)")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--out", options->out, "save the run in this new folder")->check(Given());
  command->add_flag("--force", options->force, "replace the run that is there");
  command->add_flag("--no-plots", options->no_plots, "draw no pictures");
  command->add_flag("--no-save", options->no_save, "save nothing, as without --out")->excludes("--out");
  command->footer(kRolloutFooter);
  command->callback([options, exit_code] { *exit_code = RunRollout(*options); });
}

}  // namespace costate::cli
