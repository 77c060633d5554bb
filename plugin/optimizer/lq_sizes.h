// The sizes of a linear-quadratic problem, checked before anything reads its matrices.
#ifndef COSTATE_OPTIMIZER_LQ_SIZES_H_
#define COSTATE_OPTIMIZER_LQ_SIZES_H_

#include <costate/lqr.h>

namespace costate {

/// @throws Error{kDimensionMismatch} that names matrix and knot: a cost of one's own has given it another size;
///         Error{kInvalidArgument} for a problem without knots.
void CheckSizes(const LqProblem& problem);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_LQ_SIZES_H_
