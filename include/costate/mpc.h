// Model-predictive control: plans over a receding horizon, made while the robot moves, and followed with their
// feedback.
#ifndef COSTATE_MPC_H_
#define COSTATE_MPC_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <costate/task.h>

namespace costate {

enum class MpcEventKind {
  kLate,       ///< a plan was not there when its first control was due
  kDiverged,   ///< a plan could not be simulated and was not taken
  kExhausted,  ///< the last plan had no control left
  kOverBudget  ///< a plan took longer than <mpc budget> by the wall clock: its first iteration is made in any case
};
const char* ToString(MpcEventKind kind);
const char* ToString(MpcFallback fallback);

struct MpcEvent {
  double time = 0;  ///< [s] since the start
  MpcEventKind kind = MpcEventKind::kLate;
  std::string reason;  ///< one sentence with the numbers
};

/// A force on a body's centre of mass in the world's axes, at begin ≤ t < end. The planner does not know of it.
struct MpcPush {
  int body = 0;
  double force[3] = {0, 0, 0};  ///< [N]
  double begin = 0, end = 0;    ///< [s]
};

/// Places that a task's cost aims at, by numbers or where something stands fixed in the world, moved while plans are
/// made: by a mouse, a camera, another program. What counts more at the end than on the way is such a goal, and terms
/// that aim at the same place follow. Calls may come from any thread.
class MpcGoals {
 public:
  explicit MpcGoals(const Task& task);

  int size() const { return static_cast<int>(places_.size()); }
  const std::string& Name(int i) const;  ///< of the part that shall be there: "site hand"
  Eigen::Vector3d Place(int i) const;    ///< a component that the task leaves open is NaN

  /// Plans that are begun from now on go there; what the task leaves open stays open.
  /// @throws Error{kInvalidArgument} for a goal that there is not, and where what is not open is not finite.
  void Move(int i, const Eigen::Vector3d& place);
  bool moved() const;  ///< at any time

 private:
  void Check(int i) const;

  mutable std::mutex mutex_;
  std::vector<std::string> names_;
  std::vector<Eigen::Vector3d> places_;
  bool moved_ = false;
};

/// The simulated robot that RunMpc controls.
struct MpcSimulation {
  const mjModel* plant = nullptr;  ///< where it is another than task.model, which plans: as of LoadPlant
  double duration = 5;             ///< [s]
  bool threads = false;  ///< planner beside the robot, in real time; false: lock-step, the same bits every time
  double latency = -1;   ///< lock-step: plans pretend to take so long [s]; negative: as long as their delay
  std::vector<MpcPush> pushes{};
  double noise_position = 0,
         noise_velocity = 0;  ///< standard deviations of what is measured of x (m or rad; per s), white
  unsigned seed = 1;
  const MpcGoals* goals = nullptr;  ///< of the task: plans follow them; costs that are reported are of the task's own
  std::function<void(const mjData*)> watch{};  ///< sees the robot behind each control interval, on the caller's thread
};

/// How well one constraint of the task was kept.
struct MpcConstraintReport {
  ConstraintReport motion;      ///< by what the robot did; knot -1: it holds at the ends of plans alone
  ConstraintReport plan;        ///< by the worst of the plans that were taken, at a knot of it
  double plan_time = 0;         ///< [s] of that knot since the start
  int violated = 0;             ///< knots of the robot's motion beyond the tolerance of constraints
  int plans_violated = 0;       ///< plans beyond it
  VectorXd violation_per_knot;  ///< N+1: of the robot's motion, relative; 0 where it does not hold
};

/// What plans have done so far.
struct MpcReport {
  std::string first_plan;  ///< how its solver ended
  SolveStatus first_status =
      SolveStatus::kDiverged;   ///< the same as a status; kDiverged: no plan, and the robot did not move
  bool first_gained = false;    ///< it costs less than the guess, by more than rounding
  double first_violation = 0;   ///< of its worst constraint, relative; 0 without any
  int plan_iterations = 0;      ///< of a plan, at most
  int plans_taken = 0;          ///< the first one counted
  int plans = 0;                ///< made while the robot moved, the first one not counted
  std::vector<double> latency;  ///< [s] of each, from measurement to plan, as the wall clock had it
  std::vector<MpcConstraintReport> constraints;  ///< empty without any
  int plans_over_budget = 0;                     ///< of `plans`; an event each
  int fallback_steps = 0;                        ///< control intervals in which no plan that was due could be followed
  std::vector<MpcEvent> events;
  int events_before = 0;   ///< that were forgotten: an MpcController remembers the last five thousand
  VectorXd unknown_force;  ///< nv [N, N m]: as estimated at the end; empty without <mpc estimate>

