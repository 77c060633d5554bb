// costate info: what a model is, which derivatives it has, and where it is not differentiable.
#include <costate/certificate.h>
#include <costate/derivative.h>
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "cli/certificate_text.h"
#include "cli/commands.h"
#include "cli/model_facts.h"
#include "cli/smoothness.h"
#include "cli/terminal.h"
#include "core/actuator_range.h"
#include "core/collision_filter.h"
#include "core/element.h"
#include "core/option_words.h"

namespace costate::cli {
namespace {

constexpr std::size_t kWidth = 118;
constexpr int kIndent = 12;

// "label       text", wrapped at spaces
void PrintRow(const std::string& label, std::string text) {
  std::string head = fmt::format("{:<{}}", label, kIndent);
  while (true) {
    std::size_t end = text.size();
    if (kIndent + text.size() > kWidth) {
      end = text.rfind(' ', kWidth - kIndent);
      if (end == std::string::npos || end == 0) end = std::min(text.find(' '), text.size());
    }
    fmt::print("{}{}\n", head, text.substr(0, end));
    if (end >= text.size()) return;
    text = text.substr(end + 1);
    head = std::string(kIndent, ' ');
  }
}

// "hinge 6, free 1"
std::string CountByName(const int* types, mjtSize n, const char* (*name)(int)) {
  std::map<std::string, int> counts;
  for (int i = 0; i < n; ++i) ++counts[name(types[i])];
  std::string text;
  for (const auto& [key, count] : counts) text += (text.empty() ? "" : ", ") + fmt::format("{} {}", key, count);
  return text;
}

const char* JointName(int type) { return type >= 0 && type < std::ssize(kJointWords) ? kJointWords[type] : "other"; }

const char* GeomName(int type) {
  constexpr const char* kNames[] = {"plane",    "hfield", "sphere", "capsule", "ellipsoid",
                                    "cylinder", "box",    "mesh",   "sdf"};
  return type >= 0 && type < 9 ? kNames[type] : "other";
}

void PrintContents(const mjModel* model) {
  PrintRow("sizes", SizesText(model) + fmt::format(" (state {}, tangent {})", Dims(model).nx, Dims(model).ndx));
  PrintRow("bodies", fmt::format("{}, {:.4g} kg; {} mocap", model->nbody - 1, mj_getTotalmass(model), model->nmocap));
  PrintRow("joints", fmt::format("{}{}{}", model->njnt, model->njnt > 0 ? ": " : "",
                                 CountByName(model->jnt_type, model->njnt, JointName)));
  PrintRow("geoms", fmt::format("{}{}{}; {}", model->ngeom, model->ngeom > 0 ? ": " : "",
                                CountByName(model->geom_type, model->ngeom, GeomName),
                                CanHaveContacts(model) ? "contacts possible" : "no contacts possible"));
  if (model->ntendon + model->neq + model->nflex > 0) {
    PrintRow("also",
             fmt::format("{} tendons, {} equality constraints, {} flexes", model->ntendon, model->neq, model->nflex));
  }
  PrintRow("step", fmt::format("{}, {:g} s; {}", IntegratorName(model), model->opt.timestep, SolverName(model)));
}

std::string RangeText(const mjtNum* range) {
  return range != nullptr ? fmt::format("[{:g}, {:g}]", range[0], range[1]) : "free";
}

constexpr int kLines = 40;  // of a list

// ranges as the engine has them: an angle in degrees that was read as radians shows here
void PrintJointRanges(const mjModel* model) {
  int shown = 0;
  for (int j = 0; j < model->njnt; ++j) {
    if (!model->jnt_limited[j]) continue;
    if (shown == 0) fmt::print("{:<{}}{:<32} {:>18}\n", "limits", kIndent, "joint", "range (m or rad)");
    if (++shown > kLines) continue;
    fmt::print("{:<{}}{:<32} {:>18}\n", "", kIndent, ElementName(model, mjOBJ_JOINT, j),
               RangeText(model->jnt_range + 2 * j));
  }
  if (shown > kLines) fmt::print("{:<{}}… and {} more\n", "", kIndent, shown - kLines);
}

void PrintActuators(const mjModel* model) {
  if (model->nactuator == 0) {
    PrintRow("actuators", "none: there is nothing to control");
    return;
  }
  const auto controls = ControlNames(model);
  fmt::print("{:<{}}{:<32} {:>18} {:>18}\n", "actuators", kIndent, "control", "ctrl range", "force range");
  for (int i = 0, shown = 0; i < model->nactuator; ++i) {
    for (int k = 0; k < model->actuator_ctrlnum[i]; ++k, ++shown) {
      const int c = model->actuator_ctrladr[i] + k;
      if (shown >= kLines) continue;
      fmt::print("{:<{}}{:<32} {:>18} {:>18}\n", "", kIndent, controls[c], RangeText(ControlRange(model, c)),
                 RangeText(ForceRange(model, i)));
    }
  }
  if (model->nu > kLines) fmt::print("{:<{}}… and {} more\n", "", kIndent, model->nu - kLines);
}

std::string Joined(const std::vector<std::string>& names, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < most; ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > most) text += fmt::format(", … {} more", names.size() - most);
  return text;
}

void PrintNamed(const mjModel* model, const char* label, int type) {
  const std::vector<std::string> names = ElementNames(model, type);
  PrintRow(label, names.empty() ? "none" : fmt::format("{}: {}", names.size(), Joined(names, 24)));
}

// f(), with a word on a terminal: of thousands of dofs it takes a minute
template <typename F>
auto Working(const std::string& on, F f) {
  Progress progress(0, stderr);
  progress.Update(0, on);
  return f();
}

// what each level says at the default state
void PrintLevels(const mjModel* model) {
  const DataPtr data = MakeData(model);
  const auto linearize = [&](const std::string& on, const LinearizeOptions& options) {
    return Working("derivatives at the default state: " + on, [&] { return Linearize(model, data.get(), options); });
  };
  std::optional<Coverage> coverage;  // of the best there is
  for (Level level : {Level::kAnalytic, Level::kResidual}) {
    std::string text;
    try {
      const StepDerivative derivative = linearize(ToString(level), {.level = level});
      text = derivative.status == StepStatus::kOk
                 ? "yes"
                 : fmt::format("the step fails there: {}", ToString(derivative.status));
      if (level == Level::kAnalytic) coverage = derivative.coverage;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      const std::string why = error.what(), head = fmt::format("': {}: ", ToString(level));
      const std::size_t at = why.find(head);
      text = "no: " + (at == std::string::npos ? why : why.substr(at + head.size()));
    }
    PrintRow(level == Level::kAnalytic ? "derivatives" : "",
             fmt::format("at the default state {}: {}", ToString(level), text));
  }
  try {
    if (!coverage) coverage = linearize("the best of each term", {}).coverage;
    for (const TermCoverage& term : coverage->terms) {
      PrintRow("", fmt::format("  {}: {}{}{}", term.term, ToString(term.level), term.reason.empty() ? "" : ", ",
                               term.reason));
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    PrintRow("", error.what());
  }
}

// the switches at the default state
void PrintCertificate(const mjModel* model) {
  const DataPtr data = MakeData(model);
  const char* label = "there";
  const Certificate certificate = Working("switches at the default state", [&] { return Certify(model, data.get()); });
  for (const std::string& line : CertificateLines(certificate)) {
    PrintRow(label, line);
    label = "";
  }
}

void PrintNonSmoothness(const mjModel* model) {
  const std::vector<NonSmoothness> found = FindNonSmooth(model);
  if (found.empty()) {
    PrintRow("smoothness", "nothing known that jumps, bends or goes flat");
    return;
  }
  fmt::print("smoothness: where the step jumps, bends or goes flat\n");
  for (const NonSmoothness& spot : found) {
    PrintRow("          -", spot.what);
    if (!spot.remedy.empty()) PrintRow("", "remedy: " + spot.remedy);
  }
}

int RunInfo(const std::string& file) {
  std::vector<std::string> warnings;
  CheckIsRobot(file);
  const ModelPtr model = LoadModel(file, &warnings);
  fmt::print("model '{}' ({})\n", ModelName(model.get()), file);
  PrintContents(model.get());
  PrintJointRanges(model.get());
  PrintActuators(model.get());
  PrintNamed(model.get(), "sensors", mjOBJ_SENSOR);
  PrintNamed(model.get(), "keyframes", mjOBJ_KEY);
  PrintLevels(model.get());
  PrintCertificate(model.get());
  PrintNonSmoothness(model.get());
  if (const std::string falls = FallsFreely(model.get()); !falls.empty()) warnings.push_back(falls);
  for (const std::string& warning : warnings) PrintRow("warning", warning);
  return kExitOk;
}

}  // namespace

void AddInfoCommand(CLI::App& app, int* exit_code) {
  auto file = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("info", "Say what a model is, which derivatives it has and where it is not smooth.");
  command->add_option("MODEL", *file, "MJCF, URDF or MJB file")->required();
  command->callback([file, exit_code] { *exit_code = RunInfo(*file); });
}

}  // namespace costate::cli
