// A direction's shape, and a trajectory's knot as a point of derivatives.
#ifndef COSTATE_ROLLOUT_DIRECTION_H_
#define COSTATE_ROLLOUT_DIRECTION_H_

#include <costate/tangent.h>

#include "core/check.h"
#include "rollout/knot_products.h"

namespace costate {

/// @throws Error{kDimensionMismatch, kInvalidArgument}.
inline void CheckDirection(const mjModel* model, int N, const ParameterSet* parameters, const RolloutDirection& d) {
  const Dims dims(model);
  CheckSize(model, "direction's x0", d.x0.size(), "ndx", dims.ndx);
  CheckSize(model, "a column of the direction's U", d.U.rows(), "nu", dims.nu);
  CheckSize(model, "direction's U's columns", d.U.cols(), "N", N);
  CheckSize(model, "direction's theta", d.theta.size(), "parameters", parameters ? parameters->size() : 0);
  if (!d.x0.allFinite() || !d.U.allFinite() || !d.theta.allFinite())
    throw Error(ErrorCode::kInvalidArgument, "a direction is not finite");
}

inline KnotPoint PointAt(const Trajectory& trajectory, int t) {
  static const VectorXd kNoControl;
  const bool last = t == trajectory.N();
  return {.x = trajectory.X.col(t),
          .u = last ? ConstVectorRef(kNoControl) : ConstVectorRef(trajectory.U.col(t)),
          .moving = trajectory.context.col(t),
          .last = last};
}

}  // namespace costate

#endif  // COSTATE_ROLLOUT_DIRECTION_H_
