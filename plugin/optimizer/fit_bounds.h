// How far a fit moves a parameter.
#ifndef COSTATE_OPTIMIZER_FIT_BOUNDS_H_
#define COSTATE_OPTIMIZER_FIT_BOUNDS_H_

#include <costate/parameter.h>
#include <costate/task.h>

#include <algorithm>
#include <utility>

namespace costate {

/// The bounds within which a fit moves a parameter that is at `value`: the task's, and those beyond which the engine
/// takes it for another number (friction from 1e-5, time constants from two steps), since nothing leads back from
/// there.
inline std::pair<double, double> FitBounds(const TaskParameter& task, const Parameter& parameter, double value) {
  return {value >= parameter.clamp_lower ? std::max(task.lower, parameter.clamp_lower) : task.lower,
          value <= parameter.clamp_upper ? std::min(task.upper, parameter.clamp_upper) : task.upper};
}

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_FIT_BOUNDS_H_
