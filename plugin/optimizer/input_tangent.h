// How a motion follows from a task's start and parameters: its tangents, and the Gauss–Newton matrix of a loss.
#ifndef COSTATE_OPTIMIZER_INPUT_TANGENT_H_
#define COSTATE_OPTIMIZER_INPUT_TANGENT_H_

#include <costate/tangent.h>
#include <costate/task.h>

#include <functional>
#include <vector>

namespace costate {

/// Knots from `begin` to before `end` of a motion, with the tangents of some directions there.
struct MotionPiece {
  int begin, end;
  const Trajectory& motion;
  const RolloutTangent& tangent;  ///< its columns begin at `begin`
  double dt;
};

/// A unit of each of some inputs: entries of task.inputs.start, then its parameters, of which there are np.
std::vector<RolloutDirection> InputDirections(const Task& task, const std::vector<int>& inputs, int ndx, int np);

/// Pushes directions through a motion and shows it piece by piece: not all tangents are kept at once. false where a
/// knot has no derivative.
bool AlongMotion(const Task& task, const ParameterSet* parameters, const Trajectory& motion,
                 std::vector<RolloutDirection> directions, const std::function<void(const MotionPiece&)>& use);

/// += factor Jᵀ W J of one knot, W the second derivative of the loss (Loss::GaussNewtonProduct).
void AddGaussNewton(const mjModel* model, const Loss& loss, const MotionPiece& piece, int t, double factor,
                    MatrixXd* sum);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_INPUT_TANGENT_H_
