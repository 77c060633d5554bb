// Multiple shooting: linearize about states that need not be a motion, solve the linear-quadratic problem with gaps, search
// along its policy. README.md, "Multiple shooting".
#include <costate/fddp.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "optimizer/control_barrier.h"
#include "optimizer/filter.h"
#include "optimizer/line_search.h"
#include "optimizer/second_order.h"
#include "optimizer/solver_checks.h"

namespace costate {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kFddpGuessScalings = 4;  // as iLQR: a guess that diverges is tried at 1, ¼, 1/16, 1/64, 0
constexpr double kFddpGuessFactor = 0.25;

// of the Hessian where it is indefinite (Wächter & Biegler 2006, Algorithm IC)
constexpr double kFirstShift = 1e-4, kFirstShiftGrowth = 100, kShiftGrowth = 8, kLeastShift = 1e-9;

constexpr double kBarrierAccuracy = 10;     // a barrier problem is solved to so many times mu (ibid., eq. (7))
constexpr double kBarrierShare = 0.1;       // of the tolerance: what the last barrier may keep from the optimum
constexpr double kPolishShare = 0.1;        // barrier's gap, of the cost, below which steps without barrier are tried …
constexpr double kPolishRatio = 0.3;        // … and kept while they keep this part of their promise
constexpr double kGoodStep = 0.5;

using FddpClock = std::chrono::steady_clock;

double FddpLap(FddpClock::time_point* start) {
  const FddpClock::time_point now = FddpClock::now();
  return std::chrono::duration<double>(now - std::exchange(*start, now)).count();
}

void CheckFddpOptions(const IlqrOptions& o) {
  const auto need = [](bool good, const char* name, double value, const char* range) {
    if (good) return;
    throw Error(ErrorCode::kInvalidArgument, fmt::format("fddp option {} is {:g}, it must be {}", name, value, range));
  };
  need(o.iterations >= 0, "iterations", o.iterations, "0 or more");
  need(o.tolerance >= 0, "tolerance", o.tolerance, "0 or more");
  need(o.gradient_tolerance >= 0, "gradient_tolerance", o.gradient_tolerance, "0 or more");
  need(o.regularization_max > 0 && std::isfinite(o.regularization_max), "regularization_max", o.regularization_max,
       "positive and finite");
  need(o.line_search_steps >= 1 && o.line_search_steps <= 60, "line_search_steps", o.line_search_steps, "1 … 60");
  need(o.line_search_ratio >= 0 && o.line_search_ratio < 1, "line_search_ratio", o.line_search_ratio, "0 or more and below 1");
  need(o.threads >= 0, "threads", o.threads, "0 (all cores) or more");
  need(o.barrier_init > 0 && std::isfinite(o.barrier_init), "barrier_init", o.barrier_init, "positive and finite");
}

// states with controls, what is missing between them, and what they cost
struct Iterate {
  Trajectory trajectory;
  MatrixXd gaps;
  double cost = kInfinity;
  double Gaps() const { return gaps.cwiseAbs().sum(); }
};

class Fddp {
 public:
  Fddp(const Problem& problem, const IlqrOptions& options);
  SolveResult Run(ConstMatrixRef X, ConstMatrixRef U, const IterationCallback& callback);

 private:
  enum class Mode {
    kPlain,    // no bound matters
    kBarrier,
    kPolish,   // bounds by the box-constrained recursion, from a barrier's solution; back to it when a step disappoints
  };
  struct Direction {
    bool ok = false;
    double slope = 0, curvature = 0;  // of the objective along the full step
    double Expected(double alpha) const { return alpha * slope + 0.5 * alpha * alpha * curvature; }
  };

  bool Start(ConstMatrixRef X, ConstMatrixRef U);
  bool Follow(ConstMatrixRef X, ConstMatrixRef U);
  void Loop(const IterationCallback& callback);
  bool Linearize(IterationRecord* record);
  int LinearizeKnots();
  void AddCurvature();
  void KeepBase();
  void Shape(double shift);
  void SetBounds();
  bool FindDirection(IterationRecord* record);
  void Push();
  bool LeavesBounds() const;
  bool StartBarrier();
  void AdaptBarrier();
  bool Converged(const IterationRecord& record);
  double Search(int steps);
  bool TryPolish(IterationRecord* record);
  void Accept(double alpha);
  void Remember();
  void Finish();
  void End(SolveStatus status, std::string message);
  std::string GapText(const MatrixXd& gaps) const;
  double Objective(const Trajectory& trajectory, double cost) const {
    return mode_ == Mode::kBarrier && std::isfinite(cost) ? cost + barrier_.Value(trajectory.U) : cost;
  }

