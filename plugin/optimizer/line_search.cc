#include "optimizer/line_search.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <utility>

#include "core/extremes.h"
#include "optimizer/free_start.h"

namespace costate {
namespace {

constexpr double kSumRounding = 1e-9;  // of sums of costs that are compared before they are complete

}  // namespace

// the cost of a rollout as it goes on, in TotalCost's order, hence with its bits
struct LineSearch::Sum {
  Sum(const costate::Cost& of, const Trajectory& rollout, int N, double interval, double most)
      : cost(of), motion(rollout), dt(interval), limit(most) {
    for (int t = 0; t <= N; ++t) least += cost.LowerBound(t);
    rounding = std::isfinite(least) ? kSumRounding * std::abs(least) : 0;
  }

  void Add(int t) {
    total += cost.Value(ViewKnot(motion, t, dt));
    if (std::isfinite(least)) least -= cost.LowerBound(t);
  }

  // after t knots: can it still be good enough?
  bool operator()(int t) {
    Add(t - 1);
    return !(total + least > limit + kSumRounding * std::abs(total) + rounding);
  }

  const costate::Cost& cost;
  const Trajectory& motion;
  double dt, limit;
  double total = 0, least = 0, rounding = 0;  // least: of the knots to come
};

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

double LineSearch::Cost(const Trajectory& reference, const Policy& policy, double alpha, double limit, int worker,
                        Trajectory* out) const {
  // controls are kept within their bounds by the rollout, a start beyond the whole step is not
  const bool far = alpha > 1 && policy.dx0.size() > 0;
  const VectorXd x0 =
      far ? NearestStart(problem_, Retract(problem_.model, reference.X.col(0), VectorXd(alpha * policy.dx0)))
          : VectorXd();
  Sum sum(*problem_.cost, *out, reference.N(), simulator_->knot_time(), limit);
  const VectorXd &lower = problem_.u_lower, &upper = problem_.u_upper;
  const RolloutStatus status =
      far ? simulator_->RolloutPolicy(x0, reference, policy, alpha, lower, upper, out, worker, std::ref(sum))
          : simulator_->RolloutPolicy(reference, policy, alpha, lower, upper, out, worker, std::ref(sum));
  if (!status.ok()) return kInf;
  sum.Add(out->N());
  return std::isfinite(sum.total) ? sum.total : kInf;
}

LineSearchResult LineSearch::Run(const Trajectory& reference, double cost, const Policy& policy,
                                 const ExpectedChange& expected, int steps, Trajectory* taken) {
  for (int at = 0, count = 0; at < steps; at += count) {
    if (at > 0 && IsLate()) return {};

    // the whole step alone where the last one was good, else the next few, each worker its own rollouts
    count = at == 0 && whole_ ? 1 : std::min(simulator_->threads(), steps - at);
    const auto job = [&](int i, int worker) {
      const double alpha = std::ldexp(1, -(at + i));
      costs_[i] = Cost(reference, policy, alpha, Limit(cost, expected.At(alpha)), worker, &candidates_[i]);
    };
    simulator_->ParallelFor(count, std::ref(job));

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

LineSearchResult LineSearch::Follow(const Trajectory& reference, const Policy& policy, int doublings,
                                    const LineSearchResult& found, Trajectory* taken) {
  LineSearchResult best = found;
  const int most = std::abs(doublings), sign = doublings > 0 ? 1 : -1;
  for (int at = 1, count = 0; at <= most && !IsLate(); at += count) {
    count = std::min(simulator_->threads(), most + 1 - at);
    const auto alpha = [&](int i) { return std::ldexp(found.alpha, sign * (at + i)); };
    const auto job = [&](int i, int worker) {
      costs_[i] = Cost(reference, policy, alpha(i), best.cost, worker, &candidates_[i]);
    };
    simulator_->ParallelFor(count, std::ref(job));
    for (int i = 0; i < count; ++i) {
      if (!(costs_[i] < best.cost)) return best;
      std::swap(*taken, candidates_[i]);
      best = {alpha(i), costs_[i]};
    }
  }
  return best;
}

LineSearchResult LineSearch::RunOn(int worker, const Trajectory& reference, double cost, const Policy& policy,
                                   const ExpectedChange& expected, int steps, Trajectory* taken) const {
  for (int i = 0; i < steps && !IsLate(); ++i) {
    const double alpha = std::ldexp(1, -i), promise = expected.At(alpha);
    const double after = Cost(reference, policy, alpha, Limit(cost, promise), worker, taken);
    if (IsEnough(cost, after, promise)) return {alpha, after};
  }
  return {};
}

}  // namespace costate
