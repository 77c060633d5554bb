// Contacts between flat parts that lie on each other, which the engine clips: corners of one
// against the plane of the other, and edges cut by its sides. (G9) of README.md.
#ifndef COSTATE_DERIVATIVE_CONTACT_CLIPPED_H_
#define COSTATE_DERIVATIVE_CONTACT_CLIPPED_H_

#include "derivative/contact_shape.h"

namespace costate {

/// @param owner  the shape (0, 1) whose face has the contact's normal.
/// @param ambiguous  set where a corner of one lies on an edge or corner of the other.
/// @return false when no corner or cut edge explains the contact.
bool ClippedRate(const ConvexShape& first, const ConvexShape& second, const mjContact& contact, int owner,
                 ContactRate* out, bool* ambiguous);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_CONTACT_CLIPPED_H_
