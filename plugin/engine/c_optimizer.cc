// The C interface to policies and tasks. Nothing throws or prints past it.
#include <costate/costate_c.h>
#include <costate/policy.h>
#include <costate/slope_check.h>
#include <costate/solve_task.h>
#include <costate/state.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "core/check.h"
#include "engine/c_call.h"
#include "engine/python_callbacks.h"
#include "engine/two_engines.h"

struct costate_policy {
  costate::NetworkPolicy law;
};

struct costate_task {
  costate::Task task;
};

namespace costate {
namespace {

using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

static_assert(COSTATE_CONVERGED == static_cast<int>(SolveStatus::kConverged) &&
              COSTATE_ITERATION_LIMIT == static_cast<int>(SolveStatus::kIterationLimit) &&
              COSTATE_STALLED == static_cast<int>(SolveStatus::kStalled) &&
              COSTATE_DIVERGED == static_cast<int>(SolveStatus::kDiverged) &&
              COSTATE_INTERRUPTED == static_cast<int>(SolveStatus::kInterrupted) &&
              COSTATE_INFEASIBLE == static_cast<int>(SolveStatus::kInfeasible) &&
              COSTATE_TIME_LIMIT == static_cast<int>(SolveStatus::kTimeLimit));

void WriteControl(const NetworkPolicy& law, const mjData* d, mjtNum* u, mjtNum* u_x, mjtNum* u_s) {
  const mjModel* m = law.model();
  const Dims dims(m);
  const VectorXd x = GetState(m, d), s = Eigen::Map<const VectorXd>(d->sensordata, dims.ns);
  if (!std::isfinite(d->time)) throw Error(ErrorCode::kInvalidArgument, "the time in d is not finite");
  const FeedbackInput in{law.KnotAt(d->time), d->time, x, s};
  if (!x.allFinite()) throw Error(ErrorCode::kInvalidArgument, "the state in d is not finite");
  if (law.NeedsSensors() && !s.allFinite()) throw Error(ErrorCode::kInvalidArgument, "sensordata in d is not finite");
  VectorXd control(dims.nu), w(law.weights());
  MatrixXd by_x = MatrixXd::Zero(dims.ndx, dims.nu), by_s = MatrixXd::Zero(dims.ns, dims.nu);
  law.Control(in, control);
  for (int i = 0; i < dims.nu && (u_x || u_s); i++) {
    FeedbackGradient slopes{by_x.col(i), by_s.col(i), w};
    law.PullBack(in, VectorXd::Unit(dims.nu, i), &slopes);
  }
  CheckFinite(m, "the law's control at this state", control, ControlNames);
  if (!by_x.allFinite() || !by_s.allFinite())
    throw Error(ErrorCode::kInvalidArgument, "a slope of the law at this state is not finite");
  // transposed columns are rows
  if (u) Eigen::Map<VectorXd>(u, dims.nu) = control;
  if (u_x) Eigen::Map<MatrixXd>(u_x, dims.ndx, dims.nu) = by_x;
  if (u_s) Eigen::Map<MatrixXd>(u_s, dims.ns, dims.nu) = by_s;
}

void CheckSolveOptions(const costate_solve_options& options) {
  const auto check = [](const char* name, int value, int least, const char* zero) {
    if (value >= least) return;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("options.{} is {}, expected at least {}; 0: {}", name, value, least, zero));
  };
  check("iterations", options.iterations, 0, "as many as the task says");
  check("threads", options.threads, 0, "as many as the task says");
  check("hops", options.hops, -1, "as the task says");
}

// what one call changes of a task, put back at its end
class TaskOptions {
 public:
  TaskOptions(costate_task* task, const costate_solve_options& options)
      : task_(task->task), solver_(task_.solver), hopping_(task_.hopping) {
    if (options.iterations > 0) task_.solver.iterations = options.iterations;
    if (options.threads > 0) task_.solver.threads = options.threads;
    if (options.hops == 0) return;
    task_.hopping.rounds = std::max(options.hops, 0);
    task_.hopping.after_solve = true;
    task_.hopping.when_stuck = false;
  }
  ~TaskOptions() {
    task_.solver = solver_;
    task_.hopping = hopping_;
  }
  const Task& task() const { return task_; }

