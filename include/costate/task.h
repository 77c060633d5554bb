// A task: robot, start, horizon, cost, limits and solver settings; from a task file or from what shall be reached.
#ifndef COSTATE_TASK_H_
#define COSTATE_TASK_H_

#include <memory>
#include <string>
#include <vector>

#include <costate/basin_hopping.h>
#include <costate/continuation.h>
#include <costate/free_time.h>
#include <costate/parameter.h>
#include <costate/policy_options.h>
#include <costate/sampling.h>
#include <costate/solve.h>

namespace costate {

/// A physical parameter that a task names: where it begins, and the bounds that a fit keeps.
struct TaskParameter {
  std::string name;  ///< with its index: one number
  double value = 0, lower = 0, upper = 0;
};

/// What the loss of a task is differentiated by, and what a descent may change. By default all controls and all of the
/// start.
struct TaskInputs {
  std::vector<int> controls;  ///< rows of U
  std::vector<int> start;     ///< entries of the tangent of x0
  std::vector<TaskParameter> parameters;
};

/// What acts while a plan that was due is missing.
enum class MpcFallback {
  kPlan,  ///< the last plan with its feedback; behind its end the last control
  kHold,  ///< the last control
  kDamp,  ///< the control that takes most kinetic energy out of the robot within one control interval
};

/// <mpc>: how plans are made while the robot moves (costate/mpc.h).
struct MpcOptions {
  double horizon = 0;   ///< [s] of a plan; 0: the task's
  double timestep = 0;  ///< [s] of the engine inside plans; 0: the model's
  double rate = 0;      ///< plans a second; 0: as many as there is time for, at most one a control interval
  double delay =
      -1;  ///< [s] from a measurement to its plan's first control; negative: none in lock-step, else what plans took
  double budget = 0;   ///< [s] for a plan, whose first iteration is made in any case; 0: what delay or rate leave, else
                       ///< no bound
  int iterations = 0;  ///< of a plan, at most; 0: one a knot by which it begins later than the last one, 1 to 20
  MpcFallback fallback = MpcFallback::kPlan;
  bool compensate =
      true;  ///< plans start from where the robot will be after the delay; false: from where it was measured
  bool feedback = true;  ///< K acts between plans; false: u_bar alone
  double estimate = 0;   ///< [s] in which plans learn of a constant force that the model knows nothing of; 0: never
};

/// A task as understood: owns everything that a Problem points to.
struct Task {
  std::string file;        ///< the task file, or "" for a task made on the command line
  std::string text;        ///< what it says
  std::string model_file;  ///< as resolved
  std::string name;
  ModelPtr model;        ///< the user's model plus the sensors that the cost terms need
  int user_sensors = 0;  ///< entries of sensordata that come from the user's own sensors; the rest were added
  std::unique_ptr<Cost> cost;
  VectorXd x0, context;
  VectorXd x_goal;  ///< nx when a terminal cost aims all of qpos at a keyframe, else empty
  int N = 0, substeps = 1;
  MatrixXd U_guess;    ///< nu × N
  MatrixXd X_guess{};  ///< nx × (N+1); empty: the motion under U_guess
  VectorXd u_lower, u_upper;
  TaskInputs inputs;          ///< <gradient>
  ConstraintSet constraints;  ///< <constraint>, <limit> and <periodic>, without those that are soft
  std::vector<int> stops{};   ///< joints that constraints keep off the model's own limits
  IlqrOptions solver;
  ConstrainedOptions constrained;
  FreeTimeOptions free_time;  ///< <time>; none unless longest > 0
  SplineOptions
      spline{};  ///< <spline>: controls of the first-order methods and of sampled starts; none unless knots > 0
  FreeStart free_start{};                     ///< <start free="…">
  SamplingOptions sampling{.iterations = 0};  ///< <solver start="sampling">; none unless iterations > 0
  /// <hopping>; none unless rounds > 0. Without it a few where a solve is stuck, none with <time>.
  BasinHoppingOptions hopping{.rounds = 4, .after_solve = true, .when_stuck = true};
  MpcOptions mpc;                      ///< <mpc>
  PolicyOptions policy{};              ///< <policy>
  ContinuationOptions continuation{};  ///< <smooth>; none unless continuation.smooth.any()
  SolveState state{};          ///< of the run that is gone on from (costate/resume.h); none unless state.U has columns
  FreeTimeState time_state{};  ///< the same of a search over times
  std::vector<std::string> warnings;  ///< of the model's compiler and of the task itself
  double knot_time() const { return substeps * model->opt.timestep; }  ///< that a control holds [s]
  Problem ToProblem() const;
  SamplingOptions ToSampling() const;  ///< with the solver's threads
  Guess ToGuess() const { return {X_guess, U_guess, state.U.cols() > 0 ? &state : nullptr}; }
};

/// Reads a task file (plugin/optimizer/task_file.md describes every element and attribute).
/// @throws Error{kFile}, Error{kParse}: "pole.task.xml:7: <cost name='tip'>: no site 'tib', did you mean 'tip'?".
Task LoadTask(const std::string& path);

/// The same of its text. @param path  stands in messages, and relative paths start at its folder.
Task ParseTask(const std::string& text, const std::string& path);

/// The text of a task with its relative paths made absolute, comments kept: a copy of it in any folder means the same.
std::string TextAnywhere(const Task& task);

/// Adds what `name` stands for (all entries of a field without "[index]") to task->inputs, at the model's value.
/// @throws Error as ParameterSet.
void AddParameter(const std::string& name, Task* task);

/// task.inputs.parameters as a set of task.model, at the values to begin with; null when there are none.
/// @throws Error as ParameterSet.
std::unique_ptr<ParameterSet> MakeParameters(const Task& task);

/// From where to where, for people who have a robot and no task file yet.
struct ReachOptions {
  std::string start{};  ///< keyframe name or number; empty: the model's default state
  /// One or more: a keyframe ("crouch", "key:crouch"), or where a part shall be: "joint:knee=1.2", "site:hand=.4,_,.5"
  /// (metres in the world; "_" is left open), "body:torso:zaxis=0,0,1" (pos, quat, xaxis, yaxis, zaxis).
  std::vector<std::string> goals{};
  double time = 2;   ///< [s]
  int substeps = 0;  ///< 0: chosen so that a knot is about 10 … 20 ms
  /// Goals count in full on the way, too: there as soon as forces allow, not in `time`. For plans that are made anew
  /// while the robot moves, and would put off for ever what counts at their end alone.
  bool at_once = false;
};

/// The text of a task file that goes there: goals, rest and effort as quadratic costs in natural units.
/// @param folder  of the file; the model is named relative to it. Empty: by its absolute path.
/// @param warnings  appended to where no control, or no posture, leads to a goal.
/// @throws Error{kInvalidArgument} for a goal that is not understood, with the names that there are.
std::string WriteReachTask(const std::string& model_path, const ReachOptions& options, const std::string& folder = "",
                           std::vector<std::string>* warnings = nullptr);

/// The same as a task; its `file` is empty, `text` has what would stand there.
Task MakeReachTask(const std::string& model_path, const ReachOptions& options);

/// A recorded motion and what of the robot shall be changed to follow it, for people who have no task file yet.
struct FitOptions {
  /// A CSV file or a saved run: a column "time" [s], and columns named as in trajectory.csv: "qpos[knee]" (or "knee"),
  /// "qvel[knee]", "sensor[imu].0", "ctrl[knee]". Those there are become costs, a start and controls; others are left.
  std::string motion{};
  std::string controls{};                 ///< CSV file or run with the controls; empty: the motion's, else what holds
  std::string start{};                    ///< keyframe for what the motion's first row does not say; empty: the default
  std::vector<std::string> parameters{};  ///< one or more, as ParameterSet names them: "joint:knee/damping"
};

/// The text of a task file that fits the parameters: mean squares of what was recorded against what is simulated, in
/// units of its own spread. Of the start recorded positions and all velocities are fitted, too.
/// @param folder  as of WriteReachTask.
/// @throws Error{kInvalidArgument} where nothing is to be fitted, or nothing to be compared; what ParameterSet and the
///         file throw.
std::string WriteFitTask(const std::string& model_path, const FitOptions& options, const std::string& folder = "");

/// The same as a task, as MakeReachTask.
Task MakeFitTask(const std::string& model_path, const FitOptions& options);

/// By how much a motion misses, at its end, a cost that counts more there than on the way.
struct MissedGoal {
  std::string name, unit;
  std::string component;  ///< the worst
  double miss = 0;        ///< of that, absolute
};
/// @throws Error{kDimensionMismatch} for a motion of other sizes.
std::vector<MissedGoal> MissedGoals(const Task& task, const Trajectory& trajectory);

/// Those of such costs that are places of bodies, sites, geoms or cameras, against numbers.
std::vector<GoalPlace> GoalPlaces(const Task& task);

/// The task in words and numbers: terms, sizes, units, limits, initial cost by term (what `costate task` prints).
std::string Describe(const Task& task);

}  // namespace costate

#endif  // COSTATE_TASK_H_
