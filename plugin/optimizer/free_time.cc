// Golden section over the length of a motion, each length a solve of its own.
#include <costate/free_time.h>
#include <costate/solve.h>
#include <costate/task.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/extremes.h"
#include "optimizer/free_start.h"
#include "optimizer/go_on.h"
#include "optimizer/merit.h"
#include "optimizer/solver_checks.h"

namespace costate {
namespace {

constexpr double kGolden = 0.6180339887498949;  // (sqrt 5 - 1) / 2
constexpr double kSameCost = 1e-3;              // relative: a solution that is found again

constexpr double kShorter = 0.85;  // from one length to the next, where only long ones keep the constraints

constexpr int kMoreSolves = 3;       // of the same length, where only the iterations are missing
constexpr double kNearlyKept = 0.1;  // relative: a violation that further iterations take away
constexpr double kAllButKept = 10;   // of the tolerance: one that was given up may still go

bool IsTime(double a, double b) { return std::abs(a - b) <= 1e-12 * b; }

class FreeTime {
 public:
  FreeTime(const Problem& problem, ConstMatrixRef U, const IlqrOptions& options, const ConstrainedOptions& constrained,
           const FreeTimeOptions& free, const IterationCallback& callback, const FreeTimeState* from,
           const BasinHoppingOptions& hopping, const BasinHoppingCallback& round_callback)
      : problem_(problem),
        U_(U),
        user_(options, callback),
        constrained_(constrained),
        free_(free),
        from_(from),
        hopping_(hopping),
        round_callback_(round_callback) {
    hopping_.back = false;  // what a length misses tells of lengths, and is the search's to weigh
  }

  FreeTimeResult Run();

 private:
  // what one solve begins with
  struct Start {
    Guess guess;
    VectorXd x0;  // where the start may move; empty: problem.x0
    std::vector<MatrixXd> multipliers;
    double force_weight = 0;
    VectorXd penalties{};  // empty: as at first
  };

  double Try(double time);
  std::vector<Start> StartsOf(double time) const;
  SolveResult SolveFrom(const Start& start, const Problem& at_time);
  SolveResult SolveOn(SolveResult result, const Problem& at_time);
  void GoOn();
  bool Hop(double horizon);
  void Search(double a, double b, double horizon);
  const FreeTimeTrial* NextShorter() const;
  bool Shorten();
  std::string WhatIsBest(double longer) const;
  bool Ended() const { return stop_ || static_cast<int>(out_.trials.size()) >= free_.solves; }

  const Problem& problem_;
  ConstMatrixRef U_;
  const UserStop user_;
  const ConstrainedOptions& constrained_;
  const FreeTimeOptions& free_;
  const FreeTimeState* from_;
  BasinHoppingOptions hopping_;
  const BasinHoppingCallback& round_callback_;
  std::vector<FreeTimeTrial> known_;  // of the search that goes on
  SolveState last_state_;

