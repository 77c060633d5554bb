#include "derivative/compliant_touch.h"

#include <algorithm>
#include <cmath>

#include "derivative/plant.h"

namespace costate {
namespace {

// a cylinder touches a plane by a flat ellipsoid at each end: half its thickness over its radius
constexpr double kEndThickness = 0.05;

constexpr double kInside = 1e-6;         // of a capsule's radius: its segment this near a box is taken as within it
constexpr double kParallelAxes = 1e-10;  // 1 − cos² of axes that are taken as parallel

using GeomFrame = Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>;

// a geom where it is
struct Placed {
  int type;
  Vec3 origin;
  Mat3 axes;
  const mjtNum* size;

  Placed(const mjModel* m, const mjData* d, int geom)
      : type(m->geom_type[geom]),
        origin(Vec3Map(d->geom_xpos + 3 * geom)),
        axes(GeomFrame(d->geom_xmat + 9 * geom)),
        size(m->geom_size + 3 * geom) {}

  Vec3 End(int k) const { return origin + (k == 0 ? -size[1] : size[1]) * axes.col(2); }
  Vec3 Corner(int k) const {
    return origin + axes * Vec3(k & 1 ? size[0] : -size[0], k & 2 ? size[1] : -size[1], k & 4 ? size[2] : -size[2]);
  }
};

// the vertices of a mesh that its plane can meet: of its hull where the compiler made one
int MeshVertexCount(const mjModel* m, int geom) {
  const int mesh = m->geom_dataid[geom];
  return m->mesh_graphadr[mesh] >= 0 ? m->mesh_graph[m->mesh_graphadr[mesh]] : m->mesh_vertnum[mesh];
}

Vec3 MeshVertex(const mjModel* m, int geom, int k) {
  const int mesh = m->geom_dataid[geom], graph = m->mesh_graphadr[mesh];
  const int vertex = graph >= 0 ? m->mesh_graph[graph + 2 + m->mesh_graph[graph] + k] : k;
  const float* at = m->mesh_vert + 3 * (m->mesh_vertadr[mesh] + vertex);
  return {at[0], at[1], at[2]};
}

// ---- one sphere, fixed to the feature or sliding along an axis of it, against the core of a surface ----

// `free` says along which axes of the surface the nearest point slides; the feature's sphere slides along `slide`
// unless it is 0
void NearestOnCore(const Vec3& nearest, const Mat3& axes, const bool (&free)[3], double radius, Vec3 slide,
                   TouchPoint* touch) {
  const Vec3 gap = touch->center - nearest;
  const double length = gap.norm();
  touch->distance = length - radius - touch->radius;
  touch->normal = length > mjMINVAL ? Vec3(gap / length) : Vec3(axes.col(2));
  if (length <= mjMINVAL) return;

  Mat3 fixed = Mat3::Identity();  // 1 − Π
  for (int k = 0; k < 3; k++) {
    if (free[k]) fixed -= PLANT("yielding: sliding", axes.col(k) * axes.col(k).transpose());
  }
  const Mat3 turn =
      (Mat3::Identity() - PLANT("yielding: unit normal", touch->normal * touch->normal.transpose())) / length;
  touch->turning = turn * fixed;

  // the sphere slides by σ so that the gap stays square to its axis: a·(1 − Π)(w + a σ) + (a × gap)·ω = 0
  const double square = slide.dot(fixed * slide);
  if (square <= kParallelAxes) return;
  const Vec3 by_motion = -fixed.transpose() * slide / square, by_turn = -slide.cross(gap) / square;
  touch->sliding = PLANT("yielding: slides by motion", slide * by_motion.transpose());
  touch->rolling = PLANT("yielding: slides by turn", slide * by_turn.transpose());
  touch->turning += turn * fixed * touch->sliding;
  touch->twisting = turn * fixed * touch->rolling;
}

// the point of a box nearest to a sphere; inside: out through the nearest face
void AgainstBox(const Placed& box, const Vec3& slide, TouchPoint* touch) {
  const Vec3 local = box.axes.transpose() * (touch->center - box.origin);
  bool free[3];
  Vec3 nearest = box.origin;
  int face = 0;
  for (int k = 0; k < 3; k++) {
    free[k] = std::abs(local[k]) <= box.size[k];
    nearest += std::clamp(local[k], -box.size[k], box.size[k]) * box.axes.col(k);
    if (box.size[k] - std::abs(local[k]) < box.size[face] - std::abs(local[face])) face = k;
  }
  if (!(free[0] && free[1] && free[2])) {
    NearestOnCore(nearest, box.axes, free, 0, slide, touch);
    return;
  }
  touch->normal = local[face] < 0 ? Vec3(-box.axes.col(face)) : Vec3(box.axes.col(face));
  touch->distance = std::abs(local[face]) - box.size[face] - touch->radius;
}

void AgainstCapsule(const Placed& capsule, const Vec3& slide, TouchPoint* touch) {
  const double along = capsule.axes.col(2).dot(touch->center - capsule.origin);
  const Vec3 nearest = capsule.origin + std::clamp(along, -capsule.size[1], capsule.size[1]) * capsule.axes.col(2);
  NearestOnCore(nearest, capsule.axes, {false, false, std::abs(along) <= capsule.size[1]}, capsule.size[0], slide,
                touch);
}

void AgainstPlane(const Placed& plane, TouchPoint* touch) {
  touch->normal = plane.axes.col(2);
  touch->distance = touch->normal.dot(touch->center - plane.origin) - touch->radius;
}

// the lowest point of an ellipsoid with these half axes over a plane; (Y8)
void RoundAgainstPlane(const Placed& plane, const Vec3& center, const Mat3& axes, const Vec3& half, TouchPoint* touch) {
  const Vec3 n = plane.axes.col(2);
  const Mat3 squares = axes * half.cwiseAbs2().asDiagonal() * axes.transpose();
  const Vec3 reach = squares * n;
  const double height = std::sqrt(n.dot(reach));
  touch->center = center - reach / height;
  AgainstPlane(plane, touch);
  const Mat3 curved =
      squares / height - PLANT("yielding: rolls within", reach * reach.transpose() / std::pow(height, 3));
  touch->rolling = -PLANT("yielding: rolls", curved * Skew(n));
}

// ---- capsules ----

// nearest points of two capsules' segments; where they are parallel, the middle of what they share
void CapsuleAgainstCapsule(const Placed& surface, const Placed& feature, TouchPoint* touch) {
  const Vec3 a = surface.axes.col(2), b = feature.axes.col(2), between = feature.origin - surface.origin;
  const double L = surface.size[1], l = feature.size[1], ab = a.dot(b), da = a.dot(between), db = b.dot(between);
  const auto nearest_to = [&](double s) { return std::clamp(da + s * ab, -L, L); };
  double s;
  bool inner = 1 - ab * ab > kParallelAxes;
  if (inner) {
    s = std::clamp((ab * da - db) / (1 - ab * ab), -l, l);
    s = std::clamp(ab * nearest_to(s) - db, -l, l);
    inner = std::abs(s) < l;
  } else {
    const double one = (-L - da) / ab, other = (L - da) / ab;
    s = 0.5 * (std::clamp(std::min(one, other), -l, l) + std::clamp(std::max(one, other), -l, l));
  }
  touch->center = feature.origin + s * b;
  AgainstCapsule(surface, inner ? b : Vec3::Zero(), touch);
}

// distance of a point from a box, its square halved and the slope of that along `a`
double BoxSlope(const Placed& box, const Vec3& local, const Vec3& a) {
  double slope = 0;
  for (int k = 0; k < 3; k++) slope += (local[k] - std::clamp(local[k], -box.size[k], box.size[k])) * a[k];
  return slope;
}

// the inner point of a capsule's segment nearest to a box, and its share: none while an end is as near (Y9)
bool InnerAgainstBox(const Placed& box, const Placed& capsule, TouchPoint* touch) {
  const Vec3 a = box.axes.transpose() * capsule.axes.col(2);
  const Vec3 middle = box.axes.transpose() * (capsule.origin - box.origin);
  const double l = capsule.size[1];

  // the slope grows along the segment, linear between places where a face's plane is crossed
  double low = -l, high = l;
  const auto slope = [&](double s) { return BoxSlope(box, middle + s * a, a); };
  if (slope(low) >= 0 || slope(high) <= 0) return false;
  for (int k = 0; k < 3; k++) {
    for (int side = -1; side <= 1 && a[k] != 0; side += 2) {
      const double s = (side * box.size[k] - middle[k]) / a[k];
      if (s > low && s < high) (slope(s) > 0 ? high : low) = s;
    }
  }
  const double below = slope(low), above = slope(high);
  const double s = above > below ? low - below * (high - low) / (above - below) : 0.5 * (low + high);
  touch->center = capsule.origin + s * capsule.axes.col(2);
  AgainstBox(box, capsule.axes.col(2), touch);
  if (touch->distance + touch->radius <= kInside * touch->radius)
    return false;  // where it is inside its ends push alone

  // share = (1 − e^(−u₀)) (1 − e^(−u₁)), u_k the distance of end k beyond this point's, in radii
  double part[2], slope_of[2];
  TouchPoint end[2];
  for (int k = 0; k < 2; k++) {
    end[k].center = capsule.End(k);
    end[k].radius = touch->radius;
    AgainstBox(box, Vec3::Zero(), &end[k]);
    const double u = (end[k].distance - touch->distance) / touch->radius;
    part[k] = -std::expm1(-u);
    slope_of[k] = std::exp(-u) / touch->radius;
  }
  touch->share = part[0] * part[1];
  for (int k = 0; k < 2; k++) {
    const double c = PLANT("yielding: share", slope_of[k] * part[1 - k]);
    touch->share_by_motion += c * (end[k].normal - PLANT("yielding: share of the inner", touch->normal));
    touch->share_by_turn += PLANT("yielding: share by turn", c * (end[k].center - touch->center).cross(end[k].normal));
  }
  return touch->share > 0;
}

bool Find(const mjModel* m, const mjData* d, int surface_geom, int feature_geom, int k, TouchPoint* touch) {
  const Placed surface(m, d, surface_geom), feature(m, d, feature_geom);
  if (surface.type == mjGEOM_BOX && feature.type == mjGEOM_BOX && k >= 8) {
    return Find(m, d, feature_geom, surface_geom, k - 8, touch);
  }
  touch->body[0] = m->geom_bodyid[surface_geom];
  touch->body[1] = m->geom_bodyid[feature_geom];
  bool fixed = true;  // is the feature a sphere that is fixed to its body?
  touch->center = feature.origin;
  switch (feature.type) {
    case mjGEOM_CAPSULE:
      touch->radius = feature.size[0];
      fixed = surface.type != mjGEOM_CAPSULE && k < 2;
      if (fixed) touch->center = feature.End(k);
      break;
    case mjGEOM_BOX: touch->center = feature.Corner(k); break;
    case mjGEOM_MESH: touch->center = feature.origin + feature.axes * MeshVertex(m, feature_geom, k); break;
    case mjGEOM_CYLINDER: {
      const double r = feature.size[0], half = std::min(kEndThickness * r, feature.size[1]);
      const Vec3 end = feature.origin + (k == 0 ? -1 : 1) * (feature.size[1] - half) * feature.axes.col(2);
      RoundAgainstPlane(surface, end, feature.axes, {r, r, half}, touch);
      return true;
    }
    case mjGEOM_ELLIPSOID:
      RoundAgainstPlane(surface, feature.origin, feature.axes, {feature.size[0], feature.size[1], feature.size[2]},
                        touch);
      return true;
    default: touch->radius = feature.size[0];
  }
  switch (surface.type) {
    case mjGEOM_PLANE: AgainstPlane(surface, touch); return true;
    case mjGEOM_CAPSULE:
      if (fixed) AgainstCapsule(surface, Vec3::Zero(), touch);
      else CapsuleAgainstCapsule(surface, feature, touch);
      return true;
    case mjGEOM_BOX:
      if (!fixed) return InnerAgainstBox(surface, feature, touch);
      AgainstBox(surface, Vec3::Zero(), touch);
      return true;
    default:
      NearestOnCore(surface.origin, surface.axes, {false, false, false}, surface.size[0], Vec3::Zero(), touch);
      return true;
  }
}

}  // namespace

bool HasTouchPoints(const mjModel* m, int surface, int feature) {
  const int s = m->geom_type[surface], f = m->geom_type[feature];
  switch (s) {
    case mjGEOM_PLANE:
      return f == mjGEOM_SPHERE || f == mjGEOM_CAPSULE || f == mjGEOM_BOX || f == mjGEOM_CYLINDER ||
             f == mjGEOM_ELLIPSOID || f == mjGEOM_MESH;
    case mjGEOM_SPHERE: return f == mjGEOM_SPHERE;
    case mjGEOM_CAPSULE: return f == mjGEOM_SPHERE || f == mjGEOM_CAPSULE;
    case mjGEOM_BOX: return f == mjGEOM_SPHERE || f == mjGEOM_CAPSULE || f == mjGEOM_BOX;
    default: return false;
  }
}

int TouchPointCount(const mjModel* m, int surface, int feature) {
  const int s = m->geom_type[surface];
  switch (m->geom_type[feature]) {
    case mjGEOM_CAPSULE: return s == mjGEOM_CAPSULE ? 1 : s == mjGEOM_BOX ? 3 : 2;
    case mjGEOM_BOX: return s == mjGEOM_BOX ? 16 : 8;
    case mjGEOM_CYLINDER: return 2;
    case mjGEOM_MESH: return MeshVertexCount(m, feature);
    default: return 1;
  }
}

bool FindTouchPoint(const mjModel* m, const mjData* d, int surface, int feature, int k, double reach,
                    TouchPoint* touch) {
  *touch = {};
  if (!Find(m, d, surface, feature, k, touch) || touch->distance > reach) return false;
  touch->point = touch->center - (touch->radius + touch->distance / 2) * touch->normal;
  return true;
}

}  // namespace costate
