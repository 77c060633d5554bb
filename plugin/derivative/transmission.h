// Moments of transmissions that move with q. Section T of README.md.
#ifndef COSTATE_DERIVATIVE_TRANSMISSION_H_
#define COSTATE_DERIVATIVE_TRANSMISSION_H_

#include <mujoco/mujoco.h>

#include "derivative/moment.h"

namespace costate {

/// Is the moment of this actuator known in closed form?
bool HasMoment(const mjModel* model, int actuator);

/// Moment of an actuator on a joint, a site with or without reference site or a slider-crank; not of a tendon.
/// (T9)–(T11)
void TransmissionMoment(const mjModel* model, const mjData* data, int actuator, MomentBuilder* builder, Moment* moment);

/// Moment of one of the three outputs of an so3 actuator; its length is the rotation in the frame of the moment. (T12)
void RotationMoment(const mjModel* model, const mjData* data, int actuator, int axis, MomentBuilder* builder,
                    Moment* moment);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_TRANSMISSION_H_
