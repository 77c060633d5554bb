// What every level demands of a model and a point, with one wording.
#ifndef COSTATE_DERIVATIVE_CHECK_POINT_H_
#define COSTATE_DERIVATIVE_CHECK_POINT_H_

#include <costate/model.h>

namespace costate {

/// @throws Error{kUnsupported} when a step of this model cannot be repeated from its state.
void CheckDifferentiable(const mjModel* model);

/// @throws Error{kInvalidArgument} that names the first entry that is NaN or infinite.
void CheckFiniteState(const mjModel* model, ConstVectorRef x);
void CheckFiniteControl(const mjModel* model, ConstVectorRef u);
/// The same of the applied forces and mocap poses in a context (kContextSignature).
void CheckFiniteContext(const mjModel* model, ConstVectorRef context);

/// Sizes and numbers of a point to linearize about. @throws Error{kDimensionMismatch, kInvalidArgument}.
void CheckPoint(const mjModel* model, const Dims& dims, ConstVectorRef x, ConstVectorRef u);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_CHECK_POINT_H_
