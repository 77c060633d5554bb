// Controls within the limits of a problem.
#ifndef COSTATE_OPTIMIZER_CONTROL_LIMITS_H_
#define COSTATE_OPTIMIZER_CONTROL_LIMITS_H_

#include <costate/types.h>

namespace costate {

/// U, a control a column, clamped to u_lower and u_upper of a problem or a task.
template <typename Limits>
MatrixXd WithinLimits(const Limits& limits, ConstMatrixRef U) {
  return U.cwiseMax(limits.u_lower.replicate(1, U.cols())).cwiseMin(limits.u_upper.replicate(1, U.cols()));
}

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_CONTROL_LIMITS_H_
