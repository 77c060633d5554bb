// Level 3 by parameters: whole converged steps of models moved along θ.
#include "core/warnings.h"
#include "derivative/parameter_difference.h"
#include "derivative/step_difference.h"

namespace costate {

StepStatus StepDifference::FailedParameters(const mjModel* model, mjData* data, ParameterDifference* theta, MatrixXd* P,
                                            MatrixXd* Ps) {
  if (extrapolate_) return ParameterLadders(data, theta, P, Ps);
  const Dims& dims = stencil_.dims();
  Capture(model, data, P ? substeps_ : 1);
  const int ns = Ps ? dims.ns : 0;
  const auto evaluate = [&](const mjModel* moved, VectorXd* next, VectorXd* sensors) {
    model_.Refresh(moved, true);
    stencil_.Restore(model_.get(), data, -1, 0);
    model_.SelectActivationBranches(data, substeps_, &stencil_.midpoints());
    if (P) stencil_.Step(model_.get(), data, -1, 0, substeps_, *next, sensors->head(ns));
    else stencil_.Forward(model_.get(), data, -1, 0, *sensors);
  };
  ParameterStencils* stencils = theta->stencils();
  evaluate(stencils->Center(), &next_[0], &sensors_[0]);
  for (int k = 0; k < theta->size(); k++) {
    if (theta->failed()[static_cast<std::size_t>(k)].empty()) continue;
    if (P) P->col(k).setZero();
    if (Ps) Ps->col(k).setZero();
    const ParameterStencils::Reach reach = theta->LeftPiece(k) ? ParameterStencils::kFine : ParameterStencils::kUsual;
    const std::vector<ParameterStencils::Point>& points = stencils->Points(k, reach);
    quotient_.resize(dims.ndx);
    for (std::size_t i = 0; i < points.size(); i++) {
      evaluate(stencils->Model(k, static_cast<int>(i), reach), &next_[1], &sensors_[1]);
      if (P) {
        StateQuotient(model_.get(), dims, next_[1], next_[0], 1, quotient_);
        P->col(k) += points[i].weight * quotient_;
      }
      if (Ps) Ps->col(k) += points[i].weight * (sensors_[1] - sensors_[0]);
    }
  }
  return StatusOfWarnings(data);
}

// (D5)
StepStatus StepDifference::ParameterLadders(mjData* data, ParameterDifference* theta, MatrixXd* P, MatrixXd* Ps) {
  const Dims& dims = stencil_.dims();
  ParameterStencils* stencils = theta->stencils();
  StepQuotients* quotients = BeginQuotients(stencils->Center(), data, P ? substeps_ : 0, Ps != nullptr);
  for (int k = 0; k < theta->size(); k++) {
    if (theta->failed()[static_cast<std::size_t>(k)].empty()) continue;
    if (const char* why = quotients->Along(stencils, k, &along_)) theta->SayOpen(k, why);
    if (P) P->col(k) = along_.head(dims.ndx);
    if (Ps) Ps->col(k) = along_.tail(dims.ns);
  }
  return StatusOfWarnings(data);
}

bool StepDifference::Parameters(const mjModel* model, mjData* data, ParameterDifference* theta, MatrixXd* P,
                                MatrixXd* Ps, std::string* missing) {
  theta->FailAll("the model is differenced in whole steps");
  if (P) P->setZero(stencil_.dims().ndx, theta->size());
  if (Ps) Ps->setZero(stencil_.dims().ns, theta->size());
  const StepStatus status = FailedParameters(model, data, theta, P, Ps);
  if (status != StepStatus::kOk) *missing = ToString(status);
  theta->ClearFailed();
  return status == StepStatus::kOk;
}

}  // namespace costate