  Problem problem_;
  IlqrOptions options_;
  Simulator simulator_;
  ControlBarrier barrier_;
  Filter filter_;
  std::unique_ptr<SecondOrder> second_order_;
  int N_;
  bool bounded_ = false;

  Mode mode_ = Mode::kPlain;
  Iterate now_, saved_, best_;
  ControlBarrier saved_barrier_;
  bool linearized_ = false;

  LqProblem lq_;
  RiccatiResult riccati_;
  std::vector<CostExpansion> expansions_;  // one a worker
  std::vector<StepStatus> failed_;
  std::vector<MatrixXd> C_, D_, hessians_;  // for second-order terms
  MatrixXd lambda_, next_lambda_;           // multipliers of the last step's problem (ndx × (N+1)); zero before the first
  MatrixXd lxx_diagonal_, luu_diagonal_, lu_;  // before barrier and shift

  Direction direction_;
  MatrixXd dx_, du_;
  double shift_ = 0, last_shift_ = 0, floor_ = 0;
  double alpha_ = 0, expected_ = kInfinity;  // of the last step
  Policy policy_;
  MatrixXd lower_, upper_;
  std::vector<Trajectory> candidates_;  // one a thread
  std::vector<double> costs_;
  Trajectory next_;
  double next_cost_ = 0;
  SolveResult result_;
};

Fddp::Fddp(const Problem& problem, const IlqrOptions& options)
    : problem_(problem),
      options_(options),
      simulator_(problem.model, problem.context, problem.substeps, options.threads),
      barrier_(problem.u_lower, problem.u_upper, problem.N),
      filter_(options.line_search_ratio),
      N_(problem.N),
      saved_barrier_(barrier_) {
  simulator_.SetDerivativeModel(options.derivative_model);
  options_.derivative.sensors = problem.cost->NeedsSensors();
  if (options.second_order) {
    const mjModel* model = options.derivative_model ? options.derivative_model : problem.model;
    second_order_ = std::make_unique<SecondOrder>(problem_, model, options.derivative.level, simulator_.threads());
    C_.resize(N_ + 1);
    D_.resize(N_ + 1);
    hessians_.resize(N_ + 1);
  }
  bounded_ = (problem.u_lower.array().isFinite() || problem.u_upper.array().isFinite()).any();
  const Dims& dims = simulator_.dims();
  expansions_.resize(simulator_.threads());
  candidates_.resize(simulator_.threads());
  costs_.resize(simulator_.threads());
  failed_.resize(N_ + 1);
  lq_.knots.resize(N_);
  lambda_.setZero(dims.ndx, N_ + 1);
  next_lambda_ = dx_ = lambda_;
  lxx_diagonal_.setZero(dims.ndx, N_);
  luu_diagonal_.setZero(dims.nu, N_);
  lu_ = du_ = luu_diagonal_;
}

SolveResult Fddp::Run(ConstMatrixRef X, ConstMatrixRef U, const IterationCallback& callback) {
  result_.policy.k.setZero(U.rows(), N_);
  result_.policy.K.assign(N_, MatrixXd::Zero(U.rows(), simulator_.dims().ndx));
  if (Start(X, U)) {
    Loop(callback);
    Finish();
  }
  return std::move(result_);
}

bool Fddp::Start(ConstMatrixRef X, ConstMatrixRef U) {
  const auto clamp = [&](ConstMatrixRef u) -> MatrixXd {
    return u.cwiseMax(problem_.u_lower.replicate(1, N_)).cwiseMin(problem_.u_upper.replicate(1, N_));
  };
  if (X.cols() > 0) {
    MatrixXd states = X;
    states.col(0) = problem_.x0;
    // the controls alone, to compare with and to fall back on
    RolloutStatus status = simulator_.Rollout(problem_.x0, clamp(U), &best_.trajectory);
    best_.cost = result_.initial_cost = RolloutCost(problem_, best_.trajectory, status, simulator_.knot_time());
    best_.gaps.setZero(simulator_.dims().ndx, N_);
    if (Follow(states, clamp(U))) return true;
    result_.trajectory = now_.trajectory;
    End(SolveStatus::kDiverged, "the guess cannot be simulated: a step from one of its states fails, or its cost is not finite");
    return false;
  }
  RolloutStatus first;
  for (int i = 0; i <= kFddpGuessScalings; ++i) {
    result_.guess_scale = i < kFddpGuessScalings ? std::pow(kFddpGuessFactor, i) : 0;
    const RolloutStatus status =
        simulator_.Rollout(problem_.x0, clamp(result_.guess_scale * U), &now_.trajectory);
    if (i == 0) first = status;
    now_.cost = RolloutCost(problem_, now_.trajectory, status, simulator_.knot_time());
    now_.gaps.setZero(simulator_.dims().ndx, N_);
    result_.initial_cost = result_.cost = now_.cost;
    if (std::isfinite(now_.cost)) {
      Remember();
      return true;
    }
    if (U.isZero(0)) break;
  }
  result_.trajectory = now_.trajectory;
  End(SolveStatus::kDiverged,
      fmt::format("the guess cannot be simulated: {}; neither can the guess scaled down to zero",
                  first.ok() ? "its cost is not finite"
                             : fmt::format("{} at knot {} of {} ({:.3g} s)", ToString(first.status), first.knot, N_,
                                           first.knot * simulator_.knot_time())));
  return false;
}

// now_ at given states and controls
bool Fddp::Follow(ConstMatrixRef X, ConstMatrixRef U) {
  const RolloutStatus status = simulator_.Follow(X, U, &next_, &now_.gaps);
  std::swap(now_.trajectory, next_);
  now_.cost = RolloutCost(problem_, now_.trajectory, status, simulator_.knot_time());
  linearized_ = false;
  return std::isfinite(now_.cost);
}

void Fddp::Loop(const IterationCallback& callback) {
  for (int i = 1; i <= options_.iterations; ++i) {
    IterationRecord record;
    record.iteration = i;
    if (!Linearize(&record)) return;
    const double before = now_.cost;
    double alpha = 0;
    FddpClock::time_point start = FddpClock::now();
    if (mode_ == Mode::kBarrier) AdaptBarrier();
    if (mode_ == Mode::kBarrier && TryPolish(&record)) {
      alpha = 1;
    } else {
      if (!FindDirection(&record)) return;
      if (mode_ == Mode::kPlain && LeavesBounds()) {
        if (!StartBarrier() || !Linearize(&record) || !FindDirection(&record)) return;
      }
      if (Converged(record)) return;
      start = FddpClock::now();
      const double expected = direction_.Expected(1);
      alpha = Search(mode_ == Mode::kPolish ? 1 : options_.line_search_steps);
      record.seconds_rollout += FddpLap(&start);
      if (mode_ == Mode::kPolish && (alpha == 0 || next_cost_ - before > kPolishRatio * expected)) {
        now_ = saved_;
        barrier_ = saved_barrier_;
        mode_ = Mode::kBarrier;
        barrier_.Shrink(0);
        linearized_ = false;
        alpha_ = 0;
        alpha = 0;
      } else if (alpha > 0) {
        Accept(alpha);
      } else {
        // a smaller step next time
        filter_.Clear();
        floor_ = kShiftGrowth * std::max({floor_, last_shift_, kFirstShift});
      }
    }
    record.step = alpha;
    record.cost = now_.cost;
    record.gap = now_.gaps.cwiseAbs().maxCoeff();
    record.regularization = shift_;
    record.expected_change = direction_.Expected(alpha > 0 ? alpha : 1);
    record.actual_change = now_.cost - before;
    problem_.cost->Observe(now_.trajectory, simulator_.knot_time(), &record);
    result_.iterations.push_back(record);
    if (callback && !callback(record)) {
      return End(SolveStatus::kInterrupted, fmt::format("interrupted after {} iterations at cost {:.6g}", i, now_.cost));
    }
    if (floor_ > options_.regularization_max) {
      return End(SolveStatus::kStalled, fmt::format("stalled after {} iterations: no step improves on the cost {:.6g} even with "
                                                    "regularization {:g}, gradient norm {:.3g}", i, now_.cost, shift_, record.gradient_norm));
    }
  }
  End(SolveStatus::kIterationLimit,
      fmt::format("reached the limit of {} iterations at cost {:.6g}", options_.iterations, now_.cost));
}

// the linear-quadratic problem about now_
bool Fddp::Linearize(IterationRecord* record) {
  if (linearized_) return true;
  FddpClock::time_point start = FddpClock::now();
  int failed = LinearizeKnots();
  if (failed < 0 && second_order_) {
    AddCurvature();
    const auto at = std::find_if(failed_.begin(), failed_.end(), [](StepStatus s) { return s != StepStatus::kOk; });
    if (at != failed_.end()) failed = static_cast<int>(at - failed_.begin());
  }
  record->seconds_derivative += FddpLap(&start);
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
    if (t == N_) {
      std::swap(lq_.lx, expansion.lx);
      std::swap(lq_.lxx, expansion.lxx);
      return;
    }
    LqKnot& knot = lq_.knots[t];
    std::swap(knot.A, derivative->A);
    std::swap(knot.B, derivative->B);
    std::swap(knot.lx, expansion.lx);
    std::swap(knot.lu, expansion.lu);
    std::swap(knot.lxx, expansion.lxx);
    std::swap(knot.lux, expansion.lux);
    std::swap(knot.luu, expansion.luu);
    knot.gap = now_.gaps.col(t);
  });
  const auto at = std::find_if(failed_.begin(), failed_.end(), [](StepStatus s) { return s != StepStatus::kOk; });
  return at == failed_.end() ? -1 : static_cast<int>(at - failed_.begin());
}

