// Level 1 by parameters: the covectors of a pull-back meet ∂r/∂θ, or a source term is pushed forward. Section Q of
// README.md.
#include <algorithm>

#include "derivative/analytic.h"
#include "derivative/integrator.h"
#include "derivative/munthe_kaas.h"
#include "derivative/parameter_difference.h"

namespace costate {

namespace {

std::string ParametersMissing(const mjModel* m) {
  return m->opt.noslip_iterations > 0 ? "noslip: the sweeps are not followed along parameters" : "";
}

// the first that is differenced, after Select; sensors by parameters always are
std::string DifferencedParameter(ParameterDifference* theta, bool sensors) {
  const std::vector<char>& closed = theta->closed()->closed();
  for (int k = 0; k < theta->size(); k++) {
    if (!closed[static_cast<std::size_t>(k)]) return "parameters: " + theta->stencils()->parameter(k).name;
  }
  return sensors && theta->size() > 0 ? "parameters: sensors along " + theta->stencils()->parameter(0).name : "";
}

// ∂r/∂θ and ∂E/∂θ: closed forms entry by entry, as what a pull-back makes of unit covectors; the others differenced
void ParameterColumns(const ClosedParameters::Point& at, const VectorXd& a, ParameterDifference* theta,
                      ParameterDifference::Columns* out, MatrixXd* E) {
  const int nv = static_cast<int>(at.model->nv);
  ClosedParameters* closed = theta->closed();
  VectorXd unit = VectorXd::Zero(nv), row(theta->size());
  const VectorXd zero = VectorXd::Zero(nv);
  ClosedParameters::Point by_y = at, by_z = at;
  by_y.y = by_z.z = unit.data();
  by_z.y = zero.data();
  if (at.applied) by_y.z = zero.data();
  closed->Select(by_y);
  theta->Compute(at.model, at.data, a, out, &closed->closed());
  E->setZero(nv, theta->size());
  const std::vector<char>& which = closed->closed();
  if (std::find(which.begin(), which.end(), 1) == which.end()) return;
  for (int i = 0; i < nv; i++) {
    unit[i] = 1;
    row.setZero();
    closed->Pull(by_y, &row);
    out->residual.row(i) -= row;
    if (at.applied) {
      row.setZero();
      closed->Pull(by_z, &row);
      E->row(i) = row;
    }
    unit[i] = 0;
  }
}

}  // namespace

// Does σ read forces of constraints that are differenced? At fixed acceleration they change by far more than where
// they balance.
bool AnalyticBackend::PullsBalance(const mjModel* m, ConstVectorRef sigma) const {
  for (int i = 0; i < m->nsensor && sigma.size() > 0; i++) {
    if (sensor_.differenced()[i] && ResidualDifference::ReadsForces(m, i) &&
        !sigma.segment(m->sensor_adr[i], m->sensor_dim[i]).isZero(0))
      return true;
  }
  return false;
}

// (Q2): y_ is the covector of r, of each stage under RK4, as PullPoint left it
bool AnalyticBackend::PullParameters(const mjModel* m, mjData* d, const VectorXd& point, const StepCovectors& covectors,
                                     ParameterDifference* theta, VectorXd* pulled, std::string* missing) {
  if (PullsBalance(m, covectors.sensors))
    return Backend::PullParameters(m, d, point, covectors, theta, pulled, missing);
  *missing = ParametersMissing(m);
  if (!missing->empty()) return false;
  const int nv = static_cast<int>(m->nv), na = static_cast<int>(m->na);
  const double h = m->opt.timestep;
  const bool stages = m->opt.integrator == mjINT_RK4 && covectors.step();
  const ConstVectorRef& lambda = covectors.next;
  ParameterDifference::Columns columns;
  pulled->setZero(theta->size());
  for (int i = 0; i < (stages ? 4 : 1); i++) {
    AnalyticBackend& at = *stage(i);
    const mjData* data = i == 0 ? d : stages_->data[i - 1].get();
    const double *z = second_solve_ ? z_.data() : nullptr, *applied = second_solve_ ? mass_.applied().data() : nullptr;
    const ClosedParameters::Point point = {m, data, at.point_.a().data(), at.y_.data(), z, applied, closed_integrator_};
    ClosedParameters* closed = theta->closed();
    closed->Select(point);
    if (strict_) *missing = DifferencedParameter(theta, covectors.sensors.size() > 0);
    if (!missing->empty()) return false;
    closed->Pull(point, pulled);
    theta->Compute(m, data, at.point_.a(), &columns, &closed->closed());
    pulled->noalias() -= columns.residual.transpose() * at.y_;
    if (stages) pulled->noalias() += columns.activation_rate.transpose() * stages_->dw[i];
  }
  if (covectors.sensors.size() > 0) {
    MatrixXd Ps;  // at fixed acceleration: y_ has the rest
    theta->Sensors(m, d, point_.a(), MatrixXd::Zero(nv, theta->size()), {}, &Ps);
    pulled->noalias() += Ps.transpose() * covectors.sensors;
  }
  if (!covectors.step()) return true;
  if (stages) {
    MatrixXd update;
    theta->ActivationUpdate(m, d->act, stages_->sum_w.data(), &update);
    pulled->noalias() += update.transpose() * lambda.tail(na);
    return true;
  }

  // μ = h (λ_v + h Dvᵀ λ_q)
  VectorXd position = VectorXd::Zero(nv), mu = lambda.segment(nv, nv);
  PullPositions(m, v_next_.data(), h, lambda.data(), position.data(), mu.data());
  pulled->noalias() += columns.acceleration.transpose() * (h * mu);
  pulled->noalias() += columns.activation.transpose() * lambda.tail(na);
  return true;
}

// (Q1)
bool AnalyticBackend::Parameters(const mjModel* m, mjData* d, ParameterDifference* theta, MatrixXd* P, MatrixXd* Ps,
                                 std::string* missing) {
  *missing = ParametersMissing(m);
  if (!missing->empty()) return false;
  const int nv = static_cast<int>(m->nv), na = static_cast<int>(m->na), ndx = 2 * nv + na;
  StepStatus status = StepStatus::kOk;
  Coverage coverage;
  if (!PreparePoint(m, d, Products::kPush, &status, &coverage, missing) || status != StepStatus::kOk) return false;
  ParameterDifference::Columns columns[4];
  MatrixXd E;
  const auto accelerations = [&](AnalyticBackend* at, const mjData* data, ParameterDifference::Columns* c) {
    const double* applied = second_solve_ ? mass_.applied().data() : nullptr;
    ParameterColumns({m, data, at->point_.a().data(), nullptr, nullptr, applied, closed_integrator_}, at->point_.a(),
                     theta, c, &E);
    c->residual *= -1;
    for (Eigen::Index k = 0; k < c->residual.cols(); k++) at->SolveHessian(m, data, c->residual.col(k).data());
  };
  accelerations(this, d, &columns[0]);
  if (strict_) *missing = DifferencedParameter(theta, Ps != nullptr);
  if (!missing->empty()) return false;
  const auto solve = [&](double* x) { SolveHessian(m, d, x); };
  if (Ps) theta->Sensors(m, d, point_.a(), columns[0].residual, solve, Ps);
  if (!P) return true;
  P->setZero(ndx, theta->size());
  if (m->opt.integrator == mjINT_RK4) {
    if (!PrepareStages(m, d, Products::kPush, &status, &coverage, missing) || status != StepStatus::kOk) return false;
    for (int i = 1; i < 4; i++) {
      accelerations(stage(i), stages_->data[i - 1].get(), &columns[i]);
    }
    MatrixXd update;
    theta->ActivationUpdate(m, d->act, stages_->sum_w.data(), &update);
    const VectorXd zero = VectorXd::Zero(ndx + m->nu);
    for (int k = 0; k < theta->size(); k++) {
      StageSource source[4];
      for (int i = 0; i < 4; i++)
        source[i] = {columns[i].residual.col(k).data(), columns[i].activation_rate.col(k).data()};
      PushStages(m, d, zero.data(), P->col(k).data(), source);
    }
    P->bottomRows(na) += update;
    return true;
  }

  ApplyIntegrator(m, d);
  const VectorXd zero = VectorXd::Zero(nv);
  for (int k = 0; k < theta->size(); k++) {
    // dā = N da + ∂ā/∂θ
    step_ = columns[0].residual.col(k);
    z_ = E.col(k);
    if (second_solve_) mass_.ApplyVector(step_.data(), z_.data());
    else if (differenced_.integrator) step_ = (gain_ * step_).eval();
    step_ += columns[0].acceleration.col(k);
    step_ *= m->opt.timestep;
    P->col(k).segment(nv, nv) = step_;
    PushPositions(m, v_next_.data(), m->opt.timestep, zero.data(), step_.data(), P->col(k).data());
  }
  P->bottomRows(na) = columns[0].activation;
  return true;
}

}  // namespace costate
