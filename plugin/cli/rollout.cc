// costate rollout: simulate a model, judge the motion in words, save it when asked.
#include <costate/record.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "cli/commands.h"
#include "cli/model_facts.h"

namespace costate::cli {
namespace {

constexpr char kFooter[] = R"(
Controls, one row a control interval, from --ctrl FILE.csv (columns named as in trajectory.csv or as the actuators; or as
many columns as there are controls, without a header), else the keyframe's ctrl held, else zero.

Printed are energies, contacts, constraint violation, solver iterations, saturated actuators and, as notes, everything
that makes a motion doubtful. --out saves the run: record.json, trajectory.csv, pictures; see `costate replay`.

Exit code: 0 simulated, 1 the simulation diverged, 2 bad input.)";

constexpr double kDefaultTime = 2;     // [s]
constexpr int kMostKnots = 10000000;   // far beyond what anyone looks at; a typing error, not memory, ends it

struct RolloutOptions {
  std::string input, key, controls, out;
  std::optional<double> time;
  int substeps = 1;
  bool force = false, no_plots = false;
};

// what is to be simulated
struct Setup {
  ModelPtr model;
  VectorXd x0, context;
  MatrixXd U;
  int substeps = 1;
  std::vector<std::string> warnings;
};

// knots in `time`, rounded
int Knots(double time, double knot_time) {
  const double N = std::round(time / knot_time);
  if (!(time > 0) || N < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("--time {} s is shorter than one control interval of {} s", time, knot_time));
  }
  if (N > kMostKnots) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("--time {} s takes {} control intervals of {} s, at most {} are kept",
                                                         time, N, knot_time, kMostKnots));
  }
  return static_cast<int>(N);
}

// the first N of the given controls, the last one held beyond them
MatrixXd Extended(const MatrixXd& U, int N) {
  MatrixXd result(U.rows(), N);
  for (int t = 0; t < N; ++t) result.col(t) = U.col(std::min<Eigen::Index>(t, U.cols() - 1));
  return result;
}

Setup MakeSetup(const RolloutOptions& options) {
  Setup setup;
  setup.model = LoadModel(options.input, &setup.warnings);
  setup.substeps = options.substeps;
  const mjModel* m = setup.model.get();
  DataPtr data = options.key.empty() ? MakeData(m) : MakeDataAtKey(m, options.key);
  setup.x0 = GetState(m, data.get());
  setup.context = GetContext(m, data.get());
  setup.U = Eigen::Map<VectorXd>(data->ctrl, m->nu);  // the keyframe's, held

  // controls and horizon
  int N = 0;
  if (!options.controls.empty()) {
    setup.U = ReadControls(m, options.controls);
    N = static_cast<int>(setup.U.cols());
  }
  const double knot_time = setup.substeps * m->opt.timestep;
  if (N == 0 || options.time) N = Knots(options.time.value_or(kDefaultTime), knot_time);
  setup.U = Extended(setup.U, N);
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
  fmt::print("  energy        {:.6g} J at the start, {:.6g} J at the end (kinetic {:.3g} J, potential {:.6g} J)\n", energy(first),
             energy(last), last.energy_kinetic, last.energy_potential);

  const int contacts = at(LargestAt(diagnostics, &KnotDiagnostics::contacts)).contacts;
  if (contacts > 0) {
    const int t = LargestAt(diagnostics, &KnotDiagnostics::penetration);
    fmt::print("  contacts      up to {}; deepest penetration {:.3g} mm at {:.4g} s\n", contacts, 1e3 * at(t).penetration,
               trajectory.time[t]);
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
    fmt::print("  actuators     {} at a limit at {} of {} knots\n", saturated > 0 ? "some" : "none", saturated, trajectory.N());
  }
}

void Save(const RolloutOptions& options, Setup* setup, Simulator* simulator, Record* record) {
  record->command = "rollout";
  record->model_file = options.input;
  record->model = std::move(setup->model);
  record->context = setup->context;
  record->substeps = simulator->substeps();
  record->warnings = setup->warnings;
  record->settings = {{"key", options.key}, {"controls", options.controls}};
  const std::size_t before = record->warnings.size();
  WriteRecord(options.out, *record, {.force = options.force, .plots = !options.no_plots});
  PrintWarnings({record->warnings.begin() + static_cast<std::ptrdiff_t>(before), record->warnings.end()});
  fmt::print("  saved in      {}\n", options.out);
}

int RunRollout(const RolloutOptions& options) {
  Setup setup = MakeSetup(options);
  PrintWarnings(setup.warnings);
  Simulator simulator(setup.model.get(), setup.context, setup.substeps);
  const int N = static_cast<int>(setup.U.cols());
  fmt::print("{}: {}, {} steps of {:.4g} ms ({:.4g} s), {}\n", ModelName(setup.model.get()), SizesText(setup.model.get()), N * setup.substeps,
             1e3 * setup.model->opt.timestep, N * simulator.knot_time(), IntegratorName(setup.model.get()));

  // simulate
  Record record;
  const auto start = std::chrono::steady_clock::now();
  const RolloutStatus status = simulator.Rollout(setup.x0, setup.U, &record.trajectory);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("  simulated in  {:.3g} s, {:.3g} times real time\n", seconds, N * simulator.knot_time() / seconds);

  // judge
  record.diagnostics = simulator.Diagnose(record.trajectory);
  record.failures = LabelFailures(setup.model.get(), record.trajectory, status, record.diagnostics);
  record.status = status.ok() ? "ok" : "diverged";
  record.message = status.ok() ? "" : record.failures.front();
  PrintDiagnostics(setup.model.get(), record.trajectory, record.diagnostics);
  for (const std::string& failure : record.failures) fmt::print("  note          {}\n", failure);
  if (!options.out.empty()) Save(options, &setup, &simulator, &record);
  return status.ok() ? kExitOk : kExitNo;
}

}  // namespace

void AddRolloutCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<RolloutOptions>();
  CLI::App* command = app.add_subcommand("rollout", "Simulate a model and judge the motion");
  command->add_option("MODEL", options->input, "MJCF, URDF or MJB file")->required();
  command->add_option("--key", options->key, "start at this keyframe, by name or number");
  command->add_option("--time", options->time, "seconds (default: as long as the controls, else 2)");
  command->add_option("--ctrl", options->controls, "controls from a CSV file");
  command->add_option("--substeps", options->substeps, "engine steps that hold one control (default 1)")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--out", options->out, "save the run in this new folder");
  command->add_flag("--force", options->force, "replace the run that is there");
  command->add_flag("--no-plots", options->no_plots, "draw no pictures");
  command->footer(kFooter);
  command->callback([options, exit_code] { *exit_code = RunRollout(*options); });
}

}  // namespace costate::cli
