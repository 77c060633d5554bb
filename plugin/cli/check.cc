// costate check: a derivative against the reference, at the given state, in free motion and in contact.
#include <costate/certificate.h>
#include <costate/derivative_check.h>
#include <fmt/core.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/certificate_text.h"
#include "cli/commands.h"
#include "cli/model_facts.h"
#include "cli/smooth_options.h"
#include "cli/terminal.h"
#include "core/lap.h"
#include "core/new_file.h"
#include "derivative/check_levels.h"
#include "derivative/check_states.h"
#include "derivative/level_words.h"
#include "rollout/check_smooth.h"
#include "rollout/plot.h"

namespace costate::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kCheckFooter[] = R"(
Compared is A = dx'/dx, B = dx'/du, C = ds/dx, D = ds/du of one control interval (x: qpos tangent, qvel, act; s: sensors)
with centred differences of the fully converged step at several sizes, extrapolated, with an error bar an entry. It is
always done at the given state, in a free motion (near that state, joints inside their limits, random velocities and
controls, contacts disabled) and, when the model can have contacts, in contact (found by simulating on from the given
state).

  wrong       |value - reference| > tolerance * scale + 3 error bars (10 where it is noisy); scale: largest entry of the
              block (of each sensor)
  noisy       not wrong, but the reference's error bar exceeds tolerance * scale: solver noise, or a corner that shows only
              as step sizes that disagree
  not smooth  not compared: contacts, constraint states or limits switch under the smallest nudge of that input

At each state all levels (analytic, residual difference, step difference) are compared as well. --terms compares
the analytic level with the residual difference (all) and switches its terms to differences one by one: the one whose closed
form differs is named. --eps-sweep FOLDER writes, for
each state, FOLDER/STATE/sweep.csv and sweep.png: the largest error against the reference over the size of the nudge.

--smooth makes a model with smoother contact and says, block by block, how far its derivative is from the true one at the same
state (bias, mean), and from the average of the true one under noise on positions of half the length that the smoothing has (averaged;
--json has its standard error too): none of it is an error. Verdict and exit code are those of the true derivative.

JSON (--json): { model, file, version, mujoco, sizes{nq nv na nu ns}, level, centered, eps, substeps, tolerance, smoothing,
  agrees, complete, notes[], states[ { name, description, contacts, constraints, agrees, complete, failure, derivative_seconds,
  coverage[{term level reason}], certificate{valid label one_sided[] solver_gap{size
  name engine converged slope} switches[{name state next distance unit active}]}, blocks[{name rows cols scale judged wrong nonsmooth noisy agrees worst{row col row_name
  col_name value reference error error_bar}}], levels[{level refused seconds judged wrong block worst}], terms[{term agrees
  block worst}], smoothed[{block scale largest mean averaged
  deviation smoothed true row col}], nonsmooth_columns[] } ] }
  error and error_bar are relative to scale; worst is null when no entry could be judged; failure is null or a sentence.

Exit code: 0 agrees at every state, or there is nothing to compare; 1 disagrees, or nothing could be judged; 2 bad input;
130 interrupted.)";

struct CheckOptions {
  std::string model_file;
  CheckStateOptions state;
  LinearizeOptions derivative;
  double tolerance = 1e-4;
  bool json = false, terms = false, force = false;
  std::string sweep;  // folder; "": none
  SmoothArguments smooth;
};

// what was found at one state
struct Finding {
  const CheckState* state = nullptr;
  int contacts = 0, constraints = 0;
  std::string failure;  // why nothing could be compared
  StepDerivative derivative;
  DerivativeComparison comparison;
  Certificate certificate;
  std::vector<LevelResult> levels;
  std::vector<TermResult> terms;
  std::vector<SmoothBias> bias;  // of the smoothing
  std::string no_terms;          // why there are none
  double seconds = 0;            // of the derivative
  bool complete = true;
  bool agrees = true;
};

// entries of all blocks, and how many of them were judged
struct Entries {
  int all = 0, judged = 0;
};

Entries Count(const Finding& finding) {
  Entries count;
  for (const BlockComparison& block : finding.comparison.blocks) {
    count.all += block.rows * block.cols;
    count.judged += block.judged;
  }
  return count;
}

