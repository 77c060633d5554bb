// A start without derivatives: controls sampled about a guess as splines, for tasks whose slopes say nothing at the
// guess.
#ifndef COSTATE_SAMPLING_H_
#define COSTATE_SAMPLING_H_

#include <cstdint>
#include <functional>
#include <vector>

#include <costate/solver.h>
#include <costate/spline.h>

namespace costate {

struct SamplingOptions {
  int samples = 64;     ///< rollouts an iteration, the mean itself among them
  int iterations = 20;  ///< 0: none, the guess is taken as it is
  int elites = 8;  ///< mean and spread of the next iteration are those of so many best (cross-entropy); 1: the best
                   ///< one is the next mean and the spread stays (predictive sampling)
  double node_time = 0.1;    ///< [s] between the spline's nodes, cubic in between
  SplineOptions spline{};    ///< with knots: the spline in place of node_time's
  double exploration = 0.3;  ///< standard deviation at first, in half control ranges (1 without a range)
  double spread_min = 0.02;  ///< … and at least, later
  std::uint64_t seed = 1;
  int threads = 0;  ///< 0: all cores
};

/// Called from the caller's thread after each iteration with the lowest cost so far; false ends the search there.
using SamplingCallback = std::function<bool(int iteration, double cost)>;

struct SamplingResult {
  MatrixXd U;                ///< nu × N: the best that was seen, the guess included
  double cost = 0;           ///< infinite when no rollout could be simulated
  double initial_cost = 0;   ///< of the guess
  std::vector<double> best;  ///< cost after each iteration, never rising
};

/// Minimizes problem.cost over U = clamp(guess + S c), S a cubic spline's values by its nodes c, from c = 0.
///
/// Each iteration draws c_i = mean + spread ∘ n_i, rolls all out in parallel, and moves mean and spread to the elites'.
/// Sample i's numbers come from (seed, iteration, i) alone: the same bits at any thread count.
/// @throws Error{kDimensionMismatch}, Error{kInvalidArgument} for an option out of range, also samples beyond 8 GiB.
/// Cost: samples × N × substeps steps an iteration. Source: Howell et al. 2022 (predictive sampling), Rubinstein 1999.
SamplingResult SampleControls(const Problem& problem, ConstMatrixRef U, const SamplingOptions& options = {},
                              const SamplingCallback& callback = {});

}  // namespace costate

#endif  // COSTATE_SAMPLING_H_
