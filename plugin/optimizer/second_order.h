// The exact Hessian of one knot's Lagrangian in (dx, du). README.md, "Second-order terms", eq. (16).
#ifndef COSTATE_OPTIMIZER_SECOND_ORDER_H_
#define COSTATE_OPTIMIZER_SECOND_ORDER_H_

#include <costate/solver.h>

#include <memory>
#include <vector>

#include "rollout/knot_products.h"

namespace costate {

/// H = ∂²(l + λᵀf) by (x, u): the loss's own second derivative, and the curvature of step and sensors along every unit
/// direction.
class SecondOrder {
 public:
  /// @param model  whose derivatives are taken.
  /// @throws Error{kUnsupported} as Curvature.
  SecondOrder(const Problem& problem, const mjModel* model, Level level, int workers);

  /// @param lambda  of the next state (ndx); not read at the last knot.
  /// @param C, D    of the sensors at this knot; not read when the cost has none.
  /// @param H       receives (ndx + nu)², at the last knot ndx², symmetric.
  /// @return        what a pull-back said.  Cost: 2 (ndx + nu) + 1 pull-backs.
  StepStatus Hessian(const Trajectory& trajectory, int t, double dt, ConstVectorRef lambda, ConstMatrixRef C,
                     ConstMatrixRef D, int worker, MatrixXd* H);

 private:
  const Problem& problem_;
  const mjModel* model_;
  Dims dims_;
  Level level_;
  bool sensors_;
  std::vector<std::unique_ptr<KnotProducts>> products_;  // one a worker
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_SECOND_ORDER_H_
