// A loss, a cost or a constraint of one's own: do the slopes that it states fit its values?
#ifndef COSTATE_SLOPE_CHECK_H_
#define COSTATE_SLOPE_CHECK_H_

#include <string>
#include <vector>

#include <costate/constraint.h>

namespace costate {

/// One slope that does not fit.
struct SlopeMismatch {
  std::string slope;      ///< "lx", "Gradient by u", "constraint 'reach': J, of 'x'"
  std::string input;      ///< by what: "qvel[knee]", "ctrl[hip]", "sensor[tip] 2", "start qpos[hip]"
  int t = 0;              ///< at which knot
  double stated = 0;      ///< what the class says; a NaN where it is none
  double difference = 0;  ///< of its values
  double error_bar = 0;   ///< of the difference
  double relative = 0;    ///< |stated − difference| over the largest of the same slopes at that knot
};

struct SlopeCheck {
  std::vector<SlopeMismatch> wrong;  ///< worst first
  int judged = 0;                    ///< slopes that were compared
  int rough = 0;  ///< not compared: the differences say nothing (corners, noise, or all slopes of the kind are zero)
  bool agrees() const { return wrong.empty() && judged > 0; }  ///< where nothing was compared nothing is known

  /// "4 of 620 slopes do not fit, worst first:" and `lines` of them; or that all fit, or that none was compared.
  std::string Text(int lines = 10) const;
};

/// Each slope at each knot of a motion against centred differences of the values over six step sizes, 1e-2 to 1e-7, the
/// inputs x (in its tangent space), u and s being nudged one by one. A slope is wrong when it is off by more than 1e-6
/// of the largest of its kind at its knot, or of a millionth of the largest value along the motion, and by more than three error bars.
///
/// Loss: Gradient.
/// Cost: lx, lu and l0 of Expand, with sensors that depend on x and u by some C and D, dense where those of the model's
///       sensors may be; rows that MarkSensors does not mark are given as zero. Its Gradient where it has one. Of a
///       task's cost also what callbacks state (costate/residual.h), against the residuals themselves: where a residual
///       is 0 the cost's slopes say nothing of its Jacobian.
/// Constraint: J, Ju and J0, sensors as for a cost, and PullBack where it has one.
/// Problem: its cost and all its constraints, along the motion under U.
///
/// Second derivatives are not compared: those of Expand are Gauss–Newton's, which no difference has.
///
/// @param dt  the control interval [s].
/// @throws Error{kDimensionMismatch} for slopes of another size, by name and knot, and for a motion of another model;
///         Error{kInvalidArgument} where a value itself is not finite, by name and knot; what the class itself throws.
/// Cost: twelve values an input and knot.
SlopeCheck CheckSlopes(const mjModel* model, const Loss& loss, const Trajectory& motion, double dt);
SlopeCheck CheckSlopes(const mjModel* model, const Cost& cost, const Trajectory& motion, double dt);
SlopeCheck CheckSlopes(const mjModel* model, const Constraint& constraint, const Trajectory& motion, double dt);
SlopeCheck CheckSlopes(const Problem& problem, ConstMatrixRef U);

}  // namespace costate

#endif  // COSTATE_SLOPE_CHECK_H_
