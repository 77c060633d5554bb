// Rotation vectors: the matrix of a cross product, and how a vector changes with the rotation that it stands for.
#ifndef COSTATE_CORE_ROTATION_H_
#define COSTATE_CORE_ROTATION_H_

#include <Eigen/Core>
#include <cmath>

namespace costate {

/// [a]×, of which [a]× b = a × b.
inline Eigen::Matrix3d Skew(const Eigen::Vector3d& a) {
  Eigen::Matrix3d m;
  m << 0, -a.z(), a.y(), a.z(), 0, -a.x(), -a.y(), a.x(), 0;
  return m;
}

/// c of the inverse of the right Jacobian, J_r(u)⁻¹ = 1 + ½ [u]× + c(θ) [u]×² with θ = |u|,
///
///   c = (1 - (θ/2) cot(θ/2)) / θ² = 1/θ² - (1 + cos θ) / (2 θ sin θ),
///
/// and c'/θ. The second form cancels near half a turn, where the engine's rotation vectors end. The inverse of the left
/// Jacobian is the same with -½.
struct InverseJacobianCoefficient {
  double c, slope;

  explicit InverseJacobianCoefficient(double theta) {
    constexpr double kSmallAngle = 0.1;  // below it series, whose next terms are 1e-14 of the first
    const double t2 = theta * theta;
    if (theta < kSmallAngle) {
      c = 1.0 / 12 + t2 * (1.0 / 720 + t2 * (1.0 / 30240 + t2 / 1209600));
      slope = 1.0 / 360 + t2 * (1.0 / 7560 + t2 * (1.0 / 201600 + t2 / 5987520));
      return;
    }
    const double half = theta / 2, cot = 1 / std::tan(half), sine = std::sin(half);
    c = (1 - half * cot) / t2;
    slope = (-2 / (t2 * theta) + cot / (2 * t2) + 1 / (4 * theta * sine * sine)) / theta;
  }
};

}  // namespace costate

#endif  // COSTATE_CORE_ROTATION_H_
