// Products of dense matrices of some tens of rows, in vectors as wide as the processor has: Eigen, compiled for the
// oldest x86-64, takes about three times as long.
#ifndef COSTATE_CORE_DENSE_PRODUCT_H_
#define COSTATE_CORE_DENSE_PRODUCT_H_

#include <vector>

#include <costate/types.h>

namespace costate {

/// Memory into which the left factor is packed; kept by the caller so that calls after the first allocate nothing.
using PackedMatrix = std::vector<double>;

void SetProduct(ConstMatrixRef A, const MatrixXd& B, MatrixXd* C, PackedMatrix* packed);             ///< C = A B
void AddProduct(ConstMatrixRef A, const MatrixXd& B, MatrixXd* C, PackedMatrix* packed);             ///< C += A B
void AddTransposedProduct(const MatrixXd& A, const MatrixXd& B, MatrixXd* C, PackedMatrix* packed);  ///< C += Aᵀ B
/// The same for a square C of which only the lower triangle counts: the upper one is undefined afterwards.
void AddTransposedProductLower(const MatrixXd& A, const MatrixXd& B, MatrixXd* C, PackedMatrix* packed);

}  // namespace costate

#endif  // COSTATE_CORE_DENSE_PRODUCT_H_
