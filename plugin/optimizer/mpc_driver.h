// A robot under plans, whoever moves it: what makes them, what acts, and when.
#ifndef COSTATE_OPTIMIZER_MPC_DRIVER_H_
#define COSTATE_OPTIMIZER_MPC_DRIVER_H_

#include <costate/mpc.h>

#include <memory>
#include <string>

#include "optimizer/mpc_control.h"
#include "optimizer/mpc_disturbance.h"
#include "optimizer/mpc_planner.h"

namespace costate {

/// @param latency  in lock-step [s]; negative: none of its own.
/// @throws Error{kInvalidArgument} for a task without a model, for an option out of its range; Error{kUnsupported} for
///         what plans would not keep.
void CheckMpcTask(const Task& task, double latency = -1);

struct MpcDriver {
  MpcDriver(const Task& task, const MpcGoals* goals, MpcReport* report)
      : task(task),
        report(*report),
        planner(task, goals),
        control(task, planner.problem(), &report->events),
        disturbance(task),
        control_time(task.knot_time()) {}

  const Task& task;
  MpcReport& report;
  MpcPlanner planner;
  MpcControl control;
  MpcDisturbance disturbance;
  const double control_time;  ///< [s]

  /// The first plan, from the task's start; false: there is none, and the report says why.
  bool First(const IterationCallback& callback);

  /// Control intervals in a time, rounded up.
  int Intervals(double seconds) const;

  /// How many iterations a plan may have when the last one was made so many seconds before: as the task says, else one
  /// a knot in between, for as many knots at the end are new and as far has the robot gone from where the last one knew
  /// it.
  int Iterations(double period) const;

  /// A plan that took so long by the wall clock: counted, and told, where that is beyond the task's budget.
  void Count(double now, int number, double seconds);

  /// The report but for what it is told as it happens.
  void Finish();
};

/// When plans are begun and taken.
class MpcSchedule {
 public:
  virtual ~MpcSchedule() = default;

  /// A control interval begins: takes plans that are there, begins others, says what is late.
  virtual void Exchange(const MpcMeasurement& measured) = 0;
};

/// One after the other: plans appear when their latency has passed in the robot's time; negative: their delay.
std::unique_ptr<MpcSchedule> MakeLockStep(MpcDriver* driver, double latency);

/// Plans are made on a thread of their own while the robot moves in real time. Makes one for nothing, from `measured`.
std::unique_ptr<MpcSchedule> MakePlannerThread(MpcDriver* driver, const MpcMeasurement& measured);

/// What acts in the interval that begins with this measurement.
const VectorXd& Drive(MpcDriver* driver, MpcSchedule* schedule, MpcMeasurement measured);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_MPC_DRIVER_H_
