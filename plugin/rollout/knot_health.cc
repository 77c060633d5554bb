#include "rollout/knot_health.h"

#include <Eigen/Eigenvalues>
#include <cmath>
#include <limits>

namespace costate {

double SpectralRadius(const MatrixXd& A) {
  if (A.rows() == 0) return 0;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  if (!A.allFinite()) return nan;
  const Eigen::EigenSolver<MatrixXd> solver(A, false);
  return solver.info() == Eigen::Success ? solver.eigenvalues().cwiseAbs().maxCoeff() : nan;
}

void LabelKnot(const mjModel* model, const mjData* data, double reach, int t, GradientHealth* health) {
  const std::size_t at = static_cast<std::size_t>(t);
  const Certificate certificate = Certify(model, data, {.reach = reach});
  health->labels[at] = certificate.label;
  if (certificate.label == Smoothness::kSmooth) return;
  for (const Switch& s : certificate.switches) {
    if (s.distance <= reach) {
      health->crossing[at] = s.next + " of " + s.name;
      return;
    }
  }
}

}  // namespace costate
