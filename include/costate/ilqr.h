// Iterative LQR with control bounds (box-DDP, Gauss–Newton).
#ifndef COSTATE_ILQR_H_
#define COSTATE_ILQR_H_

#include <costate/lqr.h>
#include <costate/solver.h>

namespace costate {

struct IlqrOptions {
  int iterations = 200;
  double tolerance = 1e-6;           ///< stop when the relative cost decrease stays below it
  double gradient_tolerance = 1e-7;  ///< stop when max |Qu| over free controls is below it, relative to 1 + |cost|
  double regularization_init = 1e-6;
  double regularization_min = 1e-8;
  double regularization_max = 1e10;
  double regularization_factor = 4;  ///< grows by it on failure, shrinks by it on success
  int line_search_steps = 10;        ///< alpha = 1, 1/2, 1/4 …
  double line_search_ratio = 1e-4;   ///< accepted when actual / expected change exceeds it (Armijo)
  int threads = 0;                   ///< 0: all cores
  /// Level 3, where it is used, takes forward differences at the model's own solver tolerance: a descent direction needs no more.
  LinearizeOptions derivative{.centered = false, .converge = false};
};

/// Minimizes problem.cost by iLQR from the control guess U (nu × N; clamped to the limits).
///
/// Each iteration: derivatives along the trajectory (parallel over knots), Riccati recursion with box constraints,
/// parallel line search over alpha. The best iterate is returned whatever the status.
/// @throws Error for a malformed problem; never for numerical failure.
/// Source: plugin/optimizer/README.md; Tassa, Mansard & Todorov 2014.
SolveResult SolveIlqr(const Problem& problem, ConstMatrixRef U, const IlqrOptions& options = {},
                      const IterationCallback& callback = {});

}  // namespace costate

#endif  // COSTATE_ILQR_H_
