#include "optimizer/minimize.h"

#include <costate/error.h>
#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "core/extremes.h"
#include "core/lap.h"
#include "optimizer/solver_checks.h"

namespace costate {
namespace {

constexpr double kDecrease = 1e-4;
constexpr int kTrials = 50;           // step lengths in one search
constexpr double kFirstMove = 0.1;    // longest entry of the first step, in units of scale: no curvature is known
constexpr double kCurvature = 1e-10;  // a pair (s, y) is kept when sᵀy > this |s| |y|

// of Gauss–Newton steps: dampings that are tried, and the factor between them; what an entry that nothing determines
// has
constexpr int kDampings = 8;
constexpr double kFirstDamping = 1e-4, kLastDamping = 1e-10, kDamping = 10, kUndetermined = 1e-12, kShortStep = 0.25;
constexpr double kTooStiff = 0.75;  // of g·d, of which a matrix promises half

constexpr double kAdamRate = 0.03, kAdamFirst = 0.9, kAdamSecond = 0.999,
                 kAdamFloor = 1e-12;  // Kingma & Ba 2015, but the floor
constexpr int kIdleIterations = 3;    // iterations without progress that end the search
constexpr double kSmallShare = 1e-3;  // of the first gradient, which one that is left at a minimum is below
constexpr double kFlat = 100;         // or below this √tolerance of the loss
constexpr double kAtKink = 1e-4;  // steps of a search with curvature, in terms of its own, that are none at a minimum

struct Secant {
  VectorXd s, y;
};

// −H g by the two-loop recursion (Nocedal & Wright 2006, algorithm 7.4), on the free entries alone
VectorXd QuasiNewton(const std::deque<Secant>& pairs, const VectorXd& g, const VectorXd& free) {
  VectorXd q = g.cwiseProduct(free);
  std::vector<double> alpha(pairs.size(), 0), rho(pairs.size(), 0);
  double gamma = 1;
  for (std::size_t i = pairs.size(); i-- > 0;) {
    const VectorXd s = pairs[i].s.cwiseProduct(free), y = pairs[i].y.cwiseProduct(free);
    const double sy = s.dot(y);
    if (!(sy > kCurvature * s.norm() * y.norm())) continue;
    if (gamma == 1) gamma = sy / y.squaredNorm();
    rho[i] = 1 / sy;
    alpha[i] = rho[i] * s.dot(q);
    q -= alpha[i] * y;
  }
  q *= gamma;
  for (std::size_t i = 0; i < pairs.size(); i++) {
    if (rho[i] == 0) continue;
    q += (alpha[i] - rho[i] * pairs[i].y.cwiseProduct(free).dot(q)) * pairs[i].s.cwiseProduct(free);
  }
  return -q;
}

class Minimizer {
 public:
  Minimizer(const SmoothFunction& f, ConstVectorRef lower, ConstVectorRef upper, ConstVectorRef scale,
            const DescentOptions& options, const CurvatureFunction& curvature)
      : f_(f),
        curvature_(curvature),
        options_(options),
        newton_(options.method == DescentMethod::kGaussNewton),
        lbfgs_(options.method == DescentMethod::kLbfgs),
        adam_(options.method == DescentMethod::kAdam),
        lower_z_(lower),
        upper_z_(upper) {
    scale_ = newton_ || lbfgs_ || adam_ ? VectorXd(scale) : VectorXd::Ones(scale.size());
    lower_ = lower.cwiseQuotient(scale_);
    upper_ = upper.cwiseQuotient(scale_);
  }

  MinimizeResult Run(const VectorXd& start, const MinimizeCallback& callback);

