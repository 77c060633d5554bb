// What moves because actuators do, and what because a program sets it.
#ifndef COSTATE_CORE_DRIVEN_H_
#define COSTATE_CORE_DRIVEN_H_

#include <mujoco/mujoco.h>

#include <string>
#include <vector>

namespace costate {

/// Is its transmission a joint's, in its own frame or the parent's?
inline bool ActsOnJoint(const mjModel* model, int actuator) {
  const int type = model->actuator_trntype[actuator];
  return type == mjTRN_JOINT || type == mjTRN_JOINTINPARENT;
}

/// Dofs (nv) on which an actuator has a moment in the posture of `data`, whose kinematics are known (mj_comPos).
std::vector<char> DrivenDofs(const mjModel* model, mjData* data);

/// The same in the model's default posture, on data of its own.
std::vector<char> DrivenDofs(const mjModel* model);

/// Is there a dof without one, as of a trunk that legs carry?
bool HasUndrivenDofs(const mjModel* model);

/// Dofs (nv) of trees that no actuator moves, in the default posture, and that no equality, tendon or flex ties to
/// anything: what lies about.
std::vector<char> LooseDofs(const mjModel* model);

/// A mocap body that carries a body by a weld or connect, as gymnasium's fetch is moved.
struct MocapHold {
  int mocap = -1, held = -1;

  bool any() const { return mocap >= 0; }
  std::string Text(const mjModel* model) const;  ///< "mocap body 'pose' holds 'hand': …"
};

/// The first that there is of a body of this tree (-1: of any).
MocapHold FindMocapHold(const mjModel* model, int tree = -1);

}  // namespace costate

#endif  // COSTATE_CORE_DRIVEN_H_
