// From smooth to true: iLQR on one model after the other, each from the controls (and the free start) of the one
// before, or from what its policy makes of them on the next model.
#include "optimizer/continuation.h"

#include <costate/certificate.h>
#include <costate/solve.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/extremes.h"
#include "optimizer/free_start.h"
#include "optimizer/go_on.h"
#include "optimizer/line_search.h"
#include "optimizer/merit.h"
#include "optimizer/solver_checks.h"
#include "optimizer/untouched.h"

namespace costate {
namespace {

constexpr double kSlope = 1e-4;  // of what no control changes, along a smoothed motion that leads to it
constexpr int kCertified = 24;   // knots that are looked at, evenly spread: one certificate costs some steps

class Continuation {
 public:
  Continuation(const Problem& problem, const IlqrOptions& options, const ContinuationOptions& continuation,
               const IterationCallback& callback, const StageCallback& stage_callback)
      : problem_(problem),
        user_(options, callback),
        options_(user_.options()),
        c_(continuation),
        smooth_(continuation.smooth),
        stages_(continuation.stages),
        simulator_(problem.model, problem.context, problem.substeps, options.threads),
        stage_callback_(stage_callback) {}

  ContinuationResult Run(ConstMatrixRef U);
  ContinuationResult GoOnBehind(const SolveResult& plain, ConstMatrixRef U);

 private:
  void Begin(ConstMatrixRef U);
  ContinuationResult GoThrough();
  void SmoothStage(double factor);
  // what a stage begins with: controls, and a start where that may move
  struct Beginning {
    VectorXd x0;
    MatrixXd U;
  };

  void TrueStage(const Beginning& from);
  void ReachOut();
  bool SmoothingReaches(const SmoothContact& smooth) const;
  SolveResult Solve(Problem problem, const Beginning& from, IlqrOptions options, ContinuationStage* stage);

  const Problem& problem_;
  const UserStop user_;
  const IlqrOptions& options_;
  const ContinuationOptions& c_;
  SmoothContact smooth_;  // at the first stage
  int stages_;
  Simulator simulator_;
  const StageCallback& stage_callback_;

  Merit MeritOf(const Trajectory& motion, const RolloutStatus& status) const;
  Merit HandOver(const SolveResult& led, Simulator* simulator, Beginning* to, Trajectory* motion) const;

