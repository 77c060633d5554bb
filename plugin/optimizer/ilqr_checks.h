// What iLQR refuses before it starts.
#ifndef COSTATE_OPTIMIZER_ILQR_CHECKS_H_
#define COSTATE_OPTIMIZER_ILQR_CHECKS_H_

#include <costate/ilqr.h>

namespace costate {

/// @throws Error{kInvalidArgument} for an option out of its range, by its name.
void CheckOptions(const IlqrOptions& options);

/// A control on its way is no part of x: B would not know it, at the knot or later.
/// @throws Error{kUnsupported} for a model with a delayed actuator, by its name.
void CheckDelays(const mjModel* model);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_ILQR_CHECKS_H_
