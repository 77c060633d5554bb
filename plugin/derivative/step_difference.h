// Level 3: whole steps differenced. Covers every model; README.md section "Step differences".
#ifndef COSTATE_DERIVATIVE_STEP_DIFFERENCE_H_
#define COSTATE_DERIVATIVE_STEP_DIFFERENCE_H_

#include <memory>
#include <string>

#include "derivative/backend.h"
#include "derivative/step_quotients.h"
#include "derivative/step_stencil.h"

namespace costate {

/// (D4) the largest nudge, and what part of the largest number of each part of a column is sure enough.
inline constexpr double kLargestEps = 3.2e-5, kSurePart = 1e-10;

/// Why mjd_transitionFD cannot be used for this model (it refuses, or its result is wrong); null when it can.
const char* WhyNotTransitionFd(const mjModel* model, bool sensors);

/// Differences of `substeps` engine steps at once: extrapolated as the last resort of Level::kBest, (D4); at
/// Level::kStep plain, by mjd_transitionFD where that is right and substeps is 1, else by nudges of our own.
class StepDifference final : public Backend {
 public:
  StepDifference(const mjModel* model, const LinearizeOptions& options, int substeps);
  bool Linearize(const mjModel* model, mjData* data, bool sensors, StepDerivative* out, std::string* missing) override;
  bool LinearizeSensors(const mjModel* model, mjData* data, StepDerivative* out, std::string* missing) override;

  /// All columns; @pre the same point as Linearize.
  bool Parameters(const mjModel* model, mjData* data, ParameterDifference* theta, MatrixXd* P, MatrixXd* Ps,
                  std::string* missing) override;

  /// Columns of the parameters that `theta` says failed, into P (ndx × nθ) and, unless null, Ps (ns × nθ); either may
  /// be null. Whole converged steps of models moved along θ.
  StepStatus FailedParameters(const mjModel* model, mjData* data, ParameterDifference* theta, MatrixXd* P,
                              MatrixXd* Ps);

  // step_difference_dynamics.cc
  bool Vjp(const mjModel* model, mjData* data, const StepCovectors& covectors, StepVjp* out,
           std::string* missing) override;
  bool LinearizeAcceleration(const mjModel* model, mjData* data, AccelerationDerivative* out,
                             std::string* missing) override;
  bool LinearizeInverse(const mjModel* model, mjData* data, ConstVectorRef qacc, InverseDerivative* out,
                        std::string* missing) override;

 private:
  using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  using Quotients = std::unique_ptr<StepQuotients>;

  void Resize(bool step, bool sensors, StepDerivative* out) const;
  void Conclude(const mjData* data, StepDerivative* out) const;
  void Extrapolate(const mjModel* model, mjData* data, int substeps, bool sensors, StepDerivative* out);
  StepQuotients* BeginQuotients(const mjModel* model, mjData* data, int substeps, StepQuotients::Beside beside,
                                Quotients* kept) const;
  StepQuotients* BeginQuotients(const mjModel* model, mjData* data, int substeps, bool sensors);
  void ExtrapolateForces(const mjModel* model, mjData* data, const StepCovectors& covectors, StepVjp* out);
  void ExtrapolateAcceleration(const mjModel* model, mjData* data, AccelerationDerivative* out);
  void DifferenceAcceleration(const mjModel* model, mjData* data, AccelerationDerivative* out);
  StepStatus ParameterLadders(mjData* data, ParameterDifference* theta, MatrixXd* P, MatrixXd* Ps);
  void SensorDifferences(mjData* data, StepDerivative* out);
  void ByTransitionFd(mjData* data, bool sensors, StepDerivative* out);
  void ByNudges(mjData* data, bool sensors, StepDerivative* out);
  void Capture(const mjModel* model, mjData* data, int substeps = 1);
  void CaptureStep(const mjModel* model, mjData* data, bool sensors);
  void Step(mjData* data, int col, double eps, bool sensors, int slot);
  void NudgeColumn(mjData* data, int col, Side side, double eps, bool sensors, StepDerivative* out);

  LinearizeOptions options_;
  double eps_;
  bool extrapolate_;
  int substeps_;
  DifferenceModel model_;
  StepStencil stencil_;
  VectorXd next_[3], sensors_[3];  // at the point, nudged forward, nudged backward
  RowMatrix A_, B_, C_, D_;
  VectorXd quotient_, along_;
  Quotients interval_, interval_and_sensors_, sensors_alone_, acceleration_;  // (D4), made when they are needed
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_STEP_DIFFERENCE_H_
