// Constraints, sets of them, and those on the state itself.
#include <costate/constraint.h>
#include <costate/state.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/check.h"
#include "core/difference_row.h"
#include "core/scratch.h"
#include "optimizer/augmented_cost.h"
#include "optimizer/checked_constraint.h"
#include "rollout/units.h"

namespace costate {

bool Constraint::IsAt(int t, int N) const {
  const int first = info_.first < 0 ? N + 1 + info_.first : info_.first;
  const int last = info_.last < 0 ? N + 1 + info_.last : info_.last;
  return first <= t && t <= last;
}

void Constraint::PullBack(const KnotView& knot, ConstVectorRef g, KnotGradient* out) const {
  if (NeedsSensors()) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("constraint '{}' reads sensors and has no gradient by them: override Constraint::PullBack",
                            info_.name));
  }
  struct Jacobians {
    MatrixXd x, u;
  };
  const Scratch<Jacobians> J;  // a Jacobian may ask another constraint for its pull-back
  ConstraintJacobian(*this, knot, MatrixXd(), MatrixXd(), out->x.size(), &J->x, &J->u);
  out->x.head(J->x.cols()).noalias() += J->x.transpose() * g;
  if (J->u.cols() > 0 && knot.t < knot.N) out->u.noalias() += J->u.transpose() * g;
}

namespace {

double Inset(const ConstraintInfo& info, Eigen::Index k) { return info.inset.size() > 0 ? info.inset[k] : 0; }

}  // namespace

void ConstraintSet::Add(std::unique_ptr<Constraint> constraint) {
  if (!constraint) throw Error(ErrorCode::kInvalidArgument, "the constraint is null");
  const ConstraintInfo& info = constraint->info();
  const std::string name = "constraint '" + info.name + "'";
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::kInvalidArgument, message); };
  const Eigen::Index n = info.lower.size();
  if (info.upper.size() != n || static_cast<Eigen::Index>(info.components.size()) != n) {
    throw Error(ErrorCode::kDimensionMismatch,
                fmt::format("{} has {} lower bounds, {} upper bounds and {} components; they must be as many", name, n,
                            info.upper.size(), info.components.size()));
  }
  if (n == 0) refuse(name + " has no components");
  if (info.inset.size() != 0 && info.inset.size() != n) {
    throw Error(ErrorCode::kDimensionMismatch,
                fmt::format("{} has {} components and {} insets", name, n, info.inset.size()));
  }
  for (int i = 0; i < size(); ++i) {
    if ((*this)[i].info().name == info.name) refuse("a second " + name + ": a name of its own tells them apart");
  }
  for (Eigen::Index k = 0; k < n; ++k) {
    const std::string& component = info.components[static_cast<std::size_t>(k)];
    if (std::isnan(info.lower[k]) || std::isnan(info.upper[k])) refuse(name + ": a bound of " + component + " is NaN");
    if (!(info.lower[k] <= info.upper[k])) {
      refuse(fmt::format("{}: the bounds of {} exclude each other: lower {:g}, upper {:g}", name, component,
                         info.lower[k], info.upper[k]));
    }
    const double inset = Inset(info, k);
    if (!(inset >= 0 && info.lower[k] + inset <= info.upper[k] - inset)) {
      refuse(fmt::format("{}: an inset of {:g} leaves nothing of the bounds of {}: {:g} to {:g}", name, inset,
                         component, info.lower[k], info.upper[k]));
    }
    const bool one = std::isfinite(info.lower[k]) || std::isfinite(info.upper[k]);
    if (!one || info.lower[k] == INFINITY || info.upper[k] == -INFINITY) {
      refuse(fmt::format("{}: {} has no finite bound that can be kept", name, component));
    }
  }
  constraints_.push_back(std::move(constraint));
}

// ---- on the state ---------------------------------------------------------------------------------------------------

namespace {

std::vector<std::string> TangentUnits(const mjModel* model) {
  const Dims dims(model);
  std::vector<std::string> units, state = StateUnits(model);
  for (int dof = 0; dof < dims.nv; ++dof) {
    const int joint = model->dof_jntid[dof], type = model->jnt_type[joint];
    const bool length = type == mjJNT_SLIDE || (type == mjJNT_FREE && dof < model->jnt_dofadr[joint] + 3);
    units.push_back(length ? "m" : "rad");
  }
  units.insert(units.end(), state.begin() + dims.nq, state.end());
  return units;
}

ConstraintInfo CompleteInfo(const mjModel* model, ConstraintInfo info, const std::vector<int>& entries) {
  const std::vector<std::string> names = TangentNames(model);
  const std::vector<std::string> units = TangentUnits(model);
  const int ndx = Dims(model).ndx;
  for (const int entry : entries) {
    if (entry >= 0 && entry < ndx) continue;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("constraint '{}': there is no entry {} of the tangent, it has {}", info.name, entry, ndx));
  }
  const bool nameless = info.components.empty(), unitless = info.unit.empty();
  for (const int entry : entries) {
    const std::size_t i = static_cast<std::size_t>(entry);
    if (nameless) info.components.push_back(names[i]);
    if (unitless && info.unit.find(units[i]) == std::string::npos)
      info.unit += (info.unit.empty() ? "" : ", ") + units[i];
  }
  return info;
}

}  // namespace

