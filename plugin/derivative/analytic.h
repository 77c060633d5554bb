// Level 1: ∂r term by term in closed form, one factorization of H, and the integrator's map.
#ifndef COSTATE_DERIVATIVE_ANALYTIC_H_
#define COSTATE_DERIVATIVE_ANALYTIC_H_

#include <memory>
#include <string>
#include <vector>

#include "derivative/actuation.h"
#include "derivative/after_forward.h"
#include "derivative/articulated_solver.h"
#include "derivative/backend.h"
#include "derivative/compliant_contact.h"
#include "derivative/constraint.h"
#include "derivative/effective_mass.h"
#include "derivative/equilibrium.h"
#include "derivative/integrator.h"
#include "derivative/metric.h"
#include "derivative/noslip.h"
#include "derivative/residual_difference.h"
#include "derivative/runge_kutta.h"
#include "derivative/sensor.h"
#include "derivative/spatial_tendon.h"
#include "derivative/tree_derivative.h"
#include "derivative/tree_pull.h"
#include "derivative/tree_solver.h"

namespace costate {

/// Why a model's step has no closed forms, whatever its state; "" where it has.
std::string AnalyticRefusal(const mjModel* model);

/// Terms that are to be differenced although they have a closed form: to compare the two on any model.
struct TermSwitch {
  bool rne = false, passive = false, actuation = false, constraint = false, integrator = false, sensors = false;

  static TermSwitch All() { return {true, true, true, true, true, true}; }
};

/// Each term in closed form where it has one; the others, named in the coverage, are differenced inside the residual.
class AnalyticBackend final : public Backend {
 public:
  /// @param strict  a term without closed form is refused instead of differenced.
  /// @param smoothing  LinearizeOptions::smoothing.
  AnalyticBackend(const mjModel* model, bool strict, const TermSwitch& differenced = {}, double smoothing = 0);

  bool Linearize(const mjModel* model, mjData* data, bool sensors, StepDerivative* out, std::string* missing) override;
  bool LinearizeSensors(const mjModel* model, mjData* data, StepDerivative* out, std::string* missing) override;
  const std::vector<char>* SensorsLeft() const override { return sensors_left_ ? &difference_->failed() : nullptr; }
  void SelectSensors(const std::vector<char>* wanted) override { wanted_sensors_ = wanted; }

  // products, analytic_product.cc: no column of A is formed
  bool Vjp(const mjModel* model, mjData* data, const StepCovectors& covectors, StepVjp* out,
           std::string* missing) override;
  bool Vjp(const mjModel* model, mjData* data, ConstVectorRef lambda, bool forces, StepVjp* out, std::string* missing) {
    const VectorXd none;
    return Vjp(model, data, {lambda, none, forces}, out, missing);
  }
  bool Jvp(const mjModel* model, mjData* data, ConstMatrixRef dx, ConstMatrixRef du, StepJvp* out,
           std::string* missing) override;

  // analytic_parameter.cc
  bool Parameters(const mjModel* model, mjData* data, ParameterDifference* theta, MatrixXd* P, MatrixXd* Ps,
                  std::string* missing) override;
  bool PullParameters(const mjModel* model, mjData* data, const VectorXd& point, const StepCovectors& covectors,
                      ParameterDifference* theta, VectorXd* pulled, std::string* missing) override;

  // analytic_dynamics.cc
  bool LinearizeAcceleration(const mjModel* model, mjData* data, AccelerationDerivative* out,
                             std::string* missing) override;
  bool LinearizeInverse(const mjModel* model, mjData* data, ConstVectorRef qacc, InverseDerivative* out,
                        std::string* missing) override;

  // analytic_forward.cc: `data` is the caller's. RK4's other stages call mj_forward themselves, on data of their own
  bool LinearizeAfterForward(const mjModel* model, mjData* data, StepDerivative* out) override;
  bool VjpAfterForward(const mjModel* model, mjData* data, ConstVectorRef lambda, StepVjp* out) override;

