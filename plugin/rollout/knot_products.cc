#include "rollout/knot_products.h"

namespace costate {

KnotProducts::KnotProducts(const mjModel* model, ConstVectorRef context, int substeps, Level level)
    : model_(model), dims_(model), context_(context), options_{.level = level, .substeps = substeps} {}

Linearizer* KnotProducts::Get(bool sensors, ConstVectorRef moving) {
  std::unique_ptr<Linearizer>& linearizer = sensors ? jacobians_ : products_;
  if (!linearizer) {
    options_.sensors = sensors;
    linearizer = std::make_unique<Linearizer>(model_, options_);
    linearizer->SetContext(context_);
  }
  linearizer->SetMovingContext(moving);
  return linearizer.get();
}

bool KnotProducts::Take(StepStatus status, const Coverage& coverage) {
  status_ = status;
  if (coverage_.terms.empty() || coverage.Worst() > coverage_.Worst()) coverage_ = coverage;
  return status == StepStatus::kOk;
}

bool KnotProducts::Push(const KnotPoint& at, ConstMatrixRef dx, ConstMatrixRef du, MatrixXd* next, MatrixXd* s) {
  if (!s) {
    Get(false, at.moving)->Jvp(at.x, at.u, dx, du, &jvp_);
    if (!Take(jvp_.status, jvp_.coverage)) return false;
    *next = jvp_.dx;
    return true;
  }
  if (!Matrices(at)) return false;
  s->noalias() = full_.C * dx;
  if (at.last) return true;
  s->noalias() += full_.D * du;
  next->noalias() = full_.A * dx;
  next->noalias() += full_.B * du;
  return true;
}

bool KnotProducts::Pull(const KnotPoint& at, ConstVectorRef lambda, ConstVectorRef sigma, VectorXd* x, VectorXd* u) {
  const bool sensors = !sigma.isZero(0);
  if (!at.last && !sensors) {
    Get(false, at.moving)->Vjp(at.x, at.u, lambda, &vjp_);
    if (!Take(vjp_.status, vjp_.coverage)) return false;
    *x = vjp_.x;
    *u = vjp_.u;
    return true;
  }
  x->setZero(dims_.ndx);
  u->setZero(at.last ? 0 : dims_.nu);
  if (!sensors) return true;
  if (!Matrices(at)) return false;
  x->noalias() += full_.C.transpose() * sigma;
  if (at.last) return true;
  x->noalias() += full_.A.transpose() * lambda;
  u->noalias() += full_.D.transpose() * sigma;
  u->noalias() += full_.B.transpose() * lambda;
  return true;
}

bool KnotProducts::Matrices(const KnotPoint& at) {
  Linearizer* linearizer = Get(true, at.moving);
  at.last ? linearizer->LinearizeSensors(at.x, &full_) : linearizer->Linearize(at.x, at.u, &full_);
  return Take(full_.status, full_.coverage);
}

}  // namespace costate
