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
  bool periodic = false;     ///< controls that repeat in place of splines; spreads are then in BasinHoppingOptions'
                             ///< unit of kicks
  bool servos = false;       ///< with `periodic`: motors become servos, and where they pull their joints to repeats
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

/// Frequencies [Hz] of periodic controls.
struct FrequencyRange {
  double low, high;
};

/// Two periods in the motion or more, eight knots in a period or more, 5 Hz at most; low ≥ high where there is none.
FrequencyRange PeriodicRange(double time, double knot_time);

/// Minimizes problem.cost over U = clamp(guess + S c), S a cubic spline's values by its nodes c, from c = 0 and the
/// problem's start, that of free_start.guess where there is one.
///
/// With `periodic`: u = clamp(guess + e(t) (a + b sin 2πft + c cos 2πft)) with a, b and c of each control and one
/// frequency f for all in PeriodicRange, e = min(1, 2ft): gaits, from standing. With `servos`, too, what repeats is not
/// the control of a motor on a joint but the place that it pulls the joint to, as a servo of moderate stiffness would,
/// about that of the start: legs that no constant control keeps upright. U is what the motors then did.
///
/// Each iteration draws c_i = mean + spread ∘ n_i, rolls all out in parallel, and moves mean and spread to the elites'.
/// Sample i's numbers come from (seed, iteration, i) alone: the same bits at any thread count.
/// @throws Error{kDimensionMismatch}, Error{kInvalidArgument} for an option out of range, also samples beyond 8 GiB and
/// motions too short for `periodic`.
/// Cost: samples × N × substeps steps an iteration. Source: Howell et al. 2022 (predictive sampling), Rubinstein 1999.
SamplingResult SampleControls(const Problem& problem, ConstMatrixRef U, const SamplingOptions& options = {},
                              const SamplingCallback& callback = {});

}  // namespace costate

#endif  // COSTATE_SAMPLING_H_
