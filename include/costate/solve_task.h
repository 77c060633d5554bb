// A task solved as it says: from sampled controls, by way of smoother contact, over free time, beyond the nearest
// minimum.
#ifndef COSTATE_SOLVE_TASK_H_
#define COSTATE_SOLVE_TASK_H_

#include <functional>
#include <vector>

#include <costate/task.h>

namespace costate {

/// What is told on the way; any may be empty.
struct TaskCallbacks {
  SamplingCallback sampling{};  ///< after each round of a sampled start; false ends it, and the solve where it begins
  std::function<void(const SamplingResult&)> sampled{};  ///< once, before the first iteration
  IterationCallback iteration{};
  StageCallback stage{};         ///< of <smooth>
  BasinHoppingCallback round{};  ///< of <hopping>
  /// Before a solve without the stops that <limit> keeps off (true), and before one on the true model behind it
  /// (false).
  std::function<void(bool without)> stops{};
};

struct TaskSolution {
  SolveResult result;                     ///< its iterations are all of them
  std::vector<ContinuationStage> stages;  ///< of <smooth>: "the task as it is", where <hopping> has rounds; others
  std::vector<BasinHoppingRound> rounds;  ///< of <hopping>; with <time> of all lengths, one after the other
  FreeTimeResult timed;                   ///< of <time>, without its result; no model without
  /// Terms of a tenth of the cost or more that no control changes to first order, where the solve would else have
  /// converged: a box that nothing touches. The result's status is kStalled then. Not looked for with <time>.
  std::vector<std::string> untouched{};
};

/// Minimizes the task's cost as `costate optimize` does. With <smooth> the task is solved without it first, which is
/// the first of the stages; then comes SolveContinuation, and <hopping> goes on from where that has led, on the true
/// model, where it stalls and costs no more than twice the first motion, each with solver.iterations of its own: the
/// result is the best of all. With <time> each length that is tried has <hopping>. Joints that <limit> keeps off the
/// model's own limits are solved without these first, with solver.iterations of its own, but with <time>; where that
/// motion, on the true model, is the better one in the end, it is the result.
///
/// With <time> and <smooth> lengths are tried on the true model, from where <smooth> has led at that of the horizon.
/// @throws as SampleControls, SolveContinuation, SolveBasinHopping, SolveFreeTime and Solve; and what a callback
/// throws, which ends the solve.
TaskSolution SolveTask(const Task& task, const TaskCallbacks& callbacks = {});

/// The same from a guess that needs no sampling, of a problem that may be another than the task's own: a plan's.
TaskSolution SolveTask(const Task& task, const Problem& problem, const Guess& guess,
                       const TaskCallbacks& callbacks = {});

}  // namespace costate

#endif  // COSTATE_SOLVE_TASK_H_
