// Derivatives of other people's models against the reference: one CSV line a model and state.
//   corpus_sweep OUT.csv SECONDS [FOLDER | FILE.xml]…     SECONDS: of the reference, a state
// Every MJCF file that loads is taken, at the states of `costate check` and in passive and driven motion; each model runs in
// a process of its own, so that none ends the sweep.
#include <costate/derivative_check.h>
#include <fmt/core.h>
#include <fmt/os.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "cli/check_states.h"
#include "core/engine_guard.h"

namespace costate {
namespace {

constexpr double kSmallBar = 1e-6;  // of a block's largest entry: the reference is judged to be known there
constexpr double kGoal = 1e-7;      // of a block's largest entry, or three error bars
constexpr double kRounding = 1e-14;   // of a matrix's largest entry: what no number of it can be known better than
constexpr double kMostEntries = 4e6;  // of A: larger models are listed, not judged
constexpr double kZeroBlock = 1e-2;   // a block that is zero within its bars borrows so much of its matrix's largest entry
constexpr double kMotion[] = {0.05, 0.3, 1};  // [s] of driven motion before a state, under other controls each …
constexpr double kPassive = 0.5;              // … of passive motion …
constexpr int kMostSteps = 2000;              // … and engine steps at most

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// entries of one state against the goal
struct Score {
  long judged = 0, over = 0, nan = 0;
  double worst = 0;  // largest error of a block's largest entry
  std::string entry;
};

void AddBlock(const MatrixXd& value, const MatrixXd& reference, const MatrixXd& bar, int row, int rows, int col, int cols,
              const std::vector<bool>& nonsmooth, int first, const std::vector<std::string>& row_names,
              const std::vector<std::string>& col_names, Score* score) {
  if (rows == 0 || cols == 0) return;
  double scale = 1e-9, largest = 0;
  bool zero = true;
  for (int j = col; j < col + cols; j++) {
    if (nonsmooth[first + j]) continue;
    for (int i = 0; i < reference.rows(); i++) {
      if (!std::isfinite(bar(i, j))) continue;
      largest = std::max(largest, std::abs(reference(i, j)));
      if (i < row || i >= row + rows) continue;
      scale = std::max(scale, std::abs(reference(i, j)));
      zero = zero && std::abs(reference(i, j)) <= 3 * bar(i, j);
    }
  }
  if (zero) scale = std::max(scale, kZeroBlock * largest);
  for (int j = col; j < col + cols; j++) {
    for (int i = row; i < row + rows; i++) {
      score->nan += !std::isfinite(value(i, j));
      if (nonsmooth[first + j] || !(bar(i, j) < kSmallBar * scale)) continue;
      const double error = std::abs(value(i, j) - reference(i, j));
      score->judged++;
      if (!(error <= std::max({kGoal * scale, 3 * bar(i, j), kRounding * largest}))) score->over++;
      if (!(error / scale > score->worst)) continue;
      score->worst = error / scale;
      score->entry = fmt::format("d {}' / d {} = {:.9g} (reference {:.9g} +- {:.1g} of {:.3g})", row_names[i], col_names[j],
                                 value(i, j), reference(i, j), bar(i, j), scale);
    }
  }
}

Score Judge(const mjModel* model, const StepDerivative& value, const ReferenceDerivative& reference) {
  const Dims dims(model);
  const auto tangent = TangentNames(model), control = ControlNames(model), sensor = SensorNames(model);
  Score score;
  const int begin[] = {0, dims.nv, 2 * dims.nv}, size[] = {dims.nv, dims.nv, dims.na};
  for (int r = 0; r < 3; r++) {
    for (int c = 0; c < 3; c++) {
      AddBlock(value.A, reference.value.A, reference.A_error, begin[r], size[r], begin[c], size[c], reference.nonsmooth_column, 0,
               tangent, tangent, &score);
    }
    AddBlock(value.B, reference.value.B, reference.B_error, begin[r], size[r], 0, dims.nu, reference.nonsmooth_column, dims.ndx,
             tangent, control, &score);
  }
  for (int s = 0; s < model->nsensor && value.C.size() > 0; s++) {
    for (int c = 0; c < 3; c++) {
      AddBlock(value.C, reference.value.C, reference.C_error, model->sensor_adr[s], model->sensor_dim[s], begin[c], size[c],
               reference.nonsmooth_column, 0, sensor, tangent, &score);
    }
    AddBlock(value.D, reference.value.D, reference.D_error, model->sensor_adr[s], model->sensor_dim[s], 0, dims.nu,
             reference.nonsmooth_column, dims.ndx, sensor, control, &score);
  }
  return score;
}

std::string Quoted(std::string text) {
  for (char& c : text) c = c == '"' ? '\'' : c == '\n' ? ' ' : c;
  return '"' + text + '"';
}

std::string Reasons(const Coverage& coverage) {
  std::string text;
  for (const TermCoverage& term : coverage.terms) {
    if (term.level != Level::kAnalytic) text += (text.empty() ? "" : "; ") + term.term + ": " + term.reason;
  }
  return text;
}

void JudgeState(const std::string& name, const mjModel* model, const cli::CheckState& state, double seconds, std::FILE* out) {
  const Dims dims(model);
  const DataPtr probe = MakeData(model);
  mj_copyState(model, state.data.get(), probe.get(), mjSTATE_INTEGRATION);
  std::string level = "-", reasons, failure;
  Score score;
  bool complete = false;
  int nonsmooth = 0;
  double own = 0;
  try {
    EngineGuard guard(probe.get());
    mj_forward(model, probe.get());
    const Clock::time_point start = Clock::now();
    const StepDerivative value = Linearize(model, state.data.get());
    own = Since(start);
    level = ToString(value.coverage.Worst());
    reasons = Reasons(value.coverage);
    if (value.status != StepStatus::kOk) {
      failure = ToString(value.status);
    } else if (static_cast<double>(dims.ndx) * dims.ndx > kMostEntries) {
      failure = "not judged: too large";
      score.nan = (value.A.array().isFinite() == false).count();
    } else {
      ReferenceOptions options;
      const Clock::time_point begin = Clock::now();
      options.progress = [&](int, int) { return Since(begin) < seconds; };
      const ReferenceDerivative reference = Reference(model, state.data.get(), options);
      complete = reference.complete;
      nonsmooth = static_cast<int>(std::count(reference.nonsmooth_column.begin(), reference.nonsmooth_column.end(), true));
      if (reference.value.status == StepStatus::kOk) {
        score = Judge(model, value, reference);
      } else {
        failure = std::string("reference: ") + ToString(reference.value.status);
      }
    }
    guard.TakeWarnings();
  } catch (const Error& error) {
    failure = error.what();
  }
  fmt::print(out, "{},{},{},{},{},{},{},{:.2e},{},{},{},{},{},{:.4g},{},{},{}\n", Quoted(name), state.name, dims.nv, dims.nu,
             probe->ncon, probe->nefc, level, score.worst, score.over, score.judged, score.nan, nonsmooth, complete ? 1 : 0,
             1e3 * own, Quoted(score.entry), Quoted(reasons), Quoted(failure));
  std::fflush(out);
}

// random controls, the same numbers for the same seed
void Drive(const mjModel* m, unsigned seed, mjData* d) {
  std::mt19937 engine(seed);
  for (int i = 0; i < m->nu; i++) {
    const bool limited = m->actuator_ctrllimited[i];
    const double lower = limited ? m->actuator_ctrlrange[2 * i] : -1, upper = limited ? m->actuator_ctrlrange[2 * i + 1] : 1;
    d->ctrl[i] = lower + (upper - lower) * static_cast<double>(engine()) / 4294967296.0;
  }
}

// false when the motion ends in a warning of the engine
bool StepOn(const mjModel* model, double seconds, mjData* d) {
  EngineGuard guard(d);
  mjModel local = *model;
  local.opt.disableflags |= mjDSBL_AUTORESET;
  const double steps = std::min(seconds / model->opt.timestep, 1.0 * kMostSteps);
  for (int k = 0; k < steps; k++) mj_step(&local, d);
  return guard.TakeWarnings().empty();
}

std::vector<cli::CheckState> States(const mjModel* model) {
  std::vector<std::string> notes;
  cli::CheckStateOptions options;
  if (model->nkey > 0) options.key = "0";
  std::vector<cli::CheckState> states = cli::MakeCheckStates(model, options, &notes);
  for (cli::CheckState& state : states) {
    if (state.name == "contact") Drive(model, 0, state.data.get());
  }
  const auto copy = [&] {
    DataPtr data = MakeData(model);
    mj_copyState(model, states[0].data.get(), data.get(), mjSTATE_INTEGRATION);
    return data;
  };
  DataPtr passive = copy();
  if (StepOn(model, kPassive, passive.get())) states.push_back({"passive", "", std::move(passive), false});
  for (unsigned seed = 1; seed <= std::size(kMotion); seed++) {
    DataPtr driven = copy();
    Drive(model, seed, driven.get());
    if (StepOn(model, kMotion[seed - 1], driven.get())) states.push_back({fmt::format("driven {}", seed), "", std::move(driven), false});
  }
  return states;
}

void JudgeModel(const std::string& name, const std::string& file, double seconds, std::FILE* out) {
  ModelPtr model;
  try {
    model = LoadModel(file);
  } catch (const Error&) {
    return;  // a fragment that others include
  }
  if (model->nv == 0) return;
  try {
    for (const cli::CheckState& state : States(model.get())) {
      mjModel without = *model;
      if (state.contacts_off) without.opt.disableflags |= mjDSBL_CONTACT;
      JudgeState(name, &without, state, seconds, out);
    }
  } catch (const Error& error) {
    fmt::print(out, "{},-,{},{},,,,,,,,,,,,,{}\n", Quoted(name), model->nv, model->nu, Quoted(error.what()));
  }
}

bool IsMjcf(const std::filesystem::path& path) {
  if (path.extension() != ".xml") return false;
  std::ifstream file(path);
  std::string head(4096, '\0');
  file.read(head.data(), 4096);
  return head.find("<mujoco") != std::string::npos;
}

int Main(int argc, char** argv) {
  if (argc < 4) {
    fmt::print(stderr, "usage: corpus_sweep OUT.csv SECONDS [FOLDER | FILE]…\n");
    return 2;
  }
  const double seconds = std::atof(argv[2]);
  std::vector<std::pair<std::string, std::string>> models;  // name, file
  for (int i = 3; i < argc; i++) {
    const std::filesystem::path root = argv[i];
    if (!std::filesystem::is_directory(root)) {
      models.emplace_back(root.string(), root.string());
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (entry.is_regular_file() && IsMjcf(entry.path())) {
        models.emplace_back(std::filesystem::relative(entry.path(), root).string(), entry.path().string());
      }
    }
  }
  std::sort(models.begin(), models.end());
  std::FILE* out = std::fopen(argv[1], "w");
  if (!out) return 2;
  fmt::print(out, "model,state,nv,nu,ncon,nefc,level,worst,over,judged,nan,nonsmooth,complete,milliseconds,entry,reasons,failure\n");
  std::fflush(out);
  for (const auto& [name, file] : models) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(static_cast<unsigned>(10 * seconds + 120));
      JudgeModel(name, file, seconds, out);
      std::_Exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) {
      fmt::print(out, "{},-,,,,,,,,,,,,,,,{}\n", Quoted(name),
                 Quoted(WTERMSIG(status) == SIGALRM ? "out of time" : fmt::format("ended by signal {}", WTERMSIG(status))));
      std::fflush(out);
    }
  }
  std::fclose(out);
  return 0;
}

}  // namespace
}  // namespace costate

int main(int argc, char** argv) { return costate::Main(argc, argv); }
