#include <algorithm>
#include <cmath>

#include "optimizer/augmented_cost.h"
#include "optimizer/constrained_lq.h"

namespace costate {
namespace {

constexpr double kStiffness = 300;   // a penalty in terms of the cost's curvature across the constraint …
constexpr double kLeastStiff = 100;  // … at least: one that its multiplier moves by a hundredth of the bound
constexpr double kDearest = 100;     // a multiplier at most, in terms of what a bound is worth

}  // namespace

// of all entries: 1, or the size of the largest bound
double ConstrainedLq::Scale(int i) const {
  const ConstraintInfo& info = constraints_[i].info();
  double scale = 1;
  for (int k = 0; k < info.lower.size(); ++k) scale = std::max(scale, BoundScale(info.lower[k], info.upper[k]));
  return scale;
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

// of constraints that hold for the first time where anything moves them, and their penalties
void ConstrainedLq::FindCurvatures(const LqProblem& lq, double regularization, RiccatiResult* out) {
  bool solved = false;
  for (int i = 0; i < constraints_.size(); ++i) {
    if (across_[i] > 0) continue;
    // distances beyond their cutoff stay as they are
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
    across_[i] = std::exp(sum / count);
    augmented.rho[i] = PenaltyOf(i);
  }
}

double ConstrainedLq::LargestMultiplier(int i) const {
  double largest = 0;
  for (int t = 0; t <= N_; ++t) {
    if (!At(t, i).holds) continue;
    for (const double l : augmented.lambda[static_cast<std::size_t>(i)].col(t))
      largest = std::max(largest, std::abs(l));
  }
  return largest;
}

bool ConstrainedLq::AreWithinLimits() const {
  for (int i = 0; i < constraints_.size(); ++i) {
    if (across_[i] > 0 && LargestMultiplier(i) > largest_multiplier_[i]) return false;
  }
  return true;
}

double ConstrainedLq::Stiffness(int i) const { return kStiffness * across_[i]; }

// stiff beside the cost and beside what the multiplier alone would move
double ConstrainedLq::PenaltyOf(int i) const {
  return std::max(Stiffness(i), kLeastStiff * LargestMultiplier(i) / Scale(i));
}

void ConstrainedLq::FollowMultipliers() {
  for (int i = 0; i < constraints_.size(); ++i) {
    if (across_[i] > 0) augmented.rho[i] = PenaltyOf(i);
  }
}

// a bound is worth what the cost has across it, or all that a step without constraints would gain: (C7e)
void ConstrainedLq::LimitMultipliers(LqProblem* lq, double regularization, RiccatiResult* out) {
  Restore(lq);
  AddProximal(regularization, lq);
  SolveRiccati(*lq, {.values = false}, out);
  const double gain = out->ok ? std::max(0.0, -(out->expected_linear + 0.5 * out->expected_quadratic)) : 0;
  for (int i = 0; i < constraints_.size(); ++i) {
    const double scale = Scale(i);
    largest_multiplier_[i] = kDearest * std::max(across_[i] * scale, gain / scale);
  }
}

}  // namespace costate
