#include "cli/gradient_record.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cmath>
#include <filesystem>

#include "cli/commands.h"
#include "cli/gradient_table.h"
#include "cli/run_output.h"
#include "core/new_file.h"
#include "core/number.h"
#include "optimizer/task_start.h"
#include "rollout/csv.h"
#include "rollout/plot.h"

namespace costate::cli {
namespace {

constexpr char kGradient[] = "gradient.csv", kInputs[] = "inputs.csv", kCheck[] = "check.csv",
               kDescent[] = "descent.csv";
constexpr char kScript[] = "gradient.gnuplot";

// nothing where there is none, of what a bound holds, too
std::string StandardError(const GradientReport& report, std::size_t input) {
  if (!report.uncertainty || !report.uncertainty->why_not.empty()) return "";
  const double deviation = report.uncertainty->deviation[static_cast<Eigen::Index>(input)];
  return std::isnan(deviation) ? "" : ExactText(deviation);
}

// one row a start entry or parameter; starts are counted from the guess
std::string InputsTable(const GradientReport& report) {
  const Task& task = *report.task;
  const mjModel* model = task.model.get();
  const std::vector<std::string> tangents = TangentNames(model);
  const VectorXd dx = Difference(model, report.x0, task.x0);
  std::string text = "input,unit,guess,value,lower,upper,d loss / d input,standard error\n";
  VectorXd lower, upper;
  StartBounds(model, task.x0, &lower, &upper);
  std::size_t input = 0;
  for (int i : task.inputs.start) {
    text +=
        fmt::format("{},change,0,{},{},{},{},{}\n", QuotedCell(tangents[static_cast<std::size_t>(i)] + " of the start"),
                    ExactText(dx[i]), ExactText(lower[i]), ExactText(upper[i]), ExactText(report.gradient->x0[i]),
                    StandardError(report, input++));
  }
  for (std::size_t k = 0; k < task.inputs.parameters.size(); k++) {
    const TaskParameter& p = task.inputs.parameters[k];
    const Eigen::Index at = static_cast<Eigen::Index>(k);
    text += fmt::format("{},{},{},{},{},{},{},{}\n", QuotedCell(p.name),
                        QuotedCell((*report.parameters)[static_cast<int>(k)].unit), ExactText(p.value),
                        ExactText(report.parameters->Get()[at]), ExactText(p.lower), ExactText(p.upper),
                        ExactText(report.gradient->theta[at]), StandardError(report, input++));
  }
  return text;
}

std::string CheckTable(const std::vector<LossCheckEntry>& check) {
  std::string text = "input,adjoint,difference,error bar,relative,verdict\n";
  for (const LossCheckEntry& e : check) {
    text += fmt::format("{},{},{},{},{},{}\n", QuotedCell(e.name), ExactText(e.adjoint), ExactText(e.difference),
                        ExactText(e.error_bar), ExactText(e.relative), ToString(e.verdict));
  }
  return text;
}

std::string DescentTable(const GradientReport& report) {
  std::string text = "iteration,loss,gradient";
  for (const TaskParameter& p : report.task->inputs.parameters) text += "," + QuotedCell(p.name);
  for (const TaskParameter& p : report.task->inputs.parameters) text += "," + QuotedCell("share of its way, " + p.name);
  text += "\n";
  const DescentResult& descent = *report.descent;
  const MatrixXd way = descent.history.colwise() - descent.history.col(0);
  const VectorXd whole = descent.theta - descent.history.col(0);
  for (std::size_t k = 0; k < descent.iterations.size(); k++) {
    const IterationRecord& it = descent.iterations[k];
    text += fmt::format("{},{},{}", it.iteration, ExactText(it.cost), ExactText(it.gradient_norm));
    const Eigen::Index column = static_cast<Eigen::Index>(k);
    for (double value : descent.history.col(column)) text += "," + ExactText(value);
    for (Eigen::Index i = 0; i < whole.size(); i++)
      text += "," + (whole[i] != 0 ? ExactText(way(i, column) / whole[i]) : "0");
    text += "\n";
  }
  return text;
}

std::string Named(const std::vector<std::string>& names, const std::vector<int>& chosen) {
  if (!chosen.empty() && chosen.size() == names.size()) return "all";
  std::string text;
  for (int i : chosen) text += (text.empty() ? "" : " ") + names[static_cast<std::size_t>(i)];
  return text.empty() ? "none" : text;
}

std::map<std::string, std::string> Settings(const GradientReport& report) {
  const Task& task = *report.task;
  std::string parameters;
  for (const TaskParameter& p : task.inputs.parameters) parameters += (parameters.empty() ? "" : " ") + p.name;
  return {{"by_controls", Named(ControlNames(task.model.get()), task.inputs.controls)},
          {"by_start", Named(TangentNames(task.model.get()), task.inputs.start)},
          {"by_parameters", parameters.empty() ? "none" : parameters},
          {"derivative_level", ToString(task.solver.derivative.level)},
          {"coverage_worst_level", ToString(report.gradient->coverage.Worst())},
          {"smoothing", "none"},
          {"health", report.gradient->health.text},
          {"clipped_knots", fmt::format("{}", report.gradient->health.clipped.size())},
          {"truncated_knots", fmt::format("{}", report.gradient->health.dropped.size())},
          {"kept_bytes", fmt::format("{}", report.gradient->kept_bytes)},
          {"knots_simulated_again", fmt::format("{}", report.gradient->recomputed)},
          {"peak_memory_MiB", fmt::format("{:.1f}", PeakMemory())},
          {"seconds", fmt::format("{:.6g}", report.seconds)}};
}

std::string CheckText(const std::vector<LossCheckEntry>& check) {
  int wrong = 0, rough = 0;
  for (const LossCheckEntry& e : check) {
    wrong += e.verdict == LossCheckEntry::Verdict::kWrong;
    rough += e.verdict == LossCheckEntry::Verdict::kRough;
  }
  return fmt::format("{} entries against centred differences: {} disagree, {} not judged", check.size(), wrong, rough);
}

}  // namespace

double PeakMemory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

Record MakeGradientRecord(const GradientReport& report) {
  const Task& task = *report.task;
  const mjModel* model = report.parameters ? report.parameters->model() : task.model.get();
  Simulator simulator(model, task.context, task.substeps, 1);
  Record record = TaskRecord(task, report.descent ? "gradient --descend" : "gradient");
  const RolloutStatus status = simulator.Rollout(report.x0, report.U, &record.trajectory);
  record.model = CopyModel(model);
  TakeCosts(task, record.trajectory, simulator.knot_time(), &record);
  if (report.U.rows() > 0)
    record.gradient_norm_per_knot = report.gradient->U.cwiseAbs().colwise().maxCoeff().transpose();
  record.diagnostics = simulator.Diagnose(record.trajectory);
  record.failures = LabelFailures(model, record.trajectory, status, record.diagnostics);
  if (report.gradient->health.verdict == GradientHealth::Verdict::kExploding) {
    record.failures.push_back("evaluation: exploding gradient: " + report.gradient->health.text);
  }
  record.settings = Settings(report);
  record.tables[kGradient] = GradientTable(model, simulator.knot_time(), *report.gradient);
  record.tables[kInputs] = InputsTable(report);
  if (report.check) {
    record.tables[kCheck] = CheckTable(*report.check);
    record.settings["check"] = CheckText(*report.check);
  }
  record.status = "evaluated";
  record.message = report.check ? record.settings["check"] : "not checked";
  if (report.descent) {
    record.tables[kDescent] = DescentTable(report);
    record.iterations = report.descent->iterations;
    record.status = ToString(report.descent->status);
    record.message = report.descent->message;
  }
  if (report.uncertainty && report.uncertainty->why_not.empty()) {
    record.settings["compared_numbers"] = fmt::format("{}", report.uncertainty->residuals);
    record.settings["correlation_of_what_is_left"] = fmt::format("{:.3g}", report.uncertainty->correlation);
    record.settings["undetermined_directions"] = fmt::format("{}", report.uncertainty->undetermined.size());
  }
  return record;
}

std::string WriteGradientRun(const std::string& chosen, const GradientReport& report, Record record, bool force,
                             bool plots) {
  std::string folder = SaveRunSomewhere(chosen, &record, force, plots);
  if (!plots) return folder;
  std::vector<Plot> pictures = GradientPlots(kGradient, *report.gradient);
  const int np = static_cast<int>(report.task->inputs.parameters.size());
  if (report.descent && np > 0) {
    Plot parameters{.file = "parameters.png",
                    .table = kDescent,
                    .title = "What is fitted: from guess (0) to result (1)",
                    .x_label = "iteration",
                    .y_label = "share of its way"};
    for (int k = 0; k < np; k++) {
      parameters.columns.push_back(3 + np + k);
      const TaskParameter& p = report.task->inputs.parameters[static_cast<std::size_t>(k)];
      parameters.labels.push_back(fmt::format("{}: {:.6g} to {:.6g} {}", p.name, p.value, report.descent->theta[k],
                                              (*report.parameters)[k].unit));
    }
    pictures.push_back(parameters);
  }
  WriteNewFile((std::filesystem::path(folder) / kScript).string(), PlotScript(pictures), false);
  const std::string missing = RunGnuplot(folder, kScript);
  if (!missing.empty()) PrintWarnings({folder + " lacks pictures: " + missing});
  return folder;
}

}  // namespace costate::cli
