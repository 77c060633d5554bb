#include <costate/sampling.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "core/check.h"
#include "optimizer/control_limits.h"
#include "optimizer/control_noise.h"
#include "optimizer/free_start.h"
#include "optimizer/line_search.h"
#include "optimizer/made_servo.h"

namespace costate {
namespace {

constexpr double kMostGib = 8;  // of samples kept at once

// frequencies of (S3)
constexpr double kPeriods = 2;  // in the motion, at least
constexpr double kKnots = 8;    // in a period, at least
constexpr double kFastest = 5;  // [Hz]

void CheckSampling(const Problem& problem, ConstMatrixRef U, const SamplingOptions& o) {
  CheckSize(problem.model, "U (rows)", U.rows(), "nu", static_cast<int>(problem.model->nu));
  CheckSize(problem.model, "U (columns)", U.cols(), "N", problem.N);
  const auto fail = [](const std::string& text) { throw Error(ErrorCode::kInvalidArgument, text); };
  if (o.samples < 2) fail(fmt::format("samples is {}, expected at least 2", o.samples));
  if (o.iterations < 0) fail(fmt::format("iterations is {}, expected at least 0", o.iterations));
  if (o.elites < 1 || o.elites > o.samples)
    fail(fmt::format("elites is {}, expected 1 to {}, the samples", o.elites, o.samples));
  if (!(o.node_time > 0)) fail(fmt::format("node_time is {:g} s, expected above 0", o.node_time));
  if (!(o.exploration > 0)) fail(fmt::format("exploration is {:g}, expected above 0", o.exploration));
  if (o.servos && !o.periodic) fail("servos belong to periodic controls");
  if (!(o.spread_min >= 0)) fail(fmt::format("spread_min is {:g}, expected at least 0", o.spread_min));
}

void CheckPeriodic(double time, double knot_time) {
  const FrequencyRange range = PeriodicRange(time, knot_time);
  if (range.low < range.high) return;
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("periodic controls need a motion of {:g} periods of {:g} knots and {:g} s or more, it has {:g} "
                  "s in knots of {:g} s",
                  kPeriods, kKnots, 1 / kFastest, time, knot_time));
}

// Controls about a guess as functions of numbers c: of each control a spline's nodes, or its part in (S3), whose
// frequency they share.
class Shape {
 public:
  Shape(const Problem& problem, const SamplingOptions& o, const std::vector<MadeServo>& servos, double knot_time)
      : knot_time_(knot_time), N_(problem.N), periodic_(o.periodic) {
    if (periodic_) {
      VectorXd unit = KickUnits(problem);
      for (const MadeServo& servo : servos) unit[servo.control] = servo.reach;
      const FrequencyRange range = PeriodicRange(problem.N * knot_time, knot_time);
      low_ = std::log(range.low);
      high_ = std::log(range.high);
      unit_.resize(3 * unit.size() + 1);
      unit_ << 0.5 * unit, unit, unit, (high_ - low_) / 3 / o.exploration;
      return;
    }
    // no more than there are controls to tell apart
    const double intervals = std::round(problem.N * knot_time / o.node_time);
    const int nodes = std::max(1, static_cast<int>(std::min<double>(intervals + 1, problem.N)));
    S_ = SplineBasis(o.spline.knots > 0 ? o.spline : SplineOptions{nodes, SplineOrder::kCubic}, problem.N);
    unit_ = HalfRanges(problem).replicate(S_.rows(), 1);
  }

  /// What spreads are measured by.
  const VectorXd& unit() const { return unit_; }
  /// In the middle of all.
  VectorXd Middle() const {
    VectorXd c = VectorXd::Zero(unit_.size());
    if (periodic_) c[c.size() - 1] = 0.5 * (low_ + high_);
    return c;
  }

  /// What c adds to the guess (nu × N).
  MatrixXd Controls(const VectorXd& c) const {
    const MatrixXd S = periodic_ ? Harmonic(std::exp(std::clamp(c[c.size() - 1], low_, high_))) : S_;
    return Eigen::Map<const MatrixXd>(c.data(), c.size() / S.rows(), S.rows()) * S;
  }

 private:
  // (S3)
  MatrixXd Harmonic(double frequency) const {
    MatrixXd S(3, N_);
    for (int t = 0; t < N_; t++) {
      const double turns = frequency * t * knot_time_, angle = 2 * std::numbers::pi * turns;
      S.col(t) = std::min(1.0, 2 * turns) * Eigen::Vector3d(1, std::sin(angle), std::cos(angle));
    }
    return S;
  }

