#include <costate/mpc.h>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "core/extremes.h"
#include "core/lap.h"
#include "optimizer/checked_constraint.h"
#include "optimizer/mpc_run.h"
#include "optimizer/solver_checks.h"

namespace costate {
namespace {

constexpr double kMostIntervals = 1e9;  // as good as never
constexpr double kMostKnots = 1e6;      // of a plan: beyond any that could be made
constexpr double kMostIterations =
    20;  // of a plan whose task does not say: what has not converged by then rather begins anew

// what the plans would not keep
void RefuseTask(const Task& task) {
  if (!task.free_start.entries.empty()) {
    throw Error(ErrorCode::kUnsupported, "MPC: <start free=\"…\"> lets the start move, and a robot is where it is");
  }
  if (task.free_time.longest > 0) {
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format(
            "MPC: <time> leaves the length of the motion open between {:g} and {:g} s, plans have a fixed horizon",
            task.free_time.shortest, task.free_time.longest));
  }
  for (int i = 0; i < task.constraints.size(); ++i) {
    const ConstraintInfo& info = task.constraints[i].info();
    if (!info.periodic) continue;
    throw Error(ErrorCode::kUnsupported, fmt::format("MPC: <periodic> '{}' ties the end of the motion to the task's "
                                                     "start, and plans begin elsewhere, at any phase "
                                                     "of the period",
                                                     info.name));
  }
}

// options out of their range
void CheckRanges(const Task& task, const MpcSimulation& s) {
  const OptionCheck need("MPC: ");
  const MpcOptions& o = task.mpc;
  const auto zero_or_more = [&](const char* name, double value) {
    need(value >= 0 && std::isfinite(value), name, value, "finite and 0 or more");
  };
  zero_or_more("horizon", o.horizon);
  zero_or_more("estimate", o.estimate);
  zero_or_more("timestep", o.timestep);
  zero_or_more("rate", o.rate);
  zero_or_more("budget", o.budget);
  zero_or_more("noise of positions", s.noise_position);
  zero_or_more("noise of velocities", s.noise_velocity);
  need(!std::isnan(s.latency) && s.latency < 1e6, "latency", s.latency, "finite");
  need(o.iterations >= 0, "iterations", o.iterations, "0 or more");
  const double control_time = task.substeps * task.model->opt.timestep;
  need(s.duration >= 0.5 * control_time && s.duration < 1e7 * control_time, "duration", s.duration,
       "at least one control interval and at most ten million");
  need(o.delay <= s.duration, "delay", o.delay, fmt::format("within the duration of {:g} s", s.duration).c_str());
  const double knot_time = o.timestep > 0 ? task.substeps * o.timestep : control_time;
  const double horizon = o.horizon > 0 ? o.horizon : task.N * control_time;
  need(horizon >= 0.5 * knot_time && horizon <= kMostKnots * knot_time, "horizon", horizon,
       fmt::format("one to a million knots of {:g} s", knot_time).c_str());
  const mjtSize bodies = (s.plant ? s.plant : task.model.get())->nbody;
  for (const MpcPush& push : s.pushes) {
    need(push.body > 0 && push.body < bodies, "the body of a push", push.body, "a body of the model");
    for (const double f : push.force) need(std::isfinite(f), "the force of a push", f, "finite");
    need(push.begin >= 0 && push.begin < s.duration, "the begin of a push", push.begin,
         fmt::format("within the duration of {:g} s", s.duration).c_str());
    need(push.end > push.begin, "the end of a push", push.end,
         fmt::format("after its begin at {:g} s", push.begin).c_str());
  }
}

}  // namespace

const char* ToString(MpcEventKind kind) {
  switch (kind) {
    case MpcEventKind::kLate: return "late";
    case MpcEventKind::kDiverged: return "diverged";
    case MpcEventKind::kExhausted: return "exhausted";
    case MpcEventKind::kOverBudget: return "over budget";
  }
  return "unknown";
}

const char* ToString(MpcFallback fallback) {
  switch (fallback) {
    case MpcFallback::kPlan: return "plan";
    case MpcFallback::kHold: return "hold";
    case MpcFallback::kDamp: return "damp";
  }
  return "unknown";
}

