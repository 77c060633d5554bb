// What iLQR refuses before it starts.
#ifndef COSTATE_OPTIMIZER_ILQR_CHECKS_H_
#define COSTATE_OPTIMIZER_ILQR_CHECKS_H_

#include <costate/ilqr.h>

namespace costate {

/// @throws Error{kInvalidArgument} for an option out of its range, by its name.
void CheckOptions(const IlqrOptions& options);

/// What a solve goes on from. @throws Error{kDimensionMismatch} for another N than the problem's;
///         Error{kInvalidArgument} for a state or a gain that is not finite.
void CheckReference(const Problem& problem, const Trajectory& reference, const std::vector<MatrixXd>& K);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_ILQR_CHECKS_H_
