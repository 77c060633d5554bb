#include "derivative/lu.h"

namespace costate {

void Lu6::Factor(const Mat6& A) { lu_.compute(A); }

Vec6 Lu6::Solve(const Vec6& b, bool transposed) const {
  if (transposed) return lu_.transpose().solve(b);
  return lu_.solve(b);
}

void Lu6::SolveRows(const double* b, double* x) const {
  using Rows = Eigen::Matrix<double, 6, BlockedMatrix::kWidth, Eigen::RowMajor>;
  Eigen::Map<Rows>(x).noalias() = lu_.solve(Eigen::Map<const Rows>(b));
}

void DenseLu::Factor(const Eigen::MatrixXd& A) { lu_.compute(A); }

void DenseLu::Solve(double* x, bool transposed) const {
  Eigen::Map<Eigen::VectorXd> all(x, lu_.rows());
  if (!transposed) {
    solved_ = lu_.solve(all);
    all = solved_;
    return;
  }
  // A = Pᵀ L U, and nothing is copied
  solved_ = all;
  lu_.matrixLU().triangularView<Eigen::Upper>().transpose().solveInPlace(solved_);
  lu_.matrixLU().triangularView<Eigen::UnitLower>().transpose().solveInPlace(solved_);
  all = lu_.permutationP().transpose() * solved_;
}

void DenseLu::SolveRows(double* x) const {
  constexpr int kWidth = BlockedMatrix::kWidth;
  Eigen::Map<Eigen::Matrix<double, Eigen::Dynamic, kWidth, Eigen::RowMajor>> rows(x, lu_.rows(), kWidth);
  solved_rows_ = lu_.solve(rows);
  rows = solved_rows_;
}

Eigen::MatrixXd DenseLu::SolveColumns(const Eigen::MatrixXd& X, bool transposed) const {
  if (transposed) return lu_.transpose().solve(X);
  return lu_.solve(X);
}

}  // namespace costate