// lxx, lux, luu ← blocks of the exact Hessian
void Fddp::AddCurvature() {
  const Eigen::Index ndx = simulator_.dims().ndx, nu = simulator_.dims().nu;
  simulator_.ParallelFor(N_ + 1, [&](int t, int worker) {
    MatrixXd& H = hessians_[t];
    failed_[t] = second_order_->Hessian(now_.trajectory, t, simulator_.knot_time(), lambda_.col(std::min(t + 1, N_)), C_[t],
                                        D_[t], worker, &H);
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
    knot.lxx.diagonal() = lxx_diagonal_.col(t).array() + shift;
    knot.luu.diagonal() = luu_diagonal_.col(t).array() + shift;
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
      knot.du_lower[i] = held ? 0 : -kInfinity;
      knot.du_upper[i] = held ? 0 : kInfinity;
      if (held) lower_(i, t) = upper_(i, t) = problem_.u_lower[i];
    }
  }
}

// solves the linear-quadratic problem, with as much shift as makes it convex
bool Fddp::FindDirection(IterationRecord* record) {
  FddpClock::time_point start = FddpClock::now();
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
        fmt::format("the backward pass fails at knot {} of {} even with regularization {:g}: Quu is not positive definite or not "
                    "finite", riccati_.failed_knot, N_, shift));
    return false;
  }
  if (shift > floor_) last_shift_ = shift;
  Push();
  record->gradient_norm = riccati_.gradient_norm;
  record->seconds_backward += FddpLap(&start);
  return true;
}

