// Linear-quadratic problems to be solved both by the recursion and as one dense system.
#ifndef COSTATE_TESTS_OPTIMIZER_RANDOM_LQ_H_
#define COSTATE_TESTS_OPTIMIZER_RANDOM_LQ_H_

#include <costate/lqr.h>

#include <random>

namespace costate {

/// A convex problem without structure: cross terms, gradients and, when asked for, gaps
inline LqProblem RandomProblem(int N, int ndx, int nu, bool gaps, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  const auto draw = [&] { return normal(generator); };
  LqProblem problem;
  for (int t = 0; t < N; ++t) {
    // [lxx luxᵀ; lux luu] = RᵀR + I/10
    const MatrixXd R = MatrixXd::NullaryExpr(ndx + nu, ndx + nu, draw);
    const MatrixXd H = R.transpose() * R + 0.1 * MatrixXd::Identity(ndx + nu, ndx + nu);
    LqKnot knot;
    knot.A = 0.6 * MatrixXd::NullaryExpr(ndx, ndx, draw);
    knot.B = MatrixXd::NullaryExpr(ndx, nu, draw);
    if (gaps) knot.gap = VectorXd::NullaryExpr(ndx, draw);
    knot.lx = VectorXd::NullaryExpr(ndx, draw);
    knot.lu = VectorXd::NullaryExpr(nu, draw);
    knot.lxx = H.topLeftCorner(ndx, ndx);
    knot.lux = H.bottomLeftCorner(nu, ndx);
    knot.luu = H.bottomRightCorner(nu, nu);
    problem.knots.push_back(knot);
  }
  const MatrixXd R = MatrixXd::NullaryExpr(ndx, ndx, draw);
  problem.lx = VectorXd::NullaryExpr(ndx, draw);
  problem.lxx = R.transpose() * R;
  return problem;
}

}  // namespace costate

#endif  // COSTATE_TESTS_OPTIMIZER_RANDOM_LQ_H_
