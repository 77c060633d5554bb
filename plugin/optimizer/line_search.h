// Steps along a direction, tried in parallel: the result does not depend on how many are tried at once.
#ifndef COSTATE_OPTIMIZER_LINE_SEARCH_H_
#define COSTATE_OPTIMIZER_LINE_SEARCH_H_

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <costate/solver.h>

namespace costate {

/// What the quadratic model promises at step alpha: alpha·linear + ½ alpha²·quadratic, negative.
struct ExpectedChange {
  double linear = 0, quadratic = 0;
  double At(double alpha) const { return alpha * linear + 0.5 * alpha * alpha * quadratic; }
};

struct LineSearchResult {
  double alpha = 0;  ///< 0: no step was accepted
  double cost = 0;   ///< of the accepted step
};

/// Rolls a policy out at alpha = 1, ½, ¼ … and takes the largest alpha whose cost falls by at least ratio × the
/// expected change (Armijo). alpha = 1 is tried alone where the last search has taken it; the others, and it too
/// elsewhere, as many at once as the simulator has threads. A rollout that fails or whose cost is not finite is never
/// taken. One whose cost so far, with the least that the knots to come can cost (Cost::LowerBound), is too much already
/// ends there.
class LineSearch {
 public:
  using Clock = std::chrono::steady_clock;

  LineSearch(const Problem& problem, Simulator* simulator, double ratio);

  /// Memory for motions of this size.
  void Reserve(const Trajectory& motion) { candidates_.assign(candidates_.size(), motion); }

  /// After it no further rollout is begun, but for a search's first.
  /// @param stop  asked before further rollouts; may be empty.
  void SetEnd(Clock::time_point deadline, std::function<bool()> stop) {
    deadline_ = deadline;
    stop_ = std::move(stop);
  }
  bool IsLate() const {
    return (deadline_ != Clock::time_point::max() && Clock::now() >= deadline_) || (stop_ && stop_());
  }

  /// @param cost   of the reference.  @param steps  alpha = 1 … 2^-(steps - 1).
  /// @param taken  receives the accepted rollout; otherwise untouched.
  LineSearchResult Run(const Trajectory& reference, double cost, const Policy& policy, const ExpectedChange& expected,
                       int steps, Trajectory* taken);

  /// Twice, four times … the alpha that was found, at most 2^doublings times, while each costs less than the one
  /// before; or half of it, a quarter … where `doublings` is negative.
  /// @param found  what its alpha led to.  @param taken  as above.
  LineSearchResult Follow(const Trajectory& reference, const Policy& policy, int doublings,
                          const LineSearchResult& found, Trajectory* taken);

  /// The same as Run, one after the other on one worker: for searches that run side by side.
  /// @param taken  receives the last rollout that was tried; the accepted one, if there was one.
  LineSearchResult RunOn(int worker, const Trajectory& reference, double cost, const Policy& policy,
                         const ExpectedChange& expected, int steps, Trajectory* taken) const;

 private:
  struct Sum;  // of a rollout's costs, knot by knot

  double Cost(const Trajectory& reference, const Policy& policy, double alpha, double limit, int worker,
              Trajectory* out) const;
  bool IsEnough(double before, double after, double promise) const {
    return after < before && after - before <= ratio_ * promise;
  }
  // what is more than that is not enough
  double Limit(double before, double promise) const { return std::min(before, before + ratio_ * promise); }

  const Problem& problem_;
  Simulator* simulator_;
  double ratio_;
  Clock::time_point deadline_ = Clock::time_point::max();
  std::function<bool()> stop_;
  std::vector<Trajectory> candidates_;  // one a thread
  std::vector<double> costs_;
  bool whole_ = true;  // was the last step that was found a whole one?
};

/// The cost of a rollout, infinite when it failed or when its cost is not finite.
double RolloutCost(const Problem& problem, const Trajectory& trajectory, const RolloutStatus& status, double dt);

/// In words: which terms of a motion's cost are not finite, and from which knot on.
std::string NotFiniteText(const Problem& problem, const Trajectory& trajectory, double dt);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_LINE_SEARCH_H_
