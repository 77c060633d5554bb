// Beyond the nearest minimum. README.md, "Basin hopping".
#include <costate/basin_hopping.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <iterator>
#include <numeric>
#include <thread>
#include <utility>

#include "core/collision_filter.h"
#include "core/extremes.h"
#include "optimizer/basin_hopping.h"
#include "optimizer/control_noise.h"
#include "optimizer/free_start.h"
#include "optimizer/lockstep.h"
#include "optimizer/solver_checks.h"
#include "optimizer/stuck.h"

namespace costate {
namespace {

// what solves side by side differ in: regularization at first, and how hard each pair of them is kicked
constexpr double kFirstRegularization = 0.3, kNextRegularization = 0.1, kNextKick = 0.3;

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

constexpr int kPieces = 6;  // straight ones of a slow kick

constexpr int kSteps = 6;  // of a line search on the way: a kick leads further than the smallest steps at a kink

// n of (B1): at each knot by itself, which bodies hardly follow, or slow, straight between few values
MatrixXd Kick(Eigen::Index nu, Eigen::Index N, bool slow, SampleStream* stream) {
  MatrixXd values(nu, slow ? kPieces + 1 : N);
  for (double& value : values.reshaped()) value = stream->Normal();
  if (!slow) return values;
  MatrixXd kick(nu, N);
  for (Eigen::Index t = 0; t < N; ++t) {
    const double at = static_cast<double>(kPieces * t) / static_cast<double>(N);
    const auto piece = static_cast<Eigen::Index>(at);
    const double share = at - static_cast<double>(piece);
    kick.col(t) = (1 - share) * values.col(piece) + share * values.col(piece + 1);
  }
  return kick;
}

// violation beyond its tolerance first, then cost
using Rank = std::pair<double, double>;

class BasinHopping {
 public:
  BasinHopping(const Problem& problem, const IlqrOptions& options, const BasinHoppingOptions& hopping,
               const ConstrainedOptions& constrained, const IterationCallback& callback,
               const BasinHoppingCallback& round_callback)
      : problem_(problem),
        options_(options),
        hopping_(hopping),
        constrained_(constrained),
        callback_(callback),
        round_callback_(round_callback) {}

  BasinHoppingResult Run(const Guess& guess);
  BasinHoppingResult GoOnFrom(SolveResult led);

 private:
  void SolvePlainly(const Guess& guess);
  BasinHoppingResult Hop(double tolerance);
  void Tell(const BasinHoppingRound& done);
  int Left() const { return options_.iterations - static_cast<int>(iterations_.size()); }
  Rank RankOf(double violation, double cost) const;
  std::vector<Guess> Kicked(int round) const;
  IlqrOptions OptionsOf(int round, int i) const;
  void Round(const std::vector<Guess>& guesses, int iterations, double tolerance, int round);
  void Follow(Lockstep* lockstep);
  void DropSlower(const std::vector<IterationRecord>& records, std::vector<char>* go) const;
  bool Take(std::vector<SolveResult>* results, BasinHoppingRound* round);
  void SayInfeasible();
  bool IsEnough() const { return hopping_.after_stall && !IsStuck(problem_, out_.result); }

  const Problem& problem_;
  const IlqrOptions& options_;
  const BasinHoppingOptions& hopping_;
  const ConstrainedOptions& constrained_;
  const IterationCallback& callback_;
  const BasinHoppingCallback& round_callback_;

