#include "optimizer/mpc_disturbance.h"

#include <costate/state.h>
#include <costate/step.h>

#include <algorithm>
#include <cmath>

#include "core/engine_guard.h"
#include "core/mass.h"
#include "core/posture.h"

namespace costate {

MpcDisturbance::MpcDisturbance(const Task& task) : task_(task), control_time_(task.knot_time()) {
  if (task.mpc.estimate == 0) return;
  data_ = MakeData(task.model.get());
  const Dims dims(task.model.get());
  error_ = force_ = VectorXd::Zero(dims.nv);
  next_.setZero(dims.nx);
}

// next_, so many seconds behind the last measurement under the last control and the estimate so far; of the model's own
// steps where they fit, else of some that do
bool MpcDisturbance::Predict(double seconds) {
  constexpr double kWhole = 1e-6;  // of a step
  const mjModel* model = task_.model.get();
  const double h = model->opt.timestep, steps = std::max(1.0, std::round(seconds / h));
  passed_ = steps * h;
  if (std::abs(seconds - passed_) > kWhole * h) {
    if (!model_) model_ = CopyModel(model);
    model_->opt.timestep = seconds / steps;
    passed_ = seconds;
    model = model_.get();
  }
  SetMeasured(task_, last_, data_.get());
  return Step(model, data_.get(), last_.x, u_, static_cast<int>(steps), next_, none_) == StepStatus::kOk;
}

// is the last measurement recent enough?
bool MpcDisturbance::MayLearn(const MpcMeasurement& measured) const {
  constexpr double kMost = 10;  // control intervals
  const double passed = measured.time - last_.time;
  return u_.size() > 0 && passed > 0 && passed < kMost * control_time_ && measured.x.allFinite();
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
  const bool predicts = MayLearn(*measured) && Predict(measured->time - last_.time);
  const int predicted = predicts ? Contacts(next_) : -1;
  // an impact that comes early or late is no force; M is that of the measured state
  if (predicted >= 0 && Contacts(measured->x) == predicted) {
    error_ = measured->x.segment(model->nq, model->nv) - next_.segment(model->nq, model->nv);
    const double share = 1 - std::exp(-passed_ / task_.mpc.estimate);
    force_ += share / passed_ * MassProduct(model, data_.get(), error_);
  }
  measured->force = force_;
  last_ = *measured;
}

}  // namespace costate
