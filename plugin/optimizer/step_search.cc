#include "optimizer/step_search.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "core/lap.h"
#include "optimizer/take_knot.h"

namespace costate {
namespace {

// a shorter step than this sends the search to other regularizations, larger and smaller, each at a few alphas; factors
// and threshold were chosen on 25 motions, the tasks of models/ and tests/benchmark/mjpc among them
constexpr double kShortStep = 1.0 / 16;
constexpr double kCutShort = 1.0 / 4;  // and one as short as this to bounds that the whole step passes
constexpr double kSweep[] = {100, 10, 0.1, 0.01, 0};
constexpr int kSweepSteps = 4;

// so much more a shorter step has to gain: short steps of a bold policy gain at once and lead into narrow valleys
constexpr double kShorterGain = 1.5;

// a whole step that gains so many times what was promised is lengthened: the model is too stiff
constexpr double kGenerous = 1.5;
constexpr int kMostDoublings = 3;

}  // namespace

StepSearch::StepSearch(const Problem& problem, Simulator* simulator, const IlqrOptions& options)
    : simulator_(simulator),
      options_(options),
      line_search_(problem, simulator, options.line_search_ratio),
      sweepers_(simulator->threads()) {}

void StepSearch::Reserve(const Trajectory& motion, const Policy& policy) {
  if (next_.N() == motion.N()) return;
  next_ = candidate_ = motion;
  policy_ = taken_ = policy;
  line_search_.Reserve(motion);
}

AcceptedStep StepSearch::Try(const StepOrigin& from, double mu, int steps, RiccatiResult* riccati,
                             IterationRecord* record) {
  Clock::time_point start = Clock::now();
  TakePolicy(riccati, &policy_);
  const ExpectedChange expected = Expected(*riccati);
  const AcceptedStep step = {mu, expected,
                             line_search_.Run(from.motion, from.cost, policy_, expected, steps, &candidate_)};
  const bool shorter = step.found.alpha < step_.found.alpha;
  const double least = shorter ? kShorterGain * (from.cost - step_.found.cost) : 0;
  if (step.IsBetterThan(step_) && from.cost - step.found.cost > least) {
    step_ = step;
    std::swap(next_, candidate_);
    std::swap(taken_, policy_);
  }
  record->seconds_rollout += Lap(&start);
  return step;
}

// (C3a)
void StepSearch::TryWithin(const StepOrigin& from, double mu, BoundsAhead* bounds, RiccatiResult* riccati,
                           IterationRecord* record) {
  Clock::time_point start = Clock::now();
  const bool passes = bounds->Solve(from.lq, mu * unit_, riccati);
  record->seconds_backward += Lap(&start);
  if (passes) Try(from, mu, options_.line_search_steps, riccati, record);
}

void StepSearch::Find(const StepOrigin& from, double mu, BoundsAhead* bounds, RiccatiResult* riccati,
                      IterationRecord* record) {
  Try(from, mu, options_.line_search_steps, riccati, record);
  const double gain = from.cost - step_.found.cost;
  if (options_.long_steps && step_.found.alpha == 1 && gain > -kGenerous * step_.expected.At(1)) {
    Clock::time_point start = Clock::now();
    step_.found = line_search_.Follow(from.motion, taken_, kMostDoublings, step_.found, &next_);
    record->seconds_rollout += Lap(&start);
  }
  if (bounds && step_.found.alpha <= kCutShort && !line_search_.IsLate()) TryWithin(from, mu, bounds, riccati, record);
  if (step_.found.alpha >= kShortStep || !options_.regularization_sweep || line_search_.IsLate()) return;
  Sweep(from, std::max(mu, options_.regularization_min), record);
}

void StepSearch::Shorten(const StepOrigin& from, IterationRecord* record) {
  const double gain = from.cost - step_.found.cost, promise = -step_.expected.At(step_.found.alpha / 2);
  if (step_.found.alpha == 0 || gain >= promise) return;
  Clock::time_point start = Clock::now();
  step_.found = line_search_.Follow(from.motion, taken_, -options_.line_search_steps, step_.found, &next_);
  record->seconds_rollout += Lap(&start);
}

// the best step of several regularizations about mu, side by side, none beyond the largest; of equals the first
void StepSearch::Sweep(const StepOrigin& from, double mu, IterationRecord* record) {
  for (Sweeper& s : sweepers_) {
    s.step = {};
    s.seconds_backward = s.seconds_rollout = 0;
  }
  Clock::time_point start = Clock::now();
  const auto job = [&](int i, int worker) {
    const double other = std::min(kSweep[i] * mu, options_.regularization_max);
    if (other != mu) SweepOn(from, i, other, worker);
  };
  simulator_->ParallelFor(static_cast<int>(std::size(kSweep)), std::ref(job));
  const double seconds = Lap(&start);

  Sweeper* best = nullptr;
  double backward = 0, all = 0;
  for (Sweeper& s : sweepers_) {
    backward += s.seconds_backward;
    all += s.seconds_backward + s.seconds_rollout;
    if (s.step.found.alpha == 0) continue;
    const bool tie = best && s.step.found.cost == best->step.found.cost && s.index < best->index;
    if (!best || tie || s.step.IsBetterThan(best->step)) best = &s;
  }
  if (best && best->step.IsBetterThan(step_)) {
    step_ = best->step;
    std::swap(next_, best->trajectory);
    std::swap(taken_, best->taken);
  }
  const double share = all > 0 ? backward / all : 0;
  record->seconds_backward += seconds * share;
  record->seconds_rollout += seconds * (1 - share);
}

void StepSearch::SweepOn(const StepOrigin& from, int index, double mu, int worker) {
  Sweeper& s = sweepers_[worker];
  if (s.policy.K.empty()) {
    s.trajectory = s.candidate = from.motion;
    s.policy = s.taken = policy_;
  }
  Clock::time_point start = Clock::now();
  SolveRiccati(from.lq, {.regularization = mu * unit_, .values = false}, &s.riccati);
  s.seconds_backward += Lap(&start);
  if (!s.riccati.ok) return;
  TakePolicy(&s.riccati, &s.policy);
  const ExpectedChange expected = Expected(s.riccati);
  const AcceptedStep step = {
      mu, expected, line_search_.RunOn(worker, from.motion, from.cost, s.policy, expected, kSweepSteps, &s.candidate)};
  if (step.IsBetterThan(s.step)) {
    s.step = step;
    s.index = index;
    std::swap(s.trajectory, s.candidate);
    std::swap(s.taken, s.policy);
  }
  s.seconds_rollout += Lap(&start);
}

}  // namespace costate
