#include "optimizer/mpc_driver.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/check.h"
#include "core/extremes.h"
#include "core/interval.h"
#include "core/lap.h"
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

// one after the other
class LockStep final : public MpcSchedule {
 public:
  LockStep(MpcDriver* driver, double latency)
      : driver_(*driver),
        every_(driver->task.mpc.rate > 0 ? std::max(1, driver->Intervals(1 / driver->task.mpc.rate)) : 1),
        delay_(driver->Intervals(std::max(driver->task.mpc.delay, 0.0))),
        latency_(latency < 0 ? delay_ : driver->Intervals(latency)) {
    // one plan at a time: the next one waits for the last
    const double periods = std::max(1.0, std::ceil(static_cast<double>(latency_) / every_));
    driver_.report.plan_iterations = driver_.Iterations(periods * every_ * driver_.control_time);
  }

  void Exchange(const MpcMeasurement& measured) override {
    const double h = driver_.control_time, now = measured.time;
    const auto i = static_cast<long long>(std::floor(now / h + kIntervalSlack));
    TakeAt(i, now);  // before another plan begins, which may be now
    const bool begins = i / every_ > period_;
    period_ = std::max(period_, i / every_);
    if (begins && arrives_ < 0) {
      const double budget = driver_.task.mpc.budget > 0 ? driver_.task.mpc.budget : kInf;
      Clock::time_point start = Clock::now();
      const bool on_time = std::abs(now - static_cast<double>(i) * h) <= kIntervalSlack * h;
      const double begin = on_time ? static_cast<double>(i + delay_) * h : now + delay_ * h;
      plan_ = driver_.planner.Next(measured, begin, driver_.control.book(), driver_.report.plan_iterations, budget);
      due_ = i + delay_;
      arrives_ = i + latency_;  // what a callback throws ends a plan before it is on its way
      number_ = driver_.report.plans + 1;
      driver_.Count(now, number_, Lap(&start));
      TakeAt(i, now);  // it took no time
    }
    if (arrives_ > i && due_ <= i && told_ != number_) {
      told_ = number_;
      driver_.control.SetLate(now, fmt::format("plan {} was due, and takes {:.4g} s longer", number_,
                                               static_cast<double>(arrives_ - due_) * h));
    }
  }

 private:
  void TakeAt(long long i, double now) {
    if (arrives_ < 0 || arrives_ > i) return;
    driver_.control.Take(std::move(plan_), number_, now, driver_.planner.reason());
    arrives_ = -1;
  }

  MpcDriver& driver_;
  const int every_, delay_, latency_;
  long long period_ = 0;  // of `every_` intervals, the last seen

  // the plan on its way
  MpcPlanPtr plan_;
  long long due_ = -1, arrives_ = -1;
  int number_ = 0, told_ = 0;
};

}  // namespace

void CheckMpcTask(const Task& task, double latency) {
  NotNull(task.model.get());
  RefuseTask(task);
  const OptionCheck need("MPC: ");
  const MpcOptions& o = task.mpc;
  need.ZeroOrMore("horizon", o.horizon);
  need.ZeroOrMore("estimate", o.estimate);
  need.ZeroOrMore("timestep", o.timestep);
  need.ZeroOrMore("rate", o.rate);
  need.ZeroOrMore("budget", o.budget);
  need(!std::isnan(latency) && latency < 1e6, "latency", latency, "finite");
  need(o.iterations >= 0, "iterations", o.iterations, "0 or more");
  const double control_time = task.knot_time();
  const double knot_time = o.timestep > 0 ? task.substeps * o.timestep : control_time;
  const double horizon = o.horizon > 0 ? o.horizon : task.N * control_time;
  need(horizon >= 0.5 * knot_time && horizon <= kMostKnots * knot_time, "horizon", horizon,
       fmt::format("one to a million knots of {:g} s", knot_time).c_str());
}

bool MpcDriver::First(const IterationCallback& callback) {
  MpcPlanPtr plan = planner.First(callback, &report);
  if (!plan) return false;
  control.Take(std::move(plan), 0, 0, "");
  return true;
}

int MpcDriver::Intervals(double seconds) const {
  return static_cast<int>(std::min(std::ceil(seconds / control_time - kIntervalSlack), kMostIntervals));
}

int MpcDriver::Iterations(double period) const {
  if (task.mpc.iterations > 0) return task.mpc.iterations;
  return static_cast<int>(std::clamp(std::floor(period / planner.knot_time() + 1e-6), 1.0, kMostIterations));
}

void MpcDriver::Count(double now, int number, double seconds) {
  report.plans = number;
  report.latency.push_back(seconds);
  const double budget = task.mpc.budget;
  if (budget == 0 || seconds <= budget) return;
  ++report.plans_over_budget;
  report.events.push_back({now, MpcEventKind::kOverBudget,
                           fmt::format("plan {} took {:.3g} ms, {:.3g} ms beyond its budget of {:.3g} ms", number,
                                       1e3 * seconds, 1e3 * (seconds - budget), 1e3 * budget)});
}

void MpcDriver::Finish() {
  report.fallback_steps = control.fallback_steps();
  report.plans_taken = control.plans_taken();
  report.constraints = control.constraints();
  report.unknown_force = disturbance.force();
}

const VectorXd& Drive(MpcDriver* driver, MpcSchedule* schedule, MpcMeasurement measured) {
  driver->disturbance.Measured(&measured);
  schedule->Exchange(measured);
  const VectorXd& u = driver->control.At(measured.time, measured);
  driver->disturbance.Acts(u);
  return u;
}

std::unique_ptr<MpcSchedule> MakeLockStep(MpcDriver* driver, double latency) {
  return std::make_unique<LockStep>(driver, latency);
}

}  // namespace costate
