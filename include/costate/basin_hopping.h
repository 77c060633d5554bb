// Optimization beyond the nearest minimum: solves side by side, then again and again from the best motion with kicked
// controls.
#ifndef COSTATE_BASIN_HOPPING_H_
#define COSTATE_BASIN_HOPPING_H_

#include <cstdint>
#include <functional>
#include <vector>

#include <costate/solve.h>

namespace costate {

struct BasinHoppingOptions {
  int rounds = 0;       ///< of kicks, at most; 0: none at all
  int width = 2;        ///< solves side by side
  int iterations = 15;  ///< of a kicked solve, at most
  /// Standard deviation of a kick, in half control ranges (1 without a range); of servos with limited forces in half of
  /// the way from one limit of force to the other where that is less.
  double size = 0.05;
  double tolerance = 3e-4;  ///< relative decrease of the cost at which the solves on the way end
  std::uint64_t seed = 1;
  /// Round 0 is one plain solve, others follow with the iterations it leaves.
  /// Without constraints it then ends as soon as it creeps, at `tolerance` (IlqrOptions::stall_tolerance), and by iLQR
  /// behind half of its iterations where it crawls: at its pace those left would take no more than a tenth off the cost.
  /// Where the guess's controls are constant, the first round has one solve more, from periodic controls about
  /// them (SamplingOptions::periodic, 10 rounds of 64 samples, or the best of 32 waves along chains of driven joints):
  /// gaits, from standing; neither within constraints nor from a free start. Where anything may touch and
  /// motors turn joints there is another solve more, from periodic places of their joints (SamplingOptions::servos).
  /// Where the best motion costs more than 0.9 of the guess then, further rounds follow, up to three times `rounds` in
  /// all and as long as that is so or the last one has led on; not within constraints. The first of them begins at
  /// sampled controls (SampleControls) where terms of a tenth of the cost or more have no slope at all.
  /// They follow, too, and on top of the iterations, as long as the last round has gained more than a hundredth and all
  /// have no more than twice the iterations of the first `rounds`.
  bool after_solve = false;
  /// With after_solve: others follow only where that solve stalls, ends infeasible, finds no slope at its guess or is
  /// stopped by an obstacle (`detour`).
  bool when_stuck = false;
  /// With after_solve, by iLQR and where anything may touch: that one solve is the one that leads after so many
  /// iterations of five side by side, of which the worse two end halfway; but where their linear-quadratic problems
  /// would take more than 128 MiB. 0: it is one from the start. Where another one has led, the first of the five, which
  /// is the solve as it is set, goes on beside the first round of kicks.
  int race = 10;
  /// With after_solve, by iLQR, within no constraints, from no free start and where nothing touches along the guess's
  /// or the best motion: the first round has one solve more, by multiple shooting (SolverType::kFddp) from the guess.
  /// Beside the last solve there is another one from the best motion, where nothing touches along that and it is not
  /// such a solve's. Each is as long as options say, on top of their iterations.
  bool shooting = true;
  /// With after_solve, within no constraints and from no free start: one rollout of the solve's controls mirrored about
  /// the guess's. Where it keeps 0.99 or more of what the solve has gained, another solve begins there, and the better
  /// of both is gone on with: of a robot that is all but symmetric about its guess, as a pendulum that hangs almost
  /// straight, one swing and its mirror image end alike but not equal.
  bool mirror = true;
  /// With after_solve, of at most eight controls, within no constraints and from no free start: rollouts of the guess's
  /// controls, one of them moved by a third, two thirds or all of half its range all the time. From the best of them,
  /// where it costs less than the guess, the first round has one solve more.
  bool lean = true;
  /// With after_solve, by iLQR, within no constraints, from no free start and where the best motion touches something:
  /// two solves of at most 25 iterations from the guess through smoother contacts (SolveContinuation, "auto") and one as
  /// long as a kicked one on the model itself. Where that costs less than 0.95 of the best motion, the first round has
  /// one solve more from there. They end at ten times its cost after five iterations, twice after ten; left out where
  /// linear-quadratic problems side by side would take more than 128 MiB.
  bool smooth = true;
  /// With after_solve, where terms of a tenth of the cost or more have no slope by any control: the first round has up
  /// to five solves more, which lead the robot's last links to the body that those terms hang on and then go on by the
  /// cost itself; but from a free start, and where their linear-quadratic problems would take more than 128 MiB.
  bool touch = true;
  /// With after_solve, where the best motion touches something fixed that nothing touches at the start (but planes and
  /// height fields), or comes within 1 mm of what a constraint keeps it clear of, and a solve without all such things is
  /// cheaper by a tenth, or keeps constraints that the best motion misses: the first round has up to four solves more
  /// and those along planned paths, which lead round them and then go on by the cost itself; but as with `touch`. A
  /// solve that has converged there counts as stuck then.
  /// Otherwise, where nothing touches at the start, the best motion touches something fixed (planes and height fields,
  /// too) and a solve without any contacts is cheaper by a tenth, or keeps constraints that the best motion misses: the
  /// first round has one solve more from its controls. That without contacts gives up after 20 iterations (80 within
  /// constraints) that are no better than the best motion.
  bool detour = true;
  /// With after_solve, by iLQR, within no constraints and from no free start: where that solve stalls, nothing touches
  /// along the guess's or its motion and forces of that are at limits of actuators, joints or tendons, another solve
  /// from the guess knows none of these limits. Where it costs less than 0.9 of the motion, one more on the model itself
  /// goes on from its controls, and the better one is gone on with. Where the motion costs within a tenth of what it
  /// would without limits, and touches nothing or costs no more than 1e-4 of its guess, no rounds follow with
  /// when_stuck; else one does, and others where that gains more than a hundredth.
  bool forces = true;
  /// With after_solve, within no constraints and from no free start: where all that a motion costs is less than this
  /// part of what staying at its first state would cost, and its last knot than 1e-4 of that, it is there. A guess that
  /// is has no race, the solve ends where 8 iterations in a row take less than a hundredth off the cost, and neither
  /// rounds nor other solves follow. 0: none is.
  double enough = 0;
  /// Where anything may touch and after all rounds (1 or more) the best motion misses constraints, or kicked ones of
  /// less than half its cost do: up to 16 rounds more of four solves, of six times options.iterations together (at most
  /// 1200), that leave the cost aside for a motion near those that keeps the constraints, and then go from one such
  /// motion to a cheaper one near it; but where their linear-quadratic problems would take more than 128 MiB.
  bool back = true;
};

/// Where the best motion of a round began.
enum class RoundOrigin {
  kGuess,      ///< the guess
  kKicked,     ///< kicked controls
  kSampled,    ///< sampled controls
  kPeriodic,   ///< periodic ones
  kServos,     ///< those of motors whose joints are pulled to periodic places
  kPlain,      ///< the solve as it is set, which had not led the race
  kTouching,   ///< led to what nothing had touched
  kDetour,     ///< led round what stands in the way
  kMirrored,   ///< the plain solve's controls, mirrored about the guess's
  kFreed,      ///< controls of a solve without contacts
  kUnlimited,  ///< those of one without limits of force
  kLeaning,    ///< the guess's controls, one of them moved by the same all the time
  kSmoothed,   ///< controls of solves through smoother contacts
  kShooting,   ///< multiple shooting from the guess
  kBack        ///< behind the last solve, back within constraints
};
const char* ToString(RoundOrigin origin);  ///< "sampled controls", "led to contact"

/// One round on the way.
struct BasinHoppingRound {
  int number = 0;        ///< 0: from the guess; then of kicks; behind them the last solve, and rounds back
  int iterations = 0;    ///< of its longest solve
  double cost = 0;       ///< of its best motion
  double violation = 0;  ///< of its worst constraint there
  bool better = false;   ///< than all rounds before
  bool last = false;     ///< the last solve, to its own tolerance
  RoundOrigin origin = RoundOrigin::kGuess;
};

struct BasinHoppingResult {
  SolveResult
      result;  ///< the best motion; its iterations are those of all rounds, one record for all solves of a round
  std::vector<BasinHoppingRound> rounds;  ///< none where a plain solve was enough
};

/// Called when a round has ended.
using BasinHoppingCallback = std::function<void(const BasinHoppingRound&)>;

/// Minimizes problem.cost by Solve where one solve ends in the nearest of many minima, as about contacts that come and
/// go.
///
/// Round 0: `width` solves from the guess, the i-th with 0.3 · 10⁻ⁱ options.regularization_init, and by iLQR one more
/// like the second by RegularizationRule::kStep. Each further round: `width` solves from U + size · 0.3^⌊i/2⌋ · unit
/// · n with n standard normal, slow or not by turns, clamped, about the best controls U so far, regularized as
/// in round 0, by turns by that rule. A solve ends at the hopping's tolerance or after its iterations, its line search
/// after six steps; the best motion of a round takes the place of the best so far if it is better: within the
/// constraints' tolerance by cost, else by violation. At the end one more solve from the best at options.tolerance.
/// Solves side by side go iteration by iteration, so that options.iterations bounds their number, of which kicks leave
/// those of a kicked solve to the last one, and the callback, called from this thread, may stop all after each; its
/// record is that of the best of them at the time. Kicks come from (seed, round, i), not from threads. With after_solve
/// and without when_stuck rounds that the solve has left too few iterations for have them on top.
///
/// With after_solve, round 0 is one solve; where it races, the four beside it have 0.3 and 0.03
/// options.regularization_init by either rule, and the one that leads (by cost, beyond the constraints' tolerance by
/// violation) goes on from its SolveResult::state as options say.
///
/// With `back`, a motion that those rounds find ends kStalled (kInfeasible where it misses constraints still), has
/// neither multipliers nor gradient norms, and the policy of the solve that found it. Their iterations come on top.
///
/// @throws as Solve; Error{kInvalidArgument} for an option out of range.
/// Cost: width times that of Solve an iteration, in round 0 one time more, shared by options.threads.
/// Source: plugin/optimizer/README.md, "Basin hopping"; Wales & Doye 1997.
BasinHoppingResult SolveBasinHopping(const Problem& problem, const Guess& guess, const IlqrOptions& options,
                                     const BasinHoppingOptions& hopping, const IterationCallback& callback = {},
                                     const ConstrainedOptions& constrained = {},
                                     const BasinHoppingCallback& round_callback = {});

}  // namespace costate

#endif  // COSTATE_BASIN_HOPPING_H_
