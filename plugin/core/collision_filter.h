// Which geoms the engine collides, and what tells pairs of bodies apart.
#ifndef COSTATE_CORE_COLLISION_FILTER_H_
#define COSTATE_CORE_COLLISION_FILTER_H_

#include <mujoco/mujoco.h>

namespace costate {

/// The engine's number of the bodies of two geoms, by which it sorts explicit pairs and finds exclusions.
int PairSignature(const mjModel* model, int geom1, int geom2);

/// Does the engine look for contacts of these two geoms (masks, bodies, parents, exclusions)? Explicit pairs aside, and
/// whether contacts are disabled.
bool MayTouch(const mjModel* model, int geom1, int geom2);

/// Does it look for those of a flex and a geom, or of two flexes, perhaps of one with itself, by their masks?
bool FlexMayTouchGeom(const mjModel* model, int flex, int geom);
bool FlexesMayTouch(const mjModel* model, int flex1, int flex2);

/// May any geoms or flexes touch: by their masks, bodies and exclusions or as an explicit pair, with contacts enabled?
bool CanHaveContacts(const mjModel* model);

/// Index of the explicit pair of two geoms, or −1.
int FindPair(const mjModel* model, int geom1, int geom2);

}  // namespace costate

#endif  // COSTATE_CORE_COLLISION_FILTER_H_
