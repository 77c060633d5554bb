// Comparison of whole matrices: on failure the worst entry, its row, its column and both values.
#ifndef COSTATE_TESTS_SUPPORT_MATRIX_NEAR_H_
#define COSTATE_TESTS_SUPPORT_MATRIX_NEAR_H_

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace costate::support {

using Names = std::vector<std::string>;

inline std::string IndexName(const Names& names, Eigen::Index i) {
  const std::string number = std::to_string(i);
  return i < static_cast<Eigen::Index>(names.size()) ? number + " (" + names[i] + ")" : number;
}

/// |value − reference| ≤ tolerance in each entry. A NaN on either side is never near.
/// EXPECT_TRUE(MatricesNear(A, A_expected, 1e-9, TangentNames(m), TangentNames(m)));
inline ::testing::AssertionResult MatricesNear(const Eigen::MatrixXd& value, const Eigen::MatrixXd& reference,
                                               double tolerance, const Names& rows = {}, const Names& cols = {}) {
  if (value.rows() != reference.rows() || value.cols() != reference.cols()) {
    return ::testing::AssertionFailure() << "sizes differ: " << value.rows() << "×" << value.cols() << " and "
                                         << reference.rows() << "×" << reference.cols();
  }
  Eigen::Index row = -1, col = -1, bad = 0;
  double worst = -1;
  for (Eigen::Index j = 0; j < value.cols(); ++j) {
    for (Eigen::Index i = 0; i < value.rows(); ++i) {
      const double difference = std::abs(value(i, j) - reference(i, j));
      if (difference <= tolerance) continue;
      ++bad;
      const double size = std::isnan(difference) ? INFINITY : difference;
      if (size > worst) worst = size, row = i, col = j;
    }
  }
  if (bad == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << bad << " of " << value.size() << " entries differ by more than " << tolerance
                                       << "; the worst is row " << IndexName(rows, row) << ", column "
                                       << IndexName(cols, col) << ": value " << value(row, col) << ", reference "
                                       << reference(row, col) << ", difference " << worst;
}

/// The same with a tolerance relative to the reference's largest entry, so that noise of small entries is not judged.
inline ::testing::AssertionResult MatricesNearRelative(const Eigen::MatrixXd& value, const Eigen::MatrixXd& reference,
                                                       double tolerance, const Names& rows = {},
                                                       const Names& cols = {}) {
  const double scale = reference.size() > 0 ? reference.cwiseAbs().maxCoeff() : 0;
  return MatricesNear(value, reference, tolerance * scale, rows, cols);
}

/// Every bit equal; NaN equals the same NaN, 0 and −0 differ.
inline ::testing::AssertionResult BitwiseEqual(const Eigen::MatrixXd& value, const Eigen::MatrixXd& reference,
                                               const Names& rows = {}, const Names& cols = {}) {
  if (value.rows() != reference.rows() || value.cols() != reference.cols()) return MatricesNear(value, reference, 0);
  for (Eigen::Index j = 0; j < value.cols(); ++j) {
    for (Eigen::Index i = 0; i < value.rows(); ++i) {
      if (std::memcmp(&value(i, j), &reference(i, j), sizeof(double)) == 0) continue;
      return ::testing::AssertionFailure() << "row " << IndexName(rows, i) << ", column " << IndexName(cols, j) << ": "
                                           << value(i, j) << " and " << reference(i, j) << " are not the same number";
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace costate::support

#endif  // COSTATE_TESTS_SUPPORT_MATRIX_NEAR_H_
