// When rounds of kicked controls follow a solve. README.md, "Basin hopping".
#ifndef COSTATE_OPTIMIZER_STUCK_H_
#define COSTATE_OPTIMIZER_STUCK_H_

#include <costate/solver.h>

namespace costate {

/// It ended where another motion nearby may lead further: at a kink, or with constraints that no step keeps better.
inline bool IsStuck(SolveStatus status) {
  return status == SolveStatus::kStalled || status == SolveStatus::kInfeasible;
}

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_STUCK_H_
