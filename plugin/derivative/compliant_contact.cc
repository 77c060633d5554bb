#include "derivative/compliant_contact.h"

#include <algorithm>
#include <cmath>

#include "derivative/chain.h"

namespace costate {
namespace {

constexpr double kRelease = 0.1;  // how softly the push ends when bodies part faster than 1 / dissipation

}  // namespace

TouchForce ForceAt(const CompliantLaw& law, const TouchPoint& touch, const Vec3& velocity) {
  TouchForce out;
  const double speed = touch.normal.dot(velocity), x = -touch.distance / law.smoothing;

  // δ = ε log(1 + exp x), δ' = −1 / (1 + exp −x)
  const double depth = law.smoothing * (std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))));
  const double depth_slope = x > 0 ? -1 / (1 + std::exp(-x)) : -std::exp(x) / (1 + std::exp(x));
  const double elastic = law.stiffness * std::pow(depth, law.exponent);
  const double elastic_slope = law.stiffness * law.exponent * std::pow(depth, law.exponent - 1) * depth_slope;

  // S(z) = (z + √(z² + s²)) / (1 + √(1 + s²)), z = 1 − c v_n
  const double z = 1 - law.dissipation * speed, root = std::hypot(z, kRelease), scale = 1 + std::hypot(1.0, kRelease);
  // for z < 0 without cancellation
  const double sum = z >= 0 ? z + root : kRelease * kRelease / (root - z);
  const double push = elastic * sum / scale;
  out.push = touch.share * push;
  out.by_distance = touch.share * elastic_slope * sum / scale;
  out.by_speed = -touch.share * law.dissipation * elastic * sum / (root * scale);

  const Vec3 tangential = velocity - speed * touch.normal;
  out.rho = std::sqrt(tangential.squaredNorm() + law.stiction * law.stiction);
  out.slip = tangential / out.rho;
  out.friction = law.friction;
  out.whole = push * (touch.normal - law.friction * out.slip);
  out.force = touch.share * out.whole;
  return out;
}

Vec3 RelativeVelocity(const mjModel* m, const mjData* d, const TouchPoint& touch) {
  Vec3 velocity = Vec3::Zero();
  const Vec3 r[2] = {touch.point - Origin(m, d, touch.body[0]), touch.point - Origin(m, d, touch.body[1])};
  ForExclusiveDofs(m, LastDof(m, touch.body[0]), LastDof(m, touch.body[1]), [&](int dof, int side) {
    velocity += (side ? d->qvel[dof] : -d->qvel[dof]) * MotionAt(Vec6Map(d->cdof + 6 * dof), r[side]);
  });
  return velocity;
}

void AddCompliantForce(const mjModel* m, const mjData* d, const CompliantPair& pair, mjtNum* qfrc) {
  TouchPoint touch;
  for (int k = 0, n = TouchPointCount(m, pair.surface, pair.feature); k < n; k++) {
    if (!FindTouchPoint(m, d, pair.surface, pair.feature, k, kReach * pair.law.smoothing, &touch)) continue;
    const Vec3 force = ForceAt(pair.law, touch, RelativeVelocity(m, d, touch)).force;
    const Vec3 r[2] = {touch.point - Origin(m, d, touch.body[0]), touch.point - Origin(m, d, touch.body[1])};
    ForExclusiveDofs(m, LastDof(m, touch.body[0]), LastDof(m, touch.body[1]), [&](int dof, int side) {
      const double work = force.dot(MotionAt(Vec6Map(d->cdof + 6 * dof), r[side]));
      qfrc[dof] += side ? work : -work;
    });
  }
}

}  // namespace costate
