#include "optimizer/constrained_lq.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/extremes.h"
#include "optimizer/checked_constraint.h"
#include "optimizer/step_search.h"

namespace costate {
namespace {

constexpr int kMostRounds = 6;  // of the recursion, before the way by barriers

// what constraints and a predicted motion change, of a knot and of what is kept of it
auto Imposed(auto& of) { return std::tie(of.lx, of.lu, of.lxx, of.lux, of.luu, of.du_lower, of.du_upper); }
auto ImposedAtEnd(auto& of) { return std::tie(of.lx, of.lxx); }

}  // namespace

ConstrainedLq::ConstrainedLq(const mjModel* model, const Cost& cost, const ConstraintSet& constraints, int N,
                             double tolerance)
    : augmented(model, cost, constraints, N), cost_(cost), constraints_(constraints), N_(N), tolerance_(tolerance) {
  const Dims dims(model);
  rows_.resize(static_cast<std::size_t>((N + 1) * constraints.size()));
  base_.resize(static_cast<std::size_t>(N) + 1);
  across_knots_.reserve(static_cast<std::size_t>(N) + 1);
  for (VectorXd* memory : {&across_x_, &across_moved_}) memory->setZero(dims.ndx);
  across_u_.setZero(dims.nu);
  dX_.setZero(dims.ndx, N + 1);
  dU_.setZero(dims.nu, N);
  across_.setZero(constraints.size());
  largest_multiplier_.setZero(constraints.size());
}

void ConstrainedLq::Expand(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const {
  cost_.Expand(knot, C, D, out);
  if (knot.t == 0) fresh_ = true;
  for (int i = 0; i < constraints_.size(); ++i) {
    Rows& rows = At(knot.t, i);
    rows.holds = constraints_[i].IsAt(knot.t, knot.N);
    if (!rows.holds) continue;
    ConstraintValue(constraints_[i], knot, &rows.c);
    ConstraintJacobian(constraints_[i], knot, C, D, dX_.rows(), &rows.J, &rows.Ju);
  }
}

// the cost's own gradients and Hessians
void ConstrainedLq::Keep(const LqProblem& lq) {
  for (std::size_t t = 0; t < lq.knots.size(); ++t) Imposed(base_[t]) = Imposed(lq.knots[t]);
  ImposedAtEnd(base_.back()) = ImposedAtEnd(lq);
  fresh_ = false;
}

void ConstrainedLq::Restore(LqProblem* lq) const {
  for (std::size_t t = 0; t < lq->knots.size(); ++t) Imposed(lq->knots[t]) = Imposed(base_[t]);
  ImposedAtEnd(*lq) = ImposedAtEnd(base_.back());
}

// z and y at the predicted motion, and which rows are out of bounds there; true when these are others than before
bool ConstrainedLq::Activate() {
  bool changed = false;
  for (int t = 0; t <= N_; ++t) {
    for (int i = 0; i < constraints_.size(); ++i) {
      Rows& rows = At(t, i);
      if (!rows.holds) continue;
      const ConstraintInfo& info = constraints_[i].info();
      const auto lambda = augmented.lambda[static_cast<std::size_t>(i)].col(t);
      const double rho = augmented.rho[i];
      rows.z = rows.c;
      rows.z.noalias() += rows.J * dX_.col(t).head(rows.J.cols());
      if (rows.Ju.cols() > 0) rows.z.noalias() += rows.Ju * dU_.col(t);
      rows.z += lambda / rho;
      rows.y.resize(rows.z.size());
      rows.pull.resize(rows.z.size());
      rows.weight.resize(rows.z.size());
      rows.active.resize(static_cast<std::size_t>(rows.z.size()), 0);
      for (Eigen::Index k = 0; k < rows.z.size(); ++k) {
        const double bound = Aim(info, k, rows.z[k]);
        rows.y[k] = rows.z[k] - bound;
        const char active = rows.y[k] != 0;
        rows.pull[k] = active ? rho * (rows.c[k] + lambda[k] / rho - bound) : 0;
        rows.weight[k] = active ? rho : 0;
        char& was = rows.active[static_cast<std::size_t>(k)];
        changed |= was != active;
        was = active;
      }
    }
  }
  return changed;
}

// the rows of one knot onto the cost: lx += Jᵀ pull, lxx += Jᵀ weight J, and the same with Ju: (C6)
void ConstrainedLq::Impose(int t, VectorXd* lx, MatrixXd* lxx, LqKnot* knot) {
  for (int i = 0; i < constraints_.size(); ++i) {
    Rows& rows = At(t, i);
    if (!rows.holds || rows.weight.isZero(0)) continue;
    rows.DJ.noalias() = rows.weight.asDiagonal() * rows.J;
    const Eigen::Index n = rows.J.cols();
    lx->head(n).noalias() += rows.J.transpose() * rows.pull;
    lxx->topLeftCorner(n, n).noalias() += rows.J.transpose() * rows.DJ;
    if (!knot || rows.Ju.cols() == 0) continue;
    rows.DJu.noalias() = rows.weight.asDiagonal() * rows.Ju;
    knot->lu.noalias() += rows.Ju.transpose() * rows.pull;
    knot->lux.leftCols(n).noalias() += rows.Ju.transpose() * rows.DJ;
    knot->luu.noalias() += rows.Ju.transpose() * rows.DJu;
  }
}

void ConstrainedLq::ImposeRows(LqProblem* lq) {
  for (int t = 0; t < N_; ++t) {
    LqKnot& knot = lq->knots[static_cast<std::size_t>(t)];
    Impose(t, &knot.lx, &knot.lxx, &knot);
  }
  Impose(N_, &lq->lx, &lq->lxx, nullptr);
}

// ½ mu ‖du‖² as a part of the cost: counted by the recursion alone it would be another problem at each prediction
void ConstrainedLq::AddProximal(double regularization, LqProblem* lq) {
  for (LqKnot& knot : lq->knots) {
    if (lq->unit.size() > 0) {
      knot.luu.diagonal().array() += regularization / lq->unit.array().square();
    } else {
      knot.luu.diagonal().array() += regularization;
    }
  }
}

// the same problem with dx and du counted from the predicted motion: (C7a)
void ConstrainedLq::MoveToPrediction(LqProblem* lq, double regularization) const {
  AddProximal(regularization, lq);
  for (int t = 0; t < N_; ++t) {
    LqKnot& knot = lq->knots[static_cast<std::size_t>(t)];
    const auto dx = dX_.col(t), du = dU_.col(t);
    knot.lx.noalias() += knot.lxx * dx;
    knot.lx.noalias() += knot.lux.transpose() * du;
    knot.lu.noalias() += knot.luu * du;
    knot.lu.noalias() += knot.lux * dx;
    if (knot.du_lower.size() == 0) continue;
    knot.du_lower -= du;
    knot.du_upper -= du;
  }
  lq->lx.noalias() += lq->lxx * dX_.col(N_);
}

// the policy about the last predicted motion as one about dx = 0
void ConstrainedLq::MovePolicyBack(RiccatiResult* riccati) const {
  for (int t = 0; t < N_; ++t) {
    auto k = riccati->k.col(t);
    k += dU_.col(t);
    k.noalias() -= riccati->K[static_cast<std::size_t>(t)] * dX_.col(t);
  }
}

// dx' = A dx + B du under du = clamp(k + K dx); true when other controls are at their bounds than in the prediction
// before
bool ConstrainedLq::Predict(const LqProblem& lq, const RiccatiResult& riccati) {
  bool changed = false;
  for (int t = 0; t < N_; ++t) {
    const LqKnot& knot = lq.knots[static_cast<std::size_t>(t)];
    const Base& base = base_[static_cast<std::size_t>(t)];
    du_ = riccati.k.col(t);
    du_.noalias() += riccati.K[static_cast<std::size_t>(t)] * dX_.col(t);
    for (Eigen::Index i = 0; i < base.du_lower.size(); ++i) {
      const double low = base.du_lower[i], high = base.du_upper[i], was = dU_(i, t);
      du_[i] = std::clamp(du_[i], low, high);
      changed |= (du_[i] == low) != (was == low) || (du_[i] == high) != (was == high);
    }
    dU_.col(t) = du_;
    dX_.col(t + 1).noalias() = knot.A * dX_.col(t);
    dX_.col(t + 1).noalias() += knot.B * du_;
  }
  return changed;
}

// the largest |y - lambda / rho| at the predicted motion, over bound scales, of rows that anything moves
double ConstrainedLq::Residual() const {
  double residual = 0;
  for (int t = 0; t <= N_; ++t) {
    for (int i = 0; i < constraints_.size(); ++i) {
      const Rows& rows = At(t, i);
      if (!rows.holds || across_[i] == 0) continue;
      const auto lambda = augmented.lambda[static_cast<std::size_t>(i)].col(t);
      for (Eigen::Index k = 0; k < rows.y.size(); ++k) {
        const double off = Unsettled(constraints_[i].info(), k, rows.y[k], lambda[k] / augmented.rho[i]);
        if (!(off <= residual)) residual = off;  // a NaN, too
        if (std::isnan(off)) return off;
      }
    }
  }
  return residual;
}

// lambda = rho y: (C7)
void ConstrainedLq::UpdateMultipliers() {
  for (int i = 0; i < constraints_.size(); ++i) {
    for (int t = 0; t <= N_; ++t) {
      const Rows& rows = At(t, i);
      if (rows.holds) augmented.lambda[static_cast<std::size_t>(i)].col(t) = augmented.rho[i] * rows.y;
    }
  }
}

// with penalties that follow the multipliers; false: no step follows from them
bool ConstrainedLq::IsDescent(RiccatiResult* out) {
  FollowMultipliers();
  Activate();
  Promise(out);
  return out->expected_linear < 0 && Expected(*out).At(1) < 0;
}

// what the model promises of the augmented Lagrangian: its slope along the step, and its change at the whole one
void ConstrainedLq::Promise(RiccatiResult* out) {
  double linear = 0, change = 0;
  for (int t = 0; t <= N_; ++t) {
    const Base& base = base_[static_cast<std::size_t>(t)];
    const auto dx = dX_.col(t);
    double slope = base.lx.dot(dx);
    lxx_dx_.noalias() = base.lxx * dx;
    double curvature = lxx_dx_.dot(dx);
    if (t < N_) {
      const auto du = dU_.col(t);
      slope += base.lu.dot(du);
      luu_du_.noalias() = base.luu * du;
      luu_du_.noalias() += 2 * base.lux * dx;
      curvature += luu_du_.dot(du);
    }
    linear += slope;
    change += slope + 0.5 * curvature;
    for (int i = 0; i < constraints_.size(); ++i) {
      const Rows& rows = At(t, i);
      if (!rows.holds) continue;
      const ConstraintInfo& info = constraints_[i].info();
      const auto lambda = augmented.lambda[static_cast<std::size_t>(i)].col(t);
      const double rho = augmented.rho[i];
      for (Eigen::Index k = 0; k < rows.c.size(); ++k) {
        const double z = rows.c[k] + lambda[k] / rho, y = z - Aim(info, k, z);
        linear += rho * y * (rows.z[k] - z);
        change += 0.5 * rho * (rows.y[k] * rows.y[k] - y * y);
      }
    }
  }
  out->expected_linear = linear;
  out->expected_quadratic = 2 * (change - linear);
}

// the recursion with the rows that are active, about the predicted motion
bool ConstrainedLq::Recur(LqProblem* lq, double regularization, RiccatiResult* out) {
  Restore(lq);
  ImposeRows(lq);
  MoveToPrediction(lq, regularization);
  SolveRiccati(*lq, {.values = false}, out);
  if (out->ok) MovePolicyBack(out);
  return out->ok;
}

void ConstrainedLq::Begin() {
  dX_.setZero();
  dU_.setZero();
  Activate();
}

// rounds of recursion and multipliers, each about the motion that the one before predicted; false where a few of them
// lead to none that keeps the linearized constraints. out has the gradient of the motion as it is.
bool ConstrainedLq::Refine(LqProblem* lq, double regularization, RiccatiResult* out) {
  Begin();
  double gradient_norm = 0;
  bool settled = false;
  for (int round = 1; round <= kMostRounds; ++round) {
    if (!Recur(lq, regularization, out)) return false;
    if (round == 1) gradient_norm = out->gradient_norm;
    const bool other_bounds = Predict(*lq, *out);
    const bool changed = Activate() || other_bounds;
    const double residual = Residual();
    settled = !changed && residual <= tolerance_;
    if (settled || !(residual < kInf) || round == kMostRounds) break;
    if (changed && round % 3 != 0) continue;
    UpdateMultipliers();
    Activate();
  }
  out->gradient_norm = gradient_norm;
  return settled;
}

void ConstrainedLq::Solve(LqProblem* lq, double regularization, RiccatiResult* out) {
  if (fresh_) {
    Keep(*lq);
    FindCurvatures(*lq, regularization, out);
    LimitMultipliers(lq, regularization, out);
  }
  lambda_ = augmented.lambda;
  exact_ = Refine(lq, regularization, out) && AreWithinLimits() && IsDescent(out);
  if (exact_) return;
  augmented.lambda = lambda_;
  exact_ = FollowPath(lq, regularization, out) && IsDescent(out);
  if (exact_) return;

  // about the motion as it is, with the multipliers that there were
  augmented.lambda = lambda_;
  Begin();
  if (!Recur(lq, regularization, out)) return;
  Predict(*lq, *out);
}

}  // namespace costate
