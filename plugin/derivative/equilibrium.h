// The point that derivatives are taken about: the converged acceleration, its active set and H = ∂r/∂a.
#ifndef COSTATE_DERIVATIVE_EQUILIBRIUM_H_
#define COSTATE_DERIVATIVE_EQUILIBRIUM_H_

#include <costate/step.h>
#include <mujoco/mujoco.h>

#include <Eigen/Cholesky>
#include <algorithm>
#include <string>
#include <vector>

#include "derivative/lu.h"

namespace costate {

/// The dof of a row of friction or of a limit of a hinge or slide, whose J has no other entry; -1: it may have more.
inline int OnlyDof(const mjModel* m, const mjData* d, int row) {
  const int type = d->efc_type[row], id = d->efc_id[row];
  if (type == mjCNSTR_FRICTION_DOF) return id;
  return type == mjCNSTR_LIMIT_JOINT && m->jnt_type[id] != mjJNT_BALL ? m->jnt_dofadr[id] : -1;
}

/// Calls f(column, value) for each entry of row i of the constraint Jacobian; of a dense one also for zeros.
template <typename F>
void ForJacobianRow(const mjModel* m, const mjData* d, int i, F f) {
  if (mj_isSparse(m)) {
    const int adr = d->efc_J_rowadr[i];
    for (int k = 0; k < d->efc_J_rownnz[i]; k++) f(d->efc_J_colind[adr + k], d->efc_J[adr + k]);
  } else {
    const mjtNum* J = d->efc_J + static_cast<std::size_t>(i) * m->nv;
    if (const int only = OnlyDof(m, d, i); only >= 0) return f(only, J[only]);
    for (int k = 0; k < m->nv; k++) f(k, J[k]);
  }
}

/// Does the engine solve for the velocity after the step itself (mjINT_DISCRETE)? README.md, eq. (I8).
inline bool IsDiscrete(const mjModel* m) { return m->opt.integrator == mjINT_DISCRETE; }

/// Whose minimum is that of Newton, so that it may take over: under mjINT_DISCRETE PGS minimises in another metric.
inline bool NewtonMayReplace(const mjModel* m) { return !IsDiscrete(m) || m->opt.solver != mjSOL_PGS; }

/// M̂ a + c − p less the shift, (I8), by the engine's inverse dynamics: out (nv). @pre `data` is after the actuation
/// stage.
/// @post  qacc = a; D and aref of the rows are those of the step; forces of constraints are not.
void DiscreteForce(const mjModel* model, mjData* data, const mjtNum* a, mjtNum* out);

/// The acceleration a with r(a) = 0 (README.md, eq. (1)), found by the engine's Newton solver and polished with H.
class Equilibrium {
 public:
  /// mj_forward with the Newton solver. @pre `data` holds state, ctrl and context.
  /// @param sensors  false: sensors and energies are not computed.
  /// @return false with the reason if the numbers failed.
  bool Forward(const mjModel* model, mjData* data, bool sensors, StepStatus* status, std::string* reason);

  /// Forward up to the solver: qacc is where a search is to start, and the minimum itself without rows. Sensors of
  /// accelerations are left to mj_sensorAcc, and M's factor, which a search from a warm start does not need, to
  /// FactorMass.
  /// @return as Forward.
  bool Start(const mjModel* model, mjData* data, bool sensors, StepStatus* status, std::string* reason);
  /// M's factor in `data`, unless Start or Forward has left it there.
  void FactorMass(const mjModel* model, mjData* data);

  /// Forward, then Newton steps with H until r(a) = 0.
  /// @post  `data` is after mj_forward, with qacc = a and efc_state, efc_force, qfrc_constraint and the cone Hessians
  ///        at J a − aref; H is factored.
  /// @return false with the reason if r(a) = 0 cannot be had; `status` is then not kOk if the numbers failed.
  bool Solve(const mjModel* model, mjData* data, StepStatus* status, std::string* reason);

  /// r(a) at data->qacc, which becomes a(); states, forces and cone Hessians of `data` become those at J a − aref.
  /// @param Ma  M a, where the caller has it; under mjINT_DISCRETE M̂ a less the shift.
  void Residual(const mjModel* model, mjData* data, const double* Ma = nullptr);

  /// The same where r(a) = 0 is known, as without rows: M a is what the forces sum up to. residual() is left as it was.
  /// Where it accepts the forces, too, states are all that it writes.
  static bool AcceptsForces(const mjModel* model, const mjData* data);
  void Accept(const mjModel* model, mjData* data);

  const Eigen::VectorXd& a() const { return a_; }
  const Eigen::VectorXd& momentum_rate() const { return Ma_; }  ///< M a, as Residual takes it
  const Eigen::VectorXd& residual() const { return r_; }
  const Eigen::MatrixXd& HessianMatrix() const { return H_; }

  /// Has H no inverse, as that of dofs that move the same bodies in the same way? @pre Solve.
  bool IsSingular() const;

  /// H⁻¹ X and H⁻ᵀ X: M̂ of free bodies, (I8), is not symmetric. @pre Solve.
  Eigen::MatrixXd SolveH(const Eigen::MatrixXd& X) const;
  Eigen::MatrixXd SolveTransposedH(const Eigen::MatrixXd& X) const;

  /// HessianMatrix() at the states and cone Hessians of `data`, not factored. @pre Residual.
  void Assemble(const mjModel* model, mjData* data);

 private:
  double Polish(const mjModel* model, mjData* data);
  void UpdateConstraints(const mjModel* model, mjData* data);
  void Factor(const mjModel* model);

  Eigen::VectorXd a_, Ma_, r_, y_;
  Eigen::MatrixXd H_;
  bool symmetric_ = true;      // which of the two holds H
  bool mass_factored_ = true;  // M's factor is in the data that Start or Forward had last
  Eigen::LLT<Eigen::MatrixXd> llt_;
  DenseLu lu_;
};

/// Largest Newton step, relative to 1 + |a|, that counts as converged; the largest that rounding may excuse.
constexpr double kConverged = 1e-12;
constexpr double kAcceptable = 1e-8;
constexpr double kGood = 1e-9;          ///< relative error of a: that of A is of its size …
constexpr double kGoodOfCones = 2e-11;  ///< … and where cones bend the cost some ten, at times two hundred times that

/// Are there elliptic contacts in the middle zone, whose part of H changes with a?
inline bool HasCones(const mjData* data) {
  const int *begin = data->efc_state, *end = begin + data->nefc;
  return std::find(begin, end, static_cast<int>(mjCNSTRSTATE_CONE)) != end;
}

/// Why there is no derivative where H cannot be factored.
constexpr const char* kSingularHessian = "H is not positive definite";

/// M̂ of (I8) as a dense matrix, by nv + 1 calls of DiscreteForce. @pre, @post  as there.
void DiscreteMetric(const mjModel* model, mjData* data, Eigen::MatrixXd* metric);

/// M of `data` as a dense symmetric matrix, with exactly the entries that the engine keeps.
void FullMassMatrix(const mjModel* model, const mjData* data, Eigen::MatrixXd* M);

/// What the engine's warning counters and the numbers say after mj_forward.
StepStatus ForwardStatus(const mjModel* model, const mjData* data, const mjWarningStat* before);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_EQUILIBRIUM_H_
