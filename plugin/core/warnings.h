// What the engine's warning counters say of a step.
#ifndef COSTATE_CORE_WARNINGS_H_
#define COSTATE_CORE_WARNINGS_H_

#include <costate/step.h>

namespace costate {

inline void ClearWarnings(mjData* data) {
  for (mjWarningStat& warning : data->warning) warning.number = 0;
}

/// @param before  the counters before the step; null where they were cleared.
inline StepStatus StatusOfWarnings(const mjData* data, const mjWarningStat* before = nullptr) {
  const auto raised = [&](int warning) {
    return data->warning[warning].number > (before != nullptr ? before[warning].number : 0);
  };
  if (raised(mjWARN_BADQPOS) || raised(mjWARN_BADQVEL) || raised(mjWARN_BADQACC)) return StepStatus::kBadState;
  if (raised(mjWARN_BADCTRL)) return StepStatus::kBadControl;
  if (raised(mjWARN_CONTACTFULL) || raised(mjWARN_CNSTRFULL)) return StepStatus::kArenaFull;
  return StepStatus::kOk;
}

}  // namespace costate

#endif  // COSTATE_CORE_WARNINGS_H_
