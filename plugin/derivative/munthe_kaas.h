// The engine's Runge–Kutta–Munthe-Kaas step, (I6) of README.md: tableau and the map of rotation rates.
#ifndef COSTATE_DERIVATIVE_MUNTHE_KAAS_H_
#define COSTATE_DERIVATIVE_MUNTHE_KAAS_H_

#include <mujoco/mujoco.h>

#include <Eigen/Geometry>
#include <cmath>

#include "core/rotation.h"

namespace costate {

inline constexpr double kStageWeight[4] = {0, 0.5, 0.5, 1};  // the tableau has one entry a row
inline constexpr double kSum[4] = {1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6};

// J_r(u) v = v − a u×v + b u×(u×v), a = (1 − cos θ)/θ², b = (θ − sin θ)/θ³: exp(u + du) = exp(u) exp(J_r du)
struct RightJacobian {
  double a, b;
  explicit RightJacobian(const Eigen::Vector3d& u) {
    const double t2 = u.squaredNorm(), t = std::sqrt(t2);
    a = t < 1e-4 ? 0.5 - t2 / 24 : (1 - std::cos(t)) / t2;
    b = t < 1e-2 ? 1.0 / 6 - t2 / 120 : (t - std::sin(t)) / (t2 * t);
  }
  Eigen::Vector3d Apply(const Eigen::Vector3d& u, const Eigen::Vector3d& v) const {
    return v - a * u.cross(v) + b * u.cross(u.cross(v));
  }
  Eigen::Vector3d ApplyTransposed(const Eigen::Vector3d& u, const Eigen::Vector3d& k) const {
    return k + a * u.cross(k) + b * u.cross(u.cross(k));
  }
};

// J_r⁻¹(u) v = v + ½ u×v + g(θ) u×(u×v), and g'(θ)/θ
struct InverseJacobian {
  double g, slope;
  explicit InverseJacobian(const Eigen::Vector3d& u) {
    const InverseJacobianCoefficient coefficient(u.norm());
    g = coefficient.c;
    slope = coefficient.slope;
  }
  Eigen::Vector3d Apply(const Eigen::Vector3d& u, const Eigen::Vector3d& v) const {
    return v + 0.5 * u.cross(v) + g * u.cross(u.cross(v));
  }
  Eigen::Vector3d Variation(const Eigen::Vector3d& u, const Eigen::Vector3d& v, const Eigen::Vector3d& du) const {
    return 0.5 * du.cross(v) + g * (du.cross(u.cross(v)) + u.cross(du.cross(v))) +
           slope * u.dot(du) * u.cross(u.cross(v));
  }
  /// Transposes of both for a covector k of the rate: by v, and by u.
  Eigen::Vector3d ApplyTransposed(const Eigen::Vector3d& u, const Eigen::Vector3d& k) const {
    return k - 0.5 * u.cross(k) + g * u.cross(u.cross(k));
  }
  Eigen::Vector3d VariationTransposed(const Eigen::Vector3d& u, const Eigen::Vector3d& v,
                                      const Eigen::Vector3d& k) const {
    const Eigen::Vector3d uv = u.cross(v);
    return 0.5 * v.cross(k) + g * (uv.cross(k) + v.cross(k.cross(u))) + slope * k.dot(u.cross(uv)) * u;
  }
};

// The same as the engine takes it: u is read off the stage's orientation, hence at most half a turn, u (1 − 2πn/θ).
struct StageRotation {
  Eigen::Vector3d u;
  double scale = 1;                                // of du across u …
  Eigen::Vector3d axis = Eigen::Vector3d::Zero();  // … along which it is 1
  InverseJacobian inverse;

  explicit StageRotation(const Eigen::Vector3d& turned) : StageRotation(turned, Wrapped(turned)) {}
  Eigen::Vector3d Apply(const Eigen::Vector3d& v) const { return inverse.Apply(u, v); }
  Eigen::Vector3d Variation(const Eigen::Vector3d& v, const Eigen::Vector3d& du) const {
    return inverse.Variation(u, v, Change(du));
  }
  Eigen::Vector3d ApplyTransposed(const Eigen::Vector3d& k) const { return inverse.ApplyTransposed(u, k); }
  Eigen::Vector3d VariationTransposed(const Eigen::Vector3d& v, const Eigen::Vector3d& k) const {
    return Change(inverse.VariationTransposed(u, v, k));
  }

 private:
  StageRotation(const Eigen::Vector3d& turned, double factor) : u(factor * turned), scale(factor), inverse(u) {
    if (factor != 1) axis = turned.normalized();
  }
  static double Wrapped(const Eigen::Vector3d& turned) {
    const double angle = turned.norm();
    return angle > mjPI ? 1 - 2 * mjPI * std::round(angle / (2 * mjPI)) / angle : 1;
  }
  Eigen::Vector3d Change(const Eigen::Vector3d& du) const {  // symmetric
    return scale == 1 ? du : Eigen::Vector3d(scale * du + (1 - scale) * axis.dot(du) * axis);
  }
};

// calls f(first dof) for each rotation of a ball or free joint
template <typename F>
void ForRotations(const mjModel* m, F f) {
  for (int j = 0; j < m->njnt; j++) {
    if (m->jnt_type[j] == mjJNT_BALL) f(m->jnt_dofadr[j]);
    if (m->jnt_type[j] == mjJNT_FREE) f(m->jnt_dofadr[j] + 3);
  }
}

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_MUNTHE_KAAS_H_