 private:
  bool Begin(const VectorXd& start, const MinimizeCallback& callback);
  bool Iterate(int k, const MinimizeCallback& callback);
  bool Step(int k, const VectorXd& p, VectorXd* w);
  bool MoveTo(VectorXd w);
  bool IsAnythingLeft();
  bool StopIdle();
  bool Stop(SolveStatus status, const std::string& message);
  void Keep(double norm);
  VectorXd Clamp(const VectorXd& w) const { return w.cwiseMax(lower_).cwiseMin(upper_); }
  VectorXd ToZ(const VectorXd& w) const;
  double Ask(const VectorXd& w, VectorXd* g) const;
  double Value(const VectorXd& w) const { return Ask(w, nullptr); }
  double Gradient(const VectorXd& w, VectorXd* g);
  VectorXd Projected(const VectorXd& w, const VectorXd& g) const;
  bool Search(const VectorXd& direction, double first, VectorXd* w, double* value);
  double FirstStep(const VectorXd& direction) const;
  bool IsSmall(double norm) const;
  VectorXd AdamStep(int k);
  bool GaussNewtonStep(const VectorXd& free, VectorXd* w, double* value);

  const SmoothFunction& f_;
  const CurvatureFunction& curvature_;
  const DescentOptions& options_;
  const bool newton_, lbfgs_, adam_;
  double damping_ = 0;  // of Gauss–Newton steps, in terms of H's diagonal
  VectorXd lower_z_, upper_z_, scale_;
  VectorXd lower_, upper_;  // these and everything below in w = z / scale
  VectorXd w_, g_;
  double value_ = 0;
  double first_norm_ = 0;  // of the projected gradient at the guess
  int idle_ = 0;
  std::deque<Secant> pairs_;
  VectorXd first_moment_, second_moment_;  // of Adam
  IterationRecord record_;
  MinimizeResult result_;
};

// never beyond a bound, and on it exactly, whatever the division by its scale has rounded
VectorXd Minimizer::ToZ(const VectorXd& w) const {
  VectorXd z = w.cwiseProduct(scale_).cwiseMax(lower_z_).cwiseMin(upper_z_);
  for (Eigen::Index i = 0; i < z.size(); i++) {
    if (w[i] == lower_[i]) z[i] = lower_z_[i];
    if (w[i] == upper_[i]) z[i] = upper_z_[i];
  }
  return z;
}

// a step may overflow: no function need know a point that is not finite
double Minimizer::Ask(const VectorXd& w, VectorXd* g) const {
  const VectorXd z = ToZ(w);
  if (z.allFinite()) return f_(z, g);
  if (g) *g = VectorXd::Constant(z.size(), kNan);
  return kNan;
}

double Minimizer::Gradient(const VectorXd& w, VectorXd* g) {
  const double value = Ask(w, g);
  *g = g->cwiseProduct(scale_);
  return value;
}

// 0 where the gradient presses against a bound
VectorXd Minimizer::Projected(const VectorXd& w, const VectorXd& g) const {
  VectorXd p = g;
  for (Eigen::Index i = 0; i < w.size(); i++) {
    if ((w[i] <= lower_[i] && g[i] > 0) || (w[i] >= upper_[i] && g[i] < 0)) p[i] = 0;
  }
  return p;
}

double Minimizer::FirstStep(const VectorXd& direction) const {
  if (!pairs_.empty()) return 1;
  if (!lbfgs_ && record_.step > 0) return 2 * record_.step;
  const double most = direction.cwiseAbs().maxCoeff();
  return std::min(1.0, kFirstMove / most);
}

// what a minimum may leave where the loss f no longer falls by tolerance · f: with curvature c √(2 c tolerance f), c in
// units of f or of where the search began; more is left at a kink, where steps get ever shorter
bool Minimizer::IsSmall(double norm) const {
  const double root = std::sqrt(options_.tolerance);
  if (norm <= root * first_norm_ || norm <= kFlat * root * std::abs(value_)) return true;
  return norm <= kSmallShare * first_norm_ && (pairs_.empty() || record_.step > kAtKink);
}

// along clamp(w + alpha d): sufficient decrease (Bertsekas 1976); while no curvature is known, longer steps too, and where
// a Gauss–Newton step gains one and a half times what its matrix promises
bool Minimizer::Search(const VectorXd& direction, double first, VectorXd* w, double* value) {
  const bool expand = !newton_ && pairs_.empty();
  double alpha = first, best_alpha = 0;
  for (int trial = 0; trial < kTrials; trial++) {
    const VectorXd next = Clamp(w_ + alpha * direction);
    const double slope = g_.dot(next - w_);
    const double f = next == w_ ? std::nan("") : Value(next);
    const bool enough = f <= value_ + kDecrease * slope && f < value_;
    if (enough && (best_alpha == 0 || f < *value)) {
      *w = next;
      *value = f;
      best_alpha = alpha;
      record_.expected_change = slope;
      const bool too_stiff = newton_ && value_ - f > -kTooStiff * slope;
      if ((!expand && !too_stiff) || alpha < first) break;
      alpha *= 2;
      continue;
    }
    if (best_alpha > 0) break;
    if (next == w_) return false;
    // the minimum of the parabola through both values and the slope, within reason
    const double parabola = std::isfinite(f) ? -0.5 * slope * alpha / (f - value_ - slope) : 0;
    alpha = std::clamp(parabola, 0.1 * alpha, 0.5 * alpha);
  }
  record_.step = best_alpha;
  return best_alpha > 0;
}

// (8c), (H + damping diag H) d = −g on the free entries (Levenberg 1944, Marquardt 1963): damped until a step of at
// least a quarter of d is one; false where none is
bool Minimizer::GaussNewtonStep(const VectorXd& free, VectorXd* w, double* value) {
  MatrixXd H;
  if (!curvature_(&H)) return false;
  H = scale_.asDiagonal() * H * scale_.asDiagonal();
  for (int trial = 0; trial < kDampings; trial++) {
    if (trial > 0) damping_ = std::max(kDamping * damping_, kFirstDamping);
    VectorXd unit = H.diagonal().cwiseProduct(free);
    for (double& entry : unit) entry = entry > 0 ? 1 / std::sqrt(entry) : 0;
    MatrixXd R = unit.asDiagonal() * H * unit.asDiagonal();
    R.diagonal().setConstant(1 + kUndetermined + damping_);
    const VectorXd direction = -unit.cwiseProduct(R.ldlt().solve(unit.cwiseProduct(g_)));
    if (!direction.allFinite() || !(direction.dot(g_) < 0) || !Search(direction, 1, w, value)) continue;
    if (record_.step < kShortStep && trial + 1 < kDampings) continue;
    if (record_.step >= 1) damping_ = damping_ > kLastDamping ? damping_ / kDamping : 0;
    return true;
  }
  return false;
}

// m ← β₁ m + (1 − β₁) g, v ← β₂ v + (1 − β₂) g², w ← clamp(w − rate m̂ / √v̂), with m̂ and v̂ freed of their start at 0
VectorXd Minimizer::AdamStep(int k) {
  if (k == 1) first_moment_ = second_moment_ = VectorXd::Zero(g_.size());
  first_moment_ = kAdamFirst * first_moment_ + (1 - kAdamFirst) * g_;
  second_moment_ = kAdamSecond * second_moment_ + (1 - kAdamSecond) * g_.cwiseAbs2();
  const VectorXd m = first_moment_ / (1 - std::pow(kAdamFirst, k)), v = second_moment_ / (1 - std::pow(kAdamSecond, k));
  record_.step = options_.rate > 0 ? options_.rate : kAdamRate;
  return Clamp(w_ - record_.step * (m.array() / (v.array().sqrt() + kAdamFloor)).matrix());
}

// always false: nothing goes on
bool Minimizer::Stop(SolveStatus status, const std::string& message) {
  result_.status = status;
  result_.message = message;
  return false;
}

void Minimizer::Keep(double norm) {
  result_.z = ToZ(w_);
  result_.gradient = g_.cwiseQuotient(scale_);
  result_.value = value_;
  result_.gradient_norm = norm;
}

bool Minimizer::IsAnythingLeft() {
  if (!(value_ >= 0 && value_ <= options_.floor)) return true;
  return Stop(SolveStatus::kConverged, fmt::format("of the loss nothing is left but rounding, {:.2g}", value_));
}

bool Minimizer::Begin(const VectorXd& start, const MinimizeCallback& callback) {
  Clock::time_point begin = Clock::now();
  w_ = Clamp(start.cwiseQuotient(scale_));
  value_ = Gradient(w_, &g_);
  result_.z = ToZ(w_);
  result_.value = result_.initial_value = value_;
  if (!std::isfinite(value_) || !g_.allFinite())
    return Stop(SolveStatus::kDiverged, "the loss of the guess, or its gradient, has no value");
  first_norm_ = Projected(w_, g_).lpNorm<Eigen::Infinity>();
  Keep(first_norm_);
  record_.cost = value_;
  record_.gradient_norm = first_norm_;
  record_.seconds_derivative = Lap(&begin);
  if (callback && !callback(record_, result_.z)) return Stop(SolveStatus::kInterrupted, "interrupted at the guess");
  return IsAnythingLeft();
}

// w a step from w_, along which p is the projected gradient; false where no step reduces the loss
bool Minimizer::Step(int k, const VectorXd& p, VectorXd* w) {
  // direction: free entries only
  const VectorXd free = (p.array() != 0).cast<double>();
  VectorXd direction = lbfgs_ ? QuasiNewton(pairs_, g_, free) : VectorXd(-p);
  if (!(direction.dot(p) < 0)) {
    pairs_.clear();
    direction = -p;
  }

  // step
  if (adam_ || options_.rate > 0) {
    *w = adam_ ? AdamStep(k) : Clamp(w_ + options_.rate * direction);
    if (!adam_) record_.step = options_.rate;
    record_.expected_change = g_.dot(*w - w_);
    return true;
  }
  double value = value_;
  const bool found = newton_ ? GaussNewtonStep(free, w, &value) : Search(direction, FirstStep(direction), w, &value);
  if (found || (!newton_ && pairs_.empty())) return found;
  pairs_.clear();
  direction = -p;
  return Search(direction, FirstStep(direction), w, &value);
}

// to w, where the gradient is taken; false where it or the loss has no value
bool Minimizer::MoveTo(VectorXd w) {
  Clock::time_point begin = Clock::now();
  VectorXd g;
  const double value = Gradient(w, &g);
  record_.seconds_derivative = Lap(&begin);
  if (!std::isfinite(value) || !g.allFinite()) return false;
  Secant pair{w - w_, g - g_};
  if (lbfgs_ && pair.s.dot(pair.y) > kCurvature * pair.s.norm() * pair.y.norm()) {
    pairs_.push_back(std::move(pair));
    if (static_cast<int>(pairs_.size()) > options_.memory) pairs_.pop_front();
  }
  record_.cost = value;
  record_.actual_change = value - value_;
  idle_ = !adam_ && value_ - value <= options_.tolerance * std::abs(value_) ? idle_ + 1 : 0;
  w_ = std::move(w);
  g_ = std::move(g);
  value_ = value;
  record_.gradient_norm = Projected(w_, g_).lpNorm<Eigen::Infinity>();
  if (value_ <= result_.value) Keep(record_.gradient_norm);
  return true;
}

// once the loss has not fallen for a few iterations
bool Minimizer::StopIdle() {
  const std::string idles = fmt::format("the loss has not decreased by more than {:g} of itself for {} iterations",
                                        options_.tolerance, kIdleIterations);
  if (IsSmall(record_.gradient_norm)) return Stop(SolveStatus::kConverged, idles);
  return Stop(SolveStatus::kStalled,
              fmt::format("{}, although the largest gradient is {:.2g}, {:.1g} of the first one: {}", idles,
                          record_.gradient_norm, record_.gradient_norm / first_norm_,
                          options_.rate > 0 ? "the rate is too large" : "as at a kink, where no direction falls far"));
}

// false: it has ended
bool Minimizer::Iterate(int k, const MinimizeCallback& callback) {
  const VectorXd p = Projected(w_, g_);
  const double norm = p.lpNorm<Eigen::Infinity>();
  if (norm <= options_.gradient_tolerance * first_norm_ && value_ > result_.value) {
    return Stop(SolveStatus::kStalled,
                fmt::format("the last step led to {:.6g}, where no direction leads on: the rate is too large", value_));
  }
  if (norm <= options_.gradient_tolerance * first_norm_) {
    return Stop(SolveStatus::kConverged, fmt::format("the largest gradient is {:.2g}, {:.1g} of the first one", norm,
                                                     first_norm_ > 0 ? norm / first_norm_ : 0));
  }
  Clock::time_point begin = Clock::now();
  VectorXd w;
  if (!Step(k, p, &w)) {
    return Stop(SolveStatus::kStalled,
                fmt::format("no step reduces the loss any more; the largest gradient is {:.2g}, {:.1g} of the first "
                            "one",
                            norm, norm / first_norm_));
  }
  record_.seconds_rollout = Lap(&begin);
  if (!MoveTo(std::move(w))) {
    return Stop(SolveStatus::kStalled, fmt::format("at iteration {} the loss or its gradient has no value{}", k,
                                                   options_.rate > 0 || adam_ ? ": the rate is too large" : ""));
  }
  record_.iteration = k;
  if (callback && !callback(record_, ToZ(w_)))
    return Stop(SolveStatus::kInterrupted, fmt::format("interrupted after iteration {}", k));
  return IsAnythingLeft() && (idle_ < kIdleIterations || StopIdle());
}

MinimizeResult Minimizer::Run(const VectorXd& start, const MinimizeCallback& callback) {
  if (!Begin(start, callback)) return std::move(result_);
  for (int k = 1; k <= options_.iterations; k++) {
    if (!Iterate(k, callback)) return std::move(result_);
  }
  Stop(SolveStatus::kIterationLimit,
       fmt::format("its {} iterations were not enough; the largest gradient is {:.2g}, {:.1g} of the first one",
                   options_.iterations, record_.gradient_norm,
                   first_norm_ > 0 ? record_.gradient_norm / first_norm_ : 0));
  return std::move(result_);
}

void CheckOptions(const DescentOptions& o) {
  const OptionCheck need("descent: ");
  need(o.iterations >= 0, "iterations", o.iterations, "0 or more");
  need(o.rate >= 0 && std::isfinite(o.rate), "rate", o.rate, "0 (line search) or more");
  const bool searches = o.method == DescentMethod::kLbfgs || o.method == DescentMethod::kGaussNewton;
  need(o.rate == 0 || !searches, "rate", o.rate, "0 with L-BFGS and Gauss-Newton, which search");
  need(o.memory >= 1, "memory", o.memory, "1 or more");
  need(o.floor >= 0, "floor", o.floor, "0 or more");
  need(o.tolerance >= 0, "tolerance", o.tolerance, "0 or more");
  need(o.gradient_tolerance >= 0, "gradient_tolerance", o.gradient_tolerance, "0 or more");
}

}  // namespace

MinimizeResult Minimize(const SmoothFunction& f, VectorXd z, ConstVectorRef lower, ConstVectorRef upper,
                        ConstVectorRef scale, const DescentOptions& options, const MinimizeCallback& callback,
                        const CurvatureFunction& curvature) {
  CheckOptions(options);
  if (options.method == DescentMethod::kGaussNewton && !curvature)
    throw Error(ErrorCode::kUnsupported,
                "Gauss-Newton steps need the derivatives of what is compared: there are none here");
  return Minimizer(f, lower, upper, scale, options, curvature).Run(z, callback);
}

}  // namespace costate
