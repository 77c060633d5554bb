// Iterative LQR: linearize along the best motion, solve the linear-quadratic problem, search along its policy.
#include <costate/ilqr.h>

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "optimizer/line_search.h"
#include "optimizer/regularization.h"
#include "optimizer/solver_checks.h"

namespace costate {
namespace {

constexpr int kGuessScalings = 4;     // a guess that diverges is tried at 1, ¼, 1/16, 1/64, 0
constexpr double kGuessFactor = 0.25;
constexpr double kFinalGrowth = 100;  // of regularization when the final gains need some

// a first full step without regularization that keeps this part of its promise shows a linear-quadratic problem
constexpr double kLinearQuadratic = 0.9;

// a shorter step than this sends the search to other regularizations, larger and smaller, each at a few alphas; factors
// and threshold were chosen on the 25 motions of tests/benchmark/README.md
constexpr double kShortStep = 1.0 / 16;
constexpr double kSweep[] = {100, 10, 0.1, 0.01, 0};
constexpr int kSweepSteps = 4;

// so many small decreases (or none) in a row are convergence when the model without regularization promises no more than a few
// times the tolerance either; after more of them, whatever it promises, the motion stands at a kink
constexpr int kFlatIterations = 3, kStalledIterations = 8;
constexpr double kFlatPromise = 10;

using Clock = std::chrono::steady_clock;

// seconds since `start`, which moves on to now
double Lap(Clock::time_point* start) {
  const Clock::time_point now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - *start).count();
  *start = now;
  return seconds;
}

// a control on its way is no part of x: B would not know it, at the knot or later
void CheckDelays(const mjModel* m) {
  for (int i = 0; i < m->nactuator; ++i) {
    if (!(m->actuator_delay[i] > 0)) continue;
    throw Error(ErrorCode::kUnsupported,
                fmt::format("actuator '{}' acts {:g} s late: iLQR plans with derivatives by the state, and controls on their way are not in it "
                            "(without delay=\"…\" the model can be optimized)", ElementName(m, mjOBJ_ACTUATOR, i), m->actuator_delay[i]));
  }
}

void CheckOptions(const IlqrOptions& o) {
  const auto need = [](bool good, const char* name, double value, const char* range) {
    if (good) return;
    throw Error(ErrorCode::kInvalidArgument, fmt::format("iLQR option {} is {:g}, it must be {}", name, value, range));
  };
  need(o.iterations >= 0, "iterations", o.iterations, "0 or more");
  need(o.tolerance >= 0, "tolerance", o.tolerance, "0 or more");
  need(o.gradient_tolerance >= 0, "gradient_tolerance", o.gradient_tolerance, "0 or more");
  need(o.regularization_min > 0, "regularization_min", o.regularization_min, "positive");
  need(o.regularization_init >= 0, "regularization_init", o.regularization_init, "0 or more");
  need(o.regularization_max >= o.regularization_min && std::isfinite(o.regularization_max), "regularization_max",
       o.regularization_max, "finite and at least regularization_min");
  need(o.regularization_factor > 1 && std::isfinite(o.regularization_factor), "regularization_factor",
       o.regularization_factor, "finite and greater than 1");
  need(o.line_search_steps >= 1 && o.line_search_steps <= 60, "line_search_steps", o.line_search_steps, "1 … 60");
  need(o.line_search_ratio >= 0 && o.line_search_ratio < 1, "line_search_ratio", o.line_search_ratio,
       "0 or more and below 1");
  need(o.threads >= 0, "threads", o.threads, "0 (all cores) or more");
}

// a step that the line search accepted, not yet taken
struct Step {
  double mu = 0;
  ExpectedChange expected;
  LineSearchResult found;

