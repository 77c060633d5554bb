// Feasibility-driven differential dynamic programming: states may be guessed, and need not be a motion until the end.
#ifndef COSTATE_FDDP_H_
#define COSTATE_FDDP_H_

#include <costate/ilqr.h>

namespace costate {

/// Minimizes problem.cost by multiple shooting from states and controls that need not belong to each other.
///
///   x_{t+1} = f(x_t, u_t) ⊕ -(1 - alpha) gap_t,   gap_t = f(x_t, u_t) ⊖ x_{t+1}
///
/// Each iteration: derivatives about the iterate, the Riccati recursion with gaps, and a search over alpha along the
/// policy; a step of alpha leaves 1 - alpha of every gap, and a filter weighs gaps against cost. Bounds on controls are
/// kept by a primal-dual logarithmic barrier while the solution lies at some of them, by the box-constrained recursion
/// of iLQR before and after. options.second_order takes the exact Hessian of the Lagrangian, curvature of the steps and
/// sensors included: it converges quadratically, and 2 (ndx + nu) pull-backs a knot is what it costs.
///
/// The result is a motion whatever the status: the best one found or, where gaps remain, what the last policy makes of
/// the last iterate; the message then has the largest gap by knot and name.
/// @param X  state guess (nx × (N+1)), its first column is replaced by x0; no columns: the motion under U.
/// @param U  control guess (nu × N), clamped to the limits.
/// @throws Error as SolveIlqr; with second_order Error{kUnsupported} as Curvature.
/// Cost: as SolveIlqr, second-order terms beside it. Bit for bit the same at any thread count.
/// Source: plugin/optimizer/README.md, "Multiple shooting"; Mastalli et al. 2020; Wächter & Biegler 2006.
SolveResult SolveFddp(const Problem& problem, ConstMatrixRef X, ConstMatrixRef U, const IlqrOptions& options = {},
                      const IterationCallback& callback = {});

}  // namespace costate

#endif  // COSTATE_FDDP_H_
