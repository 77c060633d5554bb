// What parallel transport adds on the three tangents of a rotation: second derivatives there do not commute.
#ifndef COSTATE_ROLLOUT_ROTATION_H_
#define COSTATE_ROLLOUT_ROTATION_H_

#include <costate/model.h>

namespace costate {

/// out += scale · ½ g × d on the tangent of each ball and free joint: README.md, eq. (6).
void AddHalfBracket(const mjModel* model, double scale, ConstVectorRef g, ConstVectorRef d, VectorXd* out);

}  // namespace costate

#endif  // COSTATE_ROLLOUT_ROTATION_H_
