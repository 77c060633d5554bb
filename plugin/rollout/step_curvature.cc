#include "rollout/step_curvature.h"

#include <algorithm>
#include <cmath>

#include <costate/state.h>

#include "core/extremes.h"

namespace costate {
namespace {

// of the largest entry of (dx, du), measured: impedance bends within 1e-4 m, products are exact to 1e-12, differenced
// ones to 1e-9
constexpr double kNudge = 3e-7, kDifferencedNudge = 3e-5;
// how much the quotients of both sides may differ: truncation is of the square of that, beyond it one is extrapolated
constexpr double kSpread = 1e-3;
// rounding is of what is pulled back: over the nudge it hides a curvature that is weak beside that. Longer ones follow,
// at most two, while both sides then differ by no more than this, or less than bends alone would
constexpr double kWeak = 1e-5, kNoisy = 1e-4, kRounded = 1e-11, kLonger = 16, kBent = 0.02;
// differenced nudges, each a quarter of the one before: rows and sensors bend within the first
constexpr int kSizes = 4, kMostSizes = 8;
constexpr double kAgrees = 1e-7;                           // change from one to the next that is as good as none …
constexpr double kNear = 0.03;                             // … and that can be extrapolated
constexpr double kFalls = 1.0 / 12;                        // of the change before: a fall by more leaves no noise
constexpr double kNoise = 1e-9, kDifferencedNoise = 1e-5;  // of a product, relative: what no switch is read into
constexpr double kQuiet = 1e-8;                            // likewise: what differenced products err by
// a change of a product, relative, by which it may jump: on a corner whose own slope is the mean both sides do alike, and
// a quarter of the nudge sees four times as much
constexpr double kJump = 1e-4, kGrows = 2;

// what is pulled back from a point so far along (dx, du)
bool PullAt(const StepBend& b, KnotProducts* products, double step, KnotCovector* pulled) {
  const VectorXd at = Retract(b.model, b.at.x, step * b.dx);
  const VectorXd control = b.at.last ? VectorXd() : VectorXd(b.at.u + step * b.du);
  return products->Pull({.x = at, .u = control, .moving = b.at.moving, .last = b.at.last}, b.lambda, b.sigma, pulled);
}

// Centred quotients at one nudge, where both sides see a switch to the side without it; `theta` may be null.
// `differ` receives by how much both sides differ, whatever that is, `spread` the same and 0 where it is noise.
bool Quotient(const StepBend& b, KnotProducts* products, double h, double noise, VectorRef out, VectorRef* theta,
              bool* one_sided, double* spread, double* differ = nullptr) {
  VectorXd side[2], side_theta[2];
  KnotCovector pulled;
  for (int k = 0; k < 2; k++) {
    const double step = k ? -h : h;
    if (!PullAt(b, products, step, &pulled)) return false;
    side[k].resize(out.size());
    side[k] << pulled.x, pulled.u;
    side[k] = (side[k] - b.pulled) / step;
    if (theta) side_theta[k] = (pulled.theta - b.theta) / step;
  }

  // both sides differ by O(h) where the step is smooth, by 1/h where a switch is crossed
  const double plus = side[0].norm(), minus = side[1].norm(), more = std::max(plus, minus);
  const double both = more > 0 ? (side[0] - side[1]).norm() / more : 0;
  *spread = h * more > noise * b.pulled.norm() ? both : 0;
  if (differ) *differ = both;
  *one_sided = *spread > 0.5;
  const double first = !*one_sided ? 0.5 : plus < minus ? 1 : 0;
  out = first * side[0] + (1 - first) * side[1];
  if (theta) *theta = first * side_theta[0] + (1 - first) * side_theta[1];
  return true;
}

// of some rows of the quotients at one nudge from those before
double Change(const MatrixXd& D, int k, Eigen::Index begin, Eigen::Index count) {
  const double norm = D.col(k).segment(begin, count).norm();
  return norm > 0 ? (D.col(k) - D.col(k - 1)).segment(begin, count).norm() / norm : 0;
}
// the larger of both parts: x and u, parameters
double Change(const MatrixXd& D, int k, Eigen::Index split) {
  return std::max(Change(D, k, 0, split), Change(D, k, split, D.rows() - split));
}

// where a value goes, one column with all of it; `theta` may be null
struct Into {
  VectorRef out;
  VectorRef* theta;

