// Beyond the nearest minimum. README.md, "Basin hopping".
#include "optimizer/basin_hopping.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <iterator>
#include <limits>
#include <numeric>
#include <system_error>
#include <thread>
#include <utility>

#include "core/collision_filter.h"
#include "optimizer/free_start.h"
#include "optimizer/go_on.h"
#include "optimizer/hopping_rounds.h"
#include "optimizer/made_servo.h"
#include "optimizer/solver_checks.h"
#include "optimizer/untouched.h"

namespace costate {
namespace {

// what solves side by side differ in: regularization at first, of the next ones less
constexpr double kFirstRegularization = 0.3, kNextRegularization = 0.1;

// what races the plain solve about contacts: its regularization times factor, by one rule; of all solves the best goes
// on
struct Racer {
  double factor;
  RegularizationRule rule;
};
constexpr Racer kRacers[] = {{0.3, RegularizationRule::kPromise},
                             {0.03, RegularizationRule::kPromise},
                             {0.3, RegularizationRule::kStep},
                             {0.03, RegularizationRule::kStep}};
static_assert(1 + std::size(kRacers) == kRaced);

// behind a stall, as long as hardly anything is gained, or by the last round so much of the cost: so many times the
// rounds, the latter within so many times the iterations
constexpr int kMoreRounds = 3, kMoreIterations = 2;
constexpr double kMuch = 0.01;
constexpr double kRounded = 1e-6;  // of the cost: no gain

// behind half of its iterations, and as long as so many kicked solves fit in those left, the plain solve crawls where at
// the pace of the latter half all that are left would take no more than this off the cost; but where the last of them
// went at less than so much of that pace: it ends soon
constexpr double kCrawls = 0.1, kSteady = 0.5;
constexpr int kWorthStopping = 3;

// in half control ranges: controls that stay, but for what holds a body that settles; what feedback holds by motors
constexpr double kConstant = 0.01, kHeld = 0.3;

// kicked solves that are given up: behind so many iterations at so many times the best cost
constexpr struct {
  int iterations;
  double cost;
} kHopeless[] = {{5, 10}, {10, 2}};

constexpr double kBehindLimits = 0.1;  // of the cost: what limits of force take, so that it is worth a solve, or rounds

constexpr double kEnds = 0.01;  // relative decrease of the cost at which a solve ends whose motion is there

constexpr double kNothingLeft = 1e-4;  // of what the guess costs: what no round needs to lead further, touch what may

constexpr int kSteps = 6;  // of a line search on the way: a kick leads further than the smallest steps at a kink

}  // namespace

const char* ToString(RoundOrigin origin) {
  switch (origin) {
    case RoundOrigin::kGuess: return "the guess";
    case RoundOrigin::kKicked: return "kicked controls";
    case RoundOrigin::kSampled: return "sampled controls";
    case RoundOrigin::kPeriodic: return "periodic controls";
    case RoundOrigin::kServos: return "periodic places of servos";
    case RoundOrigin::kPlain: return "the plain solve";
    case RoundOrigin::kTouching: return "led to contact";
    case RoundOrigin::kDetour: return "led round what is in the way";
    case RoundOrigin::kMirrored: return "mirrored controls";
    case RoundOrigin::kFreed: return "controls of a solve without contacts";
    case RoundOrigin::kUnlimited: return "controls of a solve without limits of force";
    case RoundOrigin::kLeaning: return "a control that leans to one side";
    case RoundOrigin::kSmoothed: return "controls of smoother contacts";
    case RoundOrigin::kShooting: return "multiple shooting";
    case RoundOrigin::kBack: return "back within the constraints";
  }
  return "unknown";
}

bool FitSideBySide(const mjModel* model, int N) {
  constexpr double kMostBytes = 128 << 20;
  const Dims dims(model);
  const double side = dims.ndx + dims.nu, bytes = 8.0 * N * side * side * kRaced;
  return bytes <= kMostBytes;
}

// how the i-th solve of a round is made; as the user says the last round, and the first where others follow a stall
IlqrOptions BasinHopping::OptionsOf(int round, int i) const {
  IlqrOptions options = options_;
  if (round == 0 && hopping_.after_solve && !IsConstrained()) options.stall_tolerance = hopping_.tolerance;
  if (round == 0 && hopping_.after_solve && i > 0) {
    options.regularization_init *= kRacers[i - 1].factor;
    options.regularization_rule = kRacers[i - 1].rule;
  }
  if (round > rounds_ || (round == 0 && hopping_.after_solve)) return options;
  const bool further = round == 0 && i == hopping_.width;
  options.regularization_init *= kFirstRegularization * std::pow(kNextRegularization, further ? 1 : i);
  options.regularization_sweep = options.leave_saddles = false;  // a kick leaves a saddle, too
  options.line_search_steps = std::min(options.line_search_steps, kSteps);
  const bool by_step = further || (round > 0 && (round + i) % 2 == 0);
  options.regularization_rule = by_step ? RegularizationRule::kStep : RegularizationRule::kPromise;
  return options;
}

// the leader's side: one record for all, and the callback's word for all
void BasinHopping::Follow(Lockstep* lockstep) {
  std::vector<IterationRecord> records;
  while (lockstep->Await(&records)) {
    const IterationRecord* best = nullptr;
    for (const IterationRecord& record : records) {
      if (record.iteration == 0) continue;
      if (!best || IsAhead(record, *best)) best = &record;
    }
    IterationRecord told = best->beside ? Beside(best->beside) : *best;
    told.iteration = static_cast<int>(iterations_.size()) + 1;
    iterations_.push_back(told);
    try {
      interrupted_ = interrupted_ || (callback_ && !callback_(iterations_.back()));
    } catch (...) {  // the solves wait for the word to go on: they end first
      thrown_ = std::current_exception();
      interrupted_ = true;
    }
    std::vector<char> go(records.size(), !interrupted_);
    if (halfway_ > 0 && static_cast<int>(iterations_.size()) == halfway_) DropSlower(records, &go);
    crawls_ = plainly_ && Crawls();
    if (crawls_) go.assign(go.size(), false);
    DropHopeless(records, &go);
    lockstep->Go(std::move(go));
  }
}

// of two solves' iterations; what costs other than the problem says nothing beside what does
bool BasinHopping::IsAhead(const IterationRecord& a, const IterationRecord& b) const {
  if (!a.beside != !b.beside) return !a.beside;
  return MeritOf(a.violation, a.cost) < MeritOf(b.violation, b.cost);
}

// ends the worse half of a race
void BasinHopping::DropSlower(const std::vector<IterationRecord>& records, std::vector<char>* go) const {
  std::vector<std::size_t> order(records.size());
  std::iota(order.begin(), order.end(), 0);
  const auto rank = [&](std::size_t i) {
    return records[i].iteration == 0 ? kNoMerit : MeritOf(records[i].violation, records[i].cost);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
  for (std::size_t i = (order.size() + 1) / 2; i < order.size(); ++i) (*go)[order[i]] = false;
}

// A solve that crawls still has its way to go, along which others may be ahead.
bool BasinHopping::Crawls() const {
  const int done = static_cast<int>(iterations_.size()), left = Left();
  if (left > done || left < kWorthStopping * hopping_.iterations) return false;
  const auto pace = [&](int window) {  // of the cost, an iteration
    const double now = iterations_.back().cost, then = iterations_[static_cast<std::size_t>(done - 1 - window)].cost;
    return (then - now) / (window * std::abs(now));
  };
  const double mean = pace(done / 2);
  return mean * left <= kCrawls && pace(done / 8) >= kSteady * mean;
}

bool BasinHopping::IsHopeless(const IterationRecord& record) const {
  return std::ranges::any_of(kHopeless, [&](const auto& bound) {
    return record.iteration >= bound.iterations && record.cost > bound.cost * std::abs(out_.result.cost);
  });
}

// ends what kicks have led far above the best motion
void BasinHopping::DropHopeless(const std::vector<IterationRecord>& records, std::vector<char>* go) const {
  if (IsConstrained()) return;
  for (std::size_t i = 0; i < kicked_; ++i) {
    if (IsHopeless(records[i])) (*go)[i] = false;
  }
}

std::size_t BasinHopping::Best(const std::vector<SolveResult>& results) const {
  const auto best =
      std::min_element(results.begin(), results.end(),
                       [this](const SolveResult& a, const SolveResult& b) { return MeritOf(a) < MeritOf(b); });
  return static_cast<std::size_t>(best - results.begin());
}

// the best of the round where it is the best of all; the last one where it is no worse
bool BasinHopping::Take(SolveResult* best, BasinHoppingRound* round) {
  round->cost = best->cost;
  round->violation = best->status == SolveStatus::kDiverged ? kInf : best->violation;
  const bool first = round->number == 0, last = round->last;
  if (!first && (last ? MeritOf(out_.result) < MeritOf(*best) : MeritOf(out_.result) <= MeritOf(*best))) {
    if (last && best->status == SolveStatus::kInfeasible) SayInfeasible();
    return false;
  }
  if (!first) {
    best->initial_cost = out_.result.initial_cost;
    best->guess_scale = out_.result.guess_scale;
  }
  out_.result = std::move(*best);
  return true;
}

// the last solve found no motion that keeps the constraints: nor has the best of the rounds, or it would be taken
void BasinHopping::SayInfeasible() {
  SolveResult& best = out_.result;
  if (best.violation <= constrained_.tolerance || best.status == SolveStatus::kInfeasible) return;
  best.status = SolveStatus::kInfeasible;
  best.message = "infeasible: no motion found that keeps the constraints; that of least violation " + best.message;
}

// solvers an iteration at a time, each of a number of threads
std::vector<SolveResult> BasinHopping::SideBySide(int width, const SideSolver& solver) {
  const int threads =
      options_.threads > 0 ? options_.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<SolveResult> results(static_cast<std::size_t>(width));
  std::vector<std::exception_ptr> failures(results.size());
  Lockstep lockstep(width, threads);
  const auto solve = [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    lockstep.Enter();
    try {
      results[at] = solver(i, std::max(1, threads / width),
                           [&](const IterationRecord& record) { return lockstep.Meet(i, record); });
    } catch (...) {
      failures[at] = std::current_exception();
    }
    lockstep.Leave();
  };
  {
    std::vector<std::jthread> solvers;
    for (int i = 0; i < width; ++i) {
      try {
        solvers.emplace_back(solve, i);
      } catch (const std::system_error&) {  // no more threads: the others are not to wait for this one
        failures[static_cast<std::size_t>(i)] = std::current_exception();
        lockstep.Enter();
        lockstep.Leave();
      }
    }
    Follow(&lockstep);
  }
  if (thrown_) std::rethrow_exception(thrown_);
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  interrupted_ = interrupted_ || (options_.stop && options_.stop());
  return results;
}

void BasinHopping::Round(const std::vector<Beginning>& beginnings, int iterations, double tolerance, int round) {
  // from the best motion's controls, hence from its start
  Problem problem = problem_;
  const bool follows = out_.result.trajectory.N() > 0;
  if (follows && HasFreeStart(problem))
    problem.free_start.guess = round > 0 ? VectorXd(out_.result.trajectory.X.col(0)) : out_.result.state.x0;

  const int most = std::min(iterations, Left()), longest = std::max(most, Left() - hopping_.iterations);
  const auto solve = [&](int i, int threads, const IterationCallback& meet) {
    const auto& [guess, origin, touch, detour] = beginnings[static_cast<std::size_t>(i)];
    const bool plain = origin == RoundOrigin::kPlain,
               leads = origin == RoundOrigin::kTouching || origin == RoundOrigin::kDetour,
               shoots = origin == RoundOrigin::kShooting, freed = origin == RoundOrigin::kFreed,
               repeats = origin == RoundOrigin::kPeriodic || origin == RoundOrigin::kServos ||
                         origin == RoundOrigin::kLeaning || origin == RoundOrigin::kSmoothed;
    IlqrOptions options = plain || freed ? OptionsOf(0, 0)
                          : shoots || origin == RoundOrigin::kSampled || origin == RoundOrigin::kUnlimited ? options_
                          : repeats ? OptionsOf(round, 0)
                          : leads   ? OptionsOf(round, i % 2)
                                    : OptionsOf(round, i);
    if (leads) {
      options.regularization_sweep = options_.regularization_sweep;
      options.line_search_steps = options_.line_search_steps;
    }
    if (shoots) {
      options.type = SolverType::kFddp;
      options.stall_tolerance = hopping_.tolerance;
    }
    options.threads = threads;
    options.iterations = shoots ? options_.iterations : plain || leads || freed ? longest : most;
    options.tolerance = plain || shoots ? options_.tolerance : tolerance;
    ConstrainedOptions constrained = constrained_;
    // those of a motion that no step betters have grown without bound
    const bool astray = out_.result.status == SolveStatus::kInfeasible;
    if (!out_.result.multipliers.empty() && !astray && !freed) constrained.multipliers = out_.result.multipliers;
    if (origin == RoundOrigin::kTouching)
      return SolveTouching(problem, touch, out_.result.trajectory, options, constrained, meet);
    if (origin == RoundOrigin::kDetour) return SolveAround(problem, detour, options, constrained, meet);
    return Solve(problem, guess, options, meet, constrained);
  };

  const int before = static_cast<int>(iterations_.size());
  kicked_ = static_cast<std::size_t>(
      std::ranges::count(beginnings, RoundOrigin::kKicked, [](const Beginning& b) { return b.origin; }));
  std::vector<SolveResult> results = SideBySide(static_cast<int>(beginnings.size()), solve);
  const std::size_t best = Best(results);
  const RoundOrigin origin = beginnings[best].origin;
  // as many as of a solve of its own: the rounds of kicks are none the shorter
  if (std::ranges::any_of(beginnings, [](const Beginning& b) { return b.origin == RoundOrigin::kShooting; }))
    further_ += std::max(0, static_cast<int>(iterations_.size()) - before - most);
  BasinHoppingRound done{.number = round,
                         .iterations = static_cast<int>(iterations_.size()) - before,
                         .last = round > rounds_,
                         .origin = origin};
  if (round > 0 && !done.last) LookForCheaper(results);
  if (halfway_ > 0 && best > 0 && results[0].status != SolveStatus::kDiverged) plain_ = std::move(results[0].state);
  const double cost = out_.result.cost;
  done.better = Take(&results[best], &done);
  gained_ = done.better ? cost - out_.result.cost : 0;
  if (done.better) shot_ = origin == RoundOrigin::kShooting;
  if (round > 0 || !hopping_.after_solve) return Tell(done);
  first_ = done;
}

// the last round leads on by much, and all have not taken twice as long yet
bool BasinHopping::LeadsOn() const {
  return gained_ > kMuch * std::abs(out_.result.cost) && static_cast<int>(iterations_.size()) < enough_;
}

// behind all rounds of kicks: nothing is found yet, or the last one, or of those that follow then any, has led on
bool BasinHopping::IsWorthAnother() const {
  if (!hopping_.after_solve || IsConstrained()) return false;
  return LeadsOn() || HasHardlyGained(out_.result) ||
         (rounds_ > hopping_.rounds && gained_ > kRounded * std::abs(out_.result.cost));
}

void BasinHopping::Tell(const BasinHoppingRound& done) {
  out_.rounds.push_back(done);
  if (round_callback_) round_callback_(done);
}

// to its end, or to where it crawls
void BasinHopping::SolveOnce(const Guess& guess) {
  plainly_ = !IsConstrained() && options_.type == SolverType::kIlqr;
  const bool briefly = MayBeThere() && options_.tolerance < kEnds;
  Round({{guess}}, options_.iterations, briefly ? kEnds : options_.tolerance, 0);
  if (briefly && (out_.result.status == SolveStatus::kConverged || out_.result.status == SolveStatus::kStalled)) {
    if (IsThere()) SayThere();
    else if (Left() > 0 && !interrupted_) GoOn();
  }
  plainly_ = false;
  if (!crawls_ || interrupted_) return;
  out_.result.status = SolveStatus::kStalled;
  out_.result.message = fmt::format(
      "stalled after {} iterations: at their pace the {} left would take less than {:g} of itself off the "
      "cost {:.6g}",
      iterations_.size(), Left(), kCrawls, out_.result.cost);
}

// from where the solve is, to its end
void BasinHopping::GoOn() {
  SolveResult led = out_.result;
  Round({{{{}, led.state.U, &led.state}}}, options_.iterations, options_.tolerance, 0);
  KeepBetter(std::move(led));
}

// what led until another solve went on from its last iterate: the better of both
void BasinHopping::KeepBetter(SolveResult led) {
  const SolveResult& then = out_.result;
  const double initial_cost = led.initial_cost, guess_scale = led.guess_scale;
  if (MeritOf(led.violation, led.cost) < MeritOf(then.violation, then.cost)) {
    const bool kept = led.violation <= constrained_.tolerance;
    const bool ended = then.status == SolveStatus::kConverged || (kept && then.status == SolveStatus::kInfeasible);
    led.status = ended ? SolveStatus::kStalled : then.status;
    led.message = then.message + "; the motion before it is the better one";
    led.state = then.state;
    out_.result = std::move(led);
  }
  out_.result.initial_cost = initial_cost;
  out_.result.guess_scale = guess_scale;
}

bool BasinHopping::MayBeThere() const {
  return hopping_.enough > 0 && hopping_.after_solve && !IsConstrained() && !HasFreeStart(problem_);
}

// does a motion's end cost next to nothing, and all of it little, of what staying at the start would?
bool BasinHopping::IsThere(const Trajectory& motion) const {
  const int N = motion.N();
  if (!MayBeThere() || N == 0) return false;
  const double dt = problem_.knot_time();
  const KnotView first = ViewKnot(motion, 0, dt), last = ViewKnot(motion, N, dt);
  double stays = 0;
  for (int t = 0; t <= N; ++t) {
    stays += problem_.cost->Value({.t = t,
                                   .N = N,
                                   .time = ViewKnot(motion, t, dt).time,
                                   .dt = dt,
                                   .x = first.x,
                                   .u = t < N ? first.u : last.u,
                                   .s = first.s,
                                   .start = first.start});
  }
  return problem_.cost->Value(last) <= kNothingLeft * stays &&
         TotalCost(*problem_.cost, motion, dt) <= hopping_.enough * stays;
}

void BasinHopping::SayThere() {
  out_.result.status = SolveStatus::kConverged;
  out_.result.message = fmt::format(
      "it is there, and what it costs is less than {:g} % of what staying would; the last iterations took "
      "less than {:g} % off that",
      100 * hopping_.enough, 100 * kEnds);
}

// one solve; where it races, the one that leads after the first iterations
void BasinHopping::SolvePlainly(const Guess& guess) {
  if (guess.state || !Races(problem_.model, problem_.N, options_, hopping_) || IsThere(guess)) return SolveOnce(guess);
  halfway_ = (hopping_.race + 1) / 2;
  Round(std::vector<Beginning>(kRaced, {guess}), hopping_.race, options_.tolerance, 0);
  halfway_ = 0;
  const SolveStatus status = out_.result.status;  // interrupted is what led halfway, too
  const bool over = status != SolveStatus::kIterationLimit && status != SolveStatus::kInterrupted;
  if (over || interrupted_ || Left() == 0) return;
  SolveResult led = out_.result;
  const int raced = static_cast<int>(iterations_.size());
  SolveOnce({{}, led.state.U, &led.state});
  KeepBetter(std::move(led));
  out_.result.message += fmt::format("; before them {} iterations of {} solves side by side", raced, kRaced);
  first_.iterations = static_cast<int>(iterations_.size());
}

// a solve behind the plain one, and the better of both. @param where  what it begins at, in words.
void BasinHopping::SolveFurther(Beginning beginning, std::string_view where) {
  SolveResult led = out_.result;
  BasinHoppingRound first = first_;
  const RoundOrigin origin = beginning.origin;
  Round({std::move(beginning)}, options_.iterations, options_.tolerance, 0);
  SolveResult& then = out_.result;
  first.iterations = static_cast<int>(iterations_.size());
  first.better = true;
  if (MeritOf(then) < MeritOf(led)) {
    then.message += fmt::format("; it began at {}", where);
    then.initial_cost = led.initial_cost;
    then.guess_scale = led.guess_scale;
    first.cost = then.cost;
    first.violation = then.violation;
    first.origin = origin;
  } else {
    then = std::move(led);
  }
  if (interrupted_ && then.status != SolveStatus::kInterrupted) {
    then.status = SolveStatus::kInterrupted;
    then.message = fmt::format("interrupted after {} iterations; the best motion's own solve {}", iterations_.size(),
                               then.message);
  }
  first_ = first;
}

// the mirror image of what the plain solve has found, where it is about as good
void BasinHopping::SolveMirrored() {
  if (std::optional<Beginning> mirrored = Mirrored())
    SolveFurther(std::move(*mirrored), fmt::format("the mirror image of a motion of cost {:.6g}", out_.result.cost));
}

// did the solve end while it led on?
bool BasinHopping::Crept() const {
  constexpr std::size_t kLast = 8;
  const std::vector<IterationRecord>& own = out_.result.iterations;
  if (own.size() <= kLast) return false;
  const double before = own[own.size() - 1 - kLast].cost, now = own.back().cost;
  return before - now > kLast * options_.tolerance * std::abs(now);
}

// from what is found without limits of force, where it is worth the while; what is left to gain behind them
void BasinHopping::SolveUnlimited() {
  const std::optional<SolveResult> unlimited = Unlimited();
  if (!unlimited || Left() == 0) return;
  const double least = unlimited->cost;
  const auto left = [&] { return out_.result.cost - least; };
  if (left() > kBehindLimits * std::abs(out_.result.cost)) {
    SolveFurther({{{}, unlimited->trajectory.U}, RoundOrigin::kUnlimited},
                 fmt::format("controls without limits of force, where that cost {:.6g}, {:.6g} the motion before it",
                             least, out_.result.cost));
  }
  at_limits_ = left() <= kBehindLimits * std::abs(out_.result.cost) && MayBeOneSolve(hopping_);
  const bool there = out_.result.cost <= kNothingLeft * std::abs(out_.result.initial_cost);
  settled_ = at_limits_ && (there || TouchesNothing(problem_, out_.result.trajectory));
  if (settled_ && first_.origin != RoundOrigin::kUnlimited && Crept()) {  // to its end
    SolveFurther({{{}, out_.result.trajectory.U}, RoundOrigin::kUnlimited},
                 fmt::format("a motion of cost {:.6g}", out_.result.cost));
  }
  if (settled_ && out_.result.status == SolveStatus::kStalled)
    out_.result.message += fmt::format("; one without limits of force costs {:.6g}, hardly less", least);
}

BasinHoppingResult BasinHopping::Run(const Guess& guess) {
  const double tolerance = std::max(hopping_.tolerance, options_.tolerance);
  if (hopping_.after_solve) {
    guess_ = guess;
    if (!guess.state && MayRepeat(guess.U, problem_, kConstant)) constant_ = guess.U;
    if (!guess.state && MayRepeat(guess.U, problem_, kHeld) && CanHaveContacts(problem_.model) &&
        !MakeServos(problem_).empty())
      held_ = guess.U;
    SolvePlainly(guess);
    const bool there = IsThere();
    if (!there) {
      SolveUnlimited();
      SolveMirrored();
    }
    if (there || (IsEnough() && !IsHindered())) {
      if (settled_) Tell(first_);
      out_.result.iterations = std::move(iterations_);
      return std::move(out_);
    }
    Tell(first_);
  } else {
    // one more by the other rule, which multiple shooting has not
    const int further = options_.type == SolverType::kIlqr ? 1 : 0;
    std::vector<Beginning> first(static_cast<std::size_t>(hopping_.width + further), {guess});
    for (std::size_t i = 1; i < first.size(); ++i) first[i].guess.state = nullptr;
    Round(first, options_.iterations, tolerance, 0);
  }
  return Hop(tolerance);
}

BasinHoppingResult BasinHopping::GoOnFrom(SolveResult led, const Guess& guess) {
  guess_ = guess;
  iterations_ = std::move(led.iterations);
  out_.result = std::move(led);
  if (IsThere() || (IsEnough() && !IsHindered())) {
    out_.result.iterations = std::move(iterations_);
    return std::move(out_);
  }
  Tell({.number = 0,
        .iterations = static_cast<int>(iterations_.size()),
        .cost = out_.result.cost,
        .violation = out_.result.violation,
        .better = true});
  return Hop(std::max(hopping_.tolerance, options_.tolerance));
}

// rounds of kicked controls, and the last solve
BasinHoppingResult BasinHopping::Hop(double tolerance) {
  // of few iterations the last solve has its own, too
  const bool finish = tolerance > options_.tolerance;
  const int kept = finish ? hopping_.iterations : 0;
  // rounds that are asked for follow whatever the solve has left for them
  if (hopping_.after_solve && !hopping_.when_stuck)
    further_ += std::max(0, kept + rounds_ * hopping_.iterations - Left());
  int round = 1;
  const bool moves = out_.result.status != SolveStatus::kDiverged;
  for (; round <= rounds_ && moves && Left() > kept && !interrupted_; ++round) {
    std::optional<Guess> sampled = round == hopping_.rounds + 1 && IsUntouched() ? Sampled() : std::nullopt;
    if (sampled) {
      Round({{std::move(*sampled), RoundOrigin::kSampled}}, Left() - kept, tolerance, round);
    } else {
      std::vector<Beginning> beginnings = Kicked(round);
      AddPeriodic(round, &beginnings);
      if (round == 1 && plain_.U.size() > 0 && !HasFreeStart(problem_))
        beginnings.push_back({{{}, plain_.U, &plain_}, RoundOrigin::kPlain});
      if (round == 1) {
        if (std::optional<Beginning> leaning = Leaning()) beginnings.push_back(std::move(*leaning));
        if (std::optional<Beginning> smoothed = Smoothed()) beginnings.push_back(std::move(*smoothed));
      }
      if (round == 1 && MayShoot(false)) beginnings.push_back({guess_, RoundOrigin::kShooting});
      if (round == 1) std::ranges::move(Touching(), std::back_inserter(beginnings));
      if (round == 1) {
        std::vector<Beginning> ways = around_ ? std::move(*around_) : Around(std::numeric_limits<int>::max());
        std::ranges::move(ways.empty() ? Freed() : std::move(ways), std::back_inserter(beginnings));
      }
      Round(beginnings, std::min(hopping_.iterations, Left() - kept), tolerance, round);
    }
    if (IsThere()) rounds_ = round;
    if (round == 1 && at_limits_ && gained_ <= kMuch * std::abs(out_.result.cost)) rounds_ = 1;
    if (round == hopping_.rounds) enough_ = kMoreIterations * static_cast<int>(iterations_.size());
    if (round == rounds_ && rounds_ < kMoreRounds * hopping_.rounds && !IsThere() && IsWorthAnother()) {
      ++rounds_;
      if (LeadsOn()) further_ += hopping_.iterations;
    }
  }
  const bool all = round > rounds_;
  if (moves && Left() > 0 && !interrupted_ && finish) {
    const Guess best{{}, out_.result.trajectory.U};
    std::vector<Beginning> last{{best}};
    if (!shot_ && MayShoot(true)) last.push_back({best, RoundOrigin::kShooting});
    Round(last, options_.iterations, options_.tolerance, rounds_ + 1);
  }

  int better = 0;
  double before = kInf;
  for (const BasinHoppingRound& done : out_.rounds) {
    if (!done.better) continue;
    const bool gained = IsConstrained() || before - done.cost > kRounded * std::abs(before);
    better += done.number > 0 && !done.last && gained;
    before = done.cost;
  }
  SolveResult& result = out_.result;
  result.message +=
      round == 1 && moves && !interrupted_
          ? "; no iterations were left for rounds of kicked controls"
          : fmt::format("; of {} round{} of kicked controls {} led further", round - 1, round == 2 ? "" : "s", better);
  const bool limited = moves && (!all || (Left() == 0 && result.status == SolveStatus::kIterationLimit));
  const bool back = MayGoBack();
  // what ended them all stands first: the best motion's solve was one of many, with an end of its own
  if (interrupted_) result.status = SolveStatus::kInterrupted;
  if (interrupted_ && !back) {
    result.message = fmt::format("interrupted after {} iterations; among them the best motion's own solve {}",
                                 iterations_.size(), result.message);
  } else if (limited && !back) {
    const std::string beside = further_ > 0 ? fmt::format(", {} with those on top of them", iterations_.size()) : "";
    result.status = SolveStatus::kIterationLimit;
    result.message = fmt::format("reached the limit of {} iterations{}; among them the best motion's own solve {}",
                                 options_.iterations, beside, result.message);
  }
  result.iterations = std::move(iterations_);
  return std::move(out_);
}

namespace {

void CheckHopping(const IlqrOptions& options, const BasinHoppingOptions& hopping) {
  const OptionCheck need("basin hopping: ");
  RefuseTimeLimit(options, need);
  need(hopping.rounds >= 0, "rounds", hopping.rounds, "0 or more");
  need(hopping.width >= 1 && hopping.width <= 64, "width", hopping.width, "1 to 64");
  need(hopping.iterations >= 1, "iterations", hopping.iterations, "1 or more");
  need(hopping.size > 0 && std::isfinite(hopping.size), "size", hopping.size, "positive and finite");
  need(hopping.race >= 0, "race", hopping.race, "0 or more");
  need(hopping.enough >= 0 && hopping.enough < 1, "enough", hopping.enough, "0 or more, and less than 1");
  need(hopping.tolerance >= 0 && std::isfinite(hopping.tolerance), "tolerance", hopping.tolerance,
       "0 or more, and finite");
}

}  // namespace

bool Races(const mjModel* model, int N, const IlqrOptions& options, const BasinHoppingOptions& hopping) {
  return hopping.rounds > 0 && hopping.after_solve && hopping.race > 0 && options.type == SolverType::kIlqr &&
         FitSideBySide(model, N) && CanHaveContacts(model);
}

BasinHoppingResult SolveBasinHopping(const Problem& problem, const Guess& guess, const IlqrOptions& options,
                                     const BasinHoppingOptions& hopping, const IterationCallback& callback,
                                     const ConstrainedOptions& constrained,
                                     const BasinHoppingCallback& round_callback) {
  CheckHopping(options, hopping);
  Problem unconstrained = problem;
  unconstrained.constraints = nullptr;
  CheckProblem(unconstrained, guess.U);
  return BasinHopping(problem, StaysStopped(options), hopping, constrained, callback, round_callback).Run(guess);
}

BasinHoppingResult HopBehind(const Problem& problem, SolveResult led, const Guess& guess, const IlqrOptions& options,
                             const BasinHoppingOptions& hopping, const IterationCallback& callback,
                             const ConstrainedOptions& constrained, const BasinHoppingCallback& round_callback) {
  CheckHopping(options, hopping);
  return BasinHopping(problem, StaysStopped(options), hopping, constrained, callback, round_callback)
      .GoOnFrom(std::move(led), guess);
}

}  // namespace costate
