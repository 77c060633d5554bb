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

// the same of one or two panels next to each other, where a column of one fills a register: twice as many sums at a
// time, which is what keeps these busy. One function for both leaves narrower registers an eighth slower.
template <int kPanels, int kColumns>
__attribute__((always_inline)) inline void WideTile(int rows, int depth, const double* panel, const double* B,
                                                    std::ptrdiff_t ldb, double* C, std::ptrdiff_t ldc) {
  using Vector = typename Lanes<kPanel>::Loose;
  Vector sum[kColumns][kPanels] = {};
  for (int k = 0; k < depth; k++) {
    Vector a[kPanels];
    for (int p = 0; p < kPanels; p++) a[p] = *reinterpret_cast<const Vector*>(panel + (p * depth + k) * kPanel);
    for (int c = 0; c < kColumns; c++) {
      for (int p = 0; p < kPanels; p++) sum[c][p] += a[p] * B[c * ldb + k];
    }
  }
  for (int c = 0; c < kColumns; c++) {
    for (int p = 0; p < kPanels; p++) {
      double* to = C + c * ldc + p * kPanel;
      if (rows >= (p + 1) * kPanel) {
        *reinterpret_cast<Vector*>(to) += sum[c][p];
      } else {
        for (int i = 0; i < rows - p * kPanel; i++) to[i] += sum[c][p][i];
      }
    }
  }
}

template <int kPanels>
__attribute__((always_inline)) inline void WidePanels(int rows, int cols, int depth, const double* panel,
                                                      const double* B, std::ptrdiff_t ldb, double* C,
                                                      std::ptrdiff_t ldc) {
  constexpr int kColumns = 8 / kPanels;
  int j = 0;
  for (; j + kColumns <= cols; j += kColumns)
    WideTile<kPanels, kColumns>(rows, depth, panel, B + j * ldb, ldb, C + j * ldc, ldc);
  if constexpr (kColumns > 4) {
    if (j + 4 <= cols) {
      WideTile<kPanels, 4>(rows, depth, panel, B + j * ldb, ldb, C + j * ldc, ldc);
      j += 4;
    }
  }
  B += j * ldb, C += j * ldc;
  switch (cols - j) {
    case 1: WideTile<kPanels, 1>(rows, depth, panel, B, ldb, C, ldc); break;
    case 2: WideTile<kPanels, 2>(rows, depth, panel, B, ldb, C, ldc); break;
    case 3: WideTile<kPanels, 3>(rows, depth, panel, B, ldb, C, ldc); break;
    default: break;
  }
}

