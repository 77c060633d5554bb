#include <costate/constraint.h>
#include <costate/ilqr.h>
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "core/actuator_range.h"
#include "core/check.h"
#include "core/extremes.h"
#include "optimizer/solver_checks.h"
#include "rollout/check_trajectory.h"

namespace costate {
namespace {

[[noreturn]] void Refuse(const std::string& message) { throw Error(ErrorCode::kInvalidArgument, message); }

// entries or bounds of a free start that are none
void CheckFreeStart(const Problem& problem) {
  const FreeStart& start = problem.free_start;
  const Eigen::Index n = static_cast<Eigen::Index>(start.entries.size());
  if (start.lower.size() != n || start.upper.size() != n) {
    throw Error(ErrorCode::kDimensionMismatch,
                fmt::format("the free start has {} entries, {} lower and {} upper bounds", n, start.lower.size(),
                            start.upper.size()));
  }
  const Dims dims(problem.model);
  if (start.guess.size() > 0) {
    CheckSize(problem.model, "the guess of the free start", start.guess.size(), "nx", dims.nx);
    CheckFinite(problem.model, "the guess of the free start", start.guess, StateNames);
  }
  for (Eigen::Index i = 0; i < n; ++i) {
    const int entry = start.entries[static_cast<std::size_t>(i)];
    if (entry < 0 || entry >= dims.ndx || (i > 0 && entry <= start.entries[static_cast<std::size_t>(i) - 1])) {
      Refuse(fmt::format("the free start names entry {} of {}: entries of the tangent in rising order are needed",
                         entry, dims.ndx));
    }
    if (start.lower[i] <= 0 && start.upper[i] >= 0) continue;
    Refuse(fmt::format("the bounds of the free start leave out x0: {} may change by {:g} to {:g}",
                       TangentNames(problem.model)[static_cast<std::size_t>(entry)], start.lower[i], start.upper[i]));
  }
}

}  // namespace

void ControlLimits(const mjModel* model, VectorXd* lower, VectorXd* upper) {
  const Dims dims(model);
  lower->setConstant(dims.nu, -kInf);
  upper->setConstant(dims.nu, kInf);
  for (int i = 0; i < dims.nu; ++i) {
    const mjtNum* range = ControlRange(model, i);
    if (range == nullptr) continue;
    (*lower)[i] = range[0];
    (*upper)[i] = range[1];
  }
}

const char* ToString(SolverType type) { return type == SolverType::kIlqr ? "ilqr" : "fddp"; }

const char* ToString(SolveStatus status) {
  switch (status) {
    case SolveStatus::kConverged: return "converged";
    case SolveStatus::kIterationLimit: return "iteration limit";
    case SolveStatus::kStalled: return "stalled";
    case SolveStatus::kDiverged: return "diverged";
    case SolveStatus::kInterrupted: return "interrupted";
    case SolveStatus::kInfeasible: return "infeasible";
    case SolveStatus::kTimeLimit: return "time limit";
  }
  return "unknown";
}

void RefuseDelays(const Problem& problem, const char* solver) {
  const mjModel* model = problem.model;
  for (int i = 0; i < model->nactuator; ++i) {
    if (!(model->actuator_delay[i] > 0)) continue;
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format(
            "actuator '{}' acts {:g} s late: {} plans with derivatives by the state, and controls on their way are "
            "not in it (remedy: optimize without delay=\"…\"; or <gradient start=\"none\"/> in the task and costate "
            "gradient --descend lbfgs, which follows delays, but under RK4)",
            ElementName(model, mjOBJ_ACTUATOR, i), model->actuator_delay[i], solver));
  }
  std::vector<char> read(static_cast<std::size_t>(model->nsensordata), 0);
  problem.cost->MarkSensors(&read);
  RefusePastSensors(model, "the cost", [&](int i) { return read[static_cast<std::size_t>(i)] != 0; });
}

