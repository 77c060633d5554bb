// The outer loop of the augmented Lagrangian: multipliers and penalties between solves without constraints.
#include <costate/constraint.h>
#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "core/extremes.h"
#include "optimizer/augmented_cost.h"
#include "optimizer/checked_constraint.h"
#include "optimizer/control_limits.h"
#include "optimizer/cost_unit.h"
#include "optimizer/free_start.h"
#include "optimizer/go_on.h"
#include "optimizer/merit.h"
#include "optimizer/solver_checks.h"
#include "optimizer/take_knot.h"
#include "optimizer/violation_text.h"

namespace costate {
namespace {

constexpr double kSettled =
    0.1;  // an inner solve ends once an iteration gains less than this part of what multipliers would
constexpr double kFalls = 0.25;  // a violation that has not fallen to this part lets its penalty grow
constexpr double kGain = 0.01;   // … and than this part of the whole, by a step of at least
constexpr double kLongStep = 0.5;
constexpr double kGuessPenalty = 1;  // cost of the guess's violation in terms of what the guess costs
constexpr double kLeastPenalty = 1e-3;
constexpr double kNearly =
    1e-2;  // ½ Σ violation², relative to bounds: a guess that violates less says nothing of the penalty
constexpr double kAsksFor =
    0.1;  // what the terminal cost's minimum may leave of a violation, where it asks for the constraint itself: …
constexpr double kToken = 1e-4;  // … then the first penalty in terms of that cost's curvature, …
constexpr double kHold = 1e3;    // … and the one from the first multipliers on
constexpr double kInner = 0.03;  // of what multipliers would change: what multiple shooting may leave of a promise, …
constexpr double kExact = 1e-12;     // … of the cost at least
constexpr double kSingular = 1e-12;  // added to a curvature that may be singular, in terms of the largest
constexpr int kPatience = 6;  // updates at the largest penalty, or without progress, before a problem is infeasible
constexpr double kProgress = 0.9;
constexpr int kIdle = 2;  // inner solves in a row that find no step at all: at a kink that no penalty leads away from

void CheckConstrained(const ConstrainedOptions& o, const ConstraintSet& constraints, int N) {
  const OptionCheck need("constrained option ");
  need(o.tolerance > 0, "tolerance", o.tolerance, "positive");
  need(o.outer_iterations >= 1, "outer_iterations", o.outer_iterations, "1 or more");
  need(o.penalty_init >= 0 && std::isfinite(o.penalty_init), "penalty_init", o.penalty_init,
       "0 (chosen) or more, and finite");
  need(o.penalty_max >= o.penalty_init && o.penalty_max > 0 && std::isfinite(o.penalty_max), "penalty_max",
       o.penalty_max, "positive, finite and at least penalty_init");
  need(o.penalty_factor > 1 && std::isfinite(o.penalty_factor), "penalty_factor", o.penalty_factor,
       "finite and greater than 1");
  if (o.penalties.size() != 0 && o.penalties.size() != constraints.size()) {
    throw Error(ErrorCode::kDimensionMismatch,
                fmt::format("constrained option penalties has {} entries, the problem has {} constraints",
                            o.penalties.size(), constraints.size()));
  }
  for (double penalty : o.penalties)
    need(penalty > 0 && std::isfinite(penalty), "penalties", penalty, "positive and finite");
  const auto one_each = [&](const char* name, const VectorXd& given) {
    if (given.size() == 0 || given.size() == constraints.size()) return;
    throw Error(ErrorCode::kDimensionMismatch,
                fmt::format("constrained option {} has {} entries, the problem has {} constraints", name, given.size(),
                            constraints.size()));
  };
  one_each("residuals", o.residuals);
  one_each("tokens", o.tokens);
  if (o.multipliers.empty()) return;
  if (static_cast<int>(o.multipliers.size()) != constraints.size()) {
    throw Error(ErrorCode::kDimensionMismatch,
                fmt::format("constrained option multipliers has {} matrices, the problem has {} constraints",
                            o.multipliers.size(), constraints.size()));
  }
  for (int i = 0; i < constraints.size(); ++i) {
    const MatrixXd& lambda = o.multipliers[static_cast<std::size_t>(i)];
    if (lambda.rows() == constraints[i].size() && lambda.cols() == N + 1 && lambda.allFinite()) continue;
    throw Error(ErrorCode::kDimensionMismatch,
                fmt::format("multipliers of constraint '{}' are {} × {}, expected finite {} × {}",
                            constraints[i].info().name, lambda.rows(), lambda.cols(), constraints[i].size(), N + 1));
  }
}

// multipliers and penalties as they are about a motion, its reports being in the order of the constraints
void TellMultipliers(const std::vector<MatrixXd>& multipliers, const VectorXd& penalties, SolveResult* result) {
  for (std::size_t i = 0; i < multipliers.size(); ++i) {
    ConstraintReport& report = result->constraints[i];
    report.penalty = penalties[static_cast<Eigen::Index>(i)];
    report.active = static_cast<int>((multipliers[i].array() != 0).count());
    for (const double l : multipliers[i].reshaped()) {
      if (std::abs(l) > std::abs(report.multiplier)) report.multiplier = l;
    }
  }
  result->multipliers = multipliers;
}

class Constrained {
 public:
  Constrained(const Problem& problem, const IlqrOptions& options, const ConstrainedOptions& constrained,
              const IterationCallback& callback, const InnerSolver& inner)
      : constraints_(*problem.constraints),
        cost_(*problem.cost),
        problem_(problem),
        options_(StaysStopped(options)),
        c_(constrained),
        callback_(callback),
        inner_(inner),
        augmented_(problem.model, cost_, constraints_, problem.N),
        dt_(problem.knot_time()),
        own_(VectorXd::Zero(problem.constraints->size())) {
    problem_.constraints = nullptr;
    problem_.cost = &augmented_;
  }

