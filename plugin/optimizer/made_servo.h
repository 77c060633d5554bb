// Servos that a law makes of motors. README.md, "Without derivatives", (S4).
#ifndef COSTATE_OPTIMIZER_MADE_SERVO_H_
#define COSTATE_OPTIMIZER_MADE_SERVO_H_

#include <costate/feedback.h>
#include <costate/solver.h>

#include <vector>

namespace costate {

/// Of a motor on a hinge, or on a slide with a range: u = ū + stiffness (rest + r - q) - damping v.
struct MadeServo {
  int control, qpos, dof;
  double rest;                ///< q at the start
  double stiffness, damping;  ///< by control
  double reach;               ///< how far off r is worth while: half the joint's range, or what takes all the force
};

/// As stiff as takes all of a motor's force half a radian (half a slide's range) off, but no more than steps of a knot's
/// length hold stable; critically damped for what the joint moves at the start.
std::vector<MadeServo> MakeServos(const Problem& problem);

/// u_t = clamp(ū_t + w_t), in which w of a servo's control is r, the place it pulls to about its rest.
class ServoLaw final : public Feedback {
 public:
  /// All are borrowed. @param U  ū, nu × N.  @param W  w, nu × N.
  ServoLaw(const Problem& problem, const std::vector<MadeServo>& servos, ConstMatrixRef U, ConstMatrixRef W)
      : problem_(problem), servos_(servos), U_(U), W_(W) {}
  int weights() const override { return 0; }
  void Control(const FeedbackInput& in, VectorRef u) const override;
  void PullBack(const FeedbackInput&, ConstVectorRef, FeedbackGradient*) const override {}

 private:
  const Problem& problem_;
  const std::vector<MadeServo>& servos_;
  ConstMatrixRef U_, W_;
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_MADE_SERVO_H_
