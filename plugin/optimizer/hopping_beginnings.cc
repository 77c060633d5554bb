// Where the solves of a round begin: kicked, sampled, periodic, led to contact, by multiple shooting. README.md, "Basin
// hopping".
#include <costate/continuation.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <utility>

#include "core/collision_filter.h"
#include "core/driven.h"
#include "optimizer/control_limits.h"
#include "optimizer/force_limits.h"
#include "optimizer/free_start.h"
#include "optimizer/hopping_rounds.h"
#include "optimizer/line_search.h"

namespace costate {
namespace {

constexpr double kNextKick = 0.3;  // in terms of the pair of solves before

constexpr double kSampledLess = 0.99;  // in terms of the best: sampled controls that are gone on from

// periodic controls: rounds of samples, and how far they spread at first
constexpr int kPeriodicRounds = 10;
constexpr double kPeriodicSize = 0.2;
// travelling waves: how many frequencies, turns from one driven joint of a chain to the next, in terms of kicks
constexpr int kWaveFrequencies = 4;
constexpr double kWaveLags[] = {1.0 / 6, -1.0 / 6, 1.0 / 4, -1.0 / 4}, kWaveSizes[] = {1, 0.3};
// parts of half a range by which a control leans, of at most so many controls
constexpr double kLeans[] = {1, -1, 0.67, -0.67, 0.33, -0.33};
constexpr int kMostLeaning = 8;
// stages of smoother contacts, iterations of each, and what their motion has to cost in terms of the best
constexpr int kSmoothStages = 2, kSmoothIterations = 25;
constexpr double kSmoothedLess = 0.95;
constexpr double kHinders = 0.1;  // of the cost: what a motion through obstacles is to gain
// iterations without contacts that are no better, by cost alone and within constraints, which are kept late
constexpr int kFreeTries = 20, kFreeTriesWithin = 80;

// what a mirror image may lose of a solve's gain, and what is none the better for rounding
constexpr double kNearlyAll = 0.01, kEqual = 1e-9;

constexpr int kPieces = 6;  // straight ones of a slow kick

// how many driven joints each control's has above it, on bodies of their own; of controls elsewhere 0
VectorXd ChainPlaces(const mjModel* m) {
  std::vector<int> bodies(static_cast<std::size_t>(m->nu), 0);
  std::vector<char> driven(static_cast<std::size_t>(m->nbody));
  for (int i = 0; i < m->nactuator; ++i) {
    int joint = m->actuator_trnid[2 * i];
    if (m->actuator_trntype[i] == mjTRN_TENDON) {
      const int wrap = m->tendon_adr[joint];
      if (m->wrap_type[wrap] != mjWRAP_JOINT) continue;
      joint = m->wrap_objid[wrap];
    } else if (!ActsOnJoint(m, i)) {
      continue;
    }
    const int body = m->jnt_bodyid[joint];
    driven[static_cast<std::size_t>(body)] = 1;
    for (int k = 0; k < m->actuator_ctrlnum[i]; ++k)
      bodies[static_cast<std::size_t>(m->actuator_ctrladr[i] + k)] = body;
  }
  VectorXd places = VectorXd::Zero(m->nu);
  for (int i = 0; i < m->nu; ++i) {
    for (int body = bodies[static_cast<std::size_t>(i)]; body > 0;) {
      body = m->body_parentid[body];
      places[i] += driven[static_cast<std::size_t>(body)];
    }
  }
  return places;
}

}  // namespace

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

bool MayRepeat(const MatrixXd& U, const Problem& problem, double but_for) {
  const double knot_time = problem.knot_time();
  const FrequencyRange frequencies = PeriodicRange(problem.N * knot_time, knot_time);
  const MatrixXd moves = (U.colwise() - U.col(0)).cwiseAbs();
  return frequencies.low < frequencies.high &&
         ((but_for * HalfRanges(problem)).rowwise().replicate(moves.cols()) - moves).minCoeff() >= 0;
}

std::vector<MatrixXd> WavesAlongChains(const Problem& problem, const MatrixXd& about) {
  const VectorXd places = ChainPlaces(problem.model), unit = KickUnits(problem);
  std::vector<MatrixXd> waves;
  if (places.maxCoeff() == 0) return waves;
  const double dt = problem.knot_time();
  const FrequencyRange range = PeriodicRange(problem.N * dt, dt);
  for (const double size : kWaveSizes) {
    for (const double lag : kWaveLags) {
      for (int i = 0; i < kWaveFrequencies; ++i) {
        const double frequency = range.low * std::pow(range.high / range.low, (i + 0.5) / kWaveFrequencies);
        MatrixXd U = about;
        for (Eigen::Index t = 0; t < U.cols(); ++t) {
          const double turns = frequency * static_cast<double>(t) * dt, grown = std::min(1.0, 2 * turns) * size;
          U.col(t) += grown * unit.cwiseProduct((2 * std::numbers::pi * (turns - lag * places.array())).sin().matrix());
        }
        waves.push_back(WithinLimits(problem, U));
      }
    }
  }
  return waves;
}

std::vector<Beginning> BasinHopping::Kicked(int round) const {
  const VectorXd unit = KickUnits(problem_);
  std::vector<Beginning> kicked(static_cast<std::size_t>(hopping_.width), {{}, RoundOrigin::kKicked});
  for (int i = 0; i < hopping_.width; ++i) {
    SampleStream stream(hopping_.seed, round, i);
    const double size = hopping_.size * std::pow(kNextKick, i / 2);
    const MatrixXd& best = out_.result.trajectory.U;
    const MatrixXd U = best + size * (unit.asDiagonal() * Kick(best.rows(), best.cols(), i % 2 == 0, &stream));
    kicked[static_cast<std::size_t>(i)].guess.U = WithinLimits(problem_, U);
  }
  return kicked;
}

// of what is no iteration of the problem: the best motion so far
IterationRecord BasinHopping::Beside(const char* what) const {
  IterationRecord record;
  record.iteration = static_cast<int>(iterations_.size()) + 1;
  record.cost = out_.result.cost;
  record.violation = out_.result.violation;
  record.beside = what;
  return record;
}

// beside the iterations that the solves have; whether to go on
bool BasinHopping::RecordBeside(const char* what, double cost) {
  iterations_.push_back(Beside(what));
  IterationRecord& record = iterations_.back();
  record.cost = std::min(cost, record.cost);
  ++further_;
  interrupted_ = interrupted_ || (callback_ && !callback_(record));
  return !interrupted_;
}

// a record a round of samples
SamplingResult BasinHopping::Sample(const Problem& problem, const MatrixXd& U, SamplingOptions options) {
  options.threads = options_.threads;
  return SampleControls(problem, U, options,
                        [&](int, double cost) { return RecordBeside("a round of samples", cost); });
}

// There is no slope that kicks could lead to: controls found without, if they cost less.
std::optional<Guess> BasinHopping::Sampled() {
  Problem problem = problem_;
  if (HasFreeStart(problem)) problem.free_start.guess = out_.result.trajectory.X.col(0);
  SamplingResult sampled = Sample(problem, out_.result.trajectory.U, {.seed = hopping_.seed});
  if (!(sampled.cost < kSampledLess * out_.result.cost)) return std::nullopt;
  return Guess{{}, std::move(sampled.U)};
}

// Controls that repeat, about those of a guess that stay: gaits, which no kick of a motion that shuffles leads to. So do
// the places that servos pull joints to, where motors alone would fall.
void BasinHopping::AddPeriodic(int round, std::vector<Beginning>* beginnings) {
  if (IsConstrained() || HasFreeStart(problem_)) return;
  const RoundOrigin led = out_.rounds.back().origin;
  const auto seed = hopping_.seed + static_cast<std::uint64_t>(round) - 1;
  for (const RoundOrigin origin : {RoundOrigin::kPeriodic, RoundOrigin::kServos}) {
    const bool servos = origin == RoundOrigin::kServos;
    const MatrixXd& about = servos ? held_ : constant_;
    if (about.cols() == 0 || interrupted_ || (round > 1 && led != origin)) continue;
    SamplingResult sampled = Sample(problem_, about,
                                    {.iterations = kPeriodicRounds,
                                     .periodic = true,
                                     .servos = servos,
                                     .exploration = kPeriodicSize,
                                     .seed = seed});
    if (round == 1 && !servos && !interrupted_) TryWaves(&sampled);
    if (sampled.cost < sampled.initial_cost) beginnings->push_back({{{}, std::move(sampled.U)}, origin});
  }
}

std::pair<double, int> BasinHopping::BestRollout(int count, const std::function<MatrixXd(int)>& controls) const {
  Simulator simulator(problem_.model, problem_.context, problem_.substeps, options_.threads);
  VectorXd costs(count);
  std::vector<Trajectory> motions(static_cast<std::size_t>(simulator.threads()));
  simulator.ParallelFor(count, [&](int i, int worker) {
    Trajectory& motion = motions[static_cast<std::size_t>(worker)];
    const RolloutStatus status = simulator.Rollout(problem_.x0, controls(i), &motion, worker);
    costs[i] = RolloutCost(problem_, motion, status, simulator.knot_time());
  });
  Eigen::Index best = 0;
  const double least = costs.minCoeff(&best);
  return {least, static_cast<int>(best)};
}

// Waves that travel along chains: the best, where it costs less than what was found.
void BasinHopping::TryWaves(SamplingResult* found) const {
  const std::vector<MatrixXd> waves = WavesAlongChains(problem_, constant_);
  if (waves.empty()) return;
  const auto [cost, best] =
      BestRollout(static_cast<int>(waves.size()), [&](int i) { return waves[static_cast<std::size_t>(i)]; });
  if (!(cost < found->cost)) return;
  found->cost = cost;
  found->U = waves[static_cast<std::size_t>(best)];
}

// A force that lasts leads where no kick does, whose mean is none: the guess's controls, one of them moved by the same
// all the time, the best of some where that costs less than the guess.
std::optional<Beginning> BasinHopping::Leaning() const {
  const bool few = problem_.model->nu <= kMostLeaning && guess_.U.size() > 0 && !guess_.state;
  if (!hopping_.after_solve || !hopping_.lean || !few || interrupted_ || IsConstrained() || HasFreeStart(problem_))
    return std::nullopt;
  constexpr int kSizes = std::size(kLeans);
  const VectorXd half = HalfRanges(problem_);
  const auto leaning = [&](int i) {
    MatrixXd U = guess_.U;
    U.row(i / kSizes).array() += kLeans[i % kSizes] * half[i / kSizes];
    return WithinLimits(problem_, U);
  };
  const auto [cost, best] = BestRollout(kSizes * problem_.model->nu, leaning);
  if (!(cost < out_.result.initial_cost)) return std::nullopt;
  return Beginning{{{}, leaning(best)}, RoundOrigin::kLeaning};
}

// About contacts another motion may be near by way of smoother ones: from the guess, if it is worth the while.
std::optional<Beginning> BasinHopping::Smoothed() {
  const SolveResult& best = out_.result;
  const bool may = hopping_.after_solve && hopping_.smooth && !interrupted_ && options_.type == SolverType::kIlqr &&
                   guess_.U.size() > 0 && !guess_.state && CanHaveContacts(problem_.model) &&
                   FitSideBySide(problem_.model, problem_.N);
  if (!may || IsConstrained() || HasFreeStart(problem_) || TouchesNothing(problem_, best.trajectory))
    return std::nullopt;
  ContinuationOptions continuation;
  continuation.smooth = ParseSmooth(problem_.model, "auto");
  continuation.plain_first = false;
  continuation.stages = kSmoothStages;
  continuation.stage_iterations = kSmoothIterations;
  IlqrOptions options = options_;
  options.iterations = hopping_.iterations;
  options.stall_tolerance = hopping_.tolerance;
  options.tolerance = std::max(hopping_.tolerance, options_.tolerance);
  bool hopeless = false;
  const auto go_on = [&](const IterationRecord& record) {
    hopeless = hopeless || IsHopeless(record);
    return RecordBeside("through smoother contacts") && !hopeless;
  };
  ContinuationResult found = SolveContinuation(problem_, guess_.U, options, continuation, go_on);
  const bool worth = found.result.status != SolveStatus::kDiverged && found.result.cost < kSmoothedLess * best.cost;
  if (!worth || hopeless || interrupted_) return std::nullopt;
  return Beginning{{{}, std::move(found.result.trajectory.U)}, RoundOrigin::kSmoothed};
}

// Of a robot that is all but symmetric about its guess: the image of the motion, but of one that is exactly as good.
std::optional<Beginning> BasinHopping::Mirrored() const {
  const SolveResult& best = out_.result;
  const bool over = interrupted_ || Left() == 0 || best.status == SolveStatus::kDiverged;
  if (!hopping_.mirror || over || guess_.state || IsConstrained() || HasFreeStart(problem_)) return std::nullopt;
  const double gained = best.initial_cost - best.cost;
  if (!(gained > 0) || guess_.U.size() == 0) return std::nullopt;
  Guess mirrored{{}, WithinLimits(problem_, 2 * guess_.U - best.trajectory.U)};
  Simulator simulator(problem_.model, problem_.context, problem_.substeps);
  Trajectory motion;
  const RolloutStatus status = simulator.Rollout(problem_.x0, mirrored.U, &motion);
  const double lost = RolloutCost(problem_, motion, status, simulator.knot_time()) - best.cost;
  if (!(lost < kNearlyAll * gained) || std::abs(lost) < kEqual * gained) return std::nullopt;
  return Beginning{std::move(mirrored), RoundOrigin::kMirrored};
}

// Where nothing touches at first, or at last, multiple shooting often finds another minimum.
bool BasinHopping::MayShoot(bool last) const {
  if (!hopping_.after_solve || !hopping_.shooting || options_.type != SolverType::kIlqr || guess_.state ||
      guess_.U.size() == 0)
    return false;
  if (IsConstrained() || HasFreeStart(problem_)) return false;
  return TouchesNothing(problem_, out_.result.trajectory) || (!last && GuessTouchesNothing());
}

std::optional<Trajectory> BasinHopping::Play(const Guess& guess) const {
  Trajectory motion;
  Simulator simulator(problem_.model, problem_.context, problem_.substeps);
  return simulator.Rollout(problem_.x0, guess.U, &motion).ok() ? std::optional(std::move(motion)) : std::nullopt;
}

bool BasinHopping::GuessTouchesNothing() const {
  const std::optional<Trajectory> motion = Play(guess_);
  return motion && TouchesNothing(problem_, *motion);
}

bool BasinHopping::IsThere(const Guess& guess) const {
  if (!MayBeThere()) return false;
  const std::optional<Trajectory> motion = Play(guess);
  return motion && IsThere(*motion);
}

// What the cost is about is out of touch: a hand is led there.
std::vector<Beginning> BasinHopping::Touching() const {
  std::vector<Beginning> touching;
  const bool may =
      hopping_.after_solve && hopping_.touch && !HasFreeStart(problem_) && FitSideBySide(problem_.model, problem_.N);
  if (!may || !CanHaveContacts(problem_.model)) return touching;
  for (TouchPlan& plan : PlanTouches(problem_, out_.result.trajectory))
    touching.push_back({{{}, out_.result.trajectory.U}, RoundOrigin::kTouching, std::move(plan)});
  return touching;
}

bool BasinHopping::MayLead() const {
  return hopping_.after_solve && hopping_.detour && !interrupted_ && !HasFreeStart(problem_) && guess_.U.size() > 0 &&
         FitSideBySide(problem_.model, problem_.N) && (CanHaveContacts(problem_.model) || WithoutClearances(problem_));
}

// from the guess, within the problem's constraints or others
SolveResult BasinHopping::SolveFromGuess(const mjModel* model, const IterationCallback& callback,
                                         const ConstraintSet* constraints) const {
  Problem problem = problem_;
  problem.model = model;
  if (constraints) problem.constraints = constraints;
  IlqrOptions options = options_;
  options.stall_tolerance = hopping_.tolerance;
  options.tolerance = std::max(hopping_.tolerance, options_.tolerance);
  return Solve(problem, {{}, guess_.U}, options, callback, constraints ? ForOthers(constrained_) : constrained_);
}

// is there an equality at the end?
bool BasinHopping::HasHardEnd() const {
  for (int i = 0; i < problem_.constraints->size(); ++i) {
    const Constraint& constraint = (*problem_.constraints)[i];
    const bool end = constraint.IsAt(problem_.N, problem_.N) && !constraint.IsAt(problem_.N - 1, problem_.N);
    if (end && constraint.info().lower == constraint.info().upper) return true;
  }
  return false;
}

// What stands in the way: a motion through it, if it is worth the while, is led round.
// tries: iterations that gain less until it is given up
std::vector<Beginning> BasinHopping::Around(int tries) {
  std::vector<Beginning> around;
  if (!MayLead()) return around;
  const SolveResult& best = out_.result;
  const bool missed = IsMissed();
  Passage passage;
  // what has kept an end that is a constraint is there
  const bool there = IsConstrained() && !missed && HasHardEnd();
  const bool clear = !there && !ObstaclesKeptClear(problem_, best.trajectory).empty();
  Problem seen = problem_;
  if (clear) {
    passage.seen = WithContactsKeptClear(problem_);
    seen.model = passage.seen.get();
  }
  const std::vector<int> obstacles =
      clear ? ObstaclesThatMayBeHit(seen, best.trajectory) : FindObstacles(seen, best.trajectory);
  if (obstacles.empty()) return around;
  passage.model = WithoutObstacles(problem_.model, obstacles);
  passage.constraints = WithoutClearances(problem_);
  int tried = 0;
  const auto go_on = [&](const IterationRecord& record) {
    const bool better =
        missed ? record.violation < best.violation : best.cost - record.cost > kHinders * std::abs(best.cost);
    return RecordBeside("without what is in the way") && (better || ++tried < tries);
  };
  SolveResult through = SolveFromGuess(passage.model.get(), go_on, passage.constraints.get());
  passage.gain = best.cost - through.cost;
  const bool kept = through.status != SolveStatus::kDiverged && through.violation <= constrained_.tolerance;
  const bool worth = kept && (missed || passage.gain > kHinders * std::abs(best.cost));
  if (!worth || interrupted_) return around;
  // what a motion that misses constraints costs says nothing of those that keep them
  if (missed) passage.gain = std::max(through.cost, best.initial_cost - through.cost);
  if (!(passage.gain > 0)) passage.gain = 1;
  passage.motion = std::move(through.trajectory);
  passage.guess = guess_.U;
  for (Detour& detour : PlanDetours(problem_, std::move(passage)))
    around.push_back({{}, RoundOrigin::kDetour, {}, std::move(detour)});
  return around;
}

// A solve that has converged at an obstacle, smoothly, which without it goes much further.
bool BasinHopping::IsHindered() {
  if (hopping_.rounds == 0 || out_.result.status != SolveStatus::kConverged) return false;
  around_ = Around(kFreeTries);
  return !around_->empty();
}

// What crashes hardly leaves the ground: from a motion that nothing stops, if it is worth the while.
std::vector<Beginning> BasinHopping::Freed() {
  if (!MayLead() || !Crashes(problem_, out_.result.trajectory)) return {};
  const SolveResult& best = out_.result;
  const bool missed = IsMissed();
  const ModelPtr model = WithoutContacts(problem_.model);
  const int tries = IsConstrained() ? kFreeTriesWithin : kFreeTries;
  int tried = 0;
  const auto go_on = [&](const IterationRecord& record) {
    const bool better = missed ? record.violation < best.violation : record.cost < best.cost;
    return RecordBeside("without contacts") && (better || ++tried < tries);
  };
  SolveResult freed = SolveFromGuess(model.get(), go_on);
  const bool kept = freed.status != SolveStatus::kDiverged && freed.violation <= constrained_.tolerance;
  const bool worth = kept && (missed || best.cost - freed.cost > kHinders * std::abs(best.cost));
  if (!worth || interrupted_) return {};
  return {{{{}, std::move(freed.trajectory.U)}, RoundOrigin::kFreed}};
}

// What a solve from the guess finds without limits of force, at which controls have no slope: where the motion has some
// and another one does not stand for contacts. Empty where it is given up or none.
std::optional<SolveResult> BasinHopping::Unlimited() {
  const SolveResult& best = out_.result;
  const bool may = hopping_.after_solve && hopping_.forces && hopping_.rounds > 0 && !interrupted_ &&
                   options_.type == SolverType::kIlqr && guess_.U.size() > 0 && !guess_.state;
  if (!may || best.status != SolveStatus::kStalled || IsConstrained() || HasFreeStart(problem_)) return std::nullopt;
  const ModelPtr model = WithoutForceLimits(problem_.model);
  if (!model || IsSameMotion(problem_, model.get(), best.trajectory)) return std::nullopt;
  if (!TouchesNothing(problem_, best.trajectory) && !GuessTouchesNothing()) return std::nullopt;
  int tried = 0;
  SolveResult unlimited = SolveFromGuess(model.get(), [&](const IterationRecord& record) {
    const bool worth = best.cost - record.cost > kHinders * std::abs(best.cost);
    return RecordBeside("without limits of force") && (worth || ++tried < kFreeTries);
  });
  const bool given_up = tried == kFreeTries || interrupted_ || unlimited.status == SolveStatus::kDiverged;
  return given_up ? std::nullopt : std::optional(std::move(unlimited));
}

bool BasinHopping::IsUntouched() const { return IsStuckAtGuess(out_.result) || LeavesUntouched(problem_, out_.result); }

}  // namespace costate
