#include "optimizer/saddle.h"

#include <Eigen/Eigenvalues>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "core/extremes.h"
#include "optimizer/control_noise.h"
#include "optimizer/line_search.h"

namespace costate {
namespace {

// of the Lanczos iteration: whether there is a negative curvature shows within three to five products
constexpr int kLeastProducts = 3, kMostProducts = 10;
constexpr double kNegative = -0.01;  // curvatures above it are rounding …
constexpr double kRounding = 1e-7;   // … and below it nothing is left of a direction beside those that there are
constexpr double kNudge = 1e-6;      // of the difference of gradients, in half control ranges
constexpr int kLengths = 8;          // of steps along the direction: ½, ¼ … of a half range

// dJ/dU of a motion, knot by knot
void GradientOf(const LqProblem& lq, VectorXd* out) {
  const auto N = static_cast<Eigen::Index>(lq.knots.size()), nu = lq.knots[0].lu.size();
  out->resize(N * nu);
  VectorXd lambda = lq.lx;
  for (Eigen::Index t = N - 1; t >= 0; --t) {
    const LqKnot& knot = lq.knots[static_cast<std::size_t>(t)];
    out->segment(t * nu, nu) = knot.lu + knot.B.transpose() * lambda;
    lambda = knot.lx + knot.A.transpose() * lambda;
  }
}

}  // namespace

Saddle::Saddle(const Problem& problem, Simulator* simulator, const IlqrOptions& options)
    : problem_(problem),
      simulator_(simulator),
      options_(options),
      expander_(problem, simulator, options.derivative),
      half_(HalfRanges(problem)) {}

// controls at their bounds stay there, and so does a start that may move; the model without its slopes is what
// curvatures are measured by
void Saddle::Hold(const Trajectory& motion, const LqProblem& lq) {
  const Eigen::Index nu = motion.U.rows(), N = motion.U.cols();
  model_ = lq;
  model_.lx.setZero();
  model_.start = {};
  for (Eigen::Index t = 0; t < N; ++t) {
    const auto within =
        motion.U.col(t).array() > problem_.u_lower.array() && motion.U.col(t).array() < problem_.u_upper.array();
    LqKnot& knot = model_.knots[static_cast<std::size_t>(t)];
    knot.lx.setZero();
    knot.du_upper = within.select(VectorXd::Constant(nu, kInf), VectorXd::Zero(nu));
    knot.du_lower = -knot.du_upper;
  }
}

// M out = right, M the model's second derivative by all controls that are free
bool Saddle::SolveModel(const VectorXd& right, VectorXd* out) {
  const Eigen::Index nu = half_.size();
  for (std::size_t t = 0; t < model_.knots.size(); ++t)
    model_.knots[t].lu = -right.segment(static_cast<Eigen::Index>(t) * nu, nu);
  SolveRiccati(model_, {.regularization = mu_, .values = false}, &riccati_);
  if (!riccati_.ok) return false;
  out->resize(right.size());
  VectorXd dx = VectorXd::Zero(model_.lx.size());
  for (std::size_t t = 0; t < model_.knots.size(); ++t) {
    const auto at = static_cast<Eigen::Index>(t);
    const VectorXd du = riccati_.k.col(at) + riccati_.K[t] * dx;
    out->segment(at * nu, nu) = du;
    dx = model_.knots[t].A * dx + model_.knots[t].B * du;
  }
  return out->allFinite();
}

double Saddle::LargestChange(const VectorXd& direction) const {
  return (direction.reshaped(half_.size(), problem_.N).array().colwise() / half_.array()).abs().maxCoeff();
}

// the cost's second derivative times a direction, by the gradient of the motion beside this one
bool Saddle::Multiply(const Trajectory& motion, const VectorXd& direction, VectorXd* out) {
  const double step = kNudge / LargestChange(direction);
  const MatrixXd U = motion.U + step * direction.reshaped(motion.U.rows(), motion.U.cols());
  if (!simulator_->Rollout(motion.X.col(0), U, &motion_).ok() || expander_.Expand(motion_, &nudged_) >= 0) return false;
  GradientOf(nudged_, out);
  *out = (*out - gradient_) / step;
  return out->allFinite();
}

// Lanczos' iteration on M⁻¹ H from a random direction: q_iᵀ M q_j = [i = j], r_i = M q_i. Controls that are held are 0
// in each q, since M⁻¹ leaves them so: what r has of them is never seen.
double Saddle::Find(const Trajectory& motion, const LqProblem& lq, double unit) {
  mu_ = options_.regularization_min * unit;
  Hold(motion, lq);
  GradientOf(lq, &gradient_);
  const auto most = static_cast<int>(std::min<Eigen::Index>(kMostProducts, gradient_.size()));
  MatrixXd Q(gradient_.size(), most), R(gradient_.size(), most);
  VectorXd alpha(most), beta(most), q, r(gradient_.size());
  SampleStream stream(1, 0, 0);
  for (double& entry : r) entry = stream.Normal();
  if (!SolveModel(r, &q)) return 0;
  double norm = std::sqrt(q.dot(r));

  curvature_ = 0;
  for (int j = 0; j < most && norm > kRounding; ++j) {
    Q.col(j) = q / norm;
    R.col(j) = r / norm;
    if (!Multiply(motion, Q.col(j), &r)) return 0;
    alpha[j] = Q.col(j).dot(r);
    for (int twice = 0; twice < 2; ++twice) r -= R.leftCols(j + 1) * (Q.leftCols(j + 1).transpose() * r).eval();
    if (!SolveModel(r, &q)) return 0;
    beta[j] = norm = std::sqrt(std::max(0.0, q.dot(r)));

    // the least curvature in the span so far, and how far from it one of H is at most
    Eigen::SelfAdjointEigenSolver<MatrixXd> ritz;
    ritz.computeFromTridiagonal(alpha.head(j + 1), beta.head(j));
    const double low = ritz.eigenvalues()[0], error = norm * std::abs(ritz.eigenvectors()(j, 0));
    if (low < kNegative) {
      curvature_ = low;
      direction_ = Q.leftCols(j + 1) * ritz.eigenvectors().col(0);
    }
    if (j + 1 >= kLeastProducts && error < 0.5 * std::abs(low)) break;
  }
  return curvature_;
}

// along the linear motion with the model's feedback: du + K (x ⊖ x̄ - dx), as an open rollout would leave an unstable
// one
void Saddle::Direct() {
  policy_.K = riccati_.K;
  policy_.k = direction_.reshaped(half_.size(), problem_.N) / LargestChange(direction_);
  VectorXd dx = VectorXd::Zero(model_.lx.size());
  for (std::size_t t = 0; t < model_.knots.size(); ++t) {
    auto k = policy_.k.col(static_cast<Eigen::Index>(t));
    const VectorXd next = model_.knots[t].A * dx + model_.knots[t].B * k;
    k -= policy_.K[t] * dx;
    dx = next;
  }
}

AcceptedStep Saddle::Leave(const Trajectory& motion, double cost, Trajectory* taken) {
  Direct();
  motions_.resize(2 * kLengths);
  costs_.resize(2 * kLengths);
  const auto try_length = [&](int i, int worker) {
    const auto at = static_cast<std::size_t>(i);
    const double length = std::ldexp(i % 2 == 0 ? 1 : -1, -1 - i / 2);
    const RolloutStatus status =
        simulator_->RolloutPolicy(motion, policy_, length, problem_.u_lower, problem_.u_upper, &motions_[at], worker);
    costs_[at] = RolloutCost(problem_, motions_[at], status, simulator_->knot_time());
  };
  simulator_->ParallelFor(2 * kLengths, std::ref(try_length));

  const auto best = std::min_element(costs_.begin(), costs_.end());
  const double length = std::ldexp(1, -1 - static_cast<int>(best - costs_.begin()) / 2);
  const ExpectedChange expected{0, curvature_ / std::pow(LargestChange(direction_), 2)};
  if (!(*best - cost <= options_.line_search_ratio * expected.At(length))) return {};
  std::swap(*taken, motions_[static_cast<std::size_t>(best - costs_.begin())]);
  return {0, expected, {length, *best}};
}

}  // namespace costate