// sweep.csv and sweep.png into an existing folder; "" or why there is no picture
std::string WriteSweep(const std::string& folder, const std::string& state, const std::vector<SweepRow>& rows,
                       bool force) {
  const std::filesystem::path path = folder;
  std::string table = "eps,forward,centered,analytic,residual\n";
  for (const SweepRow& r : rows) {
    table += fmt::format("{:.6e},{:.6e},{:.6e},{:.6e},{:.6e}\n", r.eps, r.forward, r.centered, r.analytic, r.residual);
  }
  const Plot plot{
      .file = "sweep.png",
      .table = "sweep.csv",
      .title = "largest error against the reference, " + state,
      .x_label = "size of the nudge eps",
      .y_label = "error relative to the block's largest entry",
      .columns = {1, 2, 3, 4},
      .labels = {"mjd_transitionFD, forward", "mjd_transitionFD, centred", "analytic", "residual difference"},
      .logarithmic = true,
      .logarithmic_x = true};
  WriteNewFile(path / "sweep.csv", table, force);
  WriteNewFile(path / "sweep.gnuplot", PlotScript({plot}), force);
  return RunGnuplot(path, "sweep.gnuplot");
}

// error over step size, in a folder of the state's own
void Sweep(const mjModel* model, const CheckState& state, const ReferenceDerivative& reference,
           const CheckOptions& options) {
  std::string name = state.name;
  for (char& c : name) c = c == ' ' ? '_' : c;
  const std::string folder = options.sweep + "/" + name;
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) throw Error(ErrorCode::kFile, fmt::format("folder '{}' cannot be created: {}", folder, failed.message()));
  CheckWritable(folder + "/sweep.csv", options.force);
  const std::vector<SweepRow> rows = SweepSteps(model, state.data.get(), options.derivative, reference);
  const std::string missing = WriteSweep(folder, state.name, rows, options.force);
  if (!missing.empty()) PrintWarnings({folder + "/sweep.csv has no picture: " + missing});
}

Finding CheckAt(const mjModel* model, const CheckState& state, const CheckOptions& options, Progress* progress) {
  Finding finding;
  finding.state = &state;
  ModelPtr without_contacts;
  if (state.contacts_off) {
    without_contacts = CopyModel(model);
    without_contacts->opt.disableflags |= mjDSBL_CONTACT;
    model = without_contacts.get();
  }

  // what is active there
  const Dims dims(model);
  DataPtr probe = MakeData(model);
  mj_copyState(model, state.data.get(), probe.get(), mjSTATE_INTEGRATION);
  VectorXd nothing;
  const StepStatus status = Forward(model, probe.get(), GetState(model, state.data.get()),
                                    Eigen::Map<const VectorXd>(state.data->ctrl, dims.nu), nothing);
  finding.contacts = probe->ncon;
  finding.constraints = probe->nefc;

  progress->Stage(0, state.name + ": switches");
  finding.certificate = Certify(model, state.data.get());

  // the derivative, then its judge
  progress->Stage(0, state.name + ": derivative");
  const Clock::time_point start = Clock::now();
  finding.derivative = Linearize(model, state.data.get(), options.derivative);
  finding.seconds = SecondsSince(start);
  StepStatus failed = status != StepStatus::kOk ? status : finding.derivative.status;
  if (failed == StepStatus::kOk) {
    ReferenceOptions reference_options;
    reference_options.substeps = options.derivative.substeps;
    reference_options.sensors = options.derivative.sensors;
    reference_options.progress = [&](int done, int total) {
      progress->Update(100 * done / total, fmt::format("reference, {}: column {} of {}", state.name, done, total));
      return !Interrupted();
    };
    const ReferenceDerivative reference = Reference(model, state.data.get(), reference_options);
    finding.complete = reference.complete;
    failed = reference.value.status;
    if (failed == StepStatus::kOk) {
      finding.comparison = Compare(model, finding.derivative, reference, {options.tolerance});
    }

    // the rest takes as long again: not where the reference was interrupted
    const bool goes_on = failed == StepStatus::kOk && finding.complete;
    if (goes_on) {
      const auto stage = [&](const std::string& level) { progress->Stage(100, state.name + ": " + level); };
      finding.levels = CompareLevels(model, state.data.get(), options.derivative, reference, options.tolerance, stage);
      if (!options.sweep.empty()) progress->Stage(100, state.name + ": error over step size");
      if (!options.sweep.empty()) Sweep(model, state, reference, options);
    }
    if (options.terms && goes_on) {
      progress->Stage(100, state.name + ": term by term");
      finding.terms = CompareTerms(model, state.data.get(), options.derivative.sensors, reference, &finding.no_terms);
    }
  }
  if (options.smooth.chosen() && failed == StepStatus::kOk && finding.complete) {
    progress->Stage(100, state.name + ": smoothed");
    finding.bias = CompareSmooth(model, state.data.get(), ReadSmooth(model, options.smooth), options.derivative);
  }
  if (failed != StepStatus::kOk) finding.failure = fmt::format("the step fails here: {}", ToString(failed));
  finding.agrees = finding.failure.empty() && finding.comparison.agrees;
  return finding;
}

