#include <algorithm>
#include <cmath>

#include "core/extremes.h"
#include "optimizer/augmented_cost.h"
#include "optimizer/constrained_lq.h"

namespace costate {
namespace {

constexpr int kMostSteps = 40;         // of the recursion
constexpr double kToBoundary = 0.995;  // of the way to where a slack or its dual would be zero
constexpr double kFirst = 0.01;        // mu at first, in the largest multipliers times bounds
constexpr double kLast = 1e-8;         // the mean of s lambda in mu at first, at the end …
constexpr double kEnough = 1e-3;       // … and as much as is taken for one
constexpr double kMissed = 1e-4;       // of a bound: an end that is farther off is not reached
constexpr double kRoom = 0.01;         // of a bound or of a control's range: slacks at first, at least

// the share of a step from x > 0 by dx that keeps it positive
double Share(double x, double dx, double share) { return dx < 0 ? std::min(share, -kToBoundary * x / dx) : share; }

// v with v (most + rho v) = mu
double LeastGive(double mu, double most, double rho) { return 2 * mu / (most + std::sqrt(most * most + 4 * rho * mu)); }

// mu of the next step from the mean of s lambda, by how far this one has come
double NextBarrier(double gap, double share) { return gap * (share > 0.9 ? 0.05 : share > 0.5 ? 0.3 : 0.8); }

}  // namespace

// a geometric mean over constraints that anything moves; 0 without any
double ConstrainedLq::FirstBarrier() const {
  double sum = 0;
  int count = 0;
  for (int i = 0; i < constraints_.size(); ++i) {
    if (across_[i] == 0) continue;
    sum += std::log(largest_multiplier_[i] * Scale(i));
    ++count;
  }
  return count > 0 ? kFirst * std::exp(sum / count) : 0;
}

// at dx = du = 0
void ConstrainedLq::PlaceBarriers(double mu) {
  barriers_.clear();
  for (int t = 0; t <= N_; ++t) {
    for (int i = 0; i < constraints_.size(); ++i) {
      const Rows& rows = At(t, i);
      if (!rows.holds || across_[i] == 0) continue;
      const ConstraintInfo& info = constraints_[i].info();
      const double most = largest_multiplier_[i], rho = Stiffness(i), least = LeastGive(mu, most, rho);
      for (int k = 0; k < rows.c.size(); ++k) {
        const double lower = Aim(info, k, -kInf), upper = Aim(info, k, kInf), c = rows.c[k];
        Barrier row{.t = t, .i = i, .k = k, .above = most, .stiff_v = rho, .v = least};
        if (lower == upper) {
          row.bound = upper;
          row.below = most;
          row.stiff_s = rho;
          row.s = least + std::max(upper - c, 0.0);
          row.v += std::max(c - upper, 0.0);
          barriers_.push_back(row);
          continue;
        }
        PlaceSides(row, c, lower, upper, std::max(kRoom * BoundScale(info.lower[k], info.upper[k]), 10 * mu / most),
                   mu);
      }
    }
    if (t == N_) continue;
    const Base& base = base_[static_cast<std::size_t>(t)];
    for (int j = 0; j < base.du_lower.size(); ++j) {
      const double lower = base.du_lower[j], upper = base.du_upper[j], range = upper - lower;
      if (range > 0) PlaceSides({.t = t, .k = j}, 0, lower, upper, kRoom * (range < kInf ? range : 1), mu);
    }
  }
}

// both bounds of a value that is c, with that room at least
void ConstrainedLq::PlaceSides(Barrier side, double c, double lower, double upper, double room, double mu) {
  for (const double sign : {1.0, -1.0}) {
    side.sign = sign;
    side.bound = sign > 0 ? upper : -lower;
    if (side.bound == kInf) continue;
    side.s = std::max(side.bound - sign * c, room);
    side.lambda = mu / side.s;
    barriers_.push_back(side);
  }
}

// the problem of one step of Newton's method, about dx = 0: (C7d)
void ConstrainedLq::ImposeBarriers(double mu, double regularization, LqProblem* lq) {
  Restore(lq);
  AddProximal(regularization, lq);
  for (Rows& rows : rows_) {
    if (!rows.holds) continue;
    rows.pull.setZero(rows.c.size());
    rows.weight.setZero(rows.c.size());
  }
  for (LqKnot& knot : lq->knots) {
    for (Eigen::Index j = 0; j < knot.du_lower.size(); ++j) {
      if (knot.du_lower[j] >= knot.du_upper[j]) continue;  // held
      knot.du_lower[j] = -kInf;
      knot.du_upper[j] = kInf;
    }
  }
  for (Barrier& b : barriers_) {
    const double slope_s = b.dual_s() + b.stiff_s * b.s;  // of s dual_s by s
    double flat = b.s / slope_s;
    b.shift = b.s - b.bound + (mu - b.s * b.dual_s()) / slope_s;
    if (b.gives()) {
      const double slope_v = b.dual_v() + b.stiff_v * b.v;
      flat += b.v / slope_v;
      b.shift -= b.v + (mu - b.v * b.dual_v()) / slope_v;
    }
    b.weight = 1 / flat;
    if (b.i >= 0) {
      Rows& rows = At(b.t, b.i);
      rows.pull[b.k] += b.sign * (b.lambda + b.weight * (b.sign * rows.c[b.k] + b.shift));
      rows.weight[b.k] += b.weight;
    } else {
      LqKnot& knot = lq->knots[static_cast<std::size_t>(b.t)];
      knot.lu[b.k] += b.sign * (b.lambda + b.weight * b.shift);
      knot.luu(b.k, b.k) += b.weight;
    }
  }
  ImposeRows(lq);
}

void ConstrainedLq::FollowPolicy(const LqProblem& lq, const RiccatiResult& riccati) {
  ahead_X_.setZero(dX_.rows(), dX_.cols());
  ahead_U_ = riccati.k;
  for (int t = 0; t < N_; ++t) {
    const LqKnot& knot = lq.knots[static_cast<std::size_t>(t)];
    ahead_U_.col(t).noalias() += riccati.K[static_cast<std::size_t>(t)] * ahead_X_.col(t);
    ahead_X_.col(t + 1).noalias() = knot.A * ahead_X_.col(t);
    ahead_X_.col(t + 1).noalias() += knot.B * ahead_U_.col(t);
  }
  for (int t = 0; t <= N_; ++t) {
    for (int i = 0; i < constraints_.size(); ++i) {
      Rows& rows = At(t, i);
      if (!rows.holds) continue;
      rows.z = rows.c;
      rows.z.noalias() += rows.J * ahead_X_.col(t).head(rows.J.cols());
      if (rows.Ju.cols() > 0) rows.z.noalias() += rows.Ju * ahead_U_.col(t);
    }
  }
}

// towards where the policy leads, by as much as keeps slacks and duals positive; returns that share
double ConstrainedLq::StepBarriers(double mu) {
  double share = 1;
  for (Barrier& b : barriers_) {
    const double z = b.sign * (b.i >= 0 ? At(b.t, b.i).z[b.k] : ahead_U_(b.k, b.t));
    b.dlambda = b.weight * (z + b.shift);
    b.ds = (mu - b.s * b.dual_s() - b.s * b.dlambda) / (b.dual_s() + b.stiff_s * b.s);
    share = Share(b.s, b.ds, Share(b.dual_s(), b.dlambda + b.stiff_s * b.ds, share));
    if (!b.gives()) continue;
    b.dv = (mu - b.v * b.dual_v() + b.v * b.dlambda) / (b.dual_v() + b.stiff_v * b.v);
    share = Share(b.v, b.dv, Share(b.dual_v(), b.stiff_v * b.dv - b.dlambda, share));
  }
  for (Barrier& b : barriers_) {
    b.s += share * b.ds;
    b.v += share * b.dv;
    b.lambda += share * b.dlambda;
  }
  dX_ += share * (ahead_X_ - dX_);
  dU_ += share * (ahead_U_ - dU_);
  return share;
}

// the mean of s dual_s and v dual_v
double ConstrainedLq::Gap() const {
  double sum = 0;
  int count = 0;
  for (const Barrier& b : barriers_) {
    sum += b.s * b.dual_s() + (b.gives() ? b.v * b.dual_v() : 0);
    count += b.gives() ? 2 : 1;
  }
  return sum / count;
}

// an interior-point method for all bounds and controls at once; false where it does not end
bool ConstrainedLq::SolveByBarriers(LqProblem* lq, double regularization, RiccatiResult* out) {
  const double first = FirstBarrier();
  if (first == 0) return false;
  dX_.setZero();
  dU_.setZero();
  PlaceBarriers(first);
  double mu = first, gap = kInf;
  for (int step = 0; step < kMostSteps; ++step) {
    ImposeBarriers(mu, regularization, lq);
    SolveRiccati(*lq, {.values = false}, out);
    if (!out->ok) return false;
    FollowPolicy(*lq, *out);
    const double share = StepBarriers(mu);
    gap = Gap();
    if (!(gap < kInf)) return false;
    if (share > 0.99 && gap <= kLast * first) break;
    mu = NextBarrier(gap, share);
  }
  return gap <= kEnough * first;
}

// ends that no controls reach are sought by least squares: a robot that shall be there and at rest comes to both, where
// it would run at the nearer one by their distances. true: there are such
bool ConstrainedLq::EaseEnds() {
  bool eased = false;
  for (const Barrier& b : barriers_) {
    const bool end = b.t == N_ && b.below > 0 && !At(N_ - 1, b.i).holds;
    if (!end || std::max(b.s, b.v) <= kMissed * BoundScale(b.bound, b.bound)) continue;
    double& most = largest_multiplier_[b.i];
    const double least = across_[b.i] * Scale(b.i);
    eased |= most > least;
    most = std::min(most, least);
  }
  return eased;
}

bool ConstrainedLq::FollowPath(LqProblem* lq, double regularization, RiccatiResult* out) {
  const double gradient_norm = out->gradient_norm;
  if (!SolveByBarriers(lq, regularization, out)) return false;
  if (EaseEnds() && !SolveByBarriers(lq, regularization, out)) return false;
  for (const Barrier& b : barriers_) {
    if (b.i >= 0) augmented.lambda[static_cast<std::size_t>(b.i)](b.k, b.t) = 0;
  }
  // less what rho has of it where a row gives way: (C1) adds that
  for (const Barrier& b : barriers_) {
    if (b.i < 0) continue;
    augmented.lambda[static_cast<std::size_t>(b.i)](b.k, b.t) +=
        b.sign * (b.lambda - b.stiff_v * b.v + b.stiff_s * b.s);
  }
  out->gradient_norm = gradient_norm;
  return true;
}

}  // namespace costate
