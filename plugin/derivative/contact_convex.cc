#include "derivative/contact_convex.h"

#include <algorithm>
#include <cmath>

namespace costate {
namespace {

constexpr double kAngle = 0.05;  // the engine's normal is this close to the exact one; 1e-3 is usual
constexpr double kDepth = 1e-3;  // of the smaller geom: the engine's distance is this close, or its iterations ran out
constexpr double kFlatPart =
    0.5;  // of the smaller geom: points that are equally deep up to the tolerance reach this far
constexpr double kParallelLines = 1e-9;
constexpr int kIterations = 30;
constexpr double kLongestStep = 0.3,
                 kFlat = 1e-10;  // radians; one more quadratic step leaves rounding

struct Trial {
  const ConvexShape &shape1, &shape2;
  Vec3 normal, point;
  double size, tolerance;
};

// how much less than the support of its geom a witness may be: meshes are stored in single
// precision
double Rounding(const ConvexShape& shape) { return (shape.pose.type == mjGEOM_MESH ? 1e-6 : 1e-9) * shape.radius(); }

// (G7) Newton: the witnesses differ along n only. Patches are those of the features at n; flat
// parts hold n.
bool Polish(const Trial& t, const Feature& f1, const Feature& f2, bool material, ConvexContact* c) {
  Vec3& n = c->normal;
  bool converged = false;
  for (int k = 0; k < kIterations; k++) {
    for (const Feature* f : {&f1, &f2}) {
      if (f->kind == Feature::kRim && !(f->direction.cross(n).norm() > kParallelLines)) return false;
    }
    c->first = t.shape1.PatchOf(f1, n);
    c->second = t.shape2.PatchOf(f2, -n);
    if (material) {
      // a line that lies on a flat part: it rolls, but does not slide along itself
      c->second.H -= f2.radius * c->second.line * c->second.line.transpose();
      c->second.flat = 0;
    }
    const Vec3 r = c->second.x - c->first.x;
    c->distance = n.dot(r);
    const int flat = c->first.flat + c->second.flat;
    if (flat >= 2) return true;

    // directions in which n is free: K, the curvature of φ, is positive there where φ is largest
    const Mat3 K = c->first.H + c->second.H + c->distance * Mat3::Identity();
    Vec3 step;
    bool largest;
    if (flat == 0) {
      const Vec3 t1 = n.unitOrthogonal(), t2 = n.cross(t1);
      const double a = t1.dot(K * t1), b = t1.dot(K * t2), d = t2.dot(K * t2), det = a * d - b * b;
      step = t1 * ((d * t1.dot(r) - b * t2.dot(r)) / det) + t2 * ((a * t2.dot(r) - b * t1.dot(r)) / det);
      largest = det > 0 && a + d > 0;
    } else {
      const Vec3 across = n.cross(c->first.flat ? c->first.line : c->second.line);
      const double a = across.dot(K * across);
      step = across * (across.dot(r) / a);
      largest = a > 0;
    }
    if (converged) return largest;
    const double length = step.norm();
    if (!(length < mjMAXVAL)) return false;
    n = (n + step * std::min(1.0, kLongestStep / length)).normalized();
    converged = length < kFlat;
  }
  return false;
}

// the witnesses within their features, and the features on the surface
bool Place(const Trial& t, const Feature& f1, const Feature& f2, ConvexContact* c) {
  const Vec3& n = c->normal;
  Vec3 &x1 = c->first.x, &x2 = c->second.x;
  if (c->first.flat == 2) {
    c->distance = n.dot(x2 - f1.point);
    x1 = x2 - c->distance * n;
    if (!t.shape1.FaceHolds(f1, x1)) return false;
  } else if (c->second.flat == 2) {
    c->distance = n.dot(f2.point - x1);
    x2 = x1 + c->distance * n;
    if (!t.shape2.FaceHolds(f2, x2)) return false;
  } else {
    const Vec3 r = x2 - x1;
    if (c->first.flat == 1) {
      const Vec3 way = c->second.flat == 1 ? n.cross(f2.direction) : f1.direction;
      x1 += f1.direction * (r.dot(way) / f1.direction.dot(way));
    }
    if (c->second.flat == 1) x2 += f2.direction * f2.direction.dot(x1 - x2);
    c->distance = n.dot(x2 - x1);
    const auto within = [](const Feature& f, const Vec3& x) {
      return f.kind != Feature::kLine || std::abs(f.direction.dot(x - f.point)) <= f.half * (1 + 1e-9);
    };
    if (!within(f1, x1) || !within(f2, x2)) return false;
  }
  return t.shape1.Support(n) - n.dot(x1) <= Rounding(t.shape1) &&
         t.shape2.Support(-n) + n.dot(x2) <= Rounding(t.shape2);
}

// points that are equally deep up to the tolerance reach over half the geom: the collider's choice
// among them is arbitrary
bool IsAmbiguous(const Trial& t, const ConvexContact& c) {
  const Mat3 K = c.first.H + c.second.H + c.distance * Mat3::Identity();
  const Vec3 t1 = c.normal.unitOrthogonal(), t2 = c.normal.cross(t1);
  double reach = t1.dot(K * t1) + t2.dot(K * t2);
  if (c.first.flat == 1 && c.second.flat == 1) reach /= c.first.line.cross(c.second.line).squaredNorm();
  if (2 * t.tolerance * reach > kFlatPart * kFlatPart * t.size * t.size) return true;
  return ((c.first.x + c.second.x) / 2 - t.point).norm() > kFlatPart * t.size;
}

bool IsClose(const Trial& t, const ConvexContact& c, double distance) {
  const double off = std::abs(c.distance - distance);
  return (c.normal - t.normal).norm() < kAngle && !(off > 10 * t.tolerance + kDepth * t.size);
}

// each feature singles out a point: a vertex on a face, crossing edges, smooth surfaces …
bool Isolated(const Trial& t, const Feature& f1, const Feature& f2, double distance, ConvexContact* c) {
  const int flat1 = f1.kind == Feature::kFace ? 2 : f1.kind == Feature::kLine,
            flat2 = f2.kind == Feature::kFace ? 2 : f2.kind == Feature::kLine;
  if (flat1 + flat2 > 2) return false;
  Vec3& n = c->normal = t.normal;
  if (flat1 == 2) {
    n = f1.direction;
  } else if (flat2 == 2) {
    n = -f2.direction;
  } else if (flat1 && flat2) {
    n = f1.direction.cross(f2.direction);
    if (n.norm() < kParallelLines) return false;
    n *= (n.dot(t.normal) < 0 ? -1 : 1) / n.norm();
  } else if (flat1 || flat2) {
    const Vec3& line = flat1 ? f1.direction : f2.direction;
    n = (n - line * line.dot(n)).normalized();
  }
  c->parallel = false;
  return Polish(t, f1, f2, false, c) && IsClose(t, *c, distance) && Place(t, f1, f2, c) && !IsAmbiguous(t, *c);
}

// (G8) a flat part on a flat part: n is held by one of them, the other touches with a point of its
// own where the engine says
bool Parallel(const Trial& t, const Feature& f1, const Feature& f2, double distance, ConvexContact* c) {
  const bool face1 = f1.kind == Feature::kFace, face2 = f2.kind == Feature::kFace;
  if ((!face1 && f1.kind != Feature::kLine) || (!face2 && f2.kind != Feature::kLine)) return false;
  c->parallel = true;
  Vec3& n = c->normal;
  const auto lie = [&](const Feature& other, const Vec3& x) {
    Patch patch = Patch::Vertex(x);
    if (other.kind == Feature::kLine) {
      patch.H = other.radius * (Mat3::Identity() - n * n.transpose() - other.direction * other.direction.transpose());
    }
    return patch;
  };
  if (face1 && (!face2 || f1.direction.dot(t.normal) >= -f2.direction.dot(t.normal))) {
    n = f1.direction;
    c->distance = -t.shape2.Support(-n) - n.dot(f1.point);
    c->first = Patch::Face(t.point - n * c->distance / 2);
    c->second = lie(f2, t.point + n * c->distance / 2);
  } else if (face2) {
    n = -f2.direction;
    c->distance = n.dot(f2.point) - t.shape1.Support(n);
    c->second = Patch::Face(t.point + n * c->distance / 2);
    c->first = lie(f1, t.point - n * c->distance / 2);
  } else {
    // two lines side by side
    n = (t.normal - f1.direction * f1.direction.dot(t.normal)).normalized();
    if (!Polish(t, f1, f2, true, c)) return false;
    c->second.x += f2.direction * f2.direction.dot(t.point - c->second.x);
    c->first.x += f1.direction * f1.direction.dot(c->second.x - c->first.x);
  }
  return IsClose(t, *c, distance);
}

}  // namespace

bool ConvexSolver::Solve(const ConvexShape& first, const ConvexShape& second, const Vec3& normal, const Vec3& point,
                         double distance, double tolerance, ConvexContact* out) {
  const Trial trial{first, second, normal, point, std::min(first.radius(), second.radius()), tolerance};
  first.FindFeatures(normal, kAngle, &features_[0]);
  second.FindFeatures(-normal, kAngle, &features_[1]);
  for (const bool isolated : {true, false}) {
    for (const Feature& f1 : features_[0]) {
      for (const Feature& f2 : features_[1]) {
        if ((isolated ? Isolated : Parallel)(trial, f1, f2, distance, out)) return true;
      }
    }
  }
  return false;
}

}  // namespace costate
