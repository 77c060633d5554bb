// iLQR on derivatives from anywhere: what a way of differentiating is worth to an optimizer, all else equal.
#ifndef COSTATE_TESTS_BENCHMARK_DERIVED_ILQR_H_
#define COSTATE_TESTS_BENCHMARK_DERIVED_ILQR_H_

#include <costate/costate.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "optimizer/regularization.h"

namespace costate {

/// A, B, C, D of all knots of a motion (N + 1 entries, of the last one C alone).
using DerivativeSource = std::function<void(const Trajectory&, std::vector<StepDerivative>*)>;

/// Gradient of the task's cost by the controls along a motion, with the derivatives chained as they are.
inline MatrixXd ChainGradient(const Task& task, const Trajectory& motion, const std::vector<StepDerivative>& along) {
  const double dt = task.knot_time();
  MatrixXd gradient(motion.U.rows(), motion.N());
  CostExpansion e;
  task.cost->Expand(ViewKnot(motion, motion.N(), dt), along[motion.N()].C, MatrixXd(), &e);
  VectorXd lambda = e.lx;
  for (int t = motion.N() - 1; t >= 0; t--) {
    task.cost->Expand(ViewKnot(motion, t, dt), along[t].C, along[t].D, &e);
    gradient.col(t) = e.lu + along[t].B.transpose() * lambda;
    lambda = e.lx + along[t].A.transpose() * lambda;
  }
  return gradient;
}

/// Plain iLQR: box-constrained Riccati recursion, regularization, ten halvings of the step. Ends after the iterations
/// or where no step helps at the largest regularization.
inline SolveResult SolveDerived(const Task& task, int iterations, const DerivativeSource& source) {
  const Problem problem = task.ToProblem();
  Simulator simulator(problem.model, problem.context, problem.substeps, 1);
  const double dt = simulator.knot_time();
  SolveResult out;
  simulator.Rollout(problem.x0, task.U_guess, &out.trajectory);
  out.cost = out.initial_cost = TotalCost(*problem.cost, out.trajectory, dt);
  Regularization mu{IlqrOptions()};
  std::vector<StepDerivative> along;
  LqProblem lq;
  lq.knots.resize(problem.N);
  RiccatiResult riccati;
  CostExpansion e;
  Trajectory trial;
  bool expand = true, search = true;
  while (search && static_cast<int>(out.iterations.size()) < iterations) {
    if (expand) {
      source(out.trajectory, &along);
      for (int t = 0; t <= problem.N; t++) {
        const bool last = t == problem.N;
        problem.cost->Expand(ViewKnot(out.trajectory, t, dt), along[t].C, last ? MatrixXd() : along[t].D, &e);
        if (last) {
          lq.lx = e.lx;
          lq.lxx = e.lxx;
          break;
        }
        const VectorXd u = out.trajectory.U.col(t);
        lq.knots[t] = {along[t].A,          along[t].B,         {}, e.lx, e.lu, e.lxx, e.lux, e.luu,
                       problem.u_lower - u, problem.u_upper - u};
      }
    }
    SolveRiccati(lq, {.regularization = mu.value()}, &riccati);
    IterationRecord record;
    for (double alpha = 1; riccati.ok && record.step == 0 && alpha > 5e-4; alpha /= 2) {
      const double expected = alpha * riccati.expected_linear + 0.5 * alpha * alpha * riccati.expected_quadratic;
      if (!simulator
               .RolloutPolicy(out.trajectory, {riccati.k, riccati.K}, alpha, problem.u_lower, problem.u_upper, &trial)
               .ok())
        continue;
      const double change = TotalCost(*problem.cost, trial, dt) - out.cost;
      if (!(change < 1e-4 * expected)) continue;
      mu.Adapt(change / expected, alpha);
      std::swap(out.trajectory, trial);
      out.cost += change;
      record.step = alpha;
    }
    expand = record.step > 0;
    if (!expand) search = mu.Grow();
    record.cost = out.cost;
    out.iterations.push_back(record);
  }
  return out;
}

}  // namespace costate

#endif  // COSTATE_TESTS_BENCHMARK_DERIVED_ILQR_H_
