#include "derivative/contact_closed.h"

#include <algorithm>
#include <cmath>

#include "derivative/plant.h"

namespace costate {
namespace {

// a witness this close to the end of a straight part, relative to its size, is at the end: the
// engine clips to it exactly
constexpr double kEnd = 1e-10;

constexpr double kEndTogether = 1e-9;  // likewise, of two geoms; sine: two directions are one

constexpr double kUnitRounding = 4.5e-16;

// an upright cylinder has no lowest point: below this sine its contacts are points of the cylinder
constexpr double kUpright = 1e-6;

Patch CapsulePatch(const GeomPose& geom, const Vec3& x, const Vec3& m) {
  const double radius = geom.size(0), half = geom.size(1);
  const double along = geom.axis().dot(x - radius * m - geom.center);
  if (std::abs(along) < half - kEnd * (half + radius)) return Patch::Line(x - radius * m, geom.axis(), radius, m);
  return Patch::Ball(geom.center + std::copysign(half, along) * geom.axis(), radius, m);
}

Patch CylinderPatch(const GeomPose& geom, const Vec3& x, const Vec3& m) {
  const double radius = geom.size(0), half = geom.size(1), end = kEnd * (half + radius);
  const Vec3 from = x - geom.center;
  const double along = geom.axis().dot(from);
  const Vec3 middle = geom.center + along * geom.axis();
  if (std::abs(along) < half - end) return Patch::Line(middle, geom.axis(), radius, m);
  if ((x - middle).norm() < radius - end) return Patch::Face(x);
  return Patch::Rim(geom.center + std::copysign(half, along) * geom.axis(), geom.axis(), radius, m);
}

// (G5) the lowest points of both discs, and two more on the lower one, 120 degrees away, that turn
// with the lowest
Patch CylinderOnPlane(const GeomPose& geom, const Vec3& x, const Vec3& m) {
  const Vec3 axis = geom.axis(), radial = m - axis * axis.dot(m);
  const double q = radial.norm();
  Patch patch = Patch::Vertex(x);
  if (q < kUpright) return patch;
  const Vec3 from = x - geom.center, arm = from - axis * axis.dot(from);
  patch.H = PLANT("contact geometry: cylinder on a plane", axis.cross(arm) * axis.cross(radial).transpose() / (q * q));
  return patch;
}

}  // namespace

GeomPose::GeomPose(const mjModel* model, const mjData* data, int geom)
    : id(geom),
      type(model->geom_type[geom]),
      size(Vec3Map(model->geom_size + 3 * geom)),
      center(Vec3Map(data->geom_xpos + 3 * geom)),
      R(Mat3Map(data->geom_xmat + 9 * geom)) {}

Patch BoxPatch(const GeomPose& box, const Vec3& x) {
  const Vec3 local = box.R.transpose() * (x - box.center);
  int inside = 0, free = 0;
  for (int i = 0; i < 3; i++) {
    if (std::abs(local(i)) < box.size(i) - kEnd * box.size.maxCoeff()) inside++, free = i;
  }
  if (inside == 0) return Patch::Vertex(x);
  return inside == 1 ? Patch::Line(x, box.R.col(free), 0, Vec3::Zero()) : Patch::Face(x);
}

bool GeomPatch(const GeomPose& geom, const Vec3& x, const Vec3& m, double slack, Patch* out) {
  constexpr double kAcross = 1e-7;  // sine
  switch (geom.type) {
    case mjGEOM_SPHERE: *out = Patch::Ball(geom.center, geom.size(0), m); break;
    case mjGEOM_CAPSULE: *out = CapsulePatch(geom, x, m); break;
    case mjGEOM_CYLINDER: *out = CylinderPatch(geom, x, m); break;
    case mjGEOM_ELLIPSOID: *out = Patch::Ellipsoid(geom.center, geom.R, geom.size, m); break;
    case mjGEOM_BOX: {
      *out = BoxPatch(geom, x);
      const Vec3 local = geom.R.transpose() * (x - geom.center), normal = geom.R.transpose() * m;
      for (int i = 0; i < 3; i++) {
        const bool inside = std::abs(local(i)) < geom.size(i) - kEnd * geom.size.maxCoeff();
        if (inside ? std::abs(normal(i)) > kAcross : std::abs(local(i)) > geom.size(i) + slack) return false;
      }
      return (local.cwiseAbs() - geom.size).maxCoeff() >= -slack;  // not within
    }
    default: return false;
  }
  if (out->flat == 1 && std::abs(out->line.dot(m)) > kAcross) return false;
  return (out->x - x).norm() <= slack;
}

bool ClosedPatches(const mjModel* model, const mjData* data, const mjContact& contact, PatchPair* out) {
  const GeomPose second(model, data, contact.geom[1]);
  const Vec3 n = Vec3Map(contact.frame), p = Vec3Map(contact.pos);
  const Vec3 x1 = p - n * contact.dist / 2, x2 = p + n * contact.dist / 2;
  out->tangent.setZero();

  if (model->geom_type[contact.geom[0]] == mjGEOM_PLANE) {
    out->first = Patch::Face(x1);
    switch (second.type) {
      case mjGEOM_SPHERE: out->second = Patch::Ball(second.center, second.size(0), -n); return true;
      case mjGEOM_CAPSULE:
        out->second = Patch::Ball(x2 + second.size(0) * n, second.size(0), -n);
        out->tangent = second.axis();
        return true;
      case mjGEOM_ELLIPSOID: out->second = Patch::Ellipsoid(second.center, second.R, second.size, -n); return true;
      case mjGEOM_CYLINDER: out->second = CylinderOnPlane(second, x2, -n); return true;
      case mjGEOM_BOX:
      case mjGEOM_MESH: out->second = Patch::Vertex(x2); return true;
      default: return false;
    }
  }
  const GeomPose first(model, data, contact.geom[0]);
  if (first.type == mjGEOM_SPHERE) {
    out->first = Patch::Ball(first.center, first.size(0), n);
    switch (second.type) {
      case mjGEOM_SPHERE: out->second = Patch::Ball(second.center, second.size(0), -n); return true;
      case mjGEOM_CAPSULE: out->second = CapsulePatch(second, x2, -n); return true;
      case mjGEOM_CYLINDER: out->second = CylinderPatch(second, x2, -n); return true;
      case mjGEOM_BOX: out->second = BoxPatch(second, x2); return true;
      default: return false;
    }
  }
  if (first.type == mjGEOM_CAPSULE && second.type == mjGEOM_CAPSULE) {
    out->first = CapsulePatch(first, x1, n);
    out->second = CapsulePatch(second, x2, -n);

    // parallel capsules touch along a line, the engine takes its ends: points of one, on the line
    // of the other
    if (out->first.flat && out->second.flat && out->first.line.cross(out->second.line).norm() < kEnd)
      out->second.flat = 0;
    return true;
  }
  return false;
}

bool EndTogether(const mjModel* model, const mjData* data, const mjContact& contact) {
  const int other = model->geom_type[contact.geom[1]];
  if (model->geom_type[contact.geom[0]] != mjGEOM_CAPSULE || (other != mjGEOM_CAPSULE && other != mjGEOM_BOX))
    return false;
  const GeomPose first(model, data, contact.geom[0]), second(model, data, contact.geom[1]);
  const Vec3 n = Vec3Map(contact.frame), axis = first.axis(), center = Vec3Map(contact.pos);
  const auto at_end = [&](const Vec3& direction, const GeomPose& geom, double half, double size) {
    return std::abs(std::abs(direction.dot(center - geom.center)) - half) < kEndTogether * size;
  };
  const double size = first.size(0) + first.size(1);
  if (std::abs(n.dot(axis)) > kEndTogether || !at_end(axis, first, first.size(1), size)) return false;
  if (other == mjGEOM_CAPSULE) {
    if (contact.dist + first.size(0) + second.size(0) < kEndTogether * size) return false;  // about one centre, (G11)
    return axis.cross(second.axis()).norm() < kEndTogether &&
           at_end(second.axis(), second, second.size(1), second.size(0) + second.size(1));
  }
  for (int i = 0; i < 3; i++) {
    const Vec3 side = second.R.col(i);
    if (std::abs(axis.dot(side)) > kEndTogether && at_end(side, second, second.size(i), second.size(i))) return true;
  }
  return false;
}

// (G11)
bool ConcentricRates(const mjModel* model, const mjData* data, const mjContact& contact, ContactRate* by_second,
                     ContactRate* by_both) {
  const auto round = [&](int side) {
    const int type = model->geom_type[contact.geom[side]];
    return type == mjGEOM_SPHERE || type == mjGEOM_CAPSULE;
  };
  if (!round(0) || !round(1)) return false;
  const GeomPose first(model, data, contact.geom[0]), second(model, data, contact.geom[1]);
  const double radii = first.size(0) + second.size(0);
  if (std::abs(contact.dist + radii) > mjMINVAL + kUnitRounding * radii) return false;

  // the centre; the engine's point is on the ray from it
  const Vec3 n = Vec3Map(contact.frame), p = Vec3Map(contact.pos), center = p - (first.size(0) + contact.dist / 2) * n;
  for (const GeomPose* geom : {&first, &second}) {
    const Vec3 arm = center - geom->center;
    const double half = geom->type == mjGEOM_CAPSULE ? geom->size(1) : 0,
                 along = half > 0 ? std::abs(geom->axis().dot(arm)) : 0;
    if (std::abs(along - half) > kEnd * (half + radii) || arm.norm() > half + kEnd * (half + radii)) return false;
  }
  const Vec3 normal = first.axis().cross(second.axis());
  const double sine = normal.norm();
  const bool parallel = sine < kEnd;
  if (!parallel && (normal - sine * n).norm() > kEnd) return false;

  for (ContactRate* rate : {by_second, by_both}) {
    rate->dphi.setZero();
    rate->dn.setZero();
    rate->dp.setZero();
  }
  by_both->dp << -Skew(center - p), Mat3::Identity();
  if (parallel) return true;
  by_both->dp.leftCols<3>().setZero();
  by_both->dn.leftCols<3>() = -Skew(n);
  by_second->dn.leftCols<3>() =
      PLANT("contact geometry: normal of concentric balls",
            (n * n.transpose() - Mat3::Identity()) * Skew(first.axis()) * Skew(second.axis()) / sine);
  by_second->dp =
      PLANT("contact geometry: point of concentric balls", (first.size(0) - second.size(0)) / 2 * by_second->dn);
  return true;
}

}  // namespace costate
