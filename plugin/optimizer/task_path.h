// Ways from one posture to another that touch nothing.
#ifndef COSTATE_OPTIMIZER_TASK_PATH_H_
#define COSTATE_OPTIMIZER_TASK_PATH_H_

#include "optimizer/task_posture.h"

namespace costate {

/// Does something on the straight line from x to a posture touch what it touches neither at x nor there?
bool IsInTheWay(const mjModel* model, ConstVectorRef x, ConstVectorRef goal, ConstVectorRef sizes);

/// Postures from x to a goal, along straight lines between which these joints move clear of everything but what they
/// touch at x or at the goal: by two trees that grow towards each other (RRT-Connect, Kuffner & LaValle 2000),
/// shortened; the shortest of several.
/// @param goal   qpos (nq).  @param sizes  natural ones of each dof (nv), in which lengths are measured.
/// @return       nq × n, the last is the goal; no columns where none was found, where other joints than these differ,
///               or where connect and weld constraints tie bodies.
/// Cost: at most some 10⁴ postures are looked at, a collision detection each.
MatrixXd PlanPath(const mjModel* model, ConstVectorRef x, ConstVectorRef goal, ConstVectorRef sizes,
                  PostureJoints joints);

/// Lengths of the way from x to each of these postures, along it, in terms of the whole (n); of a way that leads nowhere
/// even ones.
VectorXd SharesOfPath(const mjModel* model, ConstVectorRef x, const MatrixXd& path, ConstVectorRef sizes);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TASK_PATH_H_