  bool IsBetterThan(const Step& other) const {
    return found.alpha > 0 && (other.found.alpha == 0 || found.cost < other.found.cost);
  }
};

// one worker's search over regularizations
struct Sweeper {
  RiccatiResult riccati;
  Policy policy;
  Step step;                        // the best so far …
  int index = 0;                    // … which of kSweep it is
  Trajectory trajectory, candidate;  // … where it leads, and where another one does
  double seconds_rollout = 0, seconds_backward = 0;
};

class Ilqr {
 public:
  Ilqr(const Problem& problem, const IlqrOptions& options)
      : problem_(problem),
        options_(options),
        simulator_(problem.model, problem.context, problem.substeps, options.threads),
        line_search_(problem_, &simulator_, options.line_search_ratio),
        regularization_(options) {
    simulator_.SetDerivativeModel(options.derivative_model);
    options_.derivative.sensors = problem.cost->NeedsSensors();
    bounded_ = (problem.u_lower.array().isFinite() || problem.u_upper.array().isFinite()).any();
    expansions_.resize(simulator_.threads());
    sweepers_.resize(simulator_.threads());
    failed_.resize(problem.N + 1);
    lq_.knots.resize(problem.N);
  }

  SolveResult Run(ConstMatrixRef U, const IterationCallback& callback);

 private:
  bool Start(ConstMatrixRef U);
  void Iterate(const IterationCallback& callback);
  int Linearize();
  bool Expand(IterationRecord* record);
  bool Backward(double mu, IterationRecord* record);
  bool GrowUntilSolved(IterationRecord* record);
  bool IsStationary();
  bool PromisesNothing(IterationRecord* record);
  void Search(IterationRecord* record);
  bool TryWithout(IterationRecord* record);
  void Try(double mu, int steps, IterationRecord* record);
  void Sweep(double mu, IterationRecord* record);
  void SweepOn(int index, double mu, int worker);
  void Judge(const IterationRecord& record);
  void FinishPolicy();
  void End(SolveStatus status, std::string message);
  static ExpectedChange Expected(const RiccatiResult& r) { return {r.expected_linear, r.expected_quadratic}; }
  ExpectedChange Expected() const { return Expected(riccati_); }

  Problem problem_;
  IlqrOptions options_;
  Simulator simulator_;
  LineSearch line_search_;
  Regularization regularization_;
  bool bounded_ = false;

  LqProblem lq_;
  RiccatiResult riccati_;
  std::vector<CostExpansion> expansions_;  // one a worker
  std::vector<StepStatus> failed_;         // of the derivative at each knot
  bool expanded_ = false;                  // lq_ is about the trajectory of result_

