// Springs and dampers of joints and tendons. Section P of README.md.
#ifndef COSTATE_DERIVATIVE_PASSIVE_H_
#define COSTATE_DERIVATIVE_PASSIVE_H_

#include <mujoco/mujoco.h>

#include <string>
#include <vector>

#include "derivative/columns.h"
#include "derivative/spatial_tendon.h"

namespace costate {

class Actuation;

/// "" if all passive forces of this model are known in closed form, else the first that is not, and why.
std::string PassiveMissing(const mjModel* model);

/// Where the spring of a joint rests, in coordinates of qpos, and the dead band (2) of a tendon's spring: the model's,
/// or the plastic state of the step's beginning where it yields. (P5)
inline const mjtNum* SpringReference(const mjModel* m, const mjData* d, int joint) {
  const int adr = m->jnt_plasticadr[joint];
  return adr >= 0 ? d->plastic + adr : m->qpos_spring + m->jnt_qposadr[joint];
}
inline const mjtNum* SpringRange(const mjModel* m, const mjData* d, int tendon) {
  const int adr = m->tendon_plasticadr[tendon];
  return adr >= 0 ? d->plastic + adr : m->tendon_lengthspring + 2 * tendon;
}

/// Has a joint one, linear or polynomial?
inline bool HasSpring(const mjModel* m, int joint) {
  return m->jnt_stiffness[joint] != 0 || !mju_isZero(m->jnt_stiffnesspoly + mjNPOLY * joint, mjNPOLY);
}

/// Adds ∂(spring + damper force) to the columns q and v of R (README.md, eq. (P1)–(P3)).
void AddPassive(const mjModel* model, const mjData* data, const TendonMoments& tendons, Columns* R);

/// Force along a tendon by its spring and damper, and the slopes −∂/∂length, −∂/∂velocity. (P3)
struct TendonPull {
  double force = 0, stiffness = 0, damping = 0;
};
TendonPull FindTendonPull(const mjModel* model, const mjData* data, int tendon);

/// Damping of a dof or tendon, linear and polynomial, actuators' contributions included.
struct Damping {
  double linear = 0, poly[mjNPOLY] = {0};
  double Value(double velocity) const;       ///< linear + poly |v| …
  double Slope(double velocity) const;       ///< d/dv of v (linear + poly |v| …)
  double SlopeSlope(double velocity) const;  ///< its derivative
  bool IsZero() const;
};
Damping DofDamping(const mjModel* model, int dof);
Damping TendonDamping(const mjModel* model, int tendon);

/// Slope and SlopeSlope of a dof: most dampers are linear, without actuators.
struct DampingSlopes {
  double slope, slope_slope;
};
inline DampingSlopes DofDampingSlopes(const mjModel* m, int dof, double velocity) {
  bool linear = m->jnt_actuatorid[m->dof_jntid[dof]] == -1;
  for (int k = 0; k < mjNPOLY; k++) linear = linear && m->dof_dampingpoly[mjNPOLY * dof + k] == 0;
  if (linear) return {m->dof_damping[dof], 0};
  const Damping damping = DofDamping(m, dof);
  return {damping.Slope(velocity), damping.SlopeSlope(velocity)};
}
/// Is dof_damping the slope of all dofs?
bool HasLinearDamping(const mjModel* model);

/// Is gravity compensated?
bool CompensatesGravity(const mjModel* model);

/// Takes gravity compensation back out of R in the rows of joints that count it as actuator force and are clamped, or
/// where no actuator acts at all. (P4)
void SubtractLostGravity(const mjModel* model, const mjData* data, const Actuation& actuation, Columns* R);

/// World-fixed loads at each xipos, (torque; force): gravity compensation and xfrc_applied. @return false if all are
/// zero.
bool WorldLoads(const mjModel* model, const mjData* data, bool gravity_compensation, std::vector<double>* load);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_PASSIVE_H_
