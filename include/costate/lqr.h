// Linear-quadratic problems and their backward recursion: plain linear algebra, no MuJoCo.
#ifndef COSTATE_LQR_H_
#define COSTATE_LQR_H_

#include <vector>

#include <costate/types.h>

namespace costate {

/// One knot of a linear-quadratic problem in deviations (dx, du):
///
///   dx' = A dx + B du + gap
///   l   = lxᵀdx + luᵀdu + ½ dxᵀlxx dx + duᵀlux dx + ½ duᵀluu du
struct LqKnot {
  MatrixXd A, B;
  VectorXd gap;            ///< f(x_t, u_t) ⊖ x_{t+1}; empty means zero (single shooting)
  VectorXd lx, lu;
  MatrixXd lxx, lux, luu;
  VectorXd du_lower, du_upper;  ///< bounds on du; empty means none
};

struct LqProblem {
  std::vector<LqKnot> knots;  ///< N
  VectorXd lx;                ///< terminal gradient (ndx)
  MatrixXd lxx;               ///< terminal Hessian (ndx×ndx)
};

struct RiccatiOptions {
  double regularization = 0;        ///< added to Quu: Quu + mu I (control) …
  double regularization_state = 0;  ///< … or to Vxx inside Quu and Qux: Bᵀ(Vxx + mu I)B (state)
};

struct RiccatiResult {
  bool ok = false;       ///< false: Quu was not positive definite at `failed_knot`
  int failed_knot = -1;
  MatrixXd k;                 ///< nu × N
  std::vector<MatrixXd> K;    ///< N of nu × ndx
  std::vector<VectorXd> Vx;   ///< N+1
  std::vector<MatrixXd> Vxx;  ///< N+1
  double expected_linear = 0;     ///< Σ kᵀQu: cost change at step alpha is alpha·linear + ½ alpha²·quadratic
  double expected_quadratic = 0;  ///< Σ kᵀQuu k
  double gradient_norm = 0;       ///< max |Qu| over free controls
};

/// Solves by the Riccati recursion; with bounds each knot's k is a box-constrained QP (projected Newton) and K is zero in
/// the rows of clamped controls.
/// `out` is reused: no allocation when its sizes fit.
void SolveRiccati(const LqProblem& problem, const RiccatiOptions& options, RiccatiResult* out);

}  // namespace costate

#endif  // COSTATE_LQR_H_
