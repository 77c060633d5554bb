#include <costate/solve_task.h>

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "optimizer/basin_hopping.h"
#include "optimizer/free_start.h"
#include "optimizer/go_on.h"
#include "optimizer/merit.h"
#include "optimizer/stuck.h"
#include "optimizer/untouched.h"

namespace costate {
namespace {

// what followed the smoothed way, whose records, message and guess stand before its own
void PutBehind(const SolveResult& led, std::vector<IterationRecord> records, SolveResult* result) {
  result->message = led.message + "; then " + result->message;
  result->initial_cost = led.initial_cost;
  result->iterations = std::move(records);
}

// from smooth contacts to the true ones
SolveResult SolveSmoothed(const Task& task, const Problem& problem, const Guess& guess, const TaskCallbacks& callbacks,
                          std::vector<ContinuationStage>* stages) {
  ContinuationOptions continuation = task.continuation;
  continuation.constrained = task.constrained;
  ContinuationResult found =
      SolveContinuation(problem, guess.U, task.solver, continuation, callbacks.iteration, callbacks.stage);
  found.result.message += "; " + found.message;
  *stages = std::move(found.stages);
  return std::move(found.result);
}

// kicks from where the smoothed way has led
void HopOn(const Task& task, const Problem& problem, const TaskCallbacks& callbacks, TaskSolution* out) {
  const SolveResult led = std::move(out->result);
  ConstrainedOptions constrained = task.constrained;
  if (led.status != SolveStatus::kInfeasible) constrained.multipliers = led.multipliers;
  std::vector<IterationRecord> records = led.iterations;
  Problem from = problem;
  if (HasFreeStart(from)) from.free_start.guess = led.trajectory.X.col(0);
  BasinHoppingOptions hopping = task.hopping;
  hopping.smooth = false;  // it comes from there
  BasinHoppingResult found = SolveBasinHopping(from, {{}, led.trajectory.U}, task.solver, hopping,
                                               CountOn(&records, callbacks.iteration), constrained, callbacks.round);
  PutBehind(led, std::move(records), &found.result);
  out->result = std::move(found.result);
  out->rounds = std::move(found.rounds);
}

// What the task's constraints keep off the model's own limits is solved without these first: at one of them a force
// moves the joint hardly to one side and without bound to the other, and solves end there. README.md, `<limit>`.
SolveResult SolveWithoutStops(const Task& task, const Problem& problem, const Guess& guess,
                              const IterationCallback& callback) {
  const ModelPtr model = CopyModel(problem.model);
  for (const int joint : task.stops) model->jnt_limited[joint] = 0;
  Problem without = problem;
  without.model = model.get();
  return Solve(without, guess, task.solver, callback, task.constrained);
}

// the motion of these controls, told as by a solve that ends where it begins
SolveResult Look(const Task& task, const Problem& problem, const MatrixXd& U, const ConstrainedOptions& constrained) {
  IlqrOptions options = task.solver;
  options.type = SolverType::kIlqr;
  options.second_order = false;
  options.iterations = 0;
  return Solve(problem, {{}, U}, options, {}, constrained);
}

SolveResult SolveFrom(const Task& task, const Problem& problem, const Guess& guess,
                      const ConstrainedOptions& constrained, const TaskCallbacks& callbacks, TaskSolution* out) {
  if (task.hopping.rounds == 0) return Solve(problem, guess, task.solver, callbacks.iteration, constrained);
  BasinHoppingResult found =
      SolveBasinHopping(problem, guess, task.solver, task.hopping, callbacks.iteration, constrained, callbacks.round);
  out->rounds = std::move(found.rounds);
  return std::move(found.result);
}

// what the solve without stops has found, where it meets none: rounds of kicks follow as they would elsewhere
void EndWithoutStops(const Task& task, const Problem& problem, SolveResult led, const Guess& guess,
                     const TaskCallbacks& callbacks, TaskSolution* out) {
  if (IsEnough(task.hopping, problem, led)) {
    out->result = std::move(led);
    return;
  }
  BasinHoppingResult found = HopBehind(problem, std::move(led), guess, task.solver, task.hopping, callbacks.iteration,
                                       task.constrained, callbacks.round);
  out->result = std::move(found.result);
  out->rounds = std::move(found.rounds);
}

// in the place of the solve on the true model, which found none as good
void TakeInstead(SolveResult there, double tolerance, SolveResult* result) {
  there.status = result->status;
  if (result->status == SolveStatus::kConverged || result->status == SolveStatus::kDiverged)
    there.status = SolveStatus::kStalled;
  if (result->status == SolveStatus::kInfeasible && there.violation <= tolerance) there.status = SolveStatus::kStalled;
  there.initial_cost = result->initial_cost;
  there.message = result->message + "; the motion found without the model's limits is the better one";
  there.iterations = std::move(result->iterations);
  there.state = std::move(result->state);
  *result = std::move(there);
}

// on the true model, from where the solve without stops has led where that keeps all constraints; the better of both
void SolveBeyondStops(const Task& task, const Problem& problem, const Guess& guess, const TaskCallbacks& callbacks,
                      TaskSolution* out) {
  const auto tell = [&callbacks](bool without) {
    if (callbacks.stops) callbacks.stops(without);
  };
  tell(true);
  SolveResult led = SolveWithoutStops(task, problem, guess, callbacks.iteration);
  if (led.status == SolveStatus::kDiverged) {
    tell(false);
    out->result = SolveFrom(task, problem, guess, task.constrained, callbacks, out);
    return;
  }
  led.initial_cost = Look(task, problem, guess.U, task.constrained).initial_cost;
  Problem from = problem;
  if (HasFreeStart(from)) from.free_start.guess = led.trajectory.X.col(0);
  ConstrainedOptions constrained = task.constrained;
  constrained.multipliers = led.multipliers;
  SolveResult there = Look(task, from, led.trajectory.U, constrained);
  const bool moves = there.status != SolveStatus::kDiverged, interrupted = led.status == SolveStatus::kInterrupted;

  // a motion that meets no stop is the true model's
  const bool true_motion = moves && there.trajectory.X == led.trajectory.X;
  const bool kept = led.violation <= task.constrained.tolerance;
  const bool over = led.status == SolveStatus::kConverged || led.status == SolveStatus::kInfeasible ||
                    (led.status == SolveStatus::kStalled && kept);
  const bool plain = MayBeOneSolve(task.hopping);
  if (true_motion && (interrupted || (over && plain))) {
    EndWithoutStops(task, problem, std::move(led), guess, callbacks, out);
    return;
  }
  led.message = "without the model's limits: " + led.message;
  std::vector<IterationRecord> records = led.iterations;
  const IterationCallback counted = CountOn(&records, callbacks.iteration);
  TaskCallbacks then = callbacks;
  then.iteration = [&](const IterationRecord& record) { return counted(record) && !interrupted; };
  tell(false);
  out->result = kept ? SolveFrom(task, from, {{}, led.trajectory.U}, constrained, then, out)
                     : SolveFrom(task, problem, guess, task.constrained, then, out);
  PutBehind(led, std::move(records), &out->result);
  const bool lost = out->result.status == SolveStatus::kDiverged;
  if (moves && (lost || MeritOf(there, task.constrained.tolerance) < MeritOf(out->result, task.constrained.tolerance)))
    TakeInstead(std::move(there), task.constrained.tolerance, &out->result);
}

// lengths are tried on the true model, from where the smoothed way has led at that of the horizon
void SolveTimed(const Task& task, const Problem& problem, const Guess& guess, const TaskCallbacks& callbacks,
                TaskSolution* out) {
  const BasinHoppingCallback round = [&](const BasinHoppingRound& done) {
    out->rounds.push_back(done);
    if (callbacks.round) callbacks.round(done);
  };
  const FreeTimeState* state = task.time_state.state_time > 0 ? &task.time_state : nullptr;
  Problem from = problem;
  const auto search = [&](ConstMatrixRef U, const ConstrainedOptions& constrained, const IterationCallback& callback) {
    out->timed = SolveFreeTime(from, U, task.solver, constrained, task.free_time, callback, state, task.hopping, round);
  };
  if (!task.continuation.smooth.any()) {
    search(guess.U, task.constrained, callbacks.iteration);
  } else {
    const SolveResult led = SolveSmoothed(task, problem, guess, callbacks, &out->stages);
    const bool moves = led.status != SolveStatus::kDiverged;
    ConstrainedOptions constrained = task.constrained;
    if (moves) constrained.multipliers = led.multipliers;
    if (moves && HasFreeStart(from)) from.free_start.guess = led.trajectory.X.col(0);
    std::vector<IterationRecord> records = led.iterations;
    const IterationCallback counted = CountOn(&records, callbacks.iteration);
    search(moves ? led.trajectory.U : guess.U, constrained,
           [&](const IterationRecord& record) { return counted(record) && led.status != SolveStatus::kInterrupted; });
    PutBehind(led, std::move(records), &out->timed.result);
  }
  out->result = std::move(out->timed.result);
}

// all the slopes that there are may be zero, and most of the cost still be where it was
void SayUntouched(const Problem& problem, TaskSolution* out) {
  out->untouched = UntouchedTerms(problem, out->result.trajectory);
  if (out->untouched.empty()) return;
  SolveResult& result = out->result;
  result.status = SolveStatus::kStalled;
  result.message = fmt::format("no control changes '{}' along this motion to first order; {}",
                               fmt::join(out->untouched, "', '"), result.message);
}

}  // namespace

TaskSolution SolveTask(const Task& task, const Problem& problem, const Guess& guess, const TaskCallbacks& callbacks) {
  TaskSolution out;
  if (task.free_time.longest > 0) {
    SolveTimed(task, problem, guess, callbacks, &out);
  } else if (task.continuation.smooth.any()) {
    out.result = SolveSmoothed(task, problem, guess, callbacks, &out.stages);
    const SolveStatus status = out.result.status;
    const bool over = status == SolveStatus::kDiverged || status == SolveStatus::kInterrupted;
    if (!over && !IsEnough(task.hopping, problem, out.result)) HopOn(task, problem, callbacks, &out);
  } else if (!task.stops.empty() && !guess.state) {
    SolveBeyondStops(task, problem, guess, callbacks, &out);
  } else {
    out.result = SolveFrom(task, problem, guess, task.constrained, callbacks, &out);
  }
  if (out.result.status == SolveStatus::kConverged && !out.timed.model) SayUntouched(problem, &out);
  return out;
}

TaskSolution SolveTask(const Task& task, const TaskCallbacks& callbacks) {
  const Problem problem = task.ToProblem();
  Guess guess = task.ToGuess();
  if (task.sampling.iterations > 0) {
    bool goes_on = true;
    SamplingResult sampled = SampleControls(problem, guess.U, task.ToSampling(), [&](int round, double cost) {
      return goes_on = !callbacks.sampling || callbacks.sampling(round, cost);
    });
    if (callbacks.sampled) callbacks.sampled(sampled);
    guess.U = std::move(sampled.U);
    if (!goes_on) {
      TaskCallbacks end = callbacks;
      end.iteration = [&](const IterationRecord& record) {
        if (callbacks.iteration) callbacks.iteration(record);
        return false;
      };
      return SolveTask(task, problem, guess, end);
    }
  }
  return SolveTask(task, problem, guess, callbacks);
}

}  // namespace costate