// "analytic: rne, passive; step difference: sensors (why)", best level first
std::string CoverageText(const Coverage& coverage) {
  std::string text;
  for (Level level : {Level::kAnalytic, Level::kResidual, Level::kStep}) {
    std::string terms;
    for (const TermCoverage& term : coverage.terms) {
      if (term.level != level) continue;
      terms += (terms.empty() ? "" : ", ") + term.term + (term.reason.empty() ? "" : " (" + term.reason + ")");
    }
    if (!terms.empty()) text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", ToString(level), terms);
  }
  return text;
}

void PrintBlock(const BlockComparison& block) {
  const int entries = block.rows * block.cols;
  const std::string judged =
      block.judged == entries ? fmt::format("{}", entries) : fmt::format("{}/{}", block.judged, entries);
  if (block.judged == 0) {
    fmt::print("  {:<15} {:>7} {:>7} {:>9}  not judged\n", block.name, "-", "-", judged);
    return;
  }
  const EntryComparison& w = block.worst;
  fmt::print("  {:<15} {:7.1e} {:7.1e} {:>9}  {}d {} / d {} = {:.9g} (reference {:.9g})\n", block.name, w.error,
             w.error_bar, judged, block.wrong > 0 ? fmt::format("{} WRONG: ", block.wrong) : "", w.row_name, w.col_name,
             w.value, w.reference);
}

// where nothing could be said, and why
void PrintLimits(const Finding& finding, double tolerance) {
  for (const std::string& column : finding.comparison.nonsmooth_columns) {
    fmt::print("  not smooth in {} switch under every nudge\n", column);
  }
  if (!finding.complete) fmt::print("  interrupted: the columns not reached are not judged\n");
  for (const BlockComparison& block : finding.comparison.blocks) {
    if (block.noisy == 0 || !finding.complete) continue;
    fmt::print(
        "  {}: {} of {} entries too noisy for a tolerance of {:.0e} (solver or narrow-phase noise, or a corner)\n",
        block.name, block.noisy, block.rows * block.cols, tolerance);
  }
}

void PrintLevels(const Finding& finding) {
  if (finding.levels.empty()) return;
  fmt::print("  {:<20} {:>7} {:>7} {:>6} {:>9}  {}\n", "level", "error", "bar", "wrong", "ms", "worst entry");
  for (const LevelResult& level : finding.levels) {
    if (!level.refused.empty()) {
      fmt::print("  {:<20} {:>7} {:>7} {:>6} {:>9}  {}\n", level.name, "-", "-", "-", "-", level.refused);
      continue;
    }
    if (level.judged == 0) {
      fmt::print("  {:<20} {:>7} {:>7} {:>6} {:9.3g}  not judged\n", level.name, "-", "-", "-", 1e3 * level.seconds);
      continue;
    }
    const EntryComparison& w = level.worst;
    fmt::print("  {:<20} {:7.1e} {:7.1e} {:>6} {:9.3g}  d {} / d {}\n", level.name, w.error, w.error_bar, level.wrong,
               1e3 * level.seconds, w.row_name, w.col_name);
  }
}

