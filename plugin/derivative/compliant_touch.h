// Where two geoms that costate.smooth_contact pushes apart are near each other, and how that place moves. (Y1), (Y5) of
// README.md.
#ifndef COSTATE_DERIVATIVE_COMPLIANT_TOUCH_H_
#define COSTATE_DERIVATIVE_COMPLIANT_TOUCH_H_

#include <mujoco/mujoco.h>

#include "derivative/spatial.h"

namespace costate {

/// A place of one geom, the feature, near the surface of another. Slopes are by the motion of the feature's material at
/// `center` and by its turn about it, both as seen from the surface.
struct TouchPoint {
  int body[2] = {0, 0};        ///< of the surface, of the feature
  Vec3 center = Vec3::Zero();  ///< of the feature's sphere
  Vec3 normal = Vec3::Zero();  ///< from surface to feature
  Vec3 point = Vec3::Zero();   ///< half way between the two, where the forces act
  double radius = 0, distance = 0;
  Mat3 turning = Mat3::Zero(), twisting = Mat3::Zero();  ///< ∂normal by motion, by turn
  Mat3 sliding = Mat3::Zero(), rolling = Mat3::Zero();   ///< ∂(center against the feature's material) likewise
  double share = 1;                                      ///< of the law's force that acts here
  Vec3 share_by_motion = Vec3::Zero(), share_by_turn = Vec3::Zero();
};

/// Is there a closed form for these shapes, with `surface` and `feature` in these parts?
bool HasTouchPoints(const mjModel* model, int surface, int feature);

/// Every shape that has one, in words.
inline constexpr char kTouchingShapes[] =
    "a plane with spheres, capsules, boxes, cylinders, ellipsoids and meshes, a sphere with spheres, capsules and "
    "boxes, and "
    "capsules and boxes with each other";

/// Number of touch points of two geoms.
int TouchPointCount(const mjModel* model, int surface, int feature);

/// One of them at the positions of `data`; false where it is further apart than `reach`, or has no share. (Y1)
bool FindTouchPoint(const mjModel* model, const mjData* data, int surface, int feature, int k, double reach,
                    TouchPoint* out);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_COMPLIANT_TOUCH_H_
