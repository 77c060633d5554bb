#include "rollout/knot_health.h"

#include <Eigen/Eigenvalues>

namespace costate {

double Overshoot(const MatrixXd& A, int nv, int* dof) {
  if (nv == 0 || !A.allFinite()) return 0;
  const Eigen::EigenSolver<MatrixXd> solver(A);
  if (solver.info() != Eigen::Success) return 0;
  double lowest = -1;
  for (Eigen::Index k = 0; k < A.rows(); k++) {
    const auto value = solver.eigenvalues()[k];
    if (value.imag() != 0 || !(value.real() < lowest)) continue;
    lowest = value.real();
    solver.eigenvectors().col(k).segment(nv, nv).cwiseAbs().maxCoeff(dof);
  }
  return lowest < -1 ? lowest : 0;
}

void LabelKnot(const mjModel* model, const mjData* data, double reach, int t, GradientHealth* health) {
  const std::size_t at = static_cast<std::size_t>(t);
  const Certificate certificate = Certify(model, data, {.reach = reach});
  health->labels[at] = certificate.label;
  if (certificate.label == Smoothness::kSmooth) return;
  for (const Switch& s : certificate.switches) {
    if (s.distance <= reach) {
      // "limit of elbow" names itself
      health->crossing[at] = s.name.starts_with(s.next + " of ") ? s.name : s.next + " of " + s.name;
      return;
    }
  }
}

}  // namespace costate
