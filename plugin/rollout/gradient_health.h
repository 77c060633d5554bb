// What the norms of a costate say about a gradient. README.md, "Gradient health".
#ifndef COSTATE_ROLLOUT_GRADIENT_HEALTH_H_
#define COSTATE_ROLLOUT_GRADIENT_HEALTH_H_

#include <costate/adjoint.h>

namespace costate {

/// Fills verdict, rate, from and text from the growth factors. @param dt  a control interval [s].
void JudgeGradient(double dt, GradientHealth* health);

}  // namespace costate

#endif  // COSTATE_ROLLOUT_GRADIENT_HEALTH_H_
