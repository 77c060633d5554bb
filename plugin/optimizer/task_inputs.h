// <gradient>: what the loss of a task is differentiated by.
#ifndef COSTATE_OPTIMIZER_TASK_INPUTS_H_
#define COSTATE_OPTIMIZER_TASK_INPUTS_H_

#include <costate/task.h>

#include "optimizer/task_xml.h"

namespace costate {

/// Which of `names` an attribute means: "all" (also when it is not given), "none", or names, "qvel[x]" by "qvel[x]",
/// "qvel" or "x"; in order. @throws Error{kParse} for a name that means none.
std::vector<int> SelectEntries(const XmlElement& element, const char* attribute, const std::vector<std::string>& names);

/// @param element  null: all controls, all of the start, no parameters.
void ReadInputs(const XmlElement* element, Task* task);

/// @param parameters  null: none.  @throws Error{kInvalidArgument} unless they are those of task.inputs.
void CheckTaskParameters(const Task& task, const ParameterSet* parameters);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TASK_INPUTS_H_
