// States to start from: <guess states=>.
#ifndef COSTATE_OPTIMIZER_TASK_STATES_H_
#define COSTATE_OPTIMIZER_TASK_STATES_H_

#include <costate/task.h>

#include <string>

#include "optimizer/task_xml.h"

namespace costate {

/// states="key:a@0 key:b@1", straight in the tangent space from keyframe to keyframe with the velocities of that line,
/// or states="file:run/", the states of a saved run or CSV file; nothing: no columns. The first state is the task's
/// start.
/// @return nx × (N+1).
MatrixXd ReadStates(const XmlElement* element, const std::string& folder, const Task& task);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TASK_STATES_H_
