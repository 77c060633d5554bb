// How many numbers a joint has, which of them turn together, and which joints move a body.
#ifndef COSTATE_CORE_JOINT_H_
#define COSTATE_CORE_JOINT_H_

#include <mujoco/mujoco.h>

namespace costate {

/// Velocities, and positions, of a joint of this type (mjtJoint): free, ball, slide, hinge.
inline int JointDofs(int type) { return type == mjJNT_FREE ? 6 : type == mjJNT_BALL ? 3 : 1; }
inline int JointPositions(int type) { return type == mjJNT_FREE ? 7 : type == mjJNT_BALL ? 4 : 1; }

/// Velocities that are each by themselves; those behind them, of free and ball joints, turn together.
inline int JointLinearDofs(int type) { return type == mjJNT_FREE ? 3 : type == mjJNT_BALL ? 0 : 1; }

/// Is a position of such a joint one number, an angle or a way: hinges and slides?
inline bool IsScalarJoint(int type) { return type == mjJNT_HINGE || type == mjJNT_SLIDE; }

/// Last dof that moves a body; -1: static. The others are its parents (dof_parentid).
inline int LastDof(const mjModel* model, int body) {
  const int weld = model->body_weldid[body];
  return model->body_dofnum[weld] ? model->body_dofadr[weld] + model->body_dofnum[weld] - 1 : -1;
}

/// Where in x an entry of dx adds to; -1: it turns a quaternion.
inline int StateEntry(const mjModel* model, int entry) {
  if (entry >= model->nv) return static_cast<int>(model->nq - model->nv) + entry;
  const int joint = model->dof_jntid[entry], k = entry - model->jnt_dofadr[joint];
  return k < JointLinearDofs(model->jnt_type[joint]) ? model->jnt_qposadr[joint] + k : -1;
}

/// Does a kinematic tree begin with a free joint?
inline bool HasFreeRoot(const mjModel* model, int tree) {
  return model->jnt_type[model->dof_jntid[model->tree_dofadr[tree]]] == mjJNT_FREE;
}

/// First dof of the group that turns together with this one: where there is none, itself.
inline int GroupBegin(const mjModel* model, int dof) {
  const int joint = model->dof_jntid[dof];
  const int rotation = model->jnt_dofadr[joint] + JointLinearDofs(model->jnt_type[joint]);
  return dof < rotation ? dof : rotation;
}

/// One past the last dof of that group.
inline int GroupEnd(const mjModel* model, int dof) {
  const int begin = GroupBegin(model, dof), joint = model->dof_jntid[dof];
  const bool turns = begin == model->jnt_dofadr[joint] + JointLinearDofs(model->jnt_type[joint]);
  return begin + (turns ? 3 : 1);
}

}  // namespace costate

#endif  // COSTATE_CORE_JOINT_H_
