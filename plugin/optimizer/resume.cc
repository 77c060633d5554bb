// Where a solve ended, into a run and out of it again.
#include <costate/resume.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/extremes.h"
#include "optimizer/free_start.h"
#include "rollout/json_member.h"
#include "rollout/record_format.h"

namespace costate {
namespace {

constexpr char kResumeFormat[] = "costate resume";
constexpr int kResumeSchema = 1;      ///< raised when what is written means something else
constexpr double kSameLength = 1e-9;  // relative: control intervals that differ by no more are the same
constexpr double kSameStart = 1e-9;   // of starts that may move, which are taken apart and put together again

// JSON has no number that is not finite: null
Json ToJson(double number) { return std::isfinite(number) ? Json(number) : Json(); }

Json ToList(const VectorXd& vector) {
  Json list = Json::array();
  for (const double number : vector) list.push_back(ToJson(number));
  return list;
}

// column by column
Json ToJson(const MatrixXd& matrix) {
  Json columns = Json::array();
  for (Eigen::Index j = 0; j < matrix.cols(); ++j) columns.push_back(ToList(matrix.col(j)));
  return columns;
}

double ReadNumber(const JsonMember& json) { return json.RealOr(kNan); }

MatrixXd ReadColumns(const JsonMember& json, Eigen::Index rows) {
  const std::vector<JsonMember> columns = json.List();
  MatrixXd matrix(rows, static_cast<Eigen::Index>(columns.size()));
  for (Eigen::Index j = 0; j < matrix.cols(); ++j) {
    const JsonMember& column = columns[static_cast<std::size_t>(j)];
    const VectorXd numbers = column.RealsOr(kNan);
    if (numbers.size() != rows) column.Expected(fmt::format("{} numbers, it has {}", rows, numbers.size()));
    matrix.col(j) = numbers;
  }
  return matrix;
}

// empty where the start was given
VectorXd ReadX0(const JsonMember& json, Eigen::Index nx) {
  if (!json.Has("x0")) return {};
  VectorXd x0 = json.At("x0").RealsOr(kNan);
  if (x0.size() != 0 && x0.size() != nx)
    json.At("x0").Expected(fmt::format("{} numbers or none, it has {}", nx, x0.size()));
  return x0;
}

Json StateJson(const Task& task, const SolveState& state) {
  Json json = {{"solver", ToString(task.solver.type)},
               {"regularization", ToJson(state.regularization)},
               {"regularization_by_step", ToJson(state.regularization_by_step)},
               {"barrier", ToJson(state.barrier)},
               {"U", ToJson(state.U)},
               {"X", ToJson(state.X)},
               {"x0", ToList(state.x0)},
               {"costates", ToJson(state.costates)}};
  Json constraints = Json::array();
  for (int i = 0; i < task.constraints.size(); ++i) {
    const ConstraintInfo& info = task.constraints[i].info();
    constraints.push_back({{"name", info.name}, {"components", info.components}});
    if (state.multipliers.empty()) continue;
    constraints.back().update({{"penalty", ToJson(state.penalties[i])},
                               {"residual", state.residuals.size() > 0 ? ToJson(state.residuals[i]) : Json()},
                               {"token", ToJson(state.tokens[i])},
                               {"multipliers", ToJson(state.multipliers[static_cast<std::size_t>(i)])}});
  }
  json["constraints"] = constraints;
  return json;
}

// what a run says against a task
class Fit {
 public:
  Fit(const Record& record, const std::string& folder, const Task& task)
      : record_(record), folder_(folder), task_(task) {}

  [[noreturn]] void Fail(const std::string& what) const {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the run '{}' cannot be resumed by this task: {}", folder_, what));
  }

  void Names(const char* what, const std::vector<std::string>& run, const std::vector<std::string>& task) const {
    for (std::size_t i = 0; i < std::max(run.size(), task.size()); ++i) {
      const std::string a = i < run.size() ? "'" + run[i] + "'" : "nothing",
                        b = i < task.size() ? "'" + task[i] + "'" : "nothing";
      if (a != b)
        Fail(fmt::format("entry {} of the {} is {} in the run, {} in the task ({} and {} entries)", i, what, a, b,
                         run.size(), task.size()));
    }
  }

  void Horizon() const {
    const int N = record_.trajectory.N();
    if (N != task_.N) Fail(fmt::format("the run has {} control intervals, the task has {}", N, task_.N));
    if (task_.free_time.longest > 0) return;
    const double run = record_.knot_time(), task = task_.knot_time();
    if (std::abs(run - task) > kSameLength * task)
      Fail(fmt::format("a control interval is {:g} s in the run, {:g} s in the task", run, task));
  }

