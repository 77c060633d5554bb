// What the costs share, and the sum of weighted norms of residuals that a task file describes.
#ifndef COSTATE_OPTIMIZER_COST_TERMS_H_
#define COSTATE_OPTIMIZER_COST_TERMS_H_

#include <costate/cost.h>

namespace costate {

/// Mean time between knots [s].
double ControlInterval(const Trajectory& trajectory);

/// Sets all sizes for a knot (no lu, lux, luu at the last one) and all entries to zero.
void ResizeExpansion(int ndx, int nu, bool last, CostExpansion* out);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_COST_TERMS_H_