  // controls, start and multipliers of times at which the constraints were kept
  struct Kept {
    double time;
    MatrixXd U;
    VectorXd x0;
    std::vector<MatrixXd> multipliers;
    double force_weight;
    VectorXd penalties{};  // behind kicks, to whose motions small ones do not lead back
  };
  std::vector<Kept> kept_;
  std::vector<IterationRecord> iterations_;
  double best_ = kInf, initial_cost_ = 0;
  bool has_initial_cost_ = false, has_result_ = false, stop_ = false, hopped_ = false;
  FreeTimeResult out_;
};

double FreeTime::Try(double time) {
  if (Ended()) return kInf;
  for (const FreeTimeTrial& trial : known_) {
    if (!IsTime(trial.time, time)) continue;
    out_.trials.push_back(trial);
    return trial.cost;
  }
  ModelPtr model = CopyModel(problem_.model);
  model->opt.timestep = time / (problem_.N * problem_.substeps);
  Problem problem = problem_;
  problem.model = model.get();

  const auto before = iterations_.size();
  out_.state_time = time;
  SolveResult result;
  bool keeps = false;
  int start = 0;
  for (const Start& from : StartsOf(time)) {
    if (start++ > 0 && (keeps || stop_)) break;
    SolveResult next = SolveOn(SolveFrom(from, problem), problem);
    if (!has_initial_cost_) initial_cost_ = next.initial_cost;
    has_initial_cost_ = true;
    keeps = next.status != SolveStatus::kDiverged && next.violation <= constrained_.tolerance;
    if (start == 1 || keeps || MeritOf(next, constrained_.tolerance) < MeritOf(result, constrained_.tolerance))
      result = std::move(next);
  }
  const double cost = keeps ? result.cost + free_.weight * time : kInf;
  const double violation = result.status == SolveStatus::kDiverged ? kInf : result.violation;
  out_.trials.push_back({time, cost, violation, result.status, static_cast<int>(iterations_.size() - before)});
  if (keeps) {
    kept_.push_back({time, result.trajectory.U, result.trajectory.X.col(0), result.multipliers, result.force_weight,
                     hopped_ ? result.state.penalties : VectorXd()});
  }

  // without any that keeps the constraints, the one of least violation
  const bool better =
      cost < best_ || (best_ == kInf && (!has_result_ || MeritOf(result, constrained_.tolerance) <
                                                             MeritOf(out_.result, constrained_.tolerance)));
  if (better) {
    best_ = cost;
    has_result_ = true;
    out_.result = std::move(result);
    out_.model = std::move(model);
    out_.time = time;
  }
  return cost;
}

// what a motion of this length is sought from, one after the other until one keeps the constraints: the nearest length
// that is known; where all that are known are longer, also the one behind it and the guess
std::vector<FreeTime::Start> FreeTime::StartsOf(double time) const {
  std::vector<const Kept*> nearest;
  for (const Kept& kept : kept_) nearest.push_back(&kept);
  std::stable_sort(nearest.begin(), nearest.end(), [time](const Kept* a, const Kept* b) {
    return std::abs(a->time - time) < std::abs(b->time - time);
  });
  const bool shortest = std::all_of(kept_.begin(), kept_.end(), [time](const Kept& kept) { return kept.time > time; });
  std::vector<Start> starts;
  if (from_ && from_->state.U.cols() > 0 && IsTime(from_->state_time, time)) {
    starts.push_back({{from_->state.X, from_->state.U, &from_->state},
                      from_->state.x0,
                      nearest.empty() ? constrained_.multipliers : nearest[0]->multipliers});
  }
  for (const Kept* kept : nearest) {
    if (starts.size() < (shortest ? 2 : 1))
      starts.push_back(Start{Guess{{}, kept->U}, kept->x0, kept->multipliers, kept->force_weight, kept->penalties});
  }
  if (starts.empty() || shortest)
    starts.push_back(Start{Guess{{}, MatrixXd(U_)}, problem_.free_start.guess, constrained_.multipliers});
  return starts;
}

SolveResult FreeTime::SolveFrom(const Start& start, const Problem& at_time) {
  Problem problem = at_time;
  if (HasFreeStart(problem)) problem.free_start.guess = start.x0;
  ConstrainedOptions constrained = constrained_;
  constrained.multipliers = start.multipliers;
  constrained.force_weight = start.force_weight;
  constrained.penalties = start.penalties;
  const IterationCallback numbered = CountOn(&iterations_, user_.callback());
  SolveResult result = hopping_.rounds > 0 ? SolveBasinHopping(problem, start.guess, user_.options(), hopping_,
                                                               numbered, constrained, round_callback_)
                                                 .result
                                           : Solve(problem, start.guess, user_.options(), numbered, constrained);
  last_state_ = result.state;
  stop_ = stop_ || result.status == SolveStatus::kInterrupted || user_.IsOver();
  return result;
}

// a motion that nearly keeps the constraints when its iterations end is none that cannot keep them: that would send the
// search to longer ones
SolveResult FreeTime::SolveOn(SolveResult result, const Problem& at_time) {
  for (int more = 0; more < kMoreSolves && !stop_; ++more) {
    const double most = result.status == SolveStatus::kIterationLimit ? kNearlyKept
                        : result.status == SolveStatus::kInfeasible   ? kAllButKept * constrained_.tolerance
                                                                      : 0;
    if (result.violation <= constrained_.tolerance || !(result.violation <= most)) break;
    const SolveState state = result.state;
    SolveResult next = SolveFrom({{state.X, state.U, &state}, state.x0, state.multipliers}, at_time);
    if (next.violation >= result.violation) break;
    next.initial_cost = result.initial_cost;
    result = std::move(next);
  }
  return result;
}

// the best time again, from its solution; where it costs what it did, so do the others that were tried
void FreeTime::GoOn() {
  if (from_->U.cols() == 0) return;
  kept_.push_back({from_->time, from_->U, from_->x0, from_->multipliers, 0});
  const double cost = Try(from_->time);
  for (const FreeTimeTrial& trial : from_->trials) {
    if (!IsTime(trial.time, from_->time) || std::abs(cost - trial.cost) > kSameCost * std::abs(trial.cost)) continue;
    known_ = from_->trials;
    std::erase_if(known_, [this](const FreeTimeTrial& t) {
      return IsTime(t.time, from_->time) || t.status == SolveStatus::kInterrupted ||
             t.status == SolveStatus::kIterationLimit;
    });
    known_.push_back(out_.trials.back());
    out_.trials.clear();
    return;
  }
}

// Where no length keeps the constraints, is there a motion beyond the nearest minimum that does, of the horizon's length
// or the longest?
bool FreeTime::Hop(double horizon) {
  const bool constrained = problem_.constraints && problem_.constraints->size() > 0;
  if (best_ < kInf || !constrained || from_ || hopping_.rounds > 0 || hopping_.after_solve || Ended()) return false;
  hopping_ = Task().hopping;
  hopped_ = true;
  for (const double time : {horizon, free_.longest})
    if (Try(time) < kInf) break;
  hopping_ = {};
  if (best_ == kInf) return false;
  // a motion that is much longer is none to begin from
  for (double time = kShorter * out_.time; time > free_.shortest && Try(time) < kInf;) time *= kShorter;
  return true;
}

// the least cost between two lengths, as far as it has one valley there
void FreeTime::Search(double a, double b, double horizon) {
  double left = b - kGolden * (b - a), right = a + kGolden * (b - a);
  double at_left = Try(left), at_right = Try(right);
  if (Hop(horizon)) {  // from there they may keep them, too
    std::erase_if(out_.trials, [](const FreeTimeTrial& trial) { return trial.cost == kInf; });
    at_left = Try(left);
    at_right = Try(right);
  }
  while (b - a > free_.tolerance * b && !Ended()) {
    // towards a length that is known to cost less than both; where neither keeps the constraints, else, longer
    const bool known = best_ < std::min(at_left, at_right);
    const bool shorter = known && out_.time < left, longer = known && out_.time > right;
    if (shorter || (!longer && at_left < at_right)) {
      b = right;
      right = left;
      at_right = at_left;
      left = b - kGolden * (b - a);
      at_left = Try(left);
    } else {
      a = left;
      left = right;
      at_left = at_right;
      right = a + kGolden * (b - a);
      at_right = Try(right);
    }
  }
}

// the longest of the motions that were sought and are shorter than the best; null without any
const FreeTimeTrial* FreeTime::NextShorter() const {
  const FreeTimeTrial* next = nullptr;
  for (const FreeTimeTrial& trial : out_.trials) {
    if (trial.time < out_.time && (!next || trial.time > next->time)) next = &trial;
  }
  return next;
}

// Where the next shorter motion does not keep the constraints, the solve alone may have failed, and where there is none it
// has not been sought: from the best one on much shorter ones, as long as they keep them. Are there any?
bool FreeTime::Shorten() {
  const FreeTimeTrial* next = NextShorter();
  if (best_ == kInf || (next && next->cost < kInf)) return false;
  const double before = best_;
  for (double time = kShorter * out_.time; time > free_.shortest && Try(time) < kInf;) time *= kShorter;
  return best_ < before;
}

// @param longer  the next longer time than the best one that was tried
std::string FreeTime::WhatIsBest(double longer) const {
  const std::string tried =
      fmt::format("; of {} times from {:g} s to {:g} s ", out_.trials.size(), free_.shortest, free_.longest);
  if (best_ == kInf)
    return tried +
           fmt::format("none was found long enough to keep the constraints, the nearest is {:.6g} s", out_.time);
  std::string best = tried + fmt::format("the best is {:.6g} s", out_.time);
  if (const FreeTimeTrial* shorter = NextShorter()) {
    best += fmt::format(", the next shorter was {:.6g} s", shorter->time);
    if (shorter->cost == kInf) {
      best += fmt::format(", of which no motion was found that keeps the constraints{}",
                          std::isfinite(shorter->violation)
                              ? fmt::format(" (the nearest misses them by {:.2g}, tolerance {:g})", shorter->violation,
                                            constrained_.tolerance)
                              : "");
    }
  }
  if (std::isfinite(longer)) best += fmt::format(", the next longer {:.6g} s", longer);
  return best;
}

FreeTimeResult FreeTime::Run() {
  if (from_) GoOn();
  const double horizon =
      std::clamp(problem_.N * problem_.substeps * problem_.model->opt.timestep, free_.shortest, free_.longest);
  Try(horizon);
  Search(free_.shortest, free_.longest, horizon);
  while (Shorten()) Search(std::max(free_.shortest, kShorter * out_.time), out_.time / kShorter, horizon);

  // the trials beside the best say how sure its time is
  double longer = kInf;
  for (const FreeTimeTrial& trial : out_.trials) {
    if (trial.time > out_.time) longer = std::min(longer, trial.time);
  }
  out_.result.iterations = std::move(iterations_);
  out_.result.state = std::move(last_state_);
  out_.result.initial_cost = initial_cost_;
  out_.result.message += WhatIsBest(longer);
  if (stop_) out_.result.status = SolveStatus::kInterrupted;
  return std::move(out_);
}

}  // namespace

FreeTimeResult SolveFreeTime(const Problem& problem, ConstMatrixRef U, const IlqrOptions& options,
                             const ConstrainedOptions& constrained, const FreeTimeOptions& free,
                             const IterationCallback& callback, const FreeTimeState* from,
                             const BasinHoppingOptions& hopping, const BasinHoppingCallback& round_callback) {
  const OptionCheck need("free time: ");
  RefuseTimeLimit(options, need);
  need(free.shortest > 0 && std::isfinite(free.shortest), "shortest", free.shortest, "positive and finite");
  need(free.longest > free.shortest && std::isfinite(free.longest), "longest", free.longest,
       "finite and above shortest");
  need(free.weight >= 0 && std::isfinite(free.weight), "weight", free.weight, "0 or more, and finite");
  need(free.tolerance > 0 && free.tolerance < 1, "tolerance", free.tolerance, "between 0 and 1");
  need(free.solves >= 3, "solves", free.solves, "3 or more");
  if (!problem.model || problem.N < 1 || problem.substeps < 1) {
    throw Error(ErrorCode::kInvalidArgument, "free time: the problem has no model or no horizon");
  }
  return FreeTime(problem, U, options, constrained, free, callback, from, hopping, round_callback).Run();
}

}  // namespace costate
