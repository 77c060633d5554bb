// What says more about one step of a gradient's way back than the norm of its costate, and costs more.
#ifndef COSTATE_ROLLOUT_KNOT_HEALTH_H_
#define COSTATE_ROLLOUT_KNOT_HEALTH_H_

#include <costate/adjoint.h>

namespace costate {

/// An eigenvalue of A below −1, the lowest: a direction that the step turns over and makes longer, as no robot does,
/// but explicit integration of strong damping. 0 without one. `dof` receives the largest velocity in that direction.
double Overshoot(const MatrixXd& A, int nv, int* dof);

/// Certifies the step at the state, control and context of `data`: fills labels[t] and crossing[t].
void LabelKnot(const mjModel* model, const mjData* data, double reach, int t, GradientHealth* health);

}  // namespace costate

#endif  // COSTATE_ROLLOUT_KNOT_HEALTH_H_
