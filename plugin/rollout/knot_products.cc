#include "rollout/knot_products.h"

namespace costate {

KnotProducts::KnotProducts(const mjModel* model, ConstVectorRef context, int substeps, Level level,
                           const ParameterSet* parameters)
    : model_(model),
      dims_(model),
      context_(context),
      options_{.level = level, .substeps = substeps},
      parameters_(parameters) {}

Linearizer* KnotProducts::Get(bool sensors, ConstVectorRef moving) {
  std::unique_ptr<Linearizer>& linearizer = sensors ? jacobians_ : products_;
  if (!linearizer) {
    options_.sensors = sensors;
    linearizer = std::make_unique<Linearizer>(model_, options_);
    linearizer->SetContext(context_);
    if (parameters_) linearizer->SetParameters(parameters_);
  }
  linearizer->SetMovingContext(moving);
  return linearizer.get();
}

bool KnotProducts::Take(StepStatus status, const Coverage& coverage) {
  status_ = status;
  for (const TermCoverage& term : coverage.terms) {
    if (term.level > Level::kAnalytic) differenced_[term.term.starts_with("parameter")] = true;
    if (!term.IsOpen()) continue;
    for (int k = 0; k < static_cast<int>(open_.size()); ++k) {
      if (term.term == "parameter " + (*parameters_)[k].name) open_[static_cast<std::size_t>(k)] = 1;
    }
  }
  if (coverage_.terms.empty() || coverage.Worst() > coverage_.Worst()) coverage_ = coverage;
  return status == StepStatus::kOk;
}

bool KnotProducts::Push(const KnotPoint& at, const KnotDirections& d, MatrixXd* next, MatrixXd* s) {
  const bool theta = d.theta.rows() > 0 && !d.theta.isZero(0);
  if (!s && !theta) {
    Get(false, at.moving)->Jvp(at.x, at.u, d.x, d.u, &jvp_);
    if (!Take(jvp_.status, jvp_.coverage)) return false;
    *next = jvp_.dx;
    return true;
  }
  if (!Matrices(at, s != nullptr)) return false;
  if (s) {
    s->noalias() = full_.C * d.x;
    if (theta) s->noalias() += full_.Ps * d.theta;
    if (at.last) return true;
    s->noalias() += full_.D * d.u;
  }
  next->noalias() = full_.A * d.x;
  next->noalias() += full_.B * d.u;
  if (theta) next->noalias() += full_.P * d.theta;
  return true;
}

bool KnotProducts::Pull(const KnotPoint& at, ConstVectorRef lambda, ConstVectorRef sigma, KnotCovector* out) {
  open_.assign(static_cast<std::size_t>(parameters_ ? parameters_->size() : 0), 0);
  const bool sensors = !sigma.isZero(0);
  if (at.last && !sensors) {
    out->x.setZero(dims_.ndx);
    out->u.resize(0);
    out->theta.setZero(parameters_ ? parameters_->size() : 0);
    return true;
  }
  const VectorXd none;
  Linearizer* linearizer = Get(false, at.moving);
  if (at.last) linearizer->VjpSensors(at.x, sigma, &vjp_);
  else linearizer->Vjp(at.x, at.u, lambda, sensors ? sigma : ConstVectorRef(none), &vjp_);
  if (!Take(vjp_.status, vjp_.coverage)) return false;
  out->x = vjp_.x;
  out->u = vjp_.u;
  out->theta = vjp_.theta;
  return true;
}

bool KnotProducts::Matrices(const KnotPoint& at, bool sensors) {
  Linearizer* linearizer = Get(sensors, at.moving);
  at.last ? linearizer->LinearizeSensors(at.x, &full_) : linearizer->Linearize(at.x, at.u, &full_);
  return Take(full_.status, full_.coverage);
}

}  // namespace costate
