// Level 3 by parameters: whole converged steps of models moved along θ.
#include <cmath>

#include "derivative/parameter_difference.h"
#include "derivative/step_difference.h"

namespace costate {

StepStatus StepDifference::FailedParameters(const mjModel* model, mjData* data, ParameterDifference* theta, MatrixXd* P,
                                            MatrixXd* Ps) {
  if (extrapolate_) return ParameterLadders(data, theta, P, Ps);
  const Dims& dims = stencil_.dims();
  Capture(model, data);
  const int ns = Ps ? dims.ns : 0;
  const auto evaluate = [&](const mjModel* moved, VectorXd* next, VectorXd* sensors) {
    model_.Refresh(moved, true);
    stencil_.Restore(model_.get(), data, -1, 0);
    model_.SelectActivationBranches(data, substeps_);
    if (P) stencil_.Step(model_.get(), data, -1, 0, substeps_, *next, sensors->head(ns));
    else stencil_.Forward(model_.get(), data, -1, 0, *sensors);
  };
  ParameterStencils* stencils = theta->stencils();
  evaluate(stencils->Center(), &next_[0], &sensors_[0]);
  for (int k = 0; k < theta->size(); k++) {
    if (theta->failed()[static_cast<std::size_t>(k)].empty()) continue;
    if (P) P->col(k).setZero();
    if (Ps) Ps->col(k).setZero();
    const bool fine = theta->LeftPiece(k);
    const std::vector<ParameterStencils::Point>& points = stencils->Points(k, fine);
    quotient_.resize(dims.ndx);
    for (std::size_t i = 0; i < points.size(); i++) {
      evaluate(stencils->Model(k, static_cast<int>(i), fine), &next_[1], &sensors_[1]);
      if (P) {
        StateQuotient(model_.get(), dims, next_[1], next_[0], 1, quotient_);
        P->col(k) += points[i].weight * quotient_;
      }
      if (Ps) Ps->col(k) += points[i].weight * (sensors_[1] - sensors_[0]);
    }
  }
  return ReadWarnings(data);
}

// (D5)
StepStatus StepDifference::ParameterLadders(mjData* data, ParameterDifference* theta, MatrixXd* P, MatrixXd* Ps) {
  const Dims& dims = stencil_.dims();
  ParameterStencils* stencils = theta->stencils();
  StepQuotients* quotients = BeginLadders(stencils->Center(), data, P ? substeps_ : 0, Ps != nullptr);
  for (int k = 0; k < theta->size(); k++) {
    if (theta->failed()[static_cast<std::size_t>(k)].empty()) continue;
    const StepQuotients::Column column = quotients->Differences(stencils, k, kSurePart);
    const double nudge = stencils->parameter(k).nudge;
    const auto fill = [&](MatrixXd* matrix, int first) {
      for (int i = 0; matrix && i < matrix->rows(); i++) {
        const Extrapolation e = quotients->Row(column, first + i, false);
        (*matrix)(i, k) = std::isfinite(e.error) ? e.value : quotients->Plain(column, first + i, nudge);
      }
    };
    fill(P, 0);
    fill(Ps, dims.ndx);
    if (const char* why = quotients->WhyOpen(column)) theta->SayOpen(k, why);
  }
  return ReadWarnings(data);
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
