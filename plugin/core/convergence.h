#ifndef COSTATE_CORE_CONVERGENCE_H_
#define COSTATE_CORE_CONVERGENCE_H_

#include <mujoco/mujoco.h>

#include <algorithm>

namespace costate {

/// Lets the engine's solver search until `tolerance`, with `iterations` at least and a line search of at least the
/// engine's own default: models made for speed cut it to four or five points, with which Newton's method may stall.
inline void SearchUntil(mjtNum tolerance, int iterations, mjOption* option) {
  constexpr int kLineIterations = 50;
  constexpr mjtNum kLineTolerance = 0.01;
  option->tolerance = tolerance;
  option->iterations = std::max(option->iterations, iterations);
  option->ls_iterations = std::max(option->ls_iterations, kLineIterations);
  option->ls_tolerance = std::min(option->ls_tolerance, kLineTolerance);
}

/// The least tolerance for SearchUntil: with none the engine's solver goes on until nothing gets better, but with flexes
/// under the discrete integrator it may then end at accelerations that are not finite.
inline mjtNum LeastTolerance(const mjModel* model) {
  return model->nflex > 0 && model->opt.integrator == mjINT_DISCRETE ? 1e-14 : 0;
}

}  // namespace costate

#endif  // COSTATE_CORE_CONVERGENCE_H_
