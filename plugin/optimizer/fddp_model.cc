// The linear-quadratic problem of multiple shooting about an iterate, and its solution.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/extremes.h"
#include "core/lap.h"
#include "optimizer/cost_unit.h"
#include "optimizer/expander.h"
#include "optimizer/fddp.h"
#include "optimizer/free_start.h"
#include "optimizer/lq_sizes.h"
#include "optimizer/take_knot.h"

namespace costate {
namespace {

// of the Hessian where it is indefinite (Wächter & Biegler 2006, Algorithm IC)
constexpr double kFirstShiftGrowth = 100, kLeastShift = 1e-9;

}  // namespace

// the linear-quadratic problem about now_
bool Fddp::Linearize(IterationRecord* record) {
  if (linearized_) return true;
  Clock::time_point start = Clock::now();
  int failed = LinearizeKnots();
  if (failed < 0) CheckSizes(lq_);
  if (failed < 0 && unit_ == 0) unit_ = CostUnit(lq_);
  if (failed < 0 && second_order_) {
    AddCurvature();
    const auto at = std::find_if(failed_.begin(), failed_.end(), [](StepStatus s) { return s != StepStatus::kOk; });
    if (at != failed_.end()) failed = static_cast<int>(at - failed_.begin());
  }
  record->seconds_derivative += Lap(&start);
  if (failed < 0) {
    KeepBase();
    linearized_ = true;
    return true;
  }
  End(SolveStatus::kStalled, fmt::format("the derivative at knot {} of {} fails ({}); the motion is the last good one",
                                         failed, N_, ToString(failed_[failed])));
  return false;
}

int Fddp::LinearizeKnots() {
  const Trajectory& trajectory = now_.trajectory;
  simulator_.LinearizeEach(trajectory, options_.derivative, [&](int t, int worker, StepDerivative* derivative) {
    failed_[t] = derivative->status;
    if (derivative->status != StepStatus::kOk) return;
    CostExpansion& expansion = expansions_[worker];
    problem_.cost->Expand(ViewKnot(trajectory, t, simulator_.knot_time()), derivative->C, derivative->D, &expansion);
    if (second_order_) {
      std::swap(C_[t], derivative->C);
      std::swap(D_[t], derivative->D);
    }
    TakeKnot(t, simulator_, derivative, &expansion, &lq_);
    if (t < N_) lq_.knots[t].gap = now_.gaps.col(t);
    if (t == N_) TakeStart(problem_, trajectory.X.col(0), &expansion, &lq_);
  });
  const auto at = std::find_if(failed_.begin(), failed_.end(), [](StepStatus s) { return s != StepStatus::kOk; });
  return at == failed_.end() ? -1 : static_cast<int>(at - failed_.begin());
}

// lxx, lux, luu ← blocks of the exact Hessian
void Fddp::AddCurvature() {
  const Eigen::Index ndx = simulator_.dims().ndx, nu = simulator_.dims().nu;
  simulator_.ParallelFor(N_ + 1, [&](int t, int worker) {
    MatrixXd& H = hessians_[t];
    failed_[t] = second_order_->Hessian(now_.trajectory, t, simulator_.knot_time(), lambda_.col(std::min(t + 1, N_)),
                                        C_[t], D_[t], worker, &H);
    if (failed_[t] != StepStatus::kOk) return;
    if (t == N_) {
      lq_.lxx = H;
      return;
    }
    lq_.knots[t].lxx = H.topLeftCorner(ndx, ndx);
    lq_.knots[t].lux = H.bottomLeftCorner(nu, ndx);
    lq_.knots[t].luu = H.bottomRightCorner(nu, nu);
  });
}

void Fddp::KeepBase() {
  for (int t = 0; t < N_; ++t) {
    lxx_diagonal_.col(t) = lq_.knots[t].lxx.diagonal();
    luu_diagonal_.col(t) = lq_.knots[t].luu.diagonal();
    lu_.col(t) = lq_.knots[t].lu;
  }
}

// barrier and shift on top of the base
void Fddp::Shape(double shift) {
  shift_ = shift;
  const bool barrier = mode_ == Mode::kBarrier;
  for (int t = 0; t < N_; ++t) {
    LqKnot& knot = lq_.knots[t];
    knot.lxx.diagonal() = lxx_diagonal_.col(t).array() + shift * unit_;
    knot.luu.diagonal() = luu_diagonal_.col(t).array() + shift * unit_ * control_weights_.array();
    knot.lu = lu_.col(t);
    for (int i = 0; barrier && i < knot.lu.size(); ++i) {
      knot.lu[i] += barrier_.Slope(now_.trajectory.U, i, t);
      knot.luu(i, i) += barrier_.Curvature(now_.trajectory.U, i, t);
    }
  }
}

// what a step may do to each control, in rollouts and in the recursion
void Fddp::SetBounds() {
  const MatrixXd& U = now_.trajectory.U;
  if (mode_ == Mode::kBarrier) {
    barrier_.StepLimits(U, &lower_, &upper_);
  } else {
    lower_ = problem_.u_lower.replicate(1, N_);
    upper_ = problem_.u_upper.replicate(1, N_);
  }
  if (!bounded_) return;
  for (int t = 0; t < N_; ++t) {
    LqKnot& knot = lq_.knots[t];
    knot.du_lower = problem_.u_lower - U.col(t);
    knot.du_upper = problem_.u_upper - U.col(t);
    for (int i = 0; mode_ != Mode::kPolish && i < U.rows(); ++i) {
      const bool held = problem_.u_lower[i] == problem_.u_upper[i];
      knot.du_lower[i] = held ? 0 : -kInf;
      knot.du_upper[i] = held ? 0 : kInf;
      if (held) lower_(i, t) = upper_(i, t) = problem_.u_lower[i];
    }
  }
}

// solves the linear-quadratic problem, with as much shift as makes it convex
bool Fddp::FindDirection(IterationRecord* record) {
  Clock::time_point start = Clock::now();
  SetBounds();
  double shift = floor_;
  while (true) {
    Shape(shift);
    SolveRiccati(lq_, {}, &riccati_);
    if (riccati_.ok) break;
    const double first = last_shift_ == 0 ? kFirstShift : std::max(kLeastShift, last_shift_ / 3);
    shift = shift == 0 ? first : shift * (last_shift_ == 0 ? kFirstShiftGrowth : kShiftGrowth);
    if (!(shift > options_.regularization_max)) continue;
    End(SolveStatus::kStalled,
        BackwardFailsText(problem_, now_.trajectory, lq_, simulator_.knot_time(), riccati_.failed_knot, shift));
    return false;
  }
  if (shift > floor_) last_shift_ = shift;
  Push();
  record->gradient_norm = riccati_.gradient_norm;
  record->seconds_backward += Lap(&start);
  return true;
}

// along the linear model: steps, multipliers, slope and curvature of the objective
void Fddp::Push() {
  if (riccati_.dx0.size() > 0) dx_.col(0) = riccati_.dx0;
  direction_ = {true, 0, 0};
  for (int t = 0; t < N_; ++t) {
    const LqKnot& knot = lq_.knots[t];
    du_.col(t) = riccati_.k.col(t);
    du_.col(t).noalias() += riccati_.K[t] * dx_.col(t);
    next_lambda_.col(t) = riccati_.Vx[t];
    next_lambda_.col(t).noalias() += riccati_.Vxx[t] * dx_.col(t);
    dx_.col(t + 1) = knot.gap;
    dx_.col(t + 1).noalias() += knot.A * dx_.col(t);
    dx_.col(t + 1).noalias() += knot.B * du_.col(t);
    direction_.slope += knot.lx.dot(dx_.col(t)) + knot.lu.dot(du_.col(t));
    direction_.curvature += dx_.col(t).dot(knot.lxx * dx_.col(t)) + du_.col(t).dot(knot.luu * du_.col(t)) +
                            2 * du_.col(t).dot(knot.lux * dx_.col(t)) -
                            shift_ * unit_ * (dx_.col(t).squaredNorm() + du_.col(t).cwiseAbs2().dot(control_weights_));
  }
  next_lambda_.col(N_) = riccati_.Vx[N_];
  next_lambda_.col(N_).noalias() += riccati_.Vxx[N_] * dx_.col(N_);
  direction_.slope += lq_.lx.dot(dx_.col(N_));
  direction_.curvature += dx_.col(N_).dot(lq_.lxx * dx_.col(N_));
  const LqStart& start = lq_.start;
  if (start.l0.size() == 0) return;
  direction_.slope += start.l0.dot(dx_.col(0));
  direction_.curvature += 2 * dx_.col(0).dot(start.l0x * dx_.col(N_)) + dx_.col(0).dot(start.l00 * dx_.col(0));
}

}  // namespace costate
