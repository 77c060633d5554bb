#include <costate/parameter.h>
#include <gtest/gtest.h>

#include <Eigen/Eigenvalues>
#include <Eigen/Geometry>

#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/random_state.h"

namespace costate {
namespace {

using Vector10 = LogCholeskyVector;

// m, m c, and I about the origin of the body's frame
Vector10 Barycentric(const RigidInertia& body) {
  const Eigen::Vector3d c = body.com;
  const Eigen::Matrix3d I =
      body.inertia + body.mass * (c.squaredNorm() * Eigen::Matrix3d::Identity() - c * c.transpose());
  Vector10 v;
  v << body.mass, body.mass * c, I(0, 0), I(1, 1), I(2, 2), I(0, 1), I(0, 2), I(1, 2);
  return v;
}

TEST(LogCholesky, GoesThereAndBack) {
  support::Random random(1);
  for (int trial = 0; trial < 50; trial++) {
    const Vector10 theta = random.Vector(10);
    const RigidInertia body = FromLogCholesky(theta);
    EXPECT_TRUE(support::MatricesNear(LogCholesky(body), theta, 1e-11));
    const RigidInertia again = FromLogCholesky(LogCholesky(body));
    EXPECT_TRUE(support::MatricesNearRelative(again.inertia, body.inertia, 1e-13));
    EXPECT_NEAR(again.mass, body.mass, 1e-13 * body.mass);
  }
}

// a solid box: Σ = m/12 diag(a², b², c²), so e^d is each side over √12
TEST(LogCholesky, OfABoxIsItsSides) {
  const double m = 3, a = 0.4, b = 0.7, c = 1.1;
  RigidInertia box{m, {0.1, -0.2, 0.3}, Eigen::Vector3d(b * b + c * c, a * a + c * c, a * a + b * b).asDiagonal()};
  box.inertia *= m / 12;
  const Vector10 theta = LogCholesky(box);
  Vector10 expected;
  expected << 0.5 * std::log(m), std::log(a / std::sqrt(12.)), std::log(b / std::sqrt(12.)),
      std::log(c / std::sqrt(12.)), 0, 0, 0, 0.1, -0.2, 0.3;
  EXPECT_TRUE(support::MatricesNear(theta, expected, 1e-14));
}

// any ten numbers make a body: positive moments that obey the triangle inequality
TEST(LogCholesky, EveryVectorIsABodyThatCanExist) {
  support::Random random(2);
  for (int trial = 0; trial < 200; trial++) {
    const RigidInertia body = FromLogCholesky(random.Vector(10, 2.5));
    const Eigen::Vector3d moments = Eigen::SelfAdjointEigenSolver<Eigen::Matrix3d>(body.inertia).eigenvalues();
    EXPECT_GT(body.mass, 0);
    EXPECT_GT(moments[0], 0);
    EXPECT_GT(moments[0] + moments[1], moments[2]);
  }
}

TEST(LogCholesky, JacobianAgreesWithDifferences) {
  support::Random random(3);
  for (int trial = 0; trial < 5; trial++) {
    const Vector10 theta = random.Vector(10);
    Eigen::MatrixXd reference(10, 10);
    for (int k = 0; k < 10; k++) {
      const auto at = [&](double h) { return Barycentric(FromLogCholesky(theta + h * Vector10::Unit(k))); };
      const double h = 1e-3;
      reference.col(k) = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
    }
    EXPECT_TRUE(support::MatricesNearRelative(LogCholeskyJacobian(theta), reference, 1e-11));
  }
}

// to mass, ipos, moments and axes: what the first Jacobian says of the inertia, rebuilt from them
TEST(LogCholesky, JacobianToPrincipalAxesRebuildsTheInertia) {
  support::Random random(4);
  for (int trial = 0; trial < 5; trial++) {
    const Vector10 theta = random.Vector(10);
    const RigidInertia body = FromLogCholesky(theta);
    const Eigen::SelfAdjointEigenSolver<Eigen::Matrix3d> solver(body.inertia);
    Eigen::Matrix3d R = solver.eigenvectors();
    if (R.determinant() < 0) R.col(0) *= -1;
    const Eigen::Quaterniond q(R);
    const double iquat[4] = {q.w(), q.x(), q.y(), q.z()};
    const Eigen::Matrix<double, 10, 10> J = LogCholeskyJacobian(theta, iquat);
    Eigen::MatrixXd value(10, 10), reference(10, 10);
    for (int k = 0; k < 10; k++) {
      const double h = 1e-4;
      const auto moved = [&](double s) {
        const Vector10 d = s * J.col(k);
        RigidInertia b{body.mass + d[0], body.com + d.segment<3>(1), {}};
        const Eigen::Vector3d w = d.tail<3>();
        const Eigen::Matrix3d turned =
            Eigen::AngleAxisd(w.norm(), w.norm() > 0 ? w.normalized() : Eigen::Vector3d::UnitX()) * R;
        b.inertia = turned * (solver.eigenvalues() + d.segment<3>(4)).asDiagonal() * turned.transpose();
        return Barycentric(b);
      };
      value.col(k) = (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h);
    }
    EXPECT_TRUE(support::MatricesNearRelative(value, LogCholeskyJacobian(theta), 1e-10));
  }
}

TEST(LogCholesky, ThinBodiesAreRefused) {
  RigidInertia rod{1, Eigen::Vector3d::Zero(), Eigen::Vector3d(1, 1, 0).asDiagonal()};
  EXPECT_ERROR(LogCholesky(rod), ErrorCode::kInvalidArgument, "thin rods");
  RigidInertia impossible{1, Eigen::Vector3d::Zero(), Eigen::Vector3d(1, 1, 3).asDiagonal()};
  EXPECT_ERROR(LogCholesky(impossible), ErrorCode::kInvalidArgument, "no log-Cholesky");
}

}  // namespace
}  // namespace costate
