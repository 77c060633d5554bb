// From the derivative of the acceleration to that of the step: the integrators' maps, exact in the tangent space.
#ifndef COSTATE_DERIVATIVE_INTEGRATOR_H_
#define COSTATE_DERIVATIVE_INTEGRATOR_H_

#include <costate/derivative.h>
#include <mujoco/mujoco.h>

#include <vector>

#include "derivative/tree_solver.h"

namespace costate {

/// Rows of q' = q ⊕ h v' (README.md, eq. (I5)): out = Dq dq + h Dv dv' for joint rotations, dq + h dv' elsewhere.
///
/// @param v  v' (nv).  @param dv  dv'/d(x, u) (nv × columns).
/// @param out  receives the position rows (nv × columns); the first nv columns are those of dq.
void PositionRows(const mjModel* model, const mjtNum* v, double h, const Eigen::Ref<const Eigen::MatrixXd>& dv,
                  Eigen::Ref<Eigen::MatrixXd> out);

/// The transpose of q' = q ⊕ h v': pulls λ_q back. q (nv) += Dqᵀ λ_q, v_next (nv) += h Dvᵀ λ_q.
void PullPositions(const mjModel* model, const mjtNum* v, double h, const double* lambda_q, double* q, double* v_next);

/// dq' (nv) = Dq dq + h Dv dv'.
void PushPositions(const mjModel* model, const mjtNum* v, double h, const double* dq, const double* dv_next,
                   double* out);

/// A and B of the single-stage integrators from dā/d(x, u) (nv × (ndx+nu)) and v' = v + h ā; rows of act' are left
/// zero. @return whether dā is finite.
bool AssembleStep(const mjModel* model, const mjtNum* v_next, const BlockedMatrix& da, StepDerivative* out);

/// The same block by block, for a caller that makes them one after the other. Allocates nothing after the first step.
class StepAssembly {
 public:
  void Start(const mjModel* model, const mjtNum* v_next, StepDerivative* out);
  /// @param more  is added to `da`, unless it is null. Columns behind the last one are finite.
  void AddBlock(const mjModel* model, int block, const double* da, const double* more, StepDerivative* out);
  /// @return whether dā was finite, block by block while it was at hand: A and B are then finite too.
  bool Finish(const mjModel* model, StepDerivative* out) const;

 private:
  struct Rotation {
    int dof;
    Eigen::Matrix<double, 3, 3, Eigen::RowMajor> by_position, by_velocity;  // Dq and h Dv
  };
  std::vector<Rotation> rotation_;
  bool finite_ = true;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_INTEGRATOR_H_