  double knot_time_, low_ = 0, high_ = 0;  // logarithms of the least and the largest frequency
  int N_;
  bool periodic_;
  VectorXd unit_;
  MatrixXd S_;
};

}  // namespace

FrequencyRange PeriodicRange(double time, double knot_time) {
  return {kPeriods / time, std::min(kFastest, 1 / (kKnots * knot_time))};
}

SamplingResult SampleControls(const Problem& problem, ConstMatrixRef U, const SamplingOptions& options,
                              const SamplingCallback& callback) {
  CheckSampling(problem, U, options);
  Simulator simulator(problem.model, problem.context, problem.substeps, options.threads);
  const int n = options.samples;
  if (options.periodic) CheckPeriodic(problem.N * simulator.knot_time(), simulator.knot_time());
  const std::vector<MadeServo> servos = options.servos ? MakeServos(problem) : std::vector<MadeServo>();
  const Shape shape(problem, options, servos, simulator.knot_time());
  const double gib = 8.0 * n * static_cast<double>(shape.unit().size()) / (1 << 30);
  if (gib > kMostGib) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("samples is {}: with {} numbers each they take {:.3g} GiB, expected at most {:g}", n,
                            shape.unit().size(), gib, kMostGib));
  }

  const VectorXd floor = options.spread_min * shape.unit();
  VectorXd mean = shape.Middle(), spread = options.exploration * shape.unit();

  std::vector<VectorXd> numbers_of(static_cast<std::size_t>(n), mean);
  std::vector<Trajectory> motions(static_cast<std::size_t>(simulator.threads()));
  const VectorXd x0 = FirstStart(problem);
  VectorXd cost(n);
  const auto play = [&](const VectorXd& c, int worker) {
    Trajectory* motion = &motions[static_cast<std::size_t>(worker)];
    const MatrixXd W = shape.Controls(c);
    return servos.empty() ? simulator.Rollout(x0, WithinLimits(problem, U + W), motion, worker)
                          : simulator.RolloutFeedback(x0, problem.N, ServoLaw(problem, servos, U, W), motion, worker);
  };
  const auto evaluate = [&](int i, int worker) {
    const RolloutStatus status = play(numbers_of[static_cast<std::size_t>(i)], worker);
    cost[i] = RolloutCost(problem, motions[static_cast<std::size_t>(worker)], status, simulator.knot_time());
  };
  const auto controls = [&](const VectorXd& c) {
    play(c, 0);
    return motions[0].U;
  };
  SamplingResult result;
  result.U = WithinLimits(problem, U);
  result.cost = result.initial_cost =
      RolloutCost(problem, motions[0], simulator.Rollout(x0, result.U, &motions[0]), simulator.knot_time());

  std::vector<int> order(static_cast<std::size_t>(n));
  for (int iteration = 0; iteration < options.iterations; iteration++) {
    simulator.ParallelFor(n, [&](int i, int worker) {
      VectorXd& c = numbers_of[static_cast<std::size_t>(i)];
      c = mean;
      SampleStream stream(options.seed, iteration, i);
      for (long k = 0; i > 0 && k < c.size(); k++) c(k) += spread(k) * stream.Normal();  // the mean itself is sample 0
      evaluate(i, worker);
    });

    // the best, equal ones by their number
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return cost[a] < cost[b]; });
    const VectorXd& first = numbers_of[static_cast<std::size_t>(order[0])];
    if (cost[order[0]] < result.cost) {
      result.cost = cost[order[0]];
      result.U = controls(first);
    }
    result.best.push_back(result.cost);
    if (callback && !callback(iteration + 1, result.cost)) break;

    // mean and spread of the elites that could be simulated
    int count = 0;
    while (count < options.elites && std::isfinite(cost[order[static_cast<std::size_t>(count)]])) count++;
    if (count == 0) continue;
    if (options.elites == 1) {
      mean = first;
      continue;
    }
    VectorXd sum = VectorXd::Zero(mean.size()), square = sum;
    for (int k = 0; k < count; k++) sum += numbers_of[static_cast<std::size_t>(order[static_cast<std::size_t>(k)])];
    mean = sum / count;
    for (int k = 0; k < count; k++)
      square += (numbers_of[static_cast<std::size_t>(order[static_cast<std::size_t>(k)])] - mean).cwiseAbs2();
    spread = (square / count).cwiseSqrt().cwiseMax(floor);
  }
  return result;
}

}  // namespace costate
