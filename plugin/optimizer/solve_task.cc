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

bool Roll(const Problem& problem, const VectorXd& start, const MatrixXd& U, Trajectory* motion) {
  Simulator simulator(problem.model, problem.context, problem.substeps, 1);
  const Eigen::Index N = U.cols();
  const MatrixXd held = U.cwiseMax(problem.u_lower.replicate(1, N)).cwiseMin(problem.u_upper.replicate(1, N));
  return simulator.Rollout(start, held, motion).ok();
}

SolveResult SolveFrom(const Task& task, const Problem& problem, const Guess& guess,
                      const ConstrainedOptions& constrained, const TaskCallbacks& callbacks, TaskSolution* out) {
  if (task.hopping.rounds == 0) return Solve(problem, guess, task.solver, callbacks.iteration, constrained);
  BasinHoppingResult found =
      SolveBasinHopping(problem, guess, task.solver, task.hopping, callbacks.iteration, constrained, callbacks.round);
  out->rounds = std::move(found.rounds);
  return std::move(found.result);
}

// on the true model, from where the solve without stops has led where that keeps all constraints
void SolveBeyondStops(const Task& task, const Problem& problem, const Guess& guess, const TaskCallbacks& callbacks,
                      TaskSolution* out) {
  SolveResult led = SolveWithoutStops(task, problem, guess, callbacks.iteration);
  Trajectory motion;
  if (Roll(problem, FirstStart(problem), guess.U, &motion))
    led.initial_cost = TotalCost(*problem.cost, motion, problem.substeps * problem.model->opt.timestep);
  const bool kept = led.status != SolveStatus::kDiverged && led.violation <= task.constrained.tolerance;

  // a motion that meets no stop is the true model's
  const bool true_motion =
      kept && Roll(problem, led.trajectory.X.col(0), led.trajectory.U, &motion) && motion.X == led.trajectory.X;
  const bool ended = led.status == SolveStatus::kConverged || led.status == SolveStatus::kInterrupted;
  if (true_motion && ended && (task.hopping.rounds == 0 || task.hopping.after_stall)) {
    out->result = std::move(led);
    return;
  }
  Problem from = problem;
  ConstrainedOptions constrained = task.constrained;
  if (kept) constrained.multipliers = led.multipliers;
  if (kept && HasFreeStart(from)) from.free_start.guess = led.trajectory.X.col(0);
  std::vector<IterationRecord> records = led.iterations;
  const IterationCallback counted = CountOn(&records, callbacks.iteration);
  TaskCallbacks then = callbacks;
  then.iteration = [&](const IterationRecord& record) {
    return counted(record) && led.status != SolveStatus::kInterrupted;
  };
  out->result = SolveFrom(task, from, kept ? Guess{{}, led.trajectory.U} : guess, constrained, then, out);
  led.message = "without the model's limits: " + led.message;
  PutBehind(led, std::move(records), &out->result);
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
  } else if (!task.stops.empty() && !guess.state) {
    SolveBeyondStops(task, problem, guess, callbacks, &out);
  } else {
    out.result = SolveFrom(task, problem, guess, task.constrained, callbacks, &out);
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
