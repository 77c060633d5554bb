#include <costate/error.h>
#include <costate/spline.h>
#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <algorithm>

namespace costate {

const char* ToString(SplineOrder order) {
  return order == SplineOrder::kZero ? "zero" : order == SplineOrder::kLinear ? "linear" : "cubic";
}

MatrixXd SplineBasis(const SplineOptions& options, int N) {
  const int nodes = options.knots;
  if (N < 1 || nodes < 1 || nodes > N) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a spline of {} knots cannot be laid over {} control intervals", nodes, N));
  }
  MatrixXd S = MatrixXd::Zero(nodes, N);
  for (int t = 0; t < N; t++) {
    if (options.order == SplineOrder::kZero) {
      S(static_cast<int>(static_cast<long>(t) * nodes / N), t) = 1;
      continue;
    }
    const double place = nodes > 1 && N > 1 ? static_cast<double>(t) * (nodes - 1) / (N - 1) : 0;
    const int k = std::min(static_cast<int>(place), std::max(0, nodes - 2));
    const double s = place - k;
    if (options.order == SplineOrder::kLinear) {
      S(k, t) += 1 - s;
      S(std::min(k + 1, nodes - 1), t) += s;
      continue;
    }

    // Catmull–Rom, the end knots repeated
    const double w[4] = {0.5 * (-s + 2 * s * s - s * s * s), 0.5 * (2 - 5 * s * s + 3 * s * s * s),
                         0.5 * (s + 4 * s * s - 3 * s * s * s), 0.5 * (-s * s + s * s * s)};
    for (int i = 0; i < 4; i++) S(std::clamp(k - 1 + i, 0, nodes - 1), t) += w[i];
  }
  return S;
}

MatrixXd FitSpline(ConstMatrixRef S, ConstMatrixRef U) {
  if (S.cols() != U.cols()) {
    throw Error(ErrorCode::kDimensionMismatch,
                fmt::format("U has {} control intervals, the spline {}", U.cols(), S.cols()));
  }
  // C S Sᵀ = U Sᵀ
  return (S * S.transpose()).ldlt().solve(S * U.transpose()).transpose();
}

}  // namespace costate
