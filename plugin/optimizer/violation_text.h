// How well a motion keeps its constraints, in words.
#ifndef COSTATE_OPTIMIZER_VIOLATION_TEXT_H_
#define COSTATE_OPTIMIZER_VIOLATION_TEXT_H_

#include <costate/solver.h>
#include <fmt/format.h>

#include <string>

namespace costate {

/// "worst violation 0.1 rad at knot 60 of constraint 'goal' (qpos[hip]): -0.1, allowed 0 to 0". result.constraints
/// stand worst first.
inline std::string ViolationText(const SolveResult& result, double tolerance) {
  if (result.violation == 0) return "all constraints kept";
  const ConstraintReport& worst = result.constraints.front();
  std::string text =
      fmt::format("worst violation {:.3g}{} at knot {} of constraint '{}'", worst.violation,
                  worst.unit.empty() || worst.unit == "1" ? "" : " " + worst.unit, worst.knot, worst.name);
  if (worst.component != worst.name) text += fmt::format(" ({})", worst.component);
  if (result.violation > tolerance)
    text += fmt::format(": {:.6g}, allowed {:.6g} to {:.6g}", worst.value, worst.lower, worst.upper);
  return text;
}

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_VIOLATION_TEXT_H_
