// The control of one step that makes a residual least, within the limits.
#ifndef COSTATE_OPTIMIZER_CONTROL_SEARCH_H_
#define COSTATE_OPTIMIZER_CONTROL_SEARCH_H_

#include <costate/task.h>

#include <Eigen/Cholesky>
#include <functional>

#include "optimizer/control_limits.h"

namespace costate {

/// r(u) of one step; false when the engine cannot step.
using ControlResidual = std::function<bool(const VectorXd& u, VectorXd* r)>;

/// min_u ‖r(u)‖ from `u`, by Gauss–Newton with differences towards the inside of the limits.
/// @param u           (nu) within the task's limits; the minimum.  @param r  of u, before and after.
/// @param iterations  at most, and none more once ‖r‖ ≤ enough.
/// @return            false where the engine cannot step beside u.
bool SearchControl(const Task& task, const ControlResidual& residual, int iterations, double enough, VectorXd* u,
                   VectorXd* r);

/// M = L Lᵀ at x: ‖Lᵀ v‖² = vᵀ M v, what residuals weigh velocities by. False when the engine cannot evaluate x.
bool FactorMass(const mjModel* model, mjData* data, const VectorXd& x, const VectorXd& context,
                Eigen::LLT<MatrixXd>* L);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_CONTROL_SEARCH_H_
