// How the contact of two convex surfaces moves with them, from what each is near the contact.
// (G3)–(G6) of README.md.
#ifndef COSTATE_DERIVATIVE_CONTACT_PATCH_H_
#define COSTATE_DERIVATIVE_CONTACT_PATCH_H_

#include "derivative/spatial.h"

namespace costate {

using Mat36 = Eigen::Matrix<double, 3, 6>;
using Row6 = Eigen::Matrix<double, 1, 6>;

/// A convex surface where it touches: its support point in the outward direction m, and how that
/// moves with m.
struct Patch {
  Vec3 x = Vec3::Zero();     ///< the witness
  Mat3 H = Mat3::Zero();     ///< dx = H dm, the Hessian of the support function: zero at a vertex
  int flat = 0;              ///< directions in which it is straight: 0, 1 (along `line`), 2 (a face)
  Vec3 line = Vec3::Zero();  ///< unit, orthogonal to m

  static Patch Vertex(const Vec3& x);
  static Patch Face(const Vec3& x);
  /// The sphere about `center` in direction m.
  static Patch Ball(const Vec3& center, double radius, const Vec3& m);
  /// All points within `radius` of the line through `point`; m ⊥ line.
  static Patch Line(const Vec3& point, const Vec3& line, double radius, const Vec3& m);
  /// The edge of a disc; m not along its axis.
  static Patch Rim(const Vec3& center, const Vec3& axis, double radius, const Vec3& m);
  /// The ellipsoid with half axes `size` along the columns of R.
  static Patch Ellipsoid(const Vec3& center, const Mat3& R, const Vec3& size, const Vec3& m);
};

/// Change of distance, point and normal by a twist (w; v), v at the contact point.
struct ContactRate {
  Row6 dphi;
  Mat36 dp, dn;

  /// Everything moves as one: (G3).
  static ContactRate Rigid(const Vec3& n);
};

/// (G6) The contact with normal n (from surface 1 to 2) and distance phi by the twist of surface 2
/// about `point`, surface 1 at rest. @return false where it is not unique to first order: parallel
/// flat parts, or a centre of curvature.
bool MovePatches(const Patch& first, const Patch& second, const Vec3& n, double phi, const Vec3& point,
                 ContactRate* out);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_CONTACT_PATCH_H_
