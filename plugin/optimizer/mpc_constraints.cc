#include "optimizer/mpc_constraints.h"

#include <costate/step.h>

#include <algorithm>
#include <cmath>

#include "optimizer/checked_constraint.h"

namespace costate {
namespace {

constexpr double kOnKnot = 1e-6;  // of a knot: a time this near to a knot means it

// c depends on u at the same knot: asked of its Jacobian at the task's start
bool IsMovedByControl(const Constraint& constraint, const KnotView& knot, const Dims& dims) {
  MatrixXd J, Ju;
  ConstraintJacobian(constraint, knot, MatrixXd::Zero(dims.ns, dims.ndx), MatrixXd::Zero(dims.ns, dims.nu), dims.ndx,
                     &J, &Ju);
  return Ju.cols() > 0;
}

ConstraintWindow MakeWindow(const Task& task, const Constraint& constraint, const KnotView& start) {
  const ConstraintInfo& info = constraint.info();
  const int N = task.N;
  const int first = info.first < 0 ? N + 1 + info.first : info.first,
            last = info.last < 0 ? N + 1 + info.last : info.last;
  ConstraintWindow window;
  window.moved_by_control = IsMovedByControl(constraint, start, Dims(task.model.get()));
  window.end = first >= N;
  window.open = last >= N - (window.moved_by_control ? 1 : 0);
  window.begin = first <= 1 ? 0 : first * start.dt;
  window.until = last * start.dt;
  return window;
}

}  // namespace

MpcConstraints::MpcConstraints(const Task& task) {
  if (task.constraints.size() == 0) return;
  const mjModel* model = task.model.get();
  const DataPtr data = MakeData(model);
  SetContext(model, data.get(), task.context);
  const VectorXd u = task.U_guess.col(0);
  VectorXd s = VectorXd::Zero(model->nsensordata);
  Forward(model, data.get(), task.x0, u, s);
  const KnotView start{
      .t = 0, .N = task.N, .time = 0, .dt = task.knot_time(), .x = task.x0, .u = u, .s = s, .start = task.x0.data()};
  for (int i = 0; i < task.constraints.size(); ++i) {
    const ConstraintWindow window = MakeWindow(task, task.constraints[i], start);
    auto placed = std::make_unique<PlacedConstraint>(&task.constraints[i], window);
    placed_.push_back(placed.get());
    stays_at_end_.push_back(window.open);
    set_.Add(std::move(placed));
  }
}

void MpcConstraints::PlacePlan(double shift, double knot_time, int N) {
  for (PlacedConstraint* placed : placed_) {
    const ConstraintWindow& window = placed->window;
    if (window.end) {
      placed->Place(N, N, shift);
      continue;
    }
    const auto knot = [&](double time) { return std::clamp((time - shift) / knot_time, -2.0, N + 2.0); };
    int first = static_cast<int>(std::ceil(knot(window.begin) - kOnKnot));
    int last = window.open ? N : static_cast<int>(std::floor(knot(window.until) + kOnKnot));
    if (!window.open && first > last)
      first = last = static_cast<int>(std::lround(knot(0.5 * (window.begin + window.until))));  // between two knots
    placed->Place(std::max(first, window.moved_by_control ? 0 : 1), std::min(last, window.moved_by_control ? N - 1 : N),
                  shift);
  }
}

void MpcConstraints::DropIf(bool (*drops)(const PlacedConstraint&)) {
  for (PlacedConstraint* placed : placed_) {
    if (drops(*placed)) placed->Place(0, -1, 0);
  }
}

void MpcConstraints::PlaceMotion(double knot_time, int N) {
  PlacePlan(0, knot_time, N);
  DropIf([](const PlacedConstraint& placed) { return placed.window.end; });
}

void MpcConstraints::PlaceControl(double now, double control_time) {
  PlacePlan(now, control_time, 1);
  DropIf([](const PlacedConstraint& placed) {
    return placed.window.end || (!placed.window.moved_by_control && placed.NeedsSensors());
  });
}

void MpcConstraints::DropStates() {
  DropIf([](const PlacedConstraint& placed) { return !placed.window.moved_by_control; });
}

bool MpcConstraints::AnyMovedByControl() const {
  return std::any_of(placed_.begin(), placed_.end(),
                     [](const PlacedConstraint* placed) { return placed->window.moved_by_control; });
}

}  // namespace costate
