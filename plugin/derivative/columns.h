// Where the terms of −∂r leave their entries: as a matrix, or contracted at once with a row or a column vector, so that
// a term is written only once and serves Jacobians and products alike.
#ifndef COSTATE_DERIVATIVE_COLUMNS_H_
#define COSTATE_DERIVATIVE_COLUMNS_H_

#include <cstddef>
#include <vector>

#include "derivative/tree_solver.h"

namespace costate {

/// A term adds its entries by `R(i, j) += x`; what becomes of them is the caller's choice.
class Columns {
 public:
  /// R itself.
  explicit Columns(BlockedMatrix* R) : matrix_(R) {}
  /// Rows of two matrices side by side, given by their first entries and the distance of columns: `split` of them left.
  static Columns Of(double* left, int split, double* right, std::ptrdiff_t stride) {
    Columns columns(nullptr, nullptr, left);
    columns.split_ = split;
    columns.stride_ = stride;
    columns.right_ = right;
    return columns;
  }
  /// out_j += Σ_i y_i R_ij: the pull-back of a covector y (rows) to out (columns).
  static Columns Pull(const double* y, double* out) { return {y, nullptr, out}; }
  /// out_i += Σ_j R_ij x_j: the push-forward of a direction x (columns) to out (rows).
  static Columns Push(const double* x, double* out) { return {nullptr, x, out}; }

  struct Entry {
    double* at;
    double factor;
    void operator+=(double x) const { *at += factor * x; }
    void operator-=(double x) const { *at -= factor * x; }
  };
  Entry operator()(int i, int j) {
    if (matrix_) return {&(*matrix_)(i, j), 1};
    if (rows_) return {out_ + j, rows_[i]};
    if (columns_) return {out_ + i, columns_[j]};
    return {(j < split_ ? out_ + j * stride_ : right_ + (j - split_) * stride_) + i, 1};
  }

  /// R(i, begin + i) −= scale x_i for i < n.
  void SubtractDiagonal(int begin, const double* x, int n, double scale = 1) {
    if (!rows_ && !columns_) {
      for (int i = 0; i < n; i++) (*this)(i, begin + i) -= scale * x[i];
      return;
    }
    const double* factor = rows_ ? rows_ : columns_ + begin;
    double* out = rows_ ? out_ + begin : out_;
    for (int i = 0; i < n; i++) out[i] -= scale * factor[i] * x[i];
  }

  /// R(row_i, column_j) −= x_i y_j.
  void SubtractProduct(const std::vector<int>& row, const std::vector<double>& x, const std::vector<int>& column,
                       const std::vector<double>& y) {
    const auto dot = [](const double* of, const std::vector<int>& at, const std::vector<double>& values) {
      double sum = 0;
      for (std::size_t k = 0; k < at.size(); k++) sum += of[at[k]] * values[k];
      return sum;
    };
    if (rows_) {
      const double sum = dot(rows_, row, x);
      for (std::size_t j = 0; j < column.size(); j++) out_[column[j]] -= sum * y[j];
    } else if (columns_) {
      const double sum = dot(columns_, column, y);
      for (std::size_t i = 0; i < row.size(); i++) out_[row[i]] -= x[i] * sum;
    } else {
      const int stride = matrix_ ? BlockedMatrix::kWidth : 1;
      for (std::size_t j = 0; j < column.size(); j++) {
        double* first = (*this)(0, column[j]).at;
        for (std::size_t i = 0; i < row.size(); i++) first[row[i] * stride] -= x[i] * y[j];
      }
    }
  }

 private:
  Columns(const double* rows, const double* columns, double* out) : rows_(rows), columns_(columns), out_(out) {}

  BlockedMatrix* matrix_ = nullptr;
  const double *rows_ = nullptr, *columns_ = nullptr;
  double *out_ = nullptr, *right_ = nullptr;
  int split_ = 0;
  std::ptrdiff_t stride_ = 0;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_COLUMNS_H_