  Step step_;                              // the best of this iteration …
  Trajectory next_, candidate_;            // … where it leads, and where another one does
  std::vector<Sweeper> sweepers_;          // one a worker
  Policy policy_;                          // of the step that is tried
  int flat_ = 0;                           // small decreases in a row
  bool in_vain_ = false;                   // the last search found nothing
  bool ended_ = false;
  SolveResult result_;
};

SolveResult Ilqr::Run(ConstMatrixRef U, const IterationCallback& callback) {
  if (Start(U)) {
    Iterate(callback);
    FinishPolicy();
  }
  return std::move(result_);
}

// the first rollout; a guess that diverges is scaled down, in the end to no control at all
bool Ilqr::Start(ConstMatrixRef U) {
  const Eigen::Index nu = U.rows(), N = U.cols();
  result_.policy.k.setZero(nu, N);
  result_.policy.K.assign(N, MatrixXd::Zero(nu, simulator_.dims().ndx));
  RolloutStatus first;
  for (int i = 0; i <= kGuessScalings; ++i) {
    result_.guess_scale = i < kGuessScalings ? std::pow(kGuessFactor, i) : 0;
    const MatrixXd guess = (result_.guess_scale * U)
                               .cwiseMax(problem_.u_lower.replicate(1, N))
                               .cwiseMin(problem_.u_upper.replicate(1, N));
    const RolloutStatus status = simulator_.Rollout(problem_.x0, guess, &result_.trajectory);
    if (i == 0) first = status;
    result_.cost = RolloutCost(problem_, result_.trajectory, status, simulator_.knot_time());
    result_.initial_cost = result_.cost;
    if (std::isfinite(result_.cost)) return true;
    if (U.isZero(0)) break;
  }

  const std::string reason = first.ok() ? "its cost is not finite"
                                        : fmt::format("{} at knot {} of {} ({:.3g} s)", ToString(first.status), first.knot,
                                                      N, first.knot * simulator_.knot_time());
  End(SolveStatus::kDiverged, fmt::format("the guess cannot be simulated: {}; neither can the guess scaled down to zero",
                                          reason));
  return false;
}

void Ilqr::Iterate(const IterationCallback& callback) {
  for (int i = 1; i <= options_.iterations; ++i) {
    IterationRecord record;
    record.iteration = i;
    if (!Expand(&record) || PromisesNothing(&record) || !GrowUntilSolved(&record) || IsStationary()) return;
    Search(&record);
    Judge(record);
    problem_.cost->Observe(result_.trajectory, simulator_.knot_time(), &record);
    result_.iterations.push_back(record);
    const bool go_on = !callback || callback(record);
    if (ended_) return;
    if (!go_on) {
      return End(SolveStatus::kInterrupted, fmt::format("interrupted after {} iterations at cost {:.6g}", i, result_.cost));
    }
  }
  End(SolveStatus::kIterationLimit,
      fmt::format("reached the limit of {} iterations at cost {:.6g}", options_.iterations, result_.cost));
}

// the linear-quadratic problem about the best trajectory; returns the first knot without a derivative, or -1
int Ilqr::Linearize() {
  const Trajectory& trajectory = result_.trajectory;
  simulator_.LinearizeEach(trajectory, options_.derivative, [&](int t, int worker, StepDerivative* derivative) {
    failed_[t] = derivative->status;
    if (derivative->status != StepStatus::kOk) return;
    CostExpansion& expansion = expansions_[worker];
    problem_.cost->Expand(ViewKnot(trajectory, t, simulator_.knot_time()), derivative->C, derivative->D, &expansion);

    // matrices change places instead of being copied: one set is in memory
    if (t == problem_.N) {
      std::swap(lq_.lx, expansion.lx);
      std::swap(lq_.lxx, expansion.lxx);
      return;
    }
    LqKnot& knot = lq_.knots[t];
    std::swap(knot.A, derivative->A);
    std::swap(knot.B, derivative->B);
    std::swap(knot.lx, expansion.lx);
    std::swap(knot.lu, expansion.lu);
    std::swap(knot.lxx, expansion.lxx);
    std::swap(knot.lux, expansion.lux);
    std::swap(knot.luu, expansion.luu);
    if (!bounded_) return;
    knot.du_lower = problem_.u_lower - trajectory.U.col(t);
    knot.du_upper = problem_.u_upper - trajectory.U.col(t);
  });
  const auto failed = std::find_if(failed_.begin(), failed_.end(), [](StepStatus s) { return s != StepStatus::kOk; });
  expanded_ = failed == failed_.end();
  return expanded_ ? -1 : static_cast<int>(failed - failed_.begin());
}

bool Ilqr::Expand(IterationRecord* record) {
  if (expanded_) return true;
  Clock::time_point start = Clock::now();
  const int failed = Linearize();
  record->seconds_derivative = Lap(&start);
  if (failed < 0) return true;
  End(SolveStatus::kStalled, fmt::format("the derivative at knot {} of {} fails ({}); the motion is the last good one",
                                         failed, problem_.N, ToString(failed_[failed])));
  return false;
}

bool Ilqr::Backward(double mu, IterationRecord* record) {
  Clock::time_point start = Clock::now();
  SolveRiccati(lq_, {.regularization = mu, .values = false}, &riccati_);
  record->seconds_backward += Lap(&start);
  return riccati_.ok;
}

// the model's solution, with as much regularization as it takes
bool Ilqr::GrowUntilSolved(IterationRecord* record) {
  while (!Backward(regularization_.value(), record)) {
    if (regularization_.Grow()) continue;
    End(SolveStatus::kStalled,
        fmt::format("the backward pass fails at knot {} of {} even with regularization {:g}: Quu is not positive definite "
                    "or not finite", riccati_.failed_knot, problem_.N, regularization_.value()));
    return false;
  }
  record->gradient_norm = riccati_.gradient_norm;
  return true;
}

bool Ilqr::IsStationary() {
  const double limit = options_.gradient_tolerance * (1 + std::abs(result_.cost));
  if (riccati_.gradient_norm > limit) return false;
  End(SolveStatus::kConverged,
      fmt::format("converged after {} iterations: gradient norm {:.3g} is within its tolerance {:.3g}",
                  result_.iterations.size(), riccati_.gradient_norm, limit));
  return true;
}

// where the search gains nothing any more: does the model promise anything? With regularization any model promises little,
// hence without
bool Ilqr::PromisesNothing(IterationRecord* record) {
  if ((flat_ < kFlatIterations && !in_vain_) || !Backward(0, record)) return false;
  const double promise = -Expected().At(1);
  if (promise > kFlatPromise * options_.tolerance * std::abs(result_.cost)) return false;
  End(SolveStatus::kConverged,
      fmt::format("converged after {} iterations: of the cost {:.6g} the model promises to take off no more than {:.3g}",
                  result_.iterations.size(), result_.cost, promise));
  return true;
}

// the best step from here: along the regularized policy, or along those with more or less regularization; riccati_ holds
// the first
void Ilqr::Search(IterationRecord* record) {
  const double before = result_.cost, mu = regularization_.value();
  const ExpectedChange expected = Expected();
  step_ = {};
  if (!TryWithout(record)) {
    Try(mu, options_.line_search_steps, record);
    if (step_.found.alpha < kShortStep) Sweep(std::max(mu, options_.regularization_min), record);
  }

  const bool found = step_.found.alpha > 0;
  if (found) {
    std::swap(result_.trajectory, next_);
    result_.cost = step_.found.cost;
    expanded_ = false;
    if (step_.mu != mu) regularization_.Set(step_.mu);
  }
  record->step = step_.found.alpha;
  record->cost = result_.cost;
  record->regularization = regularization_.value();
  record->expected_change = found ? step_.expected.At(step_.found.alpha) : expected.At(1);
  record->actual_change = result_.cost - before;
}

// the first step shows whether the problem is linear-quadratic: then it needs no regularization
bool Ilqr::TryWithout(IterationRecord* record) {
  const double mu = regularization_.value();
  if (mu == 0 || !result_.iterations.empty()) return false;
  if (Backward(0, record)) Try(0, 1, record);
  if (step_.found.alpha == 1 && step_.found.cost - result_.cost <= kLinearQuadratic * step_.expected.At(1)) return true;
  step_ = {};
  Backward(mu, record);
  return false;
}

// rolls out the policy in riccati_; kept when it is the best so far
void Ilqr::Try(double mu, int steps, IterationRecord* record) {
  Clock::time_point start = Clock::now();
  std::swap(policy_.k, riccati_.k);
  std::swap(policy_.K, riccati_.K);
  const Step step = {
      mu, Expected(), line_search_.Run(result_.trajectory, result_.cost, policy_, Expected(), steps, &candidate_)};
  if (step.IsBetterThan(step_)) {
    step_ = step;
    std::swap(next_, candidate_);
  }
  record->seconds_rollout += Lap(&start);
}

// the best step of several regularizations about mu, side by side; of equals the first
void Ilqr::Sweep(double mu, IterationRecord* record) {
  for (Sweeper& s : sweepers_) {
    s.step = {};
    s.seconds_backward = s.seconds_rollout = 0;
  }
  Clock::time_point start = Clock::now();
  simulator_.ParallelFor(static_cast<int>(std::size(kSweep)),
                         [&](int i, int worker) { SweepOn(i, kSweep[i] * mu, worker); });
  const double seconds = Lap(&start);

  Sweeper* best = nullptr;
  double backward = 0, all = 0;
  for (Sweeper& s : sweepers_) {
    backward += s.seconds_backward;
    all += s.seconds_backward + s.seconds_rollout;
    if (s.step.found.alpha == 0) continue;
    const bool tie = best && s.step.found.cost == best->step.found.cost && s.index < best->index;
    if (!best || tie || s.step.IsBetterThan(best->step)) best = &s;
  }
  if (best && best->step.IsBetterThan(step_)) {
    step_ = best->step;
    std::swap(next_, best->trajectory);
  }
  const double share = all > 0 ? backward / all : 0;
  record->seconds_backward += seconds * share;
  record->seconds_rollout += seconds * (1 - share);
}

void Ilqr::SweepOn(int index, double mu, int worker) {
  Sweeper& s = sweepers_[worker];
  Clock::time_point start = Clock::now();
  SolveRiccati(lq_, {.regularization = mu, .values = false}, &s.riccati);
  s.seconds_backward += Lap(&start);
  if (!s.riccati.ok) return;
  std::swap(s.policy.k, s.riccati.k);
  std::swap(s.policy.K, s.riccati.K);
  const ExpectedChange expected = Expected(s.riccati);
  const Step step = {mu, expected, line_search_.RunOn(worker, result_.trajectory, result_.cost, s.policy, expected,
                                                      kSweepSteps, &s.candidate)};
  if (step.IsBetterThan(s.step)) {
    s.step = step;
    s.index = index;
    std::swap(s.trajectory, s.candidate);
  }
  s.seconds_rollout += Lap(&start);
}

// regularization for the next iteration, or the end
void Ilqr::Judge(const IterationRecord& record) {
  in_vain_ = record.step == 0;
  flat_ = -record.actual_change <= options_.tolerance * std::abs(result_.cost) ? flat_ + 1 : 0;
  if (in_vain_) {
    if (flat_ < kStalledIterations && regularization_.Grow()) return;
    return End(SolveStatus::kStalled,
               fmt::format("stalled after {} iterations: no step reduces the cost {:.6g} even with regularization {:g}, "
                           "gradient norm {:.3g}", record.iteration, result_.cost, regularization_.value(),
                           record.gradient_norm));
  }
  regularization_.Adapt(record.actual_change / step_.expected.At(1));
  if (flat_ < kStalledIterations) return;
  End(SolveStatus::kStalled,
      fmt::format("stalled after {} iterations: the last {} reduced the cost {:.6g} by less than {:g} of itself, although the "
                  "model promises more; the motion stands at a kink, such as a contact about to open or close",
                  record.iteration, flat_, result_.cost, options_.tolerance));
}

// gains and gradient about the trajectory that is returned, with the least regularization that works
void Ilqr::FinishPolicy() {
  if (expanded_ || Linearize() < 0) {
    for (double mu = 0; mu <= options_.regularization_max; mu = std::max(options_.regularization_min, kFinalGrowth * mu)) {
      SolveRiccati(lq_, {.regularization = mu, .values = false}, &riccati_);
      if (!riccati_.ok) continue;
      result_.policy.k = std::move(riccati_.k);
      result_.policy.K = std::move(riccati_.K);
      result_.gradient_norm = riccati_.gradient_norm;
      result_.gradient_norm_per_knot = std::move(riccati_.gradient_norm_per_knot);
      return;
    }
  }

  // no quadratic model: the controls alone
  result_.policy.k.setZero();
  for (MatrixXd& K : result_.policy.K) K.setZero();
}

void Ilqr::End(SolveStatus status, std::string message) {
  result_.status = status;
  result_.message = std::move(message);
  ended_ = true;
}

}  // namespace

SolveResult SolveIlqr(const Problem& problem, ConstMatrixRef U, const IlqrOptions& options,
                      const IterationCallback& callback) {
  CheckProblem(problem, U);
  CheckOptions(options);
  CheckDelays(problem.model);
  return Ilqr(problem, options).Run(U, callback);
}

}  // namespace costate
