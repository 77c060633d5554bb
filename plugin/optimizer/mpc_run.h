// What lock-step and threads share: one run of a simulated robot under plans.
#ifndef COSTATE_OPTIMIZER_MPC_RUN_H_
#define COSTATE_OPTIMIZER_MPC_RUN_H_

#include <costate/mpc.h>

#include "optimizer/mpc_control.h"
#include "optimizer/mpc_disturbance.h"
#include "optimizer/mpc_plant.h"

namespace costate {

struct MpcRun {
  MpcRun(const Task& task, const MpcSimulation& simulation, const MpcCallback& callback, int steps)
      : task(task),
        simulation(simulation),
        callback(callback),
        steps(steps),
        planner(task, simulation.goals),
        control(task, planner.problem(), &result.events),
        plant(task, simulation, steps),
        disturbance(task) {}

  const Task& task;
  const MpcSimulation& simulation;
  const MpcCallback& callback;
  int steps;
  MpcResult result;
  MpcPlanner planner;
  MpcControl control;
  MpcPlant plant;
  MpcDisturbance disturbance;

  /// Control intervals in a time, rounded up.
  int Intervals(double seconds) const;

  /// How many iterations a plan may have when the last one was made so many seconds before: as the task says, else one
  /// a knot in between, for as many knots at the end are new and as far has the robot gone from where the last one knew
  /// it.
  int Iterations(double period) const;

  /// A plan that took so long by the wall clock: counted, and told, where that is beyond the task's budget.
  void CheckBudget(double now, int number, double seconds);

  /// One interval: false when the run is over.
  bool Advance(const MpcMeasurement& measured, int i);
};

/// One after the other: plans appear when their latency has passed in the robot's time.
void RunLockStep(MpcRun* run);

/// Plans are made on a thread of their own while the robot moves in real time.
void RunThreads(MpcRun* run);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_MPC_RUN_H_