 private:
  Task& task_;
  IlqrOptions solver_;
  BasinHoppingOptions hopping_;
};

void WriteMotion(const Task& task, const SolveResult& found, mjtNum* X, mjtNum* U, mjtNum* K) {
  const Dims dims(task.model.get());
  if (X) Eigen::Map<MatrixXd>(X, dims.nx, task.N + 1) = found.trajectory.X;  // a knot a row
  if (U) Eigen::Map<MatrixXd>(U, dims.nu, task.N) = found.trajectory.U;
  for (int t = 0; t < task.N && K; t++) {
    Eigen::Map<RowMatrix>(K + static_cast<Eigen::Index>(t) * dims.nu * dims.ndx, dims.nu, dims.ndx) =
        found.policy.K[static_cast<std::size_t>(t)];
  }
}

// returns the solver's sentence
std::string SolveTaskOf(costate_task* task, const costate_solve_options* given, costate_solve_result* result, mjtNum* X,
                        mjtNum* U, mjtNum* K) {
  const costate_solve_options options = given ? *given : costate_solve_options{};
  CheckSolveOptions(options);
  const TaskOptions with(task, options);
  TaskCallbacks callbacks;
  if (options.progress) {
    callbacks.iteration = [&](const IterationRecord& record) {
      return options.progress(options.user, record.iteration, record.cost, record.violation) == 0;
    };
  }
  const TaskSolution solution = SolveTask(with.task(), callbacks);
  const SolveResult& found = solution.result;
  if (found.status == SolveStatus::kDiverged) throw Error(ErrorCode::kInvalidArgument, found.message);
  WriteMotion(with.task(), found, X, U, K);
  if (!result) return found.message;
  const mjModel* m = solution.timed.model ? solution.timed.model.get() : with.task().model.get();
  *result = {static_cast<int>(found.status),
             static_cast<int>(found.iterations.size()),
             found.cost,
             found.initial_cost,
             found.violation,
             m->opt.timestep};
  return found.message;
}

}  // namespace
}  // namespace costate

costate_policy* costate_load_policy(const mjModel* m, const char* file, char* error, int error_sz) {
  costate_policy* policy = nullptr;
  costate::CallFromC(error, error_sz, [&] {
    costate::RefuseTwoEngines();
    costate::RefuseNull(m, "m");
    costate::RefuseNull(file, "file");
    policy = new costate_policy{costate::LoadPolicy(m, file)};
  });
  return policy;
}

void costate_delete_policy(costate_policy* policy) { delete policy; }

mjtNum costate_policy_interval(const costate_policy* policy) { return policy ? policy->law.knot_time() : 0; }

int costate_policy_control(const costate_policy* policy, const mjData* d, mjtNum* u, mjtNum* u_x, mjtNum* u_s,
                           char* error, int error_sz) {
  return costate::CallFromC(error, error_sz, [&] {
    costate::RefuseNull(policy, "policy");
    costate::RefuseNull(d, "d");
    costate::WriteControl(policy->law, d, u, u_x, u_s);
  });
}

costate_task* costate_load_task(const char* file, char* error, int error_sz) {
  costate_task* task = nullptr;
  costate::SimulateFromC("costate_load_task", error, error_sz, [&] {
    costate::RefuseTwoEngines();
    costate::RefuseNull(file, "file");
    costate::RefusePythonCallbacks();
    task = new costate_task{costate::LoadTask(file)};
  });
  return task;
}

void costate_delete_task(costate_task* task) { delete task; }

const mjModel* costate_task_model(const costate_task* task) { return task ? task->task.model.get() : nullptr; }

int costate_task_intervals(const costate_task* task) { return task ? task->task.N : 0; }

int costate_task_substeps(const costate_task* task) { return task ? task->task.substeps : 0; }

int costate_check_slopes(costate_task* task, char* error, int error_sz) {
  constexpr int kDoNotFit = 1, kNotCompared = 2;
  bool agrees = false;
  const int failed = costate::SimulateFromC("costate_check_slopes", error, error_sz, [&]() -> std::string {
    costate::RefuseNull(task, "task");
    costate::RefusePythonCallbacks();
    const costate::SlopeCheck check = costate::CheckSlopes(task->task.ToProblem(), task->task.U_guess);
    if (check.judged == 0) throw costate::Error(costate::ErrorCode::kInvalidArgument, check.Text());
    agrees = check.agrees();
    return agrees ? "" : check.Text();
  });
  return failed ? kNotCompared : agrees ? 0 : kDoNotFit;
}

int costate_solve_task(costate_task* task, const costate_solve_options* options, costate_solve_result* result,
                       mjtNum* X, mjtNum* U, mjtNum* K, char* error, int error_sz) {
  return costate::SimulateFromC("costate_solve_task", error, error_sz, [&] {
    costate::RefuseNull(task, "task");
    costate::RefusePythonCallbacks();
    return costate::SolveTaskOf(task, options, result, X, U, K);
  });
}
