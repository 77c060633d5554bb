// LU with partial pivoting of a body's six dofs and of a whole matrix: Eigen's, compiled once, for that takes seconds.
#ifndef COSTATE_DERIVATIVE_LU_H_
#define COSTATE_DERIVATIVE_LU_H_

#include <Eigen/LU>

#include "derivative/spatial.h"
#include "derivative/tree_substitution.h"

namespace costate {

class Lu6 {
 public:
  void Factor(const Mat6& A);

  /// A⁻¹ b, or A⁻ᵀ b.
  Vec6 Solve(const Vec6& b, bool transposed = false) const;
  /// x ← A⁻¹ b of a block's six rows of BlockedMatrix::kWidth numbers.
  void SolveRows(const double* b, double* x) const;

 private:
  Eigen::PartialPivLU<Mat6> lu_;
};

class DenseLu {
 public:
  void Factor(const Eigen::MatrixXd& A);

  /// x ← A⁻¹ x, or A⁻ᵀ x.
  void Solve(double* x, bool transposed = false) const;
  /// The same of a block's rows of BlockedMatrix::kWidth numbers.
  void SolveRows(double* x) const;
  /// A⁻¹ X, or A⁻ᵀ X.
  Eigen::MatrixXd SolveColumns(const Eigen::MatrixXd& X, bool transposed = false) const;

 private:
  Eigen::PartialPivLU<Eigen::MatrixXd> lu_;
  mutable Eigen::VectorXd solved_;
  mutable Eigen::Matrix<double, Eigen::Dynamic, BlockedMatrix::kWidth, Eigen::RowMajor> solved_rows_;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_LU_H_