  // the same constraints by name and component; those of the run in the order of the task
  std::vector<JsonMember> Constraints(const std::vector<JsonMember>& saved) const {
    std::vector<JsonMember> found;
    for (int i = 0; i < task_.constraints.size(); ++i) {
      const ConstraintInfo& info = task_.constraints[i].info();
      const auto at = std::find_if(saved.begin(), saved.end(),
                                   [&](const JsonMember& c) { return Same(c.At("name").Text(), info.name); });
      if (at == saved.end())
        Fail(fmt::format("constraint '{}' of the task is none of the run's ({})", info.name, List(saved)));
      const auto components = at->At("components").Texts();
      if (components.size() != info.components.size()) {
        Fail(fmt::format("constraint '{}' has {} components in the run, {} in the task", info.name, components.size(),
                         info.components.size()));
      }
      for (std::size_t k = 0; k < components.size(); ++k) {
        if (components[k] == AsWritten(info.components[k])) continue;
        Fail(fmt::format("component {} of constraint '{}' is {} in the run, {} in the task", k, info.name,
                         components[k], info.components[k]));
      }
      found.push_back(*at);
    }
    for (const JsonMember& c : saved) {
      const std::string name = c.At("name").Text();
      bool known = false;
      for (int i = 0; i < task_.constraints.size(); ++i) known = known || Same(name, task_.constraints[i].info().name);
      if (!known) Fail(fmt::format("constraint '{}' of the run is not in the task", name));
    }
    return found;
  }

 private:
  static bool Same(const std::string& saved, const std::string& name) { return saved == AsWritten(name); }

  static std::string List(const std::vector<JsonMember>& saved) {
    std::string names;
    for (const JsonMember& c : saved) names += (names.empty() ? "'" : ", '") + c.At("name").Text() + "'";
    return names.empty() ? "it has none" : names;
  }

