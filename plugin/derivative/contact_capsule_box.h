// Capsule against box: the engine meets the box with balls at one or two points of the capsule's axis. (G10) of
// README.md.
#ifndef COSTATE_DERIVATIVE_CONTACT_CAPSULE_BOX_H_
#define COSTATE_DERIVATIVE_CONTACT_CAPSULE_BOX_H_

#include "derivative/contact_closed.h"

namespace costate {

/// @return false where it is not clear by what the point of the axis is held: parallel capsules and faces, an axis
/// inside the box, points at the distance of a face's width from another contact.
bool CapsuleBoxRate(const GeomPose& capsule, const GeomPose& box, const mjContact& contact, ContactRate* out);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_CONTACT_CAPSULE_BOX_H_
