// Ways from one posture to another that touch nothing.
#ifndef COSTATE_OPTIMIZER_TASK_PATH_H_
#define COSTATE_OPTIMIZER_TASK_PATH_H_

#include <Eigen/Geometry>
#include <vector>

#include "optimizer/task_posture.h"

namespace costate {

/// Does something on the straight line from the start to a posture touch what it touches neither at the start nor
/// there?
bool IsInTheWay(const mjModel* model, const Start& start, ConstVectorRef goal, ConstVectorRef sizes);

/// Postures from the start to a goal, along straight lines between which these joints move clear of everything but what
/// they touch at the start or at the goal: by two trees that grow towards each other (RRT-Connect, Kuffner & LaValle
/// 2000), shortened; the shortest of several.
/// @param start  its x, and its context where it has one.
/// @param goal   qpos (nq).  @param sizes  natural ones of each dof (nv), in which lengths are measured.
/// @return       nq × n, the last is the goal; no columns where none was found, where other joints than these differ,
///               or where connect and weld constraints tie bodies.
/// Cost: at most some 10⁴ postures are looked at, a collision detection each.
MatrixXd PlanPath(const mjModel* model, const Start& start, ConstVectorRef goal, ConstVectorRef sizes,
                  PostureJoints joints);

/// What moves along a way of whole kinematic trees: their joints that actuators turn or push, free ones, and of a tree
/// without such ones all.
struct TreesThatGo {
  std::vector<int> trees;      ///< what other trees touch does not count
  Eigen::AlignedBox3d beside;  ///< [m, world] joints without a range may lead as far as round this box
  double clearance = 0;        ///< [m] that is tried first
};

/// Such ways of whole trees, those with less clearance where they are much shorter; other joints stay where the start
/// has them, whatever the goal says. None where none was found.
/// Cost: at most some 3·10⁵ postures are looked at.
std::vector<MatrixXd> PlanPaths(const mjModel* model, const Start& start, ConstVectorRef goal, ConstVectorRef sizes,
                                const TreesThatGo& moving);

/// A geom that moves and one that stands, which come near each other on a way.
struct NearPair {
  int moving = 0, standing = 0;
  double nearest = 0;  ///< [m] on the way, negative within each other
  double room = 0;     ///< [m] what is left at its ends, if that is less than what was looked for; else that
};

/// Those that come within so much of each other on the straight line to the last of these postures or along all of
/// them, the nearest first, but for planes and height fields and for what touches at the start or at the end.
/// Cost: a collision detection a posture.
std::vector<NearPair> PairsOnTheWay(const mjModel* model, const Start& start, const MatrixXd& way, ConstVectorRef sizes,
                                    double within);

/// Lengths of the way from x to each of these postures, along it, in terms of the whole (n); of a way that leads nowhere
/// even ones.
VectorXd SharesOfPath(const mjModel* model, ConstVectorRef x, const MatrixXd& path, ConstVectorRef sizes);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TASK_PATH_H_
