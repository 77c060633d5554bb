// What costate optimize saves beside the motion: settings, cost by term, constraints knot by knot, times, where the
// solver stood.
#include "cli/optimize_record.h"

#include <costate/resume.h>
#include <fmt/core.h>

#include <map>
#include <string>
#include <vector>

#include "cli/run_output.h"
#include "core/number.h"
#include "optimizer/basin_hopping.h"
#include "rollout/csv.h"

namespace costate::cli {
namespace {

std::map<std::string, std::string> Settings(const OptimizeReport& report, int threads) {
  const Task& task = report.task;
  const SolveResult& result = report.result;
  const std::vector<ContinuationStage>& stages = report.stages;
  const IlqrOptions& s = task.solver;
  std::map<std::string, std::string> settings = {{"solver", ToString(s.type)},
                                                 {"iterations", fmt::format("{}", s.iterations)},
                                                 {"tolerance", ExactText(s.tolerance)},
                                                 {"gradient_tolerance", ExactText(s.gradient_tolerance)},
                                                 {"cost_unit", ExactText(s.cost_unit)},
                                                 {"regularization_init", ExactText(s.regularization_init)},
                                                 {"line_search_steps", fmt::format("{}", s.line_search_steps)},
                                                 {"line_search_ratio", ExactText(s.line_search_ratio)},
                                                 {"threads", fmt::format("{}", threads)},
                                                 {"derivative_level", ToString(s.derivative.level)},
                                                 {"derivative_centered", s.derivative.centered ? "true" : "false"},
                                                 {"smoothing", "none"},  // of the motion that is saved
                                                 {"guess_scale", ExactText(result.guess_scale)}};
  if (s.derivative_every > 1)
    settings["derivative_every"] = fmt::format("{} knots, interpolated in between", s.derivative_every);
  if (s.type == SolverType::kIlqr) settings["leave_saddles"] = s.leave_saddles ? "true" : "false";
  if (!report.resumed_from.empty()) settings["resumed_from"] = report.resumed_from;
  if (task.sampling.iterations > 0) {
    const SamplingOptions& o = task.sampling;
    const std::string nodes = o.periodic ? "periodic controls"
                              : o.spline.knots > 0
                                  ? fmt::format("{} {} knots", o.spline.knots, ToString(o.spline.order))
                                  : fmt::format("nodes every {:g} s", o.node_time);
    settings["guess"] = fmt::format("sampling: {} rounds of {} samples, {} elites, {}, exploration {:g}, seed {}",
                                    o.iterations, o.samples, o.elites, nodes, o.exploration, o.seed);
  }
  if (task.constraints.size() > 0) {
    settings["solver"] = std::string(ToString(s.type)) + " in an augmented Lagrangian";
    settings["violation"] = ExactText(task.constrained.tolerance);
  }
  if (!report.timed && report.resumed_from.empty() && Races(task.model.get(), task.N, s, task.hopping))
    settings["race"] = fmt::format("five solves side by side for {} iterations", task.hopping.race);
  if (!report.rounds.empty()) {
    const BasinHoppingOptions& o = task.hopping;
    settings["hopping"] = fmt::format(
        "{} rounds, {} solves side by side of {} iterations, kicks of {:g} half ranges, tolerance {:g}, seed {}",
        o.rounds, o.width, o.iterations, o.size, o.tolerance, o.seed);
  }
  int begun = 0;  // at the guess, and where smoothing has led
  for (const BasinHoppingRound& round : report.rounds) {
    if (report.timed) break;  // they are of many lengths
    begun += round.number == 0;
    const bool kept = round.violation <= task.constrained.tolerance;
    settings[fmt::format("round_{}{}", round.number, begun > 1 ? "_smoothed" : "")] =
        fmt::format("cost {:.10g}{} after {} iterations{}{}", round.cost,
                    kept ? "" : fmt::format(", constraints missed by {:.3g}", round.violation), round.iterations,
                    round.better ? "" : ", no better",
                    round.origin == RoundOrigin::kBack ? fmt::format(", {}", ToString(round.origin)) : "");
  }
  if (stages.empty()) return settings;
  settings["continuation"] = ToString(task.continuation.smooth);
  settings["continuation_smooths"] = task.continuation.backward_only ? "derivatives" : "motions and derivatives";
  for (std::size_t k = 0; k < stages.size(); k++) {
    const ContinuationStage& stage = stages[k];
    settings[fmt::format("stage_{}", k)] =
        fmt::format("{}: {} after {} iterations, cost {:.10g}, on the true model {:.10g}", stage.smoothing,
                    ToString(stage.status), stage.iterations, stage.cost, stage.true_cost);
    if (stage.factor > 0) settings["cost_smoothed"] = ExactText(stage.cost);
  }
  settings["cost_true"] = ExactText(result.cost);
  return settings;
}

// every bound at every knot: value and multiplier
std::string ConstraintCsv(const Task& task, const SolveResult& result, double dt) {
  std::string text = "time (s),constraint,component,value,lower,upper,multiplier\n";
  const int N = result.trajectory.N();
  VectorXd c;
  for (int i = 0; i < task.constraints.size(); ++i) {
    const ConstraintInfo& info = task.constraints[i].info();
    for (int t = 0; t <= N; ++t) {
      if (!task.constraints[i].IsAt(t, N)) continue;
      task.constraints[i].Value(ViewKnot(result.trajectory, t, dt), &c);
      for (int k = 0; k < c.size(); ++k) {
        const std::string multiplier = result.multipliers.empty()
                                           ? ""  // not known
                                           : ExactText(result.multipliers[static_cast<std::size_t>(i)](k, t));
        text += fmt::format("{:.17g},{},{},{:.17g},{:.17g},{:.17g},{}\n", result.trajectory.time[t],
                            QuotedCell(info.name), QuotedCell(info.components[static_cast<std::size_t>(k)]), c[k],
                            info.lower[k], info.upper[k], multiplier);
      }
    }
  }
  return text;
}

// times that were tried
void RecordTimes(const Task& task, const FreeTimeResult& timed, Record* record) {
  record->settings["time"] = ExactText(timed.time);
  record->settings["time_weight"] = ExactText(task.free_time.weight);
  std::string csv = "time (s),cost with time,violation,iterations\n";
  for (const FreeTimeTrial& trial : timed.trials) {
    csv += fmt::format("{:.17g},{:.17g},{:.17g},{}\n", trial.time, trial.cost, trial.violation, trial.iterations);
  }
  record->tables["times.csv"] = csv;
}

}  // namespace

Record MakeOptimizeRecord(const OptimizeReport& report, Simulator* simulator) {
  const Task& task = report.task;
  const SolveResult& result = report.result;
  Record record = TaskRecord(task, "optimize");
  TakeCosts(task, result.trajectory, simulator->knot_time(), &record);
  record.gradient_norm_per_knot = result.gradient_norm_per_knot;
  record.iterations = result.iterations;
  record.status = ToString(result.status);
  record.message = result.message;
  record.settings = Settings(report, simulator->threads());
  record.diagnostics = simulator->Diagnose(result.trajectory);
  record.failures = LabelFailures(task.model.get(), result.trajectory, {}, record.diagnostics);
  for (const ConstraintReport& c : result.constraints) RecordConstraint(c, task.constrained.tolerance, &record);
  if (task.constraints.size() > 0)
    record.tables["constraints.csv"] = ConstraintCsv(task, result, simulator->knot_time());
  record.tables[kResumeFile] = ResumeText(task, result, report.timed);
  if (report.timed) RecordTimes(task, *report.timed, &record);
  return record;
}

}  // namespace costate::cli
