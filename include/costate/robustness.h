// What a push and a delay take from an optimized motion, with its feedback and without.
#ifndef COSTATE_ROBUSTNESS_H_
#define COSTATE_ROBUSTNESS_H_

#include <string>
#include <vector>

#include <costate/solver.h>

namespace costate {

/// The motion under one disturbance. A cost is infinite where the simulation fails.
struct DisturbedMotion {
  std::string name;                ///< "pushed to -y"
  double open_cost = 0;            ///< of the same controls
  double closed_cost = 0;          ///< of u = ū + K (x ⊖ x̄) within the bounds; open_cost when there are no gains
  double open_kept = 1, kept = 1;  ///< share of the gain over the guess that is left of each: 1 all, 0 none, below
                                   ///< it is worse than the guess
  MatrixXd xfrc{};                 ///< 6 nbody × N of a push, for Simulator::RolloutFeedback; else empty
};

struct RobustnessCheck {
  std::vector<DisturbedMotion> motions;  ///< the worst of the pushes, then the delay
  bool of_cost = false;                  ///< the guess costs hardly more: what is kept is of the motion's own cost
};

/// Repeats a motion under two disturbances that its plan knows nothing of:
///
///   a push    each body by 0.1 · 9.81 m/s² of its mass, all in one direction, for 0.1 s (a knot at least) from a third of
///             the motion on: along each axis of the world that gravity is not along, both ways; the worst counts
///   a delay   u_t is what was due d knots before, about the state of then: the fewest d that are at least 10 ms; the
///             first control is held till then
///
///   kept = 1 − (J_disturbed − J) / |J_guess − J|,   with |J| below where |J_guess − J| < 0.05 |J|
///
/// or what is kept of 0.01 (J_still − J) where that is 0.9, as CheckExploit has it.
///
/// @param motion        of problem.model; @param policy  about it, may be empty.
/// @param initial_cost  J_guess; |J| is taken where it is not finite.
/// @param threads       0 takes the number of cores; the result is the same to the last bit.
/// @throws Error{kDimensionMismatch}. Never for a simulation that fails.  Cost: eleven rollouts (fifteen without gravity).
///         Source: plugin/optimizer/README.md, "Robustness".
RobustnessCheck CheckRobustness(const Problem& problem, const Trajectory& motion, const Policy& policy,
                                double initial_cost, int threads = 1);

}  // namespace costate

#endif  // COSTATE_ROBUSTNESS_H_
