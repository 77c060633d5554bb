// What iLQR refuses before it starts.
#ifndef COSTATE_OPTIMIZER_ILQR_CHECKS_H_
#define COSTATE_OPTIMIZER_ILQR_CHECKS_H_

#include <costate/ilqr.h>

namespace costate {

/// @throws Error{kInvalidArgument} for an option out of its range, by its name.
void CheckOptions(const IlqrOptions& options);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_ILQR_CHECKS_H_