StateConstraint::StateConstraint(const mjModel* model, ConstraintInfo info, VectorXd x_reference,
                                 std::vector<int> entries)
    : Constraint(CompleteInfo(model, std::move(info), entries)),
      model_(model),
      x_reference_(std::move(x_reference)),
      entries_(std::move(entries)) {
  CheckSize(model, "x_reference", x_reference_.size(), "nx", Dims(model).nx);
  if (static_cast<int>(entries_.size()) != size()) {
    throw Error(ErrorCode::kDimensionMismatch, fmt::format("constraint '{}' has {} entries and {} bounds",
                                                           this->info().name, entries_.size(), size()));
  }
  if (entries_.empty())
    throw Error(ErrorCode::kInvalidArgument, fmt::format("constraint '{}' has no entries", this->info().name));
  columns_ = 1 + *std::max_element(entries_.begin(), entries_.end());
}

void StateConstraint::Value(const KnotView& knot, VectorXd* c) const {
  static thread_local VectorXd dx;
  dx.resize(Dims(model_).ndx);
  Difference(model_, knot.x, x_reference_, dx);
  c->resize(size());
  for (int i = 0; i < size(); ++i) (*c)[i] = dx[entries_[static_cast<std::size_t>(i)]];
}

void StateConstraint::Jacobian(const KnotView& knot, ConstMatrixRef, ConstMatrixRef, MatrixXd* J, MatrixXd* Ju) const {
  const int columns = std::max(columns_, static_cast<int>(model_->nv));
  J->setZero(size(), columns);
  Ju->resize(size(), 0);
  for (int i = 0; i < size(); ++i) {
    const DifferenceRow row =
        RowOfDifference(model_, knot.x.data(), x_reference_.data(), entries_[static_cast<std::size_t>(i)]);
    J->row(i).segment(row.first, row.size) = row.value.head(row.size).transpose();
  }
}

std::unique_ptr<Constraint> MakeGoalConstraint(const mjModel* model, ConstVectorRef x_goal, const std::string& name) {
  const int ndx = Dims(model).ndx;
  std::vector<int> entries(static_cast<std::size_t>(ndx));
  std::iota(entries.begin(), entries.end(), 0);
  ConstraintInfo info;
  info.name = name;
  info.lower = info.upper = VectorXd::Zero(ndx);
  info.first = -1;
  return std::make_unique<StateConstraint>(model, std::move(info), x_goal, std::move(entries));
}

// ---- how well they are kept -----------------------------------------------------------------------------------------

double BoundScale(double lower, double upper) {
  double scale = 1;
  for (const double bound : {lower, upper}) {
    if (std::isfinite(bound)) scale = std::max(scale, std::abs(bound));
  }
  return scale;
}

namespace {

double Violation(const ConstraintInfo& info, ConstVectorRef c, Eigen::Index k) {
  return std::isnan(c[k]) ? INFINITY : std::max({info.lower[k] - c[k], c[k] - info.upper[k], 0.0});
}

}  // namespace

double Aim(const ConstraintInfo& info, Eigen::Index k, double z) {
  return std::clamp(z, info.lower[k] + Inset(info, k), info.upper[k] - Inset(info, k));
}

double Unsettled(const ConstraintInfo& info, Eigen::Index k, double y, double shift) {
  double off = std::abs(y - shift);
  if (y * (y - shift) > 0) off = std::max(off - Inset(info, k), 0.0);  // beyond what is aimed at
  return off / BoundScale(info.lower[k], info.upper[k]);
}

double LargestViolation(const ConstraintInfo& info, ConstVectorRef c) {
  double largest = 0;
  for (Eigen::Index k = 0; k < c.size(); ++k) {
    largest = std::max(largest, Violation(info, c, k) / BoundScale(info.lower[k], info.upper[k]));
  }
  return largest;
}

std::vector<ConstraintReport> CheckConstraints(const ConstraintSet& constraints, const Trajectory& trajectory,
                                               double dt) {
  const int N = trajectory.N();
  std::vector<ConstraintReport> reports;
  VectorXd c;
  for (int i = 0; i < constraints.size(); ++i) {
    const Constraint& constraint = constraints[i];
    const ConstraintInfo& info = constraint.info();
    ConstraintReport report;
    report.name = info.name;
    report.unit = info.unit;
    for (int t = 0; t <= N; ++t) {
      if (!constraint.IsAt(t, N)) continue;
      ConstraintValue(constraint, ViewKnot(trajectory, t, dt), &c);
      for (int k = 0; k < c.size(); ++k) {
        const double violation = Violation(info, c, k);
        const double relative = violation / BoundScale(info.lower[k], info.upper[k]);
        if (report.knot >= 0 && !(relative > report.relative)) continue;
        report.violation = violation;
        report.relative = relative;
        report.knot = t;
        report.component = info.components[static_cast<std::size_t>(k)];
        report.value = c[k];
        report.lower = info.lower[k];
        report.upper = info.upper[k];
      }
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

double LargestRelative(const std::vector<ConstraintReport>& reports) {
  double largest = 0;
  for (const ConstraintReport& report : reports) largest = std::max(largest, report.relative);
  return largest;
}

}  // namespace costate