  std::vector<IterationRecord> iterations_;
  bool interrupted_ = false;
  std::exception_ptr thrown_;  // by the callback
  int halfway_ = 0;            // of a race; 0: there is none
  BasinHoppingRound first_;
  BasinHoppingResult out_;  // without the iterations
};

Rank BasinHopping::RankOf(double violation, double cost) const {
  if (!std::isfinite(cost)) return {kInf, kInf};
  return {std::max(violation, constrained_.tolerance), cost};
}

std::vector<Guess> BasinHopping::Kicked(int round) const {
  const VectorXd unit = KickUnits(problem_);
  std::vector<Guess> guesses(static_cast<std::size_t>(hopping_.width));
  for (int i = 0; i < hopping_.width; ++i) {
    SampleStream stream(hopping_.seed, round, i);
    const double size = hopping_.size * std::pow(kNextKick, i / 2);
    const MatrixXd& best = out_.result.trajectory.U;
    const MatrixXd U = best + size * (unit.asDiagonal() * Kick(best.rows(), best.cols(), i % 2 == 0, &stream));
    guesses[static_cast<std::size_t>(i)].U =
        U.cwiseMax(problem_.u_lower.replicate(1, U.cols())).cwiseMin(problem_.u_upper.replicate(1, U.cols()));
  }
  return guesses;
}

// how the i-th solve of a round is made; as the user says the last round, and the first where others follow a stall
IlqrOptions BasinHopping::OptionsOf(int round, int i) const {
  IlqrOptions options = options_;
  const bool constrained = problem_.constraints && problem_.constraints->size() > 0;
  if (round == 0 && hopping_.after_stall && !constrained) options.stall_tolerance = hopping_.tolerance;
  if (round == 0 && hopping_.after_stall && i > 0) {
    options.regularization_init *= kRacers[i - 1].factor;
    options.regularization_rule = kRacers[i - 1].rule;
  }
  if (round > hopping_.rounds || (round == 0 && hopping_.after_stall)) return options;
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
      if (!best || RankOf(record.violation, record.cost) < RankOf(best->violation, best->cost)) best = &record;
    }
    iterations_.push_back(*best);
    iterations_.back().iteration = static_cast<int>(iterations_.size());
    try {
      interrupted_ = interrupted_ || (callback_ && !callback_(iterations_.back()));
    } catch (...) {  // the solves wait for the word to go on: they end first
      thrown_ = std::current_exception();
      interrupted_ = true;
    }
    std::vector<char> go(records.size(), !interrupted_);
    if (halfway_ > 0 && static_cast<int>(iterations_.size()) == halfway_) DropSlower(records, &go);
    lockstep->Go(std::move(go));
  }
}

