// Ways round what stands between a motion and its cost, and out of crashes. README.md, "Ways round", "Crashes".
#ifndef COSTATE_OPTIMIZER_DETOUR_H_
#define COSTATE_OPTIMIZER_DETOUR_H_

#include <costate/cost.h>
#include <costate/model.h>
#include <costate/solve.h>

#include <memory>
#include <vector>

#include "derivative/spatial.h"

namespace costate {

/// Geoms of the world and of mocap bodies that something touches along the motion but at its start, none of them planes,
/// height fields, distance fields or of explicit pairs.
std::vector<int> ObstaclesThatAreHit(const Problem& problem, const Trajectory& motion);

/// Of these, those that something touches at the end and above which one of the places is: to be stood on, not passed.
std::vector<int> StoodOn(const Problem& problem, const Trajectory& motion, const std::vector<GoalPlace>& places);

/// All that could be hit so, but those touched at the start.
std::vector<int> ObstaclesThatMayBeHit(const Problem& problem, const Trajectory& motion);

/// These where any is.
std::vector<int> FindObstacles(const Problem& problem, const Trajectory& motion);

/// Those that constraints of the problem keep something clear of, by distances with lower bounds alone, where the motion
/// is not well above these.
std::vector<int> ObstaclesKeptClear(const Problem& problem, const Trajectory& motion);

/// The problem's constraints but those that keep clear of obstacles; null where there are none of these.
std::shared_ptr<const ConstraintSet> WithoutClearances(const Problem& problem);

/// The model in which what constraints keep clear of obstacles touches these, whose contacts may be off.
ModelPtr WithContactsKeptClear(const Problem& problem);

/// The same options for other constraints: what they have of each is forgotten.
ConstrainedOptions ForOthers(ConstrainedOptions constrained);

/// A motion through obstacles.
struct Passage {
  std::shared_ptr<const mjModel> model;                ///< the problem's, whose obstacles nothing touches
  Trajectory motion;                                   ///< on it
  MatrixXd guess;                                      ///< where its solve began (nu × N)
  double gain = 0;                                     ///< by which that is cheaper than the one that they stop
  std::shared_ptr<const ConstraintSet> constraints{};  ///< on it, where they are not the problem's
  std::shared_ptr<const mjModel> seen{};               ///< by whose contacts obstacles are found; null: the problem's
};

/// The model without these obstacles.
ModelPtr WithoutObstacles(const mjModel* model, const std::vector<int>& obstacles);

/// One way round: to which side of the obstacle that the passage meets first, of others to the nearest; or along a path.
struct Detour {
  std::shared_ptr<const Passage> passage;
  int side = 0;                               ///< 0 is the nearest
  std::shared_ptr<const MatrixXd> path = {};  ///< postures that are clear, from the start on (nq × n); else null
};

/// Up to four by sides and, where one is found, one along a path; one of them where the passage meets no obstacle.
std::vector<Detour> PlanDetours(const Problem& problem, Passage passage);

/// Round the obstacles without touching them, and from there on by the problem's own cost on its own model.
/// @param options  options.iterations bounds the iterations in all.
SolveResult SolveAround(const Problem& problem, const Detour& detour, const IlqrOptions& options,
                        const ConstrainedOptions& constrained, const IterationCallback& callback);

/// Does nothing touch anything at the start of the motion, and something that moves something fixed at a later knot?
bool Crashes(const Problem& problem, const Trajectory& motion);

/// The model in which nothing touches.
ModelPtr WithoutContacts(const mjModel* model);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_DETOUR_H_