void PrintSmoothBias(const Finding& finding) {
  if (finding.bias.empty()) return;
  fmt::print("  {:<15} {:>8} {:>8} {:>8}  {}\n", "smoothed", "bias", "mean", "averaged",
             "relative to the true block's largest; worst entry");
  for (const SmoothBias& b : finding.bias) {
    const double scale = b.scale > 0 ? b.scale : 1;
    fmt::print("  {:<15} {:8.1e} {:8.1e} {:>8}  d {} / d {} = {:.6g}, true {:.6g}\n", b.block, b.largest / scale,
               b.mean / scale, std::isfinite(b.averaged) ? fmt::format("{:.1e}", b.averaged / scale) : "-", b.row,
               b.col, b.value, b.truth);
  }
}

void PrintTerms(const Finding& finding) {
  if (!finding.no_terms.empty()) fmt::print("  terms: not to be compared: {}\n", finding.no_terms);
  if (finding.terms.empty()) return;
  fmt::print("  {:<20} {:>7}  {}\n", "term", "error", "closed form against its own differences");
  for (const TermResult& term : finding.terms) {
    if (term.judged == 0) {
      fmt::print("  {:<20} {:>7}  not judged\n", term.term, "-");
      continue;
    }
    const EntryComparison& w = term.worst;
    fmt::print("  {:<20} {:7.1e}  {}d {} / d {} = {:.9g} (differences {:.9g})\n", term.term, w.error,
               term.agrees ? "" : "DIFFERS: ", w.row_name, w.col_name, w.value, w.reference);
  }
}

void PrintFinding(const Finding& finding, const CheckOptions& options) {
  fmt::print("\n{}: {}\n", finding.state->name, finding.state->description);
  fmt::print("  {} contacts, {} constraint rows; {:.3g} ms\n", finding.contacts, finding.constraints,
             1e3 * finding.seconds);
  for (const std::string& line : CertificateLines(finding.certificate)) fmt::print("  {}\n", line);
  const std::string coverage = CoverageText(finding.derivative.coverage);
  if (!coverage.empty()) fmt::print("  {}\n", coverage);
  if (!finding.failure.empty()) {
    fmt::print("  {}\n", finding.failure);
    return;
  }
  fmt::print("  {:<15} {:>7} {:>7} {:>9}  {}\n", "block", "error", "bar", "judged", "worst entry");
  for (const BlockComparison& block : finding.comparison.blocks) PrintBlock(block);
  PrintLimits(finding, options.tolerance);
  PrintLevels(finding);
  PrintTerms(finding);
  PrintSmoothBias(finding);
}

Json ToJson(const EntryComparison& w) {
  return {{"row", w.row},           {"col", w.col},
          {"row_name", w.row_name}, {"col_name", w.col_name},
          {"value", w.value},       {"reference", w.reference},
          {"error", w.error},       {"error_bar", w.error_bar}};
}

Json ToJson(const BlockComparison& block) {
  Json worst = nullptr;
  if (block.judged > 0) worst = ToJson(block.worst);
  return {{"name", block.name},     {"rows", block.rows},   {"cols", block.cols},   {"scale", block.scale},
          {"judged", block.judged}, {"wrong", block.wrong}, {"noisy", block.noisy}, {"nonsmooth", block.nonsmooth},
          {"agrees", block.agrees}, {"worst", worst}};
}

Json ToJson(const Certificate& certificate) {
  Json switches = Json::array();
  for (const Switch& s : certificate.switches) {
    switches.push_back({{"name", s.name},
                        {"state", s.state},
                        {"next", s.next},
                        {"distance", s.distance},
                        {"unit", s.unit},
                        {"active", s.active}});
  }
  return {{"valid", certificate.valid},
          {"label", ToString(certificate.label)},
          {"one_sided", certificate.one_sided},
          {"solver_gap",
           {{"size", certificate.solver_gap.size},
            {"name", certificate.solver_gap.name},
            {"engine", certificate.solver_gap.engine},
            {"converged", certificate.solver_gap.converged},
            {"slope", certificate.solver_gap.slope}}},
          {"switches", switches}};
}