// ends the worse half of a race
void BasinHopping::DropSlower(const std::vector<IterationRecord>& records, std::vector<char>* go) const {
  std::vector<std::size_t> order(records.size());
  std::iota(order.begin(), order.end(), 0);
  const auto rank = [&](std::size_t i) {
    return records[i].iteration == 0 ? RankOf(0, kInf) : RankOf(records[i].violation, records[i].cost);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
  for (std::size_t i = (order.size() + 1) / 2; i < order.size(); ++i) (*go)[order[i]] = false;
}

// the best of the round where it is the best of all; the last one where it is no worse
bool BasinHopping::Take(std::vector<SolveResult>* results, BasinHoppingRound* round) {
  const auto rank = [this](const SolveResult& result) {
    return result.status == SolveStatus::kDiverged ? RankOf(0, NAN) : RankOf(result.violation, result.cost);
  };
  const auto best = std::min_element(results->begin(), results->end(),
                                     [&](const SolveResult& a, const SolveResult& b) { return rank(a) < rank(b); });
  round->cost = best->cost;
  round->violation = best->violation;
  const bool first = round->number == 0, last = round->number > hopping_.rounds;
  if (!first && (last ? rank(out_.result) < rank(*best) : rank(out_.result) <= rank(*best))) {
    if (last && best->status == SolveStatus::kInfeasible) SayInfeasible();
    return false;
  }
  const double initial_cost = first ? best->initial_cost : out_.result.initial_cost;
  out_.result = std::move(*best);
  out_.result.initial_cost = initial_cost;
  return true;
}

// the last solve found no motion that keeps the constraints: nor has the best of the rounds, or it would be taken
void BasinHopping::SayInfeasible() {
  SolveResult& best = out_.result;
  if (best.violation <= constrained_.tolerance || best.status == SolveStatus::kInfeasible) return;
  best.status = SolveStatus::kInfeasible;
  best.message = "infeasible: no motion found that keeps the constraints; that of least violation " + best.message;
}

void BasinHopping::Round(const std::vector<Guess>& guesses, int iterations, double tolerance, int round) {
  // from the best motion's controls, hence from its start
  Problem problem = problem_;
  const bool follows = out_.result.trajectory.N() > 0;
  if (follows && HasFreeStart(problem))
    problem.free_start.guess = round > 0 ? VectorXd(out_.result.trajectory.X.col(0)) : out_.result.state.x0;

  const int width = static_cast<int>(guesses.size());
  const int threads =
      options_.threads > 0 ? options_.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int most = std::min(iterations, Left());
  std::vector<SolveResult> results(guesses.size());
  std::vector<std::exception_ptr> failures(guesses.size());
  Lockstep lockstep(width, threads);
  const auto solve = [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    lockstep.Enter();
    try {
      IlqrOptions options = OptionsOf(round, i);
      options.threads = std::max(1, threads / width);
      options.iterations = most;
      options.tolerance = tolerance;
      ConstrainedOptions constrained = constrained_;
      // those of a motion that no step betters have grown without bound
      const bool astray = out_.result.status == SolveStatus::kInfeasible;
      if (!out_.result.multipliers.empty() && !astray) constrained.multipliers = out_.result.multipliers;
      results[at] = Solve(
          problem, guesses[at], options, [&](const IterationRecord& record) { return lockstep.Meet(i, record); },
          constrained);
    } catch (...) {
      failures[at] = std::current_exception();
    }
    lockstep.Leave();
  };

  const int before = static_cast<int>(iterations_.size());
  {
    std::vector<std::jthread> solvers;
    for (int i = 0; i < width; ++i) solvers.emplace_back(solve, i);
    Follow(&lockstep);
  }
  if (thrown_) std::rethrow_exception(thrown_);
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  BasinHoppingRound done{.number = round, .iterations = static_cast<int>(iterations_.size()) - before};
  done.better = Take(&results, &done);
  if (round > 0 || !hopping_.after_stall) return Tell(done);
  first_ = done;
}

void BasinHopping::Tell(const BasinHoppingRound& done) {
  out_.rounds.push_back(done);
  if (round_callback_) round_callback_(done);
}

// one solve; where it races, the one that leads after the first iterations
void BasinHopping::SolvePlainly(const Guess& guess) {
  if (guess.state || !Races(problem_.model, problem_.N, options_, hopping_))
    return Round({guess}, options_.iterations, options_.tolerance, 0);
  halfway_ = (hopping_.race + 1) / 2;
  Round(std::vector<Guess>(1 + std::size(kRacers), guess), hopping_.race, options_.tolerance, 0);
  halfway_ = 0;
  const SolveStatus status = out_.result.status;  // interrupted is what led halfway, too
  const bool over = status != SolveStatus::kIterationLimit && status != SolveStatus::kInterrupted;
  if (over || interrupted_ || Left() == 0) return;
  SolveResult led = out_.result;
  const int raced = static_cast<int>(iterations_.size());
  Round({{{}, led.state.U, &led.state}}, options_.iterations, options_.tolerance, 0);
  const SolveResult& then = out_.result;
  if (RankOf(led.violation, led.cost) < RankOf(then.violation, then.cost)) {  // it went on from a last iterate
    const bool kept = led.violation <= constrained_.tolerance;
    const bool ended = then.status == SolveStatus::kConverged || (kept && then.status == SolveStatus::kInfeasible);
    led.status = ended ? SolveStatus::kStalled : then.status;
    led.message = then.message + "; the motion before it is the better one";
    led.state = then.state;
    out_.result = led;
  }
  out_.result.initial_cost = led.initial_cost;
  out_.result.guess_scale = led.guess_scale;
  out_.result.message += fmt::format("; before them {} of {} solves side by side", raced, 1 + std::size(kRacers));
  first_.iterations = static_cast<int>(iterations_.size());
}

BasinHoppingResult BasinHopping::Run(const Guess& guess) {
  const double tolerance = std::max(hopping_.tolerance, options_.tolerance);
  if (hopping_.after_stall) {
    SolvePlainly(guess);
    if (IsEnough()) {
      out_.result.iterations = std::move(iterations_);
      return std::move(out_);
    }
    Tell(first_);
  } else {
    // one more by the other rule, which multiple shooting has not
    const int further = options_.type == SolverType::kIlqr ? 1 : 0;
    std::vector<Guess> first(static_cast<std::size_t>(hopping_.width + further), guess);
    for (std::size_t i = 1; i < first.size(); ++i) first[i].state = nullptr;
    Round(first, options_.iterations, tolerance, 0);
  }
  return Hop(tolerance);
}

BasinHoppingResult BasinHopping::GoOnFrom(SolveResult led) {
  iterations_ = std::move(led.iterations);
  out_.result = std::move(led);
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
  int round = 1;
  const bool moves = out_.result.status != SolveStatus::kDiverged;
  for (; round <= hopping_.rounds && moves && Left() > kept && !interrupted_; ++round) {
    Round(Kicked(round), std::min(hopping_.iterations, Left() - kept), tolerance, round);
  }
  const bool all = round > hopping_.rounds;
  if (moves && Left() > 0 && !interrupted_ && finish) {
    Round({{{}, out_.result.trajectory.U}}, options_.iterations, options_.tolerance, hopping_.rounds + 1);
  }

  int better = 0;
  for (const BasinHoppingRound& done : out_.rounds)
    better += done.number > 0 && done.number <= hopping_.rounds && done.better;
  SolveResult& result = out_.result;
  result.message +=
      fmt::format("; of {} round{} of kicked controls {} led further", round - 1, round == 2 ? "" : "s", better);
  // what ended them all stands first: the best motion's solve was one of many, with an end of its own
  if (interrupted_) {
    result.status = SolveStatus::kInterrupted;
    result.message =
        fmt::format("interrupted after {} iterations; the best motion's solve {}", iterations_.size(), result.message);
  } else if (moves && (!all || (Left() == 0 && result.status == SolveStatus::kIterationLimit))) {
    result.status = SolveStatus::kIterationLimit;
    result.message = fmt::format("reached the limit of {} iterations; the best motion's solve {}", options_.iterations,
                                 result.message);
  }
  result.iterations = std::move(iterations_);
  return std::move(out_);
}

void CheckHopping(const IlqrOptions& options, const BasinHoppingOptions& hopping) {
  const OptionCheck need("basin hopping: ");
  RefuseTimeLimit(options, need);
  need(hopping.rounds >= 0, "rounds", hopping.rounds, "0 or more");
  need(hopping.width >= 1 && hopping.width <= 64, "width", hopping.width, "1 to 64");
  need(hopping.iterations >= 1, "iterations", hopping.iterations, "1 or more");
  need(hopping.size > 0 && std::isfinite(hopping.size), "size", hopping.size, "positive and finite");
  need(hopping.race >= 0, "race", hopping.race, "0 or more");
  need(hopping.tolerance >= 0 && std::isfinite(hopping.tolerance), "tolerance", hopping.tolerance,
       "0 or more, and finite");
}

}  // namespace

