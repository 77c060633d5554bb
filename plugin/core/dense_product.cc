#include "core/dense_product.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "core/simd.h"

namespace costate {
namespace {

// rows of a panel: contiguous, padded with zeros. Narrow ones are of products that have no more rows; sums are the same.
constexpr int kPanel = 8, kNarrow = 4;

// rows of one panel times kColumns columns of B, added to C
template <int kHeight, int kLanes, int kColumns>
__attribute__((always_inline)) inline void Tile(int rows, int depth, const double* panel, const double* B,
                                                std::ptrdiff_t ldb, double* C, std::ptrdiff_t ldc) {
  using Vector = typename Lanes<kLanes>::Vector;
  constexpr int kParts = kHeight / kLanes;
  Vector sum[kColumns][kParts] = {};
  for (int k = 0; k < depth; k++) {
    const Vector* a = reinterpret_cast<const Vector*>(panel + k * kHeight);
    for (int c = 0; c < kColumns; c++) {
      for (int part = 0; part < kParts; part++) sum[c][part] += a[part] * B[c * ldb + k];
    }
  }
  for (int c = 0; c < kColumns; c++) {
    for (int i = 0; i < rows; i++) C[c * ldc + i] += sum[c][i / kLanes][i % kLanes];
  }
}

// lower: panels wholly above the diagonal are left out
template <int kHeight, int kLanes>
__attribute__((always_inline)) inline void Panels(int rows, int cols, int depth, bool lower, const double* packed,
                                                  const double* B, std::ptrdiff_t ldb, double* C, std::ptrdiff_t ldc) {
  for (int j = 0; j < cols; j += 4) {
    const double* Bj = B + j * ldb;
    for (int i = lower ? j / kHeight * kHeight : 0; i < rows; i += kHeight) {
      const double* panel = packed + static_cast<std::ptrdiff_t>(i) * depth;
      double* Cij = C + j * ldc + i;
      const int count = rows - i < kHeight ? rows - i : kHeight;
      switch (cols - j) {
        case 1: Tile<kHeight, kLanes, 1>(count, depth, panel, Bj, ldb, Cij, ldc); break;
        case 2: Tile<kHeight, kLanes, 2>(count, depth, panel, Bj, ldb, Cij, ldc); break;
        case 3: Tile<kHeight, kLanes, 3>(count, depth, panel, Bj, ldb, Cij, ldc); break;
        default:
          if (count == kHeight) {
            Tile<kHeight, kLanes, 4>(kHeight, depth, panel, Bj, ldb, Cij, ldc);
          } else {
            Tile<kHeight, kLanes, 4>(count, depth, panel, Bj, ldb, Cij, ldc);
          }
      }
    }
  }
}

template <int kLanes>
__attribute__((always_inline)) inline void MultiplyOf(int rows, int cols, int depth, bool lower, const double* packed,
                                                      const double* B, std::ptrdiff_t ldb, double* C,
                                                      std::ptrdiff_t ldc) {
  if (rows > kNarrow) {
    Panels<kPanel, kLanes>(rows, cols, depth, lower, packed, B, ldb, C, ldc);
  } else {
    Panels<kNarrow, (kLanes < kNarrow ? kLanes : kNarrow)>(rows, cols, depth, lower, packed, B, ldb, C, ldc);
  }
}

COSTATE_SIMD_LANES(void, Multiply,
                   (int rows, int cols, int depth, bool lower, const double* packed, const double* B,
                    std::ptrdiff_t ldb, double* C, std::ptrdiff_t ldc),
                   MultiplyOf, (rows, cols, depth, lower, packed, B, ldb, C, ldc))

// A's columns are next to each other
double* Pack(ConstMatrixRef A, bool transposed, PackedMatrix* memory) {
  assert(A.outerStride() == A.rows());
  const Eigen::Index rows = transposed ? A.cols() : A.rows(), depth = transposed ? A.rows() : A.cols();
  const Eigen::Index width = rows > kNarrow ? kPanel : kNarrow;
  const std::size_t size = static_cast<std::size_t>((rows + width - 1) / width * width * depth) + kPanel;
  if (memory->size() < size) memory->resize(size);
  const auto address = reinterpret_cast<std::uintptr_t>(memory->data());
  double* packed = memory->data() + (64 - address % 64) % 64 / sizeof(double);
  for (Eigen::Index i = 0; i < rows; i += width) {
    const Eigen::Index count = std::min(width, rows - i);
    double* panel = packed + i * depth;
    if (count < width) std::fill_n(panel, width * depth, 0.0);
    if (transposed) {
      for (Eigen::Index r = 0; r < count; r++) {
        const double* column = A.data() + (i + r) * depth;
        for (Eigen::Index k = 0; k < depth; k++) panel[k * width + r] = column[k];
      }
    } else {
      for (Eigen::Index k = 0; k < depth; k++) std::copy_n(A.data() + k * rows + i, count, panel + k * width);
    }
  }
  return packed;
}

// so few rows that to pack them would cost more than the product
template <int kRows>
void AddFewRows(ConstMatrixRef A, const MatrixXd& B, MatrixXd* C) {
  const Eigen::Index depth = A.cols(), cols = B.cols(), stride = A.outerStride();
  const double *a = A.data(), *b = B.data();
  double* c = C->data();
  for (Eigen::Index j = 0; j < cols; j++, b += depth, c += kRows) {
    double sum[kRows];
    for (int i = 0; i < kRows; i++) sum[i] = c[i];
    for (Eigen::Index k = 0; k < depth; k++) {
      for (int i = 0; i < kRows; i++) sum[i] += a[k * stride + i] * b[k];
    }
    for (int i = 0; i < kRows; i++) c[i] = sum[i];
  }
}

void AddTransposed(const MatrixXd& A, const MatrixXd& B, bool lower, MatrixXd* C, PackedMatrix* packed) {
  assert(A.rows() == B.rows() && C->rows() == A.cols() && C->cols() == B.cols());
  Multiply(static_cast<int>(A.cols()), static_cast<int>(B.cols()), static_cast<int>(A.rows()), lower,
           Pack(A, true, packed), B.data(), B.rows(), C->data(), C->rows());
}

}  // namespace

void SetProduct(ConstMatrixRef A, const MatrixXd& B, MatrixXd* C, PackedMatrix* packed) {
  C->setZero(A.rows(), B.cols());
  AddProduct(A, B, C, packed);
}

void AddProduct(ConstMatrixRef A, const MatrixXd& B, MatrixXd* C, PackedMatrix* packed) {
  assert(A.cols() == B.rows() && C->rows() == A.rows() && C->cols() == B.cols());
  switch (A.rows()) {
    case 0: return;
    case 1: return AddFewRows<1>(A, B, C);
    case 2: return AddFewRows<2>(A, B, C);
    case 3: return AddFewRows<3>(A, B, C);
    default: break;
  }
  Multiply(static_cast<int>(A.rows()), static_cast<int>(B.cols()), static_cast<int>(A.cols()), false,
           Pack(A, false, packed), B.data(), B.rows(), C->data(), C->rows());
}

void AddTransposedProduct(const MatrixXd& A, const MatrixXd& B, MatrixXd* C, PackedMatrix* packed) {
  AddTransposed(A, B, false, C, packed);
}

void AddTransposedProductLower(const MatrixXd& A, const MatrixXd& B, MatrixXd* C, PackedMatrix* packed) {
  AddTransposed(A, B, true, C, packed);
}

}  // namespace costate