 private:
  enum class Products {
    kNone,
    kPush,
    kPull
  };  // the point is prepared for matrices, or for vectors forwards or backwards
  bool Acceleration(const mjModel* model, mjData* data, Products products, bool sensors, StepDerivative* out,
                    std::string* missing);
  bool Minimum(const mjModel* model, mjData* data, Products products, bool sensors, StepDerivative* out,
               std::string* missing);
  bool Prepare(const mjModel* model, mjData* data, StepDerivative* out, std::string* missing);
  class BehindForward;
  bool CanFollowForward(const mjModel* model) const;
  bool TermsAfterForward(const mjModel* model, mjData* data, Products products, StepDerivative* out);
  bool IsBalanced(const mjModel* model, const mjData* data);
  bool IsRounding(const mjModel* model, const mjData* data, const VectorXd& r) const;
  bool IsStepGood(const mjModel* model, const mjData* data);
  // relative to a
  double StepSize() const { return step_.lpNorm<Eigen::Infinity>() / (1 + point_.a().lpNorm<Eigen::Infinity>()); }
  bool TermsFor(Products products, const mjModel* model, mjData* data, StepDerivative* out, std::string* missing);
  bool Soften(const mjModel* model, mjData* data, Products products, StepDerivative* out, std::string* missing);
  bool Smooth(const mjModel* model, mjData* data, Products products, StepDerivative* out, std::string* missing);
  void FollowIntegrator(const mjModel* model);
  bool PrepareTerms(const mjModel* model, mjData* data, Coverage* coverage, std::string* missing);
  bool PrepareMoments(const mjModel* model, const mjData* data, std::string* tendons, std::string* missing);
  void CoverForces(const mjModel* model, const std::string& tendons, const std::string& adhesion, Coverage* coverage,
                   std::string* missing);
  void FollowPoint(const mjModel* model, const AnalyticBackend& first);
  bool Cover(std::string_view term, std::string_view reason, Coverage* coverage, std::string* missing);
  void TakeAcceleration(const mjModel* model, mjData* data);
  void PrepareTree(const mjModel* model, mjData* data, const TendonMoments* tendons, Coverage* coverage,
                   std::string* missing);
  bool Assemble(const mjModel* model, mjData* data, TreeSolver* H, std::string* missing);
  void AddForces(const mjModel* model, const mjData* data, Columns* R) const;
  void StartHessian(const mjModel* model, const mjData* data);
  void DeclareCouplings(const mjModel* model, const mjData* data);
  // is H the M that the engine has factored?
  bool HasEnginesFactor(const mjModel* m) const {
    return !metric_ && !constraint_.AnyHessian() && ArticulatedSolver::Covers(m);
  }
  void SolveColumns();
  bool Terms(const mjModel* model, mjData* data, StepDerivative* out, std::string* missing);
  void AddThrusters(const mjModel* model, const mjData* data);
  std::string MoveAdhesive(const mjModel* model, mjData* data);
  double Polish(const mjModel* model, mjData* data);
  bool FindMinimum(const mjModel* model, mjData* data, Products products);
  double SearchLine(const mjModel* model, mjData* data);
  bool FactorHessian(const mjModel* model, const mjData* data, bool vectors);
  void Residual(const mjModel* model, mjData* data);
  void MultiplyInertia(const mjModel* model, const mjData* data, const double* a, double* out);
  void MakeDifference(const mjModel* model);
  bool Differences(const mjModel* model, mjData* data, std::string* missing);
  void SubtractRne(const mjModel* model, const mjData* data);
  void ApplyIntegrator(const mjModel* model, const mjData* data);
  bool Step(const mjModel* model, mjData* data, StepDerivative* out, std::string* missing);
  bool RungeKutta(const mjModel* model, const mjData* data, mjData* stages, StepDerivative* out, std::string* missing);
  bool Sensors(const mjModel* model, mjData* data, StepDerivative* out, std::string* missing);
  void Stage(const mjModel* model, const mjData* data, StageDerivative* stage) const;
  void ActivationRate(const mjModel* model, MatrixXd* slope) const;
  MatrixXd Dense(const BlockedMatrix& X) const;
  void CopyDense(const BlockedMatrix& X, MatrixXd* dense) const;  // into its first rows

