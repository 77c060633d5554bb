// A solve that goes on where a saved run ended.
#ifndef COSTATE_RESUME_H_
#define COSTATE_RESUME_H_

#include <string>

#include <costate/record.h>
#include <costate/task.h>

namespace costate {

/// The table of a run that holds where its solver stood.
inline constexpr char kResumeFile[] = "resume.json";

/// What of a result another solve needs to go on: the last iterate (controls; states where they had gaps), fddp's
/// costates and barrier, the regularization, each constraint's multipliers, penalty and residual by name, and of a
/// search over times its trials and best motion. The text of kResumeFile, with every number bit for bit.
/// @param timed  null where the length of the motion was given.
std::string ResumeText(const Task& task, const SolveResult& result, const FreeTimeResult* timed = nullptr);

/// Makes `task` begin where the run ended: task->U_guess, X_guess, state and time_state are those of the run; sampled
/// starts and smooth stages are left out, with a warning. Weights, targets and bounds may have changed since, and
/// solver settings too.
/// @throws Error{kInvalidArgument} where the run does not fit, naming what and both values: entries of state and
///         control, number and length of control intervals, constraints by name and component; Error{kFile} when the
///         run has no kResumeFile or it is damaged.
void Resume(const Record& record, const std::string& folder, Task* task);

}  // namespace costate

#endif  // COSTATE_RESUME_H_
