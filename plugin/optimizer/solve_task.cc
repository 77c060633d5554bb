#include <costate/solve_task.h>

#include <utility>

namespace costate {
namespace {

// kicks from where the smoothed way has led, its records before theirs
void HopOn(const Task& task, const Problem& problem, const TaskCallbacks& callbacks, TaskSolution* out) {
  SolveResult& led = out->result;
  ConstrainedOptions constrained = task.constrained;
  constrained.multipliers = led.multipliers;
  std::vector<IterationRecord> records = std::move(led.iterations);
  const auto before = static_cast<int>(records.size());
  const IterationCallback numbered = [&](const IterationRecord& record) {
    records.push_back(record);
    records.back().iteration += before;
    return !callbacks.iteration || callbacks.iteration(records.back());
  };
  BasinHoppingResult found = SolveBasinHopping(problem, {{}, led.trajectory.U}, task.solver, task.hopping, numbered,
                                               constrained, callbacks.round);
  found.result.message = led.message + "; then " + found.result.message;
  found.result.initial_cost = led.initial_cost;
  found.result.iterations = std::move(records);
  out->result = std::move(found.result);
  out->rounds = std::move(found.rounds);
}

}  // namespace

TaskSolution SolveTask(const Task& task, const Problem& problem, const Guess& guess, const TaskCallbacks& callbacks) {
  TaskSolution out;
  if (task.free_time.longest > 0) {
    if (task.continuation.smooth.any())
      throw Error(ErrorCode::kUnsupported, "<time> and <smooth> are not supported together yet");
    const BasinHoppingCallback round = [&](const BasinHoppingRound& done) {
      out.rounds.push_back(done);
      if (callbacks.round) callbacks.round(done);
    };
    out.timed = SolveFreeTime(problem, guess.U, task.solver, task.constrained, task.free_time, callbacks.iteration,
                              task.time_state.state_time > 0 ? &task.time_state : nullptr, task.hopping, round);
    out.result = std::move(out.timed.result);
    return out;
  }
  if (task.continuation.smooth.any()) {
    ContinuationOptions continuation = task.continuation;
    continuation.constrained = task.constrained;
    ContinuationResult found =
        SolveContinuation(problem, guess.U, task.solver, continuation, callbacks.iteration, callbacks.stage);
    out.result = std::move(found.result);
    out.result.message += "; " + found.message;
    out.stages = std::move(found.stages);
    const SolveStatus status = out.result.status;
    const bool over = status == SolveStatus::kDiverged || status == SolveStatus::kInterrupted;
    if (task.hopping.rounds > 0 && !over) HopOn(task, problem, callbacks, &out);
    return out;
  }
  if (task.hopping.rounds > 0) {
    BasinHoppingResult found = SolveBasinHopping(problem, guess, task.solver, task.hopping, callbacks.iteration,
                                                 task.constrained, callbacks.round);
    out.result = std::move(found.result);
    out.rounds = std::move(found.rounds);
    return out;
  }
  out.result = Solve(problem, guess, task.solver, callbacks.iteration, task.constrained);
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
