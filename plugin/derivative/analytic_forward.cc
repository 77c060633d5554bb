// Level 1 behind a caller's mj_forward: its acceleration and forces are taken, not found. (1a) of README.md.
#include <cmath>

#include "derivative/analytic.h"
#include "derivative/hardest_rows.h"

namespace costate {

// while it lives the backend works on the caller's data, which then is as it was
class AnalyticBackend::BehindForward {
 public:
  BehindForward(AnalyticBackend* backend, mjData* d) : backend_(backend), d_(d) {
    backend_->forward_results_.SaveStates(d);
    backend_->after_forward_ = true;
  }
  ~BehindForward() {
    Leave();
    backend_->forward_results_.Restore(d_);
  }
  BehindForward(const BehindForward&) = delete;
  BehindForward& operator=(const BehindForward&) = delete;
  void Leave() const { backend_->after_forward_ = false; }  // on to other data

 private:
  AnalyticBackend* backend_;
  mjData* d_;
};

bool AnalyticBackend::CanFollowForward(const mjModel* m) const {
  return smoothing_ == 0 && !UsesNoslip(m) && AnalyticRefusal(m).empty();
}

// r(a) into step_, with the forces as they stand: is it next to nothing?
bool AnalyticBackend::IsBalanced(const mjModel* m, const mjData* d) {
  step_.resize(m->nv);
  MultiplyInertia(m, d, point_.a().data(), step_.data());
  step_ -= point_.momentum_rate();
  return IsRounding(m, d, step_);
}

// of r(a), so that no Newton step would make a better
bool AnalyticBackend::IsRounding(const mjModel* m, const mjData* d, const VectorXd& r) const {
  constexpr double kRounding = 1e-12;  // of a diagonal M: couplings have the three digits up to kGood
  const double size = 1 + point_.a().lpNorm<Eigen::Infinity>();
  for (int i = 0; i < m->nv; i++) {
    const double inertia = d->M[m->M_rowadr[i] + m->M_rownnz[i] - 1];
    if (!(std::abs(r[i]) <= kRounding * size * inertia)) return false;
  }
  return true;
}

// step_: r(a) → H⁻¹ r(a); is it next to nothing, relative to a?
bool AnalyticBackend::IsStepGood(const mjModel* m, const mjData* d) {
  SolveHessian(m, d, step_.data());
  return StepSize() <= (HasCones(d) ? kGoodOfCones : kGood);
}

// TermsFor at the acceleration of the data or, where its solver has ended early, at the one that it tends to
bool AnalyticBackend::TermsAfterForward(const mjModel* m, mjData* d, Products products, StepDerivative* out) {
  std::string& missing = forward_missing_;
  const auto terms = [&] {
    return TermsFor(products, m, d, out, &missing) && !differenced_.Any() && actuation_.HasForces(m, d);
  };
  const int nv = static_cast<int>(m->nv);
  out->status = StepStatus::kOk;
  hessian_done_ = false;
  if (!Equilibrium::AcceptsForces(m, d)) forward_results_.SaveNumbers(d, nv);
  FollowIntegrator(m);
  if (metric_) {
    std::string tendons;
    if (!PrepareMoments(m, d, &tendons, &missing)) return false;
  }
  point_.Accept(m, d);
  at_residual_ = true;
  if (MayHaveHardest(d)) return false;
  if (d->nefc == 0 || IsBalanced(m, d)) return terms();
  if (!HasOwnHessian(m)) return terms() && IsStepGood(m, d);

  // H alone: it serves where the step is none
  const bool vectors = products != Products::kNone;
  constraint_.LinearizeHessian(m, d);
  unconstrained_ = HasEnginesFactor(m);
  if (!unconstrained_ && !FactorHessian(m, d, vectors)) return false;
  if (IsStepGood(m, d)) {
    hessian_done_ = vectors || !unconstrained_;
    return terms();
  }

  // one step is nearly always the last; else all of the search
  forward_results_.SaveNumbers(d, nv);
  mju_subFrom(d->qacc, step_.data(), nv);
  Residual(m, d);
  at_residual_ = true;
  if (!terms()) return false;
  step_ = point_.residual();
  if (IsStepGood(m, d)) return true;
  return FindMinimum(m, d, products) && terms();
}

bool AnalyticBackend::LinearizeAfterForward(const mjModel* m, mjData* d, StepDerivative* out) {
  if (!CanFollowForward(m)) return false;
  const BehindForward behind(this, d);
  if (!TermsAfterForward(m, d, Products::kNone, out)) return false;
  for (MatrixXd* empty : {&out->C, &out->D, &out->P, &out->Ps}) empty->resize(0, 0);
  if (m->opt.integrator != mjINT_RK4) return Step(m, d, out, &forward_missing_);

  // the other stages need data of their own: the caller's stays where it is
  if (!stage_data_) stage_data_ = MakeData(m);
  mj_copyState(m, d, stage_data_.get(), state_);
  behind.Leave();
  return RungeKutta(m, d, stage_data_.get(), out, &forward_missing_) && out->status == StepStatus::kOk;
}

bool AnalyticBackend::VjpAfterForward(const mjModel* m, mjData* d, ConstVectorRef lambda, StepVjp* out) {
  if (!CanFollowForward(m)) return false;
  const BehindForward behind(this, d);
  if (!TermsAfterForward(m, d, Products::kPull, &report_)) return false;
  std::swap(out->coverage, report_.coverage);
  out->status = StepStatus::kOk;
  behind.Leave();
  StartPull(m, false, false, out);
  out->theta.resize(0);
  return PullPoint(m, d, lambda, out, &forward_missing_) && out->status == StepStatus::kOk;
}

}  // namespace costate