  /// Of the latencies: 0.5 the median, 1 the largest; 0 without any.
  double Latency(double quantile) const;
};

/// Of a robot that was simulated; its constraints stand worst first, by its motion.
struct MpcResult : MpcReport {
  Trajectory trajectory;  ///< what the robot did: one knot a control interval; ends early when it cannot be simulated
  RolloutStatus status;
  VectorXd cost_per_knot;    ///< N+1: running cost of the task at each control interval, 0 at the last knot
  double cost_per_step = 0;  ///< their mean
  VectorXd context;          ///< of the simulated robot at its start, by kContextSignature
  int substeps = 1;          ///< of its model in a control interval
  MatrixXd xfrc;             ///< 6 nbody × N: what pushed the robot in each interval; empty without pushes
  double seconds = 0;        ///< wall clock, without the first plan
  bool interrupted = false;
};

/// Called with the number of control intervals done, while the first plan is made with 0; false ends the run.
using MpcCallback = std::function<bool(int)>;

/// Another robot as a task sees it: with the sensors that the task adds and the options that it sets. What stands in
/// the way of plans of task.model moving it is refused by CheckMpc: another state, control or sensor, by name.
/// @throws as LoadTask of the task with this model in the place of its own; Error{kInvalidArgument} for a task without
///         a text.
ModelPtr LoadPlant(const Task& task, const std::string& model_file);

/// What RunMpc refuses, before it begins. @throws as RunMpc, but for what its solvers refuse.
void CheckMpc(const Task& task, const MpcSimulation& simulation);

/// Controls a simulation of task.model, or of simulation.plant, by iLQR plans of task.model: each starts where the
/// robot will be when the plan acts (the measured state simulated over task.mpc.delay under what acts until then), from
/// the last plan moved in time, with its gains. Between plans u = clamp(u_bar + K (x ⊖ x_bar)), moved by as little as
/// keeps what constraints hold of forces, powers and whatever else a control decides at once. The first plan is made
/// before the clock starts, as the task says: solver settings and type, sampling, continuation, hopping. Costs with
/// times count from the task's start, through all plans.
///
/// With task.mpc.estimate plans act under a force on the joints, too, learned from how far the velocity after each
/// control interval is from what the model says: a load that nobody told of, or a wrong friction, leaves no lasting
/// error then.
///
/// Plans keep the task's constraints by an augmented Lagrangian whose multipliers move with the plans. Those that hold
/// at the last knot alone hold at the end of each plan, those that hold until then through all plans, others in their
/// window of time.
///
/// A plant is stepped by its own time step, of which a control interval is a multiple, from the task's start; where the
/// sizes of its context differ (other bodies), that part of it is the plant's own.
///
/// @param first  told of each iteration of the first plan's solves, after `callback`; false ends the run.
/// @throws Error{kInvalidArgument} for an option out of its range; Error{kUnsupported} for a task with a free start,
///         free time or a periodic constraint; as Solve, SolveContinuation and SolveBasinHopping.
/// Source: plugin/optimizer/README.md, "MPC", "Constraints of plans", (M1) … (M7).
MpcResult RunMpc(const Task& task, const MpcSimulation& simulation, const MpcCallback& callback = {},
                 const IterationCallback& first = {});

/// When an MpcController makes its plans.
struct MpcControllerOptions {
  bool threads = true;  ///< on a thread of its own, while the robot moves in real time: Control returns at once; false:
                        ///< in Control, which returns behind a plan that is due: the same bits every time
  double latency = -1;  ///< without threads: plans pretend to take so long [s]; negative: as long as their delay
};

/// Controls a robot that others move, in a simulation of their own or a real one, as RunMpc does: ask it once a control
/// interval (task.substeps steps of task.model) what acts next.
///
///   costate::MpcController mpc(costate::LoadTask("reach.xml"));
///   if (!mpc.Start(m, d)) …                                       // mpc.Report().first_plan says why
///   for (;;) { mju_copy(d->ctrl, mpc.Control(d).data(), m->nu); mj_step(m, d); }
///
/// One thread calls it; goals may be moved from any.
///
/// From a callback of the engine (mjcb_control), which controls a robot in the steps of its host, it is called for the
/// host's own data alone: the engine calls it in the simulations of plans, too, on the planner's thread. There Start and
/// Control are refused, `if (d != mine) return;` ahead of them is the remedy. A callback that was refused and then
/// changes the control of the plan's step, so that the plan would be another one's, ends the call of Control that makes
/// the plan, or the next one where a thread does.
class MpcController {
 public:
  /// @param task  <mpc> in it says how plans are made.  @throws as CheckMpc.
  explicit MpcController(Task task, const MpcControllerOptions& options = {});
  ~MpcController();
  MpcController(const MpcController&) = delete;
  MpcController& operator=(const MpcController&) = delete;