  const Record& record_;
  const std::string& folder_;
  const Task& task_;
};

std::vector<MatrixXd> ReadMultipliers(const std::vector<JsonMember>& constraints, const Task& task) {
  std::vector<MatrixXd> multipliers;
  for (std::size_t i = 0; i < constraints.size(); ++i) {
    const JsonMember member = constraints[i].At("multipliers");
    multipliers.push_back(ReadColumns(member, task.constraints[static_cast<int>(i)].size()));
    if (multipliers.back().cols() != task.N + 1)
      member.Expected(fmt::format("those of {} knots, they are of {}", task.N + 1, multipliers.back().cols()));
  }
  return multipliers;
}

SolveState ReadState(const JsonMember& json, const Fit& fit, const Task& task) {
  const Dims dims(task.model.get());
  SolveState state;
  state.U = ReadColumns(json.At("U"), dims.nu);
  state.X = ReadColumns(json.At("X"), dims.nx);
  state.x0 = ReadX0(json, dims.nx);
  state.costates = ReadColumns(json.At("costates"), dims.ndx);
  state.barrier = ReadNumber(json.At("barrier"));
  state.regularization = ReadNumber(json.At("regularization"));
  state.regularization_by_step =
      json.Has("regularization_by_step") ? ReadNumber(json.At("regularization_by_step")) : -1;
  const std::vector<JsonMember> constraints = fit.Constraints(json.At("constraints").List());
  // a motion back within constraints has none
  if (std::none_of(constraints.begin(), constraints.end(), [](const auto& c) { return c.Has("multipliers"); }))
    return state;
  state.multipliers = ReadMultipliers(constraints, task);
  state.penalties.resize(static_cast<Eigen::Index>(constraints.size()));
  state.residuals.resize(state.penalties.size());
  state.tokens.resize(state.penalties.size());
  for (std::size_t i = 0; i < constraints.size(); ++i) {
    const Eigen::Index at = static_cast<Eigen::Index>(i);
    state.penalties[at] = ReadNumber(constraints[i].At("penalty"));
    state.tokens[at] = ReadNumber(constraints[i].At("token"));
    const JsonMember residual = constraints[i].At("residual");
    if (residual.is_null()) {
      state.residuals.resize(0);
    } else if (state.residuals.size() > at) {
      state.residuals[at] = residual.Real();
    }
  }
  return state;
}

FreeTimeState ReadTimes(const JsonMember& json, const Fit& fit, const Task& task) {
  FreeTimeState times;
  times.time = json.At("time").Real();
  times.state_time = json.At("state_time").Real();
  times.U = ReadColumns(json.At("U"), task.model->nu);
  times.x0 = ReadX0(json, task.x0.size());
  times.multipliers = ReadMultipliers(fit.Constraints(json.At("constraints").List()), task);
  for (const JsonMember& trial : json.At("trials").List()) {
    // what is not finite is infinite there
    times.trials.push_back(
        {trial.At("time").Real(), trial.At("cost").RealOr(kInf), trial.At("violation").RealOr(kInf),
         static_cast<SolveStatus>(trial.At("status").Whole(0, static_cast<int>(SolveStatus::kTimeLimit))),
         trial.At("iterations").Whole(0)});
  }
  return times;
}

// where the run began and the task does not; what may move is no other start
void WarnOfAnotherStart(const VectorXd& run, Task* task) {
  const Problem problem = task->ToProblem();
  const VectorXd start = NearestStart(problem, run), moved = start - run;
  if (HasFreeStart(problem) && Difference(problem.model, start, run).cwiseAbs().maxCoeff() <= kSameStart) return;
  Eigen::Index at = 0;
  if (moved.size() == 0 || moved.cwiseAbs().maxCoeff(&at) == 0) return;
  task->warnings.push_back(fmt::format("resumed from another start: {} was {:g}, is {:g}",
                                       StateNames(task->model.get())[static_cast<std::size_t>(at)], run[at],
                                       start[at]));
}

// what a run that goes on does not begin with again
void LeaveOut(Task* task) {
  if (task->sampling.iterations > 0) task->warnings.push_back("resumed: the sampled start is left out");
  if (task->continuation.smooth.any()) {
    task->warnings.push_back(
        "resumed on the true model: the stages of <smooth> are left out (--smooth makes them anew)");
  }
  task->sampling.iterations = 0;
  task->continuation.smooth = {};
}

}  // namespace

std::string ResumeText(const Task& task, const SolveResult& result, const FreeTimeResult* timed) {
  Json json = {{"format", kResumeFormat}, {"schema", kResumeSchema}, {"state", StateJson(task, result.state)}};
  if (timed) {
    // a motion that does not keep the constraints is nothing to start other times from
    const bool kept = result.violation <= task.constrained.tolerance;
    Json constraints = Json::array(), trials = Json::array();
    for (int i = 0; i < task.constraints.size(); ++i) {
      const ConstraintInfo& info = task.constraints[i].info();
      constraints.push_back({{"name", info.name},
                             {"components", info.components},
                             {"multipliers", ToJson(result.multipliers[static_cast<std::size_t>(i)])}});
    }
    for (const FreeTimeTrial& t : timed->trials) {
      trials.push_back({{"time", t.time},
                        {"cost", ToJson(t.cost)},
                        {"violation", ToJson(t.violation)},
                        {"status", static_cast<int>(t.status)},
                        {"iterations", t.iterations}});
    }
    json["times"] = {{"time", timed->time},
                     {"state_time", timed->state_time},
                     {"U", ToJson(kept ? result.trajectory.U : MatrixXd())},
                     {"x0", ToList(kept && !task.free_start.entries.empty() ? result.trajectory.X.col(0) : VectorXd())},
                     {"constraints", constraints},
                     {"trials", trials}};
  }
  return ToText(json, -1) + "\n";
}

void Resume(const Record& record, const std::string& folder, Task* task) {
  const auto table = record.tables.find(kResumeFile);
  if (table == record.tables.end()) {
    throw Error(ErrorCode::kFile,
                fmt::format("the run '{}' has no {}: it was made by 'costate {}' or by an older program; "
                            "<guess file=\"{}\"/> starts from its controls",
                            folder, kResumeFile, record.command, folder));
  }
  const Fit fit(record, folder, *task);
  fit.Names("state", StateNames(record.model.get()), StateNames(task->model.get()));
  fit.Names("controls", ControlNames(record.model.get()), ControlNames(task->model.get()));
  fit.Horizon();
  const auto damaged = [&](const std::string& what) {
    return Error(ErrorCode::kFile, fmt::format("run '{}': {} is damaged: {}", folder, kResumeFile, what));
  };
  const Json json = ParseJson(table->second, fmt::format("run '{}': {}", folder, kResumeFile));
  try {
    const JsonMember root(json, "");
    const int schema = root.At("schema").Whole(0);
    if (!root.At("format").Is(kResumeFormat) || schema > kResumeSchema)
      throw damaged(fmt::format("it has schema {}, this program reads up to {}", schema, kResumeSchema));
    const bool times = root.Has("times"), free = task->free_time.longest > 0;
    if (times != free) {
      fit.Fail(fmt::format("the length of the motion is {} in the run, {} in the task (<time>)",
                           times ? "free" : "given", free ? "free" : "given"));
    }
    task->state = ReadState(root.At("state"), fit, *task);
    if (times) {
      task->time_state = ReadTimes(root.At("times"), fit, *task);
      task->time_state.state = task->state;
    }
  } catch (const BadJsonMember& member) {
    throw damaged(member.text);
  }
  if (task->state.U.cols() != task->N)
    throw damaged(fmt::format("it has controls for {} intervals, the run has {}", task->state.U.cols(), task->N));

  // states with gaps are for multiple shooting; any other solver starts from the motion that was saved
  task->U_guess = task->state.U;
  task->X_guess = task->state.X;
  task->free_start.guess = task->state.x0;
  if (task->state.X.cols() > 0 && task->solver.type != SolverType::kFddp) {
    task->U_guess = record.trajectory.U;
    task->X_guess.resize(0, 0);
    task->free_start.guess = record.trajectory.X.col(0);
    task->time_state.state = {};  // of times, from the best one's
    task->warnings.push_back(
        "resumed: the run's states still had gaps, which ilqr has no use for; it starts from the saved motion");
  }
  WarnOfAnotherStart(record.trajectory.X.col(0), task);
  LeaveOut(task);
}

}  // namespace costate
