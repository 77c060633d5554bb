#include "optimizer/mpc_filter.h"

#include <costate/step.h>

#include <utility>

#include "core/mass.h"
#include "optimizer/checked_constraint.h"
#include "optimizer/constrained_lq.h"
#include "optimizer/force_limits.h"

namespace costate {
namespace {

constexpr int kMostCorrections = 3;  // forces are linear in controls, but at their limits
constexpr double kEffort = 1e-6;     // of the largest curvature: what moves no mass shall stay, too

// ½ (u − planned)ᵀ H (u − planned) of the control at knot 0
class Departure final : public Cost {
 public:
  Departure(const MatrixXd& H, ConstVectorRef planned) : H_(H), planned_(planned) {}
  double Value(const KnotView& knot) const override {
    return knot.t == 0 ? 0.5 * (knot.u - planned_).dot(H_ * (knot.u - planned_)) : 0;
  }
  void Expand(const KnotView& knot, ConstMatrixRef, ConstMatrixRef, CostExpansion* out) const override {
    out->l = Value(knot);
    if (knot.t > 0) return;
    out->lu = H_ * (knot.u - planned_);
    out->luu = H_;
  }
  bool NeedsSensors() const override { return false; }
  std::vector<CostTermValue> Terms(const Trajectory&) const override { return {}; }

 private:
  const MatrixXd& H_;
  ConstVectorRef planned_;
};

}  // namespace

MpcFilter::MpcFilter(const Task& task)
    : task_(task),
      constraints_(task),
      any_(task.mpc.feedback && constraints_.AnyMovedByControl()),
      control_time_(task.knot_time()) {}

// data_, s_ and next_ become those of the interval under u; false where it cannot be simulated
bool MpcFilter::Simulate(const mjModel* m, const MpcMeasurement& measured, ConstVectorRef u) {
  SetMeasured(task_, measured, data_.get());
  return Step(m, data_.get(), measured.x, u, task_.substeps, next_, s_) == StepStatus::kOk;
}

// sensors of knot 1 are not known: nothing there reads them
KnotView MpcFilter::View(int t, ConstVectorRef x, ConstVectorRef u) const {
  return {.t = t,
          .N = 1,
          .time = data_->time,
          .dt = control_time_,
          .x = t == 0 ? x : ConstVectorRef(next_),
          .u = u,
          .s = s_,
          .start = x.data()};
}

// do all hold that u alone decides, in the interval that was simulated?
bool MpcFilter::AreKept(ConstVectorRef x, ConstVectorRef u) {
  for (int i = 0; i < constraints_.size(); ++i) {
    const Constraint& constraint = constraints_.set()[i];
    if (!constraint.IsAt(0, 1)) continue;
    ConstraintValue(constraint, View(0, x, u), &c_);
    if (LargestViolation(constraint.info(), c_) > task_.constrained.tolerance) return false;
  }
  return true;
}

// one round of (M7), about u
bool MpcFilter::Move(ConstVectorRef x, ConstVectorRef planned, VectorXd* u) {
  const Departure cost(H_, planned);
  ConstrainedLq constrained(task_.model.get(), cost, constraints_.set(), 1, task_.constrained.tolerance);
  const Eigen::Index ndx = derivative_.A.rows(), nu = u->size();
  LqProblem lq;
  LqKnot& knot = lq.knots.emplace_back();
  CostExpansion now, next;
  constrained.Expand(View(0, x, *u), derivative_.C, derivative_.D, &now);
  constrained.Expand(View(1, x, *u), derivative_.C, MatrixXd(), &next);
  knot.A = derivative_.A;
  knot.B = derivative_.B;
  knot.lx.setZero(ndx);
  knot.lu = std::move(now.lu);
  knot.lxx.setZero(ndx, ndx);
  knot.lux.setZero(nu, ndx);
  knot.luu = std::move(now.luu);
  knot.du_lower = task_.u_lower - *u;
  knot.du_upper = task_.u_upper - *u;
  lq.lx.setZero(ndx);
  lq.lxx.setZero(ndx, ndx);
  RiccatiResult riccati;
  constrained.Solve(&lq, 0, &riccati);
  if (!constrained.exact()) return false;
  *u = (*u + riccati.k.col(0)).cwiseMax(task_.u_lower).cwiseMin(task_.u_upper);
  return u->allFinite();
}

// H_ of the step that derivative_ is of; false where controls move nothing
bool MpcFilter::FindMetric(const mjModel* m) {
  const auto Bv = derivative_.B.middleRows(m->nv, m->nv);
  H_ = Bv.transpose() * MassMatrix(m, data_.get()) * Bv;
  const double largest = H_.diagonal().maxCoeff();
  H_.diagonal().array() += kEffort * largest;
  return largest > 0;
}

// (M7) by the slopes of a model; false where it does not lead to a control that the task's own keeps all with
bool MpcFilter::Correct(const mjModel* m, const MpcMeasurement& measured, ConstVectorRef planned, VectorXd* u) {
  std::unique_ptr<Linearizer>& linearizer = m == task_.model.get() ? linearizer_ : unlimited_linearizer_;
  if (!linearizer) {
    linearizer = std::make_unique<Linearizer>(m, LinearizeOptions{.substeps = task_.substeps});
    std::vector<char> read(static_cast<std::size_t>(m->nsensordata), 0);
    for (int i = 0; i < constraints_.size(); ++i) constraints_.set()[i].MarkSensors(&read);
    linearizer->SelectSensors(read);
  }
  SetMeasured(task_, measured, data_.get());
  linearizer->SetContext(GetContext(m, data_.get()));
  *u = planned;
  for (int round = 0; round < kMostCorrections; ++round) {
    linearizer->Linearize(measured.x, *u, &derivative_);
    if (derivative_.status != StepStatus::kOk || !Simulate(m, measured, *u)) return false;
    if (round == 0 && !FindMetric(m)) return false;
    if (!Move(measured.x, planned, u) || !Simulate(task_.model.get(), measured, *u)) return false;
    if (AreKept(measured.x, *u)) return true;
  }
  return false;
}

void MpcFilter::Keep(const MpcMeasurement& measured, VectorXd* u) {
  if (!any_ || !measured.x.allFinite()) return;
  const mjModel* m = task_.model.get();
  if (!data_) {
    data_ = MakeData(m);
    unlimited_ = WithoutForceLimits(m);
    s_.setZero(m->nsensordata);
    next_ = measured.x;
  }
  constraints_.PlaceControl(measured.time, control_time_);
  if (!Simulate(m, measured, *u) || AreKept(measured.x, *u)) return;
  const auto correct = [&] {
    return Correct(m, measured, *u, &corrected_) ||
           (unlimited_ && Correct(unlimited_.get(), measured, *u, &corrected_));
  };
  bool corrected = correct();
  if (!corrected) {
    constraints_.DropStates();
    corrected = correct();
  }
  if (corrected) *u = corrected_;
}

}  // namespace costate
