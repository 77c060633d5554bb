#include "optimizer/mpc_plant.h"

namespace costate {

MpcPlant::MpcPlant(const Task& task, const MpcSimulation& simulation, int steps)
    : model_(task.model.get()),
      simulation_(simulation),
      substeps_(task.substeps),
      control_time_(task.substeps * model_->opt.timestep),
      data_(MakeData(model_)),
      random_(simulation.seed) {
  const Dims dims(model_);
  motion_.X.resize(dims.nx, steps + 1);
  motion_.U.resize(dims.nu, steps);
  motion_.S.resize(dims.ns, steps + 1);
  motion_.time.resize(steps + 1);
  motion_.context.resize(mj_stateSize(model_, kMovingSignature), steps + 1);
  SetContext(model_, data_.get(), task.context);
  motion_.X.col(0) = task.x0;
  Keep();
}

void MpcPlant::Keep() {
  mj_getState(model_, data_.get(), motion_.context.col(t_).data(), kMovingSignature);
  motion_.time[t_] = data_->time;
}

MpcMeasurement MpcPlant::Measure() {
  MpcMeasurement measured{.time = time(), .x = motion_.X.col(t_), .moving = motion_.context.col(t_)};
  if (simulation_.noise_position > 0 || simulation_.noise_velocity > 0) {
    std::normal_distribution<double> normal;
    const Dims dims(model_);
    VectorXd noise = VectorXd::Zero(dims.ndx);
    for (int i = 0; i < dims.nv; ++i) noise[i] = simulation_.noise_position * normal(random_);
    for (int i = dims.nv; i < 2 * dims.nv; ++i) noise[i] = simulation_.noise_velocity * normal(random_);
    measured.x = Retract(model_, measured.x, noise);
  }
  return measured;
}

// the sum of all pushes at this time
void MpcPlant::Push() {
  if (simulation_.pushes.empty()) return;
  for (const MpcPush& push : simulation_.pushes) mju_zero(data_->xfrc_applied + 6 * push.body, 3);
  const double now = time() + 1e-9;
  for (const MpcPush& push : simulation_.pushes) {
    if (now >= push.begin && now < push.end) mju_addTo3(data_->xfrc_applied + 6 * push.body, push.force);
  }
}

bool MpcPlant::Step(ConstVectorRef u) {
  Push();
  motion_.U.col(t_) = u;
  const StepStatus status =
      costate::Step(model_, data_.get(), motion_.X.col(t_), u, substeps_, motion_.X.col(t_ + 1), motion_.S.col(t_));
  if (status != StepStatus::kOk) {
    status_ = {status, t_, {}};
    return false;
  }
  ++t_;
  Keep();
  return true;
}

void MpcPlant::Finish(Trajectory* trajectory, RolloutStatus* status) {
  VectorXd none = VectorXd::Zero(motion_.U.rows());
  Forward(model_, data_.get(), motion_.X.col(t_), none, motion_.S.col(t_));
  trajectory->X = motion_.X.leftCols(t_ + 1);
  trajectory->U = motion_.U.leftCols(t_);
  trajectory->S = motion_.S.leftCols(t_ + 1);
  trajectory->time = motion_.time.head(t_ + 1);
  trajectory->context = motion_.context.leftCols(t_ + 1);
  *status = status_;
}

}  // namespace costate