  const Task& task() const;  ///< since Start with that state and context as its start
  MpcGoals& goals();
  const MpcGoals& goals() const;

  /// Makes the first plan, from where the robot is, with its mocap poses and with its equalities on or off; forces that
  /// act on it are not taken for lasting ones. That takes as long as costate optimize does, while the robot waits: its
  /// clock begins with the first Control. May be called again, which begins anew.
  /// @param model  of the robot, with the states, controls, equalities and mocap bodies of task.model by name (more mocap
  ///               bodies are none of its); must outlive its use.
  /// @param first  told of each iteration; false ends them: the best motion so far is the plan.
  /// @return false: there is no plan, the report says why, and Control refuses.
  /// @throws Error{kInvalidArgument} for a model of another robot, for data of another model or with a state that is not
  ///         finite; what RunMpc's solvers refuse.
  bool Start(const mjModel* model, const mjData* data, const IterationCallback& first = {});

  /// The same of a robot that is no mjData: its state (nx of task.model).
  /// @throws Error{kUnsupported} where a state does not say how a robot goes on: delays, plastic deformation, plugins
  ///         with a state; Error{kDimensionMismatch}.
  bool Start(ConstVectorRef x, const IterationCallback& first = {});

  /// The control (nu) that acts from now on, eq. (M1), with the feedback of this state; within a control interval it is
  /// held. Mocap poses and equalities are those of the data, plans follow them. A plan that is late, one that failed, a
  /// state that is not finite are events of the report, and the fall-back acts. Costs some ten microseconds where a
  /// thread makes the plans, beside a control interval's simulation within constraints on forces, and some derivatives
  /// where these are to be kept; good until the next call.
  /// @param time  [s] of the robot's own clock, as data->time is: times of costs and events count from the first one.
  /// @throws Error{kInvalidArgument} before Start, for a time that is not finite or lies before the last one, from a
  ///         callback in a simulation of Costate's; what ended the planner's thread.
  const VectorXd& Control(const mjData* data);
  const VectorXd& Control(double time, ConstVectorRef x);

  /// What plans have done since Start. Of latencies, too, the last five thousand are there in any case.
  MpcReport Report() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace costate

#endif  // COSTATE_MPC_H_