  SolveResult Run(ConstMatrixRef U);

 private:
  void Start(ConstMatrixRef U);
  void KeepGuess(const Trajectory& guess, double cost);
  VectorXd OwnCurvature(Simulator* simulator, const Trajectory& guess) const;
  double ToleranceOfMultipliers() const;
  SolveResult Solve(const MatrixXd& U);
  bool GoOn(const IterationRecord& record);
  bool IsBetter(const SolveResult& candidate) const;
  bool IsGuessBetter() const;
  bool IsIdle(const SolveResult& solve) const;
  void Measure(SolveResult* result);
  bool Update(const SolveResult& result);
  void KeepState();
  SolveResult End(SolveStatus status, const std::string& what);

  const ConstraintSet& constraints_;
  const Cost& cost_;
  Problem problem_;
  IlqrOptions options_;
  const ConstrainedOptions& c_;
  const IterationCallback& callback_;
  const InnerSolver& inner_;
  AugmentedCost augmented_;
  double dt_;

  std::vector<IterationRecord> iterations_;
  double initial_cost_ = 0, guess_scale_ = 1;
  double largest_ = 0;  // penalty
  VectorXd own_;  // of each constraint whose penalty is still a token: the cost's curvature across it; 0 of others
  bool polish_ = false;  // violations are within their tolerance: the inner solver goes to its own
  bool user_stop_ = false, enough_ = false;
  VectorXd residuals_, before_;  // of AugmentedCost, now and at the update before
  SolveState state_;             // of the last inner solve
  double least_ = kInf;
  int no_progress_ = 0;
  int idle_ = 0;  // inner solves in a row that found no step
  bool has_best_ = false;
  SolveResult best_;
  std::optional<SolveResult> guess_;  // where it keeps all constraints
};

// of each constraint at the last knot alone whose violation there the terminal cost's own minimum nearly undoes: that
// cost's curvature across it, (J lxx⁻¹ Jᵀ)⁻¹ where that is least; 0 of all others
VectorXd Constrained::OwnCurvature(Simulator* simulator, const Trajectory& guess) const {
  VectorXd curvature = VectorXd::Zero(constraints_.size());
  std::vector<int> ends;
  for (int i = 0; i < constraints_.size(); ++i) {
    if (constraints_[i].IsAt(problem_.N, problem_.N) && !constraints_[i].IsAt(problem_.N - 1, problem_.N))
      ends.push_back(i);
  }
  if (ends.empty()) return curvature;
  LinearizeOptions derivative = options_.derivative;
  SelectSensors(augmented_, problem_.model, &derivative, simulator);
  StepDerivative last;
  simulator->LinearizeEach(guess, derivative, [&](int t, int, StepDerivative* d) {
    if (t == problem_.N) std::swap(last, *d);
  });
  if (last.status != StepStatus::kOk) return curvature;
  const KnotView knot = ViewKnot(guess, problem_.N, dt_);
  const MatrixXd none;
  CostExpansion e;
  cost_.Expand(knot, last.C, none, &e);
  e.lxx.diagonal().array() += kSingular * e.lxx.diagonal().cwiseAbs().maxCoeff();
  const Eigen::LLT<MatrixXd> lxx(e.lxx);
  if (lxx.info() != Eigen::Success) return curvature;
  const VectorXd dx = -lxx.solve(e.lx);
  VectorXd c;
  MatrixXd J, Ju;
  for (const int i : ends) {
    const ConstraintInfo& info = constraints_[i].info();
    const auto violation = [&info](const VectorXd& at) {
      return (at - at.cwiseMax(info.lower).cwiseMin(info.upper)).norm();
    };
    ConstraintValue(constraints_[i], knot, &c);
    ConstraintJacobian(constraints_[i], knot, last.C, none, e.lxx.cols(), &J, &Ju);
    MatrixXd by_state = MatrixXd::Zero(J.rows(), e.lxx.cols());
    by_state.leftCols(J.cols()) = J;
    const VectorXd reached = c + by_state * dx;
    if (!reached.allFinite() || !(violation(reached) <= kAsksFor * violation(c))) continue;
    curvature[i] = 1 / (by_state * lxx.solve(by_state.transpose())).diagonal().maxCoeff();
  }
  return curvature;
}

// a motion that costs more than a guess that keeps the constraints betters nothing
void Constrained::KeepGuess(const Trajectory& guess, double cost) {
  SolveResult kept;
  kept.constraints = CheckConstraints(constraints_, guess, dt_);
  kept.violation = LargestRelative(kept.constraints);
  if (!(kept.violation <= c_.tolerance) || !std::isfinite(cost)) return;
  kept.cost = cost;
  kept.trajectory = guess;
  const Dims dims(problem_.model);
  kept.policy.k.setZero(dims.nu, problem_.N);
  kept.policy.K.assign(static_cast<std::size_t>(problem_.N), MatrixXd::Zero(dims.nu, dims.ndx));
  guess_ = std::move(kept);
}

// penalties from what the guess costs and violates
void Constrained::Start(ConstMatrixRef U) {
  if (!c_.multipliers.empty()) augmented_.lambda = c_.multipliers;
  before_ = c_.residuals;
  if (c_.tokens.size() > 0) own_ = c_.tokens;
  polish_ = before_.size() > 0 && before_.maxCoeff() <= c_.tolerance;
  Simulator simulator(problem_.model, problem_.context, problem_.substeps, 1);
  Trajectory guess;
  const bool ok = simulator.Rollout(FirstStart(problem_), WithinLimits(problem_, U), &guess).ok();
  const double cost = ok ? TotalCost(cost_, guess, dt_) : kNan;
  if (ok) initial_cost_ = cost;
  if (ok && c_.keep_guess) KeepGuess(guess, cost);
  if (ok && options_.cost_unit == 0) {
    Problem bare = problem_;
    bare.cost = &cost_;
    options_.cost_unit = CostUnit(bare, guess, options_);
  }
  const double unit = options_.cost_unit > 0 ? options_.cost_unit : 1;
  largest_ = std::max(unit * c_.penalty_max, c_.penalty_init);
  if (c_.penalties.size() > 0) {
    augmented_.rho = c_.penalties;
    return;
  }
  if (c_.penalty_init > 0) {
    augmented_.rho.setConstant(c_.penalty_init);
    return;
  }

  // ½ Σ rho violation² = J, all constraints together: one that the guess happens to keep is not held harder than one it
  // misses
  double sum = 0;
  VectorXd c, scales(constraints_.size());
  for (int i = 0; i < constraints_.size(); ++i) {
    const ConstraintInfo& info = constraints_[i].info();
    double& scale = scales[i] = 1;
    for (int k = 0; k < constraints_[i].size(); ++k) scale = std::max(scale, BoundScale(info.lower[k], info.upper[k]));
    for (int t = 0; ok && t <= problem_.N; ++t) {
      if (!constraints_[i].IsAt(t, problem_.N)) continue;
      ConstraintValue(constraints_[i], ViewKnot(guess, t, dt_), &c);
      sum += 0.5 * ((c - c.cwiseMax(info.lower).cwiseMin(info.upper)) / scale).squaredNorm();
    }
  }
  if (sum > 0) sum = std::max(sum, kNearly);
  for (int i = 0; i < constraints_.size(); ++i) {
    double rho =
        kGuessPenalty * std::max(std::abs(cost), std::numeric_limits<double>::min()) / sum / (scales[i] * scales[i]);
    if (!std::isfinite(rho)) rho = std::isfinite(cost) ? kGuessPenalty * std::abs(cost) : unit;
    augmented_.rho[i] = std::clamp(rho, std::min(unit * kLeastPenalty, largest_), largest_);
  }

  // what the cost itself asks for, it is left to lead to
  if (!ok || !c_.multipliers.empty()) return;
  own_ = OwnCurvature(&simulator, guess);
  for (int i = 0; i < constraints_.size(); ++i) {
    if (!std::isfinite(own_[i]) || kToken * own_[i] >= augmented_.rho[i]) own_[i] = 0;
    if (own_[i] > 0) augmented_.rho[i] = kToken * own_[i];
  }
}

bool Constrained::GoOn(const IterationRecord& record) {
  IterationRecord numbered = record;
  numbered.iteration = static_cast<int>(iterations_.size()) + 1;
  iterations_.push_back(numbered);
  if (callback_ && !callback_(numbered)) {
    user_stop_ = true;
    return false;
  }
  const double gain = -record.actual_change, unsettled = augmented_.unsettled();
  enough_ = !polish_ && own_.isZero(0) && record.gap == 0 && record.step >= kLongStep && gain <= kSettled * unsettled &&
            gain <= kGain * (std::abs(record.cost) + unsettled);
  return !enough_;
}

// What multiple shooting leaves of its model's promise, δ, leaves violations of sqrt(2 δ / ρ), hence multipliers that
// are off by sqrt(2 δ ρ): no more than a part of what they still have to move. iLQR goes on until the cost has been
// level
double Constrained::ToleranceOfMultipliers() const {
  const double unsettled = 0.5 * augmented_.rho.dot(residuals_.cwiseAbs2());
  return std::max(kInner * unsettled / (std::abs(best_.cost) + unsettled), kExact);
}

SolveResult Constrained::Solve(const MatrixXd& U) {
  IlqrOptions options = options_;
  options.iterations = options_.iterations - static_cast<int>(iterations_.size());
  options.leave_saddles = options_.leave_saddles && polish_;
  if (options_.type == SolverType::kFddp && !polish_ && own_.isZero(0) && residuals_.size() > 0)
    options.tolerance = std::min(options_.tolerance, ToleranceOfMultipliers());
  if (!iterations_.empty()) {
    if (state_.regularization >= 0)
      options.regularization_init = std::min(state_.regularization, options.regularization_max);
    options.regularization_by_step_init = std::min(state_.regularization_by_step, options.regularization_max);
  }
  enough_ = false;
  return inner_(problem_, U, options, [&](const IterationRecord& record) { return GoOn(record); });
}

// cost and violations of the problem itself
void Constrained::Measure(SolveResult* result) {
  residuals_ = augmented_.Residuals(result->trajectory, dt_);
  result->cost = TotalCost(cost_, result->trajectory, dt_);
  result->constraints = CheckConstraints(constraints_, result->trajectory, dt_);
  result->violation = LargestRelative(result->constraints);
}

bool Constrained::IsBetter(const SolveResult& candidate) const {
  return !has_best_ || MeritOf(candidate, c_.tolerance) <= MeritOf(best_, c_.tolerance);
}

bool Constrained::IsGuessBetter() const {
  return guess_ && (guess_->cost < best_.cost || (c_.trust_guess && best_.violation > c_.tolerance));
}

// no step at any regularization; one that began at the largest has tried little else
bool Constrained::IsIdle(const SolveResult& solve) const {
  return options_.type == SolverType::kIlqr && solve.status == SolveStatus::kStalled && solve.iterations.size() > 1;
}

// multipliers, and penalties where the violation has not fallen; false when no motion keeps the constraints
bool Constrained::Update(const SolveResult& result) {
  augmented_.UpdateMultipliers(result.trajectory, dt_);
  bool grown = false;
  for (int i = 0; i < constraints_.size(); ++i) {
    if (own_[i] > 0) {
      augmented_.rho[i] = std::min(largest_, kHold * own_[i]);
      own_[i] = 0;
      grown = true;
      continue;
    }
    if (residuals_[i] <= c_.tolerance || before_.size() == 0 || residuals_[i] <= kFalls * before_[i]) continue;
    const double rho = std::min(largest_, augmented_.rho[i] * c_.penalty_factor);
    grown |= rho > augmented_.rho[i];
    augmented_.rho[i] = rho;
  }
  before_ = residuals_;
  const double worst = residuals_.maxCoeff();
  no_progress_ = worst <= c_.tolerance || worst <= kProgress * least_ ? 0 : no_progress_ + 1;
  least_ = std::min(least_, worst);
  return grown || no_progress_ < kPatience;
}

void Constrained::KeepState() {
  state_.multipliers = augmented_.lambda;
  state_.penalties = augmented_.rho;
  state_.residuals = before_;
  state_.tokens = own_;
}

SolveResult Constrained::End(SolveStatus status, const std::string& what) {
  const bool stays = IsGuessBetter();
  SolveResult result = std::move(stays ? *guess_ : best_);
  const bool cut_off = status == SolveStatus::kInterrupted || status == SolveStatus::kIterationLimit;
  result.status = stays && !cut_off ? SolveStatus::kStalled : status;
  result.initial_cost = initial_cost_;
  result.guess_scale = guess_scale_;
  result.iterations = std::move(iterations_);
  result.state = std::move(state_);
  std::stable_sort(result.constraints.begin(), result.constraints.end(),
                   [](const ConstraintReport& a, const ConstraintReport& b) { return a.relative > b.relative; });
  result.message = stays ? fmt::format("no better motion found than where this solve began ({})", what) : what;
  result.message += fmt::format(" after {} iterations at cost {:.8g}, ", result.iterations.size(), result.cost);
  result.message += ViolationText(result, c_.tolerance) + DerivativeEveryText(options_.derivative_every);
  return result;
}

SolveResult Constrained::Run(ConstMatrixRef U) {
  Start(U);
  if (guess_) TellMultipliers(augmented_.lambda, augmented_.rho, &*guess_);
  MatrixXd controls = U;
  for (int outer = 1;; ++outer) {
    SolveResult result = Solve(controls);
    if (outer == 1) {
      if (result.guess_scale < 1) initial_cost_ = result.initial_cost;  // of the guess as it was scaled
      guess_scale_ = result.guess_scale;
    }
    if (result.status == SolveStatus::kDiverged) {
      if (outer == 1) return result;
      return End(SolveStatus::kStalled, "by the last solve (" + result.message + ")");
    }
    Measure(&result);
    const VectorXd start = result.trajectory.X.col(0);
    idle_ = result.trajectory.U == controls && start == FirstStart(problem_) ? idle_ + IsIdle(result) : 0;
    controls = result.trajectory.U;
    if (HasFreeStart(problem_)) problem_.free_start.guess = start;
    const SolveStatus status = result.status;
    const double violation = result.violation;
    const bool settled = residuals_.maxCoeff() <= c_.tolerance;
    const std::string reason = result.message;

    // a solve that goes on begins this inner solve again where it was cut off, else the next one
    state_ = std::move(result.state);
    if (state_.U.size() == 0) state_.U = controls;
    if (HasFreeStart(problem_) && state_.x0.size() == 0) state_.x0 = start;
    const bool cut_off = !enough_ && (status == SolveStatus::kInterrupted || status == SolveStatus::kIterationLimit);
    if (cut_off) KeepState();
    const bool go_on = Update(result) && idle_ < kIdle;
    if (!cut_off) KeepState();

    TellMultipliers(augmented_.lambda, augmented_.rho, &result);
    if (IsBetter(result)) {
      best_ = std::move(result);
      has_best_ = true;
    }

    if (user_stop_ || (options_.stop && options_.stop())) return End(SolveStatus::kInterrupted, "interrupted");
    if (settled && polish_ && status != SolveStatus::kIterationLimit) {
      return status == SolveStatus::kConverged ? End(SolveStatus::kConverged, "converged")
                                               : End(SolveStatus::kStalled, "by the last solve (" + reason + ")");
    }
    if (static_cast<int>(iterations_.size()) >= options_.iterations) {
      return End(SolveStatus::kIterationLimit, fmt::format("reached the limit of {} iterations", options_.iterations));
    }
    if (!go_on && violation > c_.tolerance) {
      if (best_.violation <= c_.tolerance || IsGuessBetter())
        return End(SolveStatus::kStalled, "stalled: no better motion found that keeps the constraints");
      return End(SolveStatus::kInfeasible, "infeasible: no motion found that keeps the constraints");
    }
    if (outer >= c_.outer_iterations) {
      return End(SolveStatus::kIterationLimit,
                 fmt::format("reached the limit of {} updates of the multipliers", outer));
    }
    polish_ = settled;
  }
}

}  // namespace

SolveResult SolveConstrained(const Problem& problem, ConstMatrixRef U, const IlqrOptions& options,
                             const ConstrainedOptions& constrained, const IterationCallback& callback,
                             const InnerSolver& inner) {
  const InnerSolver solver =
      inner ? inner : [](const Problem& p, ConstMatrixRef guess, const IlqrOptions& o, const IterationCallback& c) {
        return SolveIlqr(p, guess, o, c);
      };
  if (!problem.constraints || problem.constraints->size() == 0) {
    Problem free = problem;
    free.constraints = nullptr;
    return solver(free, U, options, callback);
  }
  Problem unconstrained = problem;
  unconstrained.constraints = nullptr;
  CheckProblem(unconstrained, U);
  CheckConstrained(constrained, *problem.constraints, problem.N);
  RefuseTimeLimit(options, OptionCheck("constrained option "));
  return Constrained(problem, options, constrained, callback, solver).Run(U);
}

}  // namespace costate
