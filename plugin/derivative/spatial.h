// Spatial vectors as MuJoCo's: rotation first, then translation, about the subtree_com of the tree's root body, which
// is held fixed in the world while differentiating (README.md, section R).
#ifndef COSTATE_DERIVATIVE_SPATIAL_H_
#define COSTATE_DERIVATIVE_SPATIAL_H_

#include <Eigen/Core>
#include <Eigen/Geometry>

#include "core/rotation.h"

namespace costate {

using Vec3 = Eigen::Vector3d;
using Mat3 = Eigen::Matrix3d;
using Vec6 = Eigen::Matrix<double, 6, 1>;
using Mat6 = Eigen::Matrix<double, 6, 6>;
using Vec6Map = Eigen::Map<const Vec6>;
using Vec3Map = Eigen::Map<const Vec3>;
using Mat3Map = Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>;  ///< as mjData has them

/// x × y of two motion vectors: how y, fixed to a body that moves with x, changes.
inline Vec6 CrossMotion(const Vec6& x, const Vec6& y) {
  const Vec3 w = x.head<3>(), u = x.tail<3>(), a = y.head<3>(), b = y.tail<3>();
  Vec6 z;
  z.head<3>() = w.cross(a);
  z.tail<3>() = w.cross(b) + u.cross(a);
  return z;
}

/// x ×* f of a motion and a force vector: how f, fixed to a body that moves with x, changes. (x × y)·f = −y·(x ×* f).
inline Vec6 CrossForce(const Vec6& x, const Vec6& f) {
  const Vec3 w = x.head<3>(), u = x.tail<3>(), t = f.head<3>(), g = f.tail<3>();
  Vec6 z;
  z.head<3>() = w.cross(t) + u.cross(g);
  z.tail<3>() = w.cross(g);
  return z;
}

/// [x ×] as a matrix on motion vectors.
inline Mat6 CrossMotionMatrix(const Vec6& x) {
  Mat6 m = Mat6::Zero();
  m.topLeftCorner<3, 3>() = m.bottomRightCorner<3, 3>() = Skew(x.head<3>());
  m.bottomLeftCorner<3, 3>() = Skew(x.tail<3>());
  return m;
}

/// Inertia as the engine stores cinert and crb: six of the rotational part (xx yy zz xy xz yz), m·c (3), m.
struct Inertia {
  double j[6] = {0}, h[3] = {0}, m = 0;

  static Inertia From(const double* cinert) {
    Inertia I;
    for (int n = 0; n < 6; n++) I.j[n] = cinert[n];
    for (int n = 0; n < 3; n++) I.h[n] = cinert[6 + n];
    I.m = cinert[9];
    return I;
  }
  void Add(const Inertia& other) {
    for (int n = 0; n < 6; n++) j[n] += other.j[n];
    for (int n = 0; n < 3; n++) h[n] += other.h[n];
    m += other.m;
  }
  Mat3 Rotational() const {
    Mat3 J;
    J << j[0], j[3], j[4], j[3], j[1], j[5], j[4], j[5], j[2];
    return J;
  }
  __attribute__((always_inline)) Vec6 operator*(const Vec6& v) const {
    const Vec3 w = v.head<3>(), u = v.tail<3>(), c(h[0], h[1], h[2]);
    Vec6 f;
    f.head<3>() = Vec3(j[0] * w[0] + j[3] * w[1] + j[4] * w[2], j[3] * w[0] + j[1] * w[1] + j[5] * w[2],
                       j[4] * w[0] + j[5] * w[1] + j[2] * w[2]) +
                  c.cross(u);
    f.tail<3>() = m * u - c.cross(w);
    return f;
  }
};

/// A linear map of the rotation alone, the form that Coriolis forces and world-fixed loads take (README.md (R2), (R5)):
///   B ψ = 2 ((tr P 1 − P) α ; −p × α),  α = rotation part of ψ.
struct RotationMap {
  Mat3 P = Mat3::Zero();
  Vec3 p = Vec3::Zero();

  void Add(const RotationMap& other) {
    P += other.P;
    p += other.p;
  }
  __attribute__((always_inline)) Vec6 operator*(const Vec6& psi) const {
    const Vec3 alpha = psi.head<3>();
    Vec6 f;
    f.head<3>() = 2 * (P.trace() * alpha - P * alpha);
    f.tail<3>() = -2 * p.cross(alpha);
    return f;
  }
  /// Bᵀ s: acts on the rotation part only.
  Vec3 Transposed(const Vec6& s) const {
    const Vec3 a = s.head<3>(), l = s.tail<3>();
    return 2 * (P.trace() * a - P.transpose() * a + p.cross(l));
  }
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_SPATIAL_H_
