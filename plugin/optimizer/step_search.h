// One iteration's step: along the regularized policy or, where only short steps help, along those with more or less
// regularization.
#ifndef COSTATE_OPTIMIZER_STEP_SEARCH_H_
#define COSTATE_OPTIMIZER_STEP_SEARCH_H_

#include <costate/ilqr.h>

#include <functional>
#include <utility>
#include <vector>

#include "optimizer/bounds_ahead.h"
#include "optimizer/line_search.h"

namespace costate {

inline ExpectedChange Expected(const RiccatiResult& r) { return {r.expected_linear, r.expected_quadratic}; }

/// A step that the line search accepted, not yet taken.
struct AcceptedStep {
  double mu = 0;
  ExpectedChange expected;
  LineSearchResult found;

  bool IsBetterThan(const AcceptedStep& other) const {
    return found.alpha > 0 && (other.found.alpha == 0 || found.cost < other.found.cost);
  }
};

/// What an iteration searches from: the quadratic model about a motion.
struct StepOrigin {
  const LqProblem& lq;
  const Trajectory& motion;
  double cost;
};

class StepSearch {
 public:
  StepSearch(const Problem& problem, Simulator* simulator, const IlqrOptions& options);

  void SetEnd(LineSearch::Clock::time_point deadline, std::function<bool()> stop) {
    line_search_.SetEnd(deadline, std::move(stop));
  }

  /// Memory for motions and policies of these sizes, where there is none yet.
  void Reserve(const Trajectory& motion, const Policy& policy);

  /// Forgets the best step. @param unit  of regularizations.
  void Begin(double unit) {
    step_ = {};
    unit_ = unit;
  }

  /// The policy in `riccati`, solved with mu, at alpha = 1 … 2^(1 - steps): kept where it is the best so far. A shorter
  /// step than the best one has to gain half as much again. Gains and dx0 are taken by swap.
  /// @return what this policy led to, kept or not.
  AcceptedStep Try(const StepOrigin& from, double mu, int steps, RiccatiResult* riccati, IterationRecord* record);

  /// The best step that is found. @param riccati  solved with mu; its gains and dx0 are taken by swap.
  /// @param bounds  that constraints have about the motion: where only a short step helps, one that keeps to those that
  ///                the whole one passes is tried before other regularizations are; null: there are none.
  void Find(const StepOrigin& from, double mu, BoundsAhead* bounds, RiccatiResult* riccati, IterationRecord* record);

  /// Halves the step that was found while that costs less, where its half promises more than it has gained.
  void Shorten(const StepOrigin& from, IterationRecord* record);

  const AcceptedStep& step() const { return step_; }
  Trajectory* motion() { return &next_; }  ///< where step() leads
  Policy* policy() { return &taken_; }     ///< by which

 private:
  // one worker's part of the sweep
  struct Sweeper {
    RiccatiResult riccati;
    Policy policy, taken;
    AcceptedStep step;                 // the best so far …
    int index = 0;                     // … which of the sweep's regularizations it has
    Trajectory trajectory, candidate;  // … where it leads, and where another one does
    double seconds_rollout = 0, seconds_backward = 0;
  };

  void TryWithin(const StepOrigin& from, double mu, BoundsAhead* bounds, RiccatiResult* riccati,
                 IterationRecord* record);
  void Sweep(const StepOrigin& from, double mu, IterationRecord* record);
  void SweepOn(const StepOrigin& from, int index, double mu, int worker);

  Simulator* simulator_;
  const IlqrOptions& options_;
  LineSearch line_search_;
  AcceptedStep step_;
  double unit_ = 1;
  Trajectory next_, candidate_;
  Policy policy_, taken_;
  std::vector<Sweeper> sweepers_;  // one a worker
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_STEP_SEARCH_H_
