// Bodies that can exist, by ten free numbers. Section 2 of README.md.
#include <costate/parameter.h>

#include <Eigen/Cholesky>
#include <cmath>

namespace costate {
namespace {

using Matrix3 = Eigen::Matrix3d;
using Vector3 = Eigen::Vector3d;

constexpr double kThinnest = 1e-12;  // smallest ratio of a body's extents squared that has a logarithm
constexpr double kEqual = 1e-9;      // principal moments this close, relatively, have no axes of their own

// entry of θ → (row, column) of U's upper left block
constexpr int kShearRow[3] = {0, 0, 1}, kShearCol[3] = {1, 2, 2};

Matrix3 Factor(const LogCholeskyVector& theta) {
  Matrix3 L = Matrix3::Zero();
  for (int i = 0; i < 3; i++) {
    L(i, i) = std::exp(theta[1 + i]);
    L(kShearRow[i], kShearCol[i]) = theta[4 + i];
  }
  return L;
}

// ∂(L Lᵀ)/∂θ_k, 1 ≤ k ≤ 6
Matrix3 SquareSlope(const Matrix3& L, int k) {
  Matrix3 dL = Matrix3::Zero();
  if (k <= 3) dL(k - 1, k - 1) = L(k - 1, k - 1);
  else dL(kShearRow[k - 4], kShearCol[k - 4]) = 1;
  const Matrix3 half = dL * L.transpose();
  return half + half.transpose();
}

// I = tr(Σ) 1 − Σ
Matrix3 Inertia(const Matrix3& sigma) { return sigma.trace() * Matrix3::Identity() - sigma; }

}  // namespace

LogCholeskyVector LogCholesky(const RigidInertia& body) {
  // Σ / m about the centre of mass, = L Lᵀ with L upper triangular: a Cholesky factor from the last row up
  const Matrix3 B = (0.5 * body.inertia.trace() * Matrix3::Identity() - body.inertia) / body.mass;
  const Matrix3 reversed = B.reverse();
  const Eigen::LLT<Matrix3> llt(reversed);
  const Matrix3 L = Matrix3(llt.matrixL()).reverse();
  const bool extended = llt.info() == Eigen::Success && L.allFinite() &&
                        L.diagonal().minCoeff() > std::sqrt(kThinnest * B.cwiseAbs().maxCoeff());
  if (!(body.mass > 0) || !extended) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "this mass and inertia are not those of a body with extent in all directions: thin rods, flat plates and "
        "points have no log-Cholesky parameters");
  }
  LogCholeskyVector theta;
  theta[0] = 0.5 * std::log(body.mass);
  for (int i = 0; i < 3; i++) {
    theta[1 + i] = std::log(L(i, i));
    theta[4 + i] = L(kShearRow[i], kShearCol[i]);
    theta[7 + i] = body.com[i];
  }
  return theta;
}

RigidInertia FromLogCholesky(const LogCholeskyVector& theta) {
  const Matrix3 L = Factor(theta);
  RigidInertia body;
  body.mass = std::exp(2 * theta[0]);
  body.com = theta.tail<3>();
  body.inertia = body.mass * Inertia(L * L.transpose());
  return body;
}

Eigen::Matrix<double, 10, 10> LogCholeskyJacobian(const LogCholeskyVector& theta) {
  const Matrix3 L = Factor(theta);
  const Vector3 t = theta.tail<3>();
  const double m = std::exp(2 * theta[0]);
  const auto column = [](double dm, const Vector3& dh, const Matrix3& dI) {
    LogCholeskyVector c;
    c << dm, dh, dI(0, 0), dI(1, 1), dI(2, 2), dI(0, 1), dI(0, 2), dI(1, 2);
    return c;
  };
  Eigen::Matrix<double, 10, 10> jacobian;
  jacobian.col(0) = column(2 * m, 2 * m * t, 2 * m * Inertia(L * L.transpose() + t * t.transpose()));
  for (int k = 1; k <= 6; k++) jacobian.col(k) = column(0, Vector3::Zero(), m * Inertia(SquareSlope(L, k)));
  for (int i = 0; i < 3; i++) {
    const Vector3 e = Vector3::Unit(i);
    jacobian.col(7 + i) = column(0, m * e, m * Inertia(e * t.transpose() + t * e.transpose()));
  }
  return jacobian;
}

Eigen::Matrix<double, 10, 10> LogCholeskyJacobian(const LogCholeskyVector& theta, const double iquat[4]) {
  const Matrix3 L = Factor(theta), B = L * L.transpose();
  const double m = std::exp(2 * theta[0]);
  Eigen::Matrix<double, 3, 3, Eigen::RowMajor> rotation;
  mju_quat2Mat(rotation.data(), iquat);
  const Matrix3 R = rotation;
  const Vector3 moments = (R.transpose() * (m * Inertia(B)) * R).diagonal();

  // I = R Λ Rᵀ: dΛ is the diagonal of Rᵀ dI R, the turn comes from what is beside it
  const auto turn = [&](double entry, double a, double b) {
    return std::abs(a - b) <= kEqual * std::max(std::abs(a), std::abs(b)) ? 0 : entry / (a - b);
  };
  Eigen::Matrix<double, 10, 10> jacobian = Eigen::Matrix<double, 10, 10>::Zero();
  jacobian(0, 0) = 2 * m;
  for (int k = 0; k <= 6; k++) {
    const Matrix3 dI = m * Inertia(k == 0 ? Matrix3(2 * B) : SquareSlope(L, k)), D = R.transpose() * dI * R;
    const Vector3 phi(turn(D(1, 2), moments[1], moments[2]), turn(D(0, 2), moments[2], moments[0]),
                      turn(D(0, 1), moments[0], moments[1]));
    jacobian.block<3, 1>(4, k) = D.diagonal();
    jacobian.block<3, 1>(7, k) = R * phi;
  }
  jacobian.block<3, 3>(1, 7).setIdentity();
  return jacobian;
}

}  // namespace costate
