// A start that may move: its step is a further state of the linear-quadratic problem. README.md, "A free start".
#include <algorithm>
#include <cmath>

#include "optimizer/box_qp.h"
#include "optimizer/fddp.h"

namespace costate {

// x0 ⊕ d with what of x ⊖ x0 is free and within its bounds
VectorXd Fddp::NearestStart(ConstVectorRef x) const {
  const FreeStart& start = problem_.free_start;
  if (!HasFreeStart()) return problem_.x0;
  const VectorXd to = Difference(problem_.model, x, problem_.x0);
  VectorXd d = VectorXd::Zero(to.size());
  for (std::size_t i = 0; i < start.entries.size(); ++i) {
    const Eigen::Index at = static_cast<Eigen::Index>(i);
    d[start.entries[i]] = std::clamp(to[start.entries[i]], start.lower[at], start.upper[at]);
  }
  return d.isZero(0) ? problem_.x0 : Retract(problem_.model, problem_.x0, d);
}

VectorXd Fddp::StartAt(double alpha) const {
  const VectorXd x = now_.trajectory.X.col(0);
  return dx0_.isZero(0) ? x : Retract(problem_.model, x, alpha * dx0_);
}

// the problem in (dx, theta), theta the free entries of dx_0: it stays what it is from knot to knot, and the end's cost
// reads it
void Fddp::Extend() {
  const std::vector<int>& entries = problem_.free_start.entries;
  const Eigen::Index n = simulator_.dims().ndx, m = static_cast<Eigen::Index>(entries.size());
  extended_.knots.resize(lq_.knots.size());
  for (std::size_t t = 0; t < lq_.knots.size(); ++t) {
    const LqKnot& from = lq_.knots[t];
    LqKnot& to = extended_.knots[t];
    to.A.setZero(n + m, n + m);
    to.A.topLeftCorner(n, n) = from.A;
    to.A.bottomRightCorner(m, m).setIdentity();
    to.B.setZero(n + m, from.B.cols());
    to.B.topRows(n) = from.B;
    to.gap.setZero(n + m);
    to.gap.head(n) = from.gap;
    to.lx.setZero(n + m);
    to.lx.head(n) = from.lx;
    to.lxx.setZero(n + m, n + m);
    to.lxx.topLeftCorner(n, n) = from.lxx;
    to.lux.setZero(from.lux.rows(), n + m);
    to.lux.leftCols(n) = from.lux;
    to.lu = from.lu;
    to.luu = from.luu;
    to.du_lower = from.du_lower;
    to.du_upper = from.du_upper;
  }
  extended_.lx.setZero(n + m);
  extended_.lx.head(n) = lq_.lx;
  extended_.lxx.setZero(n + m, n + m);
  extended_.lxx.topLeftCorner(n, n) = lq_.lxx;
  if (tie_.l0.size() == 0) return;
  extended_.lx.tail(m) = tie_.l0(entries);
  extended_.lxx.bottomLeftCorner(m, n) = tie_.l0x(entries, Eigen::all);
  extended_.lxx.topRightCorner(n, m) = extended_.lxx.bottomLeftCorner(m, n).transpose();
  extended_.lxx.bottomRightCorner(m, m) = tie_.l00(entries, entries);
}

// largest slope by an entry of the start that may still move downhill
double Fddp::StartSlope(const VectorXd& moved, const VectorXd& slope) const {
  const FreeStart& start = problem_.free_start;
  double largest = 0;
  for (Eigen::Index i = 0; i < slope.size(); ++i) {
    const bool held = (moved[i] <= start.lower[i] && slope[i] > 0) || (moved[i] >= start.upper[i] && slope[i] < 0);
    if (!held) largest = std::max(largest, std::abs(slope[i]));
  }
  return largest;
}

// riccati_ of lq_; where the start may move, about the best start: theta = argmin ½ thetaᵀ H theta + gᵀ theta within
// bounds, with H and g the value at knot 0 along (E theta, theta)
void Fddp::SolveStep() {
  if (!HasFreeStart()) return SolveRiccati(lq_, {}, &riccati_);
  const FreeStart& start = problem_.free_start;
  const std::vector<int>& entries = start.entries;
  const Eigen::Index n = simulator_.dims().ndx, m = static_cast<Eigen::Index>(entries.size());
  Extend();
  SolveRiccati(extended_, {}, &extended_riccati_);
  riccati_.ok = extended_riccati_.ok;
  riccati_.failed_knot = extended_riccati_.failed_knot;
  if (!riccati_.ok) return;

  MatrixXd E = MatrixXd::Zero(n + m, m);
  for (Eigen::Index i = 0; i < m; ++i) E(entries[static_cast<std::size_t>(i)], i) = E(n + i, i) = 1;
  const MatrixXd H = E.transpose() * extended_riccati_.Vxx[0] * E;
  const VectorXd g = E.transpose() * extended_riccati_.Vx[0];
  const VectorXd moved = Difference(problem_.model, now_.trajectory.X.col(0), problem_.x0)(entries);
  VectorXd theta = VectorXd::Zero(m);
  const VectorXd lower = (start.lower - moved).cwiseMin(0), upper = (start.upper - moved).cwiseMax(0);
  if (!H.allFinite() || !g.allFinite() ||
      SolveBoxQp(H, g, lower, upper, theta, &start_qp_) == BoxQpStatus::kIndefinite) {
    riccati_.ok = false;
    riccati_.failed_knot = 0;
    return;
  }
  dx0_.setZero(n);
  dx0_(entries) = theta;

  // k = k + K_theta theta, and so the values by dx
  const std::size_t N = extended_riccati_.K.size();
  riccati_.k = extended_riccati_.k;
  riccati_.K.resize(N);
  riccati_.Vx.resize(N + 1);
  riccati_.Vxx.resize(N + 1);
  for (std::size_t t = 0; t <= N; ++t) {
    if (t < N) {
      riccati_.k.col(static_cast<Eigen::Index>(t)).noalias() += extended_riccati_.K[t].rightCols(m) * theta;
      riccati_.K[t] = extended_riccati_.K[t].leftCols(n);
    }
    riccati_.Vx[t] = extended_riccati_.Vx[t].head(n);
    riccati_.Vx[t].noalias() += extended_riccati_.Vxx[t].topRightCorner(n, m) * theta;
    riccati_.Vxx[t] = extended_riccati_.Vxx[t].topLeftCorner(n, n);
  }
  riccati_.gradient_norm_per_knot = extended_riccati_.gradient_norm_per_knot;
  riccati_.gradient_norm = std::max(extended_riccati_.gradient_norm, StartSlope(moved, g));
}

}  // namespace costate
