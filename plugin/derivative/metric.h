// What the discrete integrator adds to M and to its rows: M̂ − M, its shift, and how hard rows get with it. (I8)–(I10),
// (I12) and (C23) of README.md.
#ifndef COSTATE_DERIVATIVE_METRIC_H_
#define COSTATE_DERIVATIVE_METRIC_H_

#include <mujoco/mujoco.h>

#include <Eigen/Core>
#include <string>
#include <vector>

#include "core/refilled.h"
#include "derivative/actuation.h"
#include "derivative/columns.h"
#include "derivative/constraint.h"
#include "derivative/contact_jacobian.h"
#include "derivative/flex_metric.h"
#include "derivative/fluid_damping.h"
#include "derivative/free_body.h"
#include "derivative/spatial_tendon.h"
#include "derivative/tree_solver.h"

namespace costate {

/// (H2) The tendon that has no derivative under the discrete integrator at this point, and why: the engine gives it no
/// stiffness in M̂ exactly at its spring's rest length, but beside it; v' jumps there. "" if there is none.
std::string RestingTendon(const mjModel* model, const mjData* data);

class Metric {
 public:
  explicit Metric(const mjModel* model);

  /// "" if M̂ is known in closed form, else what is not: by the model alone, and at a point.
  static std::string Missing(const mjModel* model);
  /// Takes the numbers of the point. @pre `data` is after the actuation stage and has its rows.
  std::string Compute(const mjModel* model, const mjData* data, const TendonMoments& tendons,
                      const Actuation& actuation);

  /// out += (M̂ − M) a − shift.
  void AddForce(const mjModel* model, const mjData* data, const double* a, double* out) const;

  /// Adds M̂ − M to the diagonal of H. @return false when it couples dofs.
  bool AddDiagonal(const mjModel* model, const mjData* data, double* diagonal) const;
  /// The sets of dofs that it couples, for ConstraintDerivative::DeclareCouplings.
  const std::vector<std::vector<int>>& couplings() const { return couplings_.all(); }
  void AddHessian(const mjModel* model, const mjData* data, TreeSolver* H) const;

  /// Blocks of H that belong to spinning free bodies are not symmetric, (I12), while H is factored as if they were.
  /// What that makes of H⁻¹ x, or of H⁻ᵀ x → the solution.
  void CorrectVector(double* x, bool transposed) const;
  /// The same for a block of BlockedMatrix, H⁻¹ alone.
  void CorrectBlock(double* x) const;

  /// R −= ∂((M̂ − M) a − shift).
  void AddColumns(const mjModel* model, const mjData* data, const double* a, Columns* R) const;

  /// How hard the rows with closed form get as q and, in a fluid, v move, and what moves gains. @pre
  /// constraint.Linearize.
  void LinearizeRows(const mjModel* model, const mjData* data, const ConstraintDerivative& constraint);
  /// R += ∂(Jᵀ f) as D moves with it.
  void AddRows(Columns* R) const;

  /// dD = −D slope·dx of a row, of a contact its first and all others: turner names what of x = (q, v, act, u) slope is
  /// by.
  struct Scale {
    int row;
    std::vector<int> dof, turner;
    std::vector<double> force, slope;  // force: of Jᵀ f
  };
  /// null: the row's D stays. @pre LinearizeRows.
  const Scale* FindScale(int row) const;

 private:
  // how an actuator's B and K move: by length, velocity, control and activation
  struct Gain {
    Eigen::Array4d damping = Eigen::Array4d::Zero(), stiffness = Eigen::Array4d::Zero();
    int ctrl = -1, act = -1;  // −1: none
    bool moves() const { return (damping != 0).any() || (stiffness != 0).any(); }
  };
  static Gain GainOf(const mjModel* model, const mjData* data, int actuator, const ActuatorSlope& slope);
  // s J a + κ J v along J: of a tendon or an actuator
  struct Element {
    std::vector<int> dof;
    Eigen::VectorXd J;
    const Moment* moment = nullptr;  // J = scale moment->J; null: constant
    double scale = 1, s = 0, kappa = 0;
    Gain gain;  // s and κ move with it
    bool acts() const { return s != 0 || kappa != 0; }
  };
  // f(column, change) of by_s ds + by_kappa dκ, by (q, v, act, u)
  template <typename F>
  static void ForGain(const mjModel* model, const Element& element, double by_s, double by_kappa, F f);

  // a free body that nothing reaches: S + h ∂c/∂v instead of S in H
  struct Spin {
    Spin(const mjModel* m, const mjData* d, int b) : body(m, d, b) {}
    FreeBody body;
    Lu6 lu;
  };
  // one more, across a constant moment and with a constant gain until told otherwise
  Element* Append();
  void Couple(const Element& element);
  void AddTensions(const mjModel* model, const mjData* data, const TendonMoments& tendons);
  const Element& AlongActuator(const mjModel* model, const mjData* data, int actuator, const Actuation& actuation,
                               double s, double kappa);
  std::string AddElements(const mjModel* model, const mjData* data, const TendonMoments& tendons,
                          const Actuation& actuation);
  bool IsReached(const mjModel* model, const mjData* data, int first) const;
  void AddSpins(const mjModel* model, const mjData* data);
  void ReadRow(const mjModel* model, const mjData* data, int row);
  bool ReadForces(const mjModel* model, const mjData* data, int row, int count, Scale* out);
  void FindDiagonalRates(const mjModel* model, const mjData* data);
  void FindFluidRates(const mjModel* model, const mjData* data);
  // f(i, j, entry) for i ≥ j of the fluid's blocks, which have the pattern of M
  template <typename F>
  void ForFluid(const mjModel* model, const mjData* data, F f) const;
  void AddContactTurning(const mjModel* model, const mjData* data, const mjContact& contact, const Vec3& direction,
                         const ContactMotion& motion);

  AxisGroups axes_;
  std::vector<int> free_bodies_;
  FlexMetric flexes_;
  mutable FluidDamping fluid_;  // has room to work in
  bool any_fluid_ = false;
  Refilled<Element> element_;
  std::vector<Spin> spins_;
  std::vector<char> is_added_;  // actuators that have an element
  Refilled<std::vector<int>> couplings_;
  Refilled<Scale> scales_;
  RowMatrix mass_rate_;         // ∂M_kk/∂q_j, (k, j)
  Eigen::MatrixXd fluid_rate_;  // that of the fluid's (k, k) by q and v
  bool has_mass_rate_ = false, has_fluid_rate_ = false;
  std::vector<const Element*> moving_;  // whose gain or moment moves
  // of a row: its J; what turns with it, slope of ln ρ by M̂_kk − M_kk, zero elsewhere; forces that D makes; slope of ln ρ
  std::vector<int> row_dof_;
  std::vector<double> row_J_;
  Eigen::VectorXd x_, added_, force_;
  Eigen::VectorXd slope_;  // by q and v, activations and controls
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_METRIC_H_
