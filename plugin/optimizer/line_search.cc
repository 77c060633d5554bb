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

LineSearch::LineSearch(const Problem& problem, Simulator* simulator, double ratio)
    : problem_(problem),
      simulator_(simulator),
      ratio_(ratio),
      candidates_(simulator->threads()),
      costs_(simulator->threads()) {}

LineSearchResult LineSearch::Run(const Trajectory& reference, double cost, const Policy& policy,
                                 const ExpectedChange& expected, int steps, Trajectory* taken) {
  for (int first = 0; first < steps; first += simulator_->threads()) {
    // the next few, each worker its own rollouts
    const int count = std::min(simulator_->threads(), steps - first);
    simulator_->ParallelFor(count, [&](int i, int worker) {
      const RolloutStatus status =
          simulator_->RolloutPolicy(reference, policy, std::ldexp(1, -(first + i)), problem_.u_lower, problem_.u_upper,
                                    &candidates_[i], worker);
      costs_[i] = RolloutCost(problem_, candidates_[i], status, simulator_->knot_time());
    });

    // the largest alpha that is good enough
    for (int i = 0; i < count; ++i) {
      const double alpha = std::ldexp(1, -(first + i));
      if (costs_[i] < cost && costs_[i] - cost <= ratio_ * expected.At(alpha)) {
        std::swap(*taken, candidates_[i]);
        return {alpha, costs_[i]};
      }
    }
  }
  return {};
}

}  // namespace costate