Json ToJson(const Finding& finding) {
  Json blocks = Json::array(), coverage = Json::array(), levels = Json::array(), terms = Json::array(),
       smoothed = Json::array();
  for (const LevelResult& level : finding.levels) {
    const bool known = level.judged > 0;
    levels.push_back({{"level", level.name},
                      {"refused", level.refused.empty() ? Json(nullptr) : Json(level.refused)},
                      {"seconds", level.seconds},
                      {"judged", level.judged},
                      {"wrong", level.wrong},
                      {"block", level.block},
                      {"worst", known ? ToJson(level.worst) : Json(nullptr)}});
  }
  for (const TermResult& term : finding.terms) {
    terms.push_back({{"term", term.term},
                     {"agrees", term.agrees},
                     {"block", term.block},
                     {"worst", term.judged > 0 ? ToJson(term.worst) : Json(nullptr)}});
  }
  for (const BlockComparison& block : finding.comparison.blocks) blocks.push_back(ToJson(block));
  for (const SmoothBias& b : finding.bias) {
    smoothed.push_back({{"block", b.block},
                        {"scale", b.scale},
                        {"largest", b.largest},
                        {"mean", b.mean},
                        {"averaged", std::isfinite(b.averaged) ? Json(b.averaged) : Json(nullptr)},
                        {"deviation", std::isfinite(b.deviation) ? Json(b.deviation) : Json(nullptr)},
                        {"smoothed", b.value},
                        {"true", b.truth},
                        {"row", b.row},
                        {"col", b.col}});
  }
  for (const TermCoverage& term : finding.derivative.coverage.terms) {
    coverage.push_back({{"term", term.term}, {"level", ToString(term.level)}, {"reason", term.reason}});
  }
  return {{"name", finding.state->name},
          {"description", finding.state->description},
          {"contacts", finding.contacts},
          {"constraints", finding.constraints},
          {"agrees", finding.agrees},
          {"complete", finding.complete},
          {"failure", finding.failure.empty() ? Json(nullptr) : Json(finding.failure)},
          {"derivative_seconds", finding.seconds},
          {"coverage", coverage},
          {"certificate", ToJson(finding.certificate)},
          {"blocks", blocks},
          {"levels", levels},
          {"terms", terms},
          {"smoothed", smoothed},
          {"nonsmooth_columns", finding.comparison.nonsmooth_columns}};
}

