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

/// Adds ∂(spring + damper force) to the columns q and v of R (README.md, eq. (P1)–(P3)).
void AddPassive(const mjModel* model, const mjData* data, const TendonMoments& tendons, Columns* R);

/// Damping of a dof or tendon, linear and polynomial, actuators' contributions included.
struct Damping {
  double linear = 0, poly[mjNPOLY] = {0};
  double Value(double velocity) const;        ///< linear + poly |v| …
  double Slope(double velocity) const;        ///< d/dv of v (linear + poly |v| …)
  double SlopeSlope(double velocity) const;   ///< its derivative
  bool IsZero() const;
};
Damping DofDamping(const mjModel* model, int dof);
Damping TendonDamping(const mjModel* model, int tendon);

/// Is gravity compensated?
bool CompensatesGravity(const mjModel* model);

/// Takes gravity compensation back out of R in the rows of joints that count it as actuator force and are clamped. (P4)
void SubtractClampedGravity(const mjModel* model, const mjData* data, const Actuation& actuation, Columns* R);

/// World-fixed loads at each xipos, (torque; force): gravity compensation and xfrc_applied. @return false if all are zero.
bool WorldLoads(const mjModel* model, const mjData* data, bool gravity_compensation, std::vector<double>* load);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_PASSIVE_H_
