// Inverse dynamics as levels 1 and 2 differentiate it. Equation (8) of README.md.
#ifndef COSTATE_DERIVATIVE_INVERSE_DYNAMICS_H_
#define COSTATE_DERIVATIVE_INVERSE_DYNAMICS_H_

#include <costate/derivative.h>

#include <string>

namespace costate {

/// Why the residual of README.md, section 1, is not what mj_inverse computes for this model; "" when it is.
std::string InverseRefusal(const mjModel* model);

/// mj_inverse at acceleration qacc without applied forces, in continuous time. @pre `data` holds state and context.
/// @post everything that depends on (q, v, qacc) in `data` is up to date.
StepStatus RunInverse(const mjModel* model, mjData* data, ConstVectorRef qacc);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_INVERSE_DYNAMICS_H_