  Eigen::Index size() const { return out.size() + (theta ? theta->size() : 0); }
  void Read(VectorRef column) const {
    column.head(out.size()) = out;
    if (theta) column.tail(theta->size()) = *theta;
  }
  template <typename V>
  void Take(const V& value) {
    out = value.head(out.size());
    if (theta) *theta = value.tail(theta->size());
  }
};

// beyond the corner that the point is on
bool Beyond(const StepBend& b, KnotProducts* products, double h, Into into) {
  KnotCovector near, far;
  if (!PullAt(b, products, h, &near) || !PullAt(b, products, 2 * h, &far)) return false;
  into.out << (far.x - near.x) / h, (far.u - near.u) / h;
  if (into.theta) *into.theta = (far.theta - near.theta) / h;
  return true;
}

// Products in closed form: one nudge, longer where they hide in rounding, extrapolated where that bends. Beside a
// switch a quarter of it has to agree.
bool FineBend(const StepBend& b, KnotProducts* products, double largest, Into into, BendSides* sides) {
  double h = kNudge / largest, spread = 0, differ = 0;
  if (!Quotient(b, products, h, kNoise, into.out, into.theta, &sides->one_sided, &spread, &differ)) return false;
  MatrixXd D(into.size(), 2);
  if (!sides->one_sided && h * into.out.norm() > kJump * b.pulled.norm()) {
    bool side = false;
    double nearer = 0;
    into.Read(D.col(0));
    if (!Quotient(b, products, h / 4, kNoise, into.out, into.theta, &side, &nearer)) return false;
    into.Read(D.col(1));
    if (D.col(1).norm() > kGrows * D.col(0).norm()) {
      sides->one_sided = true;
      return Beyond(b, products, h, into);
    }
    into.Take(D.col(0));
  }
  const auto noisy = [&] {
    const double seen = h * into.out.norm(), pulled = b.pulled.norm();
    return !sides->one_sided && seen < kWeak * pulled && (differ > kNoisy || seen < kRounded * pulled);
  };
  for (int k = 0; k < 2 && noisy(); ++k) {
    bool side = false;
    double longer_spread = 0, longer = 0;
    into.Read(D.col(0));
    const bool ok = Quotient(b, products, kLonger * h, kNoise, into.out, into.theta, &side, &longer_spread, &longer);
    if (!ok || side || longer > std::max(kSpread, std::min(kBent, kLonger / 2 * differ))) {
      into.Take(D.col(0));
      break;
    }
    h *= kLonger;
    spread = longer_spread;
    differ = longer;
  }
  if (!sides->one_sided && spread <= kSpread) return true;
  into.Read(D.col(0));
  const double smaller = sides->one_sided ? 4 : 2;
  bool side = false;
  if (!Quotient(b, products, h / smaller, kNoise, into.out, into.theta, &side, &spread)) return false;
  into.Read(D.col(1));
  if (!sides->one_sided) into.Take(VectorXd((4 * D.col(1) - D.col(0)) / 3));
  else sides->left_out = side && !(Change(D, 1, into.out.size()) < kNear);
  return true;
}

// Products that are differenced need a nudge over which contacts bend: a quarter of it tells. From one to the next
// truncation falls by 16 and noise rises by 4.
// Of one part alone: noise in the other says nothing of it.
bool CoarseBend(const StepBend& b, KnotProducts* products, double largest, Into into, BendSides* sides) {
  const Eigen::Index begin = into.theta ? into.out.size() : 0, n = into.size() - begin;
  const double pulled = into.theta ? b.theta.norm() : b.pulled.norm();
  MatrixXd D(into.size(), kMostSizes);
  double change[kMostSizes];  // from the nudge before
  bool one_sided[kMostSizes];
  int count = 0, best = -1;
  const auto both = [&](int k) { return k > 0 && !one_sided[k] && !one_sided[k - 1]; };
  const auto near = [&](int k) { return both(k) && change[k] < kNear; };
  const auto extrapolated = [&](int k) { return VectorXd((16 * D.col(k) - D.col(k - 1)) / 15); };
  const auto take = [&](const auto& value) {
    into.Take(value);
    return true;
  };

  // smaller ones than the usual while a switch is nearer than each
  while (count < kSizes || (count < kMostSizes && !both(count - 1))) {
    const int k = count++;
    double spread = 0;
    if (!Quotient(b, products, kDifferencedNudge / std::pow(4, k) / largest, kDifferencedNoise, into.out, into.theta,
                  &one_sided[k], &spread)) {
      return false;
    }
    into.Read(D.col(k));
    change[k] = k > 0 ? Change(D, k, begin, n) : kInf;
    sides->one_sided = one_sided[k];
    if (k > 0 && one_sided[k] == one_sided[k - 1] && (best < 0 || change[k] < change[best])) best = k;
    if (both(k) && change[k] < kAgrees) return take(D.col(k - 1));
    if (k < 2) continue;
    if (near(k) && change[k] < change[k - 1] / 2) {
      return take(extrapolated(near(k - 1) && change[k] > kFalls * change[k - 1] ? k - 1 : k));
    }
    if (near(k - 1)) return take(D.col(k - 2));
  }

  // what changes the product by no more than its noise, over the largest nudge: as good as none
  if (kDifferencedNudge / largest * D.col(0).segment(begin, n).norm() < kQuiet * pulled) return take(D.col(0));

  // none of both sides: the two that are nearest each other, if they are
  sides->left_out = best < 0 || !(change[best] < kNear);
  if (!sides->left_out) {
    sides->one_sided = one_sided[best];
    take(D.col(one_sided[best] ? best : best - 1));
  }
  return true;
}

bool BendAt(const StepBend& b, KnotProducts* products, bool coarse, Into into, BendSides* sides) {
  into.out.setZero();
  if (into.theta) into.theta->setZero();
  *sides = {};
  const double largest = std::max(Largest(b.dx), Largest(b.du));
  if (largest == 0 || (b.pulled.isZero(0) && b.theta.isZero(0))) return true;
  if (!(coarse ? CoarseBend : FineBend)(b, products, largest, into, sides)) return false;
  if (!sides->left_out) return true;
  into.out.setZero();
  if (into.theta) into.theta->setZero();
  return true;
}

}  // namespace

bool Bend(const StepBend& b, KnotProducts* products, VectorRef out, VectorRef theta, BendSides* sides) {
  const bool apart = theta.size() > 0 && (b.theta_differenced || b.differenced);
  if (!BendAt(b, products, b.differenced, {out, theta.size() > 0 && !apart ? &theta : nullptr}, sides)) return false;
  if (!apart) return true;
  VectorXd other(out.size());
  BendSides of_theta;
  if (!BendAt(b, products, true, {other, &theta}, &of_theta)) return false;
  sides->left_out = sides->left_out || of_theta.left_out;
  return true;
}

}  // namespace costate
