#include "optimizer/near_cost.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "optimizer/augmented_cost.h"
#include "optimizer/control_limits.h"
#include "optimizer/cost_terms.h"
#include "optimizer/free_start.h"
#include "optimizer/go_on.h"

namespace costate {
namespace {

constexpr double kStartWeight = 1;    // s² of (B2)
constexpr double kBackPenalty = 1e3;  // penalty on the way back, in terms of w · 1 s
constexpr double kStepPenalty = 1e4;  // … of a step, in terms of what the motion costs
constexpr double kLeastWorth = 1e-6;  // … or at least of the unit of the cost
constexpr double kTooFar = 0.1;       // a violation that no way leads back from
constexpr int kStepIterations = 30, kBackIterations = 60;
constexpr int kStepSearch = 6;  // of a step's line searches

MatrixXd StartWeights(const Problem& problem, double weight) {
  const int n = Dims(problem.model).ndx;
  return MatrixXd::Identity(n, n) * (HasFreeStart(problem) ? kStartWeight * weight : 0);
}

// the knot, as one that costs what a last one does
KnotView AsLast(const KnotView& knot) {
  KnotView last = knot;
  last.t = knot.N;
  return last;
}

bool IsKept(const SolveResult& result, const ConstrainedOptions& constrained) {
  return result.status != SolveStatus::kDiverged && result.violation <= constrained.tolerance;
}

}  // namespace

NearCost::NearCost(const Problem& problem, const MatrixXd& U, const VectorXd& x0, const VectorXd& unit, double weight,
                   bool own)
    : cost_(*problem.cost),
      U_(U),
      weights_(unit.unaryExpr([=](double w) { return w > 0 ? weight / (w * w) : 0; })),
      own_(own),
      free_start_(HasFreeStart(problem)),
      start_(problem.model, x0, MatrixXd::Zero(Dims(problem.model).ndx, Dims(problem.model).ndx),
             MatrixXd::Zero(unit.size(), unit.size()), StartWeights(problem, weight)),
      ndx_(Dims(problem.model).ndx) {}

double NearCost::Value(const KnotView& knot) const {
  double l = own_ ? cost_.Value(knot) : 0;
  if (knot.t < knot.N) l += 0.5 * knot.dt * (knot.u - U_.col(knot.t)).cwiseAbs2().dot(weights_);
  return knot.t == 0 && free_start_ ? l + start_.Value(AsLast(knot)) : l;
}

void NearCost::Expand(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const {
  const bool last = knot.t == knot.N;
  if (own_) {
    cost_.Expand(knot, C, D, out);
  } else {
    ResizeExpansion(ndx_, static_cast<int>(weights_.size()), last, out);
  }
  if (!last) {
    out->lu += knot.dt * weights_.cwiseProduct(knot.u - U_.col(knot.t));
    out->luu.diagonal() += knot.dt * weights_;
  }
  if (knot.t == 0 && free_start_) {
    CostExpansion start;
    start_.Expand(AsLast(knot), MatrixXd(), MatrixXd(), &start);
    out->lx += start.lx;
    out->lxx += start.lxx;
  }
  out->l = Value(knot);
}

void NearCost::Gradient(const KnotView& knot, KnotGradient* out) const {
  if (own_) cost_.Gradient(knot, out);
  if (knot.t < knot.N) out->u += knot.dt * weights_.cwiseProduct(knot.u - U_.col(knot.t));
  if (knot.t > 0 || !free_start_) return;
  CostExpansion start;
  start_.Expand(AsLast(knot), MatrixXd(), MatrixXd(), &start);
  out->x += start.lx;
}

void NearCost::Observe(const Trajectory& trajectory, double dt, IterationRecord* record) const {
  record->cost = TotalCost(cost_, trajectory, dt);
}

namespace {

class Near {
 public:
  Near(const Problem& problem, const NearSolve& near, const IlqrOptions& options, const ConstrainedOptions& constrained,
       const IterationCallback& callback)
      : problem_(problem),
        near_(near),
        options_(options),
        constrained_(constrained),
        go_on_(callback),
        unit_(options.cost_unit > 0 ? options.cost_unit : 1),
        dt_(problem.knot_time()),
        scales_(VectorXd::Ones(problem.constraints->size())) {
    options_.type = SolverType::kIlqr;
    options_.second_order = options_.leave_saddles = false;
    constrained_.multipliers.clear();
    constrained_.penalties.resize(0);
    constrained_.residuals.resize(0);
    constrained_.tokens.resize(0);
    constrained_.force_weight = -1;
    constrained_.keep_guess = false;  // it is at hand, and what leads beyond the constraints may lead back
    for (int i = 0; i < scales_.size(); ++i) {
      const ConstraintInfo& info = (*problem.constraints)[i].info();
      for (int k = 0; k < info.lower.size(); ++k)
        scales_[i] = std::max(scales_[i], BoundScale(info.lower[k], info.upper[k]));
    }
  }

  SolveResult Run();

 private:
  SolveResult Step(const MatrixXd& U);
  SolveResult Back(const SolveResult& from, const MatrixXd& kick);
  SolveResult Minimize(const NearCost& cost, const MatrixXd& U, const VectorXd& x0, const IlqrOptions& options,
                       int iterations, double penalty, bool until_kept);
  MatrixXd Kicked(const SolveResult& from, const MatrixXd& kick) const {
    return WithinLimits(problem_, from.trajectory.U + kick);
  }

  const Problem& problem_;
  const NearSolve& near_;
  IlqrOptions options_;
  ConstrainedOptions constrained_;
  GoOn go_on_;
  const double unit_, dt_;
  VectorXd scales_;  // of each constraint's bounds
  int iterations_ = 0;
};

SolveResult Near::Minimize(const NearCost& cost, const MatrixXd& U, const VectorXd& x0, const IlqrOptions& given,
                           int iterations, double penalty, bool until_kept) {
  Problem problem = problem_;
  problem.cost = &cost;
  if (HasFreeStart(problem)) problem.free_start.guess = x0;
  IlqrOptions options = given;
  options.iterations = std::min(iterations, options_.iterations - iterations_);
  ConstrainedOptions constrained = constrained_;
  constrained.penalty_init = penalty;  // the largest is no smaller
  constrained.penalties = penalty * scales_.cwiseAbs2().cwiseInverse();
  const auto go_on = [&](const IterationRecord& record) {
    return go_on_(record) && !(until_kept && record.violation <= constrained.tolerance);
  };
  SolveResult result = Solve(problem, {{}, U}, options, go_on, constrained);
  iterations_ += static_cast<int>(result.iterations.size());
  if (result.status == SolveStatus::kDiverged) return result;
  result.cost = TotalCost(*problem_.cost, result.trajectory, dt_);
  result.gradient_norm = 0;
  result.gradient_norm_per_knot.resize(0);
  result.multipliers.clear();
  for (ConstraintReport& report : result.constraints) report.multiplier = report.penalty = report.active = 0;
  result.state = {};
  result.state.U = result.trajectory.U;
  if (HasFreeStart(problem)) result.state.x0 = result.trajectory.X.col(0);
  return result;
}

SolveResult Near::Step(const MatrixXd& U) {
  const double worth = std::max(std::abs(near_.from->cost), kLeastWorth * unit_);
  const VectorXd x0 = near_.from->trajectory.X.col(0);
  IlqrOptions options = options_;
  options.regularization_sweep = false;
  options.line_search_steps = std::min(options.line_search_steps, kStepSearch);
  const NearCost cost(problem_, near_.from->trajectory.U, x0, near_.unit, near_.weight * worth / (problem_.N * dt_),
                      true);
  return Minimize(cost, U, x0, options, kStepIterations, kStepPenalty * worth, false);
}

SolveResult Near::Back(const SolveResult& from, const MatrixXd& kick) {
  const MatrixXd U = Kicked(from, kick);
  const VectorXd x0 = from.trajectory.X.col(0);
  const NearCost cost(problem_, U, x0, near_.unit, unit_, false);
  return Minimize(cost, U, x0, options_, kBackIterations, kBackPenalty * unit_, true);
}

SolveResult Near::Run() {
  const SolveResult& from = *near_.from;
  if (!IsKept(from, constrained_)) return Back(from, near_.kicks.front());
  SolveResult result = Step(Kicked(from, near_.kicks.front()));
  const bool diverged = result.status == SolveStatus::kDiverged;
  if (diverged || IsKept(result, constrained_) || result.violation > kTooFar || result.cost >= from.cost) return result;
  const SolveResult missed = result;
  for (std::size_t i = 1; i < near_.kicks.size() && !IsKept(result, constrained_); ++i) {
    if (go_on_.over() || iterations_ >= options_.iterations) break;
    result = Back(missed, near_.kicks[i]);
  }
  return result;
}

}  // namespace

SolveResult SolveNear(const Problem& problem, const NearSolve& near, const IlqrOptions& options,
                      const ConstrainedOptions& constrained, const IterationCallback& callback) {
  return Near(problem, near, options, constrained, callback).Run();
}

}  // namespace costate
