// The frame of a contact, and the 7×6 matrix of its motion put together from the rates of its parts.
#ifndef COSTATE_DERIVATIVE_CONTACT_FRAME_H_
#define COSTATE_DERIVATIVE_CONTACT_FRAME_H_

#include "derivative/contact_geometry.h"
#include "derivative/contact_patch.h"

namespace costate {

/// Normal and tangents, and how the first tangent was made: from the collider's vector or from a world axis.
struct ContactFrame {
  ContactFrame() = default;
  ContactFrame(const mjtNum* axes, const Vec3& tangent);

  /// Has the tangent a direction? The collider's vector may be parallel to the normal; then the tangents are held.
  bool HasTangent() const;

  Vec3 n, t1, t2;
  Vec3 e;         ///< the vector that was made orthogonal to n
  double length;  ///< |e − n (n·e)|
  bool from_collider;
};

/// By the rates of distance, point and normal, and of the collider's tangent (de). (G2)
ContactMatrix Assemble(const ContactFrame& frame, const ContactRate& rate, const Mat36& de);

/// How the collider's tangent turns with geom 2; a world axis does not.
Mat36 TangentRate(const ContactFrame& frame);

/// Both geoms move as one. (G3)
void CommonMotion(const ContactFrame& frame, ContactMatrix* G);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_CONTACT_FRAME_H_
