#include "core/dense_product.h"

#include <gtest/gtest.h>

namespace costate {
namespace {

class DenseProductTest : public ::testing::TestWithParam<int> {};

// every remainder of panels and tiles
TEST_P(DenseProductTest, AgreesWithEigen) {
  const int rows = GetParam();
  PackedMatrix packed;
  for (int cols : {1, 2, 3, 4, 5, 11, 16, 23}) {
    for (int depth : {0, 1, 7, 20}) {
      const MatrixXd A = MatrixXd::Random(rows, depth), B = MatrixXd::Random(depth, cols),
                     C0 = MatrixXd::Random(rows, cols);
      const MatrixXd At = A.transpose(), expected = A.lazyProduct(B);
      MatrixXd C;
      SetProduct(A, B, &C, &packed);
      EXPECT_LT((C - expected).lpNorm<Eigen::Infinity>(), 1e-14) << cols << " " << depth;
      C = C0;
      AddProduct(A, B, &C, &packed);
      EXPECT_LT((C - C0 - expected).lpNorm<Eigen::Infinity>(), 1e-14) << cols << " " << depth;
      C = C0;
      PackLeftTransposed(At, &packed).AddProduct(B, C);
      EXPECT_LT((C - C0 - expected).lpNorm<Eigen::Infinity>(), 1e-14) << cols << " " << depth;
    }
  }
}

TEST_P(DenseProductTest, FillsTheLowerTriangle) {
  const int n = GetParam();
  PackedMatrix packed;
  const MatrixXd A = MatrixXd::Random(13, n), B = MatrixXd::Random(13, n), C0 = MatrixXd::Random(n, n);
  MatrixXd C = C0;
  PackLeftTransposed(A, &packed).AddProductLower(B, C);
  const MatrixXd expected = C0 + A.transpose().lazyProduct(B);
  for (int i = 0; i < n; i++) {
    for (int j = 0; j <= i; j++) EXPECT_NEAR(C(i, j), expected(i, j), 1e-14) << i << " " << j;
  }
}

TEST_P(DenseProductTest, SolvesByACholeskyFactor) {
  const int n = GetParam();
  PackedMatrix packed;
  MatrixXd L = MatrixXd::Random(n, n);
  L.diagonal().array() += 2 * n;
  const MatrixXd lower = L.triangularView<Eigen::Lower>();
  for (int cols : {1, 7, 8, 19}) {
    const MatrixXd X = MatrixXd::Random(n, cols);
    MatrixXd Y = lower * (lower.transpose() * X);
    SolveFactored(L, Y, &packed);
    EXPECT_LT((Y - X).lpNorm<Eigen::Infinity>(), 1e-13) << cols;
  }
}

TEST_P(DenseProductTest, FillsAPartOfAMatrix) {
  const int n = GetParam();
  PackedMatrix packed;
  const MatrixXd A = MatrixXd::Random(5, n), B = MatrixXd::Random(5, 9), C0 = MatrixXd::Random(n + 3, 12);
  MatrixXd C = C0, expected = C0;
  PackLeftTransposed(A, &packed).AddProduct(B, C.block(2, 1, n, 9));
  expected.block(2, 1, n, 9) += A.transpose().lazyProduct(B);
  EXPECT_LT((C - expected).lpNorm<Eigen::Infinity>(), 1e-14);
}

INSTANTIATE_TEST_SUITE_P(Sizes, DenseProductTest, ::testing::Values(1, 2, 7, 8, 9, 16, 17, 21, 24, 25, 54));

}  // namespace
}  // namespace costate
