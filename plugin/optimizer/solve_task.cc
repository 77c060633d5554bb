#include <costate/solve_task.h>

#include <utility>

#include "optimizer/free_start.h"
#include "optimizer/stuck.h"

namespace costate {
namespace {

// a callback that keeps records and counts on from those that there are; both must outlive it
IterationCallback CountOn(std::vector<IterationRecord>* records, const IterationCallback& callback) {
  return [records, before = static_cast<int>(records->size()), &callback](const IterationRecord& record) {
    records->push_back(record);
    records->back().iteration += before;
    return !callback || callback(records->back());
  };
}

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
  BasinHoppingResult found = SolveBasinHopping(from, {{}, led.trajectory.U}, task.solver, task.hopping,
                                               CountOn(&records, callbacks.iteration), constrained, callbacks.round);
  PutBehind(led, std::move(records), &found.result);
  out->result = std::move(found.result);
  out->rounds = std::move(found.rounds);
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

}  // namespace

TaskSolution SolveTask(const Task& task, const Problem& problem, const Guess& guess, const TaskCallbacks& callbacks) {
  TaskSolution out;
  if (task.free_time.longest > 0) {
    SolveTimed(task, problem, guess, callbacks, &out);
  } else if (task.continuation.smooth.any()) {
    out.result = SolveSmoothed(task, problem, guess, callbacks, &out.stages);
    const SolveStatus status = out.result.status;
    const bool over = status == SolveStatus::kDiverged || status == SolveStatus::kInterrupted;
    const bool enough = task.hopping.after_stall && !IsStuck(out.result);
    if (task.hopping.rounds > 0 && !over && !enough) HopOn(task, problem, callbacks, &out);
  } else if (task.hopping.rounds > 0) {
    BasinHoppingResult found = SolveBasinHopping(problem, guess, task.solver, task.hopping, callbacks.iteration,
                                                 task.constrained, callbacks.round);
    out.result = std::move(found.result);
    out.rounds = std::move(found.rounds);
  } else {
    out.result = Solve(problem, guess, task.solver, callbacks.iteration, task.constrained);
  }
  return out;
}

TaskSolution SolveTask(const Task& task, const TaskCallbacks& callbacks) {
  const Problem problem = task.ToProblem();
  Guess guess = task.ToGuess();
  if (task.sampling.iterations > 0) {
    SamplingResult sampled = SampleControls(problem, guess.U, task.sampling);
    if (callbacks.sampled) callbacks.sampled(sampled);
    guess.U = std::move(sampled.U);
  }
  return SolveTask(task, problem, guess, callbacks);
}

}  // namespace costate
