#include "derivative/contact_shape.h"

#include <algorithm>
#include <cmath>

namespace costate {
namespace {

constexpr double kFacing = 0.99;  // cosine between a flat part's normal and the direction that it faces
constexpr double kWithin = 1e-9;  // of a geom's radius: rounding at the border of a feature

Feature Face(const Vec3& point, const Vec3& normal, double radius, int polygon) {
  return {Feature::kFace, point, normal, radius, 0, polygon};
}
Feature Line(const Vec3& middle, const Vec3& axis, double half, double radius) {
  return {Feature::kLine, middle, axis, radius, half, -1};
}
Feature Ball(const Vec3& center, double radius) { return {Feature::kBall, center, Vec3::Zero(), radius, 0, -1}; }

}  // namespace

ConvexShape::ConvexShape(const mjModel* model, const mjData* data, int geom)
    : pose(model, data, geom), model_(model), radius_(model->geom_rbound[geom]) {
  if (pose.type == mjGEOM_MESH) mesh_ = model->geom_dataid[geom];
}

void ConvexShape::FindFeatures(const Vec3& m, double angle, std::vector<Feature>* out) const {
  const Vec3& c = pose.center;
  const Vec3 axis = pose.axis();
  const double radius = pose.size(0), half = pose.size(1), along = axis.dot(m);
  out->clear();
  switch (pose.type) {
    case mjGEOM_SPHERE: out->push_back(Ball(c, radius)); break;
    case mjGEOM_ELLIPSOID: out->push_back({Feature::kEllipsoid, c, axis, 0, 0, -1}); break;
    case mjGEOM_CAPSULE:
      if (std::abs(along) < angle) out->push_back(Line(c, axis, half, radius));
      for (double side : {half, -half}) {
        if (side * along > -angle * half) out->push_back(Ball(c + side * axis, radius));
      }
      break;
    case mjGEOM_CYLINDER:
      if (1 - std::abs(along) < angle * angle / 2) {
        const Vec3 outward = std::copysign(1, along) * axis;
        out->push_back(Face(c + half * outward, outward, radius, -1));
      }
      if (std::abs(along) < angle) out->push_back(Line(c, axis, half, radius));
      for (double side : {half, -half}) {
        if (side * along > -angle * half) out->push_back({Feature::kRim, c + side * axis, axis, radius, 0, -1});
      }
      break;
    case mjGEOM_BOX: BoxFeatures(m, angle, out); break;
    case mjGEOM_MESH: MeshFeatures(m, angle, out); break;
    default: break;
  }
}

void ConvexShape::BoxFeatures(const Vec3& m, double angle, std::vector<Feature>* out) const {
  const Vec3 local = pose.R.transpose() * m, &size = pose.size;

  // signs that a coordinate of the support point may have
  const auto may = [&](int i, int sign) { return sign * local(i) > -angle; };
  for (int i = 0; i < 3; i++) {
    if (1 - std::abs(local(i)) > angle * angle / 2) continue;
    const Vec3 outward = std::copysign(1, local(i)) * pose.R.col(i);
    out->push_back(Face(pose.center + size(i) * outward, outward, 0, -1));
  }
  for (int i = 0; i < 3; i++) {
    if (std::abs(local(i)) > angle) continue;
    const int j = (i + 1) % 3, k = (i + 2) % 3;
    for (int sj : {-1, 1}) {
      for (int sk : {-1, 1}) {
        if (!may(j, sj) || !may(k, sk)) continue;
        const Vec3 middle = pose.center + sj * size(j) * pose.R.col(j) + sk * size(k) * pose.R.col(k);
        out->push_back(Line(middle, pose.R.col(i), size(i), 0));
      }
    }
  }
  for (int corner = 0; corner < 8; corner++) {
    const Vec3 sign(corner & 1 ? 1 : -1, corner & 2 ? 1 : -1, corner & 4 ? 1 : -1);
    if (!may(0, sign(0)) || !may(1, sign(1)) || !may(2, sign(2))) continue;
    out->push_back(Ball(pose.center + pose.R * sign.cwiseProduct(size), 0));
  }
}

Vec3 ConvexShape::Vertex(int vertex) const {
  const float* v = model_->mesh_vert + 3 * (model_->mesh_vertadr[mesh_] + vertex);
  return pose.center + pose.R * Vec3(v[0], v[1], v[2]);
}

int ConvexShape::SupportVertex(const Vec3& m) const {
  const Eigen::Vector3f local = (pose.R.transpose() * m).cast<float>();
  const float* v = model_->mesh_vert + 3 * model_->mesh_vertadr[mesh_];
  int best = 0;
  float most = -mjMAXVAL;
  for (int i = 0; i < model_->mesh_vertnum[mesh_]; i++) {
    const float along = local.dot(Eigen::Map<const Eigen::Vector3f>(v + 3 * i));
    if (along > most) most = along, best = i;
  }
  return best;
}

// the polygons at the support vertex, their edges and vertices
void ConvexShape::MeshFeatures(const Vec3& m, double angle, std::vector<Feature>* out) const {
  const int top = SupportVertex(m), vertex0 = model_->mesh_vertadr[mesh_], polygon0 = model_->mesh_polyadr[mesh_];
  const int* polygons = model_->mesh_polymap + model_->mesh_polymapadr[vertex0 + top];
  const int count = model_->mesh_polymapnum[vertex0 + top];
  const Vec3 x = Vertex(top);
  const auto corners = [&](int polygon) { return model_->mesh_polyvert + model_->mesh_polyvertadr[polygon]; };
  const auto for_edges = [&](auto call) {
    for (int k = 0; k < count; k++) {
      const int polygon = polygon0 + polygons[k], n = model_->mesh_polyvertnum[polygon];
      const int* vertex = corners(polygon);
      for (int i = 0; i < n; i++) call(vertex[i], vertex[(i + 1) % n]);
    }
  };

  // a face passes through a corner of its own: all corners are on it to single precision only, and which one is
  // outermost is a matter of rounding
  for (int k = 0; k < count; k++) {
    const int polygon = polygon0 + polygons[k];
    const Vec3 normal = pose.R * Vec3Map(model_->mesh_polynormal + 3 * polygon);
    if (1 - normal.dot(m) < angle * angle / 2) out->push_back(Face(Vertex(*corners(polygon)), normal, 0, polygon));
  }
  for_edges([&](int a, int b) {
    const Vec3 from = Vertex(a), to = Vertex(b), way = to - from;
    const bool near = m.dot(x - from) <= angle * (x - from).norm() && m.dot(x - to) <= angle * (x - to).norm();
    if (!near || std::abs(m.dot(way)) > angle * way.norm()) return;
    const Vec3 middle = (from + to) / 2;
    for (const Feature& f : *out) {
      if (f.kind == Feature::kLine && f.point == middle) return;
    }
    out->push_back(Line(middle, way.normalized(), way.norm() / 2, 0));
  });
  const std::size_t vertices = out->size();
  for_edges([&](int a, int) {
    const Vec3 v = Vertex(a);
    if (m.dot(x - v) > angle * (x - v).norm()) return;
    for (std::size_t k = vertices; k < out->size(); k++) {
      if ((*out)[k].point == v) return;
    }
    out->push_back(Ball(v, 0));
  });
}

double ConvexShape::Support(const Vec3& m) const {
  const Vec3 local = pose.R.transpose() * m, &size = pose.size;
  const double c = m.dot(pose.center);
  switch (pose.type) {
    case mjGEOM_SPHERE: return c + size(0);
    case mjGEOM_CAPSULE: return c + size(0) + size(1) * std::abs(local.z());
    case mjGEOM_ELLIPSOID: return c + size.cwiseProduct(local).norm();
    case mjGEOM_CYLINDER: return c + size(0) * local.head<2>().norm() + size(1) * std::abs(local.z());
    case mjGEOM_BOX: return c + size.dot(local.cwiseAbs());
    default: return m.dot(Vertex(SupportVertex(m)));
  }
}

bool ConvexShape::HasFace(const Vec3& m, double rounding) const {
  const Vec3 local = pose.R.transpose() * m;
  const auto is = [rounding](const Vec3& normal) { return normal.cwiseAbs().maxCoeff() < rounding; };
  switch (pose.type) {
    case mjGEOM_CYLINDER: return is(Vec3(local.x(), local.y(), 1 - std::abs(local.z())));
    case mjGEOM_BOX:
      return is(local.cwiseAbs() - Vec3::UnitX()) || is(local.cwiseAbs() - Vec3::UnitY()) ||
             is(local.cwiseAbs() - Vec3::UnitZ());
    case mjGEOM_MESH:
      for (int k = model_->mesh_polyadr[mesh_]; k < model_->mesh_polyadr[mesh_] + model_->mesh_polynum[mesh_]; k++) {
        if (is(local - Vec3Map(model_->mesh_polynormal + 3 * k))) return true;
      }
      return false;
    default: return false;
  }
}

double ConvexShape::FindBorders(const Vec3& m, const Vec3& x, std::vector<double>* room) const {
  const Vec3 local = pose.R.transpose() * (x - pose.center), along = pose.R.transpose() * m;
  room->clear();
  if (pose.type == mjGEOM_BOX) {
    int axis;
    if (along.cwiseAbs().maxCoeff(&axis) < kFacing) return 1;
    for (int i : {(axis + 1) % 3, (axis + 2) % 3}) {
      for (int sign : {1, -1}) room->push_back(pose.size(i) - sign * local(i));
    }
    return along.cross(Vec3::Unit(axis)).norm();
  }
  if (pose.type == mjGEOM_CYLINDER && std::abs(along.z()) > kFacing) {
    const double width = 2 * mjPI / kDiscCorners;
    for (int k = 0; k < kDiscCorners; k++) {
      const double angle = (k + 0.5) * width;
      room->push_back(pose.size(0) * std::cos(width / 2) - local.x() * std::cos(angle) - local.y() * std::sin(angle));
    }
    return along.head<2>().norm();
  }
  if ((pose.type == mjGEOM_CYLINDER || pose.type == mjGEOM_CAPSULE) && along.head<2>().norm() > kFacing) {
    *room = {0, pose.size(1) - local.z(), pose.size(1) + local.z()};
    return std::abs(along.z());
  }
  const int polygon = pose.type == mjGEOM_MESH ? FacingPolygon(along) : -1;
  if (polygon < 0) return 1;
  const int n = model_->mesh_polyvertnum[polygon], *vertex = model_->mesh_polyvert + model_->mesh_polyvertadr[polygon];
  const Vec3 normal = pose.R * Vec3Map(model_->mesh_polynormal + 3 * polygon);
  for (int i = 0; i < n; i++) {
    const Vec3 from = Vertex(vertex[i]), inward = normal.cross(Vertex(vertex[(i + 1) % n]) - from);
    room->push_back(inward.dot(x - from) / std::max(inward.norm(), mjMINVAL));
  }
  return normal.cross(m).norm();
}

// the polygon of a mesh whose normal comes nearest to m; -1: none is near
int ConvexShape::FacingPolygon(const Vec3& m) const {
  double most = kFacing;
  int best = -1;
  for (int k = model_->mesh_polyadr[mesh_]; k < model_->mesh_polyadr[mesh_] + model_->mesh_polynum[mesh_]; k++) {
    const double along = m.dot(Vec3Map(model_->mesh_polynormal + 3 * k));
    if (along > most) most = along, best = k;
  }
  return best;
}

bool ConvexShape::FaceHolds(const Feature& face, const Vec3& x) const {
  const double within = kWithin * radius_;
  if (face.polygon >= 0) {
    const int n = model_->mesh_polyvertnum[face.polygon];
    const int* vertex = model_->mesh_polyvert + model_->mesh_polyvertadr[face.polygon];
    double least = 0, most = 0;
    for (int i = 0; i < n; i++) {
      const Vec3 from = Vertex(vertex[i]), way = Vertex(vertex[(i + 1) % n]) - from;
      const double side = face.direction.dot(way.cross(x - from)) / std::max(way.norm(), mjMINVAL);
      least = std::min(least, side);
      most = std::max(most, side);
    }
    return least >= -within || most <= within;
  }
  if (pose.type == mjGEOM_CYLINDER) return (x - face.point).norm() <= face.radius + within;
  return ((pose.R.transpose() * (x - pose.center)).cwiseAbs() - pose.size).maxCoeff() <= within;
}

Patch ConvexShape::PatchOf(const Feature& feature, const Vec3& m) const {
  switch (feature.kind) {
    case Feature::kFace: return Patch::Face(feature.point);
    case Feature::kLine: return Patch::Line(feature.point, feature.direction, feature.radius, m);
    case Feature::kBall: return Patch::Ball(feature.point, feature.radius, m);
    case Feature::kRim: return Patch::Rim(feature.point, feature.direction, feature.radius, m);
    default: return Patch::Ellipsoid(pose.center, pose.R, pose.size, m);
  }
}

}  // namespace costate
