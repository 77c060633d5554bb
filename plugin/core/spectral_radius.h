// How far a step carries at most, told by the eigenvalues of its A.
#ifndef COSTATE_CORE_SPECTRAL_RADIUS_H_
#define COSTATE_CORE_SPECTRAL_RADIUS_H_

#include <costate/types.h>

#include <Eigen/Eigenvalues>

#include "core/extremes.h"

namespace costate {

/// Largest |eigenvalue|, 0 of an empty matrix; NaN where A is not finite or its eigenvalues are not found.
/// @param solver  keeps its memory from call to call.
inline double SpectralRadius(const MatrixXd& A, Eigen::EigenSolver<MatrixXd>* solver) {
  if (A.rows() == 0) return 0;
  if (!A.allFinite()) return kNan;
  solver->compute(A, false);
  return solver->info() == Eigen::Success ? solver->eigenvalues().cwiseAbs().maxCoeff() : kNan;
}

}  // namespace costate

#endif  // COSTATE_CORE_SPECTRAL_RADIUS_H_
