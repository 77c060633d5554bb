// How far positions are from the nearest contact or limit that begins or ends: one number, without allocation.
#ifndef COSTATE_ENGINE_SWITCH_DISTANCE_H_
#define COSTATE_ENGINE_SWITCH_DISTANCE_H_

#include <mujoco/mujoco.h>

namespace costate {

/// The least |distance − margin| of contacts, of geoms at most `reach` apart, and of joint and tendon limits [m or
/// rad], `reach` where none is nearer: the entries of Certify in m and rad.
/// @param data  after mj_fwdPosition; its contacts are overwritten by those within reach.
double SwitchDistance(const mjModel* model, mjData* data, double reach);

}  // namespace costate

#endif  // COSTATE_ENGINE_SWITCH_DISTANCE_H_
