#include "derivative/compliant_contact.h"

#include <algorithm>
#include <cmath>

#include "derivative/chain.h"
#include "derivative/plant.h"

namespace costate {
namespace {

constexpr double kRelease =
    0.1;  // how softly the push ends when bodies part faster than 1 / dissipation

using GeomFrame = Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>;

Vec3 GeomCenter(const mjData* d, int geom) { return Vec3Map(d->geom_xpos + 3 * geom); }
Mat3 GeomAxes(const mjData* d, int geom) { return GeomFrame(d->geom_xmat + 9 * geom); }

// center and radius of the k-th sphere of a geom
Vec3 FeatureCenter(const mjModel* m, const mjData* d, int geom, int k) {
  const mjtNum* size = m->geom_size + 3 * geom;
  const Vec3 center = GeomCenter(d, geom);
  switch (m->geom_type[geom]) {
    case mjGEOM_CAPSULE:
      return center + (k == 0 ? -size[1] : size[1]) * GeomAxes(d, geom).col(2);
    case mjGEOM_BOX:
      return center + GeomAxes(d, geom) * Vec3(k & 1 ? size[0] : -size[0],
                                               k & 2 ? size[1] : -size[1],
                                               k & 4 ? size[2] : -size[2]);
    default:
      return center;
  }
}

double FeatureRadius(const mjModel* m, int geom) {
  return m->geom_type[geom] == mjGEOM_BOX ? 0 : m->geom_size[3 * geom];
}

// against a core (point, segment, box) inflated by `radius`: `free` says along which of the axes
// the nearest point slides
void NearestOnCore(const Vec3& nearest, const Mat3& axes, const bool (&free)[3], double radius,
                   TouchPoint* touch) {
  const Vec3 gap = touch->center - nearest;
  const double length = gap.norm();
  touch->distance = length - radius - touch->radius;
  touch->normal = length > mjMINVAL ? Vec3(gap / length) : Vec3(axes.col(2));
  if (length <= mjMINVAL) return;

  // (1 − n nᵀ)(1 − Π) / length
  Mat3 fixed = Mat3::Identity();
  for (int k = 0; k < 3; k++) {
    if (free[k]) fixed -= PLANT("yielding: sliding", axes.col(k) * axes.col(k).transpose());
  }
  touch->turning =
      (Mat3::Identity() - PLANT("yielding: unit normal", touch->normal * touch->normal.transpose())) * fixed / length;
}

void NearestOnBox(const Vec3& origin, const Mat3& axes, const mjtNum* size, TouchPoint* touch) {
  const Vec3 local = axes.transpose() * (touch->center - origin);
  bool free[3];
  Vec3 nearest = origin;
  int face = 0;
  for (int k = 0; k < 3; k++) {
    free[k] = std::abs(local[k]) <= size[k];
    nearest += std::clamp(local[k], -size[k], size[k]) * axes.col(k);
    if (size[k] - std::abs(local[k]) < size[face] - std::abs(local[face])) face = k;
  }
  if (!(free[0] && free[1] && free[2])) {
    NearestOnCore(nearest, axes, free, 0, touch);
    return;
  }

  // the center is inside: out through the nearest face
  touch->normal = local[face] < 0 ? Vec3(-axes.col(face)) : Vec3(axes.col(face));
  touch->distance = std::abs(local[face]) - size[face] - touch->radius;
}

}  // namespace

int FeatureCount(const mjModel* m, const CompliantPair& pair) {
  const int type = m->geom_type[pair.feature];
  return type == mjGEOM_BOX ? 8 : type == mjGEOM_CAPSULE ? 2 : 1;
}

TouchPoint FindTouchPoint(const mjModel* m, const mjData* d, const CompliantPair& pair,
                          int feature) {
  TouchPoint touch;
  touch.body[0] = m->geom_bodyid[pair.surface];
  touch.body[1] = m->geom_bodyid[pair.feature];
  touch.center = FeatureCenter(m, d, pair.feature, feature);
  touch.radius = FeatureRadius(m, pair.feature);
  const Vec3 origin = GeomCenter(d, pair.surface);
  const Mat3 axes = GeomAxes(d, pair.surface);
  const mjtNum* size = m->geom_size + 3 * pair.surface;
  switch (m->geom_type[pair.surface]) {
    case mjGEOM_PLANE:
      touch.normal = axes.col(2);
      touch.distance = touch.normal.dot(touch.center - origin) - touch.radius;
      break;
    case mjGEOM_CAPSULE: {
      const double along = axes.col(2).dot(touch.center - origin);
      const Vec3 nearest = origin + std::clamp(along, -size[1], size[1]) * axes.col(2);
      NearestOnCore(nearest, axes, {false, false, std::abs(along) <= size[1]}, size[0], &touch);
      break;
    }
    case mjGEOM_BOX:
      NearestOnBox(origin, axes, size, &touch);
      break;
    default:
      NearestOnCore(origin, axes, {false, false, false}, size[0], &touch);
  }
  touch.point = touch.center - (touch.radius + touch.distance / 2) * touch.normal;
  return touch;
}

TouchForce ForceAt(const CompliantLaw& law, const TouchPoint& touch, const Vec3& velocity) {
  TouchForce out;
  const double speed = touch.normal.dot(velocity), x = -touch.distance / law.smoothing;

  // δ = ε log(1 + exp x), δ' = −1 / (1 + exp −x)
  const double depth = law.smoothing * (std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))));
  const double depth_slope = x > 0 ? -1 / (1 + std::exp(-x)) : -std::exp(x) / (1 + std::exp(x));
  const double elastic = law.stiffness * std::pow(depth, law.exponent);
  const double elastic_slope =
      law.stiffness * law.exponent * std::pow(depth, law.exponent - 1) * depth_slope;

  // S(z) = (z + √(z² + s²)) / (1 + √(1 + s²)), z = 1 − c v_n
  const double z = 1 - law.dissipation * speed, root = std::hypot(z, kRelease),
               scale = 1 + std::hypot(1.0, kRelease);
  // for z < 0 without cancellation
  const double sum = z >= 0 ? z + root : kRelease * kRelease / (root - z);
  out.push = elastic * sum / scale;
  out.by_distance = elastic_slope * sum / scale;
  out.by_speed = -law.dissipation * elastic * sum / (root * scale);

  const Vec3 tangential = velocity - speed * touch.normal;
  out.rho = std::sqrt(tangential.squaredNorm() + law.stiction * law.stiction);
  out.slip = tangential / out.rho;
  out.friction = law.friction;
  out.force = out.push * (touch.normal - law.friction * out.slip);
  return out;
}

