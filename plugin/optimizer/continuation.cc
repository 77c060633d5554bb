// From smooth to true: iLQR on one model after the other, each from the controls (and the free start) of the one
// before.
#include <costate/continuation.h>
#include <costate/solve.h>

#include <costate/certificate.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/extremes.h"
#include "optimizer/free_start.h"
#include "optimizer/line_search.h"
#include "optimizer/solver_checks.h"

namespace costate {
namespace {

constexpr int kCertified = 24;  // knots that are looked at, evenly spread: one certificate costs some steps

class Continuation {
 public:
  Continuation(const Problem& problem, const IlqrOptions& options, const ContinuationOptions& continuation,
               const IterationCallback& callback, const StageCallback& stage_callback)
      : problem_(problem),
        options_(options),
        c_(continuation),
        simulator_(problem.model, problem.context, problem.substeps, options.threads),
        callback_(callback),
        stage_callback_(stage_callback) {}

  ContinuationResult Run(ConstMatrixRef U);

 private:
  void SmoothStage(double factor);
  // what a stage begins with: controls, and a start where that may move
  struct Beginning {
    VectorXd x0;
    MatrixXd U;
  };

  void TrueStage(const Beginning& from);
  double TrueCost(const Beginning& from, Trajectory* out);
  bool SmoothingReaches(const SmoothContact& smooth) const;
  SolveResult Solve(Problem problem, const Beginning& from, IlqrOptions options, ContinuationStage* stage);

  const Problem& problem_;
  const IlqrOptions& options_;
  const ContinuationOptions& c_;
  Simulator simulator_;
  const IterationCallback& callback_;
  const StageCallback& stage_callback_;

  // what is compared: violation beyond its tolerance first, then cost
  using Merit = std::pair<double, double>;
  Merit MeritOf(const Trajectory& motion, double cost) const;