// along the linear model: steps, multipliers, slope and curvature of the objective
void Fddp::Push() {
  dx_.col(0).setZero();
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
                            shift_ * (dx_.col(t).squaredNorm() + du_.col(t).squaredNorm());
  }
  next_lambda_.col(N_) = riccati_.Vx[N_];
  next_lambda_.col(N_).noalias() += riccati_.Vxx[N_] * dx_.col(N_);
  direction_.slope += lq_.lx.dot(dx_.col(N_));
  direction_.curvature += dx_.col(N_).dot(lq_.lxx * dx_.col(N_));
}

// does the full step, by the linear model, reach a bound?
bool Fddp::LeavesBounds() const {
  if (barrier_.bounds() == 0) return false;
  const MatrixXd U = now_.trajectory.U + du_;
  for (int t = 0; t < N_; ++t) {
    for (int i = 0; i < U.rows(); ++i) {
      if (problem_.u_lower[i] == problem_.u_upper[i]) continue;
      if (U(i, t) <= problem_.u_lower[i] || U(i, t) >= problem_.u_upper[i]) return true;
    }
  }
  return false;
}

// from now on a barrier keeps the bounds; controls near them move inside, and leave gaps
bool Fddp::StartBarrier() {
  mode_ = Mode::kBarrier;
  filter_.Clear();
  const MatrixXd inside = barrier_.Inside(now_.trajectory.U);
  if (inside != now_.trajectory.U) {
    const MatrixXd X = now_.trajectory.X;
    const double gaps = now_.Gaps();
    const bool ok = gaps > 0 ? Follow(X, inside) : true;
    if (gaps == 0) {
      const RolloutStatus status = simulator_.Rollout(problem_.x0, inside, &now_.trajectory);
      now_.cost = RolloutCost(problem_, now_.trajectory, status, simulator_.knot_time());
      now_.gaps.setZero();
      linearized_ = false;
    }
    if (!ok || !std::isfinite(now_.cost)) {
      End(SolveStatus::kStalled, "the controls moved inside their bounds cannot be simulated");
      return false;
    }
  }
  barrier_.Start(now_.trajectory.U, options_.barrier_init);
  return true;
}