bool Races(const mjModel* model, int N, const IlqrOptions& options, const BasinHoppingOptions& hopping) {
  constexpr double kMostBytes = 128 << 20;
  const Dims dims(model);
  const double side = dims.ndx + dims.nu, bytes = 8.0 * N * side * side * (1 + std::size(kRacers));
  return hopping.rounds > 0 && hopping.after_stall && hopping.race > 0 && options.type == SolverType::kIlqr &&
         bytes <= kMostBytes && CanHaveContacts(model);
}

BasinHoppingResult SolveBasinHopping(const Problem& problem, const Guess& guess, const IlqrOptions& options,
                                     const BasinHoppingOptions& hopping, const IterationCallback& callback,
                                     const ConstrainedOptions& constrained,
                                     const BasinHoppingCallback& round_callback) {
  CheckHopping(options, hopping);
  Problem unconstrained = problem;
  unconstrained.constraints = nullptr;
  CheckProblem(unconstrained, guess.U);
  return BasinHopping(problem, options, hopping, constrained, callback, round_callback).Run(guess);
}

BasinHoppingResult HopBehind(const Problem& problem, SolveResult led, const IlqrOptions& options,
                             const BasinHoppingOptions& hopping, const IterationCallback& callback,
                             const ConstrainedOptions& constrained, const BasinHoppingCallback& round_callback) {
  CheckHopping(options, hopping);
  return BasinHopping(problem, options, hopping, constrained, callback, round_callback).GoOnFrom(std::move(led));
}

}  // namespace costate
