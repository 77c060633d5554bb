// The pairs of geoms whose collider is exact in closed form: which surface patches touch. (G4),
// (G5) of README.md.
#ifndef COSTATE_DERIVATIVE_CONTACT_CLOSED_H_
#define COSTATE_DERIVATIVE_CONTACT_CLOSED_H_

#include <mujoco/mujoco.h>

#include "derivative/contact_patch.h"

namespace costate {

/// A geom in the world.
struct GeomPose {
  GeomPose(const mjModel* model, const mjData* data, int geom);

  int id, type;
  Vec3 size, center;
  Mat3 R;

  Vec3 axis() const { return R.col(2); }
};

/// Face, edge or corner of a box at x.
Patch BoxPatch(const GeomPose& box, const Vec3& x);

/// What a geom is at x on its surface, m its normal outwards. @return false for planes, meshes, height fields and SDFs,
/// and where that is not so to `slack` [m].
bool GeomPatch(const GeomPose& geom, const Vec3& x, const Vec3& m, double slack, Patch* out);

struct PatchPair {
  Patch first, second;
  Vec3 tangent = Vec3::Zero();  ///< the vector that the collider made the first tangent of, fixed
                                ///< to geom 2; zero: none
};

/// Plane against anything, sphere against sphere, capsule, cylinder or box, capsule against
/// capsule.
/// @return false for other pairs.
bool ClosedPatches(const mjModel* model, const mjData* data, const mjContact& contact, PatchPair* out);

/// Is the contact where two straight parts that lie along each other both end: capsules of one length side by side, a
/// capsule on a face or an edge as long? Whose end it is then hangs on the motion, and no matrix tells it. (G8)
bool EndTogether(const mjModel* model, const mjData* data, const mjContact& contact);

/// Two balls about one centre (spheres, ends of capsules). (G11)
/// @param by_second  geom 2 moves; @param by_both both as one.
/// @return false where the contact is not of that kind.
bool ConcentricRates(const mjModel* model, const mjData* data, const mjContact& contact, ContactRate* by_second,
                     ContactRate* by_both);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_CONTACT_CLOSED_H_
