// Surface velocity of contacts: (C19) of README.md.
#ifndef COSTATE_DERIVATIVE_CONTACT_BELT_H_
#define COSTATE_DERIVATIVE_CONTACT_BELT_H_

#include <mujoco/mujoco.h>

#include "derivative/contact_geometry.h"

namespace costate {

/// Change of mjContact.surfacevel (t1, t2, spin) by the twists that ContactMotion is by.
struct BeltMotion {
  Eigen::Matrix<double, 3, 6> by_geom2, by_both;
};

/// Does a surface of the contact move, or would it at another point?
bool HasBelt(const mjModel* model, const mjContact& contact);

/// @return false when the contact's surface velocity is not that of its geoms.
bool MoveBelt(const mjModel* model, const mjData* data, const mjContact& contact, const ContactMotion& motion,
              BeltMotion* out);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_CONTACT_BELT_H_