Vec3 RelativeVelocity(const mjModel* m, const mjData* d, const TouchPoint& touch) {
  Vec3 velocity = Vec3::Zero();
  const Vec3 r[2] = {touch.point - Origin(m, d, touch.body[0]),
                     touch.point - Origin(m, d, touch.body[1])};
  ForExclusiveDofs(m, LastDof(m, touch.body[0]), LastDof(m, touch.body[1]), [&](int dof, int side) {
    velocity +=
        (side ? d->qvel[dof] : -d->qvel[dof]) * MotionAt(Vec6Map(d->cdof + 6 * dof), r[side]);
  });
  return velocity;
}

void AddCompliantForce(const mjModel* m, const mjData* d, const CompliantPair& pair, mjtNum* qfrc) {
  for (int k = 0, n = FeatureCount(m, pair); k < n; k++) {
    const TouchPoint touch = FindTouchPoint(m, d, pair, k);
    const Vec3 force = ForceAt(pair.law, touch, RelativeVelocity(m, d, touch)).force;
    const Vec3 r[2] = {touch.point - Origin(m, d, touch.body[0]),
                       touch.point - Origin(m, d, touch.body[1])};
    ForExclusiveDofs(m, LastDof(m, touch.body[0]), LastDof(m, touch.body[1]),
                     [&](int dof, int side) {
                       const double work = force.dot(MotionAt(Vec6Map(d->cdof + 6 * dof), r[side]));
                       qfrc[dof] += side ? work : -work;
                     });
  }
}

}  // namespace costate
