// costate optimize: a task, or two keyframes, to an optimized, recorded motion.
#include <costate/derivative.h>
#include <costate/exploit.h>
#include <costate/record.h>
#include <costate/resume.h>
#include <costate/robustness.h>
#include <costate/solve_task.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "cli/commands.h"
#include "cli/model_facts.h"
#include "cli/optimize_record.h"
#include "cli/robot_options.h"
#include "cli/run_output.h"
#include "cli/smooth_options.h"
#include "cli/terminal.h"
#include "core/actuator_range.h"
#include "core/collision_filter.h"
#include "core/driven.h"
#include "core/extremes.h"
#include "core/lap.h"
#include "derivative/level_words.h"
#include "optimizer/cost_unit.h"
#include "optimizer/detour.h"
#include "optimizer/hints.h"
#include "optimizer/stuck.h"

namespace costate::cli {
namespace {

constexpr char kOptimizeFooter[] = R"(
INPUT is a task file, or a robot (MJCF, URDF, MJB) with --goal: then the motion goes from the start keyframe (or the model's
default state) to the goals in --time seconds. A goal is a keyframe, or where a part shall be, the rest being free:
  --goal key:crouch                        all joints as in that keyframe
  --goal joint:knee=1.2                    one joint [rad, m; 70deg]; ball and free joints by 4 and 7 numbers
  --goal site:hand=0.4,_,0.5               a place in the world [m] of a site, body or geom; _ is left open
  --goal body:torso:zaxis=0,0,1            a direction (xaxis, yaxis, zaxis) or quat
Several go together. `costate task ROBOT --goal … -o FILE` writes the same as a task file, to go on from; for
costate mpc and train with --at-once.

One line an iteration: cost; the reduction that the quadratic model expected and the actual one; the largest gradient of a
control that may still move; regularization; step length; milliseconds in rollouts, derivatives and the backward pass.

Ctrl-C ends within an iteration, and between the derivatives of two knots; the best motion so far is kept and saved (a second
Ctrl-C ends at once). Derivatives that take more than about 10 s an iteration are announced, with the reason and what helps.
--resume RUN goes on where the solver of a saved run stood that was interrupted or at its limit of iterations: from its last
iterate, with the multipliers and penalties of its constraints, and with the times that were tried. Weights and solver
settings may have changed since; what no longer fits is an error that names both values.

--smooth, or <smooth> in the task, solves as without it, then goes from a model with smoother contact to the true one in stages, each from
the controls of the one before, or from those of its policy (iterations are those of the true model; a smooth stage has at most 50).
The motion that is reported and saved is always the true model's, the best that was found; the costs of all stages stand in the record.
--backward-only keeps all motions true and smooths derivatives alone; --smooth none leaves <smooth> out.

--hops N, or <hopping> in the task, goes on where a solve ends in the nearest of many minima, as about contacts that come and go: N rounds of
solves side by side from the best motion with kicked controls behind the solve, more while they lead on; each round's best is told.
--iterations bounds all of them together, but for what rounds that are asked for need where the solve has left less, for rounds that follow on
top while the last one has gained more than a hundredth, for multiple shooting, and for samples. By default, where anything may touch, five solves begin side by side and after ten iterations the best goes on alone; four rounds follow
a solve that stalls, ends infeasible or cannot leave its guess. The first of them also begins at periodic controls and at periodic places
that motors pull their joints to, where the guess stays: gaits; round walls and frames that stand in the way; and at the controls of a
solve without contacts, where nothing touches at the start.
With <time> neither; --hops 0 is one solve and no more.
With --smooth they go on from where that has led further, too, on the true model; with <time> at each length that is tried.
Where a motion then still misses constraints, or much cheaper ones of those rounds do, up to 16 rounds lead "back within the constraints",
not with <time>: solves that leave the cost aside for a motion nearby that keeps them, then steps to cheaper ones; they have six times
--iterations for themselves, 1200 at most.

At the end the motion is repeated at half the time step, with stiffer contact, another integrator and a tighter constraint solver;
"elsewhere" tells how much of the gain over the task's guess is kept there, by the same controls or with feedback, whichever is better;
where that guess costs hardly more than the motion (by 5 %), how much more the motion costs there. "disturbed" tells the same of two
things that no plan knew of: each body pushed by a tenth of its weight for 0.1 s, a third into the motion, in the worst direction;
and controls that come 10 ms late (a knot at least); with feedback and, where that differs, without.

The run is saved in --out, by default runs/NAME-1, -2 … below the current folder; nothing is ever overwritten without --force.

Multiple shooting (fddp) has a column with the largest gap between its states and where its steps lead, and that gap's knot;
"-" once they are a motion. --derivative-every K takes derivatives at every K-th knot and interpolates them in between:
faster, and said in the message and the record.

<start free="…"> in the task lets the start move, or what of it is named, within bounds; where it went is told at the end.

With <constraint>, <limit> or <periodic> in the task a column shows the worst violation, relative to its bound, and the changes
are those of the augmented Lagrangian; violations and multipliers are listed by name, worst first, and saved in constraints.csv.

Exit code: 0 converged, stalled or reached the iteration limit, with a lower cost, or with all constraints kept where there are
any; 1 no progress, diverged, or a constraint violated; 2 bad input; 130 interrupted.)";

struct OptimizeOptions {
  std::string input, out, derivative, solver, resume;
  ReachArguments reach;
  std::optional<int> iterations, threads, derivative_every, hops;
  std::optional<double> tolerance;
  SmoothArguments smooth;
  bool second_order = false, force = false, no_plots = false, no_save = false, quiet = false, backward_only = false;
};

// of the motion that the task itself begins with; NaN where it has none, or one of another length
double GuessCost(const Task& task) {
  if (task.free_time.longest > 0 || task.sampling.iterations > 0) return kNan;
  Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  Trajectory motion;
  if (!simulator.Rollout(task.x0, task.U_guess, &motion).ok()) return kNan;
  return TotalCost(*task.cost, motion, simulator.knot_time());
}

// own_guess: what the task's guess costs where a run takes its place
Task MakeTask(const OptimizeOptions& options, double* own_guess) {
  Task task = LoadTaskOrReach(options.input, options.reach);
  if (options.iterations) task.solver.iterations = *options.iterations;
  if (options.tolerance) task.solver.tolerance = *options.tolerance;
  if (options.threads) task.solver.threads = *options.threads;
  TakeHops(options.hops, &task);
  if (!options.solver.empty()) {
    task.solver.type = options.solver == "fddp" ? SolverType::kFddp : SolverType::kIlqr;
    if (task.solver.type == SolverType::kIlqr) {
      if (task.X_guess.size() > 0)
        task.warnings.push_back("ilqr starts from controls alone: the states of <guess> are left out");
      if (task.solver.second_order) task.warnings.push_back("ilqr has no second-order terms: second_order is left out");
      task.X_guess.resize(0, 0);
      task.solver.second_order = false;
    }
  }
  if (options.second_order) task.solver.second_order = true;
  if (!options.derivative.empty()) task.solver.derivative.level = LevelOf(options.derivative);
  if (options.derivative_every) task.solver.derivative_every = *options.derivative_every;
  if (!options.resume.empty()) {
    *own_guess = GuessCost(task);
    Resume(ReadRecord(options.resume), options.resume, &task);
  }
  return task;
}

constexpr char kHeader[] =
    " iter          cost   expected     actual   gradient  regulariz.     step |  rollout  derivat. backward  ms";

// columns that only some solves have
struct Columns {
  bool gap = false, violation = false;
  std::string Header() const {
    return std::string(kHeader) + (gap ? " |       gap  knot" : "") + (violation ? " | violation" : "");
  }
};

std::string Row(const IterationRecord& r, const Columns& columns) {
  if (r.beside) return fmt::format("{:5d} {:13.7g}   {}", r.iteration, r.cost, r.beside);
  return fmt::format("{:5d} {:13.7g} {:10.3g} {:10.3g} {:10.3g}  {:10.3g} {:8.3g} | {:8.2f} {:9.2f} {:8.2f}",
                     r.iteration, r.cost, -r.expected_change, -r.actual_change, r.gradient_norm, r.regularization,
                     r.step, 1e3 * r.seconds_rollout, 1e3 * r.seconds_derivative, 1e3 * r.seconds_backward) +
         (columns.gap ? fmt::format(" | {:9.3g} {:>5}", r.gap, r.gap > 0 ? std::to_string(r.gap_knot) : "-") : "") +
         (columns.violation ? fmt::format(" | {:9.3g}", r.violation) : "") +
         (r.curvature < 0 ? " | out of a saddle" : "");
}

// forces that are clamped, whatever the controls' ranges
bool LimitsForces(const mjModel* m) {
  const auto any = [](const mjtBool* limited, auto n) {
    return std::any_of(limited, limited + n, [](mjtBool yes) { return yes; });
  };
  return any(m->actuator_forcelimited, m->nactuator) || any(m->jnt_actfrclimited, m->njnt) ||
         any(m->tendon_actfrclimited, m->ntendon);
}

// what is told beside the iterations: the sampled guess, stages of smoothing, rounds of kicks
TaskCallbacks TellingCallbacks(const Task& task, const OptimizeOptions& options, Progress* progress,
                               const IterationCallback& iteration) {
  TaskCallbacks callbacks{.iteration = iteration};
  callbacks.sampling = [&task, progress](int round, double cost) {
    progress->Stage(0, fmt::format("sampling, round {} of {}, cost {:.6g}", round, task.sampling.iterations, cost));
    return !Interrupted();
  };
  if (options.quiet) return callbacks;
  callbacks.sampled = [&task, progress](const SamplingResult& start) {
    progress->Line(fmt::format("sampling: {} rounds of {} samples take the cost of the guess from {:.6g} to {:.6g}",
                               start.best.size(), task.sampling.samples, start.initial_cost, start.cost));
  };
  const auto led = std::make_shared<bool>(false);  // by smooth stages
  callbacks.stage = [progress, led](int stage, const ContinuationStage& s) {
    *led = *led || s.factor > 0;
    progress->Line(fmt::format("stage {}: {}", stage + 1, s.smoothing));
  };
  callbacks.stops = [progress](bool without) {
    progress->Line(without ? "without the model's own limits first, which <limit> keeps off"
                           : "now with the model's own limits");
  };
  callbacks.round = [&task, progress, led, best = 0.0, ways = 0](const BasinHoppingRound& round) mutable {
    const bool kept = round.violation <= task.constrained.tolerance;
    const std::string missed = kept ? "" : fmt::format(", constraints missed by {:.3g}", round.violation);
    if (round.origin == RoundOrigin::kBack) {
      progress->Line(fmt::format("{}, round {}: {:.7g}{}{}", ToString(round.origin), ++ways, round.cost,
                                 kept ? ", all kept" : missed, round.better ? "" : "; no better"));
      return;
    }
    const std::string verdict = round.number == 0 ? ""
                                : round.better    ? fmt::format(", was {:.7g}", best)
                                                  : fmt::format("; {:.7g} stays", best);
    if (round.better) best = round.cost;
    progress->Line(fmt::format("{}: {:.7g}{}{}",
                               round.number == 0 ? (*led ? "from there" : "from the guess")
                               : round.last      ? "to the end"
                               : round.origin == RoundOrigin::kKicked
                                   ? fmt::format("round {}", round.number)
                                   : fmt::format("round {}, {}", round.number, ToString(round.origin)),
                               round.cost, missed, verdict));
  };
  return callbacks;
}

// where a solve began: from a run, in the place of the task's guess
struct Beginning {
  bool resumed = false;
  double own_guess = 0;  // what that costs; NaN: not known
  bool known() const { return !resumed || std::isfinite(own_guess); }
  // what the motion's gain is measured from
  double Measure(const SolveResult& result) const { return resumed && known() ? own_guess : result.initial_cost; }
};

// what is left of the gain, or of_cost: how much more it costs
std::string KeptText(double kept, bool of_cost) {
  return !std::isfinite(kept) ? "fails"
         : of_cost            ? fmt::format("{:+.3g} %", std::round(1e4 * (1 - kept)) / 100 + 0.0)
         : kept < 0           ? "none"
         : kept > 1.0005      ? "all"
                              : fmt::format("{:.3g} %", 100 * kept);
}

void RecordKept(const std::string& check, std::string name, double open_cost, double closed_cost, double kept,
                bool of_cost, Record* record) {
  std::replace(name.begin(), name.end(), ' ', '_');
  record->settings[check + "_" + name] =
      fmt::format("cost {:.10g} under the same controls, {:.10g} with feedback: {:.6g} of the {} kept", open_cost,
                  closed_cost, kept, of_cost ? "cost" : "gain");
}

// the motion in other simulations: told, and into the record
void LookForExploits(const Task& task, const SolveResult& result, const Beginning& begin, Record* record) {
  const ExploitCheck check = CheckExploit(task.ToProblem(), result.trajectory, result.policy, begin.Measure(result),
                                          begin.known() ? "the guess" : "where it was resumed", task.U_guess);
  fmt::print("  elsewhere     ");
  for (std::size_t k = 0; k < check.variants.size(); k++) {
    const SimulationVariant& v = check.variants[k];
    fmt::print("{}{} {}", k == 0 ? "" : ", ", v.name, KeptText(v.kept, check.of_cost));
    RecordKept("exploit_check", v.name, v.open_cost, v.closed_cost, v.kept, check.of_cost, record);
  }
  fmt::print(" of the {}\n", check.of_cost ? "cost" : "gain kept");
  if (!check.message.empty()) record->failures.push_back("simulation: " + check.message);
}

// the motion under a push and a delay: told, and into the record
void Disturb(const Task& task, const SolveResult& result, const Beginning& begin, Record* record) {
  const RobustnessCheck check =
      CheckRobustness(task.ToProblem(), result.trajectory, result.policy, begin.Measure(result), task.solver.threads);
  fmt::print("  disturbed     ");
  for (std::size_t k = 0; k < check.motions.size(); k++) {
    const DisturbedMotion& d = check.motions[k];
    const std::string kept = KeptText(d.kept, check.of_cost), open = KeptText(d.open_kept, check.of_cost);
    fmt::print("{}{} {}{}", k == 0 ? "" : ", ", d.name, kept, open == kept ? "" : " (" + open + " without feedback)");
    RecordKept("robustness_check", k == 0 ? "pushed" : "late", d.open_cost, d.closed_cost, d.kept, check.of_cost,
               record);
  }
  fmt::print(" of the {}\n", check.of_cost ? "cost" : "gain kept");
}

// is it a joint's range that is violated, where the model's own limit begins to push?
bool IsOwnRange(const mjModel* m, const ConstraintReport& c) {
  for (int j = 0; j < m->njnt; j++) {
    const mjtNum* range = m->jnt_range + 2 * j;
    const std::string name = "[" + ElementName(m, mjOBJ_JOINT, j) + "]";
    if (m->jnt_limited[j] && c.component.ends_with(name) && (c.lower == range[0] || c.upper == range[1])) return true;
  }
  return false;
}

// violations by name, worst first
void PrintConstraints(const Task& task, const SolveResult& result) {
  for (const ConstraintReport& c : result.constraints) {
    const bool kept = c.relative <= task.constrained.tolerance;
    PrintConstraint(
        c, task.constrained.tolerance, result.trajectory.time[c.knot] - result.trajectory.time[0],
        result.multipliers.empty() ? "" : fmt::format("; multiplier {:.4g}, {} active", c.multiplier, c.active));
    if (!kept && IsOwnRange(task.model.get(), c))
      fmt::print(
          "  hint          the motion presses into the model's own limit there: a small negative margin of <limit> "
          "lets "
          "it\n");
  }
}

// the motion as it is told: status, cost by term, limits
void PrintSummary(const Task& task, const SolveResult& result, const std::vector<ContinuationStage>& stages,
                  const Beginning& begin, const Record& record, double seconds) {
  fmt::print("\n{}\n", StatusText(ToString(result.status), result.message));
  // with constraints the guess may cost less, for it need not keep them
  const bool is_guess = result.violation <= task.constrained.tolerance && result.cost == result.initial_cost;
  const std::string from = begin.resumed ? "the resumed motion" : "the guess";
  const std::string share =
      task.constraints.size() > 0
          ? fmt::format("{}, which {} the constraints, cost", from, is_guess ? "keeps" : "need not keep")
          : fmt::format("{:.3g} % of {}'s", result.initial_cost != 0 ? 100 * result.cost / result.initial_cost : 100,
                        from);
  fmt::print("  cost          {:.8g}, {} {:.8g}{}, in {} iterations and {}\n", result.cost, share, result.initial_cost,
             std::isfinite(begin.own_guess) ? fmt::format(" (the task's guess: {:.8g})", begin.own_guess) : "",
             result.iterations.size(), FormatDuration(seconds));
  for (const CostTermValue& term : record.cost_terms) fmt::print("    {:<24} {:.6g}\n", term.name, term.value);
  if (result.guess_scale < 1)
    fmt::print("  note          the guess diverged and was scaled by {:g}\n", result.guess_scale);
  PrintMissedGoals(task, result.trajectory);
  if (const std::string down = ComeDown(task, result.trajectory); !down.empty())
    fmt::print("  note          {}\n", down);
  PrintConstraints(task, result);
  for (std::size_t k = 0; k < stages.size(); k++) {
    const ContinuationStage& s = stages[k];
    fmt::print("  stage {:<7} {}: cost {:.6g}, on the true model {:.6g}, {} iterations\n", k + 1, s.smoothing, s.cost,
               s.true_cost, s.iterations);
  }
}

// a start that was free
void PrintStart(const Task& task, const VectorXd& moved) {
  if (task.free_start.entries.empty()) return;
  const std::vector<std::string> names = TangentNames(task.model.get());
  constexpr int kMost = 8;
  std::string text;
  int shown = 0;
  for (const int entry : task.free_start.entries) {
    if (++shown <= kMost)
      text +=
          fmt::format("{}{} by {:.6g}", text.empty() ? "" : ", ", names[static_cast<std::size_t>(entry)], moved[entry]);
  }
  fmt::print("  start         moved: {}{}\n", text, shown > kMost ? fmt::format(" and {} more", shown - kMost) : "");
}

// than the guess, by more than rounding
bool IsBetter(const SolveResult& result) {
  return result.initial_cost - result.cost > 1e-9 * std::abs(result.initial_cost);
}

// what the command line says takes the place of the task's <smooth>
void ReadContinuation(const OptimizeOptions& options, Task* task) {
  if (options.smooth.chosen() || !options.smooth.only.empty()) {
    task->continuation.smooth = ReadSmooth(task->model.get(), options.smooth);
  }
  const SmoothContact& smooth = task->continuation.smooth;
  if (options.backward_only) {
    task->continuation.backward_only = true;
    if (!smooth.any()) {
      throw Error(ErrorCode::kInvalidArgument, "--backward-only says more about --smooth, which is not there");
    }
  }
  const auto refuse = [](const std::string& what) { throw Error(ErrorCode::kUnsupported, "--smooth: " + what); };
  if (smooth.any() && task->X_guess.size() > 0)
    refuse("its stages start from controls alone: leave the states of <guess> out");
  if (smooth.any()) PrintSmoothChanges(MakeSmoothModel(task->model.get(), smooth));
}

constexpr double kWorthMore = 0.01;  // relative gain of the last iterations

// what is optimized then is the integrator
void WarnOfOvershoot(const Task& task) {
  const mjModel* m = task.model.get();
  int dof = 0;
  const double eigenvalue = OvershootAtStart(task, &dof);
  if (eigenvalue == 0) return;
  PrintWarnings({fmt::format(
      "at the start each step turns {} over and makes it {:.3g} times as large: damping, or a "
      "servo's kv, that {} cannot hold at {:g} s; integrator=\"implicitfast\" can",
      TangentNames(m)[static_cast<std::size_t>(m->nv + dof)], -eigenvalue, IntegratorName(m), m->opt.timestep)});
}

// before an iteration of which nothing is seen for long
bool WarnOfSlowDerivatives(const Task& task) {
  constexpr double kLong = 10;  // [s]
  std::string why;
  const double seconds = DerivativeTime(task, &why);
  if (!(seconds > kLong)) return false;
  const mjModel* m = task.model.get();
  std::string remedy = "--derivative-every 4 interpolates between knots";
  if (!why.empty()) remedy += ", --derivative step is faster and less exact";
  if (const std::string exclude = why.empty() ? "" : TouchingLinks(task); !exclude.empty())
    remedy +=
        fmt::format(", so is a model without contacts of links that are meant to touch, {} in its <contact>", exclude);
  if (task.substeps > 1) remedy += fmt::format(", fewer steps a control (now {}) are fewer derivatives", task.substeps);
  if (m->opt.integrator == mjINT_DISCRETE && !why.empty())
    remedy += m->nflex > 0 ? ", so is a flex of fewer vertices" : ", integrator=\"implicitfast\" has a closed form";
  PrintWarnings({fmt::format("the derivatives of an iteration take about {}{}; {}", FormatDuration(seconds),
                             why.empty() ? "" : " (" + why + ")", remedy)});
  return true;
}

// A motion that misses its constraints while forces stand at their limits: no slope leads away from there. Costs of all
// such forces do, as those of one alone lead to the limits of others.
void HintAtForces(const Task& task, const mjModel* m, const SolveResult& result) {
  if (!(result.violation > task.constrained.tolerance)) return;
  const std::vector<int> knots = KnotsAtLimit(task, m, result.trajectory);
  const auto most = std::max_element(knots.begin(), knots.end());
  if (most == knots.end() || *most == 0) return;
  fmt::print(
      "  hint          at a limit of its force a control has no slope, and that of {} is there at {} of {} knots; a "
      "small cost of\n                all forces keeps motions off their limits, such as\n",
      ElementName(m, mjOBJ_ACTUATOR, static_cast<int>(most - knots.begin())), *most, task.N);
  constexpr double kCost = 0.1;  // a second, of a force at its limit: half of it
  std::vector<std::string> names, weights;
  for (int i = 0; i < m->nactuator; i++) {
    const mjtNum* range = ForceRange(m, i);
    if (range == nullptr) continue;
    const double limit = std::max(std::abs(range[0]), std::abs(range[1]));
    names.push_back(ElementName(m, mjOBJ_ACTUATOR, i));
    weights.push_back(fmt::format("{:.2g}", limit > 0 ? kCost / (limit * limit) : 0));
  }
  const bool all = std::ssize(names) == m->nactuator;
  if (std::count(weights.begin(), weights.end(), weights[0]) == std::ssize(weights)) weights.resize(1);
  fmt::print("                <cost name=\"forces\" actuator=\"{}\" quantity=\"force\" weight=\"{}\"/>\n",
             all ? "all" : fmt::format("{}", fmt::join(names, " ")), fmt::join(weights, " "));
}

// a motion that leans on the ends of a joint's range as on a wall
void HintAtStops(const Task& task, const mjModel* m, const SolveResult& result) {
  constexpr double kOften = 0.1;            // of the knots
  if (task.constraints.size() > 0) return;  // it may say already where joints may go
  const std::vector<int> knots = KnotsAtStop(task, m, result.trajectory);
  const auto most = std::max_element(knots.begin(), knots.end());
  if (most == knots.end() || *most <= kOften * task.N) return;
  fmt::print(
      "  hint          {} is pressed against the end of its range at {} of {} knots; <limit joint=\"all\"/> in a task "
      "file\n                keeps motions off these ends\n",
      ElementName(m, mjOBJ_JOINT, static_cast<int>(most - knots.begin())), *most, task.N);
}

// where no motion keeps the constraints, and steps and penalties are counted in a unit that is none of the cost's
void HintAtUnit(const Task& task, const SolveResult& result) {
  constexpr double kOther = 1e3;  // times as large or as small
  const double unit = task.solver.cost_unit;
  if (result.status != SolveStatus::kInfeasible || unit == 0 || task.free_time.longest > 0) return;
  const double measured = CostUnit(task.ToProblem(), result.trajectory, task.solver);
  if (!(measured > 0) || (measured < kOther * unit && measured > unit / kOther)) return;
  fmt::print(
      "  hint          by its curvature the cost's own unit is {:.2g}; steps and penalties are counted in {:g}, with\n"
      "                <solver cost_unit=\"0\"/> in the cost's own\n",
      measured, unit);
}

// a robot that a mocap body carries by an equality, as gymnasium's fetch, goes where a program sets that body
void HintAtMocap(const mjModel* m, const SolveResult& result) {
  if (!HasHardlyGained(result)) return;
  if (const MocapHold hold = FindMocapHold(m); hold.any()) fmt::print("  hint          {}\n", hold.Text(m));
}

// "'wall'", "'wall' and 2 more": fixed things that the motion runs against, where it is not where it shall be
std::string InTheWay(const Task& task, const SolveResult& result, const Record& record) {
  if (IsThere(task, result, record.cost_per_knot) || task.free_time.longest > 0) return "";
  const Problem problem = task.ToProblem();
  const std::vector<int> stood_on = StoodOn(problem, result.trajectory, GoalPlaces(task));
  std::vector<int> obstacles = ObstaclesThatAreHit(problem, result.trajectory);
  std::erase_if(obstacles, [&](int geom) { return std::ranges::find(stood_on, geom) != stood_on.end(); });
  if (obstacles.empty()) return "";
  const std::string first = ElementName(task.model.get(), mjOBJ_GEOM, obstacles[0]);
  return obstacles.size() == 1 ? first : fmt::format("{} and {} more", first, obstacles.size() - 1);
}

// what may lead on, where it is known; one of those that exclude each other
void PrintHints(const OptimizeOptions& options, const Task& task, const TaskSolution& solution, const Record& record) {
  const SolveResult& result = solution.result;
  const mjModel* m = task.model.get();
  const bool stalled = result.status == SolveStatus::kStalled;
  const bool touches = std::any_of(record.diagnostics.begin(), record.diagnostics.end(),
                                   [](const KnotDiagnostics& d) { return d.contacts > 0; });
  const bool saturated = std::any_of(record.diagnostics.begin(), record.diagnostics.end(),
                                     [](const KnotDiagnostics& d) { return d.saturated_actuators > 0; });
  const std::vector<std::string> still =
      task.free_time.longest > 0 ? std::vector<std::string>() : HardlyMoved(task.ToProblem(), result);
  if (!solution.untouched.empty() && !CanHaveContacts(m)) {
    fmt::print(
        "  hint          no control changes '{}' along this motion, to first order, and nothing can touch here: "
        "another guess, or\n                an actuator that moves it, may show the way\n",
        solution.untouched[0]);
  } else if (!solution.untouched.empty()) {
    fmt::print("  hint          {}{}a guess that touches what '{}' measures shows the way\n",
               solution.stages.empty() ? "--smooth auto reaches out for it; or " : "",
               task.sampling.iterations == 0
                   ? "<solver start=\"sampling\"/> in a task file tries motions where there is no slope; or "
                   : "",
               solution.untouched[0]);
  } else if (!still.empty()) {
    fmt::print(
        "  hint          no control changes '{}' by more than a thousandth of it, to first order: is there an actuator "
        "that moves it?\n                costate info {} lists them\n",
        still[0], task.model_file);
  } else if (const std::string walls = InTheWay(task, result, record); !walls.empty()) {
    fmt::print(
        "  hint          '{}' may be in the way, which nothing touches at the start: a guess that leads round it, or "
        "a\n"
        "                cost of places on the way, may lead on\n",
        walls);
  } else if (stalled && touches && solution.rounds.empty()) {
    fmt::print(
        "  hint          about contacts many motions are best nearby; kicks may lead to a better one: --hops 8\n");
  } else if (stalled && touches && solution.stages.empty() && !IsThere(task, result, record.cost_per_knot)) {
    fmt::print("  hint          the way to a better motion may lead by smoother contact: --smooth auto\n");
  } else if (stalled && LimitsForces(m) && solution.rounds.empty() && saturated) {
    fmt::print(
        "  hint          where a force stands at its limit its control has no slope; kicks may lead on: --hops 8\n");
  }
  HintAtForces(task, m, result);
  HintAtStops(task, m, result);
  HintAtUnit(task, result);
  HintAtMocap(m, result);
  if (const double gain = LateGain(task, result); gain > kWorthMore) {
    fmt::print("  hint          the last {} iterations took {:.2g} % off the cost: more of them lead further, {}\n",
               kLateIterations, 100 * gain,
               options.no_save ? "--iterations N" : "by --resume as below, or --iterations N");
  }
}

// a line an iteration, unless quiet, and a bar
TaskSolution SolveWithProgress(const OptimizeOptions& options, bool slow, Task* changed) {
  const Task& task = *changed;
  Progress progress(task.solver.iterations);
  std::mutex mutex;  // of the bar: derivatives are taken side by side
  int done = 0, begun = 0;
  changed->solver.stop = Interrupted;
  if (slow) {
    changed->solver.stop = [&] {
      const std::lock_guard<std::mutex> lock(mutex);
      progress.Update(done, fmt::format("derivatives at {} knots", ++begun));
      return Interrupted();
    };
  }
  const bool constrained = task.constraints.size() > 0;
  const Columns columns{.gap = task.solver.type == SolverType::kFddp, .violation = constrained};
  if (!options.quiet && task.solver.derivative_every > 1) {
    progress.Line(fmt::format("derivatives at every {} knots, interpolated in between", task.solver.derivative_every));
  }
  if (!options.quiet) progress.Line(columns.Header());
  progress.Stage(0, "the guess's motion and its derivatives");
  const IterationCallback callback = [&](const IterationRecord& record) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!options.quiet) progress.Line(Row(record, columns));
    done = record.iteration;
    begun = 0;
    progress.Update(record.iteration, fmt::format("cost {:.6g}", record.cost) +
                                          (constrained ? fmt::format(", violation {:.3g}", record.violation) : ""));
    return !Interrupted();
  };
  TaskSolution solution = SolveTask(task, TellingCallbacks(task, options, &progress, callback));
  changed->solver.stop = Interrupted;
  return solution;
}

