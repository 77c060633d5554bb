#include "optimizer/mpc_disturbance.h"

#include <costate/state.h>
#include <costate/step.h>

#include <cmath>

#include "core/engine_guard.h"
#include "core/mass.h"
#include "core/posture.h"

namespace costate {

MpcDisturbance::MpcDisturbance(const Task& task)
    : task_(task), control_time_(task.substeps * task.model->opt.timestep), share_(0) {
  if (task.mpc.estimate == 0) return;
  share_ = 1 - std::exp(-control_time_ / task.mpc.estimate);
  data_ = MakeData(task.model.get());
  const Dims dims(task.model.get());
  error_ = force_ = VectorXd::Zero(dims.nv);
  next_.setZero(dims.nx);
}

// next_, from the last measurement under the last control and the estimate so far
bool MpcDisturbance::Predict() {
  const mjModel* model = task_.model.get();
  SetMeasured(task_, last_, data_.get());
  return Step(model, data_.get(), last_.x, u_, task_.substeps, next_, none_) == StepStatus::kOk;
}

int MpcDisturbance::Contacts(ConstVectorRef x) {
  SetState(task_.model.get(), data_.get(), x);
  UpdatePosture(task_.model.get(), data_.get(), PostureStage::kWhole);
  return data_->ncon;
}

void MpcDisturbance::Measured(MpcMeasurement* measured) {
  if (force_.size() == 0) return;
  const mjModel* model = task_.model.get();
  const EngineGuard guard(data_.get());
  constexpr double kSlack = 1e-3;  // of a control interval: what was not measured at its end is not learned from
  const bool follows = std::abs(measured->time - last_.time - control_time_) < kSlack * control_time_;
  const bool predicts = u_.size() > 0 && follows && measured->x.allFinite() && Predict();
  const int predicted = predicts ? Contacts(next_) : -1;
  // an impact that comes early or late is no force; M is that of the measured state
  if (predicted >= 0 && Contacts(measured->x) == predicted) {
    error_ = measured->x.segment(model->nq, model->nv) - next_.segment(model->nq, model->nv);
    force_ += share_ / control_time_ * MassProduct(model, data_.get(), error_);
  }
  measured->force = force_;
  last_ = *measured;
}

}  // namespace costate
