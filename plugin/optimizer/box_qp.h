// Small convex quadratic programs with bounds: one a knot in the backward recursion.
#ifndef COSTATE_OPTIMIZER_BOX_QP_H_
#define COSTATE_OPTIMIZER_BOX_QP_H_

#include <costate/lqr.h>

namespace costate {

enum class BoxQpStatus {
  kSolved,
  kIndefinite,      ///< H restricted to the free variables is not positive definite
  kIterationLimit,  ///< x is feasible and better than the start, but not the minimum
};

/// minimize ½ xᵀH x + gᵀx  subject to  lower ≤ x ≤ upper  (±infinity allowed, lower ≤ upper)
///
/// Projected Newton: the free variables take the Newton step of the free block, projected on the box, with a
/// backtracking search along the projected path. It ends exactly: once the active set is right, one step reaches the
/// minimum. Where curvatures are so far apart that no such step leads on, variables enter and leave the active set one
/// by one.
/// @param H  symmetric (n × n).  @param x  start, any value; receives the minimum.
/// Source: plugin/optimizer/README.md, "iLQR"; Tassa, Mansard & Todorov 2014, sec. III; Bertsekas 1982.
BoxQpStatus SolveBoxQp(ConstMatrixRef H, ConstVectorRef g, ConstVectorRef lower, ConstVectorRef upper, VectorRef x,
                       BoxQpScratch* scratch);

/// Y ← H_ff⁻¹ Y in the free rows, 0 in the clamped rows, with the factor of the last SolveBoxQp.
void SolveFree(BoxQpScratch* scratch, MatrixRef Y);

/// S ← its Cholesky factor (lower triangle). False when S is not positive definite to rounding, or not finite.
bool FactorInPlace(MatrixXd* S);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_BOX_QP_H_
