// Level 1 without columns: a covector pulled back, a direction pushed forward, by vector solves and recursions on the
// tree. Section V of README.md.
#include <algorithm>
#include <utility>

#include "derivative/analytic.h"
#include "derivative/integrator.h"

namespace costate {

namespace {

using VectorMap = Eigen::Map<VectorXd>;
using ConstVectorMap = Eigen::Map<const VectorXd>;

}  // namespace

// as Terms, without columns: all that products need is left in place
bool AnalyticBackend::Factors(const mjModel* m, mjData* d, Products products, StepDerivative* out,
                              std::string* missing) {
  const bool done = std::exchange(hessian_done_, false) && !unconstrained_;
  UseProducts(products);
  const bool ready = Prepare(m, d, out, missing);
  UseProducts(Products::kNone);
  if (!ready) return false;
  missing->clear();
  if (done) return true;

  unconstrained_ = products == Products::kPull && HasEnginesFactor(m);
  if (unconstrained_ && !after_forward_) point_.FactorMass(m, d);
  if (unconstrained_ || FactorHessian(m, d, true)) return true;
  *missing = "H is not positive definite";
  return false;
}

// for vectors alone H by articulated bodies, unless something couples branches
bool AnalyticBackend::FactorHessian(const mjModel* m, const mjData* d, bool vectors) {
  diagonal_.setZero(m->nv);
  articulated_ = vectors && ArticulatedSolver::Pays(m) && constraint_.AddDiagonal(diagonal_.data()) &&
                 (!metric_ || metric_->AddDiagonal(m, d, diagonal_.data()));
  if (articulated_) {
    return articulated_solver_.Factor(m, d, diagonal_.data(), constraint_.bodies(), constraint_.contact_bodies());
  }
  DeclareCouplings(m, d);
  StartHessian(m, d);
  tree_.AddHessian(m, d, constraint_.bodies(), constraint_.contact_bodies(), &H_);
  constraint_.AddPairsAndRows(m, d, tree_, nullptr, &H_);
  return H_.Factor(AxesOfInertia(m, d, H_));
}

// the point of a product and, under RK4, its stages
bool AnalyticBackend::PreparePoint(const mjModel* m, mjData* d, Products products, StepStatus* status,
                                   Coverage* coverage, std::string* missing, bool sensors) {
  if (!Acceleration(m, d, products, sensors, &report_, missing)) return false;
  *status = report_.status;
  if (coverage) std::swap(*coverage, report_.coverage);
  return *status != StepStatus::kOk || DifferenceRest(m, d, missing);
}

// the columns of terms without closed form
bool AnalyticBackend::DifferenceRest(const mjModel* m, mjData* d, std::string* missing) {
  if (differenced_.Any() && !Differences(m, d, missing)) return false;
  if (differenced_.integrator) difference_->IntegratorGain(m, &gain_);
  return true;
}

bool AnalyticBackend::Vjp(const mjModel* m, mjData* d, const StepCovectors& covectors, StepVjp* out,
                          std::string* missing) {
  sensors_left_ = false;
  if (UsesNoslip(m)) return VjpNoslip(m, d, covectors, out, missing);
  const bool sensors = covectors.sensors.size() > 0;
  if (sensors) sensor_.Select(m, covectors.sensors.data());
  pulls_sensors_ = sensors;
  pulls_axes_ = sensors && sensor_.ReadsAxes();
  constraint_.KeepAllContacts(sensors && sensor_.ReadsContacts());
  const bool ready =
      PreparePoint(m, d, Products::kPull, &out->status, &out->coverage, missing, sensors && sensor_.ReadsValues());
  constraint_.KeepAllContacts(false);
  const bool axes = pulls_axes_;
  pulls_sensors_ = pulls_axes_ = false;
  if (!ready) return false;
  if (out->status != StepStatus::kOk) return true;
  StartPull(m, covectors.forces, sensors, out);
  if (covectors.step() && !PullPoint(m, d, covectors.next, out, missing)) return false;
  if (!sensors || out->status != StepStatus::kOk) return true;
  if (axes) tree_.SumInertias(m);
  return PullSensors(m, d, covectors.sensors, out, missing);
}

void AnalyticBackend::StartPull(const mjModel* m, bool forces, bool sensors, StepVjp* out) {
  const int ndx = static_cast<int>(2 * m->nv + m->na);
  out->qfrc.setZero(forces ? m->nv : 0);
  out->xfrc.setZero(forces ? 6 * m->nbody : 0);
  out->sensors.setZero(sensors ? ndx : 0);
  out->delayed.resize(0);
  out->x.setZero(ndx);
  out->u.setZero(m->nu);
  y_.setZero(m->nv);
  z_.setZero(m->nv);
}

// one step, or under RK4 its stages
bool AnalyticBackend::PullPoint(const mjModel* m, mjData* d, ConstVectorRef lambda, StepVjp* out,
                                std::string* missing) {
  const int ndx = static_cast<int>(2 * m->nv + m->na);
  pulled_.setZero(ndx + m->nu);
  if (m->opt.integrator == mjINT_RK4) {
    if (!PrepareStages(m, d, Products::kPull, &out->status, &out->coverage, missing))
      return out->status != StepStatus::kOk;
    PullStages(m, d, lambda, out);
  } else {
    PullStep(m, d, lambda, out);
  }
  out->x = pulled_.head(ndx);
  out->u = pulled_.tail(m->nu);
  return true;
}

// (V4): σ into (x, u) at fixed acceleration, then the covector of the acceleration as λ's. y_ becomes the sum of both
bool AnalyticBackend::PullSensors(const mjModel* m, mjData* d, ConstVectorRef sigma, StepVjp* out,
                                  std::string* missing) {
  const int nv = static_cast<int>(m->nv), ndx = static_cast<int>(2 * nv + m->na),
            columns = ndx + static_cast<int>(m->nu);
  sensed_.setZero(columns);
  by_acceleration_.setZero(nv);
  const SensorPoint point = {.m = m,
                             .d = d,
                             .tree = &tree_,
                             .constraint = &constraint_,
                             .actuation = closed_actuation_ ? &actuation_ : nullptr,
                             .metric = metric_.get(),
                             .hides_forces = hides_forces_};
  const SensorDerivative::Pulled pulled = {sensed_.data(), by_acceleration_.data(),
                                           out->xfrc.size() ? out->xfrc.data() : nullptr};
  sensor_.Pull(point, sigma.data(), pulled, switch_.sensors);
  if (!CoverSensors(m, &out->coverage, missing)) return false;
  if (sensor_.AnyDifferenced() && !DifferencePulled(m, d, sigma, missing)) return false;
  const auto take = [&](VectorXd* of_acceleration, VectorXd* to) {
    if (of_acceleration->isZero(0)) return;
    PullAcceleration(m, d, of_acceleration->data(), nullptr, to->data());
    PullForces(m, d, *of_acceleration, out);
    y_ += *of_acceleration;
  };
  take(&by_acceleration_, &sensed_);
  if (sensor_.AnyDifferenced()) {
    pulled_.setZero(columns);  // sensed_ has it already
    take(&by_balance_, &pulled_);
  }
  out->sensors = sensed_.head(ndx);
  out->x += out->sensors;
  out->u += sensed_.tail(m->nu);
  return true;
}

// Sensors without closed form: those of forces along (x, u) with the acceleration that balances there, (7a); what they
// read of it, which applied forces and parameters change, goes to by_balance_. The others at fixed acceleration.
bool AnalyticBackend::DifferencePulled(const mjModel* m, mjData* d, ConstVectorRef sigma, std::string* missing) {
  const MatrixXd held = MatrixXd::Zero(m->nv, sensed_.size());
  const auto solve = [&](double* x) { SolveHessian(m, d, x); };
  const ForceChange forces = {&point_.a(), &held, solve};
  const std::vector<char>& which = sensor_.differenced();
  sensors_left_ = !difference_->Sensors(m, d, point_.a(), held, &sensors_, missing, &which, &forces);
  if (sensors_left_) return false;
  sensed_.noalias() += sensors_.transpose() * sigma;
  if (!difference_->SensorsByAcceleration(m, d, point_.a(), &sensors_, missing, &which)) return false;
  by_balance_.setZero(m->nv);
  for (int i = 0; i < m->nsensor; i++) {
    const int row = m->sensor_adr[i], count = m->sensor_dim[i];
    VectorXd& to = ResidualDifference::ReadsForces(m, i) ? by_balance_ : by_acceleration_;
    to.noalias() += sensors_.middleRows(row, count).transpose() * sigma.segment(row, count);
  }
  return true;
}

bool AnalyticBackend::Jvp(const mjModel* m, mjData* d, ConstMatrixRef dx, ConstMatrixRef du, StepJvp* out,
                          std::string* missing) {
  if (UsesNoslip(m)) return Backend::Jvp(m, d, dx, du, out, missing);
  if (!PreparePoint(m, d, Products::kPush, &out->status, &out->coverage, missing)) return false;
  if (out->status != StepStatus::kOk) return true;
  const bool stages = m->opt.integrator == mjINT_RK4;
  if (stages && !PrepareStages(m, d, Products::kPush, &out->status, &out->coverage, missing))
    return out->status != StepStatus::kOk;
  out->dx.resize(dx.rows(), dx.cols());
  direction_.resize(dx.rows() + du.rows());
  for (Eigen::Index c = 0; c < dx.cols(); c++) {
    direction_.head(dx.rows()) = dx.col(c);
    direction_.tail(du.rows()) = du.col(c);
    double* next = out->dx.col(c).data();
    stages ? PushStages(m, d, direction_.data(), next) : PushStep(m, d, direction_.data(), next);
  }
  return true;
}

// H is symmetric but for the spin of free bodies, (I12)
void AnalyticBackend::SolveHessian(const mjModel* m, const mjData* d, double* x, bool transposed) const {
  if (unconstrained_) mj_solveM(m, const_cast<mjData*>(d), x, x, 1);  // reads the factor
  else if (articulated_) articulated_solver_.Solve(x);
  else H_.Solve(x);
  if (metric_) metric_->CorrectVector(x, transposed);
}

void AnalyticBackend::SolveHessian(BlockedMatrix* X) const {
  H_.Solve(X);
  for (int block = 0; metric_ && block < X->blocks(); block++) metric_->CorrectBlock(X->block(block));
}

// y: covector of the acceleration → of r, −∂r and E contracted with y and z into (x, u); z is null without a second
// solve
void AnalyticBackend::PullAcceleration(const mjModel* m, const mjData* d, double* y, double* z, double* pulled) {
  const int nv = static_cast<int>(m->nv);
  TreeInput input = input_;
  if (z && unconstrained_) {
    // y = z, and dM a of r with dM (a − ā) of E is dM ā
    std::copy(z, z + nv, y);
    input.a = mass_.applied().data();
    input.e = nullptr;
  } else {
    SolveHessian(m, d, y, true);
  }
  const double* of_e = input.e ? z : nullptr;
  pull_.Start(m, d, input, tree_, constraint_.bodies(), constraint_.contact_bodies(), y, of_e);
  constraint_.PullContacts(&pull_);
  pull_.Finish(pulled);
  Columns R = Columns::Pull(y, pulled);
  AddForces(m, d, &R);
  constraint_.AddPairsAndRows(m, d, tree_, &R, nullptr);
  if (z) {
    Columns E = Columns::Pull(z, pulled);
    mass_.AddColumns(m, d, &E);
  }
  if (differenced_.Any()) {
    VectorMap(pulled, direct_.residual.cols()).noalias() -= direct_.residual.transpose() * ConstVectorMap(y, nv);
  }
}

// covectors of act' and, where it is not null, of act_dot into (x, u)
void AnalyticBackend::PullActivation(const mjModel* m, const double* next, const double* rate, double* pulled) const {
  const int nv = static_cast<int>(m->nv), na = static_cast<int>(m->na), ndx = 2 * nv + na;
  if (na == 0) return;
  if (!closed_actuation_) {
    VectorMap to(pulled, ndx + m->nu);
    if (next) to.noalias() += direct_.activation.transpose() * ConstVectorMap(next, na);
    if (rate) to.noalias() += direct_.activation_rate.transpose() * ConstVectorMap(rate, na);
    return;
  }
  if (next) {
    Columns rows = Columns::Pull(next, pulled);
    actuation_.AddActivation(m, &rows, nullptr);
  }
  if (rate) {
    Columns rows = Columns::Pull(rate, pulled);
    actuation_.AddActivation(m, nullptr, &rows);
  }
}

// y is the covector of a force on the dofs; of a force at xipos it is the motion there, of the tree pulled last
void AnalyticBackend::PullForces(const mjModel* m, const mjData* d, const VectorXd& y, StepVjp* out) const {
  if (out->qfrc.size() == 0) return;
  out->qfrc += y;
  for (int b = 1; b < m->nbody; b++) {
    Vec6 W;
    pull_.motion(b).Spread(W.data());
    const Vec3 r = Vec3Map(d->xipos + 3 * b) - Vec3Map(d->subtree_com + 3 * m->body_rootid[b]);
    out->xfrc.segment<3>(6 * b) += W.tail<3>() + W.head<3>().cross(r);
    out->xfrc.segment<3>(6 * b + 3) += W.head<3>();
  }
}

// (V1) into pulled_
void AnalyticBackend::PullStep(const mjModel* m, const mjData* d, ConstVectorRef lambda, StepVjp* out) {
  const int nv = static_cast<int>(m->nv);
  const double h = m->opt.timestep;
  ApplyIntegrator(m, d);

  // q' = q ⊕ h v', v' = v + h ā
  y_ = lambda.segment(nv, nv);
  PullPositions(m, v_next_.data(), h, lambda.data(), pulled_.data(), y_.data());
  pulled_.segment(nv, nv) += y_;
  y_ *= h;

  double* z = nullptr;
  if (second_solve_) {
    z_.resize(nv);
    z = z_.data();
    mass_.ApplyTransposed(y_.data(), z);
  } else if (differenced_.integrator) {
    pulled_.noalias() += direct_.acceleration.transpose() * y_;
    z_.noalias() = gain_.transpose() * y_;
    y_.swap(z_);
  }
  PullAcceleration(m, d, y_.data(), z, pulled_.data());
  PullActivation(m, lambda.data() + 2 * nv, nullptr, pulled_.data());
  PullForces(m, d, y_, out);
}

// dx = (dq, dv, dw, du) → da at fixed integrator; e receives E dx unless it is null
void AnalyticBackend::PushAcceleration(const mjModel* m, const mjData* d, const double* dx, double* da, double* e) {
  const int nv = static_cast<int>(m->nv);
  std::fill(da, da + nv, 0.0);
  if (e) std::fill(e, e + nv, 0.0);
  tree_.StartPush(m, d, input_, constraint_.bodies(), constraint_.contact_bodies(), dx, e != nullptr);
  constraint_.PushContacts(&tree_);
  tree_.FinishPush(m, d, dx, da, e);
  Columns R = Columns::Push(dx, da);
  AddForces(m, d, &R);
  constraint_.AddPairsAndRows(m, d, tree_, &R, nullptr);
  if (e) {
    Columns E = Columns::Push(dx, e);
    mass_.AddColumns(m, d, &E);
  }
  if (differenced_.Any()) {
    VectorMap(da, nv).noalias() -= direct_.residual * ConstVectorMap(dx, direct_.residual.cols());
  }
  SolveHessian(m, d, da);
}

// d act' and d act_dot along dx; either may be null
void AnalyticBackend::PushActivation(const mjModel* m, const double* dx, double* next, double* rate) const {
  const int nv = static_cast<int>(m->nv), na = static_cast<int>(m->na), ndx = 2 * nv + na;
  if (na == 0) return;
  if (!closed_actuation_) {
    const ConstVectorMap from(dx, ndx + m->nu);
    if (next) VectorMap(next, na).noalias() = direct_.activation * from;
    if (rate) VectorMap(rate, na).noalias() = direct_.activation_rate * from;
    return;
  }
  if (next) {
    std::fill(next, next + na, 0.0);
    Columns rows = Columns::Push(dx, next);
    actuation_.AddActivation(m, &rows, nullptr);
  }
  if (rate) {
    std::fill(rate, rate + na, 0.0);
    Columns rows = Columns::Push(dx, rate);
    actuation_.AddActivation(m, nullptr, &rows);
  }
}

// (V2)
void AnalyticBackend::PushStep(const mjModel* m, const mjData* d, const double* dx, double* next) {
  const int nv = static_cast<int>(m->nv);
  const double h = m->opt.timestep;
  ApplyIntegrator(m, d);
  y_.resize(nv);
  z_.resize(nv);
  PushAcceleration(m, d, dx, y_.data(), second_solve_ ? z_.data() : nullptr);
  if (second_solve_) {
    mass_.ApplyVector(y_.data(), z_.data());
  } else if (differenced_.integrator) {
    z_.noalias() = gain_ * y_;
    z_.noalias() += direct_.acceleration * ConstVectorMap(dx, direct_.acceleration.cols());
    y_.swap(z_);
  }
  VectorMap(next + nv, nv) = ConstVectorMap(dx + nv, nv) + h * y_;
  PushPositions(m, v_next_.data(), h, dx, next + nv, next);
  PushActivation(m, dx, next + 2 * nv, nullptr);
}

}  // namespace costate
