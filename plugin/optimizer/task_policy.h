// <policy>: what a feedback policy sees, its layers, and the starts that it is trained from.
#ifndef COSTATE_OPTIMIZER_TASK_POLICY_H_
#define COSTATE_OPTIMIZER_TASK_POLICY_H_

#include <costate/task.h>

#include "optimizer/task_xml.h"

namespace costate {

/// @param element  null: the defaults.  @param task  its model is read.
PolicyOptions ReadPolicy(const XmlElement* element, const Task& task);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TASK_POLICY_H_
