// What a feedback policy observes and is made of, and the starts that it is trained from.
#ifndef COSTATE_POLICY_OPTIONS_H_
#define COSTATE_POLICY_OPTIONS_H_

#include <cstdint>
#include <vector>

#include <costate/types.h>

namespace costate {

/// One thing that a policy sees.
struct Observation {
  enum class Kind {
    kTangent,  ///< entry `index` of x ⊖ x_ref (positions, velocities, activations): one number
    kAngle,    ///< cos and sin of hinge coordinate qpos[index]: two numbers
    kClock,    ///< cos and sin of 2π time / period: two numbers
    kSensor,   ///< entry `index` of the model's sensors, as FeedbackInput::s has them: one number
  };
  Kind kind = Kind::kTangent;
  int index = 0;
  double scale = 1;   ///< what is seen is multiplied by it
  double period = 0;  ///< [s] of kClock
};

/// What a policy is made of. A task file's <policy> is one.
struct PolicyOptions {
  std::vector<Observation> observations{};  ///< empty: every entry of the tangent
  VectorXd x_ref{};                         ///< nx; empty: the task's goal, else its start
  std::vector<int> hidden{};                ///< sizes of hidden layers; none: a linear law
  VectorXd spread{};       ///< ndx: starts are x0 ⊕ d, d_i uniform within ± spread_i; empty: x0 alone
  int starts = 16;         ///< of training; 1 when spread is empty
  std::uint64_t seed = 1;  ///< of starts and first weights
  double knot_time = 0;    ///< [s] of each column of the reference; 0: unknown
  double begin = 0;        ///< [s] of the engine at its first
};

}  // namespace costate

#endif  // COSTATE_POLICY_OPTIONS_H_