double MpcResult::Latency(double quantile) const {
  if (latency.empty()) return 0;
  std::vector<double> sorted = latency;
  std::sort(sorted.begin(), sorted.end());
  const double at = std::ceil(std::clamp(quantile, 0.0, 1.0) * static_cast<double>(sorted.size())) - 1;
  return sorted[static_cast<std::size_t>(std::max(at, 0.0))];
}

MpcGoals::MpcGoals(const Task& task) {
  for (const GoalPlace& goal : MovablePlaces(task)) places_.emplace_back(goal.place[0], goal.place[1], goal.place[2]);
}

Eigen::Vector3d MpcGoals::Place(int i) const {
  if (i < 0 || i >= size())
    throw Error(ErrorCode::kInvalidArgument, fmt::format("MPC: goal {} of a task that has {}", i, size()));
  const std::lock_guard<std::mutex> lock(mutex_);
  return places_[static_cast<std::size_t>(i)];
}

void MpcGoals::Move(int i, const Eigen::Vector3d& place) {
  const Eigen::Vector3d before = Place(i), now = before.array().isNaN().select(before, place);
  if ((now.array().isNaN() != before.array().isNaN()).any() || now.array().isInf().any())
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("MPC: goal {} is moved to {:g} {:g} {:g}, expected finite numbers", i, place[0], place[1],
                            place[2]));
  const std::lock_guard<std::mutex> lock(mutex_);
  places_[static_cast<std::size_t>(i)] = now;
  moved_ = true;
}

bool MpcGoals::moved() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return moved_;
}

int MpcRun::Intervals(double seconds) const {
  return static_cast<int>(std::min(std::ceil(seconds / plant.control_time() - 1e-6), kMostIntervals));
}

// how well the robot kept the constraints, beside how its plans did; worst first
void JudgeMotion(const Task& task, std::vector<MpcConstraintReport>* reports, const Trajectory& motion) {
  if (reports->empty()) return;
  const double control_time = task.substeps * task.model->opt.timestep;
  MpcConstraints constraints(task);
  constraints.PlaceMotion(control_time, motion.N());
  std::vector<ConstraintReport> worst = CheckConstraints(constraints.set(), motion, control_time);
  VectorXd c;
  for (int i = 0; i < constraints.size(); ++i) {
    MpcConstraintReport& report = (*reports)[static_cast<std::size_t>(i)];
    report.motion = std::move(worst[static_cast<std::size_t>(i)]);
    const Constraint& constraint = constraints.set()[i];
    const ConstraintInfo& info = constraint.info();
    report.violation_per_knot.setZero(motion.N() + 1);
    for (int t = 0; t <= motion.N(); ++t) {
      if (!constraint.IsAt(t, motion.N())) continue;
      ConstraintValue(constraint, ViewKnot(motion, t, control_time), &c);
      report.violation_per_knot[t] = LargestViolation(info, c);
    }
    report.violated = static_cast<int>((report.violation_per_knot.array() > task.constrained.tolerance).count());
  }
  std::stable_sort(reports->begin(), reports->end(), [](const MpcConstraintReport& a, const MpcConstraintReport& b) {
    return a.motion.relative > b.motion.relative;
  });
}

int MpcRun::Iterations(double period) const {
  if (task.mpc.iterations > 0) return task.mpc.iterations;
  return static_cast<int>(std::clamp(std::floor(period / planner.knot_time() + 1e-6), 1.0, kMostIterations));
}

void MpcRun::CheckBudget(double now, int number, double seconds) {
  const double budget = task.mpc.budget;
  if (budget == 0 || seconds <= budget) return;
  ++result.plans_over_budget;
  result.events.push_back({now, MpcEventKind::kOverBudget,
                           fmt::format("plan {} took {:.3g} ms, {:.3g} ms beyond its budget of {:.3g} ms", number,
                                       1e3 * seconds, 1e3 * (seconds - budget), 1e3 * budget)});
}

bool MpcRun::Advance(const MpcMeasurement& measured, int i) {
  const VectorXd& u = control.At(measured.time, measured);
  disturbance.Acts(u);
  if (!plant.Step(u)) return false;
  if (simulation.watch) simulation.watch(plant.data());
  if (callback && !callback(i + 1)) {
    result.interrupted = true;
    return false;
  }
  return true;
}

