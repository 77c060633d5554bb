#include "derivative/contact_capsule_box.h"

#include <cmath>

#include "derivative/plant.h"

namespace costate {
namespace {

constexpr double kAtBorder = 1e-9;  // of the geoms' sizes: a point is at a border; sine: two directions are one

// the ball sits where the axis leaves the space above the face, at the side plane: it moves along the axis
void ClippedBall(const Vec3& axis, const Vec3& side, const Vec3& center, const Vec3& n, const mjContact& contact,
                 double radius, ContactRate* out) {
  Mat36 u;  // of the box, at the ball's centre
  u << -Skew(center - Vec3Map(contact.pos)), Mat3::Identity();
  const Mat36 dx = PLANT("capsule on box: clipped", axis * (side.transpose() * u / side.dot(axis)));
  out->dn << -Skew(n), Mat3::Zero();
  out->dphi = n.transpose() * (u - dx);
  out->dp = dx + (radius + contact.dist / 2) * out->dn + n * out->dphi / 2;
}

}  // namespace

bool CapsuleBoxRate(const GeomPose& capsule, const GeomPose& box, const mjContact& contact, ContactRate* out) {
  const double radius = capsule.size(0), half = capsule.size(1), at = kAtBorder * (half + radius + box.size.maxCoeff());
  const Vec3 n = Vec3Map(contact.frame), p = Vec3Map(contact.pos), axis = capsule.axis();
  const Vec3 second = p + n * contact.dist / 2, center = p - n * (radius + contact.dist / 2),
             from = center - capsule.center;
  const double along = axis.dot(from);
  if ((from - along * axis).norm() > at || std::abs(along) > half + at) return false;
  const Patch touched = BoxPatch(box, second);
  const auto move = [&](const Patch& ball) { return MovePatches(ball, touched, n, contact.dist, p, out); };
  if (std::abs(along) > half - at) return move(Patch::Ball(center, radius, n));

  // of the box' axes: the one along n, and the side that the centre is at
  const Vec3 local = box.R.transpose() * (center - box.center), normal = box.R.transpose() * n;
  int face = -1, side = -1, sides = 0;
  for (int i = 0; i < 3; i++) {
    if (1 - std::abs(normal(i)) < kAtBorder * kAtBorder) face = i;
    else if (std::abs(std::abs(local(i)) - box.size(i)) < at) side = i, sides++;
  }
  const bool across = std::abs(n.dot(axis))<kAtBorder, outside = radius + contact.dist> at;
  if (face < 0) return across && outside && touched.flat < 2 && move(Patch::Line(center, axis, radius, n));
  if (across || !outside || sides != 1 || std::abs(axis.dot(box.R.col(side))) < kAtBorder) return false;
  ClippedBall(axis, box.R.col(side), center, n, contact, radius, out);
  return true;
}

}  // namespace costate
