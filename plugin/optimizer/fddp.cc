// The iteration of multiple shooting: options, loop, when it ends. README.md, "Multiple shooting".
#include "optimizer/fddp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/extremes.h"
#include "core/lap.h"
#include "optimizer/control_noise.h"
#include "optimizer/solver_checks.h"
#include "optimizer/take_knot.h"

namespace costate {
namespace {

void CheckFddpOptions(const IlqrOptions& o) {
  const OptionCheck need("fddp option ");
  CheckSolverOptions(o, need);
  RefuseTimeLimit(o, need);
  need(o.regularization_max > 0 && std::isfinite(o.regularization_max), "regularization_max", o.regularization_max,
       "positive and finite");
  need(o.barrier_init > 0 && std::isfinite(o.barrier_init), "barrier_init", o.barrier_init, "positive and finite");
}

}  // namespace

Fddp::Fddp(const Problem& problem, const IlqrOptions& options)
    : problem_(problem),
      options_(options),
      simulator_(problem.model, problem.context, problem.substeps, options.threads),
      barrier_(problem.u_lower, problem.u_upper, problem.N),
      filter_(options.line_search_ratio),
      N_(problem.N),
      saved_barrier_(barrier_) {
  unit_ = options.cost_unit;
  simulator_.SetDerivativeModel(options.derivative_model);
  SelectSensors(*problem.cost, problem.model, &options_.derivative, &simulator_);
  if (options.second_order) {
    const mjModel* model = options.derivative_model ? options.derivative_model : problem.model;
    second_order_ = std::make_unique<SecondOrder>(problem_, model, options.derivative.level, simulator_.threads());
    C_.resize(N_ + 1);
    D_.resize(N_ + 1);
    hessians_.resize(N_ + 1);
  }
  bounded_ = (problem.u_lower.array().isFinite() || problem.u_upper.array().isFinite()).any();
  const Dims& dims = simulator_.dims();
  expansions_.resize(simulator_.threads());
  candidates_.resize(simulator_.threads());
  costs_.resize(simulator_.threads());
  failed_.resize(N_ + 1);
  lq_.knots.resize(N_);
  lq_.unit = RegularizationUnits(problem);
  control_weights_ = lq_.unit.size() > 0 ? VectorXd(lq_.unit.cwiseAbs2().cwiseInverse()) : VectorXd::Ones(dims.nu);
  lambda_.setZero(dims.ndx, N_ + 1);
  next_lambda_ = dx_ = lambda_;
  simulator_.SetDerivativeEvery(options.derivative_every);
  lxx_diagonal_.setZero(dims.ndx, N_);
  luu_diagonal_.setZero(dims.nu, N_);
  lu_ = du_ = luu_diagonal_;
}

SolveResult Fddp::Run(ConstMatrixRef X, ConstMatrixRef U, const IterationCallback& callback, const SolveState* state) {
  result_.policy.k.setZero(U.rows(), N_);
  result_.policy.K.assign(N_, MatrixXd::Zero(U.rows(), simulator_.dims().ndx));
  if (!Start(X, U)) return std::move(result_);
  if (state) TakeState(*state);
  return Solve(callback);
}

SolveResult Fddp::Resume(int iterations, double tolerance, const IterationCallback& callback) {
  options_.iterations = iterations;
  options_.tolerance = tolerance;
  result_ = {};
  result_.policy.k.setZero(simulator_.dims().nu, N_);
  result_.policy.K.assign(N_, MatrixXd::Zero(simulator_.dims().nu, simulator_.dims().ndx));
  for (FddpIterate* iterate : {&now_, &saved_, &best_}) {
    if (std::isfinite(iterate->cost))
      iterate->cost = TotalCost(*problem_.cost, iterate->trajectory, simulator_.knot_time());
  }
  result_.initial_cost = now_.cost;
  filter_.Clear();
  linearized_ = false;
  floor_ = gained_ = 0;
  slow_ = 0;
  expected_ = kInf;
  Remember();
  return Solve(callback);
}

SolveResult Fddp::Solve(const IterationCallback& callback) {
  Loop(callback);
  const FddpIterate last = now_;
  const Mode mode = mode_;
  Finish();
  now_ = last;
  mode_ = mode;
  linearized_ = false;
  result_.state = State();
  return std::move(result_);
}

void Fddp::Loop(const IterationCallback& callback) {
  for (int i = 1; i <= options_.iterations; ++i) {
    if (options_.stop && options_.stop()) {
      return End(SolveStatus::kInterrupted,
                 fmt::format("interrupted after {} iterations at cost {:.6g}", i - 1, now_.cost));
    }
    IterationRecord record;
    record.iteration = i;
    if (!Linearize(&record)) return;
    const double before = now_.cost;
    double alpha = 0;
    Clock::time_point start = Clock::now();
    if (mode_ == Mode::kBarrier) AdaptBarrier();
    const Mode mode = mode_;
    const double mu = barrier_.mu(), objective = now_.Gaps() > 0 ? kInf : Objective(now_.trajectory, before);
    if (mode_ == Mode::kBarrier && TryPolish(&record)) {
      alpha = 1;
    } else {
      if (!FindDirection(&record)) return;
      if (mode_ == Mode::kPlain && LeavesBounds()) {
        if (!StartBarrier() || !Linearize(&record) || !FindDirection(&record)) return;
      }
      if (Converged(record)) return;
      start = Clock::now();
      const double expected = direction_.Expected(1);
      alpha = Search(mode_ == Mode::kPolish ? 1 : options_.line_search_steps);
      record.seconds_rollout += Lap(&start);
      if (mode_ == Mode::kPolish && (alpha == 0 || next_cost_ - before > kPolishRatio * expected)) {
        now_ = saved_;
        barrier_ = saved_barrier_;
        mode_ = Mode::kBarrier;
        barrier_.Shrink(0);
        linearized_ = false;
        alpha_ = 0;
        alpha = 0;
      } else if (alpha > 0) {
        Accept(alpha);
      } else {
        // a smaller step next time
        filter_.Clear();
        floor_ = kShiftGrowth * std::max({floor_, last_shift_, kFirstShift});
      }
    }
    Judge(mode, mu, objective);
    record.step = alpha;
    record.cost = now_.cost;
    Eigen::Index gap_knot = 0;
    record.gap = now_.gaps.cwiseAbs().colwise().maxCoeff().maxCoeff(&gap_knot);
    record.gap_knot = record.gap > 0 ? static_cast<int>(gap_knot) + 1 : 0;
    record.regularization = shift_;
    record.expected_change = direction_.Expected(alpha > 0 ? alpha : 1);
    record.actual_change = now_.cost - before;
    problem_.cost->Observe(now_.trajectory, simulator_.knot_time(), &record);
    result_.iterations.push_back(record);
    if (callback && !callback(record)) {
      return End(SolveStatus::kInterrupted,
                 fmt::format("interrupted after {} iterations at cost {:.6g}", i, now_.cost));
    }
    if (floor_ > options_.regularization_max) {
      return End(SolveStatus::kStalled,
                 fmt::format("stalled after {} iterations: no step improves on the cost {:.6g} even with "
                             "regularization {:g}, gradient norm {:.3g}",
                             i, now_.cost, shift_, record.gradient_norm));
    }
    if (alpha > 0 && Creeps()) return;
  }
  End(SolveStatus::kIterationLimit,
      fmt::format("reached the limit of {} iterations at cost {:.6g}", options_.iterations, now_.cost));
}

// another barrier, or gaps, begin anew
void Fddp::Judge(Mode mode, double mu, double objective) {
  const double gain = objective - Objective(now_.trajectory, now_.cost);
  const bool comparable = mode_ == mode && barrier_.mu() == mu && std::isfinite(gain);
  gained_ = comparable ? gained_ + gain : 0;
  const double enough = std::max(options_.tolerance, options_.stall_tolerance) * std::abs(now_.cost);
  slow_ = comparable && gained_ < enough ? slow_ + 1 : 0;
  if (slow_ == 0) gained_ = 0;
}

// Steps that gain nothing still lower the regularization behind those that fail: no end by its size. A barrier's problem
// that gains nothing more is left for the next one.
bool Fddp::Creeps() {
  if (slow_ < kStalledIterations || (mode_ == Mode::kBarrier && ShrinkBarrier())) return false;
  End(SolveStatus::kStalled,
      fmt::format(
          "stalled after {} iterations: the last {} reduced the cost {:.6g} by less than {:g} of itself together",
          result_.iterations.size(), slow_, now_.cost, std::max(options_.tolerance, options_.stall_tolerance)));
  return true;
}

bool Fddp::Converged(const IterationRecord& record) {
  const double expected = -direction_.Expected(1), limit = options_.tolerance * std::abs(now_.cost);
  if (now_.Gaps() > 0 || shift_ > 0) return false;
  if (mode_ == Mode::kBarrier && barrier_.Gap() > limit) return false;
  if (record.gradient_norm <= options_.gradient_tolerance * (unit_ + std::abs(now_.cost))) {
    End(SolveStatus::kConverged,
        fmt::format("converged after {} iterations: gradient norm {:.3g} is within its tolerance {:.3g}",
                    result_.iterations.size(), record.gradient_norm,
                    options_.gradient_tolerance * (unit_ + std::abs(now_.cost))));
    return true;
  }
  if (expected > limit) return false;
  End(SolveStatus::kConverged,
      fmt::format(
          "converged after {} iterations: of the cost {:.6g} the model promises to take off no more than {:.3g}",
          result_.iterations.size(), now_.cost, std::max(expected, 0.0)));
  return true;
}

void Fddp::Accept(double alpha) {
  if (mode_ == Mode::kBarrier) barrier_.Move(now_.trajectory.U, du_, next_.U);
  std::swap(now_.trajectory, next_);
  now_.cost = next_cost_;
  expected_ = now_.Gaps() > 0 ? kInf : -direction_.Expected(1);
  now_.gaps *= 1 - alpha;
  std::swap(lambda_, next_lambda_);
  linearized_ = false;
  alpha_ = alpha;
  floor_ = floor_ > kFirstShift ? floor_ / kShiftGrowth : 0;
  Remember();
}

// the best motion so far
void Fddp::Remember() {
  if (now_.Gaps() == 0 && now_.cost < best_.cost) best_ = now_;
}

void CheckFddp(const Problem& problem, ConstMatrixRef X, ConstMatrixRef U, const IlqrOptions& options) {
  CheckProblem(problem, U);
  CheckFddpOptions(options);
  RefuseDelays(problem, "fddp");
  if (options.second_order && options.derivative_every > 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("second_order takes the curvature at each knot: derivatives at every {} knots do not go "
                            "with it",
                            options.derivative_every));
  }
  const Dims dims(problem.model);
  if (X.cols() > 0 && (X.rows() != dims.nx || X.cols() != problem.N + 1)) {
    throw Error(ErrorCode::kDimensionMismatch,
                fmt::format("the state guess is {} x {}, expected nx = {} rows and N + 1 = {} columns", X.rows(),
                            X.cols(), dims.nx, problem.N + 1));
  }
}

SolveResult SolveFddp(const Problem& problem, ConstMatrixRef X, ConstMatrixRef U, const IlqrOptions& options,
                      const IterationCallback& callback) {
  CheckFddp(problem, X, U, options);
  return Fddp(problem, options).Run(X, U, callback);
}

}  // namespace costate
