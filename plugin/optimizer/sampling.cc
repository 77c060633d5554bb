#include <costate/sampling.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/check.h"
#include "optimizer/control_noise.h"
#include "optimizer/line_search.h"

namespace costate {
namespace {

constexpr double kMostGib = 8;  // of samples kept at once

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
  if (!(o.spread_min >= 0)) fail(fmt::format("spread_min is {:g}, expected at least 0", o.spread_min));
}

}  // namespace

SamplingResult SampleControls(const Problem& problem, ConstMatrixRef U, const SamplingOptions& options,
                              const SamplingCallback& callback) {
  CheckSampling(problem, U, options);
  Simulator simulator(problem.model, problem.context, problem.substeps, options.threads);
  const int nu = static_cast<int>(problem.model->nu), n = options.samples;
  // no more than there are controls to tell apart
  const double intervals = std::round(problem.N * simulator.knot_time() / options.node_time);
  const int nodes = std::max(1, static_cast<int>(std::min<double>(intervals + 1, problem.N)));
  const MatrixXd S =
      SplineBasis(options.spline.knots > 0 ? options.spline : SplineOptions{nodes, SplineOrder::kCubic}, problem.N);
  const double gib = 8.0 * n * nu * static_cast<double>(S.rows()) / (1 << 30);
  if (gib > kMostGib) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("samples is {}: with {} nodes of {} controls each they take {:.3g} GiB, expected at most {:g}", n,
                    S.rows(), nu, gib, kMostGib));
  }
  const auto controls = [&](const MatrixXd& c) {
    MatrixXd V = U + c * S;
    for (int t = 0; t < V.cols(); t++) V.col(t) = V.col(t).cwiseMax(problem.u_lower).cwiseMin(problem.u_upper);
    return V;
  };

  const VectorXd unit = HalfRanges(problem);
  const MatrixXd floor = options.spread_min * unit.replicate(1, S.rows());
  MatrixXd mean = MatrixXd::Zero(nu, S.rows()), spread = options.exploration * unit.replicate(1, S.rows());

  std::vector<MatrixXd> nodes_of(static_cast<std::size_t>(n), mean);
  std::vector<Trajectory> motions(static_cast<std::size_t>(simulator.threads()));
  VectorXd cost(n);
  const auto evaluate = [&](int i, int worker) {
    Trajectory& motion = motions[static_cast<std::size_t>(worker)];
    const RolloutStatus status =
        simulator.Rollout(problem.x0, controls(nodes_of[static_cast<std::size_t>(i)]), &motion, worker);
    cost[i] = RolloutCost(problem, motion, status, simulator.knot_time());
  };
  evaluate(0, 0);
  SamplingResult result{controls(mean), cost[0], cost[0], {}};

  std::vector<int> order(static_cast<std::size_t>(n));
  for (int iteration = 0; iteration < options.iterations; iteration++) {
    simulator.ParallelFor(n, [&](int i, int worker) {
      MatrixXd& c = nodes_of[static_cast<std::size_t>(i)];
      c = mean;
      SampleStream stream(options.seed, iteration, i);
      for (long k = 0; i > 0 && k < c.size(); k++) c(k) += spread(k) * stream.Normal();  // the mean itself is sample 0
      evaluate(i, worker);
    });

    // the best, equal ones by their number
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return cost[a] < cost[b]; });
    const MatrixXd& first = nodes_of[static_cast<std::size_t>(order[0])];
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
    MatrixXd sum = MatrixXd::Zero(nu, S.rows()), square = sum;
    for (int k = 0; k < count; k++) sum += nodes_of[static_cast<std::size_t>(order[static_cast<std::size_t>(k)])];
    mean = sum / count;
    for (int k = 0; k < count; k++)
      square += (nodes_of[static_cast<std::size_t>(order[static_cast<std::size_t>(k)])] - mean).cwiseAbs2();
    spread = (square / count).cwiseSqrt().cwiseMax(floor);
  }
  return result;
}

}  // namespace costate
