// Level 1: ∂r term by term in closed form, one factorization of H, and the integrator's map.
#ifndef COSTATE_DERIVATIVE_ANALYTIC_H_
#define COSTATE_DERIVATIVE_ANALYTIC_H_

#include <memory>
#include <string>
#include <vector>

#include "derivative/actuation.h"
#include "derivative/backend.h"
#include "derivative/constraint.h"
#include "derivative/effective_mass.h"
#include "derivative/equilibrium.h"
#include "derivative/residual_difference.h"
#include "derivative/runge_kutta.h"
#include "derivative/tree_derivative.h"
#include "derivative/tree_solver.h"

namespace costate {

/// Terms that are to be differenced although they have a closed form: to compare the two on any model.
struct TermSwitch {
  bool passive = false, actuation = false, constraint = false, integrator = false;
};

/// Each term in closed form where it has one; the others, named in the coverage, are differenced inside the residual.
class AnalyticBackend final : public Backend {
 public:
  /// @param strict  a term without closed form is refused instead of differenced.
  AnalyticBackend(const mjModel* model, bool strict, const TermSwitch& differenced = {});

  bool Linearize(const mjModel* model, mjData* data, bool sensors, StepDerivative* out, std::string* missing) override;
  bool LinearizeSensors(const mjModel* model, mjData* data, StepDerivative* out, std::string* missing) override;

  /// A and B alone. @pre `data` is after mj_forward about the point, with a converged acceleration.
  bool LinearizeAfterForward(const mjModel* model, mjData* data, StepDerivative* out, std::string* missing);

 private:
  bool Acceleration(const mjModel* model, mjData* data, StepDerivative* out, std::string* missing);
  bool Terms(const mjModel* model, mjData* data, StepDerivative* out, std::string* missing);
  void AddThrusters(const mjModel* model, const mjData* data);
  double Polish(const mjModel* model, mjData* data);
  bool Differences(const mjModel* model, mjData* data, const DifferencedTerms& terms, std::string* missing);
  bool Step(const mjModel* model, mjData* data, StepDerivative* out, std::string* missing);
  bool RungeKutta(const mjModel* model, mjData* data, StepDerivative* out, std::string* missing);
  bool Sensors(const mjModel* model, mjData* data, StepDerivative* out, std::string* missing);
  void Stage(const mjModel* model, const mjData* data, StageDerivative* stage) const;
  void Activation(const mjModel* model, MatrixXd* next, MatrixXd* rate) const;
  MatrixXd Dense(const BlockedMatrix& X) const;

  bool strict_;
  TermSwitch switch_;
  Equilibrium point_;
  TreeDerivative tree_;
  ConstraintDerivative constraint_;
  Actuation actuation_;
  EffectiveMass mass_;
  TreeSolver H_;
  BlockedMatrix X_, E_;
  std::unique_ptr<ResidualDifference> difference_;  // made when a term first needs it
  DirectDerivative direct_;
  bool closed_actuation_ = false, closed_integrator_ = false;
  std::vector<double> load_;
  MatrixXd da_, sensors_, gain_, next_, rate_;
  VectorXd step_, v_next_;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_ANALYTIC_H_
