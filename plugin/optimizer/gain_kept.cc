#include "optimizer/gain_kept.h"

#include <costate/model.h>
#include <costate/state.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "optimizer/line_search.h"

namespace costate {
namespace {

constexpr double kHardlyAny = 0.05;  // of the cost: a tenth of a smaller gain is what any change of numbers costs
constexpr double kStill = 1e-2;      // of what staying at the start costs more: a gain that changes are small beside

}  // namespace

void CheckJudged(const Problem& problem, const Trajectory& motion, const Policy& policy) {
  if (motion.N() != problem.N) {
    throw Error(ErrorCode::kDimensionMismatch,
                fmt::format("the motion has {} controls, the problem N = {}", motion.N(), problem.N));
  }
  const Dims dims(NotNull(problem.model));
  if (!problem.cost) throw Error(ErrorCode::kInvalidArgument, "the problem has no cost");
  if (!policy.K.empty() && std::ssize(policy.K) != problem.N)
    throw Error(ErrorCode::kDimensionMismatch,
                fmt::format("the policy has {} gains K, the problem N = {}", policy.K.size(), problem.N));
  for (std::size_t t = 0; t < policy.K.size(); t++) {
    const MatrixXd& K = policy.K[t];
    if (K.rows() == dims.nu && K.cols() == dims.ndx) continue;
    throw Error(ErrorCode::kDimensionMismatch,
                fmt::format("K of knot {} is {} x {}, model '{}' has nu x ndx = {} x {}", t, K.rows(), K.cols(),
                            ModelName(problem.model), dims.nu, dims.ndx));
  }
}

GainKept::GainKept(const Problem& problem, const Trajectory& motion, double initial_cost) {
  const double knot_time = problem.knot_time();
  cost_ = TotalCost(*problem.cost, motion, knot_time);
  of_cost_ = !(std::abs(initial_cost - cost_) >= kHardlyAny * std::abs(cost_)) || !std::isfinite(initial_cost);
  unit_ = std::abs(of_cost_ ? cost_ : initial_cost - cost_);

  Simulator simulator(problem.model, problem.context, problem.substeps, 1);
  Trajectory still;
  MatrixXd gaps;
  const RolloutStatus status = simulator.Follow(motion.X.col(0).replicate(1, problem.N + 1), motion.U, &still, &gaps);
  const double more = RolloutCost(problem, still, status, knot_time) - cost_;
  if (std::isfinite(more)) still_ = std::max(0.0, kStill * more);
}

double GainKept::Of(double there) const {
  const double change = there - cost_;
  if (change == 0) return 1;
  const double kept = 1 - change / unit_, beside = 1 - change / still_;
  return !(kept >= kKept) && std::isfinite(kept) && beside >= kKept ? beside : kept;
}

}  // namespace costate
