// Where the places that a task's cost aims at stand in its numbers.
#ifndef COSTATE_OPTIMIZER_GOAL_SLOTS_H_
#define COSTATE_OPTIMIZER_GOAL_SLOTS_H_

#include <costate/report.h>
#include <costate/task.h>

#include <memory>
#include <string>
#include <vector>

#include "optimizer/cost_terms.h"

namespace costate {

/// A number of a term's target that says where a goal is.
struct GoalSlot {
  int term, slot;
  int axis;  ///< of the place
};

/// A place in the world that counts more at the end than on the way. Other terms that measure the same part and have
/// the same number there mean the same goal.
struct SlottedGoal {
  GoalPlace goal;
  std::vector<GoalSlot> slots;
};
std::vector<SlottedGoal> FindGoals(const mjModel* model, const ResidualCost& cost);

/// The task's cost, its goals that stand fixed in the world (target="site:goal") given as numbers, too: the same costs,
/// and FindGoals finds them. Null for a cost of one's own.
std::unique_ptr<ResidualCost> MovableCost(const Task& task);

/// Its goals, in the order of MpcGoals.
std::vector<GoalPlace> MovablePlaces(const Task& task);

/// The part that shall be there: "site hand".
std::string NameOfPlace(const mjModel* model, const GoalPlace& place);

/// What counts more at the end than on the way.
bool IsGoal(const ResidualTerm& term);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_GOAL_SLOTS_H_
