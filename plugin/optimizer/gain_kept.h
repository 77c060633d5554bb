// What another simulation or a disturbance leaves of a motion's gain: README.md, eq. (E1).
#ifndef COSTATE_OPTIMIZER_GAIN_KEPT_H_
#define COSTATE_OPTIMIZER_GAIN_KEPT_H_

#include <costate/solver.h>

namespace costate {

inline constexpr double kKept = 0.9;  // of the gain: less is worth a word

/// What is judged by other simulations. @throws Error{kDimensionMismatch} for a motion or gains of another size;
/// Error{kInvalidArgument} without a model or a cost.
void CheckJudged(const Problem& problem, const Trajectory& motion, const Policy& policy);

class GainKept {
 public:
  /// @param initial_cost  J_guess; |J| is taken where it is not finite, or hardly more than J.
  /// Cost: a rollout.
  GainKept(const Problem& problem, const Trajectory& motion, double initial_cost);

  double cost() const { return cost_; }

  /// The share is of the motion's own cost, not of its gain over the guess.
  bool of_cost() const { return of_cost_; }

  /// Of a motion that costs J_there: 1 all, 0 none; or that of a hundredth of what staying at the start costs more, if
  /// that keeps kKept.
  double Of(double there) const;

 private:
  double cost_;
  bool of_cost_;
  double unit_, still_ = 0;
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_GAIN_KEPT_H_
