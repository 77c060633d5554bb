// Forces that pull geoms together along the normals of their contacts: of geoms, and of actuators of bodies. (C21) of
// README.md.
#ifndef COSTATE_DERIVATIVE_ADHESION_H_
#define COSTATE_DERIVATIVE_ADHESION_H_

#include <mujoco/mujoco.h>

#include <vector>

namespace costate {

class Actuation;

/// Do contacts pull at this model, by their geoms' adhesion or by actuators?
bool HasAdhesion(const mjModel* model);

/// Does an actuator pull at a body's contacts?
bool HasAdhesiveActuator(const mjModel* model);

/// The contacts that adhesion may pull at, within the gap too: one entry a contact.
void FindAdhesive(const mjModel* model, const mjData* data, std::vector<char>* pulled);

/// Adds the pull [N] of the geoms' adhesion to each contact.
void AddGeomPulls(const mjModel* model, const mjData* data, std::vector<double>* pull);

/// Adds that of actuators, each shared out evenly among its body's contacts. @pre `data` is after mj_fwdActuation.
void AddActuatorPulls(const mjModel* model, const mjData* data, std::vector<double>* pull);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_ADHESION_H_
