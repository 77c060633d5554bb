#include "cli/descend.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "cli/commands.h"
#include "cli/gradient_record.h"
#include "cli/run_output.h"
#include "cli/terminal.h"
#include "core/did_you_mean.h"
#include "core/joint.h"
#include "core/lap.h"
#include "core/number.h"
#include "optimizer/fit_bounds.h"
#include "optimizer/task_start.h"
#include "rollout/units.h"

namespace costate::cli {
namespace {

constexpr int kInOneLine = 4;  // parameters in a line

std::string Header(const Task& task) {
  std::string text = " iter           loss   expected     actual   gradient       step |";
  const std::vector<TaskParameter>& parameters = task.inputs.parameters;
  for (int k = 0; k < std::min<int>(kInOneLine, static_cast<int>(parameters.size())); k++) {
    text += "  " + parameters[static_cast<std::size_t>(k)].name;
  }
  return text;
}

std::string Row(const Task& task, const IterationRecord& r, ConstVectorRef theta) {
  std::string text = r.beside ? fmt::format("{:5d} {:14.8g}   {}", r.iteration, r.cost, r.beside)
                              : fmt::format("{:5d} {:14.8g} {:10.3g} {:10.3g} {:10.3g} {:10.3g} |", r.iteration, r.cost,
                                            0 - r.expected_change, 0 - r.actual_change, r.gradient_norm, r.step);
  for (int k = 0; k < std::min<int>(kInOneLine, static_cast<int>(theta.size())); k++) {
    text += fmt::format("  {:>{}.10g}", theta[k], task.inputs.parameters[static_cast<std::size_t>(k)].name.size());
  }
  return text;
}

// " ± 0.02": two standard errors
std::string Interval(const FitUncertainty& fit, std::size_t input) {
  if (!fit.why_not.empty()) return "";
  const double deviation = fit.deviation[static_cast<Eigen::Index>(input)];
  return std::isfinite(deviation) ? fmt::format(" ± {:.2g}", 2 * deviation) : std::isnan(deviation) ? "" : " ± any";
}

// what the fit leaves open, and whether what is left looks like noise
void PrintUncertainty(const Task& task, const ParameterSet* parameters, const DescentResult& result,
                      const FitUncertainty& fit) {
  if (!fit.why_not.empty()) {
    if (fit.is_fit) fmt::print("  ±             none: {}\n", fit.why_not);
    return;
  }
  fmt::print(
      "  ±             two standard errors: {} numbers are compared, and what is left of them is taken for noise\n",
      fit.residuals);
  constexpr double kNoNoise = 0.5, kNothingLeft = 1e-6;  // of the guess's loss
  const bool something = result.loss > std::max(kNothingLeft * result.initial_loss, DescentOptions().floor);
  if (fit.correlation > kNoNoise && something) {
    fmt::print(
        "  note          what is left is no noise, it goes on from row to row (correlation {:.2f}): the model does\n"
        "                not do all that was recorded, and what it misses may hide in what is fitted (± are\n"
        "                widened), or another guess leads to a better fit\n",
        fit.correlation);
  }
  const std::vector<std::string> tangents = TangentNames(task.model.get());
  const std::size_t starts = task.inputs.start.size();
  std::set<std::string> told;
  for (const UndeterminedDirection& direction : fit.undetermined) {
    std::string text;
    for (std::size_t i = 0; i < starts + task.inputs.parameters.size(); i++) {
      const double change = direction.change[static_cast<Eigen::Index>(i)];
      if (change == 0) continue;
      const std::string name = i < starts ? tangents[static_cast<std::size_t>(task.inputs.start[i])] + " of the start"
                                          : task.inputs.parameters[i - starts].name;
      const std::string unit = i < starts ? "1" : (*parameters)[static_cast<int>(i - starts)].unit;
      text += fmt::format("{}{} by {:+.3g}{}", text.empty() ? "" : ", ", name, change, unit == "1" ? "" : " " + unit);
    }
    text += std::isinf(direction.deviation)
                ? ": nothing that is compared moves"
                : fmt::format(": known no better than ± {:.2g} times that", 2 * direction.deviation);
    if (told.insert(text).second) fmt::print("  undetermined  {}\n", text);  // some look alike in their digits
  }
}

// @param side  -1 lower, 1 upper, 0 none
const char* AtBound(int side) { return side < 0 ? ", at its lower bound" : side > 0 ? ", at its upper bound" : ""; }

// what was found of the start, a line an entry; of many those that have moved
void PrintStart(const Task& task, const DescentResult& result, const FitUncertainty& fit) {
  const mjModel* model = task.model.get();
  const std::vector<std::string> tangents = TangentNames(model), units = StateUnits(model);
  const VectorXd dx = Difference(model, result.x0, task.x0);
  VectorXd lower, upper;
  StartBounds(model, task.x0, &lower, &upper);
  constexpr int kMostStarts = 12;
  const bool all = std::ssize(task.inputs.start) <= kMostStarts;
  int shown = 0;
  std::size_t input = 0;
  for (int i : task.inputs.start) {
    const std::string interval = Interval(fit, input++);
    if ((dx[i] == 0 && !all) || shown++ >= kMostStarts) continue;
    const std::string name = tangents[static_cast<std::size_t>(i)] + " of the start";
    const int at = StateEntry(model, i);
    if (at < 0) {
      fmt::print("  {:<24} turned by {:.10g}{} rad\n", name, dx[i], interval);
      continue;
    }
    const std::string& unit = units[static_cast<std::size_t>(at)];
    fmt::print("  {:<24} {:.10g}{}{}, guess {:.10g}{}\n", name, result.x0[at], interval, unit == "1" ? "" : " " + unit,
               task.x0[at], AtBound(AtStartBound(dx[i], lower[i], upper[i])));
  }
  if (shown > kMostStarts) fmt::print("  … and {} more\n", shown - kMostStarts);
}

void PrintSummary(const Task& task, const ParameterSet* parameters, const DescentResult& result,
                  const FitUncertainty& fit, double seconds) {
  fmt::print("\n{}\n", StatusText(ToString(result.status), result.message));
  fmt::print("  loss          {:.9g}, of the guess {:.9g}, in {} iterations and {}\n", result.loss, result.initial_loss,
             result.iterations.empty() ? 0 : result.iterations.back().iteration, FormatDuration(seconds));

  // what was found
  PrintStart(task, result, fit);
  std::size_t input = task.inputs.start.size();
  for (std::size_t k = 0; k < task.inputs.parameters.size(); k++) {
    const TaskParameter& p = task.inputs.parameters[k];
    const double value = result.theta[static_cast<Eigen::Index>(k)];
    const auto [lower, upper] = FitBounds(p, (*parameters)[static_cast<int>(k)], value);
    const int side = value == lower ? -1 : static_cast<int>(value == upper);
    const std::string& unit = (*parameters)[static_cast<int>(k)].unit;
    fmt::print("  {:<24} {:.10g}{}{}, guess {:.10g}{}\n", p.name, value, Interval(fit, input++),
               unit == "1" ? "" : " " + unit, p.value, AtBound(side));
  }
  PrintUncertainty(task, parameters, result, fit);
}

int ExitCodeOf(const DescentResult& result) {
  switch (result.status) {
    case SolveStatus::kInterrupted: return kExitInterrupted;
    case SolveStatus::kConverged: return kExitOk;
    case SolveStatus::kIterationLimit:
    case SolveStatus::kStalled: return result.loss < result.initial_loss ? kExitOk : kExitNo;
    default: return kExitNo;
  }
}

std::map<std::string, std::string> Settings(const DescentOptions& o, const SplineOptions& spline) {
  return {{"controls", spline.knots > 0 ? fmt::format("{} {} knots", spline.knots, ToString(spline.order)) : "each"},
          {"solver", ToString(o.method)},
          {"rate", o.rate > 0                         ? ExactText(o.rate)
                   : o.method == DescentMethod::kAdam ? "0.03"
                                                      : "line search"},
          {"iterations", fmt::format("{}", o.iterations)},
          {"memory", fmt::format("{}", o.memory)},
          {"tolerance", ExactText(o.tolerance)},
          {"gradient_tolerance", ExactText(o.gradient_tolerance)}};
}

}  // namespace

DescentMethod MethodOf(const std::string& name) {
  std::vector<std::string> names;
  for (const DescentMethod method :
       {DescentMethod::kGradient, DescentMethod::kLbfgs, DescentMethod::kGaussNewton, DescentMethod::kAdam}) {
    if (name == ToString(method)) return method;
    names.push_back(ToString(method));
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("'{}' is no method of descent{}", name, DidYouMean(name, names)));
}

int RunDescend(const Task& task, ParameterSet* parameters, const std::vector<LossCheckEntry>& check,
               const DescendArguments& arguments) {
  CatchInterrupts();
  const Clock::time_point begin = Clock::now();
  DescentResult result;
  {
    fmt::print("\n");
    Progress progress(arguments.options.iterations);
    if (task.spline.knots > 0)
      progress.Line(fmt::format("controls are splines of {} {} knots", task.spline.knots, ToString(task.spline.order)));
    if (!arguments.quiet) progress.Line(Header(task));
    progress.Stage(0, "the guess's motion and its gradient");
    result = Descend(task, parameters, arguments.options, [&](const IterationRecord& record, ConstVectorRef theta) {
      if (!arguments.quiet) progress.Line(Row(task, record, theta));
      progress.Update(record.iteration, fmt::format("loss {:.6g}", record.cost));
      return !Interrupted();
    });
  }
  const double seconds = SecondsSince(begin);
  FitUncertainty fit;
  fit.why_not = "there is no motion";
  if (result.status != SolveStatus::kDiverged) fit = EstimateUncertainty(task, parameters, result.x0, result.U);
  PrintSummary(task, parameters, result, fit, seconds);
  if (result.status == SolveStatus::kDiverged) {
    fmt::print("Nothing was saved.\n");
    return kExitNo;
  }
  if (!arguments.folder.empty()) {
    GradientReport report{&task, parameters, &result.gradient, &check, &result, &fit, result.x0, result.U, seconds};
    Record record = MakeGradientRecord(report);
    record.settings.merge(Settings(arguments.options, task.spline));
    if (arguments.options.smooth.any()) record.settings["smoothing"] = ToString(arguments.options.smooth);
    const std::string folder =
        WriteGradientRun(arguments.folder, report, std::move(record), arguments.force, arguments.plots);
    fmt::print("  saved in      {0}\n\n  costate view {1}\n  costate replay {1}\n", folder, ShellWord(folder));
  }
  return ExitCodeOf(result);
}

}  // namespace costate::cli
