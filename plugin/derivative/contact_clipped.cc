#include "derivative/contact_clipped.h"

#include <cmath>

#include "derivative/plant.h"

namespace costate {
namespace {

constexpr double kAt = 1e-9;         // of a geom's radius: a point is at a border
constexpr double kFlatEnough = 0.5;  // sine of a face's normal with n above which n is taken along the face

// where the point of a contact is fixed to a shape
struct Place {
  enum Kind { kElsewhere, kFace, kEdge, kCorner };
  Kind kind = kElsewhere;
  Vec3 edge = Vec3::Zero();  // kEdge: its direction
  double radius = 0;         // of a rounded edge about its line, whose direction is `line`
  Vec3 line = Vec3::Zero();
};

Place OnBox(const GeomPose& box, const Vec3& x, double at) {
  const Vec3 local = box.R.transpose() * (x - box.center), beyond = local.cwiseAbs() - box.size;
  Place place;
  if (beyond.maxCoeff() > at) return place;
  int borders = 0;
  for (int i = 0; i < 3; i++) {
    if (beyond(i) > -at) {
      borders++;
    } else {
      place.edge = box.R.col(i);
    }
  }
  place.kind = static_cast<Place::Kind>(borders);
  return place;
}

// the face of a cylinder is a polygon fixed to it
Place OnDisc(const GeomPose& cylinder, const Vec3& x, double at) {
  const Vec3 local = cylinder.R.transpose() * (x - cylinder.center);
  Place place;
  if (std::abs(std::abs(local.z()) - cylinder.size(1)) > at) return place;
  const double turn = std::atan2(local.y(), local.x()) / (2 * mjPI / kDiscCorners);
  const auto corner = [&](double k) {
    const double angle = k * 2 * mjPI / kDiscCorners;
    return Vec3(cylinder.size(0) * std::cos(angle), cylinder.size(0) * std::sin(angle), local.z());
  };
  if ((corner(std::round(turn)) - local).norm() < at) {
    place.kind = Place::kCorner;
    return place;
  }
  const Vec3 from = corner(std::floor(turn)), edge = (corner(std::floor(turn) + 1) - from).normalized();
  const double beyond = edge.cross(local - from).z();
  if (beyond < -at) return place;
  place.kind = beyond > at ? Place::kFace : Place::kEdge;
  return place;
}

// the side of a cylinder or capsule, along its axis
Place OnSide(const GeomPose& geom, const Vec3& x, double at) {
  const Vec3 from = x - geom.center;
  const double along = geom.axis().dot(from);
  Place place;
  if (std::abs((from - along * geom.axis()).norm() - geom.size(0)) > at || std::abs(along) > geom.size(1) + at)
    return place;
  place.kind = std::abs(along) > geom.size(1) - at ? Place::kCorner : Place::kEdge;
  place.edge = place.line = geom.axis();
  place.radius = geom.size(0);
  return place;
}

Place PlaceOn(const ConvexShape& shape, const Vec3& n, const Vec3& x) {
  const double at = kAt * shape.radius();
  const bool lies = std::abs(shape.pose.axis().dot(n)) < kFlatEnough;
  switch (shape.pose.type) {
    case mjGEOM_BOX: return OnBox(shape.pose, x, at);
    case mjGEOM_CYLINDER: return lies ? OnSide(shape.pose, x, at) : OnDisc(shape.pose, x, at);
    case mjGEOM_CAPSULE: return lies ? OnSide(shape.pose, x, at) : Place();
    default: return {};
  }
}

// normal of the face that x is on and that is most along n; zero: none is known
Vec3 FaceNormal(const ConvexShape& shape, const Vec3& n) {
  const GeomPose& pose = shape.pose;
  if (pose.type == mjGEOM_CYLINDER)
    return std::abs(pose.axis().dot(n)) > kFlatEnough ? pose.axis() : Vec3(Vec3::Zero());
  if (pose.type != mjGEOM_BOX) return Vec3::Zero();
  int most;
  (pose.R.transpose() * n).cwiseAbs().maxCoeff(&most);
  return pose.R.col(most);
}

// the side plane of a box through x, other than the face along n
bool SideNormal(const GeomPose& box, const Vec3& n, const Vec3& x, double at, Vec3* side) {
  const Vec3 local = box.R.transpose() * (x - box.center), along = box.R.transpose() * n;
  for (int i = 0; i < 3; i++) {
    if (std::abs(along(i)) > kFlatEnough || std::abs(std::abs(local(i)) - box.size(i)) > at) continue;
    *side = box.R.col(i);
    return true;
  }
  return false;
}

}  // namespace

bool ClippedRate(const ConvexShape& first, const ConvexShape& second, const mjContact& contact, int owner,
                 ContactRate* out, bool* ambiguous) {
  const ConvexShape* shape[2] = {&first, &second};
  const Vec3 n = Vec3Map(contact.frame), p = Vec3Map(contact.pos);
  const double phi = contact.dist;
  const Vec3 x[2] = {p - n * phi / 2, p + n * phi / 2};

  const bool boxes =
      first.pose.type == mjGEOM_BOX && second.pose.type == mjGEOM_BOX;  // others are cut along other planes

  // velocities of points of either shape, and of n fixed to it
  const auto velocity = [&](int side, const Vec3& at) {
    Mat36 U = Mat36::Zero();
    if (side) U << -Skew(at - p), Mat3::Identity();
    return U;
  };
  const auto turn = [&](int side) {
    Mat36 U = Mat36::Zero();
    if (side) U.leftCols<3>() = -Skew(n);
    return U;
  };
  out->dn = turn(owner);

  // the corner or cut edge: of the other shape if it may be
  int side = 1 - owner;
  Place place = PlaceOn(*shape[side], n, x[side]);
  if (place.kind != Place::kCorner && place.kind != Place::kEdge) {
    side = owner;
    place = PlaceOn(*shape[side], n, x[side]);
    if (place.kind != Place::kCorner) return false;
  }
  const int other = 1 - side;
  const Place::Kind met = PlaceOn(*shape[other], n, x[other]).kind;
  if (place.kind == Place::kCorner && (met == Place::kCorner || met == Place::kEdge)) *ambiguous = true;
  Mat36 dx = velocity(side, x[side]);
  if (place.radius > 0) {
    // the side rolls: its point below the line, seen along n, keeps its place
    const Vec3 down = (n - place.line * place.line.dot(n)) * (side ? -1 : 1);
    const double q = down.norm();
    const Vec3 from = x[side] - shape[side]->pose.center;
    const Vec3 radial = from - place.line * place.line.dot(from);
    // unless the engine has laid it where the shapes were deepest in each other, as of a capsule on a cylinder's rim
    if ((radial * q - down * radial.norm()).norm() > kAt * radial.norm()) return false;
    const Mat3 across = Mat3::Identity() - place.line * place.line.transpose() - down * down.transpose() / (q * q);
    dx += PLANT("clipped contact: rolling side", (side ? -1 : 1) * place.radius / q * across * (out->dn - turn(side)));
  }
  if (place.kind == Place::kEdge) {
    Vec3 cut;
    if (!boxes || !SideNormal(shape[other]->pose, n, x[other], kAt * shape[other]->radius(), &cut)) return false;
    if (std::abs(cut.dot(place.edge)) < kAt) return false;
    dx += PLANT("clipped contact: cut edge",
                place.edge * (cut.transpose() * (velocity(other, x[side]) - dx) / cut.dot(place.edge)));
  }

  // along n onto the plane of the other shape
  const Vec3 plane = other == owner ? n : FaceNormal(*shape[other], n);
  if (!(std::abs(plane.dot(n)) > kFlatEnough)) return false;
  const double sign = side ? 1 : -1;
  out->dphi = PLANT("clipped contact: distance",
                    (plane.transpose() * (sign * (dx - velocity(other, x[other])) - phi * out->dn)) / plane.dot(n));
  out->dp = dx - PLANT("clipped contact: point", sign / 2 * (phi * out->dn + n * out->dphi));
  return true;
}

}  // namespace costate