  Beginning at_, best_at_;
  Merit best_ = kNoMerit;
  Merit true_ = best_;  // of the result
  SolveResult led_;     // of the last smooth stage
  std::vector<MatrixXd> multipliers_;
  double smooth_cost_ = kNan, guess_cost_ = kNan;
  Trajectory motion_;  // the last one on the true model
  bool interrupted_ = false, solved_ = false;
  ContinuationResult out_;
};

Merit Continuation::MeritOf(const Trajectory& motion, const RolloutStatus& status) const {
  const double cost = RolloutCost(problem_, motion, status, simulator_.knot_time());
  double violation = 0;
  if (std::isfinite(cost) && problem_.constraints)
    violation = LargestRelative(CheckConstraints(*problem_.constraints, motion, simulator_.knot_time()));
  return costate::MeritOf(violation, cost, c_.constrained.tolerance);
}

// a solve's motion on another model: under its controls alone, which fall over where it balances, or under its policy;
// the better of both
Merit Continuation::HandOver(const SolveResult& led, Simulator* simulator, Beginning* to, Trajectory* motion) const {
  const VectorXd x0 = led.trajectory.X.col(0);
  RolloutStatus status = simulator->Rollout(x0, led.trajectory.U, motion);
  Merit merit = MeritOf(*motion, status);
  Trajectory corrected;
  status = simulator->RolloutPolicy(x0, led.trajectory, led.policy, 0, problem_.u_lower, problem_.u_upper, &corrected);
  if (const Merit closed = MeritOf(corrected, status); closed < merit) {
    merit = closed;
    std::swap(*motion, corrected);
  }
  *to = {x0, motion->U};
  return merit;
}

// is any contact or limit of the true motion as near to its onset as the smoothing reaches?
bool Continuation::SmoothingReaches(const SmoothContact& smooth) const {
  if (smooth.softness > 0 || smooth.friction > 0) return true;  // these change forces wherever there are any
  const double reach = std::max(smooth.onset, smooth.distance);
  const DataPtr data = MakeData(problem_.model);
  const int N = motion_.N(), step = std::max(1, N / kCertified);
  for (int t = 0; t < N; t += step) {
    SetContext(problem_.model, data.get(), problem_.context);
    SetMovingContext(problem_.model, data.get(), motion_.context.col(t));
    SetState(problem_.model, data.get(), motion_.X.col(t));
    Eigen::Map<VectorXd>(data->ctrl, motion_.U.rows()) = motion_.U.col(t);
    const Certificate certificate =
        Certify(problem_.model, data.get(), {.reach = 0, .proximity = std::max(reach, 1e-6)});
    for (const Switch& s : certificate.switches) {
      const bool place = s.unit == "m" || s.unit == "rad";
      if (place && (s.next == "onset" || s.next == "limit") && s.distance <= reach) return true;
      if (s.unit == "m/s^2" && s.distance <= smooth.solver) return true;
    }
  }
  return false;
}

SolveResult Continuation::Solve(Problem problem, const Beginning& from, IlqrOptions options, ContinuationStage* stage) {
  if (HasFreeStart(problem)) problem.free_start.guess = from.x0;
  const int before = static_cast<int>(out_.result.iterations.size());
  if (c_.budget > 0) {
    const int room = (stage->factor > 0 ? 2 * c_.budget / 3 : c_.budget) - before;
    options.iterations = std::clamp(room, 0, options.iterations);
  }
  if (stage_callback_) stage_callback_(static_cast<int>(out_.stages.size()), *stage);
  ConstrainedOptions constrained = c_.constrained;
  if (!multipliers_.empty()) constrained.multipliers = multipliers_;
  if (stage->factor > 0 || c_.budget > 0) constrained.force_weight = -1;  // a stage on the way
  SolveResult result =
      costate::Solve(problem, {{}, from.U}, options, CountOn(&out_.result.iterations, user_.callback()), constrained);
  multipliers_ = result.multipliers;
  interrupted_ = interrupted_ || result.status == SolveStatus::kInterrupted || user_.IsOver();
  stage->status = result.status;
  stage->iterations = static_cast<int>(result.iterations.size());
  stage->cost = result.cost;
  return result;
}

void Continuation::SmoothStage(double factor) {
  const SmoothContact smooth = ScaleSmooth(smooth_, factor);
  const SmoothModel smoothed = MakeSmoothModel(problem_.model, smooth);
  Problem problem = problem_;
  IlqrOptions options = options_;
  options.iterations = c_.stage_iterations;
  options.derivative.smoothing = smoothed.smoothing;
  if (c_.backward_only) {
    options.derivative_model = smoothed.model.get();
  } else {
    problem.model = smoothed.model.get();
    if (led_.trajectory.N() > 0) {
      Simulator next(problem.model, problem.context, problem.substeps, 1);
      Trajectory motion;
      HandOver(led_, &next, &at_, &motion);
    }
  }
  ContinuationStage stage;
  stage.factor = factor;
  stage.smoothing = ToString(smooth);
  SolveResult result = Solve(problem, at_, options, &stage);
  stage.true_cost = kInf;
  if (result.status != SolveStatus::kDiverged) {
    led_ = std::move(result);
    smooth_cost_ = led_.cost;
    Trajectory motion;
    const Merit merit = HandOver(led_, &simulator_, &at_, &motion);
    stage.true_cost = merit.second;
    if (std::isfinite(stage.true_cost)) motion_ = std::move(motion);
    if (merit < best_) {
      best_ = merit;
      best_at_ = at_;
    }
  }
  out_.stages.push_back(stage);
}

// the user's model from these controls; the best of such stages stays
void Continuation::TrueStage(const Beginning& from) {
  IlqrOptions options = options_;
  if (interrupted_) options.iterations = 0;
  ContinuationStage stage;
  stage.smoothing = "none";
  SolveResult result = Solve(problem_, from, options, &stage);
  stage.true_cost = result.status == SolveStatus::kDiverged ? kInf : result.cost;
  const Merit merit = result.status == SolveStatus::kDiverged ? kNoMerit : MeritOf(result.trajectory, {});
  if (!solved_ || merit < true_) {
    solved_ = true;
    true_ = merit;
    std::swap(result.iterations, out_.result.iterations);
    std::swap(out_.result, result);
  }
  out_.stages.push_back(stage);
}

// what the plain solve has not touched, the contacts of the first stage reach for: twice as far until they do, at most
// through the whole model
void Continuation::ReachOut() {
  if (!(smooth_.distance > 0) || UntouchedTerms(problem_, out_.result.trajectory).empty()) return;
  SmoothContact smooth = smooth_;
  for (; smooth.distance <= problem_.model->stat.extent; smooth.distance *= 2) {
    const SmoothModel smoothed = MakeSmoothModel(problem_.model, smooth);
    Problem problem = problem_;
    problem.model = smoothed.model.get();
    Simulator simulator(problem.model, problem.context, problem.substeps, 1);
    Trajectory motion;
    if (simulator.Rollout(at_.x0, at_.U, &motion).ok() && UntouchedTerms(problem, motion, kSlope).empty()) {
      smooth_ = smooth;
      stages_ += static_cast<int>(std::ceil(std::log(c_.smooth.distance / smooth.distance) / std::log(c_.shrink)));
      return;
    }
  }
}

void Continuation::Begin(ConstMatrixRef U) {
  at_ = {FirstStart(problem_), U};
  const RolloutStatus status = simulator_.Rollout(at_.x0, at_.U, &motion_);
  best_ = MeritOf(motion_, status);
  guess_cost_ = RolloutCost(problem_, motion_, status, simulator_.knot_time());
  best_at_ = at_;
}

ContinuationResult Continuation::Run(ConstMatrixRef U) {
  Begin(U);
  if (c_.plain_first) TrueStage(at_);
  return GoThrough();
}

ContinuationResult Continuation::GoOnBehind(const SolveResult& plain, ConstMatrixRef U) {
  Begin(U);
  out_.result = plain;
  out_.result.iterations.clear();
  solved_ = true;
  if (plain.status != SolveStatus::kDiverged) true_ = MeritOf(plain.trajectory, {});
  return GoThrough();
}

// the smooth stages, and the true model behind them
ContinuationResult Continuation::GoThrough() {
  if (solved_) {
    multipliers_.clear();
    ReachOut();
  }
  const Merit plain = true_;
  const bool plain_first = solved_;
  double factor = 1;
  std::string ended = fmt::format("after {} smooth stages", stages_);
  for (int k = 0; k < stages_ && !interrupted_; k++, factor *= c_.shrink) {
    if (k > 0 && !SmoothingReaches(ScaleSmooth(smooth_, factor))) {
      ended = fmt::format(
          "after {} smooth stages: along the true motion nothing is as near to its onset as {} "
          "would reach",
          k, ToString(ScaleSmooth(smooth_, factor)));
      break;
    }
    SmoothStage(factor);
  }
  TrueStage(at_);
  if (best_ < true_) TrueStage(best_at_);
  if (interrupted_) out_.result.status = SolveStatus::kInterrupted;
  out_.result.initial_cost = guess_cost_;
  if (std::isfinite(smooth_cost_)) out_.message = fmt::format("cost {:.6g} on the last smoothed model, ", smooth_cost_);
  out_.message += fmt::format("{:.6g} on the true one, {}", out_.result.cost, ended);
  if (plain_first && true_ == plain) out_.message += ", none of which led to a better motion than the plain solve";
  return std::move(out_);
}

void Check(const Problem& problem, ConstMatrixRef U, const IlqrOptions& options, const ContinuationOptions& c) {
  Problem unconstrained = problem;
  unconstrained.constraints = nullptr;
  CheckProblem(unconstrained, U);
  const OptionCheck need("continuation: ");
  need(c.shrink > 0 && c.shrink < 1, "shrink", c.shrink, "between 0 and 1");
  need(c.stages >= 1, "stages", c.stages, "1 or more");
  need(c.budget >= 0, "budget", c.budget, "0 or more");
  need(c.stage_iterations >= 1, "stage_iterations", c.stage_iterations, "1 or more");
  if (!c.smooth.any()) throw Error(ErrorCode::kInvalidArgument, "continuation: no smoothing is chosen");
  RefuseTimeLimit(options, need);
}

}  // namespace

ContinuationResult SolveContinuation(const Problem& problem, ConstMatrixRef U, const IlqrOptions& options,
                                     const ContinuationOptions& continuation, const IterationCallback& callback,
                                     const StageCallback& stage_callback) {
  Check(problem, U, options, continuation);
  return Continuation(problem, options, continuation, callback, stage_callback).Run(U);
}

ContinuationResult ContinueBehind(const Problem& problem, const SolveResult& plain, ConstMatrixRef U,
                                  const IlqrOptions& options, const ContinuationOptions& continuation,
                                  const IterationCallback& callback, const StageCallback& stage_callback) {
  Check(problem, U, options, continuation);
  return Continuation(problem, options, continuation, callback, stage_callback).GoOnBehind(plain, U);
}

}  // namespace costate
