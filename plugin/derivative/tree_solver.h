// LᵀDL factorisation of a symmetric matrix on the pattern of a kinematic tree plus couplings, and blocked solves with
// it. Equations (S1)–(S3), (S5) of README.md.
#ifndef COSTATE_DERIVATIVE_TREE_SOLVER_H_
#define COSTATE_DERIVATIVE_TREE_SOLVER_H_

#include <vector>

#include "derivative/tree_substitution.h"
#include "derivative/tree_waist.h"

namespace costate {

/// H = LᵀDL with L unit lower triangular, eliminated from the leaves to the roots: on a tree without couplings no entry
/// fills in. Rows are dofs; row i holds the columns j < i of the lower triangle.
class TreeSolver {
 public:
  /// @param parent  dof_parentid of the model (-1: root), nv entries.
  /// @param waist  where a factorization may narrow the tree.
  TreeSolver(const int* parent, int nv, const TreeWaist& waist = {});

  /// Declares which sets of dofs are coupled beyond ancestor pairs, e.g. the chains of two bodies in contact. The
  /// symbolic factorisation is kept while the same couplings are declared in the same order.
  void BeginCouplings();
  void Couple(const int* dofs, int count);
  void EndCouplings();
  /// Entries of the n-th set, of two or more dofs that were declared in descending order: those of the first with all
  /// after it, then those of the second …  @pre EndCouplings.
  const int* coupled(int n) const { return coupled_.data() + coupled_start_[n]; }

  int nv() const { return nv_; }
  int nnz() const { return nnz_; }  ///< strictly lower entries of L

  // the matrix to factorise: strictly lower rows and the diagonal
  void SetZero();
  double& diagonal(int i) { return diagonal_[i]; }
  double* row(int i) { return value_.data() + row_start_[i]; }
  const int* row_columns(int i) const { return column_.data() + row_start_[i]; }
  double& entry(int at) { return value_[at]; }  ///< at: from coupled()
  int row_size(int i) const { return row_end_[i] - row_start_[i]; }
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
  /// @param cdof  axes S of the dofs, if every H(i, j) with i behind the waist and j before it is S_j·z_i with six
  ///        numbers z_i: blocks are then solved by (S5).
  ///        null: that is not known.
  bool Factor(const double* cdof = nullptr);

  /// Would a factorization narrow the tree, given the axes?
  bool MayNarrow() const { return !narrow_.empty(); }
  /// Did the last Factor find blocks to be solved by (S5)?
  bool narrowed() const { return narrowed_; }

  /// B ← H⁻¹ B for all columns. @param sparse  look for rows of zeros in B first.
  void Solve(BlockedMatrix* B, bool sparse = true) const;
  /// The same for one block of a BlockedMatrix. @param half  for the first half of its columns alone.
  /// @return false if all of it was found to be zero.
  bool SolveBlock(double* block, bool sparse = true, bool half = false) const;
  /// x ← H⁻¹ x for one vector.
  void Solve(double* x) const;

 private:
  bool AddBelow(int i, int j, double x);
  void Symbolic();
  void BuildNarrow();
  void FindCoupled();
  bool CouplesBehindWaist() const;
  const TreeSubstitution& ReadyBlocks() const;

  int nv_;
  std::vector<int> parent_;
  std::vector<int> coupling_, pending_;  // flattened [count, dofs…]
  bool symbolic_valid_ = false;
  int nnz_ = 0;
  std::vector<int> row_start_, row_end_, column_;   // L by rows, each of whole vectors of four
  std::vector<double> value_, diagonal_, inverse_;  // entries, what BuildNarrow adds to them; pivots, their inverses
  std::vector<int> coupled_, coupled_start_;        // places in value_, by sets
  std::vector<int> place_;                          // of AddRows' entries in value_; empty: not looked up yet
  std::vector<std::vector<int>> pattern_;           // of Symbolic: columns of each row
  std::vector<TreeSubstitution::Row> rows_, narrow_rows_;
  TreeWaist waist_;
  mutable TreeSubstitution plain_, narrow_;  // of blocks; the latter is empty where couplings reach behind the waist
  bool narrowed_ = false;                    // which of the two is used
  mutable bool read_ = false;                // and whether it has the values
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_TREE_SOLVER_H_
