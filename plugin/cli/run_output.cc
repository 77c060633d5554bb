#include "cli/run_output.h"

#include <costate/error.h>
#include <fmt/core.h>

#include <filesystem>
#include <system_error>

#include "cli/commands.h"
#include "core/new_file.h"
#include "core/read_file.h"
#include "rollout/run_folder.h"

namespace costate::cli {
namespace {

// the first NAME-1, -2 … that does not exist
std::string FreeName(const std::string& name) {
  for (int n = 1;; n++) {
    const std::string folder = fmt::format("{}-{}", name, n);
    std::error_code ignored;  // a name that no folder can have is refused where one is made
    if (!std::filesystem::exists(folder, ignored)) return folder;
  }
}

}  // namespace

std::string FreeFolder(const Task& task) {
  std::string name = task.name;
  if (name.empty()) name = std::filesystem::path(task.file.empty() ? task.model_file : task.file).stem().string();
  for (char& c : name) {
    if (c == '/' || c == ' ') c = '_';
  }
  return FreeName("runs/" + name);
}

void CheckRunFolder(const std::string& folder, bool force) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const bool none =
      !fs::exists(folder, ignored) || (fs::is_directory(folder, ignored) && fs::is_empty(folder, ignored));
  if (!none && !force) {
    throw Error(ErrorCode::kFile, folder + " exists; --force replaces a run, --out names another folder");
  }
  fs::create_directories(fs::absolute(fs::path(folder)).parent_path(), ignored);
  NewFolder(folder, force);  // made and removed: says all that saving would
}

void CheckOutputFile(const std::string& path, bool force, const std::vector<std::string>& inputs) {
  namespace fs = std::filesystem;
  CheckWritable(path, force);
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  for (const std::string& input : inputs) {
    if (fs::equivalent(path, input, ignored))
      throw Error(ErrorCode::kFile, fmt::format("'{}' is what is read here: it will not be replaced", path));
  }
  const std::string folder = fs::absolute(path).parent_path().string(), name = fs::path(path).filename().string();
  const std::string record = (fs::path(folder) / kRecordFile).string();  // names the run's files
  if (!fs::exists(record, ignored)) return;
  if (name == kRecordFile || ReadFile(record, "record '" + record + "'").find('"' + name + '"') != std::string::npos)
    throw Error(ErrorCode::kFile, fmt::format("'{}' is a file of run '{}': it will not be replaced", path, folder));
}

void SaveRun(const std::string& folder, Record* record, bool force, bool plots) {
  const auto before = static_cast<std::ptrdiff_t>(record->warnings.size());
  WriteRecord(folder, *record, {.force = force, .plots = plots});
  PrintWarnings({record->warnings.begin() + before, record->warnings.end()});
}

std::string SaveRunSomewhere(const std::string& folder, Record* record, bool force, bool plots) {
  try {
    SaveRun(folder, record, force, plots);
    return folder;
  } catch (const Error& error) {
    const std::string other = FreeName((std::filesystem::temp_directory_path() / "costate").string());
    PrintWarnings({fmt::format("{}; the run goes to {}", error.what(), other)});
    SaveRun(other, record, false, plots);
    return other;
  }
}

Record TaskRecord(const Task& task, const std::string& command) {
  Record record;
  record.command = command;
  record.task_file = task.file;
  record.model_file = std::filesystem::absolute(task.model_file).lexically_normal().string();
  record.task_text = TextAnywhere(task);
  record.context = task.context;
  record.x_goal = task.x_goal;
  record.goal_places = GoalPlaces(task);
  record.substeps = task.substeps;
  record.warnings = task.warnings;
  return record;
}

void TakeCosts(const Task& task, const Trajectory& motion, double knot_time, Record* record) {
  std::vector<double> per_knot;
  TotalCost(*task.cost, motion, knot_time, &per_knot);
  record->cost_per_knot = Eigen::Map<VectorXd>(per_knot.data(), static_cast<Eigen::Index>(per_knot.size()));
  record->cost_terms = task.cost->Terms(motion);
  record->metric = "sum over knots of the task's cost terms; see task.xml and cost_terms";
}

void RecordConstraint(const ConstraintReport& c, double tolerance, Record* record) {
  record->constraints.push_back(c);
  if (c.relative <= tolerance) return;
  record->failures.push_back(fmt::format("{}'{}' is violated by {:.6g} {} at knot {} ({})", kConstraintFailure, c.name,
                                         c.violation, c.unit, c.knot, c.component));
}

void PrintConstraint(const ConstraintReport& c, double tolerance, double time, const std::string& more) {
  const bool kept = c.relative <= tolerance;
  fmt::print("  {:<13} {}{}{}{}\n", kept ? "kept" : "VIOLATED", c.name,
             kept && c.violation == 0 ? "" : ": " + ViolationWords(c, tolerance, time),
             kept ? "" : fmt::format(": {:.6g}, allowed {:.6g} to {:.6g}", c.value, c.lower, c.upper), more);
}

std::string ViolationWords(const ConstraintReport& c, double tolerance, double time) {
  return fmt::format("{} {:.3g} {} at {:.4g} s ({})", c.relative <= tolerance ? "to" : "violated by", c.violation,
                     c.unit, time, c.component);
}

std::string StatusText(const std::string& status, const std::string& message) {
  return message.starts_with(status + " ") || message.starts_with(status + ":") ? message : status + ": " + message;
}

std::string ShellWord(const std::string& path) {
  constexpr const char* kSafe = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./+-=@%:,";
  if (!path.empty() && path.find_first_not_of(kSafe) == std::string::npos) return path;
  std::string word = "'";
  for (const char c : path) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

void PrintMissedGoals(const Task& task, const Trajectory& trajectory) {
  for (const MissedGoal& goal : MissedGoals(task, trajectory)) {
    const bool shown = goal.component.empty() || goal.component == goal.name;
    fmt::print("  goal          {} missed by {:.3g}{}{}\n", goal.name, goal.miss,
               goal.unit == "1" ? "" : " " + goal.unit, shown ? "" : ", at " + goal.component);
  }
}

int SolveExitCode(const Task& task, SolveStatus status, bool gained, double violation) {
  switch (status) {
    case SolveStatus::kConverged: return kExitOk;
    case SolveStatus::kInterrupted: return kExitInterrupted;
    case SolveStatus::kIterationLimit:
    case SolveStatus::kTimeLimit:
    case SolveStatus::kStalled:
      if (task.constraints.size() > 0) return violation <= task.constrained.tolerance ? kExitOk : kExitNo;
      return gained ? kExitOk : kExitNo;
    default: return kExitNo;
  }
}

}  // namespace costate::cli
