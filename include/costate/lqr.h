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
  VectorXd gap;  ///< f(x_t, u_t) ⊖ x_{t+1}; empty means zero (single shooting)
  VectorXd lx, lu;
  MatrixXd lxx, lux, luu;             ///< lxx and luu symmetric
  VectorXd du_lower, du_upper;        ///< bounds on du, ±infinity where there is none; empty means none
  MatrixXd lower_slope, upper_slope;  ///< of the bounds by dx (nu × ndx); empty means zero
  /// Of a step that leads positions along their new velocities, q' = q + h v': h where row i < nv of [A B] is e_i + h
  /// times row nv + i, else 0; empty: none is known to be. The recursion does without such rows.
  VectorXd integrated{};
};

/// A start that may move: dx_0 is free within bounds in some entries, else 0. The terminal cost may read it, too:
///
///   l_N += l0ᵀdx_0 + dx_0ᵀl0x dx_N + ½ dx_0ᵀl00 dx_0
struct LqStart {
  std::vector<int> entries{};  ///< of dx_0, rising; empty: dx_0 = 0
  VectorXd lower{}, upper{};   ///< of those entries, lower ≤ 0 ≤ upper, ±infinity where there is none
  VectorXd l0{};               ///< ndx; empty: the terminal cost does not read dx_0
  MatrixXd l0x{}, l00{};       ///< ndx × ndx
};

struct LqProblem {
  std::vector<LqKnot> knots;  ///< N ≥ 1, all of the same sizes
  VectorXd lx;                ///< terminal gradient (ndx)
  MatrixXd lxx;               ///< terminal Hessian (ndx×ndx), symmetric
  LqStart start{};
  VectorXd unit{};  ///< of du (nu), in which regularization counts it: Quu + mu diag(unit)⁻²; empty: 1
};

struct RiccatiOptions {
  double regularization = 0;  ///< added to Quu: Quu + mu I (control; LqProblem::unit), and to the start's Hessian; …
  double regularization_state = 0;  ///< … or to Vxx inside Quu and Qux: Bᵀ(Vxx + mu I)B (state)
  bool values = true;               ///< keep Vx and Vxx of all knots; else they are left empty: a third of the memory
};

/// Memory of one box-constrained QP and the factor that it ended with; see plugin/optimizer/box_qp.h.
struct BoxQpScratch {
  MatrixXd L;  ///< lower triangle: Cholesky factor of H with the rows and columns of clamped variables those of I
  VectorXd gradient, direction, trial;
  std::vector<char> clamped, clamped_before;
  std::vector<double> packed;
};

/// Memory of what is left of [A B] without integrated rows; see plugin/optimizer/step_rows.h.
struct StepRowsScratch {
  std::vector<int> own;  ///< rows of positions that are not
  MatrixXd A, B, LV, LVL;
  VectorXd Lx;
};

/// Memory of the recursion, kept in the result so that a second call with the same sizes allocates no matrix.
struct RiccatiScratch {
  MatrixXd VA, VB, Qxx, Qux, Quu, Quu_mu, M, S, Vxx_pair[2];
  VectorXd Vx, Qx, Qu, Quu_k, guess, Vx_pair[2];
  StepRowsScratch rows;
  BoxQpScratch qp;
  std::vector<double> packed;

  // of a start that may move, m entries of it: values, and the share of k that its step has
  VectorXd V0, theta;
  MatrixXd V00, Q0u, H;
  std::vector<MatrixXd> V0x, K0;  // N+1 of m × ndx; N of nu × m
};

struct RiccatiResult {
  bool ok = false;  ///< false: Quu was not positive definite (or not finite) at `failed_knot`
  int failed_knot = -1;
  MatrixXd k;                 ///< nu × N
  std::vector<MatrixXd> K;    ///< N of nu × ndx
  VectorXd dx0;               ///< ndx: the step of a start that may move; empty where it may not
  std::vector<VectorXd> Vx;   ///< N+1, or none
  std::vector<MatrixXd> Vxx;  ///< N+1, symmetric to the last bit, or none
  double expected_linear = 0;  ///< Σ kᵀQu: without gaps, cost change at step alpha is alpha·linear + ½ alpha²·quadratic
  double expected_quadratic = 0;  ///< Σ kᵀQuu k; in both the share of dx0 is added
  double expected_gap = 0;        ///< Σ Vxᵀgap + ½ gapᵀVxx gap: with gaps, the change at alpha = 1 has this added
  VectorXd gradient_norm_per_knot;  ///< N: max |Qu| over controls that may still move downhill (KKT residual)
  double gradient_norm = 0;         ///< the largest of them, and of the slopes by the start's free entries
  MatrixXd curvature;               ///< nu × N: the diagonal of Quu, without regularization; 0 before failed_knot
  RiccatiScratch scratch;
};

/// Solves by the Riccati recursion; with bounds each knot's k is a box-constrained QP (projected Newton) and K is zero
/// in the rows of clamped controls.
///
///   minimize Σ_t l_t(dx_t, du_t) + l_N(dx_N, dx_0)  subject to  the dynamics and, at dx = 0, du_lower ≤ du ≤ du_upper
///
/// dx_0 = 0, or dx0 where the start may move: the minimum of the value function at knot 0 within its bounds, of least
/// length where that has no curvature. Then k is the feed-forward that belongs to this dx0, du = k + K dx.
///
/// `out` is reused: no matrix is allocated when its sizes fit. Its previous content has no influence.
/// @throws Error{kInvalidArgument} without knots, for entries of the start that are none of dx, and for bounds that
///         exclude each other or are no numbers, with the knot; Error{kDimensionMismatch} for a part of another size
///         (`integrated`: of more than half of dx), with its name and both sizes.
/// Cost: about 3 ndx³ + 6 ndx² nu floating-point operations a knot, half as many where half of the rows of [A B] are
/// integrated; where the terminal cost reads dx_0 in m free entries, 2 m ndx (ndx + nu) beside them.
/// Source: plugin/optimizer/README.md, "iLQR", "A free start"; Tassa, Mansard & Todorov 2014.
void SolveRiccati(const LqProblem& problem, const RiccatiOptions& options, RiccatiResult* out);

}  // namespace costate

#endif  // COSTATE_LQR_H_