void CheckProblem(const Problem& problem, ConstMatrixRef U) {
  if (!problem.model) Refuse("the problem has no model");
  if (!problem.cost) Refuse("the problem has no cost");
  if (problem.constraints && problem.constraints->size() > 0) {
    Refuse("the problem has constraints, '" + (*problem.constraints)[0].info().name +
           "' the first of them: this solver keeps none, SolveConstrained does");
  }
  const mjModel* model = problem.model;
  const Dims dims(model);
  const std::string name = "model '" + ModelName(model) + "'";

  // something to choose, and something to choose it for
  if (dims.nv == 0) Refuse(name + " has no degrees of freedom (nv = 0): there is no motion to optimize");
  if (dims.nu == 0) Refuse(name + " has no actuators (nu = 0): there is nothing to optimize");
  if (problem.N < 1) Refuse("the horizon is N = " + std::to_string(problem.N) + " controls, at least 1 is needed");
  if (problem.substeps < 1) Refuse("substeps is " + std::to_string(problem.substeps) + ", at least 1 is needed");

  // sizes
  CheckSize(model, "x0", problem.x0.size(), "nx", dims.nx);
  CheckSize(model, "u_lower", problem.u_lower.size(), "nu", dims.nu);
  CheckSize(model, "u_upper", problem.u_upper.size(), "nu", dims.nu);
  CheckSize(model, "a column of the control guess", U.rows(), "nu", dims.nu);
  if (U.cols() != problem.N) {
    throw Error(ErrorCode::kDimensionMismatch, "the control guess has " + std::to_string(U.cols()) +
                                                   " columns, the horizon is N = " + std::to_string(problem.N));
  }

  // values
  CheckFinite(model, "x0", problem.x0, StateNames);
  const std::vector<std::string> names = ControlNames(model);
  for (int t = 0; t < problem.N; ++t)
    CheckFinite(model, "the control guess", U.col(t), ControlNames, " at knot " + std::to_string(t));
  for (int i = 0; i < dims.nu; ++i) {
    if (problem.u_lower[i] <= problem.u_upper[i]) continue;
    Refuse(fmt::format("the limits of {} exclude each other: lower {:g}, upper {:g}", names[i], problem.u_lower[i],
                       problem.u_upper[i]));
  }
  CheckFreeStart(problem);
}

std::string DerivativeEveryText(int every) {
  if (every <= 1) return "";
  const char* ending = every % 100 / 10 == 1 ? "th"
                       : every % 10 == 2     ? "nd"
                       : every % 10 == 3     ? "rd"
                       : every % 10 == 1     ? "st"
                                             : "th";
  return fmt::format("; derivatives at every {}{} knot, interpolated in between", every, ending);
}

void OptionCheck::operator()(bool good, const char* name, double value, const char* range) const {
  if (!good)
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{}{} is {:g}, it must be {}", owner_, name, value, range));
}

void OptionCheck::ZeroOrMore(const char* name, double value) const {
  (*this)(value >= 0 && std::isfinite(value), name, value, "finite and 0 or more");
}

void CheckSolverOptions(const IlqrOptions& o, const OptionCheck& need) {
  const int type = static_cast<int>(o.type), rule = static_cast<int>(o.regularization_rule);
  need(type >= 0 && type <= static_cast<int>(SolverType::kFddp), "type", type, "SolverType::kIlqr or kFddp");
  need(rule >= 0 && rule <= static_cast<int>(RegularizationRule::kBoth), "regularization_rule", rule,
       "RegularizationRule::kPromise, kStep or kBoth");
  need(o.iterations >= 0, "iterations", o.iterations, "0 or more");
  need(o.tolerance >= 0, "tolerance", o.tolerance, "0 or more");
  need(o.stall_tolerance >= 0, "stall_tolerance", o.stall_tolerance, "0 or more");
  need(o.gradient_tolerance >= 0, "gradient_tolerance", o.gradient_tolerance, "0 or more");
  need(o.cost_unit >= 0 && std::isfinite(o.cost_unit), "cost_unit", o.cost_unit, "0 (measured) or more, and finite");
  need(o.line_search_steps >= 1 && o.line_search_steps <= 60, "line_search_steps", o.line_search_steps, "1 … 60");
  need(o.line_search_ratio >= 0 && o.line_search_ratio < 1, "line_search_ratio", o.line_search_ratio,
       "0 or more and below 1");
  need(o.derivative_every >= 1, "derivative_every", o.derivative_every, "1 or more");
  need(o.threads >= 0, "threads", o.threads, "0 (all cores) or more");
}

void RefuseTimeLimit(const IlqrOptions& o, const OptionCheck& need) {
  need(o.seconds == kInf, "seconds", o.seconds, "infinite: iLQR alone keeps a time limit");
}

}  // namespace costate