  // analytic_noslip.cc
  bool UsesNoslip(const mjModel* model) const { return model->opt.noslip_iterations > 0; }
  void RunNoslip(const mjModel* model, mjData* data);
  bool ApplyNoslip(const mjModel* model, mjData* data, StepDerivative* out, std::string* missing);
  const TreeDerivative* TreeBehindNoslip(const mjModel* model, const mjData* data);
  void SenseBehindNoslip(const mjModel* model, mjData* data);
  bool VjpNoslip(const mjModel* model, mjData* data, const StepCovectors& covectors, StepVjp* out,
                 std::string* missing);
  void PullNoslipStep(const mjModel* model, const mjData* data, ConstVectorRef lambda, StepVjp* out);
  const VectorXd& acceleration(const mjModel* model) const { return UsesNoslip(model) ? noslip_->a() : point_.a(); }

  bool Factors(const mjModel* model, mjData* data, Products products, StepDerivative* out, std::string* missing);
  bool PreparePoint(const mjModel* model, mjData* data, Products products, StepStatus* status, Coverage* coverage,
                    std::string* missing, bool sensors = false);
  void UseProducts(Products products) {
    products_ = products;
    constraint_.UseProducts(products != Products::kNone);
    mass_.UseProducts(products != Products::kNone);
  }
  void SolveHessian(const mjModel* model, const mjData* data, double* x, bool transposed = false) const;
  void SolveHessian(BlockedMatrix* X) const;
  bool DifferenceRest(const mjModel* model, mjData* data, std::string* missing);
  void PullAcceleration(const mjModel* model, const mjData* data, double* y, double* z, double* pulled);
  void PullActivation(const mjModel* model, const double* next, const double* rate, double* pulled) const;
  void PullForces(const mjModel* model, const mjData* data, const VectorXd& y, StepVjp* out) const;
  void StartPull(const mjModel* model, bool forces, bool sensors, StepVjp* out);
  bool PullPoint(const mjModel* model, mjData* data, ConstVectorRef lambda, StepVjp* out, std::string* missing);
  bool CoverSensors(const mjModel* model, Coverage* coverage, std::string* missing);
  bool PullSensors(const mjModel* model, mjData* data, ConstVectorRef sigma, StepVjp* out, std::string* missing);
  bool PullsBalance(const mjModel* m, ConstVectorRef sigma) const;
  bool DifferencePulled(const mjModel* model, mjData* data, ConstVectorRef sigma, std::string* missing);
  void PullStep(const mjModel* model, const mjData* data, ConstVectorRef lambda, StepVjp* out);
  void PushAcceleration(const mjModel* model, const mjData* data, const double* dx, double* da, double* e);
  void PushActivation(const mjModel* model, const double* dx, double* next, double* rate) const;
  void PushStep(const mjModel* model, const mjData* data, const double* dx, double* next);
  bool PrepareStages(const mjModel* model, const mjData* data, Products products, StepStatus* status,
                     Coverage* coverage, std::string* missing);
  void PullStages(const mjModel* model, const mjData* data, ConstVectorRef lambda, StepVjp* out);
  /// What moves a stage besides dx: da (nv) and d act_dot (na).
  struct StageSource {
    const double *acceleration, *activation_rate;
  };
  void PushStages(const mjModel* model, const mjData* data, const double* dx, double* next,
                  const StageSource* source = nullptr);
  AnalyticBackend* stage(int i) { return i == 0 ? this : stages_->backend[i - 1].get(); }

