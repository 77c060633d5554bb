#include "optimizer/mpc_control.h"

#include <fmt/core.h>

#include "core/mass.h"

namespace costate {
namespace {

constexpr double kDampEffort =
    1e-6;  // of the largest curvature: directions that take no energy out stay where they are

}  // namespace

MpcControl::MpcControl(const Task& task, const Problem& problem, std::vector<MpcEvent>* events)
    : task_(task), problem_(problem), events_(events), filter_(task) {
  u_ = task.U_guess.col(0).cwiseMax(task.u_lower).cwiseMin(task.u_upper);
}

void MpcControl::Take(MpcPlanPtr plan, int number, double now, const std::string& reason) {
  if (plan) {
    Judge(*plan);
    ++plans_taken_;
    book_.Add(std::move(plan));
    missing_ = exhausted_ = false;
    return;
  }
  events_->push_back({now, MpcEventKind::kDiverged, fmt::format("plan {} is not taken: {}", number, reason)});
  missing_ = true;
}

void MpcControl::Judge(const MpcPlan& plan) {
  constraints_.resize(plan.constraints.size());
  for (std::size_t i = 0; i < constraints_.size(); ++i) {
    MpcConstraintReport& report = constraints_[i];
    const ConstraintReport& now = plan.constraints[i];
    if (now.relative > task_.constrained.tolerance) ++report.plans_violated;
    if (report.plan.knot >= 0 && !(now.relative > report.plan.relative)) continue;
    report.plan = now;
    report.plan_time = plan.begin + std::max(now.knot, 0) * plan.knot_time;
  }
}

void MpcControl::SetLate(double now, const std::string& reason) {
  events_->push_back({now, MpcEventKind::kLate, reason});
  missing_ = true;
}

const VectorXd& MpcControl::At(double now, const MpcMeasurement& measured) {
  const MpcPlan& plan = book_.At(now);
  if (missing_) ++fallback_steps_;
  if (!missing_ || task_.mpc.fallback == MpcFallback::kPlan) {
    if (plan.Control(problem_, task_.mpc.feedback, now, measured.x, &u_)) {
      filter_.Keep(measured, &u_);
      return u_;
    }
    if (!exhausted_) {
      const bool damps = task_.mpc.fallback == MpcFallback::kDamp;
      events_->push_back({now, MpcEventKind::kExhausted,
                          fmt::format("the last plan {}: {}",
                                      plan.HasControl(now) ? "has a control that is not finite"
                                                           : fmt::format("ended at {:.4g} s", plan.end()),
                                      damps ? "damping" : "its last control is held")});
    }
    exhausted_ = true;
    if (!missing_) ++fallback_steps_;
  }
  if (task_.mpc.fallback == MpcFallback::kDamp) Damp(measured);
  return u_;
}

// u ← argmin ½ v'ᵀM v' + ½ ε |u - u_last|² with v' = v'(u_last) + B_v (u - u_last): eq. (M4)
void MpcControl::Damp(const MpcMeasurement& measured) {
  const mjModel* m = task_.model.get();
  const Dims dims(m);
  if (!data_) {
    data_ = MakeData(m);
    LinearizeOptions options{.centered = false};
    options.sensors = false;
    options.substeps = task_.substeps;
    linearizer_ = std::make_unique<Linearizer>(m, options);
  }
  if (!measured.x.allFinite()) return;  // hold
  SetMeasured(task_, measured, data_.get());
  linearizer_->SetContext(GetContext(m, data_.get()));
  linearizer_->Linearize(measured.x, u_, &derivative_);
  VectorXd next(dims.nx), none;
  const StepStatus status = Step(m, data_.get(), measured.x, u_, task_.substeps, next, none);
  if (status != StepStatus::kOk || derivative_.status != StepStatus::kOk) return;  // hold

  const MatrixXd M = MassMatrix(m, data_.get());
  const auto Bv = derivative_.B.middleRows(dims.nv, dims.nv);
  MatrixXd H = Bv.transpose() * M * Bv;
  const VectorXd g = Bv.transpose() * (M * next.segment(dims.nq, dims.nv));
  const double largest = H.diagonal().maxCoeff();
  if (!(largest > 0)) return;
  H.diagonal().array() += kDampEffort * largest;
  VectorXd du = VectorXd::Zero(dims.nu);
  if (SolveBoxQp(H, g, task_.u_lower - u_, task_.u_upper - u_, du, &scratch_) != BoxQpStatus::kIndefinite) u_ += du;
}

}  // namespace costate