// lower: columns wholly above the diagonal are left out
__attribute__((always_inline)) inline void WideProduct(int rows, int cols, int depth, bool lower, const double* packed,
                                                       const double* B, std::ptrdiff_t ldb, double* C,
                                                       std::ptrdiff_t ldc) {
  for (int i = 0; i < rows;) {
    const double* panel = packed + static_cast<std::ptrdiff_t>(i) * depth;
    const bool pair = rows - i > kPanel;
    const int height = pair ? 2 * kPanel : kPanel, some = lower ? (cols < i + height ? cols : i + height) : cols;
    if (pair) {
      WidePanels<2>(rows - i, some, depth, panel, B, ldb, C + i, ldc);
    } else {
      WidePanels<1>(rows - i, some, depth, panel, B, ldb, C + i, ldc);
    }
    i += height;
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
  if constexpr (kLanes == kPanel) {
    if (rows > kNarrow) return WideProduct(rows, cols, depth, lower, packed, B, ldb, C, ldc);
  }
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

// panel ← the transpose of `count` columns of `depth` numbers, as its first rows
COSTATE_SIMD void TransposePanel(int count, int depth, int width, const double* A, double* panel) {
  int r = 0;
  for (; r + 4 <= count; r += 4) {
    const double* a = A + static_cast<std::ptrdiff_t>(r) * depth;
    const auto at = [&](int column, int k) __attribute__((always_inline)) {
      return Double4(*reinterpret_cast<const Loose4*>(a + static_cast<std::ptrdiff_t>(column) * depth + k));
    };
    int k = 0;
    for (; k + 4 <= depth; k += 4) {
      Double4 out[4];
      Transpose4(at(0, k), at(1, k), at(2, k), at(3, k), out);
      for (int i = 0; i < 4; i++) *reinterpret_cast<Double4*>(panel + (k + i) * width + r) = out[i];
    }
    for (; k < depth; k++) {
      for (int c = 0; c < 4; c++) panel[k * width + r + c] = a[static_cast<std::ptrdiff_t>(c) * depth + k];
    }
  }
  for (; r < count; r++) {
    const double* column = A + static_cast<std::ptrdiff_t>(r) * depth;
    for (int k = 0; k < depth; k++) panel[k * width + r] = column[k];
  }
}

// of as many doubles, as registers want them
double* Aligned(std::size_t size, PackedMatrix* memory) {
  if (memory->size() < size + kPanel) memory->resize(size + kPanel);
  const auto address = reinterpret_cast<std::uintptr_t>(memory->data());
  return memory->data() + (64 - address % 64) % 64 / sizeof(double);
}

// A's columns are next to each other
double* Pack(ConstMatrixRef A, bool transposed, PackedMatrix* memory) {
  assert(A.outerStride() == A.rows());
  const Eigen::Index rows = transposed ? A.cols() : A.rows(), depth = transposed ? A.rows() : A.cols();
  const Eigen::Index width = rows > kNarrow ? kPanel : kNarrow;
  double* packed = Aligned(static_cast<std::size_t>((rows + width - 1) / width * width * depth), memory);
  for (Eigen::Index i = 0; i < rows; i += width) {
    const Eigen::Index count = std::min(width, rows - i);
    double* panel = packed + i * depth;
    if (count < width) std::fill_n(panel, width * depth, 0.0);
    if (transposed) {
      TransposePanel(static_cast<int>(count), static_cast<int>(depth), static_cast<int>(width), A.data() + i * depth,
                     panel);
    } else if (count == kPanel) {  // calls to copy so few would take longer
      for (Eigen::Index k = 0; k < depth; k++) std::copy_n(A.data() + k * rows + i, kPanel, panel + k * kPanel);
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

// panel ← (L Lᵀ)⁻¹ panel, kPanel right sides beside each other: row i of all is the vector i
template <int kLanes>
__attribute__((always_inline)) inline void SubstituteOf(int n, const double* L, const double* inverse, double* panel) {
  using Vector = typename Lanes<kLanes>::Vector;
  constexpr int kParts = kPanel / kLanes;
  auto* X = reinterpret_cast<Vector(*)[kParts]>(panel);
  for (int i = 0; i < n; i++) {
    const double* column = L + static_cast<std::ptrdiff_t>(i) * n;
    Vector x[kParts];
    for (int p = 0; p < kParts; p++) X[i][p] = x[p] = X[i][p] * inverse[i];
    for (int j = i + 1; j < n; j++) {
      for (int p = 0; p < kParts; p++) X[j][p] -= column[j] * x[p];
    }
  }
  for (int i = n - 1; i >= 0; i--) {
    const double* row = L + i;
    Vector x[kParts];
    for (int p = 0; p < kParts; p++) X[i][p] = x[p] = X[i][p] * inverse[i];
    for (int j = 0; j < i; j++) {
      for (int p = 0; p < kParts; p++) X[j][p] -= row[static_cast<std::ptrdiff_t>(j) * n] * x[p];
    }
  }
}

COSTATE_SIMD_LANES(void, SubstitutePanel, (int n, const double* L, const double* inverse, double* panel), SubstituteOf,
                   (n, L, inverse, panel))

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
    default: PackLeft(A, packed).AddProduct(B, *C);
  }
}

LeftFactor PackLeft(ConstMatrixRef A, PackedMatrix* packed) { return {A.rows(), A.cols(), Pack(A, false, packed)}; }

LeftFactor PackLeftTransposed(ConstMatrixRef A, PackedMatrix* packed) {
  return {A.cols(), A.rows(), Pack(A, true, packed)};
}

void LeftFactor::Add(ConstMatrixRef B, bool lower, MatrixRef C) const {
  assert(depth == B.rows() && C.rows() == rows && C.cols() == B.cols());
  Multiply(static_cast<int>(rows), static_cast<int>(B.cols()), static_cast<int>(depth), lower, packed, B.data(),
           B.outerStride(), C.data(), C.outerStride());
}

void MirrorLower(MatrixXd* S) {
  for (Eigen::Index j = 1; j < S->cols(); ++j) S->col(j).head(j) = S->row(j).head(j).transpose();
}

void SolveFactored(const MatrixXd& L, MatrixRef Y, PackedMatrix* packed) {
  const Eigen::Index n = L.rows(), cols = Y.cols();
  double* panel = Aligned(static_cast<std::size_t>((n + 1) * kPanel + n), packed);
  double* inverse = panel + n * kPanel;
  for (Eigen::Index i = 0; i < n; i++) inverse[i] = 1 / L(i, i);
  for (Eigen::Index c = 0; c < cols; c += kPanel) {
    const Eigen::Index count = std::min<Eigen::Index>(kPanel, cols - c);
    if (count < kPanel) std::fill_n(panel, n * kPanel, 0.0);
    for (Eigen::Index k = 0; k < count; k++) {
      for (Eigen::Index i = 0; i < n; i++) panel[i * kPanel + k] = Y(i, c + k);
    }
    SubstitutePanel(static_cast<int>(n), L.data(), inverse, panel);
    for (Eigen::Index k = 0; k < count; k++) {
      for (Eigen::Index i = 0; i < n; i++) Y(i, c + k) = panel[i * kPanel + k];
    }
  }
}

}  // namespace costate
