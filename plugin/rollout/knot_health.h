// What says more about one step of a gradient's way back than the norm of its costate, and costs more.
#ifndef COSTATE_ROLLOUT_KNOT_HEALTH_H_
#define COSTATE_ROLLOUT_KNOT_HEALTH_H_

#include <costate/adjoint.h>

namespace costate {

/// Largest |eigenvalue|; NaN where A is not finite.
double SpectralRadius(const MatrixXd& A);

/// Certifies the step at the state, control and context of `data`: fills labels[t] and crossing[t].
void LabelKnot(const mjModel* model, const mjData* data, double reach, int t, GradientHealth* health);

}  // namespace costate

#endif  // COSTATE_ROLLOUT_KNOT_HEALTH_H_
