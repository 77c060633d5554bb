// RK4: the derivative of the engine's Runge–Kutta–Munthe-Kaas step from the derivatives of its four accelerations.
#ifndef COSTATE_DERIVATIVE_RUNGE_KUTTA_H_
#define COSTATE_DERIVATIVE_RUNGE_KUTTA_H_

#include <costate/derivative.h>

#include <functional>
#include <string>
#include <vector>

#include "core/dense_product.h"
#include "derivative/servo.h"

namespace costate {

/// What one stage needs: at the state in `data`, the acceleration and act_dot, and their derivatives by (q, v, act, u).
struct StageDerivative {
  VectorXd rate;   ///< of (v, act)
  MatrixXd slope;  ///< nv + na rows, ndx+nu columns, more where there are more inputs than u
};

/// What a step keeps between calls, so that those after the first allocate nothing.
struct RungeKuttaWork {
  StageDerivative first, stage;
  VectorXd q0, x0, u, x, k, sum_k, sum_rate;  // x: (v, act)
  MatrixXd dx;                                // (dq; dv; dw) of the stage, ndx rows
  MatrixXd dk, next_dk, drate;                // of its rates
  MatrixXd sum_dk, sum_drate, all;
  PackedMatrix packed;
  std::vector<ActivationSide> sides;  // of the point's activations
};

/// Fills a StageDerivative about the state, ctrl and context in `data`; false stops the step.
using StageFunction = std::function<bool(mjData* data, StageDerivative* stage)>;

/// Why the chain of stages does not hold for this model; "" when it does.
std::string RungeKuttaRefusal(const mjModel* model);

/// A and B of one RK4 step, B by all inputs. Source: README.md, eq. (I6).
///
/// @param work  `first` holds the derivative about the point itself.
/// @pre   `data` is at the point, after mj_fwdActuation. @post `data` is at the last stage.
/// @return false if `stage` returned false.
bool RungeKuttaStep(const mjModel* model, mjData* data, const StageFunction& stage, RungeKuttaWork* work,
                    StepDerivative* out);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_RUNGE_KUTTA_H_
