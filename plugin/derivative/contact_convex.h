// The exact contact of two convex geoms next to the one that the engine's iterative collider found.
// (G7), (G8) of README.md.
#ifndef COSTATE_DERIVATIVE_CONTACT_CONVEX_H_
#define COSTATE_DERIVATIVE_CONTACT_CONVEX_H_

#include <vector>

#include "derivative/contact_shape.h"

namespace costate {

struct ConvexContact {
  Patch first, second;
  Vec3 normal;  ///< from the first to the second
  double distance;
  bool parallel;  ///< flat parts lie on each other: no point is singled out, the given one is kept
};

class ConvexSolver {
 public:
  /// @param normal, point, distance  the engine's contact; a distance that is not finite is not
  /// compared.
  /// @param tolerance  how far the engine's distance may be from the exact one.
  /// @return false when no pair of features explains the contact.
  bool Solve(const ConvexShape& first, const ConvexShape& second, const Vec3& normal, const Vec3& point,
             double distance, double tolerance, ConvexContact* out);

 private:
  std::vector<Feature> features_[2];
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_CONTACT_CONVEX_H_
