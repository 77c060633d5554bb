// Which of two motions is the better one: the cheaper within constraints, else the one of least violation.
#ifndef COSTATE_OPTIMIZER_MERIT_H_
#define COSTATE_OPTIMIZER_MERIT_H_

#include <costate/solver.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/extremes.h"

namespace costate {

/// Violation beyond the tolerance first, then cost; less is better.
using Merit = std::pair<double, double>;

inline constexpr Merit kNoMerit{kInf, kInf};  // what could not be simulated

inline Merit MeritOf(double violation, double cost, double tolerance) {
  return std::isfinite(cost) ? Merit{std::max(violation, tolerance), cost} : kNoMerit;
}

inline Merit MeritOf(const SolveResult& result, double tolerance) {
  if (result.status == SolveStatus::kDiverged) return kNoMerit;
  return MeritOf(result.violation, result.cost, tolerance);
}

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_MERIT_H_
