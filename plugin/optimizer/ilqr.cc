// Iterative LQR: linearize along the best motion, solve the linear-quadratic problem, search along its policy.
#include <costate/ilqr.h>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "core/check.h"
#include "core/collision_filter.h"
#include "core/extremes.h"
#include "core/lap.h"
#include "optimizer/cost_unit.h"
#include "optimizer/expander.h"
#include "optimizer/free_start.h"
#include "optimizer/ilqr_checks.h"
#include "optimizer/regularization.h"
#include "optimizer/saddle.h"
#include "optimizer/scaled_guess.h"
#include "optimizer/solver_checks.h"
#include "optimizer/step_search.h"
#include "optimizer/take_knot.h"

namespace costate {
namespace {

constexpr double kMostCarried = 100;  // of regularization, from a solve to one that goes on
constexpr double kFinalGrowth = 100;  // of regularization when the final gains need some
constexpr double kNoTime = 1;         // [s] that derivatives about the result may take after an interruption
constexpr int kMostRecords = 10000;   // for so many iterations memory is taken in advance

// a first full step without regularization that keeps this part of its promise shows a linear-quadratic problem
constexpr double kLinearQuadratic = 0.9;

// so many small decreases (or none) in a row are convergence when the model without regularization promises no more
// than a few times the tolerance either; after more of them, whatever it promises, the motion stands at a kink
constexpr int kFlatIterations = 3, kStalledIterations = 8;
constexpr double kFlatPromise = 10;
constexpr double kNothing = 1e-4;  // of the cost: what small slopes may promise at convergence

// a saddle is looked for where decreases are no more than that, whatever the tolerance, and again once the cost has
// fallen by so much
constexpr double kLevel = 1e-6, kNews = 1e-4;

constexpr double kRivalFactor = 2;  // of the second regularization, by steps: chosen on 19 tasks and three guesses

// it is tried in so many iterations, and in those behind one that took this part off the cost
constexpr std::size_t kRivalIterations = 20;
constexpr double kRivalGain = 1e-4;

IlqrOptions RivalOptions(const IlqrOptions& options) {
  IlqrOptions rival = options;
  rival.regularization_rule = RegularizationRule::kStep;
  rival.regularization_factor = kRivalFactor;
  if (options.regularization_by_step_init >= 0) rival.regularization_init = options.regularization_by_step_init;
  return rival;
}

Clock::time_point DeadlineAfter(double seconds) {
  const Clock::time_point now = Clock::now();
  if (!(seconds < 1e9)) return Clock::time_point::max();
  return now + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

class IlqrSolver::Impl {
 public:
  Impl(const Problem& problem, const IlqrOptions& options);

  const SolveResult& Solve(ConstMatrixRef U, const IterationCallback& callback);
  const SolveResult& Resolve(const Trajectory& reference, const std::vector<MatrixXd>& K,
                             const IterationCallback& callback);

  Problem problem_;
  IlqrOptions options_;
  Simulator simulator_;
  SolveResult result_;
  LqSolver solve_lq_;  // empty: SolveRiccati

 private:
  void Begin();
  bool StartFrom(ConstMatrixRef U);
  void CompleteSensors();
  bool StartFrom(const Trajectory& reference, const std::vector<MatrixXd>& K);
  void Iterate(const IterationCallback& callback);
  bool TimeIsUp();
  bool IsStopped();
  int Linearize();
  bool Expand(IterationRecord* record);
  bool Backward(double mu, IterationRecord* record);
  bool BackwardBoth(IterationRecord* record);
  bool GrowUntilSolved(IterationRecord* record);
  bool PromisesMuch(double rounding, IterationRecord* record);
  bool IsStationary(IterationRecord* record);
  bool PromisesNothing(IterationRecord* record);
  bool IsThorough() const;
  bool LooksForSaddle() const;
  bool LeaveSaddle(IterationRecord* record);
  void Search(IterationRecord* record);
  bool TryWithout(const StepOrigin& from, IterationRecord* record);
  bool HasRival() const { return options_.regularization_rule == RegularizationRule::kBoth && cold_ && !solve_lq_; }
  bool TriesRival() const;
  void TryRival(const StepOrigin& from, IterationRecord* record);
  void TryAtLimits(IterationRecord* record);
  bool HoldLimits();
  void Judge(const IterationRecord& record);
  void FinishPolicy();
  void NoPolicy();
  void End(SolveStatus status, std::string message);

  Expander expander_;
  StepSearch search_;
  Saddle saddle_;
  Regularization regularization_;
  Regularization rival_;  // by steps, where both rules are asked for
  AcceptedStep own_;      // what the last iteration found by regularization_ …
  double own_kept_ = 0;   // … and the part of its promise that it kept
  double unit_ = 0;       // of the cost; 0: not measured yet

  LqProblem lq_;
  LqProblem at_limits_;  // … and with forces held at their limits
  RiccatiResult riccati_, rival_riccati_;
  Policy start_;  // the feedback of the first rollout
  Trajectory candidate_;
  bool expanded_ = false;      // lq_ is about the trajectory of result_
  bool cold_ = true;           // nothing is known from a solve before
  int flat_ = 0;               // small decreases in a row …
  int level_ = 0;              // … and such at which a saddle is looked for
  int slow_ = 0;               // … and such that are a stall if the model promises more
  int saddles_ = 0;            // that were left
  double seen_ = 0;            // the cost where a saddle was looked for last
  bool in_vain_ = false;       // the last search found nothing
  bool creeps_ = false;        // it found little
  bool holds_limits_ = false;  // steps are tried that hold forces at their limits
  bool ended_ = false, stopped_ = false;
  Clock::time_point deadline_, lap_;
  double fastest_ = 0;  // [s] of an iteration in this solve
};

IlqrSolver::Impl::Impl(const Problem& problem, const IlqrOptions& options)
    : problem_(problem),
      options_(options),
      simulator_(problem.model, problem.context, problem.substeps, options.threads),
      expander_(problem_, &simulator_, options_.derivative),
      search_(problem_, &simulator_, options_),
      saddle_(problem_, &simulator_, options_),
      regularization_(options),
      rival_(RivalOptions(options)) {
  simulator_.SetDerivativeModel(options.derivative_model);
  simulator_.SetDerivativeEvery(options.derivative_every);
  simulator_.SetStop(options.stop);
}

void IlqrSolver::Impl::Begin() {
  simulator_.SkipUnselectedSensors(false);
  deadline_ = DeadlineAfter(options_.seconds);
  search_.SetEnd(deadline_, options_.stop);
  fastest_ = 0;
  lap_ = Clock::now();
  result_.iterations.clear();
  result_.iterations.reserve(std::min(options_.iterations, kMostRecords));
  result_.gradient_norm = 0;
  result_.guess_scale = 1;
  result_.policy.K.resize(problem_.N);
  flat_ = level_ = slow_ = saddles_ = 0;
  seen_ = kInf;
  expanded_ = in_vain_ = creeps_ = ended_ = stopped_ = holds_limits_ = false;
}

const SolveResult& IlqrSolver::Impl::Solve(ConstMatrixRef U, const IterationCallback& callback) {
  Begin();
  cold_ = true;
  unit_ = options_.cost_unit;
  regularization_ = Regularization(options_);
  rival_ = Regularization(RivalOptions(options_));
  const bool skips = simulator_.SkipUnselectedSensors(true);
  if (StartFrom(U)) {
    Iterate(callback);
    FinishPolicy();
  }
  if (skips) CompleteSensors();
  return result_;
}

const SolveResult& IlqrSolver::Impl::Resolve(const Trajectory& reference, const std::vector<MatrixXd>& K,
                                             const IterationCallback& callback) {
  Begin();
  // a solve to its end, or at a kink, grows it in vain, which says little of a motion that goes on; beside constraints it
  // keeps steps short that would leave these
  const double init = options_.regularization_init;
  const double most = cold_ ? init : solve_lq_ ? kInf : std::max(init, kMostCarried);
  if (regularization_.value() > most) regularization_.Set(most);
  cold_ = false;
  if (unit_ == 0) unit_ = options_.cost_unit;
  if (StartFrom(reference, K)) {
    Iterate(callback);
    FinishPolicy();
  }
  return result_;
}

// those that iterations did without; the same motion, to the last bit
void IlqrSolver::Impl::CompleteSensors() {
  simulator_.SkipUnselectedSensors(false);
  simulator_.Rollout(result_.trajectory.X.col(0), result_.trajectory.U, &candidate_);
  std::swap(result_.trajectory.S, candidate_.S);
}

bool IlqrSolver::Impl::StartFrom(ConstMatrixRef U) {
  NoPolicy();
  const ScaledGuess guess = RolloutGuess(problem_, U, &simulator_, &result_.trajectory);
  result_.guess_scale = guess.scale;
  result_.cost = result_.initial_cost = guess.cost;
  if (!guess.failure.empty()) End(SolveStatus::kDiverged, guess.failure);
  return guess.failure.empty();
}

// with feedback or without, side by side, whichever costs less; when neither can be simulated, the controls scaled down
bool IlqrSolver::Impl::StartFrom(const Trajectory& reference, const std::vector<MatrixXd>& K) {
  start_.k.setZero(reference.U.rows(), reference.N());
  start_.K = K;
  double closed_cost = 0, open_cost = 0;
  const VectorXd x0 = FirstStart(problem_);
  const auto roll_out = [&](int i, int worker) {
    const double dt = simulator_.knot_time();
    if (i == 0) {
      const RolloutStatus closed = simulator_.RolloutPolicy(x0, reference, start_, 1, problem_.u_lower,
                                                            problem_.u_upper, &result_.trajectory, worker);
      closed_cost = RolloutCost(problem_, result_.trajectory, closed, dt);
    } else {
      const RolloutStatus open = simulator_.Rollout(x0, reference.U, &candidate_, worker);
      open_cost = RolloutCost(problem_, candidate_, open, dt);
    }
  };
  simulator_.ParallelFor(2, std::ref(roll_out));
  result_.cost = std::min(closed_cost, open_cost);
  if (!std::isfinite(result_.cost)) return StartFrom(reference.U);
  if (open_cost < closed_cost) std::swap(result_.trajectory, candidate_);
  result_.initial_cost = result_.cost;
  result_.policy.k.setZero(reference.U.rows(), reference.N());
  result_.policy.K = K;
  return true;
}

void IlqrSolver::Impl::Iterate(const IterationCallback& callback) {
  search_.Reserve(result_.trajectory, result_.policy);
  for (int i = 1; i <= options_.iterations; ++i) {
    if (TimeIsUp() || IsStopped()) return;
    IterationRecord record;
    record.iteration = i;
    if (!Expand(&record) || IsStopped()) return;
    const bool settled = PromisesNothing(&record) || !GrowUntilSolved(&record) || IsStationary(&record);
    if (ended_) return;
    if (!settled) {
      Search(&record);
      if (!IsStopped()) Judge(record);
    }
    problem_.cost->Observe(result_.trajectory, simulator_.knot_time(), &record);
    result_.iterations.push_back(record);
    const bool go_on = !callback || callback(record);
    if (ended_) return;
    if (!go_on) {
      return End(SolveStatus::kInterrupted,
                 fmt::format("interrupted after {} iterations at cost {:.6g}", i, result_.cost));
    }
  }
  End(SolveStatus::kIterationLimit,
      fmt::format("reached the limit of {} iterations at cost {:.6g}", options_.iterations, result_.cost));
}

bool IlqrSolver::Impl::IsStopped() {
  if (!expander_.stopped() && (!options_.stop || !options_.stop())) return false;
  stopped_ = true;
  End(SolveStatus::kInterrupted,
      fmt::format("interrupted after {} iterations at cost {:.6g}", result_.iterations.size(), result_.cost));
  return true;
}

// no time for an iteration like the fastest so far; what goes on from a motion has one in any case
bool IlqrSolver::Impl::TimeIsUp() {
  if (deadline_ == Clock::time_point::max()) return false;
  const double seconds = Lap(&lap_);
  const bool first = result_.iterations.empty();
  if (first && !cold_) return false;
  if (!first) fastest_ = fastest_ > 0 ? std::min(fastest_, seconds) : seconds;
  if (std::chrono::duration<double>(deadline_ - lap_).count() > fastest_) return false;
  End(SolveStatus::kTimeLimit,
      fmt::format("time was up after {} iterations at cost {:.6g}", result_.iterations.size(), result_.cost));
  return true;
}

// the linear-quadratic problem about the best trajectory; returns the first knot without a derivative, or -1
int IlqrSolver::Impl::Linearize() {
  const int failed = expander_.Expand(result_.trajectory, &lq_);
  expanded_ = failed < 0;
  if (expanded_ && unit_ == 0) unit_ = CostUnit(lq_);
  return failed;
}

bool IlqrSolver::Impl::Expand(IterationRecord* record) {
  if (expanded_) return true;
  Clock::time_point start = Clock::now();
  const int failed = Linearize();
  record->seconds_derivative = Lap(&start);
  if (failed < 0) return true;
  if (expander_.stopped()) return !IsStopped();
  End(SolveStatus::kStalled, fmt::format("the derivative at knot {} of {} fails ({}); the motion is the last good one",
                                         failed, problem_.N, ToString(expander_.status(failed))));
  return false;
}

bool IlqrSolver::Impl::Backward(double mu, IterationRecord* record) {
  Clock::time_point start = Clock::now();
  if (solve_lq_) {
    solve_lq_(&lq_, mu * unit_, &riccati_);
    result_.cost = TotalCost(*problem_.cost, result_.trajectory, simulator_.knot_time());
  } else {
    SolveRiccati(lq_, {.regularization = mu * unit_, .values = false}, &riccati_);
  }
  record->seconds_backward += Lap(&start);
  return riccati_.ok;
}

// where a solve creeps, both get it to the same end, one in half the time; that it is one, both have to say
bool IlqrSolver::Impl::TriesRival() const {
  return HasRival() && (result_.iterations.size() < kRivalIterations || !creeps_ || flat_ > 0);
}

// the model's solutions with both regularizations, side by side; is there that with the first?
bool IlqrSolver::Impl::BackwardBoth(IterationRecord* record) {
  if (!TriesRival()) return Backward(regularization_.value(), record);
  Clock::time_point start = Clock::now();
  const auto job = [&](int i, int) {
    const double mu = i == 0 ? regularization_.value() : rival_.value();
    SolveRiccati(lq_, {.regularization = mu * unit_, .values = false}, i == 0 ? &riccati_ : &rival_riccati_);
  };
  simulator_.ParallelFor(2, std::ref(job));
  record->seconds_backward += Lap(&start);
  return riccati_.ok;
}

// the model's solution, with as much regularization as it takes
bool IlqrSolver::Impl::GrowUntilSolved(IterationRecord* record) {
  for (bool solved = BackwardBoth(record); !solved; solved = Backward(regularization_.value(), record)) {
    if (regularization_.Grow()) continue;
    End(SolveStatus::kStalled, BackwardFailsText(problem_, result_.trajectory, lq_, simulator_.knot_time(),
                                                 riccati_.failed_knot, regularization_.value()));
    return false;
  }
  record->gradient_norm = riccati_.gradient_norm;
  return true;
}

// does the model, without regularization? Slopes by controls of large ranges are small even where there is far to go.
// @param rounding  a cost that is none
bool IlqrSolver::Impl::PromisesMuch(double rounding, IterationRecord* record) {
  const double little = std::max(kNothing * std::abs(result_.cost), rounding);
  const bool much = Backward(0, record) && -Expected(riccati_).At(1) > little;
  Backward(regularization_.value(), record);
  return much;
}

// true: it is, and this is the end or the iteration was the way out of a saddle
bool IlqrSolver::Impl::IsStationary(IterationRecord* record) {
  const double limit = options_.gradient_tolerance * (unit_ + std::abs(result_.cost));
  const double promise = -Expected(riccati_).At(1);
  if (!cold_ && promise <= options_.tolerance * std::abs(result_.cost)) {
    // near a solution from the start; less regularization may promise more the next time
    regularization_.Adapt(1, 1);
    End(SolveStatus::kConverged,
        fmt::format("converged after {} iterations: of the cost {:.6g} the model promises to take off {:.3g}",
                    result_.iterations.size(), result_.cost, promise));
    return true;
  }
  if (riccati_.gradient_norm > limit || PromisesMuch(limit, record)) return false;
  if (LeaveSaddle(record)) return true;
  End(SolveStatus::kConverged,
      fmt::format("converged after {} iterations: gradient norm {:.3g} is within its tolerance {:.3g}",
                  result_.iterations.size(), riccati_.gradient_norm, limit));
  return true;
}

// where the search gains nothing any more: does the model promise anything? With regularization any model promises
// little, hence without. true: as above
bool IlqrSolver::Impl::PromisesNothing(IterationRecord* record) {
  const bool flat = flat_ >= kFlatIterations || in_vain_, level = level_ >= kFlatIterations && LooksForSaddle();
  const bool slow = slow_ >= kStalledIterations;
  if ((!flat && !level && !slow) || !Backward(0, record)) return false;
  const double promise = -Expected(riccati_).At(1), small = kFlatPromise * std::abs(result_.cost);
  if (promise < -small * options_.tolerance) return false;  // solved to rounding alone, which is more than that
  if (promise <= small * std::max(options_.tolerance, kLevel) && LeaveSaddle(record)) return true;
  if (slow && promise > small * options_.stall_tolerance) {
    End(SolveStatus::kStalled,
        fmt::format("stalled after {} iterations: each of the last {} reduced the cost {:.6g} by less than {:g} of "
                    "itself, although the model promises {:.3g}",
                    result_.iterations.size(), slow_, result_.cost, options_.stall_tolerance, promise));
    return true;
  }
  if (!flat || promise > small * options_.tolerance) return false;
  End(SolveStatus::kConverged,
      fmt::format(
          "converged after {} iterations: of the cost {:.6g} the model promises to take off no more than {:.3g}",
          result_.iterations.size(), result_.cost, promise));
  return true;
}

// only where nothing is known from before, derivatives are the motion's own and time is not short
bool IlqrSolver::Impl::IsThorough() const {
  return options_.leave_saddles && cold_ && !solve_lq_ && !options_.derivative_model &&
         deadline_ == Clock::time_point::max();
}

bool IlqrSolver::Impl::LooksForSaddle() const {
  return IsThorough() && seen_ - result_.cost > kNews * std::abs(result_.cost);
}

// where the model promises nothing more, but the cost itself curves down along some direction
bool IlqrSolver::Impl::LeaveSaddle(IterationRecord* record) {
  if (!LooksForSaddle()) return false;
  Clock::time_point start = Clock::now();
  const double before = seen_ = result_.cost;
  const double curvature = saddle_.Find(result_.trajectory, lq_, unit_);
  record->seconds_derivative += Lap(&start);
  const AcceptedStep step =
      curvature < 0 ? saddle_.Leave(result_.trajectory, before, &result_.trajectory) : AcceptedStep{};
  record->seconds_rollout += Lap(&start);
  if (step.found.alpha == 0) return false;

  // as from a new guess
  result_.cost = step.found.cost;
  regularization_ = Regularization(options_);
  rival_ = Regularization(RivalOptions(options_));
  flat_ = level_ = slow_ = 0;
  expanded_ = in_vain_ = creeps_ = false;
  ++saddles_;
  record->step = step.found.alpha;
  record->curvature = curvature;
  record->cost = result_.cost;
  record->gradient_norm = riccati_.gradient_norm;
  record->regularization = regularization_.value();
  if (HasRival()) record->regularization_by_step = rival_.value();
  record->expected_change = step.expected.At(step.found.alpha);
  record->actual_change = result_.cost - before;
  return true;
}

// the best step from here; riccati_ holds the model's solution
void IlqrSolver::Impl::Search(IterationRecord* record) {
  const double before = result_.cost, mu = regularization_.value();
  const ExpectedChange expected = Expected(riccati_);
  const StepOrigin from{lq_, result_.trajectory, result_.cost};
  search_.Begin(unit_);
  const bool without = TryWithout(from, record);
  BoundsAhead* const bounds = cold_ && !solve_lq_ ? expander_.bounds() : nullptr;
  if (!without) search_.Find(from, mu, bounds, &riccati_, record);
  own_ = search_.step();
  own_kept_ = (own_.found.cost - before) / own_.expected.At(1);
  if (own_.found.alpha > 0 && own_.mu != mu) regularization_.Set(own_.mu);
  if (HasRival()) {
    record->regularization_by_step = rival_.value();
    if (!without && TriesRival()) TryRival(from, record);
  }

  if (holds_limits_) TryAtLimits(record);

  // nothing says yet how far the model holds: the first step that is good enough may be too long by far
  if (result_.iterations.empty() && IsThorough()) search_.Shorten(from, record);

  const AcceptedStep& step = search_.step();
  const bool found = step.found.alpha > 0;
  if (found) {
    std::swap(result_.trajectory, *search_.motion());
    std::swap(result_.policy, *search_.policy());
    result_.cost = step.found.cost;
    expanded_ = false;
  }
  record->step = step.found.alpha;
  record->cost = result_.cost;
  record->regularization = regularization_.value();
  record->expected_change =
      found ? step.expected.At(std::min(step.found.alpha, 1.0)) : expected.At(1);  // beyond it says nothing
  record->actual_change = result_.cost - before;
}

// the first step shows whether the problem is linear-quadratic: then it needs no regularization
bool IlqrSolver::Impl::TryWithout(const StepOrigin& from, IterationRecord* record) {
  const double mu = regularization_.value();
  if (mu == 0 || !cold_ || !result_.iterations.empty()) return false;
  if (Backward(0, record)) search_.Try(from, 0, 1, &riccati_, record);
  const AcceptedStep& step = search_.step();
  if (step.found.alpha == 1 && step.found.cost - from.cost <= kLinearQuadratic * step.expected.At(1)) return true;
  search_.Begin(unit_);
  Backward(mu, record);
  return false;
}

// the step by the other regularization, whose solution is there, in the place of the first where it is better
void IlqrSolver::Impl::TryRival(const StepOrigin& from, IterationRecord* record) {
  RiccatiResult* solution = &rival_riccati_;
  for (bool solved = solution->ok; !solved; solved = Backward(rival_.value(), record)) {
    if (!rival_.Grow()) return;
    solution = &riccati_;
  }
  record->regularization_by_step = rival_.value();
  const AcceptedStep step = search_.Try(from, rival_.value(), options_.line_search_steps, solution, record);
  if (step.found.alpha > 0) {
    rival_.Adapt((step.found.cost - from.cost) / step.expected.At(1), step.found.alpha);
  } else {
    rival_.Grow();
  }
}

// steps that hold forces at the limits that they have reached, in the place of the step so far where they are better
void IlqrSolver::Impl::TryAtLimits(IterationRecord* record) {
  Clock::time_point start = Clock::now();
  const bool failed = expander_.Expand(result_.trajectory, &at_limits_, true) >= 0;
  record->seconds_derivative += Lap(&start);
  if (failed) return;
  const StepOrigin from{at_limits_, result_.trajectory, result_.cost};
  for (const double mu : {regularization_.value(), 0.0}) {
    start = Clock::now();
    SolveRiccati(at_limits_, {.regularization = mu * unit_, .values = false}, &riccati_);
    record->seconds_backward += Lap(&start);
    if (riccati_.ok) search_.Try(from, mu, options_.line_search_steps, &riccati_, record);
    if (mu == 0) return;
  }
}

// where the motion stands at a kink, such steps are tried from now on; false where they are already, or never
bool IlqrSolver::Impl::HoldLimits() {
  const bool creeps = options_.stall_tolerance > options_.tolerance;  // others go on
  if (holds_limits_ || creeps || !IsThorough() || !expander_.forces().AreReached(result_.trajectory)) return false;
  holds_limits_ = true;
  regularization_ = Regularization(options_);
  rival_ = Regularization(RivalOptions(options_));
  flat_ = level_ = slow_ = 0;
  in_vain_ = creeps_ = false;
  return true;
}

// regularization for the next iteration, or the end
void IlqrSolver::Impl::Judge(const IterationRecord& record) {
  in_vain_ = record.step == 0;
  const double decrease = -record.actual_change, size = std::abs(result_.cost);
  flat_ = decrease <= options_.tolerance * size ? flat_ + 1 : 0;
  const bool slow = options_.stall_tolerance > options_.tolerance && decrease <= options_.stall_tolerance * size;
  slow_ = slow ? slow_ + 1 : 0;
  creeps_ = decrease <= kRivalGain * size;
  level_ = decrease <= std::max(options_.tolerance, kLevel) * size ? level_ + 1 : 0;
  if (in_vain_) {
    if (flat_ < kStalledIterations && regularization_.Grow()) return;
    if (HoldLimits()) return;
    return End(
        SolveStatus::kStalled,
        fmt::format("stalled after {} iterations: no step reduces the cost {:.6g} even with regularization {:g}, "
                    "gradient norm {:.3g}",
                    record.iteration, result_.cost, regularization_.value(), record.gradient_norm));
  }
  if (own_.found.alpha > 0) {
    regularization_.Adapt(own_kept_, own_.found.alpha);
  } else {
    regularization_.Grow();
  }
  if (flat_ < kStalledIterations || HoldLimits()) return;
  End(SolveStatus::kStalled,
      fmt::format(
          "stalled after {} iterations: the last {} reduced the cost {:.6g} by less than {:g} of itself, although the "
          "model promises more; the motion stands at a kink, such as {}",
          record.iteration, flat_, result_.cost, options_.tolerance,
          CanHaveContacts(problem_.model) ? "a contact about to open or close"
                                          : "a limit about to be reached or left"));
}

// gains and gradient about the trajectory that is returned, with the least regularization that works
void IlqrSolver::Impl::FinishPolicy() {
  const auto keep = [&] {
    if (result_.policy.K.front().size() == 0) NoPolicy();
    result_.policy.k.setZero(simulator_.dims().nu, problem_.N);
    result_.policy.dx0.resize(0);
    result_.gradient_norm = result_.iterations.empty() ? 0 : result_.iterations.back().gradient_norm;
  };
  if (!options_.final_policy || (stopped_ && !expanded_)) {
    // K of the model that promised no more, of the last step or, when nothing else is known, of the start; k is taken
    if (result_.status == SolveStatus::kConverged && expanded_ && riccati_.ok) TakePolicy(&riccati_, &result_.policy);
    return keep();
  }
  // who interrupts waits for derivatives that take no time
  const bool waits = result_.iterations.empty() || result_.iterations.back().seconds_derivative < kNoTime;
  if (waits) simulator_.SetStop({});
  simulator_.SetDerivativeEvery(1);
  const bool expanded = (expanded_ && options_.derivative_every == 1) || Linearize() < 0;
  simulator_.SetDerivativeEvery(options_.derivative_every);
  simulator_.SetStop(options_.stop);
  if (!expanded && expander_.stopped()) return keep();
  if (expanded) {
    for (double mu = 0; mu <= options_.regularization_max;
         mu = std::max(options_.regularization_min, kFinalGrowth * mu)) {
      SolveRiccati(lq_, {.regularization = mu * unit_, .values = false}, &riccati_);
      if (!riccati_.ok) continue;
      TakePolicy(&riccati_, &result_.policy);
      result_.gradient_norm = riccati_.gradient_norm;
      std::swap(result_.gradient_norm_per_knot, riccati_.gradient_norm_per_knot);
      return;
    }
  }
  NoPolicy();
}

// no quadratic model: the controls alone
void IlqrSolver::Impl::NoPolicy() {
  const Dims& dims = simulator_.dims();
  result_.policy.k.setZero(dims.nu, problem_.N);
  result_.policy.K.resize(problem_.N);
  for (MatrixXd& K : result_.policy.K) K.setZero(dims.nu, dims.ndx);
  result_.policy.dx0.resize(0);
  result_.gradient_norm_per_knot.resize(0);
}

void IlqrSolver::Impl::End(SolveStatus status, std::string message) {
  result_.status = status;
  if (saddles_ > 0)
    message += fmt::format("; left {} saddle{} along negative curvature", saddles_, saddles_ == 1 ? "" : "s");
  result_.message = std::move(message) + DerivativeEveryText(options_.derivative_every);
  if (result_.iterations.empty()) {
    result_.state = {};
  } else {
    result_.state.regularization = regularization_.value();
    result_.state.regularization_by_step = HasRival() ? rival_.value() : -1;
  }
  ended_ = true;
}

// ---- the public face ------------------------------------------------------------------------------------------------

IlqrSolver::IlqrSolver(const Problem& problem, const IlqrOptions& options) {
  CheckProblem(problem, MatrixXd::Zero(problem.model ? problem.model->nu : 0, std::max(problem.N, 0)));
  CheckOptions(options);
  RefuseDelays(problem, "iLQR");
  impl_ = std::make_unique<Impl>(problem, options);
}

IlqrSolver::~IlqrSolver() = default;
IlqrSolver::IlqrSolver(IlqrSolver&&) noexcept = default;
IlqrSolver& IlqrSolver::operator=(IlqrSolver&&) noexcept = default;

const Problem& IlqrSolver::problem() const { return impl_->problem_; }

void IlqrSolver::SetStart(ConstVectorRef x0, ConstVectorRef context) {
  const mjModel* model = impl_->problem_.model;
  CheckSize(model, "x0", x0.size(), "nx", impl_->simulator_.dims().nx);
  CheckFinite(model, "x0", x0, StateNames);
  impl_->simulator_.SetContext(context);
  impl_->problem_.x0 = x0;
  impl_->problem_.free_start.guess.resize(0);
  impl_->problem_.context = context;
}

void IlqrSolver::SetLimits(int iterations, double seconds) {
  IlqrOptions options = impl_->options_;
  options.iterations = iterations;
  options.seconds = seconds;
  CheckOptions(options);
  impl_->options_.iterations = iterations;
  impl_->options_.seconds = seconds;
}

void IlqrSolver::SetLqSolver(LqSolver solve) { impl_->solve_lq_ = std::move(solve); }

const SolveResult& IlqrSolver::Solve(ConstMatrixRef U, const IterationCallback& callback) {
  CheckProblem(impl_->problem_, U);
  return impl_->Solve(U, callback);
}

const SolveResult& IlqrSolver::Resolve(const Trajectory& reference, const std::vector<MatrixXd>& K,
                                       const IterationCallback& callback) {
  CheckReference(impl_->problem_, reference, K);
  return impl_->Resolve(reference, K, callback);
}

SolveResult IlqrSolver::TakeResult() { return std::exchange(impl_->result_, {}); }

SolveResult SolveIlqr(const Problem& problem, ConstMatrixRef U, const IlqrOptions& options,
                      const IterationCallback& callback) {
  CheckProblem(problem, U);
  IlqrSolver solver(problem, options);
  solver.Solve(U, callback);
  return solver.TakeResult();
}

}  // namespace costate
