// Controls as a law of the state, u = π(t, x; w): what closed-loop rollouts play and their adjoints differentiate.
#ifndef COSTATE_FEEDBACK_H_
#define COSTATE_FEEDBACK_H_

#include <costate/types.h>

namespace costate {

/// Implementations are immutable while they are used and safe to call from many threads.
class Feedback {
 public:
  virtual ~Feedback() = default;

  /// How many numbers w the law has.
  virtual int weights() const = 0;

  /// u_t of x_t. @param time  [s] of the engine.  @param u  (nu) is written.
  virtual void Control(int t, double time, ConstVectorRef x, VectorRef u) const = 0;

  /// g_x += (∂π/∂x)ᵀ g_u on the tangent of x (ndx), g_w += (∂π/∂w)ᵀ g_u (weights).
  virtual void PullBack(int t, double time, ConstVectorRef x, ConstVectorRef g_u, VectorRef g_x, VectorRef g_w) const = 0;
};

}  // namespace costate

#endif  // COSTATE_FEEDBACK_H_
