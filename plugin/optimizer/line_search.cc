#include "optimizer/line_search.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "core/extremes.h"
#include "optimizer/free_start.h"

namespace costate {
namespace {

constexpr int kMostDoublings = 3;  // of a whole step

}  // namespace

double RolloutCost(const Problem& problem, const Trajectory& trajectory, const RolloutStatus& status, double dt) {
  if (!status.ok()) return kInf;
  const double cost = TotalCost(*problem.cost, trajectory, dt);
  return std::isfinite(cost) ? cost : kInf;
}

std::string NotFiniteText(const Problem& problem, const Trajectory& trajectory, double dt) {
  std::vector<double> per_knot;
  TotalCost(*problem.cost, trajectory, dt, &per_knot);
  const auto at = std::find_if(per_knot.begin(), per_knot.end(), [](double l) { return !std::isfinite(l); });
  if (at == per_knot.end()) return "its cost is not finite: a sum of numbers that are too large";
  std::string names;
  for (const CostTermValue& term : problem.cost->Terms(trajectory)) {
    if (!std::isfinite(term.value)) names += (names.empty() ? " of '" : "', '") + term.name;
  }
  const auto knot = at - per_knot.begin();
  return fmt::format("its cost{} is not finite at knot {} of {} ({:.3g} s)", names.empty() ? "" : names + "'", knot,
                     trajectory.N(), static_cast<double>(knot) * dt);
}

LineSearch::LineSearch(const Problem& problem, Simulator* simulator, double ratio)
    : problem_(problem),
      simulator_(simulator),
      ratio_(ratio),
      candidates_(simulator->threads()),
      costs_(simulator->threads()) {}

double LineSearch::Cost(const Trajectory& reference, const Policy& policy, double alpha, int worker,
                        Trajectory* out) const {
  RolloutStatus status;
  if (alpha > 1 && policy.dx0.size() > 0) {
    // controls are kept within their bounds by the rollout, a start beyond the whole step is not
    const VectorXd x0 =
        NearestStart(problem_, Retract(problem_.model, reference.X.col(0), VectorXd(alpha * policy.dx0)));
    status = simulator_->RolloutPolicy(x0, reference, policy, alpha, problem_.u_lower, problem_.u_upper, out, worker);
  } else {
    status = simulator_->RolloutPolicy(reference, policy, alpha, problem_.u_lower, problem_.u_upper, out, worker);
  }
  return RolloutCost(problem_, *out, status, simulator_->knot_time());
}

// candidates_[i] and costs_[i] of alpha = 2^(exponent + sign i)
void LineSearch::TryAtOnce(const Trajectory& reference, const Policy& policy, int exponent, int sign, int count) {
  const auto job = [&](int i, int worker) {
    costs_[i] = Cost(reference, policy, std::ldexp(1, exponent + sign * i), worker, &candidates_[i]);
  };
  simulator_->ParallelFor(count, std::ref(job));
}

LineSearchResult LineSearch::Run(const Trajectory& reference, double cost, const Policy& policy,
                                 const ExpectedChange& expected, int steps, Trajectory* taken) {
  for (int at = 0, count = 0; at < steps; at += count) {
    if (at > 0 && IsLate()) return {};

    // the whole step alone where the last one was good, else the next few, each worker its own rollouts
    count = at == 0 && whole_ ? 1 : std::min(simulator_->threads(), steps - at);
    TryAtOnce(reference, policy, -at, -1, count);

    // the largest alpha that is good enough
    for (int i = 0; i < count; ++i) {
      const double alpha = std::ldexp(1, -(at + i));
      if (!IsEnough(cost, costs_[i], expected.At(alpha))) continue;
      std::swap(*taken, candidates_[i]);
      whole_ = alpha == 1;
      return {alpha, costs_[i]};
    }
  }
  whole_ = false;
  return {};
}

LineSearchResult LineSearch::Lengthen(const Trajectory& reference, const Policy& policy, const LineSearchResult& whole,
                                      Trajectory* taken) {
  LineSearchResult best = whole;
  for (int at = 1, count = 0; at <= kMostDoublings && !IsLate(); at += count) {
    count = std::min(simulator_->threads(), kMostDoublings + 1 - at);
    TryAtOnce(reference, policy, at, 1, count);
    for (int i = 0; i < count; ++i) {
      if (!(costs_[i] < best.cost)) return best;
      std::swap(*taken, candidates_[i]);
      best = {std::ldexp(1, at + i), costs_[i]};
    }
  }
  return best;
}

LineSearchResult LineSearch::RunOn(int worker, const Trajectory& reference, double cost, const Policy& policy,
                                   const ExpectedChange& expected, int steps, Trajectory* taken) const {
  for (int i = 0; i < steps && !IsLate(); ++i) {
    const double alpha = std::ldexp(1, -i), after = Cost(reference, policy, alpha, worker, taken);
    if (IsEnough(cost, after, expected.At(alpha))) return {alpha, after};
  }
  return {};
}

}  // namespace costate