// once its problem is solved to a few mu, the barrier shrinks
void Fddp::AdaptBarrier() {
  if (alpha_ == 0) return;
  MatrixXd slope = lu_;
  double error = std::max(now_.gaps.cwiseAbs().maxCoeff(), (lq_.lx - lambda_.col(N_)).cwiseAbs().maxCoeff());
  for (int t = 0; t < N_; ++t) {
    const LqKnot& knot = lq_.knots[t];
    slope.col(t).noalias() += knot.B.transpose() * lambda_.col(t + 1);
    if (t == 0) continue;
    error = std::max(error, (knot.lx + knot.A.transpose() * lambda_.col(t + 1) - lambda_.col(t)).cwiseAbs().maxCoeff());
  }
  const double least = kBarrierShare * options_.tolerance * std::max(std::abs(now_.cost), 1e-12) / barrier_.bounds();
  while (barrier_.mu() > least && std::max(error, barrier_.Error(now_.trajectory.U, slope)) < kBarrierAccuracy * barrier_.mu()) {
    barrier_.Shrink(least);
    filter_.Clear();
  }
}

bool Fddp::Converged(const IterationRecord& record) {
  const double expected = -direction_.Expected(1), limit = options_.tolerance * std::abs(now_.cost);
  if (now_.Gaps() > 0 || shift_ > 0) return false;
  if (mode_ == Mode::kBarrier && barrier_.Gap() > limit) return false;
  if (record.gradient_norm <= options_.gradient_tolerance * (1 + std::abs(now_.cost))) {
    End(SolveStatus::kConverged, fmt::format("converged after {} iterations: gradient norm {:.3g} is within its tolerance {:.3g}",
                                             result_.iterations.size(), record.gradient_norm,
                                             options_.gradient_tolerance * (1 + std::abs(now_.cost))));
    return true;
  }
  if (expected > limit) return false;
  End(SolveStatus::kConverged, fmt::format("converged after {} iterations: of the cost {:.6g} the model promises to take off no more than {:.3g}",
                                           result_.iterations.size(), now_.cost, std::max(expected, 0.0)));
  return true;
}

// the largest alpha that the filter takes; next_ and next_cost_ are there
double Fddp::Search(int steps) {
  std::swap(policy_.k, riccati_.k);
  std::swap(policy_.K, riccati_.K);
  const Filter::Point from{now_.Gaps(), Objective(now_.trajectory, now_.cost)};
  for (int first = 0; first < steps; first += simulator_.threads()) {
    const int count = std::min(simulator_.threads(), steps - first);
    simulator_.ParallelFor(count, [&](int i, int worker) {
      const RolloutStatus status = simulator_.RolloutGaps(now_.trajectory, now_.gaps, policy_, std::ldexp(1, -(first + i)), lower_,
                                                          upper_, &candidates_[i], worker);
      costs_[i] = RolloutCost(problem_, candidates_[i], status, simulator_.knot_time());
    });
    for (int i = 0; i < count; ++i) {
      const double alpha = std::ldexp(1, -(first + i));
      const Filter::Point to{(1 - alpha) * from.gaps, Objective(candidates_[i], costs_[i])};
      if (!filter_.Accepts(from, to, direction_.slope, alpha)) continue;
      filter_.Add(from, direction_.slope, alpha);
      std::swap(next_, candidates_[i]);
      next_cost_ = costs_[i];
      return alpha;
    }
  }
  return 0;
}

// without barrier, the whole step: where the bounds that hold are known, it converges at once
bool Fddp::TryPolish(IterationRecord* record) {
  if (now_.Gaps() > 0 || alpha_ < kGoodStep || floor_ > 0) return false;
  if (expected_ > barrier_.Gap() || barrier_.Gap() > kPolishShare * std::abs(now_.cost)) return false;
  mode_ = Mode::kPolish;
  SetBounds();
  Shape(0);
  SolveRiccati(lq_, {}, &riccati_);
  if (riccati_.ok) {
    Push();
    record->gradient_norm = riccati_.gradient_norm;
    const Filter filter = filter_;
    FddpClock::time_point start = FddpClock::now();
    const double before = now_.cost, expected = direction_.Expected(1);
    const double alpha = expected < 0 ? Search(1) : 0;
    record->seconds_rollout += FddpLap(&start);
    if (alpha == 1 && next_cost_ - before <= kPolishRatio * expected) {
      saved_ = now_;
      saved_barrier_ = barrier_;
      Accept(1);
      return true;
    }
    filter_ = filter;
  }
  mode_ = Mode::kBarrier;
  return false;
}

