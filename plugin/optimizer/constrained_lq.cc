#include "optimizer/constrained_lq.h"
#include "optimizer/checked_constraint.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/extremes.h"
#include "optimizer/step_search.h"

namespace costate {
namespace {

constexpr int kMostRounds = 12;      // of the recursion in one solve
constexpr int kSetRounds = 3;        // so many of them look for the active rows before multipliers change all the same
constexpr double kClose = 1e-3;      // a violation that the model may leave
constexpr double kLqFalls = 0.25;    // … else this part of what there was
constexpr double kStiffness = 300;   // a penalty in terms of the cost's curvature across the constraint
constexpr double kLeastStiff = 100;  // … at least: one that its multiplier moves by a hundredth of the bound
constexpr double kDearest =
    100;  // a multiplier in terms of the first plan's largest, or of what moves the constraint by its bound

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
  scaled_.assign(static_cast<std::size_t>(constraints.size()), 0);
  largest_multiplier_ = VectorXd::Constant(constraints.size(), kInf);
  residual_ = VectorXd::Zero(constraints.size());
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
      rows.active.resize(static_cast<std::size_t>(rows.z.size()), 0);
      for (Eigen::Index k = 0; k < rows.z.size(); ++k) {
        const double bound = Aim(info, k, rows.z[k]);
        rows.y[k] = rows.z[k] - bound;
        const char active = rows.y[k] != 0;
        rows.pull[k] = active ? rho * (rows.c[k] + lambda[k] / rho - bound) : 0;
        char& was = rows.active[static_cast<std::size_t>(k)];
        changed |= was != active;
        was = active;
      }
    }
  }
  return changed;
}

// the active rows of one knot onto the cost: lx += Jᵀ pull, lxx += rho Jᵀ J, and the same with Ju: (C6)
void ConstrainedLq::Impose(int t, VectorXd* lx, MatrixXd* lxx, LqKnot* knot) {
  for (int i = 0; i < constraints_.size(); ++i) {
    Rows& rows = At(t, i);
    if (!rows.holds) continue;
    const auto is_active = [](char active) { return active != 0; };
    if (std::none_of(rows.active.begin(), rows.active.end(), is_active)) continue;
    const double rho = augmented.rho[i];
    rows.DJ = rho * rows.J;
    rows.DJu = rho * rows.Ju;
    for (Eigen::Index k = 0; k < rows.c.size(); ++k) {
      if (rows.active[static_cast<std::size_t>(k)]) continue;
      rows.DJ.row(k).setZero();
      rows.DJu.row(k).setZero();
    }
    const Eigen::Index n = rows.J.cols();
    lx->head(n).noalias() += rows.J.transpose() * rows.pull;
    lxx->topLeftCorner(n, n).noalias() += rows.J.transpose() * rows.DJ;
    if (!knot || rows.Ju.cols() == 0) continue;
    knot->lu.noalias() += rows.Ju.transpose() * rows.pull;
    knot->lux.leftCols(n).noalias() += rows.Ju.transpose() * rows.DJ;
    knot->luu.noalias() += rows.Ju.transpose() * rows.DJu;
  }
}

