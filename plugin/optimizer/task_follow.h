// Controls by which a simulated robot follows a path of positions.
#ifndef COSTATE_OPTIMIZER_TASK_FOLLOW_H_
#define COSTATE_OPTIMIZER_TASK_FOLLOW_H_

#include <costate/task.h>

#include <functional>

#include "optimizer/task_start.h"

namespace costate {

/// Positions to be at rest at, in order of their times, behind the start at 0 s; the last are kept.
struct Waypoints {
  VectorXd time;  ///< [s] increasing, above 0 (n)
  MatrixXd qpos;  ///< nq × n
};

struct Followed {
  MatrixXd U;         ///< nu × N
  VectorXd end;       ///< x where they lead (nx)
  bool whole = true;  ///< false: goes_on has ended it, the rest of U is zero
};

/// Knot by knot the control that makes the next velocity the path's,
///
///   min_u ‖M½ (qvel' − v*)‖,   v* = v(t + h) + (q(t) ⊖ qpos) / 5h
///
/// over the whole control interval, contacts included, within the task's limits: computed torques. Between two
/// waypoints the path goes by s = 10 τ³ − 15 τ⁴ + 6 τ⁵ of the tangent from one to the other. Where the engine cannot
/// step the controls stay what they were.
/// @param driven   of the dofs alone that actuators move, each weighed by its own inertia, and to half of v*: what
///                 stands on a floor does not go where its legs do not push it, and its feet are not to chatter.
/// @param goes_on  asked of x behind each knot.
Followed FollowControls(const Task& task, const Start& start, const Waypoints& waypoints, bool driven = false,
                        const std::function<bool(const VectorXd& x)>& goes_on = {});

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TASK_FOLLOW_H_
