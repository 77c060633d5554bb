#include "optimizer/augmented_cost.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "core/extremes.h"
#include "optimizer/checked_constraint.h"
#include "optimizer/cost_terms.h"

namespace costate {
namespace {

// memory that every evaluation on this thread uses again; one a constraint, because constraints have different sizes
struct AugmentedScratch {
  VectorXd y, g;
  MatrixXd J, Ju, DJ, DJu, V, Vu;
};
AugmentedScratch& ThreadAugmentedScratch(int constraint) {
  static thread_local std::deque<AugmentedScratch> scratch;  // growing moves none
  if (static_cast<int>(scratch.size()) <= constraint) scratch.resize(static_cast<std::size_t>(constraint) + 1);
  return scratch[static_cast<std::size_t>(constraint)];
}

}  // namespace

AugmentedCost::AugmentedCost(const mjModel* model, const Cost& cost, const ConstraintSet& constraints, int N)
    : ndx_(Dims(model).ndx), cost_(cost), constraints_(constraints) {
  needs_sensors_ = cost.NeedsSensors();
  rho.setOnes(constraints.size());
  residuals_.setZero(constraints.size());
  for (int i = 0; i < constraints.size(); ++i) {
    needs_sensors_ |= constraints[i].NeedsSensors();
    lambda.push_back(MatrixXd::Zero(constraints[i].size(), N + 1));
  }
}

void AugmentedCost::MarkSensors(std::vector<char>* read) const {
  cost_.MarkSensors(read);
  for (int i = 0; i < constraints_.size(); ++i) constraints_[i].MarkSensors(read);
}

int AugmentedCost::Shift(int i, const KnotView& knot, VectorXd* y) const {
  const Constraint& constraint = constraints_[i];
  const ConstraintInfo& info = constraint.info();
  ConstraintValue(constraint, knot, y);

  // y = z - clamp(z, lower, upper)
  const auto l = lambda[static_cast<std::size_t>(i)].col(knot.t);
  int active = 0;
  for (int k = 0; k < y->size(); ++k) {
    const double z = (*y)[k] + l[k] / rho[i];
    (*y)[k] = std::isnan(z) ? z : z - Aim(info, k, z);
    active += (*y)[k] != 0;
  }
  return active;
}

double AugmentedCost::Value(const KnotView& knot) const {
  double l = cost_.Value(knot);
  for (int i = 0; i < constraints_.size(); ++i) {
    if (!constraints_[i].IsAt(knot.t, knot.N)) continue;
    VectorXd& y = ThreadAugmentedScratch(i).y;
    Shift(i, knot, &y);
    l += 0.5 * rho[i] * y.squaredNorm() - 0.5 * lambda[static_cast<std::size_t>(i)].col(knot.t).squaredNorm() / rho[i];
  }
  return l;
}

// y = 0
double AugmentedCost::LowerBound(int t) const {
  double l = cost_.LowerBound(t);
  for (int i = 0; i < constraints_.size(); ++i) {
    l -= 0.5 * lambda[static_cast<std::size_t>(i)].col(t).squaredNorm() / rho[i];
  }
  return l;
}

template <typename Visit>
void AugmentedCost::ForKnots(const Trajectory& trajectory, double dt, Visit visit) const {
  for (int i = 0; i < constraints_.size(); ++i) {
    VectorXd& y = ThreadAugmentedScratch(i).y;
    for (int t = 0; t <= trajectory.N(); ++t) {
      if (!constraints_[i].IsAt(t, trajectory.N())) continue;
      Shift(i, ViewKnot(trajectory, t, dt), &y);
      visit(i, t, y);
    }
  }
}

std::vector<CostTermValue> AugmentedCost::Terms(const Trajectory& trajectory) const {
  std::vector<CostTermValue> terms = cost_.Terms(trajectory);
  const std::size_t own = terms.size();
  for (int i = 0; i < constraints_.size(); ++i) terms.push_back({"constraint " + constraints_[i].info().name, 0});
  ForKnots(trajectory, ControlInterval(trajectory), [&](int i, int t, const VectorXd& y) {
    const auto at = static_cast<std::size_t>(i);
    terms[own + at].value += 0.5 * rho[i] * y.squaredNorm() - 0.5 * lambda[at].col(t).squaredNorm() / rho[i];
  });
  return terms;
}

void AugmentedCost::Expand(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const {
  Expand(knot, C, D, out, nullptr);
}

void AugmentedCost::Expand(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out,
                           AugmentedKnot* parts) const {
  cost_.Expand(knot, C, D, out);
  out->l0.resize(0);
  if (parts) {
    parts->base = *out;
    parts->bounds.resize(static_cast<std::size_t>(constraints_.size()));
  }
  for (int i = 0; i < constraints_.size(); ++i) {
    const Constraint& constraint = constraints_[i];
    KnotBounds* const bounds = parts ? &parts->bounds[static_cast<std::size_t>(i)] : nullptr;
    const bool is_here = constraint.IsAt(knot.t, knot.N);
    const bool is_bounded =
        !constraint.ReadsStart() && (constraint.info().lower.array() < constraint.info().upper.array()).all();
    if (bounds) bounds->any = is_here && is_bounded;
    if (!is_here) continue;
    if (bounds && bounds->any) FindBounds(i, knot, C, D, bounds);
    AugmentedScratch& s = ThreadAugmentedScratch(i);
    const int active = Shift(i, knot, &s.y);
    out->l +=
        0.5 * rho[i] * s.y.squaredNorm() - 0.5 * lambda[static_cast<std::size_t>(i)].col(knot.t).squaredNorm() / rho[i];
    if (active == 0) continue;
    if (bounds && bounds->any) {
      s.J = bounds->J;
      s.Ju = bounds->Ju;
    } else {
      ConstraintJacobian(constraint, knot, C, D, ndx_, &s.J, &s.Ju);
    }
    AddActive(i, knot, C, D, out);
    if (parts && !is_bounded) AddActive(i, knot, C, D, &parts->base);
    if (constraint.ReadsStart() && knot.t == knot.N) AddStart(i, knot, out);
  }
}

// lx += Jᵀ rho y, lxx += rho Jᵀ [y ≠ 0] J, and the same with Ju
void AugmentedCost::AddActive(int i, const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D,
                              CostExpansion* out) const {
  AugmentedScratch& s = ThreadAugmentedScratch(i);
  s.g = rho[i] * s.y;
  s.DJ = rho[i] * s.J;
  for (int k = 0; k < s.y.size(); ++k) {
    if (s.y[k] == 0) s.DJ.row(k).setZero();
  }
  const Eigen::Index n = s.J.cols();
  out->lx.head(n).noalias() += s.J.transpose() * s.g;
  out->lxx.topLeftCorner(n, n).noalias() += s.J.transpose() * s.DJ;
  AddCurvature(i, knot, C, D, out);
  if (s.Ju.cols() == 0 || knot.t == knot.N) return;
  s.DJu = rho[i] * s.Ju;
  for (int k = 0; k < s.y.size(); ++k) {
    if (s.y[k] == 0) s.DJu.row(k).setZero();
  }
  out->lu.noalias() += s.Ju.transpose() * s.g;
  out->lux.leftCols(n).noalias() += s.Ju.transpose() * s.DJ;
  out->luu.noalias() += s.Ju.transpose() * s.DJu;
}

// z and its slopes; equalities, and what reads the start, are no bounds
void AugmentedCost::FindBounds(int i, const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D,
                               KnotBounds* bounds) const {
  const Constraint& constraint = constraints_[i];
  const ConstraintInfo& info = constraint.info();
  bounds->rho = rho[i];
  ConstraintValue(constraint, knot, &bounds->z);
  bounds->z += lambda[static_cast<std::size_t>(i)].col(knot.t) / rho[i];
  const Eigen::Index size = bounds->z.size();
  bounds->lower.resize(size);
  bounds->upper.resize(size);
  bounds->side.assign(static_cast<std::size_t>(size), 0);
  for (Eigen::Index k = 0; k < size; ++k) {
    bounds->lower[k] = Aim(info, k, -kInf);
    bounds->upper[k] = Aim(info, k, kInf);
  }
  ConstraintJacobian(constraint, knot, C, D, ndx_, &bounds->J, &bounds->Ju);
}

// rho y_k ∂²c_k where it is known and convex
void AugmentedCost::AddCurvature(int i, const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D,
                                 CostExpansion* out) const {
  AugmentedScratch& s = ThreadAugmentedScratch(i);
  ConstraintCurvature(constraints_[i], knot, C, D, s.g, ndx_, &s.V, &s.Vu);
  if (s.V.rows() == 0) return;
  const Eigen::Index n = s.V.cols();
  out->lxx.topLeftCorner(n, n).noalias() += s.V.transpose() * s.V;
  if (s.Vu.cols() == 0 || knot.t == knot.N) return;
  out->lux.leftCols(n).noalias() += s.Vu.transpose() * s.V;
  out->luu.noalias() += s.Vu.transpose() * s.Vu;
}

// the same by dx_0: l0 += J0ᵀ rho y, l0x += rho J0ᵀ [y ≠ 0] J, l00 += rho J0ᵀ [y ≠ 0] J0
void AugmentedCost::AddStart(int i, const KnotView& knot, CostExpansion* out) const {
  AugmentedScratch& s = ThreadAugmentedScratch(i);
  if (out->l0.size() == 0) {
    out->l0.setZero(ndx_);
    out->l0x.setZero(ndx_, ndx_);
    out->l00.setZero(ndx_, ndx_);
  }
  MatrixXd J0;
  ConstraintStartJacobian(constraints_[i], knot, ndx_, &J0);
  for (int k = 0; k < s.y.size(); ++k) {
    if (s.y[k] == 0) J0.row(k).setZero();
  }
  out->l0.noalias() += J0.transpose() * s.g;
  out->l0x.leftCols(s.J.cols()).noalias() += J0.transpose() * s.DJ;
  out->l00.noalias() += rho[i] * J0.transpose() * J0;
}

void AugmentedCost::Gradient(const KnotView& knot, KnotGradient* out) const {
  cost_.Gradient(knot, out);
  for (int i = 0; i < constraints_.size(); ++i) {
    AugmentedScratch& s = ThreadAugmentedScratch(i);
    if (!constraints_[i].IsAt(knot.t, knot.N) || Shift(i, knot, &s.y) == 0) continue;
    s.g = rho[i] * s.y;
    PullBackConstraint(constraints_[i], knot, s.g, out);
  }
}

VectorXd AugmentedCost::Residuals(const Trajectory& trajectory, double dt) const {
  Measure(trajectory, dt);
  return residuals_;
}

// residuals_ and unsettled_
void AugmentedCost::Measure(const Trajectory& trajectory, double dt) const {
  residuals_.setZero();
  unsettled_ = 0;
  ForKnots(trajectory, dt, [&](int i, int t, const VectorXd& y) {
    const ConstraintInfo& info = constraints_[i].info();
    const auto l = lambda[static_cast<std::size_t>(i)].col(t);
    unsettled_ += 0.5 * rho[i] * (y - l / rho[i]).squaredNorm();
    for (int k = 0; k < y.size(); ++k) residuals_[i] = std::max(residuals_[i], Unsettled(info, k, y[k], l[k] / rho[i]));
  });
}

void AugmentedCost::UpdateMultipliers(const Trajectory& trajectory, double dt) {
  ForKnots(trajectory, dt,
           [&](int i, int t, const VectorXd& y) { lambda[static_cast<std::size_t>(i)].col(t) = rho[i] * y; });
}

void AugmentedCost::Observe(const Trajectory& trajectory, double dt, IterationRecord* record) const {
  Measure(trajectory, dt);
  record->cost = TotalCost(cost_, trajectory, dt);
  cost_.Observe(trajectory, dt, record);
  record->violation = 0;
  for (int i = 0; i < constraints_.size(); ++i) {
    VectorXd& c = ThreadAugmentedScratch(i).y;
    for (int t = 0; t <= trajectory.N(); ++t) {
      if (!constraints_[i].IsAt(t, trajectory.N())) continue;
      ConstraintValue(constraints_[i], ViewKnot(trajectory, t, dt), &c);
      record->violation = std::max(record->violation, LargestViolation(constraints_[i].info(), c));
    }
  }
}

}  // namespace costate
