#include <costate/solve_task.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/engine_guard.h"
#include "optimizer/basin_hopping.h"
#include "optimizer/continuation.h"
#include "optimizer/free_start.h"
#include "optimizer/go_on.h"
#include "optimizer/merit.h"
#include "optimizer/stuck.h"
#include "optimizer/untouched.h"

namespace costate {
namespace {

// what all solves of one task have in common
struct TaskCall {
  const Task& task;
  const UserStop& user;
  TaskCallbacks callbacks;  // the iteration's is the user's word as well

  const IlqrOptions& solver() const { return user.options(); }
};

// what followed the smoothed way, whose records, message and guess stand before its own
void PutBehind(const SolveResult& led, std::vector<IterationRecord> records, SolveResult* result) {
  result->message += "; before that " + led.message;
  result->initial_cost = led.initial_cost;
  result->iterations = std::move(records);
}

ContinuationOptions SmoothingOf(const Task& task) {
  ContinuationOptions continuation = task.continuation;
  continuation.constrained = task.constrained;
  return continuation;
}

SolveResult TakeSmoothed(ContinuationResult found, std::vector<ContinuationStage>* stages) {
  found.result.message += "; " + found.message;
  *stages = std::move(found.stages);
  return std::move(found.result);
}

// in the place of a result that is none the better; how it was found
void TakeInstead(SolveResult there, double tolerance, std::string_view how, SolveResult* result) {
  there.status = result->status;
  if (result->status == SolveStatus::kConverged || result->status == SolveStatus::kDiverged)
    there.status = SolveStatus::kStalled;
  if (result->status == SolveStatus::kInfeasible && there.violation <= tolerance) there.status = SolveStatus::kStalled;
  there.initial_cost = result->initial_cost;
  there.message = fmt::format("{}; the motion {} is the better one", result->message, how);
  there.iterations = std::move(result->iterations);
  there.state = std::move(result->state);
  *result = std::move(there);
}

// kicks from where the smoothed way has led
void HopOn(const TaskCall& call, const Problem& problem, TaskSolution* out) {
  SolveResult led = std::move(out->result);
  ConstrainedOptions constrained = call.task.constrained;
  if (led.status != SolveStatus::kInfeasible) constrained.multipliers = led.multipliers;
  std::vector<IterationRecord> records = led.iterations;
  Problem from = problem;
  if (HasFreeStart(from)) from.free_start.guess = led.trajectory.X.col(0);
  BasinHoppingOptions hopping = call.task.hopping;
  hopping.smooth = false;  // it comes from there
  BasinHoppingResult found =
      SolveBasinHopping(from, {{}, led.trajectory.U}, call.solver(), hopping,
                        CountOn(&records, call.callbacks.iteration), constrained, call.callbacks.round);
  PutBehind(led, std::move(records), &found.result);
  out->result = std::move(found.result);
  std::ranges::move(found.rounds, std::back_inserter(out->rounds));
  const double tolerance = call.task.constrained.tolerance;
  if (MeritOf(led, tolerance) < MeritOf(out->result, tolerance))
    TakeInstead(std::move(led), tolerance, "before the kicks", &out->result);
}

// What the task's constraints keep off the model's own limits is solved without these first: at one of them a force
// moves the joint hardly to one side and without bound to the other, and solves end there. README.md, `<limit>`.
SolveResult SolveWithoutStops(const TaskCall& call, const Problem& problem, const Guess& guess) {
  const ModelPtr model = CopyModel(problem.model);
  for (const int joint : call.task.stops) model->jnt_limited[joint] = 0;
  Problem without = problem;
  without.model = model.get();
  return Solve(without, guess, call.solver(), call.callbacks.iteration, call.task.constrained);
}

// the motion of these controls, told as by a solve that ends where it begins
SolveResult Look(const TaskCall& call, const Problem& problem, const MatrixXd& U,
                 const ConstrainedOptions& constrained) {
  IlqrOptions options = call.user.OptionsNow();
  options.type = SolverType::kIlqr;
  options.second_order = false;
  options.iterations = 0;
  return Solve(problem, {{}, U}, options, {}, constrained);
}

// Constraints that all solves together all but keep, or about which they have used up their iterations, touching nothing:
// multiple shooting, whose iterates need not be motions, may keep them, or lead further.
void TryShooting(const TaskCall& call, const Problem& problem, const Guess& guess,
                 const ConstrainedOptions& constrained, SolveResult* result) {
  constexpr double kAllBut = 0.1;  // relative
  IlqrOptions options = call.solver();
  const BasinHoppingOptions& hopping = call.task.hopping;
  const bool bound = problem.constraints && problem.constraints->size() > 0;
  const bool plain = options.type == SolverType::kIlqr && !options.second_order && !std::isfinite(options.seconds);
  if (!bound || !plain || guess.state || (hopping.rounds > 0 && !hopping.after_solve) || call.user.IsOver()) return;
  const bool limited = result->status == SolveStatus::kIterationLimit && TouchesNothing(problem, result->trajectory);
  if (!(limited || result->status == SolveStatus::kInfeasible) || result->violation > kAllBut) return;
  options.type = SolverType::kFddp;
  std::vector<IterationRecord> records = result->iterations;
  SolveResult other;
  try {
    other = Solve(problem, guess, options, CountOn(&records, call.callbacks.iteration), constrained);
  } catch (const Error& error) {  // what shooting has no part in
    if (error.code() != ErrorCode::kUnsupported && error.code() != ErrorCode::kInvalidArgument) throw;
    return;
  }
  const double tolerance = constrained.tolerance;
  if (MeritOf(other, tolerance) >= MeritOf(*result, tolerance) || other.violation > tolerance) {
    result->iterations = std::move(records);
    result->message += "; multiple shooting found no better motion";
    if (other.status == SolveStatus::kInterrupted) result->status = other.status;
    return;
  }
  other.message += "; by multiple shooting, after the task's solver had ";
  other.message += result->violation > tolerance ? fmt::format("missed the constraints by {:.2g}", result->violation)
                                                 : fmt::format("ended at cost {:.6g}", result->cost);
  other.initial_cost = result->initial_cost;
  other.iterations = std::move(records);
  other.state = {.U = other.trajectory.U};
  *result = std::move(other);
}

SolveResult SolveFrom(const TaskCall& call, const Problem& problem, const Guess& guess,
                      const ConstrainedOptions& constrained, TaskSolution* out) {
  const TaskCallbacks& callbacks = call.callbacks;
  if (call.task.hopping.rounds == 0) return Solve(problem, guess, call.solver(), callbacks.iteration, constrained);
  BasinHoppingResult found = SolveBasinHopping(problem, guess, call.solver(), call.task.hopping, callbacks.iteration,
                                               constrained, callbacks.round);
  out->rounds = std::move(found.rounds);
  TryShooting(call, problem, guess, constrained, &found.result);
  return std::move(found.result);
}

// what the solve without stops has found, where it meets none: rounds of kicks follow as they would elsewhere
void EndWithoutStops(const TaskCall& call, const Problem& problem, SolveResult led, const Guess& guess,
                     TaskSolution* out) {
  const Task& task = call.task;
  if (task.hopping.rounds == 0 || led.status == SolveStatus::kInterrupted) {
    out->result = std::move(led);
    return;
  }
  BasinHoppingResult found = HopBehind(problem, std::move(led), guess, call.solver(), task.hopping,
                                       call.callbacks.iteration, task.constrained, call.callbacks.round);
  out->result = std::move(found.result);
  out->rounds = std::move(found.rounds);
}

// on the true model, from where the solve without stops has led where that keeps all constraints; the better of both
void SolveBeyondStops(const TaskCall& call, const Problem& problem, const Guess& guess, TaskSolution* out) {
  const Task& task = call.task;
  const auto tell = [&call](bool without) {
    if (call.callbacks.stops) call.callbacks.stops(without);
  };
  tell(true);
  SolveResult led = SolveWithoutStops(call, problem, guess);
  const bool interrupted = call.user.IsOver();
  if (led.status == SolveStatus::kDiverged) {
    tell(false);
    out->result = SolveFrom(call, problem, guess, task.constrained, out);
    return;
  }
  SolveResult begun = Look(call, problem, guess.U, task.constrained);
  led.initial_cost = begun.initial_cost;
  Problem from = problem;
  if (HasFreeStart(from)) from.free_start.guess = led.trajectory.X.col(0);
  ConstrainedOptions constrained = task.constrained;
  constrained.multipliers = led.multipliers;
  SolveResult there = Look(call, from, led.trajectory.U, constrained);
  const bool moves = there.status != SolveStatus::kDiverged;

  // a motion that meets no stop is the true model's
  const bool true_motion = moves && there.trajectory.X == led.trajectory.X;
  const bool kept = led.violation <= task.constrained.tolerance;
  const bool over = led.status == SolveStatus::kConverged || led.status == SolveStatus::kInfeasible ||
                    (led.status == SolveStatus::kStalled && kept);
  const bool plain = MayBeOneSolve(task.hopping);
  if (true_motion && interrupted) {
    out->result = std::move(led);
    return;
  }
  if (true_motion && over && plain) {
    EndWithoutStops(call, problem, std::move(led), guess, out);
    return;
  }
  led.message = "without the model's limits: " + led.message;
  std::vector<IterationRecord> records = led.iterations;
  if (interrupted) {
    out->result = kept && moves ? there : std::move(begun);
  } else {
    TaskCall then = call;
    then.callbacks.iteration = CountOn(&records, call.callbacks.iteration);
    tell(false);
    out->result = kept ? SolveFrom(then, from, {{}, led.trajectory.U}, constrained, out)
                       : SolveFrom(then, problem, guess, task.constrained, out);
  }
  PutBehind(led, std::move(records), &out->result);
  const bool lost = out->result.status == SolveStatus::kDiverged;
  if (moves && (lost || MeritOf(there, task.constrained.tolerance) < MeritOf(out->result, task.constrained.tolerance)))
    TakeInstead(std::move(there), task.constrained.tolerance, "found without the model's limits", &out->result);
}

// the task as it would be solved without smoothing
void SolveAsItIs(const TaskCall& call, const Problem& problem, const Guess& guess, TaskSolution* out) {
  if (!call.task.stops.empty() && !guess.state) return SolveBeyondStops(call, problem, guess, out);
  out->result = SolveFrom(call, problem, guess, call.task.constrained, out);
}

// a motion that kicks may better where it is not the best, as they end many that cost so much more
bool IsNear(const SolveResult& there, const SolveResult& best, double tolerance) {
  constexpr double kMore = 1;  // of the cost
  const Merit a = MeritOf(there, tolerance), b = MeritOf(best, tolerance);
  return a < b || (a.first == b.first && a.second - b.second <= kMore * std::abs(b.second));
}

// Behind a first solve of the task: plainly, which a race, or a solve that ended as it crept, need not have been, and
// by way of smooth contacts to the true ones; kicks from the best of these where it is near the first one.
// plain: the first one is the plain solve.
void GoThroughSmoothing(const TaskCall& call, const Problem& problem, const Guess& guess, const SolveResult& first,
                        bool plain, TaskSolution* out) {
  const Task& task = call.task;
  std::vector<ContinuationStage> stages;
  const StageCallback tell = [&call](int stage, const ContinuationStage& said) {
    if (call.callbacks.stage) call.callbacks.stage(stage + 1, said);
  };
  const ContinuationOptions smoothing = SmoothingOf(task);
  const IterationCallback& iteration = call.callbacks.iteration;
  out->result = TakeSmoothed(plain ? ContinueBehind(problem, first, guess.U, call.solver(), smoothing, iteration, tell)
                                   : SolveContinuation(problem, guess.U, call.solver(), smoothing, iteration, tell),
                             &stages);
  std::ranges::move(stages, std::back_inserter(out->stages));
  const double tolerance = task.constrained.tolerance;
  const bool over = out->result.status == SolveStatus::kDiverged || call.user.IsOver();
  const bool worth = MeritOf(out->result, tolerance) < MeritOf(first, tolerance) ||
                     (!IsEnough(task.hopping, problem, first) && IsNear(out->result, first, tolerance));
  if (!over && worth && !IsEnough(task.hopping, problem, out->result)) HopOn(call, problem, out);
}

// The task as it is solved without smoothing, for whoever asks for it shall find no worse a motion, and by way of smooth
// contacts: the best of all.
void SolveBySmoothing(const TaskCall& call, const Problem& problem, const Guess& guess, TaskSolution* out) {
  const Task& task = call.task;
  if (task.hopping.rounds == 0 && task.stops.empty()) {
    out->result = TakeSmoothed(SolveContinuation(problem, guess.U, call.solver(), SmoothingOf(task),
                                                 call.callbacks.iteration, call.callbacks.stage),
                               &out->stages);
    return;
  }
  constexpr char kAsItIs[] = "the task as it is";
  if (call.callbacks.stage) call.callbacks.stage(0, {.smoothing = kAsItIs});
  SolveAsItIs(call, problem, guess, out);
  SolveResult first = std::move(out->result);
  const bool lost = first.status == SolveStatus::kDiverged;
  out->stages = {
      {0, "none", first.status, static_cast<int>(first.iterations.size()), first.cost, lost ? kInf : first.cost}};
  if (first.status == SolveStatus::kInterrupted || call.user.IsOver()) {
    out->result = std::move(first);
    return;
  }

  std::vector<IterationRecord> records = std::move(first.iterations);
  TaskCall then = call;
  then.callbacks.iteration = CountOn(&records, call.callbacks.iteration);
  const bool plain =
      out->rounds.empty() && task.stops.empty() && !Races(problem.model, problem.N, call.solver(), task.hopping);
  GoThroughSmoothing(then, problem, guess, first, plain, out);

  SolveResult& best = out->result;
  const double tolerance = task.constrained.tolerance, initial_cost = first.initial_cost;
  if (!plain && MeritOf(best, tolerance) >= MeritOf(first, tolerance)) {
    first.message += fmt::format("; by way of smoother contact no better: {:.6g}", best.cost);
    if (best.status == SolveStatus::kInterrupted) first.status = best.status;
    best = std::move(first);
  }
  best.initial_cost = initial_cost;
  best.iterations = std::move(records);
}

// lengths are tried on the true model, from where the smoothed way has led at that of the horizon
void SolveTimed(const TaskCall& call, const Problem& problem, const Guess& guess, TaskSolution* out) {
  const Task& task = call.task;
  const TaskCallbacks& callbacks = call.callbacks;
  const BasinHoppingCallback round = [&](const BasinHoppingRound& done) {
    out->rounds.push_back(done);
    if (callbacks.round) callbacks.round(done);
  };
  const FreeTimeState* state = task.time_state.state_time > 0 ? &task.time_state : nullptr;
  Problem from = problem;
  const auto search = [&](ConstMatrixRef U, const ConstrainedOptions& constrained, const IterationCallback& callback) {
    out->timed = SolveFreeTime(from, U, call.user.OptionsNow(), constrained, task.free_time, callback, state,
                               task.hopping, round);
  };
  if (!task.continuation.smooth.any()) {
    search(guess.U, task.constrained, callbacks.iteration);
  } else {
    const SolveResult led = TakeSmoothed(
        SolveContinuation(problem, guess.U, call.solver(), SmoothingOf(task), callbacks.iteration, callbacks.stage),
        &out->stages);
    const bool moves = led.status != SolveStatus::kDiverged;
    ConstrainedOptions constrained = task.constrained;
    if (moves) constrained.multipliers = led.multipliers;
    if (moves && HasFreeStart(from)) from.free_start.guess = led.trajectory.X.col(0);
    std::vector<IterationRecord> records = led.iterations;
    search(moves ? led.trajectory.U : guess.U, constrained, CountOn(&records, callbacks.iteration));
    PutBehind(led, std::move(records), &out->timed.result);
  }
  out->result = std::move(out->timed.result);
}

TaskSolution SolveBy(const IlqrOptions& solver, const Task& task, const Problem& problem, const Guess& guess,
                     const TaskCallbacks& callbacks) {
  const UserStop user(solver, callbacks.iteration);
  TaskCall call{task, user, callbacks};
  call.callbacks.iteration = user.callback();
  TaskSolution out;
  if (task.free_time.longest > 0) {
    SolveTimed(call, problem, guess, &out);
  } else if (task.continuation.smooth.any()) {
    SolveBySmoothing(call, problem, guess, &out);
  } else {
    SolveAsItIs(call, problem, guess, &out);
  }
  if (!out.timed.model) out.untouched = SayUntouched(problem, &out.result);
  return out;
}

}  // namespace

TaskSolution SolveTask(const Task& task, const Problem& problem, const Guess& guess, const TaskCallbacks& callbacks) {
  RefuseInCallback("SolveTask");
  return SolveBy(task.solver, task, problem, guess, callbacks);
}

TaskSolution SolveTask(const Task& task, const TaskCallbacks& callbacks) {
  RefuseInCallback("SolveTask");
  const Problem problem = task.ToProblem();
  Guess guess = task.ToGuess();
  if (task.sampling.iterations > 0) {
    bool goes_on = true;
    SamplingResult sampled = SampleControls(problem, guess.U, task.ToSampling(), [&](int round, double cost) {
      return goes_on = !callbacks.sampling || callbacks.sampling(round, cost);
    });
    if (callbacks.sampled) callbacks.sampled(sampled);
    guess.U = std::move(sampled.U);
    if (!goes_on) return SolveBy(Stopped(task.solver), task, problem, guess, callbacks);
  }
  return SolveTask(task, problem, guess, callbacks);
}

}  // namespace costate
