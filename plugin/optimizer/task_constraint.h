// <constraint>, <limit> and <periodic>: read before the model is compiled (they add sensors), resolved against it
// afterwards.
#ifndef COSTATE_OPTIMIZER_TASK_CONSTRAINT_H_
#define COSTATE_OPTIMIZER_TASK_CONSTRAINT_H_

#include <costate/task.h>

#include <optional>
#include <string>
#include <vector>

#include "optimizer/task_term.h"

namespace costate {

/// One element, checked as far as that goes without the compiled model.
struct ConstraintDraft {
  XmlElement element;
  std::optional<CostDraft> measure;     ///< what is bounded; none for joint ranges, for power and for periodic motions
  std::vector<std::string> names;       ///< of tendons or actuators that are bounded together, each with a sensor …
  std::vector<std::string> sensors;     ///< … here …
  std::vector<std::string> velocities;  ///< … and, of power, here
};

/// Reads a <constraint>, <limit> or <periodic> and adds the sensors that it needs.
ConstraintDraft ReadConstraint(const XmlElement& element, const Definitions& definitions, SensorAdder* sensors);

/// Resolves a draft: constraints are added to task->constraints; one with soft="weight" to `soft` instead. Model,
/// horizon and start of the task are there.
void MakeConstraints(const ConstraintDraft& draft, const std::string& folder, Task* task,
                     std::vector<ResidualTerm>* soft);

/// Warns where the start violates a constraint on the state, which no control can change.
void WarnOfStart(Task* task);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TASK_CONSTRAINT_H_
