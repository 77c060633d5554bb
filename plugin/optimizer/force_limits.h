// Where a control stops to act since its actuator's force is at its limit. README.md, "Forces at their limits".
#ifndef COSTATE_OPTIMIZER_FORCE_LIMITS_H_
#define COSTATE_OPTIMIZER_FORCE_LIMITS_H_

#include <costate/lqr.h>
#include <costate/solver.h>

#include <memory>
#include <vector>

namespace costate {

/// Of motors and servos of hinges and slides without states of their own, whose force or whose joint's force is
/// limited: the derivative from within, and how far to the limit.
class ForceLimits {
 public:
  /// `problem` must outlive this. @param threads  for derivatives.
  ForceLimits(const Problem& problem, int threads);

  // force = gain u + bias + stiffness q + damping q', within lower and upper; these by the control's own sign
  struct Drive {
    int actuator, joint, control, qpos, qvel, dof;
    double gain, bias, stiffness, damping, lower, upper;
    double band;  // of controls that count as at the limit
  };
  const std::vector<Drive>& drives() const { return drives_; }
  const Dims& dims() const { return dims_; }

  /// The model without these limits.
  ModelPtr Without() const;

  /// Does a motion reach a limit at all?
  bool AreReached(const Trajectory& motion) const;

  /// Finds where controls of a motion are at a limit, and the slopes by them from within.
  /// @param derivative  level and sensors of these slopes.
  void Find(const Trajectory& motion, const LinearizeOptions& derivative);

  /// Slopes of a knot's step in the coordinates of (I5): where a control is just beyond a limit that it has reached,
  /// B and D from within, and A and C such that a control that moves with the limit has those of this step.
  void Reach(int t, StepDerivative* derivative) const;

  /// Bounds of du that keep such controls from being drawn across their limit, and their slopes; where the cost asks
  /// for controls further beyond there are none. `knot` has derivatives of step and cost, and the other bounds.
  void Bound(int t, LqKnot* knot) const;

 private:
  // a control at a limit (left = 0), or as far beyond it
  struct Touch {
    const Drive* drive;
    bool upper;
    double left;     // to the middle of the band
    double since;    // [s] in the interval: the step that reaches the limit last
    int slope = -1;  // knot of slopes_, where it is at the limit
  };

  void Add(const mjModel* model, int actuator);
  double ControlAt(const Drive& drive, double limit, const Trajectory& motion, int t, bool upper, double* since) const;
  bool Touches(const Drive& drive, const Trajectory& motion, int t, Touch* touch) const;
  void LinearizeWithin(const Trajectory& motion, const LinearizeOptions& derivative);
  Eigen::RowVectorXd SlopeOf(const Touch& touch) const;

  const Problem& problem_;
  int threads_;
  Dims dims_;
  std::vector<Drive> drives_;
  ModelPtr unlimited_;
  std::unique_ptr<Simulator> within_;        // simulates unlimited_; made when first used
  std::vector<std::vector<Touch>> touches_;  // at each knot
  std::vector<int> knots_;                   // that have a control at a limit …
  std::vector<StepDerivative> slopes_;       // … and their derivatives without limits
  Trajectory at_limits_;
};

/// The model without any limits of force, of actuators, joints and tendons; null where it has none.
ModelPtr WithoutForceLimits(const mjModel* model);

/// Do these controls lead to the same motion on a model without limits of force, bit for bit: has it reached none?
bool IsSameMotion(const Problem& problem, const mjModel* without, const Trajectory& motion);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_FORCE_LIMITS_H_