void Fddp::Accept(double alpha) {
  if (mode_ == Mode::kBarrier) barrier_.Move(now_.trajectory.U, du_, next_.U);
  std::swap(now_.trajectory, next_);
  now_.cost = next_cost_;
  expected_ = now_.Gaps() > 0 ? kInfinity : -direction_.Expected(1);
  now_.gaps *= 1 - alpha;
  std::swap(lambda_, next_lambda_);
  linearized_ = false;
  alpha_ = alpha;
  floor_ = floor_ > kFirstShift ? floor_ / kShiftGrowth : 0;
  Remember();
}

// the best motion so far
void Fddp::Remember() {
  if (now_.Gaps() == 0 && now_.cost < best_.cost) best_ = now_;
}

// the best motion, gains and gradient about it
void Fddp::Finish() {
  if (now_.Gaps() > 0) {
    // what the last policy makes of states with gaps
    Iterate closed{{}, MatrixXd::Zero(simulator_.dims().ndx, N_)};
    Policy hold = policy_;
    hold.k.setZero(problem_.u_lower.size(), N_);
    hold.K.resize(N_, MatrixXd::Zero(problem_.u_lower.size(), simulator_.dims().ndx));
    const RolloutStatus status =
        simulator_.RolloutPolicy(now_.trajectory, hold, 1, problem_.u_lower, problem_.u_upper, &closed.trajectory);
    closed.cost = RolloutCost(problem_, closed.trajectory, status, simulator_.knot_time());
    result_.message += fmt::format("; the states still have gaps, the largest {}: the motion is {}, at cost {:.6g}", GapText(now_.gaps),
                                   closed.cost < best_.cost ? "what the last policy makes of them" : "the best without gaps",
                                   std::min(closed.cost, best_.cost));
    if (closed.cost < best_.cost) best_ = std::move(closed);
    if (!std::isfinite(best_.cost)) result_.status = SolveStatus::kDiverged;
  }
  result_.cost = best_.cost;
  if (!std::isfinite(best_.cost)) {
    result_.trajectory = std::move(best_.trajectory);
    return;
  }
  std::swap(now_, best_);
  mode_ = Mode::kPolish;
  if (LinearizeKnots() < 0) {
    KeepBase();
    SetBounds();
    for (double shift = 0; shift <= options_.regularization_max; shift = std::max(1e-8, 100 * shift)) {
      Shape(shift);
      SolveRiccati(lq_, {.values = false}, &riccati_);
      if (!riccati_.ok) continue;
      result_.policy.k = riccati_.k;
      result_.policy.K = riccati_.K;
      result_.gradient_norm = riccati_.gradient_norm;
      result_.gradient_norm_per_knot = riccati_.gradient_norm_per_knot;
      break;
    }
  }
  result_.trajectory = std::move(now_.trajectory);
}

std::string Fddp::GapText(const MatrixXd& gaps) const {
  Eigen::Index row = 0, t = 0;
  const double largest = gaps.cwiseAbs().maxCoeff(&row, &t);
  return fmt::format("{:.3g} at knot {} in {}", largest, t + 1, TangentNames(problem_.model)[static_cast<std::size_t>(row)]);
}

void Fddp::End(SolveStatus status, std::string message) {
  result_.status = status;
  result_.message = std::move(message);
}

}  // namespace

SolveResult SolveFddp(const Problem& problem, ConstMatrixRef X, ConstMatrixRef U, const IlqrOptions& options,
                      const IterationCallback& callback) {
  CheckProblem(problem, U);
  CheckFddpOptions(options);
  RefuseDelays(problem.model, "fddp");
  const Dims dims(problem.model);
  if (X.cols() > 0 && (X.rows() != dims.nx || X.cols() != problem.N + 1)) {
    throw Error(ErrorCode::kDimensionMismatch, fmt::format("the state guess is {} x {}, expected nx = {} rows and N + 1 = {} columns", X.rows(),
                                                           X.cols(), dims.nx, problem.N + 1));
  }
  return Fddp(problem, options).Run(X, U, callback);
}

}  // namespace costate
