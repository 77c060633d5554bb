// Derivatives of other people's models against the reference: one CSV line a model and state.
//   corpus_sweep OUT.csv [--state SECONDS] [--model SECONDS] [--levels] [--jobs N] [FOLDER | FILE.xml]…
//     --state 10   most seconds of the reference, a state; the columns that it does not reach are not judged
//     --model 200  most seconds a model; both of processor time
//     --levels     judge level 1 against level 2 instead: a line a state for all terms, each term alone and the solve
//     --jobs       models at a time, each on one thread; default: the cores, at most 4
//     --seed 0     of the controls: other numbers are other motions
//     --integrator, --cone, --solver   as in MJCF: every model with that one in place of its own
// Every MJCF file that loads is taken, at the states of `costate check` and in passive and driven motion; each model
// runs in a process of its own, so that none ends the sweep. Models that OUT.csv has already are passed over.
#include <costate/certificate.h>
#include <costate/derivative_check.h>
#include <fmt/core.h>
#include <fmt/os.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <regex>
#include <set>
#include <span>
#include <sstream>
#include <thread>

#include "core/engine_guard.h"
#include "core/option_words.h"
#include "derivative/check_levels.h"
#include "derivative/check_states.h"

namespace costate {
namespace {

constexpr double kSmallBar = 1e-6;    // of a block's largest entry: the reference is judged to be known there
constexpr double kGoal = 1e-7;        // of a block's largest entry, or three error bars
constexpr double kLevels = 1e-9;      // … and level 1 from level 2
constexpr double kRounding = 1e-14;   // of a matrix's largest entry: what no number of it can be known better than
constexpr double kMostEntries = 4e6;  // of A: larger models are listed, not judged
constexpr double kZeroBlock =
    1e-2;                         // a block that is zero within its bars borrows so much of its matrix's largest entry
constexpr double kMostWall = 20;  // of the processor time of a model
constexpr double kMotion[] = {0.05, 0.3, 1};  // [s] of driven motion before a state, under other controls each …
constexpr double kPassive = 0.5;              // … of passive motion …
constexpr int kMostSteps = 2000;              // … and engine steps at most

constexpr char kColumns[] =
    "model,state,nv,nu,ncon,nefc,level,label,worst,over,judged,nan,nonsmooth,complete,milliseconds,seconds,megabytes,"
    "entry,reasons,failure";

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// of this process, whatever else the machine does
double ProcessorSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// entries of one state against the goal
struct Score {
  long judged = 0, over = 0, nan = 0;
  double worst = 0;  // largest error of a block's largest entry
  std::string entry;
};

void AddBlock(const MatrixXd& value, const MatrixXd& reference, const MatrixXd& bar, int row, int rows, int col,
              int cols, const std::vector<bool>& nonsmooth, int first, const std::vector<std::string>& row_names,
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
      score->entry = fmt::format("d {}' / d {} = {:.9g} (reference {:.9g} +- {:.1g} of {:.3g})", row_names[i],
                                 col_names[j], value(i, j), reference(i, j), bar(i, j), scale);
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
      AddBlock(value.A, reference.value.A, reference.A_error, begin[r], size[r], begin[c], size[c],
               reference.nonsmooth_column, 0, tangent, tangent, &score);
    }
    AddBlock(value.B, reference.value.B, reference.B_error, begin[r], size[r], 0, dims.nu, reference.nonsmooth_column,
             dims.ndx, tangent, control, &score);
  }
  for (int s = 0; s < model->nsensor && value.C.size() > 0; s++) {
    for (int c = 0; c < 3; c++) {
      AddBlock(value.C, reference.value.C, reference.C_error, model->sensor_adr[s], model->sensor_dim[s], begin[c],
               size[c], reference.nonsmooth_column, 0, sensor, tangent, &score);
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

void JudgeState(const std::string& name, const mjModel* model, const CheckState& state, double seconds,
                std::FILE* out) {
  const double entered = ProcessorSeconds();
  const Dims dims(model);
  const DataPtr probe = MakeData(model);
  mj_copyState(model, state.data.get(), probe.get(), mjSTATE_INTEGRATION);
  std::string level = "-", label = "-", reasons, failure;
  Score score;
  bool complete = false;
  int nonsmooth = 0;
  double own = 0;
  try {
    EngineGuard guard(probe.get());
    mj_forward(model, probe.get());
    const double start = ProcessorSeconds();
    const StepDerivative value = Linearize(model, state.data.get());
    own = ProcessorSeconds() - start;
    level = ToString(value.coverage.Worst());
    reasons = Reasons(value.coverage);
    label = ToString(Certify(model, state.data.get()).label);
    if (value.status != StepStatus::kOk) {
      failure = ToString(value.status);
    } else if (static_cast<double>(dims.ndx) * dims.ndx > kMostEntries) {
      failure = "not judged: too large";
      score.nan = (value.A.array().isFinite() == false).count();
    } else {
      ReferenceOptions options;
      const double begin = ProcessorSeconds();
      options.progress = [&](int, int) { return ProcessorSeconds() - begin < seconds; };
      const ReferenceDerivative reference = Reference(model, state.data.get(), options);
      complete = reference.complete;
      nonsmooth =
          static_cast<int>(std::count(reference.nonsmooth_column.begin(), reference.nonsmooth_column.end(), true));
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
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  fmt::print(out, "{},{},{},{},{},{},{},{},{:.2e},{},{},{},{},{},{:.4g},{:.3g},{},{},{},{}\n", Quoted(name), state.name,
             dims.nv, dims.nu, probe->ncon, probe->nefc, level, label, score.worst, score.over, score.judged, score.nan,
             nonsmooth, complete ? 1 : 0, 1e3 * own, ProcessorSeconds() - entered, usage.ru_maxrss / 1024,
             Quoted(score.entry), Quoted(reasons), Quoted(failure));
  std::fflush(out);
}

// level 1 against level 2
void JudgeLevels(const std::string& name, const mjModel* model, const CheckState& state, std::FILE* out) {
  const double entered = ProcessorSeconds();
  const Dims dims(model);
  const DataPtr probe = MakeData(model);
  mj_copyState(model, state.data.get(), probe.get(), mjSTATE_INTEGRATION);
  std::string label = "-", failure;
  std::vector<TermResult> terms;
  try {
    EngineGuard guard(probe.get());
    mj_forward(model, probe.get());
    label = ToString(Certify(model, state.data.get()).label);
    ReferenceDerivative smooth;
    smooth.nonsmooth_column.assign(dims.ndx + dims.nu, false);
    smooth.switched.resize(dims.ndx + dims.nu);
    terms = CompareTerms(model, state.data.get(), true, smooth, &failure, kLevels);
    guard.TakeWarnings();
  } catch (const Error& error) {
    failure = error.what();
  }
  if (terms.empty()) terms.push_back({"all", {}, "", 0, 0, true});
  for (const TermResult& term : terms) {
    const EntryComparison& worst = term.worst;
    const std::string entry = term.judged == 0
                                  ? ""
                                  : fmt::format("{}: d {} / d {} = {:.9g} (level 2 {:.9g})", term.block, worst.row_name,
                                                worst.col_name, worst.value, worst.reference);
    fmt::print(out, "{},{}: {},{},{},{},{},analytic,{},{:.2e},{},{},0,0,1,,{:.3g},,{},,{}\n", Quoted(name), state.name,
               term.term, dims.nv, dims.nu, probe->ncon, probe->nefc, label, worst.error, term.wrong, term.judged,
               ProcessorSeconds() - entered, Quoted(entry), Quoted(failure));
  }
  std::fflush(out);
}

// what the models are judged at, beyond what they are
struct Variation {
  bool levels = false;
  unsigned seed = 0;
  int integrator = -1, cone = -1, solver = -1;  // -1: the model's own

  void Apply(mjModel* m) const {
    if (integrator >= 0) m->opt.integrator = integrator;
    if (cone >= 0) m->opt.cone = cone;
    if (solver >= 0) m->opt.solver = solver;
  }
};

// random controls, the same numbers for the same seed
void Drive(const mjModel* m, unsigned seed, mjData* d) {
  std::mt19937 engine(seed);
  for (int i = 0; i < m->nu; i++) {
    const bool limited = m->actuator_ctrllimited[i];
    const double lower = limited ? m->actuator_ctrlrange[2 * i] : -1,
                 upper = limited ? m->actuator_ctrlrange[2 * i + 1] : 1;
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

std::vector<CheckState> States(const mjModel* model, unsigned first_seed) {
  std::vector<std::string> notes;
  CheckStateOptions options;
  if (model->nkey > 0) options.key = "0";
  std::vector<CheckState> states = MakeCheckStates(model, options, &notes);
  for (CheckState& state : states) {
    if (state.name == "contact") Drive(model, first_seed, state.data.get());
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
    Drive(model, first_seed + seed, driven.get());
    if (StepOn(model, kMotion[seed - 1], driven.get()))
      states.push_back({fmt::format("driven {}", seed), "", std::move(driven), false});
  }
  return states;
}

// a model without a judgement
void Say(const std::string& name, const std::string& state, const std::string& failure, std::FILE* out) {
  fmt::print(out, "{},{},{}{}\n", Quoted(name), state,
             std::string(std::count(kColumns, std::end(kColumns), ',') - 2, ','), Quoted(failure));
  std::fflush(out);
}

struct Candidate {
  std::string name, file;
  bool part = false;  // of another file, that includes it
};

void JudgeModel(const Candidate& candidate, const Variation& variation, double seconds, std::FILE* out) {
  ModelPtr model;
  try {
    model = LoadModel(candidate.file);
  } catch (const Error& error) {
    return Say(candidate.name, "load", candidate.part ? "part of another file" : error.what(), out);
  }
  if (model->nv == 0) return Say(candidate.name, "load", "nothing in it can move", out);
  variation.Apply(model.get());
  try {
    for (const CheckState& state : States(model.get(), variation.seed)) {
      mjModel without = *model;
      if (state.contacts_off) without.opt.disableflags |= mjDSBL_CONTACT;
      if (variation.levels) {
        JudgeLevels(candidate.name, &without, state, out);
      } else {
        JudgeState(candidate.name, &without, state, seconds, out);
      }
    }
  } catch (const Error& error) {
    Say(candidate.name, "refused", error.what(), out);
  }
}

std::string Text(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// the MJCF files of all roots, interleaved over the folders in them, so that the first hundred are of every package
std::vector<Candidate> Candidates(const std::vector<std::string>& roots) {
  namespace fs = std::filesystem;
  std::map<std::string, std::vector<Candidate>> packages;
  std::set<fs::path> parts;
  const std::regex include("<include\\s+file\\s*=\\s*[\"']([^\"']*)");
  for (const std::string& root : roots) {
    if (!fs::is_directory(root)) {
      packages[root].push_back({root, root});
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      if (!entry.is_regular_file() || entry.path().extension() != ".xml") continue;
      const std::string text = Text(entry.path());
      if (text.find("<mujoco") == std::string::npos) continue;
      const fs::path name = fs::relative(entry.path(), root);
      packages[name.begin()->string()].push_back({name.string(), entry.path().string()});
      if (text.find("<mujocoinclude") != std::string::npos) parts.insert(fs::weakly_canonical(entry.path()));
      for (std::sregex_iterator i(text.begin(), text.end(), include), end; i != end; i++) {
        parts.insert(fs::weakly_canonical(entry.path().parent_path() / (*i)[1].str()));
      }
    }
  }
  std::vector<Candidate> all;
  for (size_t k = 0, added = 1; added > 0; k++) {
    added = 0;
    for (auto& [package, models] : packages) {
      if (k == 0) std::sort(models.begin(), models.end(), [](auto& a, auto& b) { return a.name < b.name; });
      if (k >= models.size()) continue;
      all.push_back(models[k]);
      all.back().part = parts.count(fs::weakly_canonical(models[k].file)) > 0;
      added++;
    }
  }
  return all;
}

// names of the models that a table has, and the table open behind its last whole line
std::set<std::string> Resume(const std::string& path, std::FILE** out) {
  std::set<std::string> done;
  std::string text = Text(path);
  text.resize(text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1);
  if (text.compare(0, std::strlen(kColumns), kColumns) != 0) text = std::string(kColumns) + "\n";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line[0] == '"') done.insert(line.substr(1, line.find('"', 1) - 1));
  }
  *out = std::fopen(path.c_str(), "w");
  if (*out != nullptr) std::fwrite(text.data(), 1, text.size(), *out);
  return done;
}

// one model in work, in a process of its own that writes into a file of its own
struct Job {
  Candidate candidate;
  std::FILE* lines = nullptr;
  Clock::time_point start;
};

Job Start(const Candidate& candidate, const Variation& variation, double state_seconds, double model_seconds,
          pid_t* child) {
  Job job{candidate, std::tmpfile(), Clock::now()};
  *child = job.lines != nullptr ? fork() : -1;
  if (*child == 0) {
    const itimerval limit = {{0, 0}, {static_cast<time_t>(model_seconds), 0}};
    setitimer(ITIMER_PROF, &limit, nullptr);
    alarm(static_cast<unsigned>(kMostWall * model_seconds));  // for what waits and does not work
    JudgeModel(candidate, variation, state_seconds, job.lines);
    std::_Exit(0);
  }
  return job;
}

// a model's lines at once, so that a sweep that is interrupted has all of a model or nothing
void Finish(const Job& job, int status, const std::string& progress, std::FILE* out) {
  if (WIFSIGNALED(status)) {
    const bool late = WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGPROF;
    Say(job.candidate.name, late ? "late" : "crash",
        late ? "out of time" : fmt::format("ended by signal {}", WTERMSIG(status)), job.lines);
  } else if (WEXITSTATUS(status) != 0) {
    Say(job.candidate.name, "crash", fmt::format("exits with {}", WEXITSTATUS(status)), job.lines);
  }
  std::string text;
  std::fseek(job.lines, 0, SEEK_SET);
  for (int c = std::fgetc(job.lines); c != EOF; c = std::fgetc(job.lines)) text += static_cast<char>(c);
  std::fclose(job.lines);
  std::fwrite(text.data(), 1, text.size(), out);
  std::fflush(out);
  fmt::print("{} {} ({} {}, {:.1f} s)\n", progress, job.candidate.name, std::count(text.begin(), text.end(), '\n'),
             text.find("\",load,") == std::string::npos ? "states" : "note", Since(job.start));
  std::fflush(stdout);
}

// number of a word among names, -2 where it is none of them
int Among(std::span<const char* const> names, const std::string& word) {
  const auto found = std::find(names.begin(), names.end(), word);
  return found == names.end() ? -2 : static_cast<int>(found - names.begin());
}

int Main(int argc, char** argv) {
  double state_seconds = 10, model_seconds = 200;
  int jobs = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 4);
  Variation variation;
  std::vector<std::string> roots;
  for (int i = 2; i < argc; i++) {
    const std::string word = argv[i];
    if (word.rfind("--", 0) != 0) {
      roots.push_back(word);
      continue;
    }
    if (word == "--levels") {
      variation.levels = true;
      continue;
    }
    const char* value = ++i < argc ? argv[i] : "";
    if (word == "--state") state_seconds = std::atof(value);
    if (word == "--model") model_seconds = std::atof(value);
    if (word == "--jobs") jobs = std::atoi(value);
    if (word == "--seed") variation.seed = static_cast<unsigned>(std::atoi(value));
    if (word == "--integrator") variation.integrator = Among(kIntegratorWords, value);
    if (word == "--cone") variation.cone = Among(kConeWords, value);
    if (word == "--solver") variation.solver = Among(kSolverWords, value);
  }
  const bool known = variation.integrator > -2 && variation.cone > -2 && variation.solver > -2;
  if (roots.empty() || !(state_seconds > 0) || !(model_seconds >= 1) || jobs < 1 || !known) {
    fmt::print(stderr,
               "usage: corpus_sweep OUT.csv [--state SECONDS] [--model SECONDS] [--levels] [--jobs N] [--seed N]\n"
               "                    [--integrator NAME] [--cone NAME] [--solver NAME] [FOLDER | FILE]…\n");
    return 2;
  }
  const std::vector<Candidate> candidates = Candidates(roots);
  std::FILE* out = nullptr;
  const std::set<std::string> done = Resume(argv[1], &out);
  if (out == nullptr) {
    fmt::print(stderr, "'{}' cannot be written\n", argv[1]);
    return 2;
  }
  if (!done.empty()) fmt::print("{} models stand in '{}'; remove it to judge them anew\n", done.size(), argv[1]);
  std::fflush(out);
  std::fflush(stdout);

  std::map<pid_t, Job> running;
  size_t next = 0, finished = 0;
  while (true) {
    while (next < candidates.size() && running.size() < static_cast<size_t>(jobs)) {
      const Candidate& candidate = candidates[next++];
      if (done.count(candidate.name) > 0) {
        finished++;
        continue;
      }
      pid_t child;
      Job job = Start(candidate, variation, state_seconds, model_seconds, &child);
      if (child < 0) {
        fmt::print(stderr, "no process can be started\n");
        return 2;
      }
      running[child] = job;
    }
    if (running.empty()) break;
    int status = 0;
    const pid_t child = waitpid(-1, &status, 0);
    const auto job = running.find(child);
    if (job == running.end()) continue;
    Finish(job->second, status, fmt::format("[{}/{}]", ++finished, candidates.size()), out);
    running.erase(job);
  }
  std::fclose(out);
  return 0;
}

}  // namespace
}  // namespace costate

int main(int argc, char** argv) { return costate::Main(argc, argv); }
