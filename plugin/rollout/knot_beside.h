// The same knot at other values.
#ifndef COSTATE_ROLLOUT_KNOT_BESIDE_H_
#define COSTATE_ROLLOUT_KNOT_BESIDE_H_

#include <costate/loss.h>

namespace costate {

/// Borrows from all that it is given. @param start  x_0 of the motion, or null.
inline KnotView KnotBeside(const KnotView& knot, ConstVectorRef x, ConstVectorRef u, ConstVectorRef s,
                           const double* start) {
  return {.t = knot.t,
          .N = knot.N,
          .time = knot.time,
          .dt = knot.dt,
          .x = x,
          .u = u,
          .s = s,
          .shift = knot.shift,
          .start = start};
}

}  // namespace costate

#endif  // COSTATE_ROLLOUT_KNOT_BESIDE_H_
