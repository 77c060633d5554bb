// Rounds back within constraints. README.md, "Back within constraints".
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "core/collision_filter.h"
#include "optimizer/hopping_rounds.h"
#include "optimizer/near_cost.h"
#include "optimizer/solver_checks.h"
#include "optimizer/violation_text.h"

namespace costate {
namespace {

// so many solves side by side, of kicks in terms of size, and of steps' weights
constexpr int kBackWidth = 4, kBackRounds = 16, kPoorSteps = 2, kPoorWays = 4;
constexpr double kBackKicks[kBackWidth] = {0.6, 0.6, 0.2, 0.2}, kStepWeights[kBackWidth] = {100, 10, 1, 0.1};
constexpr double kStepKicks[] = {0.06, 0.06, 0.2};   // of the step, of two ways back from it
constexpr double kBackFall = 0.5, kBackGain = 0.01;  // of violation, of cost: a round that leads on
constexpr double kNearer = 3, kSofter = 0.3;         // behind one that finds nothing better
constexpr double kMuchCheaper = 0.5;
constexpr int kBackSolves = 6, kBackMost = 200;  // iterations: times those of a solve, at most of so long a one
constexpr int kBackStream = 1 << 16;             // of random numbers: none of the other rounds'

}  // namespace

bool BasinHopping::IsMissed() const { return out_.result.violation > constrained_.tolerance; }

bool BasinHopping::IsMuchCheaper(const SolveResult& result) const {
  return result.status != SolveStatus::kDiverged &&
         out_.result.cost - result.cost > kMuchCheaper * std::abs(out_.result.cost);
}

// of motions of kicked rounds that cost much less than the best, but miss constraints: the few that miss them least
void BasinHopping::LookForCheaper(const std::vector<SolveResult>& results) {
  for (const SolveResult& result : results) {
    if (result.violation > constrained_.tolerance && IsMuchCheaper(result)) cheaper_.push_back(result);
  }
  std::stable_sort(cheaper_.begin(), cheaper_.end(),
                   [](const SolveResult& a, const SolveResult& b) { return a.violation < b.violation; });
  if (cheaper_.size() > kBackWidth) cheaper_.resize(kBackWidth);
}

// Where contacts keep the best motion from its constraints, or from going on to a much cheaper one within them; whether
// that has led to a better one.
bool BasinHopping::MayGoBack() {
  if (!hopping_.back || hopping_.rounds == 0 || interrupted_ || out_.result.status == SolveStatus::kDiverged)
    return false;
  if (!FitSideBySide(problem_.model, problem_.N) || !CanHaveContacts(problem_.model)) return false;
  std::erase_if(cheaper_, [&](const SolveResult& result) { return !IsMuchCheaper(result); });
  const bool missed = IsMissed();
  if (!missed && cheaper_.empty()) return false;
  const SolveResult before = out_.result;
  const int until = static_cast<int>(iterations_.size()) + kBackSolves * std::min(options_.iterations, kBackMost);
  int rounds = 0;
  if (!cheaper_.empty()) {
    out_.result = cheaper_.front();
    out_.result.initial_cost = before.initial_cost;
    out_.result.guess_scale = before.guess_scale;
    rounds = GoBack(cheaper_, before, 0, until);
  }
  if (missed && IsMissed()) {
    SolveResult led = std::exchange(out_.result, before);
    rounds = GoBack({before}, before, rounds, until);
    if (MeritOf(led) < MeritOf(out_.result)) out_.result = std::move(led);
  }
  if (!(MeritOf(out_.result) < MeritOf(before))) {
    out_.result = before;
    out_.result.message +=
        fmt::format("; {} round{} back within the constraints led to none better", rounds, rounds == 1 ? "" : "s");
    return false;
  }
  SayBack(before, rounds);
  return true;
}

// Rounds of solves for a motion that keeps the constraints, near one of several or the best since, then of steps to
// cheaper ones near that; how many with those `done`.
int BasinHopping::GoBack(const std::vector<SolveResult>& starts, const SolveResult& before, int done, int until) {
  const VectorXd unit = KickUnits(problem_);
  double size = 1, weight = 1;
  int poor = 0, round = done;
  while (round < kBackRounds) {
    const int iterations = static_cast<int>(iterations_.size()), left = until - iterations;
    if (left <= 0 || interrupted_ || poor == (IsMissed() ? kPoorWays : kPoorSteps)) break;
    const bool begins = round++ == done;
    const SolveResult from = out_.result;
    const bool kept = !IsMissed();
    const auto solve = [&](int i, int threads, const IterationCallback& meet) {
      IlqrOptions options = options_;
      options.threads = threads;
      options.iterations = left;
      const bool own = begins && i < std::ssize(starts);
      NearSolve near{
          .from = own ? &starts[static_cast<std::size_t>(i)] : &from, .unit = unit, .weight = weight * kStepWeights[i]};
      for (std::size_t k = 0; k < (kept ? std::size(kStepKicks) : 1); ++k) {
        SampleStream stream(hopping_.seed, kBackStream + round, kBackWidth * static_cast<int>(k) + i);
        const bool still = own || (i == 0 && k == 0 && !begins);  // one goes on from where the best solve ended
        const double part = still ? 0 : kept ? kStepKicks[k] : size * kBackKicks[i];
        near.kicks.push_back(hopping_.size * part *
                             (unit.asDiagonal() * Kick(unit.size(), problem_.N, i % 2 == 0, &stream)));
      }
      return SolveNear(problem_, near, options, constrained_, meet);
    };
    std::vector<SolveResult> results = SideBySide(kBackWidth, solve);
    BasinHoppingRound told{.number = rounds_ + 1 + round,
                           .iterations = static_cast<int>(iterations_.size()) - iterations,
                           .origin = RoundOrigin::kBack};
    const bool taken = Take(&results[Best(results)], &told);
    told.better = taken && MeritOf(told.violation, told.cost) < MeritOf(before.violation, before.cost);
    Tell(told);
    if (kept) {
      poor = from.cost - out_.result.cost > kBackGain * std::abs(from.cost) ? 0 : poor + 1;
      if (!taken) weight *= kNearer;
    } else {
      poor = !IsMissed() || out_.result.violation < kBackFall * from.violation ? 0 : poor + 1;
      if (poor > 0) size *= kSofter;
    }
  }
  return round;
}

// the end of solves of other costs says nothing of this one's
void BasinHopping::SayBack(const SolveResult& before, int rounds) {
  SolveResult& result = out_.result;
  const bool kept = !IsMissed(), was_kept = before.violation <= constrained_.tolerance;
  result.status = kept ? SolveStatus::kStalled : SolveStatus::kInfeasible;
  result.message = fmt::format(
      "{} after {} iterations at cost {:.8g}, {}; by {} round{} back within the constraints, {} at cost {:.8g} before "
      "them",
      interrupted_ ? "interrupted"
      : kept       ? "stalled"
                   : "infeasible: no motion found that keeps the constraints; that of least violation",
      iterations_.size(), result.cost, ViolationText(result, constrained_.tolerance), rounds, rounds == 1 ? "" : "s",
      was_kept ? "kept" : fmt::format("missed by {:.3g}", before.violation), before.cost);
  result.message += DerivativeEveryText(options_.derivative_every);
}

}  // namespace costate