  bool strict_;
  TermSwitch switch_;
  double smoothing_;
  bool smoothed_ = false;  // efc_D, states and forces of the data are ours
  std::vector<double> hardest_work_;
  bool hides_forces_ = false;                        // of constraints: the engine's go as the least R
  bool at_residual_ = false, hessian_done_ = false;  // FindMinimum has left them, r(a) and the factored H
  std::vector<int> row_state_;
  VectorXd line_start_;
  bool after_forward_ = false;  // the data is the caller's, behind mj_forward: forces and M's factor are there
  ForwardResults forward_results_;
  std::string forward_missing_;  // nobody reads it: what is missing there is looked at again elsewhere
  bool later_stage_ = false;     // of RK4: coverage has the closed terms already
  std::vector<double> smoothed_y_;
  Equilibrium point_;
  std::unique_ptr<Metric> metric_;  // the discrete integrator alone
  TreeDerivative tree_;
  TreePull pull_;
  FlexForces flexes_;
  ConstraintDerivative constraint_;
  TendonMoments tendons_;
  CompliantContacts compliant_;
  Actuation actuation_;
  EffectiveMass mass_;
  SensorDerivative sensor_;
  ArticulatedSolver articulated_solver_;
  TreeSolver H_;
  int state_;  // all elements of mjSTATE_INTEGRATION that the model has
  Products products_ = Products::kNone;
  bool articulated_ = false;    // which of the two holds H …
  bool unconstrained_ = false;  // … or H is the engine's M, which has no tendons' armature
  VectorXd diagonal_;
  BlockedMatrix X_, E_;
  std::unique_ptr<NoslipPass> noslip_;  // made when a model first uses it
  BlockedMatrix minimum_;               // da before the pass
  MatrixXd minimum_da_;
  std::unique_ptr<ResidualDifference> difference_;  // made when a term first needs it
  DirectDerivative direct_;
  DifferencedTerms differenced_;
  std::unique_ptr<TreeDerivative> behind_;  // the tree at the acceleration behind a noslip pass, where sensors read it
  std::unique_ptr<TreeDerivative> rne_;     // where it is switched to differences
  BlockedMatrix rne_columns_;
  TreeInput input_;
  std::size_t covered_ = 0;  // terms of the coverage so far: behind them are those of the call before
  std::string actuators_missing_;
  bool closed_tendons_ = false, closed_passive_ = false, closed_actuation_ = false, closed_integrator_ = false;
  const std::vector<char>* wanted_sensors_ = nullptr;  // null: all
  bool sensors_left_ = false;                          // to whole steps, those that difference_ has failed at
  bool solved_ = false;                                // X_ is da, else −∂r
  bool second_solve_ = false;                          // the integrator applies M'⁻¹ M a, in closed form
  std::vector<double> load_;
  bool any_adhesion_ = false;
  std::vector<char> adhesive_;  // contacts
  MatrixXd da_, sensors_, gain_;
  VectorXd step_, v_next_;
  StepAssembly assembly_;

  std::unique_ptr<RungeKuttaWork> runge_kutta_;  // RK4 alone
  DataPtr stage_data_;
  DataPtr sensed_data_;  // sensors behind a noslip pass

  // products
  StepDerivative report_;
  VectorXd y_, z_, pulled_, direction_;
  // of sensors: covectors of (x, u), of the acceleration, and of the one that balances, which is in that of (x, u)
  VectorXd sensed_, by_acceleration_, by_balance_;
  bool pulls_sensors_ = false, pulls_axes_ = false;  // sensors read what TreeDerivative::Forward leaves
  struct Stages {
    std::unique_ptr<AnalyticBackend> backend[3];  // stages 1 to 3; the first is the point itself
    DataPtr data[3];
    VectorXd u[4], v[4], k[4];                                // tangent, velocity and rate of each stage
    VectorXd sum_k, sum_w;                                    // weighted sums of rates and of act_dot
    std::vector<ActivationSide> sides;                        // of the point's activations
    VectorXd dk[4], da[4], dw[4], du, dv, rate, act, pulled;  // covectors, or directions, of all these
  };
  std::unique_ptr<Stages> stages_;  // RK4 alone
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_ANALYTIC_H_
