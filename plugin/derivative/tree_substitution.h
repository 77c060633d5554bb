// Solves with L and D of H = LᵀDL for blocks of right-hand sides. Equation (S2) of README.md.
#ifndef COSTATE_DERIVATIVE_TREE_SUBSTITUTION_H_
#define COSTATE_DERIVATIVE_TREE_SUBSTITUTION_H_

#include <cstddef>
#include <vector>

namespace costate {

/// A dense matrix stored in blocks of 16 columns, each block row-major: one row of a block is two cache lines, which is
/// what the solves below stream through. It only grows.
class BlockedMatrix {
 public:
  static constexpr int kWidth = 16;
  static constexpr int kSpare = 6;  ///< rows behind those of each block, for the solves to work in

  void Resize(int rows, int cols);  ///< contents are undefined afterwards
  void SetZero();
  int rows() const { return rows_; }
  int cols() const { return cols_; }
  int blocks() const { return (cols_ + kWidth - 1) / kWidth; }
  /// Numbers from one block of so many rows to the next.
  static constexpr std::size_t Stride(int rows) { return static_cast<std::size_t>(rows + kSpare) * kWidth; }
  double* block(int b) { return data_ + b * Stride(rows_); }
  const double* block(int b) const { return data_ + b * Stride(rows_); }
  bool IsHalf(int b) const { return cols_ - b * kWidth <= kWidth / 2; }  ///< no more than half of its columns are there
  double& operator()(int i, int j) { return block(j >> 4)[i * kWidth + (j & (kWidth - 1))]; }
  double operator()(int i, int j) const { return const_cast<BlockedMatrix&>(*this)(i, j); }

 private:
  int rows_ = 0, cols_ = 0;
  std::vector<double> storage_;
  double* data_ = nullptr;  // 64-byte aligned inside storage_
};

/// L by rows and by columns, and which rows are solved together.
class TreeSubstitution {
 public:
  TreeSubstitution() = default;
  TreeSubstitution(const TreeSubstitution&) = delete;
  TreeSubstitution& operator=(const TreeSubstitution&) = delete;

  /// One row of L. @pre  no two rows have the same `row`; all of them are 0, 1, 2 …
  struct Row {
    int row;                  ///< of the right-hand sides
    std::vector<int> column;  ///< places of earlier rows in the list, ascending
    std::vector<int> source;  ///< of the entries' values
  };
  /// Up to three rows that follow each other, have the same columns apart from each other and the same rows below them.
  struct Group {
    int first, size;
  };
  static constexpr int kMaxGroup = 3;  // rows of 16 columns that fit into sixteen vector registers

  /// @param rows  from the roots to the leaves; columns point to earlier ones.
  void Build(const std::vector<Row>& rows);
  void Clear() { row_start_.clear(); }
  bool empty() const { return row_start_.empty(); }
  int nnz() const { return row_start_.back(); }
  const std::vector<Group>& groups() const { return group_; }

  /// @param value  holds the entries at their sources; is read until the next call.
  void Read(const double* value);

  /// x ← L⁻¹ D⁻¹ L⁻ᵀ x of one block of a BlockedMatrix, whose spare rows are rows like others.
  /// @param inverse  1/D by row.  @param sparse  look for rows of zeros first.  @param half  for the first half of its
  /// columns alone.
  /// @return false if all of it was found to be zero. @pre Read.
  bool SolveBlock(const double* inverse, double* block, bool sparse, bool half) const;

  /// As the substitutions read them.
  struct Factors {
    const int *row_start, *column, *value_start, *col_start, *col_row;
    const double *value, *col_value, *inverse;
  };

 private:
  void FindGroups(const std::vector<Row>& rows);

  std::vector<int> row_start_, column_, source_;  // L by rows; columns and rows are places in a block
  std::vector<int> col_start_, col_row_, col_source_;
  std::vector<int> value_start_;  // of rows in value_
  std::vector<double> own_value_, col_value_;
  const double* value_ = nullptr;
  bool in_place_ = false;  // each row's sources follow each other: nothing is to be copied
  std::vector<Group> group_;
  std::vector<int> group_parent_;  // elimination tree of groups, in the order of the rows; -1: root
  mutable std::vector<char> active_;
  std::vector<std::vector<int>> below_,
      from_;                           // of Build: rows that a row is a column of, and sources of these entries
  std::vector<int> place_, group_of_;  // of rows in their list, and their groups
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_TREE_SUBSTITUTION_H_
