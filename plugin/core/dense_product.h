// Products of dense matrices of some tens of rows, in vectors as wide as the processor has: Eigen, compiled for the
// oldest x86-64, takes about three times as long.
#ifndef COSTATE_CORE_DENSE_PRODUCT_H_
#define COSTATE_CORE_DENSE_PRODUCT_H_

#include <vector>

#include <costate/types.h>

namespace costate {

/// Memory into which the left factor is packed; kept by the caller so that calls after the first allocate nothing.
using PackedMatrix = std::vector<double>;

void SetProduct(ConstMatrixRef A, const MatrixXd& B, MatrixXd* C, PackedMatrix* packed);  ///< C = A B
void AddProduct(ConstMatrixRef A, const MatrixXd& B, MatrixXd* C, PackedMatrix* packed);  ///< C += A B

/// A matrix that is multiplied by several others, in its caller's memory until this is used for another.
struct LeftFactor {
  Eigen::Index rows, depth;
  const double* packed;

  void AddProduct(ConstMatrixRef B, MatrixRef C) const { Add(B, false, C); }  ///< C += A B
  /// The same for a square C of which only the lower triangle counts: the upper one is undefined afterwards.
  void AddProductLower(ConstMatrixRef B, MatrixRef C) const { Add(B, true, C); }
  void Add(ConstMatrixRef B, bool lower, MatrixRef C) const;
};
LeftFactor PackLeft(ConstMatrixRef A, PackedMatrix* packed);
LeftFactor PackLeftTransposed(ConstMatrixRef A, PackedMatrix* packed);  ///< Aᵀ

/// Upper triangle ← lower: what rounding, or such a product, left different is made equal.
void MirrorLower(MatrixXd* S);

/// Y ← (L Lᵀ)⁻¹ Y of a Cholesky factor, its lower triangle.
void SolveFactored(const MatrixXd& L, MatrixRef Y, PackedMatrix* packed);

}  // namespace costate

#endif  // COSTATE_CORE_DENSE_PRODUCT_H_
