// Motions of the event model and their derivatives.
#include <costate/impact.h>

#include "core/check.h"

namespace costate {
namespace {

void CheckImpactProducts(const ImpactTrajectory& trajectory) {
  for (const ImpactStep& step : trajectory.steps) {
    if (step.status != ImpactStatus::kOk) {
      throw Error(ErrorCode::kInvalidArgument,
                  std::string("the motion ended early, ") + ToString(step.status) + ": " + step.message);
    }
    if (step.A.size() == 0) throw Error(ErrorCode::kInvalidArgument, "the motion was made without derivatives");
  }
}

}  // namespace

ImpactTrajectory ImpactRollout(const mjModel* model, ConstVectorRef context, ConstVectorRef x0, ConstMatrixRef U,
                               const ImpactOptions& options, bool derivatives) {
  const Dims dims(model);
  const int N = static_cast<int>(U.cols());
  CheckSize(model, "context", context.size(), "context size", mj_stateSize(model, kContextSignature));
  CheckSize(model, "x0", x0.size(), "nx", dims.nx);
  CheckSize(model, "U rows", U.rows(), "nu", dims.nu);
  ImpactLinearizer linearizer(model, options);
  VectorXd now = context;
  ImpactTrajectory result;
  result.X = x0.replicate(1, N + 1);
  result.steps.reserve(N);
  for (int t = 0; t < N; ++t) {
    // time is the context's first entry
    now[0] = context[0] + t * options.substeps * model->opt.timestep;
    linearizer.SetContext(now);
    ImpactStep& step = result.steps.emplace_back();
    if (derivatives) {
      linearizer.Linearize(result.X.col(t), U.col(t), &step);
    } else {
      linearizer.Step(result.X.col(t), U.col(t), &step);
    }
    if (step.status != ImpactStatus::kOk) {
      result.X.rightCols(N - t) = result.X.col(t).replicate(1, N - t);
      return result;
    }
    result.X.col(t + 1) = step.x_next;
  }
  return result;
}

MatrixXd ImpactTrajectory::ByStart() const {
  CheckImpactProducts(*this);
  if (steps.empty()) throw Error(ErrorCode::kInvalidArgument, "the motion has no step");
  MatrixXd product = steps.front().A;
  for (std::size_t t = 1; t < steps.size(); ++t) product = steps[t].A * product;
  return product;
}

VectorXd ImpactTrajectory::PullBack(ConstVectorRef lambda, MatrixXd* by_control) const {
  CheckImpactProducts(*this);
  if (steps.empty()) throw Error(ErrorCode::kInvalidArgument, "the motion has no step");
  if (lambda.size() != steps.front().A.rows()) {
    throw Error(ErrorCode::kDimensionMismatch, "lambda has " + std::to_string(lambda.size()) +
                                                   " entries, ndx = " + std::to_string(steps.front().A.rows()));
  }
  VectorXd costate = lambda;
  if (by_control) by_control->resize(steps.front().B.cols(), static_cast<Eigen::Index>(steps.size()));
  for (int t = static_cast<int>(steps.size()) - 1; t >= 0; --t) {
    if (by_control) by_control->col(t) = steps[t].B.transpose() * costate;
    costate = steps[t].A.transpose() * costate;
  }
  return costate;
}

}  // namespace costate
