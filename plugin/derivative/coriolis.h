// h ∂c/∂v of the bias force c(q, v), what the implicit integrator adds to its matrix. Equation (I7) of README.md.
#ifndef COSTATE_DERIVATIVE_CORIOLIS_H_
#define COSTATE_DERIVATIVE_CORIOLIS_H_

#include <mujoco/mujoco.h>

#include "derivative/columns.h"
#include "derivative/tree_derivative.h"

namespace costate {

class CoriolisDamping {
 public:
  explicit CoriolisDamping(const mjModel* model);

  /// h ∂c/∂v (nv × nv).
  void Compute(const mjModel* model, const mjData* data, Eigen::MatrixXd* out);

  /// E −= d(h ∂c/∂v ā) at fixed ā, q and v columns.
  void AddColumns(const mjModel* model, const mjData* data, const Eigen::VectorXd& applied, Columns* E);

 private:
  void Pass(const mjModel* model, const mjData* data, const double* v);

  TreeDerivative tree_;
  BlockedMatrix minus_;  // −∂c at the velocity of the last pass
  Eigen::VectorXd zero_, v_;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_CORIOLIS_H_
