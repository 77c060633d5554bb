// Products with A and B against the matrices themselves.
#ifndef COSTATE_TESTS_SUPPORT_EXPECT_PRODUCTS_H_
#define COSTATE_TESTS_SUPPORT_EXPECT_PRODUCTS_H_

#include <costate/derivative.h>
#include <gtest/gtest.h>

#include "support/matrix_near.h"
#include "support/random_state.h"

namespace costate::support {

/// What a tolerance of products is relative to: their largest entry, or the largest sum of absolute values in them,
/// which cancel.
enum class ProductScale { kEntries, kSums };

/// Aᵀ λ, Bᵀ λ and A dx + B du of one Linearizer, whose context is set.
inline void ExpectProducts(const mjModel* model, Linearizer* linearizer, ConstVectorRef x, ConstVectorRef u,
                           double tolerance, ProductScale scale = ProductScale::kEntries) {
  const auto near = [&](const MatrixXd& value, const MatrixXd& product, const MatrixXd& sums, const Names& rows) {
    const MatrixXd& size = scale == ProductScale::kSums ? sums : product;
    return MatricesNear(value, product, tolerance * (size.size() > 0 ? size.cwiseAbs().maxCoeff() : 0), rows);
  };
  StepDerivative matrices;
  linearizer->Linearize(x, u, &matrices);
  ASSERT_EQ(matrices.status, StepStatus::kOk);
  const MatrixXd &A = matrices.A, &B = matrices.B, A_size = A.cwiseAbs(), B_size = B.cwiseAbs();

  const VectorXd lambda = RandomTangent(model, 7), lambda_size = lambda.cwiseAbs();
  StepVjp vjp;
  linearizer->Vjp(x, u, lambda, &vjp);
  ASSERT_EQ(vjp.status, StepStatus::kOk);
  EXPECT_TRUE(near(vjp.x, A.transpose() * lambda, A_size.transpose() * lambda_size, TangentNames(model)));
  EXPECT_TRUE(near(vjp.u, B.transpose() * lambda, B_size.transpose() * lambda_size, ControlNames(model)));
  EXPECT_EQ(vjp.qfrc.size() + vjp.xfrc.size(), 0);
  // that of matrices is of sensors, too
  if (matrices.C.size() == 0) {
    EXPECT_EQ(vjp.coverage.Worst(), matrices.coverage.Worst());
  }

  MatrixXd dx(A.cols(), 3), du(B.cols(), 3);
  for (int c = 0; c < 3; c++) {
    dx.col(c) = RandomTangent(model, 20 + c);
    du.col(c) = Random(30 + c).Vector(static_cast<int>(B.cols()));
  }
  StepJvp jvp;
  linearizer->Jvp(x, u, dx, du, &jvp);
  ASSERT_EQ(jvp.status, StepStatus::kOk);
  EXPECT_TRUE(near(jvp.dx, A * dx + B * du, A_size * dx.cwiseAbs() + B_size * du.cwiseAbs(), TangentNames(model)));
}

/// The same at the state of `data`.
inline void ExpectProducts(const mjModel* model, const mjData* data, const LinearizeOptions& options, double tolerance,
                           ProductScale scale = ProductScale::kEntries) {
  Linearizer linearizer(model, options);
  linearizer.SetContext(GetContext(model, data));
  ExpectProducts(model, &linearizer, GetState(model, data), Eigen::Map<const VectorXd>(data->ctrl, model->nu),
                 tolerance, scale);
}

}  // namespace costate::support

#endif  // COSTATE_TESTS_SUPPORT_EXPECT_PRODUCTS_H_
