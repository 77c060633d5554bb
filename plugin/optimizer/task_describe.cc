// A task in words and numbers.
#include <costate/task.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "optimizer/basin_hopping.h"
#include "optimizer/goal_slots.h"
#include "optimizer/line_search.h"
#include "optimizer/task_xml.h"

namespace costate {
namespace {

constexpr int kWideText = 36;  // longer entries of the table are cut

std::string Short(const std::string& text) {
  if (static_cast<int>(text.size()) <= kWideText) return text;
  return text.substr(0, kWideText - 3) + "...";
}

// one number, or the smallest and the largest
std::string Range(const VectorXd& numbers) {
  if (numbers.size() == 0) return "-";
  const double low = numbers.minCoeff(), high = numbers.maxCoeff();
  return low == high ? fmt::format("{:.4g}", low) : fmt::format("{:.3g} to {:.3g}", low, high);
}

std::string Window(const ResidualTerm& term) {
  if (term.weight.isZero(0)) return "end";
  const std::string when =
      term.begin == 0 && !std::isfinite(term.end)
          ? "always"
          : fmt::format("{:g} s to {}", term.begin, std::isfinite(term.end) ? fmt::format("{:g} s", term.end) : "end");
  return when;
}

// one number, or the smallest and the largest of those that are finite
std::string BoundText(const VectorXd& bounds) {
  std::vector<double> finite;
  for (const double bound : bounds) {
    if (std::isfinite(bound)) finite.push_back(bound);
  }
  return Range(Eigen::Map<const VectorXd>(finite.data(), static_cast<Eigen::Index>(finite.size())));
}

// columns as wide as their widest entry; the last `right` columns are aligned to the right
std::string Table(const std::vector<std::vector<std::string>>& rows, std::size_t right) {
  std::vector<std::size_t> width(rows[0].size(), 0);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += "  " + (i + right >= row.size() ? fmt::format("{:>{}}", row[i], width[i])
                                              : fmt::format("{:<{}}", row[i], width[i]));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

const char* ScaleText(CostScale scale) {
  switch (scale) {
    case CostScale::kDt: return "dt: running costs are integrals over time, terminal costs count once";
    case CostScale::kMean: return "mean: running costs are averaged over the knots, terminal costs count once";
    case CostScale::kSum: return "sum: running costs are summed over the knots, terminal costs count once";
    case CostScale::kKnots: return "knots: running and terminal costs are averaged over all knots, the last included";
  }
  return "";
}

const char* DerivativeText(Level level) { return level == Level::kBest ? "auto" : ToString(level); }

// what <gradient> names, unless it is all controls and all of the start
std::string Inputs(const Task& task) {
  const TaskInputs& inputs = task.inputs;
  const Dims dims(task.model.get());
  const std::size_t nu = static_cast<std::size_t>(dims.nu), ndx = static_cast<std::size_t>(dims.ndx);
  if (inputs.parameters.empty() && inputs.controls.size() == nu && inputs.start.size() == ndx) return "";
  std::string text = fmt::format("gradient  by {} of {}, {} of {} of the start, {}\n", inputs.controls.size(),
                                 Count(dims.nu, "control"), inputs.start.size(), Count(dims.ndx, "tangent"),
                                 Count(static_cast<long>(inputs.parameters.size()), "parameter"));
  for (const TaskParameter& p : inputs.parameters) {
    text += fmt::format("          {} from {:g}, between {:g} and {:g}\n", p.name, p.value, p.lower, p.upper);
  }
  return text;
}

// what <mpc> says; "" when it says nothing
std::string MpcText(const MpcOptions& mpc) {
  std::string text;
  const auto add = [&](bool given, const std::string& words) {
    if (given) text += (text.empty() ? "" : ", ") + words;
  };
  add(mpc.rate > 0, fmt::format("{:g} plans a second", mpc.rate));
  add(mpc.horizon > 0, fmt::format("over {:g} s", mpc.horizon));
  add(mpc.timestep > 0, fmt::format("engine steps of {:g} s", mpc.timestep));
  add(mpc.delay >= 0, fmt::format("acting after {:g} s{}", mpc.delay, mpc.compensate ? "" : ", not compensated"));
  add(mpc.budget > 0, fmt::format("in {:g} s at most", mpc.budget));
  add(mpc.iterations > 0, Count(mpc.iterations, "iteration"));
  add(mpc.fallback != MpcFallback::kPlan, mpc.fallback == MpcFallback::kHold ? "held when late" : "damped when late");
  add(!mpc.feedback, "without feedback");
  add(mpc.estimate > 0, fmt::format("unknown forces estimated over {:g} s", mpc.estimate));
  return text.empty() ? "" : "mpc       " + text + "\n";
}

std::string DescribeEvery(int every) {
  return fmt::format("          derivatives at every {} knots, interpolated in between\n", every);
}

// what <policy> says; "" when it says nothing
std::string PolicyText(const Task& task) {
  const PolicyOptions& policy = task.policy;
  const long spread = policy.spread.size() > 0 ? (policy.spread.array() > 0).count() : 0;
  if (policy.observations.empty() && policy.hidden.empty() && spread == 0) return "";
  std::string layers;
  for (int size : policy.hidden) layers += fmt::format("{}{}", layers.empty() ? "" : ", ", size);
  return fmt::format(
      "policy    {}, sees {}; {} that differ in {}\n", layers.empty() ? "linear" : "hidden layers of " + layers,
      policy.observations.empty() ? "the whole state" : Count(static_cast<long>(policy.observations.size()), "thing"),
      Count(spread > 0 ? policy.starts : 1, "start"), Count(spread, "entry"));
}

std::string Header(const Task& task) {
  const mjModel* model = task.model.get();
  const Dims dims(model);
  const double timestep = model->opt.timestep, dt = timestep * task.substeps;
  std::string text = fmt::format("task      {}{}\n", task.name, task.file.empty() ? "" : " (" + task.file + ")");
  text += fmt::format("model     {} ('{}'): nq {}, nv {}, na {}, nu {}\n", task.model_file, ModelName(model), dims.nq,
                      dims.nv, dims.na, dims.nu);
  text += fmt::format("sensors   {} of the model, {} added for this task\n", Count(task.user_sensors, "number"),
                      dims.ns - task.user_sensors);
  text += fmt::format("horizon   {:g} s: {} of {:g} s ({} of {:g} s each)\n", task.N * dt,
                      Count(task.N, "control interval"), dt, Count(task.substeps, "step"), timestep);
  const Eigen::Index limited = (task.u_lower.array().isFinite() || task.u_upper.array().isFinite()).count();
  text += fmt::format("limits    {} of {} have a range in the model\n", limited, Count(dims.nu, "control"));
  text += Inputs(task);
  text += fmt::format("solver    {}: {}, tolerance {:g}, derivative {}, {}\n", ToString(task.solver.type),
                      Count(task.solver.iterations, "iteration"), task.solver.tolerance,
                      DerivativeText(task.solver.derivative.level),
                      task.solver.threads == 0 ? "all cores" : Count(task.solver.threads, "thread"));
  if (task.solver.derivative_every > 1) text += DescribeEvery(task.solver.derivative_every);
  if (task.solver.cost_unit == 0) text += "          the unit of the cost is measured along the guess\n";
  if (task.solver.cost_unit > 0 && task.solver.cost_unit != 1)
    text += fmt::format("          the unit of the cost is {:g}\n", task.solver.cost_unit);
  if (!task.free_start.entries.empty()) {
    text += fmt::format("free      {} of {} of the start, within bounds\n", task.free_start.entries.size(),
                        Count(dims.ndx, "tangent entry"));
  }
  if (task.spline.knots > 0) {
    text += fmt::format("spline    {}, {}, for sampled starts and first-order methods\n",
                        Count(task.spline.knots, "knot"), ToString(task.spline.order));
  }
  if (task.sampling.iterations > 0) {
    text += fmt::format("start     sampling: {} of {}, {}, seed {}\n", Count(task.sampling.iterations, "round"),
                        Count(task.sampling.samples, "sample"),
                        task.sampling.servos     ? "periodic places of servos"
                        : task.sampling.periodic ? "periodic controls"
                        : task.spline.knots > 0  ? "by <spline>"
                                                 : fmt::format("nodes every {:g} s", task.sampling.node_time),
                        task.sampling.seed);
  }
  if (task.hopping.rounds > 0) {
    text += fmt::format(
        "hopping   {}{}{} of kicked controls at most, {} side by side, kicks of {:g} half ranges, seed {}\n",
        Races(task.model.get(), task.N, task.solver, task.hopping)
            ? fmt::format("five solves side by side, after {} iterations the best; ", task.hopping.race)
            : "",
        task.hopping.when_stuck ? "where the solve stalls, ends infeasible or never leaves its guess " : "",
        Count(task.hopping.rounds, "round"), Count(task.hopping.width, "solve"), task.hopping.size, task.hopping.seed);
  }
  if (task.free_time.longest > 0) {
    text += fmt::format("time      free, {:g} s to {:g} s, {:g} a second; its time step is scaled\n",
                        task.free_time.shortest, task.free_time.longest, task.free_time.weight);
  }
  text += MpcText(task.mpc);
  text += PolicyText(task);
  if (task.continuation.smooth.any()) {
    text += fmt::format("smooth    {}; {} stages, each {:g} of the last, then the true model; {}\n",
                        ToString(task.continuation.smooth), task.continuation.stages, task.continuation.shrink,
                        task.continuation.backward_only ? "derivatives alone" : "motions and derivatives");
  }
  return text;
}

// bounds that a motion must keep, and by how much the guess violates them
std::string ConstraintTable(const Task& task, const Trajectory& trajectory, double dt, bool simulated) {
  std::vector<std::vector<std::string>> rows{
      {"constraint", "size", "unit", "when", "lower", "upper", "violated by the guess"}};
  std::vector<ConstraintReport> reports;
  if (simulated) reports = CheckConstraints(task.constraints, trajectory, dt);
  for (int i = 0; i < task.constraints.size(); ++i) {
    const ConstraintInfo& info = task.constraints[i].info();
    const int first = info.first < 0 ? task.N + 1 + info.first : info.first;
    const int last = info.last < 0 ? task.N + 1 + info.last : info.last;
    const std::string when = first == task.N                    ? "end"
                             : first <= 1 && last >= task.N - 1 ? "always"
                             : first == last                    ? fmt::format("{:g} s", first * dt)
                                             : fmt::format("{:g} s to {:g} s", first * dt, last * dt);
    rows.push_back({Short(info.name), fmt::format("{}", task.constraints[i].size()),
                    info.unit.empty() ? "-" : Short(info.unit), when, BoundText(info.lower), BoundText(info.upper),
                    simulated ? fmt::format("{:.4g}", reports[static_cast<std::size_t>(i)].violation) : "-"});
  }
  return Table(rows, 3);
}

}  // namespace

std::vector<MissedGoal> MissedGoals(const Task& task, const Trajectory& trajectory) {
  const Dims dims(task.model.get());
  const auto states = trajectory.X.cols();
  if (trajectory.X.rows() != dims.nx || states < 1 || trajectory.time.size() != states ||
      trajectory.U.rows() != dims.nu || trajectory.U.cols() != states - 1 || trajectory.S.rows() != dims.ns ||
      trajectory.S.cols() != states) {
    throw Error(ErrorCode::kDimensionMismatch,
                fmt::format("the motion is none of model '{}': X is {} x {}, S {} x {}", ModelName(task.model.get()),
                            trajectory.X.rows(), states, trajectory.S.rows(), trajectory.S.cols()));
  }
  std::vector<MissedGoal> goals;
  const auto* cost = dynamic_cast<const ResidualCost*>(task.cost.get());
  const KnotView end = ViewKnot(trajectory, trajectory.N(), task.knot_time());
  VectorXd r;
  for (std::size_t i = 0; cost && i < cost->terms().size(); ++i) {
    const ResidualTerm& term = cost->terms()[i];
    if (!IsGoal(term)) continue;
    cost->Residual(static_cast<int>(i), end, &r);
    Eigen::Index worst = 0;
    const double miss = (term.terminal.array() > 0).select(r.array().abs(), 0.0).maxCoeff(&worst);
    const auto at = static_cast<std::size_t>(worst);
    goals.push_back({term.name, term.unit, at < term.row_names.size() ? term.row_names[at] : "", miss});
  }
  return goals;
}

std::string Describe(const Task& task) {
  std::string text = Header(task);
  const auto* residuals = dynamic_cast<const ResidualCost*>(task.cost.get());
  if (residuals) text += fmt::format("scale     {}\n", ScaleText(residuals->scale()));

  // cost of the guess, term by term
  Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  Trajectory trajectory;
  const RolloutStatus status = simulator.Rollout(task.x0, task.U_guess, &trajectory);
  const std::vector<CostTermValue> values = task.cost->Terms(trajectory);
  const double total = TotalCost(*task.cost, trajectory, simulator.knot_time());
  auto number = [&](double value) { return status.ok() ? fmt::format("{:.6g}", value) : std::string("-"); };

  std::vector<std::vector<std::string>> rows;
  if (residuals) {
    rows.push_back(
        {"cost", "measures", "size", "unit", "target", "norm", "when", "weight", "terminal", "of the guess"});
    for (std::size_t i = 0; i < residuals->terms().size(); ++i) {
      const ResidualTerm& term = residuals->terms()[i];
      rows.push_back({Short(term.name), Short(term.measured), fmt::format("{}", term.size()),
                      term.unit.empty() ? "-" : term.unit, term.target_text.empty() ? "0" : Short(term.target_text),
                      ToString(term.norm), Window(term), Range(term.weight), Range(term.terminal),
                      number(values[i].value)});
    }
    rows.push_back({"total", "", "", "", "", "", "", "", "", number(total)});
  } else {
    rows.push_back({"cost", "of the guess"});
    for (const CostTermValue& value : values) rows.push_back({value.name, number(value.value)});
    rows.push_back({"total", number(total)});
  }
  text += "\n" + Table(rows, residuals ? 3 : 1);
  if (task.constraints.size() > 0) text += "\n" + ConstraintTable(task, trajectory, simulator.knot_time(), status.ok());
  if (!status.ok()) {
    text += fmt::format("\nThe guess cannot be rolled out: at knot {} of {} the engine reports a {}.\n", status.knot,
                        task.N, ToString(status.status));
  } else if (!std::isfinite(total)) {
    text += fmt::format("\nThe guess has no cost: {}.\n",
                        NotFiniteText(task.ToProblem(), trajectory, simulator.knot_time()));
  }
  return text;
}

}  // namespace costate
