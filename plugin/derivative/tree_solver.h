// LᵀDL factorisation of a symmetric matrix on the pattern of a kinematic tree plus couplings, and blocked solves with
// it. Equations (S1)–(S3) of README.md.
#ifndef COSTATE_DERIVATIVE_TREE_SOLVER_H_
#define COSTATE_DERIVATIVE_TREE_SOLVER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include <Eigen/Core>

namespace costate {

/// A dense matrix stored in blocks of 16 columns, each block row-major: one row of a block is two cache lines, which is
/// what the solves below stream through. It only grows.
class BlockedMatrix {
 public:
  static constexpr int kWidth = 16;

  void Resize(int rows, int cols);  ///< contents are undefined afterwards
  void SetZero();
  int rows() const { return rows_; }
  int cols() const { return cols_; }
  int blocks() const { return (cols_ + kWidth - 1) / kWidth; }
  double* block(int b) { return data_ + static_cast<std::size_t>(b) * rows_ * kWidth; }
  const double* block(int b) const { return data_ + static_cast<std::size_t>(b) * rows_ * kWidth; }
  bool IsHalf(int b) const { return cols_ - b * kWidth <= kWidth / 2; }  ///< no more than half of its columns are there
  double& operator()(int i, int j) {
    return data_[(static_cast<std::size_t>(j >> 4) * rows_ + i) * kWidth + (j & (kWidth - 1))];
  }
  double operator()(int i, int j) const { return const_cast<BlockedMatrix&>(*this)(i, j); }

 private:
  int rows_ = 0, cols_ = 0;
  std::vector<double> storage_;
  double* data_ = nullptr;  // 64-byte aligned inside storage_
};

/// H = LᵀDL with L unit lower triangular, eliminated from the leaves to the roots: on a tree without couplings no entry
/// fills in. Rows are dofs; row i holds the columns j < i of the lower triangle.
class TreeSolver {
 public:
  /// @param parent  dof_parentid of the model (-1: root), nv entries.
  TreeSolver(const int* parent, int nv);

  /// Declares which sets of dofs are coupled beyond ancestor pairs, e.g. the chains of two bodies in contact. The
  /// symbolic factorisation is kept while the same couplings are declared in the same order.
  void BeginCouplings();
  void Couple(const int* dofs, int count);
  void EndCouplings();

  int nv() const { return nv_; }
  int nnz() const { return static_cast<int>(column_.size()); }  ///< strictly lower entries of L

  // the matrix to factorise: strictly lower rows and the diagonal
  void SetZero();
  double& diagonal(int i) { return diagonal_[i]; }
  double* row(int i) { return value_.data() + row_start_[i]; }
  const int* row_columns(int i) const { return column_.data() + row_start_[i]; }
  int row_size(int i) const { return row_start_[i + 1] - row_start_[i]; }
  /// Adds to entry (i, j) of the symmetric matrix; false when the pattern does not hold it.
  bool Add(int i, int j, double x) {
    if (i != j) return AddBelow(i, j, x);
    diagonal_[i] += x;
    return true;
  }

  /// Adds the lower triangle of a sparse matrix, e.g. M: row i has `count[i]` entries from `start[i]`, the diagonal
  /// last, with ascending columns. They must lie in the pattern and be the same ones in every call.
  void AddRows(const int* start, const int* count, const int* columns, const double* values);

  /// Factorises in place. False when a pivot is not positive: the matrix is not positive definite.
  bool Factor();

  /// Ratio of the largest to the smallest pivot of the last Factor: a lower bound of the condition number.
  double PivotRatio() const;

  /// B ← H⁻¹ B for all columns. @param sparse  look for rows of zeros in B first.
  void Solve(BlockedMatrix* B, bool sparse = true) const;
  /// The same for one block of a BlockedMatrix. @param half  for the first half of its columns alone.
  /// @return false if all of it was found to be zero.
  bool SolveBlock(double* block, bool sparse = true, bool half = false) const;
  /// x ← H⁻¹ x for one vector.
  void Solve(double* x) const;

  /// L by rows and by columns, and the inverse of D, as the substitutions read them.
  struct Factors {
    const int *row_start, *column, *col_start, *col_row;
    const double *value, *col_value, *inverse;
  };

 private:
  bool AddBelow(int i, int j, double x);
  Factors MakeFactors() const;
  void Symbolic();
  void FindGroups();

  int nv_;
  std::vector<int> parent_;
  std::vector<int> coupling_, pending_;  // flattened [count, dofs…]
  bool symbolic_valid_ = false;
  std::vector<int> row_start_, column_;                // L by rows
  std::vector<double> value_, diagonal_, inverse_;     // entries, pivots, their inverses
  std::vector<int> col_start_, col_row_, col_source_;  // L by columns: row and index into value_
  std::vector<double> col_value_;
  std::vector<int> place_;                 // of AddRows' entries in value_; empty: not looked up yet
  std::vector<int> group_, group_parent_;  // first rows of groups that are solved together, and nv; elimination tree
  mutable std::vector<char> active_;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_TREE_SOLVER_H_
