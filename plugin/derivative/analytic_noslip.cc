// Level 1 behind the noslip pass: the derivative of the minimum, then that of the sweeps. Section N of README.md.
#include "derivative/analytic.h"
#include "derivative/chain.h"
#include "derivative/integrator.h"

namespace costate {

void AnalyticBackend::RunNoslip(const mjModel* m, mjData* d) {
  if (!noslip_) noslip_ = std::make_unique<NoslipPass>(m);
  noslip_->Run(m, d, point_.a().data());
}

// X_ becomes da'; tree_ and constraint_ stay those of the minimum
bool AnalyticBackend::ApplyNoslip(const mjModel* m, mjData* d, StepDerivative* out, std::string* missing) {
  const TendonMoments* tendons = closed_tendons_ ? &tendons_ : nullptr;
  if (!noslip_->Linearize(m, d, point_.a().data(), constraint_, tendons, missing)) return false;
  SolveColumns();
  const int columns = X_.cols();
  minimum_.Resize(X_.rows(), columns);
  for (int b = 0; b < X_.blocks(); b++) std::copy_n(X_.block(b), X_.rows() * BlockedMatrix::kWidth, minimum_.block(b));
  noslip_->Apply(m, d, true, &X_);
  if (d->nefc) out->coverage.terms.push_back({"noslip", Level::kAnalytic, ""});
  return true;
}

// Which values are held by their cutoffs, (M1), the pass decides, too.
void AnalyticBackend::SenseBehindNoslip(const mjModel* m, mjData* d) {
  bool any = false;
  for (int i = 0; i < m->nsensor; i++) any = any || (HasCutoff(m, i) && m->sensor_needstage[i] == mjSTAGE_ACC);
  if (!any || d->nefc == 0) return;
  if (!sensed_data_) sensed_data_ = MakeData(m);
  mj_copyState(m, d, sensed_data_.get(), mjSTATE_INTEGRATION);
  sensed_data_->flg_energyvel = 0;  // as in Equilibrium
  mj_forward(m, sensed_data_.get());
  mju_copy(d->sensordata, sensed_data_->sensordata, static_cast<int>(m->nsensordata));
}

// (N9) null where no sensor reads accelerations, of its own or in a wrench
const TreeDerivative* AnalyticBackend::TreeBehindNoslip(const mjModel* m, const mjData* d) {
  bool read = false;
  for (int i = 0; i < m->nsensor; i++) {
    const bool wanted = !wanted_sensors_ || (*wanted_sensors_)[i];
    const int type = m->sensor_type[i];
    read = read || (wanted && (ReadsAcceleration(type) || ReadsWrench(type)));
  }
  if (!read) return nullptr;
  if (!behind_) behind_ = std::make_unique<TreeDerivative>(m);
  TreeInput input;
  input.a = noslip_->a().data();
  behind_->Forward(m, d, input);
  return behind_.get();
}

// through A … D; applied forces are more columns of the same sweeps
bool AnalyticBackend::VjpNoslip(const mjModel* m, mjData* d, const StepCovectors& covectors, StepVjp* out,
                                std::string* missing) {
  if (covectors.forces && covectors.step() && m->opt.integrator == mjINT_RK4) {
    *missing = "noslip: the pull-back to applied forces through the stages of RK4";
    return false;
  }
  if (!Backend::Vjp(m, d, {covectors.next, covectors.sensors, false}, out, missing)) return false;
  if (!covectors.forces || out->status != StepStatus::kOk) return true;
  out->qfrc.setZero(m->nv);
  out->xfrc.setZero(6 * m->nbody);
  if (covectors.sensors.size() > 0) {
    // those of the minimum; of (x, u) they are there already
    sensed_.setZero(2 * m->nv + m->na + m->nu);
    by_acceleration_.setZero(m->nv);
    const SensorPoint point = {.m = m,
                               .d = d,
                               .tree = &tree_,
                               .constraint = &constraint_,
                               .actuation = closed_actuation_ ? &actuation_ : nullptr,
                               .minimum = &minimum_};
    sensor_.Pull(point, covectors.sensors.data(), {sensed_.data(), by_acceleration_.data(), nullptr}, switch_.sensors);
    if (sensor_.AnyDifferenced()) {
      *missing = "noslip: the pull-back to applied forces by " + NamesOfSensors(m, sensor_.differenced());
      return false;
    }
    H_.Solve(by_acceleration_.data());
    out->qfrc += by_acceleration_;
  }
  if (covectors.step()) PullNoslipStep(m, d, covectors.next, out);

  // of a force at xipos it is the motion there
  for (int b = 1; b < m->nbody; b++) {
    Vec6 W = Vec6::Zero();
    for (int dof = LastDof(m, b); dof >= 0; dof = m->dof_parentid[dof])
      W += out->qfrc[dof] * Vec6Map(d->cdof + 6 * dof);
    const Vec3 r = Vec3Map(d->xipos + 3 * b) - Origin(m, d, b);
    out->xfrc.segment<3>(6 * b) = MotionAt(W, r);
    out->xfrc.segment<3>(6 * b + 3) = W.head<3>();
  }
  return true;
}

void AnalyticBackend::PullNoslipStep(const mjModel* m, const mjData* d, ConstVectorRef lambda, StepVjp* out) {
  const int nv = static_cast<int>(m->nv);
  X_.Resize(nv, nv);
  X_.SetZero();
  for (int i = 0; i < nv; i++) X_(i, i) = 1;
  H_.Solve(&X_);
  noslip_->Apply(m, d, false, &X_);
  MatrixXd da = Dense(X_);
  z_.resize(nv);
  for (int i = 0; i < nv && second_solve_; i++) {
    z_.setZero();
    mass_.ApplyVector(da.col(i).data(), z_.data());
  }
  if (!second_solve_ && differenced_.integrator) da = gain_ * da;

  // q' = q ⊕ h v', v' = v + h ā
  pulled_.setZero(nv);
  y_ = lambda.segment(nv, nv);
  PullPositions(m, v_next_.data(), m->opt.timestep, lambda.data(), pulled_.data(), y_.data());
  out->qfrc += m->opt.timestep * (da.transpose() * y_);
}

}  // namespace costate
