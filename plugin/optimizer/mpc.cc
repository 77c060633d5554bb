#include <costate/mpc.h>

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "core/check.h"
#include "core/engine_guard.h"
#include "core/lap.h"
#include "optimizer/checked_constraint.h"
#include "optimizer/goal_slots.h"
#include "optimizer/mpc_driver.h"
#include "optimizer/mpc_plant.h"
#include "optimizer/solver_checks.h"

namespace costate {
namespace {

// options out of their range
void CheckRanges(const Task& task, const MpcSimulation& s) {
  const OptionCheck need("MPC: ");
  need.ZeroOrMore("noise of positions", s.noise_position);
  need.ZeroOrMore("noise of velocities", s.noise_velocity);
  const double control_time = task.knot_time();
  need(s.duration >= 0.5 * control_time && s.duration < 1e7 * control_time, "duration", s.duration,
       "at least one control interval and at most ten million");
  need(task.mpc.delay <= s.duration, "delay", task.mpc.delay,
       fmt::format("within the duration of {:g} s", s.duration).c_str());
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

// how well the robot kept the constraints, beside how its plans did; worst first
void JudgeMotion(const Task& task, std::vector<MpcConstraintReport>* reports, const Trajectory& motion) {
  if (reports->empty()) return;
  const double control_time = task.knot_time();
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

// until its time is over, it cannot be simulated any more or the callback has it end
void Move(const MpcSimulation& simulation, const MpcCallback& callback, MpcDriver* driver, MpcPlant* plant,
          bool* interrupted) {
  const std::unique_ptr<MpcSchedule> schedule =
      simulation.threads ? MakePlannerThread(driver, plant->Measure()) : MakeLockStep(driver, simulation.latency);
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < plant->steps(); ++i) {
    if (!plant->Step(Drive(driver, schedule.get(), plant->Measure()))) return;
    if (simulation.watch) simulation.watch(plant->data());
    if (callback && !callback(i + 1)) {
      *interrupted = true;
      return;
    }
    if (simulation.threads) {
      std::this_thread::sleep_until(
          start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(plant->time())));
    }
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

double MpcReport::Latency(double quantile) const {
  if (latency.empty()) return 0;
  std::vector<double> sorted = latency;
  std::sort(sorted.begin(), sorted.end());
  const double at = std::ceil(std::clamp(quantile, 0.0, 1.0) * static_cast<double>(sorted.size())) - 1;
  return sorted[static_cast<std::size_t>(std::max(at, 0.0))];
}

MpcGoals::MpcGoals(const Task& task) {
  for (const GoalPlace& goal : MovablePlaces(task)) {
    std::string name = NameOfPlace(task.model.get(), goal);
    const auto others = std::count(names_.begin(), names_.end(), name);
    names_.push_back(others > 0 ? fmt::format("{}, {}", name, others + 1) : std::move(name));
    places_.emplace_back(goal.place[0], goal.place[1], goal.place[2]);
  }
}

void MpcGoals::Check(int i) const {
  if (i < 0 || i >= size())
    throw Error(ErrorCode::kInvalidArgument, fmt::format("MPC: goal {} of a task that has {}", i, size()));
}

const std::string& MpcGoals::Name(int i) const {
  Check(i);
  return names_[static_cast<std::size_t>(i)];
}

Eigen::Vector3d MpcGoals::Place(int i) const {
  Check(i);
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

void CheckMpc(const Task& task, const MpcSimulation& simulation) {
  CheckMpcTask(task, simulation.latency);
  CheckRanges(task, simulation);
  CheckPlant(task, simulation);
}

MpcResult RunMpc(const Task& task, const MpcSimulation& simulation, const MpcCallback& callback,
                 const IterationCallback& first) {
  RefuseInCallback("RunMpc");
  CheckMpc(task, simulation);
  const double control_time = task.knot_time();
  const int steps = static_cast<int>(std::lround(simulation.duration / control_time));
  MpcResult result;
  MpcDriver driver(task, simulation.goals, &result);
  MpcPlant plant(task, simulation, steps);
  const bool has_plan = driver.First([&](const IterationRecord& record) {
    result.interrupted = result.interrupted || (callback && !callback(0)) || (first && !first(record));
    return !result.interrupted;
  });
  if (!has_plan) {
    plant.Finish(&result);
    result.cost_per_knot.setZero(1);
    return result;
  }
  Clock::time_point start = Clock::now();
  if (!result.interrupted) Move(simulation, callback, &driver, &plant, &result.interrupted);
  result.seconds = Lap(&start);
  driver.Finish();
  plant.Finish(&result);
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
  return result;
}

}  // namespace costate