void RunLockStep(MpcRun* run) {
  const MpcOptions& mpc = run->task.mpc;
  const double h = run->plant.control_time();
  const int every = mpc.rate > 0 ? std::max(1, run->Intervals(1 / mpc.rate)) : 1;
  const int delay = run->Intervals(std::max(mpc.delay, 0.0));
  const int latency = run->simulation.latency < 0 ? delay : run->Intervals(run->simulation.latency);
  const double budget = mpc.budget > 0 ? mpc.budget : kInf;

  // one plan at a time: the next one waits for the last
  const double periods = std::max(1.0, std::ceil(static_cast<double>(latency) / every));
  const int iterations = run->result.plan_iterations = run->Iterations(periods * every * h);

  // the plan on its way
  MpcPlanPtr plan;
  int due = -1, arrives = -1, number = 0;
  const auto take_at = [&](int i, double now) {
    if (arrives != i) return;
    run->control.Take(std::move(plan), number, now, run->planner.reason());
    arrives = -1;
  };
  for (int i = 0; i < run->steps; ++i) {
    MpcMeasurement measured = run->plant.Measure();
    run->disturbance.Measured(&measured);
    take_at(i, measured.time);  // before another plan begins, which may be now
    if (i > 0 && i % every == 0 && arrives < 0) {
      Clock::time_point start = Clock::now();
      due = i + delay;
      arrives = i + latency;
      plan = run->planner.Next(measured, due * h, run->control.book(), iterations, budget);
      run->result.latency.push_back(Lap(&start));
      number = ++run->result.plans;
      run->CheckBudget(measured.time, number, run->result.latency.back());
      take_at(i, measured.time);  // it took no time
    }
    if (arrives > i && due == i) {
      run->control.SetLate(measured.time,
                           fmt::format("plan {} was due, and takes {:.4g} s longer", number, (arrives - due) * h));
    }
    if (!run->Advance(measured, i)) return;
  }
}

void CheckMpc(const Task& task, const MpcSimulation& simulation) {
  NotNull(task.model.get());
  RefuseTask(task);
  CheckRanges(task, simulation);
  CheckPlant(task, simulation);
}

MpcResult RunMpc(const Task& task, const MpcSimulation& simulation, const MpcCallback& callback,
                 const IterationCallback& first) {
  CheckMpc(task, simulation);
  const double control_time = task.substeps * task.model->opt.timestep;
  const int steps = static_cast<int>(std::lround(simulation.duration / control_time));
  MpcRun run(task, simulation, callback, steps);
  bool stopped = false;
  MpcResult& result = run.result;
  MpcPlanPtr plan = run.planner.First(
      [&](const IterationRecord& record) {
        stopped = stopped || (callback && !callback(0)) || (first && !first(record));
        return !stopped;
      },
      &result);
  result.interrupted = stopped;
  if (!plan) {
    run.plant.Finish(&result);
    result.cost_per_knot.setZero(1);
    return std::move(result);
  }
  run.control.Take(std::move(plan), 0, 0, "");
  Clock::time_point start = Clock::now();
  if (!stopped) simulation.threads ? RunThreads(&run) : RunLockStep(&run);
  result.seconds = Lap(&start);
  result.fallback_steps = run.control.fallback_steps();
  run.plant.Finish(&result);
  result.unknown_force = run.disturbance.force();
  result.plans_taken = run.control.plans_taken();
  result.constraints = run.control.constraints();
  JudgeMotion(task, &result.constraints, result.trajectory);

  // the task's running cost of what was done
  const int N = result.trajectory.N();
  result.cost_per_knot.setZero(N + 1);
  for (int t = 0; t < N; ++t) {
    KnotView knot = ViewKnot(result.trajectory, t, control_time).ShiftedBy(t * control_time);
    knot.t = 0;
    knot.N = task.N;
    result.cost_per_knot[t] = task.cost->Value(knot);
  }
  result.cost_per_step = N > 0 ? result.cost_per_knot.sum() / N : 0;
  return std::move(result);
}

}  // namespace costate