void PrintJson(const mjModel* model, const std::vector<Finding>& findings, const std::vector<std::string>& notes,
               const CheckOptions& options, bool agrees, bool complete) {
  const Dims dims(model);
  Json states = Json::array();
  for (const Finding& finding : findings) states.push_back(ToJson(finding));
  const Json json = {{"model", ModelName(model)},
                     {"file", options.model_file},
                     {"version", COSTATE_VERSION},
                     {"mujoco", mj_versionString()},
                     {"sizes", {{"nq", dims.nq}, {"nv", dims.nv}, {"na", dims.na}, {"nu", dims.nu}, {"ns", dims.ns}}},
                     {"level", ToString(options.derivative.level)},
                     {"centered", options.derivative.centered},
                     {"eps", options.derivative.eps},
                     {"substeps", options.derivative.substeps},
                     {"tolerance", options.tolerance},
                     {"smoothing", ToString(ReadSmooth(model, options.smooth))},
                     {"agrees", agrees},
                     {"complete", complete},
                     {"notes", notes},
                     {"states", states}};
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

int RunCheck(const CheckOptions& options) {
  CatchInterrupts();
  std::vector<std::string> warnings, notes;
  CheckIsRobot(options.model_file);
  const ModelPtr model = LoadModel(options.model_file, &warnings);
  PrintWarnings(warnings);
  std::vector<CheckState> states;
  {
    const int steps = options.state.steps;
    Progress progress(steps, stderr);
    CheckStateOptions wanted = options.state;
    wanted.go_on = [&](int step) {
      if (step % 100 == 0) progress.Update(step, "states to check at: simulating the given number of steps");
      return !Interrupted();
    };
    if (steps == 0) progress.Stage(0, "states to check at: simulating until something touches");
    states = MakeCheckStates(model.get(), wanted, &notes);
  }
  if (Interrupted()) {
    fmt::print(stderr, "costate: interrupted before there was a state to check at\n");
    return kExitInterrupted;
  }
  if (!ReadSmooth(model.get(), options.smooth).any() && options.smooth.chosen()) {
    throw Error(ErrorCode::kInvalidArgument, "--smooth chooses nothing");
  }
  if (!options.json) {
    fmt::print("model '{}' ({}): {}; {}, step {:g} s; {}\n", ModelName(model.get()), options.model_file,
               SizesText(model.get()), IntegratorName(model.get()), model->opt.timestep, SolverName(model.get()));
    fmt::print("tolerance {:.0e} of each block's largest entry, three error bars on top\n", options.tolerance);
    if (options.smooth.chosen())
      PrintSmoothChanges(MakeSmoothModel(model.get(), ReadSmooth(model.get(), options.smooth)));
    std::fflush(stdout);
  }

  std::vector<Finding> findings;
  Entries total;
  bool agrees = true, complete = true;
  for (const CheckState& state : states) {
    {
      Progress progress(100, stderr);
      findings.push_back(CheckAt(model.get(), state, options, &progress));
    }
    agrees = agrees && findings.back().agrees;
    complete = complete && findings.back().complete;
    const Entries count = Count(findings.back());
    total.all += count.all;
    total.judged += count.judged;
    if (count.all > 0 && count.judged == 0) notes.push_back(fmt::format("nothing could be judged at: {}", state.name));
    if (!options.json) PrintFinding(findings.back(), options);
    std::fflush(stdout);
    if (Interrupted()) break;
  }
  complete = complete && findings.size() == states.size();
  const bool blind = complete && total.judged == 0 && (total.all > 0 || !agrees);
  if (blind) agrees = false;

  if (options.json) {
    PrintJson(model.get(), findings, notes, options, agrees, complete);
  } else {
    fmt::print("\n");
    for (const std::string& note : notes) fmt::print("note: {}\n", note);
    if (blind) {
      fmt::print("nothing could be judged\n");
    } else if (complete && agrees && total.all == 0) {
      fmt::print("nothing to compare: A, B, C and D are empty\n");
    } else {
      fmt::print("{}{}\n", agrees ? "agrees" : "DISAGREES", complete ? "" : " as far as it came: interrupted");
    }
  }
  if (!complete) return kExitInterrupted;
  return agrees ? kExitOk : kExitNo;
}

}  // namespace

void AddCheckCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* command = app.add_subcommand("check", "Compare the derivatives of a model's step with a reference.");
  command->footer(kCheckFooter);
  command->add_option("MODEL", options->model_file, "MJCF, URDF or MJB file")->required();
  auto* key = command->add_option("--key", options->state.key, "start from this keyframe (name or number)");
  command->add_option("--steps", options->state.steps, "simulate so many engine steps first")->check(NonNegative());
  command->add_option("--state", options->state.state_file, "start from the numbers of this text file: x, or x and u")
      ->excludes(key);
  const auto take_level = [options](const std::string& word) { options->derivative.level = LevelOf(word); };
  command->add_option_function<std::string>("--level", take_level, "best (or auto), analytic, residual or step")
      ->check(CLI::IsMember(LevelWords()))
      ->option_text("LEVEL");
  command->add_flag("--centered,!--forward", options->derivative.centered, "kind of differences (default: centered)");
  command->add_option("--eps", options->derivative.eps, "size of the nudges of step differences (default 1e-6)")
      ->check(NonNegative());
  command->add_option("--substeps", options->derivative.substeps, "engine steps of one control interval")
      ->check(CLI::Range(1, 100000));
  command->add_flag("--sensors,!--no-sensors", options->derivative.sensors, "also C and D (default: yes)");
  command->add_option("--tolerance", options->tolerance, "relative to each block's largest entry (default 1e-4)")
      ->check(Positive());
  AddSmoothOptions(command, &options->smooth, "also the bias of a smoothed model's derivative");
  command->add_flag("--terms", options->terms, "closed forms against their own differences, term by term");
  command->add_option("--eps-sweep", options->sweep, "error over step size into this folder, as CSV and PNG")
      ->option_text("FOLDER");
  command->add_flag("--force", options->force, "replace an earlier sweep in that folder");
  command->add_flag("--json", options->json, "print JSON instead of tables");
  command->callback([options, exit_code] { *exit_code = RunCheck(*options); });
}

}  // namespace costate::cli