  Beginning at_, best_at_;
  Merit best_{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  Merit true_ = best_;  // of the result
  std::vector<MatrixXd> multipliers_;
  double smooth_cost_ = std::numeric_limits<double>::quiet_NaN();
  Trajectory motion_;  // of at_ on the true model
  bool interrupted_ = false;
  ContinuationResult out_;
};

double Continuation::TrueCost(const Beginning& from, Trajectory* out) {
  const RolloutStatus status = simulator_.Rollout(from.x0, from.U, out);
  return RolloutCost(problem_, *out, status, simulator_.knot_time());
}

Continuation::Merit Continuation::MeritOf(const Trajectory& motion, double cost) const {
  if (!std::isfinite(cost)) return {kInf, kInf};
  double violation = c_.constrained.tolerance;
  if (problem_.constraints) {
    for (const ConstraintReport& report : CheckConstraints(*problem_.constraints, motion, simulator_.knot_time())) {
      violation = std::max(violation, report.relative);
    }
  }
  return {violation, cost};
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
  SolveResult result = costate::Solve(
      problem, {{}, from.U}, options,
      [&](const IterationRecord& record) {
        IterationRecord numbered = record;
        numbered.iteration += before;
        out_.result.iterations.push_back(numbered);
        return !callback_ || callback_(numbered);
      },
      constrained);
  multipliers_ = result.multipliers;
  interrupted_ = interrupted_ || result.status == SolveStatus::kInterrupted;
  stage->status = result.status;
  stage->iterations = static_cast<int>(result.iterations.size());
  stage->cost = result.cost;
  return result;
}

void Continuation::SmoothStage(double factor) {
  const SmoothContact smooth = ScaleSmooth(c_.smooth, factor);
  const SmoothModel smoothed = MakeSmoothModel(problem_.model, smooth);
  Problem problem = problem_;
  IlqrOptions options = options_;
  options.iterations = c_.stage_iterations;
  options.derivative.smoothing = smoothed.smoothing;
  if (c_.backward_only) options.derivative_model = smoothed.model.get();
  else problem.model = smoothed.model.get();
  ContinuationStage stage;
  stage.factor = factor;
  stage.smoothing = ToString(smooth);
  SolveResult result = Solve(problem, at_, options, &stage);
  stage.true_cost = std::numeric_limits<double>::infinity();
  if (result.status != SolveStatus::kDiverged) {
    Trajectory motion;
    smooth_cost_ = result.cost;
    at_ = {result.trajectory.X.col(0), result.trajectory.U};
    stage.true_cost = TrueCost(at_, &motion);
    const Merit merit = MeritOf(motion, stage.true_cost);
    if (std::isfinite(stage.true_cost)) motion_ = std::move(motion);
    if (merit < best_) {
      best_ = merit;
      best_at_ = at_;
    }
  }
  out_.stages.push_back(stage);
}

// the user's model from these controls; the better of two such stages stays
void Continuation::TrueStage(const Beginning& from) {
  IlqrOptions options = options_;
  if (interrupted_) options.iterations = 0;
  ContinuationStage stage;
  stage.smoothing = "none";
  SolveResult result = Solve(problem_, from, options, &stage);
  stage.true_cost = result.status == SolveStatus::kDiverged ? std::numeric_limits<double>::infinity() : result.cost;
  const bool first = out_.stages.empty() || out_.stages.back().factor > 0;
  const Merit merit = MeritOf(result.trajectory, stage.true_cost);
  if (first || merit < true_) {
    true_ = merit;
    std::swap(result.iterations, out_.result.iterations);
    std::swap(out_.result, result);
  }
  out_.stages.push_back(stage);
}

ContinuationResult Continuation::Run(ConstMatrixRef U) {
  at_ = {FirstStart(problem_), U};
  const double guess = TrueCost(at_, &motion_);
  best_ = MeritOf(motion_, guess);
  best_at_ = at_;
  double factor = 1;
  std::string ended = fmt::format("after {} smooth stages", c_.stages);
  for (int k = 0; k < c_.stages && !interrupted_; k++, factor *= c_.shrink) {
    if (k > 0 && !SmoothingReaches(ScaleSmooth(c_.smooth, factor))) {
      ended = fmt::format(
          "after {} smooth stages: along the true motion nothing is as near to its onset as {} "
          "would reach",
          k, ToString(ScaleSmooth(c_.smooth, factor)));
      break;
    }
    SmoothStage(factor);
  }
  TrueStage(at_);
  if (best_ < true_) TrueStage(best_at_);
  if (interrupted_) out_.result.status = SolveStatus::kInterrupted;
  out_.result.initial_cost = guess;
  out_.message = fmt::format("cost {:.6g} on the last smoothed model, {:.6g} on the true one, {}", smooth_cost_,
                             out_.result.cost, ended);
  return std::move(out_);
}

void CheckContinuation(const ContinuationOptions& c) {
  const OptionCheck need("continuation: ");
  need(c.shrink > 0 && c.shrink < 1, "shrink", c.shrink, "between 0 and 1");
  need(c.stages >= 1, "stages", c.stages, "1 or more");
  need(c.budget >= 0, "budget", c.budget, "0 or more");
  need(c.stage_iterations >= 1, "stage_iterations", c.stage_iterations, "1 or more");
  if (!c.smooth.any()) throw Error(ErrorCode::kInvalidArgument, "continuation: no smoothing is chosen");
}

}  // namespace

ContinuationResult SolveContinuation(const Problem& problem, ConstMatrixRef U, const IlqrOptions& options,
                                     const ContinuationOptions& continuation, const IterationCallback& callback,
                                     const StageCallback& stage_callback) {
  Problem unconstrained = problem;
  unconstrained.constraints = nullptr;
  CheckProblem(unconstrained, U);
  CheckContinuation(continuation);
  RefuseTimeLimit(options, OptionCheck("continuation: "));
  return Continuation(problem, options, continuation, callback, stage_callback).Run(U);
}

}  // namespace costate
