// How many numbers a joint has.
#ifndef COSTATE_CORE_JOINT_H_
#define COSTATE_CORE_JOINT_H_

#include <mujoco/mujoco.h>

namespace costate {

/// Velocities, and positions, of a joint of this type (mjtJoint): free, ball, slide, hinge.
inline int JointDofs(int type) { return type == mjJNT_FREE ? 6 : type == mjJNT_BALL ? 3 : 1; }
inline int JointPositions(int type) { return type == mjJNT_FREE ? 7 : type == mjJNT_BALL ? 4 : 1; }

}  // namespace costate

#endif  // COSTATE_CORE_JOINT_H_
