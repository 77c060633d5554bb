// Trajectories: simulate forward, linearize along, diagnose; parallel and bitwise the same at any thread count.
#ifndef COSTATE_ROLLOUT_H_
#define COSTATE_ROLLOUT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <costate/derivative.h>
#include <costate/feedback.h>

namespace costate {

/// A motion: N controls, N + 1 states, one knot a column.
struct Trajectory {
  MatrixXd X;        ///< nx × (N+1)
  MatrixXd U;        ///< nu × N
  MatrixXd S;        ///< ns × (N+1); at knot N, where there is no control, sensors are those of u = 0
  VectorXd time;     ///< N+1 [s]
  MatrixXd context;  ///< moving context by kMovingSignature, one knot a column: makes each knot restartable bit for bit
  int N() const { return static_cast<int>(U.cols()); }
};

/// Feedback about a reference trajectory: u = u_bar + alpha k + K (x ⊖ x_bar). The minus sign is inside k and K.
struct Policy {
  MatrixXd k;               ///< nu × N
  std::vector<MatrixXd> K;  ///< N of nu × ndx
  VectorXd dx0{};           ///< ndx, of a start that moves: x_0 = x_bar_0 ⊕ alpha dx0; empty where it does not
};

/// How far a rollout came.
struct RolloutStatus {
  StepStatus status = StepStatus::kOk;
  int knot = -1;                      ///< first knot whose interval failed (N: the sensors of the last state); -1: none
  std::vector<std::string> warnings;  ///< of the engine, each text once
  bool given_up = false;              ///< by the callback; columns behind it hold nothing
  bool ok() const { return status == StepStatus::kOk && !given_up; }
};

/// What is computed beside each knot for people to judge a motion by.
struct KnotDiagnostics {
  double energy_potential = 0, energy_kinetic = 0;  ///< [J]
  double penetration = 0;                           ///< deepest contact, ≥ 0 [m]
  double constraint_violation = 0;                  ///< worst equality or limit violation, ≥ 0 [m or rad]
  int contacts = 0;
  int solver_iterations = 0;
  int saturated_actuators = 0;  ///< at or beyond ctrlrange or forcerange; 0 at the last knot, which has no control
};

/// Called with the number of knots simulated so far; false ends the rollout.
using RolloutCallback = std::function<bool(int)>;

/// One model, one start context, one mjData and one Linearizer a worker. Not thread-safe itself; it runs its own
/// workers.
class Simulator {
 public:
  /// @param model     must outlive the simulator; not modified.
  /// @param context   by kContextSignature: what every rollout starts with besides x0 and U.
  /// @param substeps  engine steps a control interval.
  /// @param threads   workers; 0 takes the number of cores.
  /// @throws Error{kDimensionMismatch, kInvalidArgument} for a context of another size or with forces or mocap poses
  ///         that are not finite, substeps < 1, and options that do not step (step.h).
  Simulator(const mjModel* model, ConstVectorRef context, int substeps = 1, int threads = 0);
  ~Simulator();

  /// From now on derivatives are those of another model along this one's motion: true motions, a smoother model's
  /// slopes.
  /// @param model  same state, control, sensors and context (MakeSmoothModel); must outlive this; null: its own.
  /// @throws Error{kDimensionMismatch}.
  void SetDerivativeModel(const mjModel* model);

  /// From now on derivatives of those sensors alone: Linearizer::SelectSensors. @throws Error{kDimensionMismatch}.
  void SelectSensors(const std::vector<char>& read);

  /// From now on rollouts leave sensors out of which SelectSensors has marked no entry, 0 in S, where no step, plugin or
  /// callback of the engine may depend on them. @return whether there are such.
  bool SkipUnselectedSensors(bool skip);

  /// Every rollout from now on starts with this context. @throws Error{kDimensionMismatch}.
  void SetContext(ConstVectorRef context);

  const mjModel* model() const;
  const Dims& dims() const;
  int substeps() const;
  int threads() const;
  double knot_time() const;  ///< substeps × timestep [s]

  /// x_{t+1} = f(x_t, u_t) from x0 (nx) under U (nu × N). On failure columns after status.knot repeat the last good
  /// one; so do controls, in the rollouts below, where they are not given but computed (0 where there was none).
  /// @param callback  when not empty, called after each knot; false ends the motion there, with fewer knots.
  RolloutStatus Rollout(ConstVectorRef x0, ConstMatrixRef U, Trajectory* out, int worker = 0,
                        const RolloutCallback& callback = {});

