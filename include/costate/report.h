// What is told of a solve and kept with a run: iterations, terms of the cost, constraints, places to be reached.
#ifndef COSTATE_REPORT_H_
#define COSTATE_REPORT_H_

#include <string>

namespace costate {

/// One line of the log, one point of every plot.
struct IterationRecord {
  int iteration = 0;
  double cost = 0;             ///< after this iteration
  double expected_change = 0;  ///< predicted by the quadratic model for the accepted step (else the full one), ≤ 0
  double actual_change = 0;
  double gradient_norm = 0;  ///< max |Qu| over controls that may still move downhill, before the step; where the start
                             ///< is free the slopes by it, too
  double step = 0;           ///< accepted alpha; 0 when none was
  double regularization = 0;
  double regularization_by_step = -1;  ///< iLQR by both rules: the second one; else negative
  double curvature = 0;                ///< iLQR: negative where this iteration left a saddle along a direction of such
                                       ///< curvature, that of the model being 1; step is in half control ranges then
  double gap = 0;     ///< largest |f(x_t, u_t) ⊖ x_{t+1}| after this iteration; 0 where all iterates are motions
  int gap_knot = -1;  ///< t + 1 of that gap; 0: none is left; -1: the solver has none
  double seconds_rollout = 0, seconds_derivative = 0, seconds_backward = 0;
  double violation = 0;  ///< of the worst constraint after this iteration, as ConstraintReport has it; 0 without any
  /// Null, or what this was where it was no iteration of the problem itself ("a round of samples", "led round what is
  /// in the way"). Basin hopping tells with it the cost and the violation of its best motion so far, nothing else.
  const char* beside = nullptr;
};

/// How well one constraint is kept along a motion.
struct ConstraintReport {
  std::string name, unit;
  double violation = 0;   ///< the largest, in units of the constraint
  double relative = 0;    ///< the same over 1 or the size of its bound, whichever is larger: what tolerances mean
  int knot = -1;          ///< where it is
  std::string component;  ///< of which component
  double value = 0, lower = 0, upper = 0;  ///< there
  double multiplier = 0;  ///< of the largest size over all knots and components: cost a unit of the bound
  double penalty = 0;     ///< of the augmented Lagrangian at the end
  int active = 0;         ///< knots and components with a multiplier other than zero
};

/// Name and value of one term summed over a trajectory.
struct CostTermValue {
  std::string name;
  double value = 0;
};

/// A place in the world where a part shall be at the end.
struct GoalPlace {
  int sensor = 0;               ///< address in sensordata of the part's place
  double place[3] = {0, 0, 0};  ///< [m]; a component that is NaN is open
};

}  // namespace costate

#endif  // COSTATE_REPORT_H_
