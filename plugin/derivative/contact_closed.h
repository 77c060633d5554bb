// The pairs of geoms whose collider is exact in closed form: which surface patches touch. (G4),
// (G5) of README.md.
#ifndef COSTATE_DERIVATIVE_CONTACT_CLOSED_H_
#define COSTATE_DERIVATIVE_CONTACT_CLOSED_H_

#include <mujoco/mujoco.h>

#include <optional>
#include <utility>

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

struct PatchPair {
  Patch first, second;
  Vec3 tangent = Vec3::Zero();  ///< the vector that the collider made the first tangent of, fixed
                                ///< to geom 2; zero: none
  /// Lines side by side that end together: the end of the first is on the line of the second, or the other way round,
  /// as the motion goes. Both are patches of the contact, above is the one, here the other, and it moves by their mean.
  std::optional<std::pair<Patch, Patch>> other{};
};

/// Plane against anything, sphere against sphere, capsule, cylinder or box, capsule against
/// capsule.
/// @return false for other pairs.
bool ClosedPatches(const mjModel* model, const mjData* data, const mjContact& contact, PatchPair* out);

/// Two balls about one centre (spheres, ends of capsules). (G11)
/// @param by_second  geom 2 moves; @param by_both both as one.
/// @return false where the contact is not of that kind.
bool ConcentricRates(const mjModel* model, const mjData* data, const mjContact& contact, ContactRate* by_second,
                     ContactRate* by_both);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_CONTACT_CLOSED_H_