// and says by which commands to go on; takes motion, policy and model
void SaveOptimized(const OptimizeOptions& options, const std::string& chosen, Task* task, SolveResult* result,
                   Record* record) {
  record->trajectory = std::move(result->trajectory);
  record->policy = std::move(result->policy);
  record->model = std::move(task->model);
  const std::string folder = SaveRunSomewhere(chosen, record, options.force, !options.no_plots);
  const std::string word = ShellWord(folder);
  fmt::print("  saved in      {}\n\n  costate view {}\n  costate replay {}\n", folder, word, word);
  const bool goes_on = result->status == SolveStatus::kInterrupted || result->status == SolveStatus::kIterationLimit;
  // a robot's own task stands in its run
  if (goes_on) {
    fmt::print("  costate optimize {} --resume {}\n", ShellWord(task->file.empty() ? folder + "/task.xml" : task->file),
               word);
  }
}

int RunOptimize(const OptimizeOptions& options) {
  double own_guess = kNan;
  Task task = MakeTask(options, &own_guess);
  ReadContinuation(options, &task);
  PrintWarnings(task.warnings);
  if (const std::string deep = DeepStart(task); !deep.empty()) PrintWarnings({deep});
  if (const std::string falls = FallsFreely(task.model.get()); !falls.empty()) PrintWarnings({falls});
  WarnOfOvershoot(task);
  const bool slow = WarnOfSlowDerivatives(task);
  const std::string folder = options.no_save ? "" : options.out.empty() ? FreeFolder(task) : options.out;
  if (!folder.empty()) CheckRunFolder(folder, options.force);
  const mjModel* m = task.model.get();
  fmt::print("{}: {}, {}; {} knots of {:.4g} s ({:.4g} s)\n\n", ModelName(m), SizesText(m), IntegratorName(m), task.N,
             task.knot_time(), task.N * task.substeps * m->opt.timestep);

  // solve
  CatchInterrupts();
  const Clock::time_point begin = Clock::now();
  TaskSolution solution = SolveWithProgress(options, slow, &task);
  const double seconds = SecondsSince(begin);
  SolveResult& result = solution.result;
  if (result.status == SolveStatus::kDiverged) {
    fmt::print("{}\nNothing was saved.\n", StatusText(ToString(result.status), result.message));
    return kExitNo;
  }

  // where time is free the model is another one, where the start was free the start is
  const FreeTimeResult* times = task.free_time.longest > 0 ? &solution.timed : nullptr;
  if (times) std::swap(task.model, solution.timed.model);
  m = task.model.get();
  const VectorXd moved = Difference(m, result.trajectory.X.col(0), task.x0);
  task.x0 = result.trajectory.X.col(0);

  // judge and save; the motion is simulated anew, so that what is saved is what replays
  Simulator simulator(m, task.context, task.substeps, task.solver.threads);
  Record record =
      MakeOptimizeRecord({task, result, solution.stages, solution.rounds, times, options.resume}, &simulator);
  if (times)
    fmt::print("\ntime: {:.6g} s, at {:g} a second, of {} tried\n", times->time, task.free_time.weight,
               times->trials.size());
  const Beginning beginning{!options.resume.empty(), own_guess};
  PrintSummary(task, result, solution.stages, beginning, record, seconds);
  PrintStart(task, moved);
  const auto judge = [](const auto& say) {  // nothing that is said of a motion is worth losing it
    try {
      say();
    } catch (const Error& error) {
      PrintWarnings({std::string("the motion is not judged to the end: ") + error.what()});
    }
  };
  if (IsBetter(result) && result.status != SolveStatus::kInterrupted) {
    judge([&] { LookForExploits(task, result, beginning, &record); });
    judge([&] { Disturb(task, result, beginning, &record); });
  }
  for (const std::string& failure : record.failures) fmt::print("  note          {}\n", failure);
  judge([&] { PrintHints(options, task, solution, record); });
  if (!options.no_save) SaveOptimized(options, folder, &task, &result, &record);
  return SolveExitCode(task, result.status, IsBetter(result), result.violation);
}

}  // namespace

void AddOptimizeCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<OptimizeOptions>();
  CLI::App* command = app.add_subcommand("optimize", "Optimize the controls of a task and save the motion");
  command->add_option("INPUT", options->input, "task file, or a robot with --goal")->required();
  command->add_option("--resume", options->resume, "folder of a run that ended early: go on where its solver stood");
  AddReachOptions(command, &options->reach);
  command->add_option("--iterations", options->iterations, "at most so many")->check(CLI::Range(0, 1000000));
  command->add_option("--tolerance", options->tolerance, "relative cost reduction that ends the search")
      ->check(NonNegative());
  command->add_option("--threads", options->threads, "0: all cores")->check(CLI::Range(0, 512));
  command->add_option("--derivative", options->derivative, "best (or auto), analytic, residual or step")
      ->check(CLI::IsMember(LevelWords()));
  command->add_option("--solver", options->solver, "ilqr or fddp")->check(CLI::IsMember({"ilqr", "fddp"}));
  command
      ->add_option("--derivative-every", options->derivative_every,
                   "derivatives at every so many knots, interpolated in between (default 1)")
      ->check(CLI::Range(1, 1000000));
  AddHopsOption(command, &options->hops);
  command->add_flag("--second-order", options->second_order, "exact second derivatives (fddp)");
  AddSmoothOptions(command, &options->smooth, "go from smoother contact to the true model");
  command->add_flag("--backward-only", options->backward_only, "of --smooth: true motions, smoothed derivatives");
  command->add_option("--out", options->out, "folder of the saved run")->check(Given());
  command->add_flag("--force", options->force, "replace the run that is there");
  command->add_flag("--no-plots", options->no_plots, "draw no pictures");
  command->add_flag("--no-save", options->no_save, "save nothing")->excludes("--out");
  command->add_flag("--quiet", options->quiet, "no line for each iteration");
  command->footer(kOptimizeFooter);
  command->callback([options, exit_code] { *exit_code = RunOptimize(*options); });
}

}  // namespace costate::cli