// the same problem with dx and du counted from the predicted motion, regularization from dx = 0
void ConstrainedLq::MoveToPrediction(LqProblem* lq, double regularization) const {
  for (int t = 0; t < N_; ++t) {
    LqKnot& knot = lq->knots[static_cast<std::size_t>(t)];
    const auto dx = dX_.col(t), du = dU_.col(t);
    knot.lx.noalias() += knot.lxx * dx;
    knot.lx.noalias() += knot.lux.transpose() * du;
    knot.lu.noalias() += knot.luu * du;
    knot.lu.noalias() += knot.lux * dx;
    if (lq->unit.size() > 0) {
      knot.lu += regularization * du.cwiseQuotient(lq->unit.cwiseAbs2());
    } else {
      knot.lu += regularization * du;
    }
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

// of each constraint the largest |y - lambda / rho| at the predicted motion, over bound scales; the largest of all
double ConstrainedLq::Residual() {
  residual_.setZero();
  for (int t = 0; t <= N_; ++t) {
    for (int i = 0; i < constraints_.size(); ++i) {
      const Rows& rows = At(t, i);
      if (!rows.holds) continue;
      const ConstraintInfo& info = constraints_[i].info();
      const auto lambda = augmented.lambda[static_cast<std::size_t>(i)].col(t);
      for (Eigen::Index k = 0; k < rows.y.size(); ++k) {
        const double off = Unsettled(info, k, rows.y[k], lambda[k] / augmented.rho[i]);
        if (!(off <= residual_[i])) residual_[i] = off;  // a NaN, too
        if (std::isnan(off)) return off;
      }
    }
  }
  return residual_.maxCoeff();
}

// lambda = rho y: (C7)
void ConstrainedLq::UpdateMultipliers() {
  for (int i = 0; i < constraints_.size(); ++i) {
    const double rho = augmented.rho[i], most = largest_multiplier_[i];
    for (int t = 0; t <= N_; ++t) {
      const Rows& rows = At(t, i);
      if (rows.holds)
        augmented.lambda[static_cast<std::size_t>(i)].col(t) = (rho * rows.y).cwiseMax(-most).cwiseMin(most);
    }
  }
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

// the recursion with the rows that are active, about dx = 0 or about the predicted motion, and where it leads
bool ConstrainedLq::Recur(LqProblem* lq, double regularization, bool from_prediction, RiccatiResult* out) {
  Restore(lq);
  for (int t = 0; t < N_; ++t) {
    LqKnot& knot = lq->knots[static_cast<std::size_t>(t)];
    Impose(t, &knot.lx, &knot.lxx, &knot);
  }
  Impose(N_, &lq->lx, &lq->lxx, nullptr);
  if (from_prediction) MoveToPrediction(lq, regularization);
  SolveRiccati(*lq, {.regularization = regularization, .values = false}, out);
  if (!out->ok) return false;
  if (from_prediction) MovePolicyBack(out);
  bounds_changed_ = Predict(*lq, *out);
  return true;
}

// of one row at knot t: (J H⁻¹ Jᵀ)⁻¹ with H the Hessian of the linear-quadratic problem by all controls, 0 where none
// moves it: (C8)
double ConstrainedLq::CurvatureAcross(const LqProblem& lq, const RiccatiResult& riccati, int t, const Rows& rows,
                                      Eigen::Index k) {
  double inverse = 0;
  VectorXd &p = across_x_, &g = across_u_;
  p.setZero(dX_.rows());
  g.setZero(dU_.rows());
  p.head(rows.J.cols()) = rows.J.row(k);
  for (int s = t; s >= 0; --s) {
    if (s < t) {
      const LqKnot& knot = lq.knots[static_cast<std::size_t>(s)];
      g.noalias() = knot.B.transpose() * p;
      across_moved_.noalias() = knot.A.transpose() * p;
      p.swap(across_moved_);
    } else if (rows.Ju.cols() > 0) {
      g = rows.Ju.row(k);
    }
    if (s == N_) continue;
    for (Eigen::Index j = 0; j < g.size(); ++j) inverse += g[j] * g[j] / riccati.curvature(j, s);
    p.noalias() += riccati.K[static_cast<std::size_t>(s)].transpose() * g;
  }
  return inverse > 0 && std::isfinite(inverse) ? 1 / inverse : 0;
}

// penalties and largest multipliers of constraints that hold for the first time
void ConstrainedLq::ScalePenalties(const LqProblem& lq, double regularization, RiccatiResult* out) {
  bool solved = false;
  for (int i = 0; i < constraints_.size(); ++i) {
    if (scaled_[static_cast<std::size_t>(i)]) continue;
    // where anything moves it: distances beyond their cutoff stay as they are
    std::vector<int>& knots = across_knots_;
    knots.clear();
    for (int t = 0; t <= N_; ++t) {
      const Rows& rows = At(t, i);
      if (rows.holds && !(rows.J.isZero(0) && rows.Ju.isZero(0))) knots.push_back(t);
    }
    if (knots.empty()) continue;
    for (const double mu : {0.0, regularization}) {
      if (!solved) SolveRiccati(lq, {.regularization = mu, .values = false}, out);
      solved = out->ok;
    }
    if (!solved) return;
    double sum = 0;
    int count = 0;
    for (const int t : {knots[knots.size() / 2], knots.back()}) {
      const Rows& rows = At(t, i);
      for (Eigen::Index k = 0; k < rows.c.size(); ++k) {
        const double curvature = CurvatureAcross(lq, *out, t, rows, k);
        if (curvature == 0) continue;
        sum += std::log(curvature);
        ++count;
      }
    }
    if (count == 0) continue;  // nothing moves it from here
    scaled_[static_cast<std::size_t>(i)] = 1;
    const double curvature = std::exp(sum / count);
    const ConstraintInfo& info = constraints_[i].info();
    double scale = 1, largest = 0;
    for (int k = 0; k < info.lower.size(); ++k) scale = std::max(scale, BoundScale(info.lower[k], info.upper[k]));
    for (const double l : augmented.lambda[static_cast<std::size_t>(i)].reshaped())
      largest = std::max(largest, std::abs(l));
    augmented.rho[i] = std::max(kStiffness * curvature, kLeastStiff * largest / scale);
    largest_multiplier_[i] = kDearest * std::max(largest, curvature * scale);
  }
}

void ConstrainedLq::Solve(LqProblem* lq, double regularization, RiccatiResult* out) {
  if (fresh_) {
    Keep(*lq);
    ScalePenalties(*lq, regularization, out);
  }
  lambda_ = augmented.lambda;

  // far from kept, as where a window has come into the plan: controls reach other bounds than those at dx = 0
  Begin();
  exact_ = Residual() > kClose && Refine(lq, regularization, true, out);
  if (exact_) return;
  augmented.lambda = lambda_;
  exact_ = Refine(lq, regularization, false, out);
  if (exact_) return;

  // about the motion as it is, with the multipliers that there were
  augmented.lambda = lambda_;
  Begin();
  Recur(lq, regularization, false, out);
}

void ConstrainedLq::Begin() {
  dX_.setZero();
  dU_.setZero();
  Activate();
}

// rounds of recursion and multipliers, each about dx = 0 or about the motion predicted before; false where they lead to
// none that keep the linearized constraints
bool ConstrainedLq::Refine(LqProblem* lq, double regularization, bool from_prediction, RiccatiResult* out) {
  Begin();
  const double first = Residual();
  double residual = first, gradient_norm = 0;
  for (int round = 1; round <= kMostRounds; ++round) {
    if (!Recur(lq, regularization, from_prediction, out)) return false;
    if (round == 1) gradient_norm = out->gradient_norm;  // of the motion as it is
    bool changed = Activate();
    if (from_prediction) changed |= bounds_changed_;
    residual = Residual();
    if (!(residual < kInf)) return false;
    if (!changed && residual <= tolerance_) break;
    if (round == kMostRounds) break;
    if (changed && round % kSetRounds != 0) continue;
    UpdateMultipliers();
    Activate();
  }
  if (from_prediction) out->gradient_norm = gradient_norm;
  Promise(out);
  return residual <= (from_prediction ? tolerance_ : std::max(kClose, kLqFalls * first)) && out->expected_linear < 0 &&
         Expected(*out).At(1) < 0;
}

}  // namespace costate
