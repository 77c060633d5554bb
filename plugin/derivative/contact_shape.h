// Convex geoms as what they are made of: vertices, edges, rims, faces, smooth surfaces. (G7) of
// README.md.
#ifndef COSTATE_DERIVATIVE_CONTACT_SHAPE_H_
#define COSTATE_DERIVATIVE_CONTACT_SHAPE_H_

#include <mujoco/mujoco.h>

#include <vector>

#include "derivative/contact_closed.h"

namespace costate {

/// Corners of the polygon that the engine makes of a cylinder's face.
constexpr int kDiscCorners = 16;

/// One part of a convex surface, in the world.
struct Feature {
  enum Kind { kFace, kLine, kBall, kRim, kEllipsoid };
  Kind kind;
  Vec3 point;      ///< kFace: a point of it; kLine: its middle; others: centre
  Vec3 direction;  ///< kFace: outward normal; kLine, kRim: axis
  double radius;   ///< of the surface about a centre, line or circle; of a round face
  double half;     ///< kLine: half its length
  int polygon;     ///< kFace of a mesh: which; otherwise -1
};

class ConvexShape {
 public:
  ConvexShape(const mjModel* model, const mjData* data, int geom);

  GeomPose pose;

  /// Features whose outward normals come within `angle` of m: faces first, then lines, then the
  /// rest.
  void FindFeatures(const Vec3& m, double angle, std::vector<Feature>* out) const;

  /// Does it have a face whose normal is m to rounding? The engine copies those of faces that it clips.
  bool HasFace(const Vec3& m, double rounding = 1e-11) const;

  /// How far x is within each border of the flat part that faces m: the sides of a face, the ends of a line, which
  /// itself is a border of width zero. Empty where no flat part does. The disc of a cylinder is the engine's polygon.
  /// @return sine of the angle between m and the normal of the part.
  double FindBorders(const Vec3& m, const Vec3& x, std::vector<double>* room) const;

  /// Largest m·x of its points.
  double Support(const Vec3& m) const;

  /// Is x, a point of the face's plane, within the face?
  bool FaceHolds(const Feature& face, const Vec3& x) const;

  /// The feature where its outward normal is m; a line is met in its middle. @pre m is a normal of
  /// the feature.
  Patch PatchOf(const Feature& feature, const Vec3& m) const;

  double radius() const { return radius_; }  ///< of the bounding sphere

 private:
  void BoxFeatures(const Vec3& m, double angle, std::vector<Feature>* out) const;
  void MeshFeatures(const Vec3& m, double angle, std::vector<Feature>* out) const;
  Vec3 Vertex(int vertex) const;
  int SupportVertex(const Vec3& m) const;
  int FacingPolygon(const Vec3& m) const;

  const mjModel* model_;
  int mesh_ = -1;
  double radius_;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_CONTACT_SHAPE_H_
