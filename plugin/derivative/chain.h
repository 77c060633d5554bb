// Which dofs move a body, and how they move a point of it.
#ifndef COSTATE_DERIVATIVE_CHAIN_H_
#define COSTATE_DERIVATIVE_CHAIN_H_

#include <mujoco/mujoco.h>

#include "core/joint.h"
#include "derivative/spatial.h"

namespace costate {

/// Where the spatial vectors of a body's tree are taken.
inline Vec3 Origin(const mjModel* model, const mjData* data, int body) {
  return Vec3Map(data->subtree_com + 3 * model->body_rootid[body]);
}

/// Is a ball or free joint on the way to the body followed by another joint of its own body? mj_jacDot turns the axes
/// of such a joint with all of its body's velocity, so that the engine's J̇ v is not the derivative of J v.
inline bool HasJointBehindBall(const mjModel* model, int body) {
  for (int dof = LastDof(model, body); dof >= 0; dof = model->dof_parentid[dof]) {
    const int joint = model->dof_jntid[dof], type = model->jnt_type[joint], moved = model->jnt_bodyid[joint];
    const bool turns = type == mjJNT_BALL || type == mjJNT_FREE;
    if (turns && joint != model->body_jntadr[moved] + model->body_jntnum[moved] - 1) return true;
  }
  return false;
}

/// Velocity of the point at r from the origin under the motion S.
inline Vec3 MotionAt(const Vec6& S, const Vec3& r) { return S.tail<3>() + S.head<3>().cross(r); }

/// The same motion or field, or wrench, about another point: `shift` is new minus old.
inline Vec6 MotionAbout(Vec6 s, const Vec3& shift) {
  s.tail<3>() += s.head<3>().cross(shift);
  return s;
}
inline Vec6 WrenchAbout(Vec6 f, const Vec3& shift) {
  f.head<3>() -= shift.cross(f.tail<3>());
  return f;
}

/// f(dof, side) for the dofs that move exactly one of two bodies, given by their last dofs: side 0 moves the first.
/// @return the last dof that moves both; -1: none.
template <typename F>
int ForExclusiveDofs(const mjModel* model, int first, int second, F f) {
  // climb both chains, always from the larger dof, until they meet
  while (first != second) {
    int& at = first > second ? first : second;
    f(at, &at == &first ? 0 : 1);
    at = model->dof_parentid[at];
  }
  return first;
}

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_CHAIN_H_
