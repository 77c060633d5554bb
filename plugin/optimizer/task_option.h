// <option>: with what of the engine's options a task is planned, where that is not the model's.
#ifndef COSTATE_OPTIMIZER_TASK_OPTION_H_
#define COSTATE_OPTIMIZER_TASK_OPTION_H_

#include <costate/task.h>

#include <string>
#include <vector>

#include "optimizer/task_xml.h"

namespace costate {

/// The integrators that a task may set, each at the value of its enum: all but discrete.
std::vector<std::string> TaskIntegrators();

/// Applies timestep, integrator and solimp0 to the task's own copy of the model, and says so in its warnings.
void ApplyOption(const XmlElement& element, Task* task);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TASK_OPTION_H_
