// A knot's derivative and cost into the linear-quadratic problem, and the policy out of its solution.
#ifndef COSTATE_OPTIMIZER_TAKE_KNOT_H_
#define COSTATE_OPTIMIZER_TAKE_KNOT_H_

#include <costate/cost.h>
#include <costate/lqr.h>
#include <costate/rollout.h>

#include <utility>
#include <vector>

#include "optimizer/step_rows.h"

namespace costate {

/// Derivatives of the sensors that the cost reads, and of no other.
inline void SelectSensors(const Cost& cost, const mjModel* model, LinearizeOptions* options, Simulator* simulator) {
  options->sensors = cost.NeedsSensors();
  std::vector<char> read(model->nsensordata, 0);
  cost.MarkSensors(&read);
  simulator->SelectSensors(read);
}

/// Matrices change places instead of being copied: one set is in memory. At the last knot only the cost counts.
inline void TakeKnot(int t, const Simulator& of, StepDerivative* derivative, CostExpansion* expansion, LqProblem* lq) {
  if (t == static_cast<int>(lq->knots.size())) {
    std::swap(lq->lx, expansion->lx);
    std::swap(lq->lxx, expansion->lxx);
    return;
  }
  LqKnot& knot = lq->knots[static_cast<std::size_t>(t)];
  std::swap(knot.A, derivative->A);
  std::swap(knot.B, derivative->B);
  std::swap(knot.lx, expansion->lx);
  std::swap(knot.lu, expansion->lu);
  std::swap(knot.lxx, expansion->lxx);
  std::swap(knot.lux, expansion->lux);
  std::swap(knot.luu, expansion->luu);
  const bool once = of.substeps() == 1 && of.model()->opt.integrator != mjINT_RK4;
  FindIntegratedRows(of.dims().nv, once ? of.model()->opt.timestep : 0, &knot);
}

/// By swap, too.
inline void TakePolicy(RiccatiResult* riccati, Policy* policy) {
  std::swap(policy->k, riccati->k);
  std::swap(policy->K, riccati->K);
  std::swap(policy->dx0, riccati->dx0);
}

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TAKE_KNOT_H_
