#include "derivative/contact_patch.h"

#include <cmath>

#include "derivative/plant.h"

namespace costate {
namespace {

constexpr double kSingular = 1e-9;  // sine between directions, relative to one: below it a division loses all digits

}  // namespace

Patch Patch::Vertex(const Vec3& x) {
  Patch patch;
  patch.x = x;
  return patch;
}

Patch Patch::Face(const Vec3& x) {
  Patch patch;
  patch.x = x;
  patch.flat = 2;
  return patch;
}

Patch Patch::Ball(const Vec3& center, double radius, const Vec3& m) {
  Patch patch;
  patch.x = center + radius * m;
  for (int i = 0; i < 3; i++) {
    patch.H.col(i) = PLANT("contact geometry: ball", -radius * m[i] * m);
    patch.H(i, i) += PLANT("contact geometry: ball", radius);
  }
  return patch;
}

Patch Patch::Line(const Vec3& point, const Vec3& line, double radius, const Vec3& m) {
  Patch patch = Ball(point, radius, m);
  patch.flat = 1;
  patch.line = line;
  return patch;
}

// u = direction from the axis, b across: H = (R/q) b bᵀ, q = sine between m and the axis
Patch Patch::Rim(const Vec3& center, const Vec3& axis, double radius, const Vec3& m) {
  Patch patch;
  const Vec3 radial = m - axis * axis.dot(m);
  const double q = radial.norm();
  const Vec3 u = radial / q, b = axis.cross(u);
  patch.x = center + radius * u;
  patch.H = PLANT("contact geometry: rim", radius / q * b * b.transpose());
  return patch;
}

// h = |S Rᵀ m|, x = c + A m / h, H = (A − A m mᵀ A / h²) / h, A = R S² Rᵀ
Patch Patch::Ellipsoid(const Vec3& center, const Mat3& R, const Vec3& size, const Vec3& m) {
  Patch patch;
  const Vec3 squared = size.cwiseProduct(size);
  const Mat3 A = R * squared.asDiagonal() * R.transpose();
  const Vec3 Am = A * m;
  const double h = std::sqrt(m.dot(Am));
  patch.x = center + Am / h;
  patch.H = PLANT("contact geometry: ellipsoid", (A - Am * Am.transpose() / (h * h)) / h);
  return patch;
}

ContactRate ContactRate::Rigid(const Vec3& n) {
  ContactRate rate;
  rate.dphi.setZero();
  rate.dp << Mat3::Zero(), Mat3::Identity();
  rate.dn << -Skew(n), Mat3::Zero();
  return rate;
}

bool MovePatches(const Patch& first, const Patch& second, const Vec3& n, double phi, const Vec3& point,
                 ContactRate* out) {
  // witness of surface 2 at fixed n, and how n turns with surface 2
  Mat36 rate, turn;
  turn << -Skew(n), Mat3::Zero();
  rate << -Skew(second.x - point) + second.H * turn.leftCols<3>(), Mat3::Identity();
  const Mat3 K = first.H + second.H + phi * Mat3::Identity();
  const int flat = first.flat + second.flat;
  Mat36& dn = out->dn;

  if (flat == 0) {
    // n is free: T' K T dn = T' rate
    const Vec3 t1 = n.unitOrthogonal(), t2 = n.cross(t1);
    const Vec3 Kt1 = K * t1, Kt2 = K * t2;
    const double a = t1.dot(Kt1), b = t1.dot(Kt2), c = t2.dot(Kt2), det = a * c - b * b;
    // centres that coincide leave the normal without direction: K is rounding then
    const double size = first.H.norm() + second.H.norm() + std::abs(phi);
    if (!(std::abs(det) > kSingular * (a * a + c * c + b * b) && std::abs(a) + std::abs(c) > kSingular * size))
      return false;
    const Row6 r1 = t1.transpose() * rate, r2 = t2.transpose() * rate;
    dn.noalias() =
        PLANT("contact geometry: free normal", t1 * ((c * r1 - b * r2) / det) + t2 * ((a * r2 - b * r1) / det));
  } else if (flat == 1) {
    // n stays orthogonal to the line and is free across it
    const Vec3 line = first.flat ? first.line : second.line, across = n.cross(line);
    if (second.flat) {
      dn.noalias() = PLANT("contact geometry: along a line", line * (line.transpose() * turn));
    } else {
      dn.setZero();
    }
    const Eigen::RowVector3d across_K = across.transpose() * K;
    const double c = across_K.dot(across);
    if (!(std::abs(c) > kSingular * (std::abs(line.dot(K * line)) + std::abs(phi)))) return false;
    dn += PLANT("contact geometry: across a line", across * ((across.transpose() * rate - across_K * dn) / c));
  } else if (first.flat == 2 && second.flat == 0) {
    dn.setZero();
  } else if (second.flat == 2 && first.flat == 0) {
    dn = PLANT("contact geometry: face of the second", turn);
  } else if (first.flat == 1 && second.flat == 1) {
    // n is orthogonal to both lines
    const Vec3 across = n.cross(first.line);
    const double sine = second.line.dot(across);
    if (!(std::abs(sine) > kSingular)) return false;
    dn.noalias() = PLANT("contact geometry: two lines", across * (second.line.transpose() * turn / sine));
  } else {
    return false;
  }

  // dx2 − dx1 = n dφ + φ dn; what is left over slides along the flat parts
  out->dphi.noalias() = PLANT("contact geometry: distance", n.transpose() * rate);
  Mat36 dx1 = first.H * dn;
  if (first.flat > 0) {
    const Mat36 rest = rate - K * dn - n * out->dphi;
    if (second.flat == 1) {
      const Vec3 across = n.cross(second.line);
      dx1 += PLANT("contact geometry: sliding between lines",
                   first.line * (across.transpose() * rest / first.line.dot(across)));
    } else {
      dx1 += PLANT("contact geometry: sliding", rest);
    }
  }
  out->dp = dx1 + PLANT("contact geometry: point", 0.5 * (phi * dn + n * out->dphi));
  return true;
}

}  // namespace costate
