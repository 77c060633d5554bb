// One step's second derivative contracted with a costate and a direction.
#ifndef COSTATE_ROLLOUT_STEP_CURVATURE_H_
#define COSTATE_ROLLOUT_STEP_CURVATURE_H_

#include "rollout/knot_products.h"

namespace costate {

struct StepBend {
  const mjModel* model;
  KnotPoint at;
  ConstVectorRef lambda, sigma;  ///< covectors on the next state and on the sensors
  ConstVectorRef dx, du;
  ConstVectorRef pulled;   ///< (Aᵀλ + Cᵀσ; Bᵀλ + Dᵀσ) at the point
  bool differenced;        ///< by terms without closed form: noise needs a larger nudge
  ConstVectorRef theta;    ///< Pᵀλ + Psᵀσ at the point; empty without parameters
  bool theta_differenced;  ///< likewise
};

/// What lies within the nudges.
struct BendSides {
  bool one_sided = false;  ///< a switch: the value is that of the side without it
  bool left_out = false;   ///< no two nudges agree: switches on both sides of all of them, or noise; the value is zero
};

/// Derivative of `pulled`, and of `theta`, along (dx, du) at fixed λ, σ and parameters, centred: README.md, eq. (7).
/// @return false when a step fails; products->status() says why.
/// Cost: 2 VJPs; 4 where parameters are differenced and the dynamics are not.
bool Bend(const StepBend& bend, KnotProducts* products, VectorRef out, VectorRef theta, BendSides* sides);

}  // namespace costate

#endif  // COSTATE_ROLLOUT_STEP_CURVATURE_H_