  /// The same of bodies that are pushed: column t of xfrc (6 nbody × N, the engine's xfrc_applied: force [N] and torque
  /// [N m] at each body's centre of mass, world axes) takes the place of the context's in interval t. The sensors of
  /// knot N are those under the last of them.
  RolloutStatus RolloutPushed(ConstVectorRef x0, ConstMatrixRef U, ConstMatrixRef xfrc, Trajectory* out,
                              int worker = 0);

  /// Rolls out u = clamp(u_bar + alpha k + K (x ⊖ x_bar)) from the first state of `reference`, or from that ⊕ alpha
  /// dx0.
  /// @param lower, upper  control bounds (nu), ±infinity where there is none.
  /// @param callback  when not empty, called after each knot; false gives the rollout up.
  /// @throws Error{kDimensionMismatch} for k or a K of another size.
  RolloutStatus RolloutPolicy(const Trajectory& reference, const Policy& policy, double alpha, ConstVectorRef lower,
                              ConstVectorRef upper, Trajectory* out, int worker = 0,
                              const RolloutCallback& callback = {});

  /// The same from another start: x_bar is still the reference's, x_0 is x0, whatever dx0.
  RolloutStatus RolloutPolicy(ConstVectorRef x0, const Trajectory& reference, const Policy& policy, double alpha,
                              ConstVectorRef lower, ConstVectorRef upper, Trajectory* out, int worker = 0,
                              const RolloutCallback& callback = {});

  /// The closed loop x_{t+1} = f(x_t, u_t), u_t = π(t, x_t, h(x_t, u_{t−1})) over N knots, u_{−1} = 0. A control that
  /// is not finite ends it as a step that fails.
  /// @param xfrc  when not empty, bodies are pushed as by RolloutPushed.
  RolloutStatus RolloutFeedback(ConstVectorRef x0, int N, const Feedback& law, Trajectory* out, int worker = 0,
                                ConstMatrixRef xfrc = MatrixXd());

  /// States that need not be a motion: x_{t+1} is that of X whatever the step before it reaches.
  ///
  ///   gap_t = f(x_t, u_t) ⊖ x_{t+1}
  ///
  /// @param X  nx × (N+1).  @param U  nu × N.  @param gaps  receives ndx × N.
  RolloutStatus Follow(ConstMatrixRef X, ConstMatrixRef U, Trajectory* out, MatrixXd* gaps, int worker = 0);

  /// RolloutPolicy about a reference with gaps, of which it leaves 1 - alpha:
  ///
  ///   u_t = clamp(u_bar + alpha k + K (x_t ⊖ x_bar)),   x_{t+1} = f(x_t, u_t) ⊕ -(1 - alpha) gap_t
  ///
  /// @param gaps  ndx × N, as Follow gives them.  @param lower, upper  bounds at each knot (nu × N).
  RolloutStatus RolloutGaps(const Trajectory& reference, ConstMatrixRef gaps, const Policy& policy, double alpha,
                            ConstMatrixRef lower, ConstMatrixRef upper, Trajectory* out, int worker = 0);

  /// A, B, C, D at knots 0 … N-1 and C at knot N; in parallel over knots. out has N+1 entries.
  void Linearize(const Trajectory& trajectory, const LinearizeOptions& options, std::vector<StepDerivative>* out);

  /// From now on LinearizeEach takes derivatives at knots 0, every, 2 every … and at the last two; between them A, B, C
  /// and D are interpolated, entry by entry. 1: at each knot. @throws Error{kInvalidArgument} below 1.
  void SetDerivativeEvery(int every);

  /// From now on LinearizeEach asks it before each knot, from its workers: once it says true no more are begun.
  void SetStop(const std::function<bool()>& stop);

  /// The same without keeping them all: use(t, worker, derivative) runs on the worker that linearized knot t. It may
  /// take matrices by swap; what it leaves is overwritten by the next knot. @return false: it was stopped.
  bool LinearizeEach(const Trajectory& trajectory, const LinearizeOptions& options,
                     const std::function<void(int, int, StepDerivative*)>& use);

  /// Diagnostics at all knots, re-evaluated with mj_forward from the stored states and context.
  std::vector<KnotDiagnostics> Diagnose(const Trajectory& trajectory);

  /// Runs job(i, worker) for i in [0, n), workers taking the next i each; returns when all are done. Exceptions of jobs
  /// are rethrown (the one with the smallest i).
  void ParallelFor(int n, const std::function<void(int, int)>& job);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace costate

#endif  // COSTATE_ROLLOUT_H_
