// A body with a free joint that is a whole tree: its gyroscopic forces are what implicitfast and the discrete integrator
// take at the end of the step. Equation (I4) of README.md.
#ifndef COSTATE_DERIVATIVE_FREE_BODY_H_
#define COSTATE_DERIVATIVE_FREE_BODY_H_

#include <mujoco/mujoco.h>

#include "derivative/columns.h"
#include "derivative/lu.h"
#include "derivative/spatial.h"

namespace costate {

/// Is a body the root of a tree of six dofs, on a free joint? Bodies may be welded to it.
bool IsStandaloneFreeBody(const mjModel* model, int body);

class FreeBody {
 public:
  /// @pre IsStandaloneFreeBody; `data` is after the velocity stage.
  FreeBody(const mjModel* model, const mjData* data, int body);

  int dof() const { return dof_; }  ///< the first of six
  /// h ∂c/∂v, which is not symmetric.
  const Mat6& damping() const { return damping_; }
  /// E −= d(h ∂c/∂v a) at a fixed acceleration of all dofs.
  void AddColumns(const mjModel* model, const mjData* data, const double* a, Columns* E) const;

 private:
  int body_, dof_;
  double mass_;
  Vec3 com_;      // in the body's frame
  Mat3 inertia_;  // about the com, in the body's frame
  Mat6 damping_;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_FREE_BODY_H_
