// Controls as a law of the state, u = π(t, x, s; w): what closed-loop rollouts play and their adjoints differentiate.
#ifndef COSTATE_FEEDBACK_H_
#define COSTATE_FEEDBACK_H_

#include <costate/types.h>

namespace costate {

/// What a law is given at knot t.
struct FeedbackInput {
  int t = 0;
  double time = 0;   ///< [s] of the engine
  ConstVectorRef x;  ///< (nx)
  /// What the sensors show at x while the control of the interval before still acts, 0 at the first knot (ns): what
  /// mj_forward shows before ctrl is changed. Empty where the law reads none.
  ConstVectorRef s;
};

/// What a law's slopes are added to: by the tangent of x (ndx), by s (ns, or none) and by its weights.
struct FeedbackGradient {
  VectorRef x, s, w;
};

/// Implementations are immutable while they are used and safe to call from many threads.
class Feedback {
 public:
  virtual ~Feedback() = default;

  /// How many numbers w the law has.
  virtual int weights() const = 0;

  /// True when it reads s: each knot then costs one more mj_forward, and its adjoint one more pull-back.
  virtual bool NeedsSensors() const { return false; }

  /// u_t. @param u  (nu) is written.
  virtual void Control(const FeedbackInput& in, VectorRef u) const = 0;

  /// out += (∂π/∂(x, s, w))ᵀ g_u.
  virtual void PullBack(const FeedbackInput& in, ConstVectorRef g_u, FeedbackGradient* out) const = 0;
};

}  // namespace costate

#endif  // COSTATE_FEEDBACK_H_
