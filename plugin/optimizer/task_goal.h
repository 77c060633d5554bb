// What `--goal` asks for: a keyframe, or where parts of the robot shall be.
#ifndef COSTATE_OPTIMIZER_TASK_GOAL_H_
#define COSTATE_OPTIMIZER_TASK_GOAL_H_

#include <string>
#include <vector>

#include "optimizer/task_posture.h"

namespace costate {

struct Goals {
  std::string key;  ///< one of them at most is a keyframe
  std::vector<PartGoal> parts;
};

/// @throws Error{kInvalidArgument} naming the goal and what is wrong: "goal 'site:hnd=1,0,0': model 'arm' has no site
/// 'hnd', did you mean 'hand'?", one that nothing moves, that is beyond its joint's range, or that is given twice.
Goals ReadGoals(const mjModel* model, const std::vector<std::string>& texts);

/// A keyframe has all joints already: another place for one of them would pull against it.
/// @param x  that of the keyframe.  @throws Error{kInvalidArgument}
void CheckAgrees(const mjModel* model, const PartGoal& part, const std::string& key, const VectorXd& x);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TASK_GOAL_H_
