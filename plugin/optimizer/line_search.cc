#include "optimizer/line_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace costate {

double RolloutCost(const Problem& problem, const Trajectory& trajectory, const RolloutStatus& status, double dt) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (!status.ok()) return kInf;
  const double cost = TotalCost(*problem.cost, trajectory, dt);
  return std::isfinite(cost) ? cost : kInf;
}

LineSearch::LineSearch(const Problem& problem, Simulator* simulator, const LineSearchOptions& options)
    : problem_(problem), simulator_(simulator), options_(options) {
  const int at_once = std::min(simulator->threads(), options.steps);
  candidates_.resize(at_once);
  costs_.resize(at_once);
}

LineSearchResult LineSearch::Run(const Policy& policy, const ExpectedChange& expected, double cost,
                                 Trajectory* trajectory) {
  const int at_once = static_cast<int>(candidates_.size());
  for (int first = 0; first < options_.steps; first += at_once) {
    // the next few, each worker its own rollouts
    const int count = std::min(at_once, options_.steps - first);
    simulator_->ParallelFor(count, [&](int i, int worker) {
      const RolloutStatus status =
          simulator_->RolloutPolicy(*trajectory, policy, std::ldexp(1, -(first + i)), problem_.u_lower,
                                    problem_.u_upper, &candidates_[i], worker);
      costs_[i] = RolloutCost(problem_, candidates_[i], status, simulator_->knot_time());
    });

    // the largest alpha that is good enough
    for (int i = 0; i < count; ++i) {
      const double alpha = std::ldexp(1, -(first + i));
      if (costs_[i] < cost && costs_[i] - cost <= options_.ratio * expected.At(alpha)) {
        std::swap(*trajectory, candidates_[i]);
        return {alpha, costs_[i]};
      }
    }
  }
  return {};
}

}  // namespace costate
