// Derivatives of one control interval about (x, u). Start here; the mathematics is in plugin/derivative/README.md.
#ifndef COSTATE_DERIVATIVE_H_
#define COSTATE_DERIVATIVE_H_

#include <memory>
#include <string>
#include <vector>

#include <costate/parameter.h>
#include <costate/state.h>
#include <costate/step.h>

namespace costate {

/// How a derivative was obtained. All levels give the same Jacobians; they differ in cost and noise.
enum class Level {
  kBest = 0,      ///< the first of the following that covers the model (a request, never an answer)
  kAnalytic = 1,  ///< every term in closed form
  kResidual = 2,  ///< inverse-dynamics residual differenced at fixed acceleration, then one solve with H
  kStep = 3,      ///< whole steps differenced
};
const char* ToString(Level level);

/// One term of the step and the level it came from.
struct TermCoverage {
  std::string term;  ///< "rne", "passive", "contact", … or "step" when the whole step was differenced
  Level level = Level::kStep;
  std::string reason;   ///< why not a better level; empty when it is the best
  bool IsOpen() const;  ///< its columns are no derivative at all: the reason begins with "no derivative"
};

/// Which term came from which level.
struct Coverage {
  std::vector<TermCoverage> terms;
  Level Worst() const;  ///< the largest level of all terms
  /// Terms of both; a term that both have at the larger of its levels, open where one is.
  void Add(const Coverage& other);
};

/// Jacobians about one knot; tangent columns ordered (qpos tangent, qvel, act), as mjd_transitionFD.
///
///   f(x ⊕ dx, u + du) = f(x, u) ⊕ (A dx + B du) + o(‖dx‖ + ‖du‖)
///   h(x ⊕ dx, u + du) = h(x, u) + C dx + D du + o(‖dx‖ + ‖du‖)
struct StepDerivative {
  MatrixXd A, B, C, D;  ///< ndx×ndx, ndx×nu, ns×ndx, ns×nu; C and D are empty unless sensors were asked for
  MatrixXd P, Ps;       ///< ∂f/∂θ (ndx×nθ) and ∂h/∂θ (ns×nθ); empty without parameters
  StepStatus status = StepStatus::kOk;  ///< not kOk: a step inside failed and the matrices are not valid
  Coverage coverage;
};

/// Covectors λ on the next state and σ on the sensors pulled back through one control interval, without A, B, C and D.
struct StepVjp {
  VectorXd x, u;     ///< Aᵀ λ + Cᵀ σ (ndx), Bᵀ λ + Dᵀ σ (nu)
  VectorXd sensors;  ///< Cᵀ σ alone (ndx); empty without σ
  VectorXd delayed;  ///< of the controls that delayed actuators get from the history now (nu, 0 elsewhere); empty
                     ///< without delays and where whole steps are differenced
  VectorXd qfrc;     ///< of qfrc_applied, held over the interval (nv); empty unless forces were asked for
  VectorXd xfrc;     ///< of xfrc_applied (6 nbody), in the engine's order; empty likewise
  VectorXd theta;    ///< of the parameters, Pᵀ λ + Psᵀ σ (nθ); empty without
  StepStatus status = StepStatus::kOk;
  Coverage coverage;
};

/// Directions pushed forward through one control interval, without A and B.
struct StepJvp {
  MatrixXd dx;  ///< A dx + B du, a column for each direction (ndx × k)
  StepStatus status = StepStatus::kOk;
  Coverage coverage;
};

/// The acceleration of continuous time about (x, u), what mj_forward computes, and its Jacobians:
///   qacc(x ⊕ dx, u + du, f + df) = qacc + x dx + u du + force df + …
struct AccelerationDerivative {
  VectorXd qacc;   ///< (nv), converged
  MatrixXd x, u;   ///< nv × ndx, nv × nu
  MatrixXd force;  ///< by qfrc_applied: (M + Jᵀ s'' J)⁻¹, nv × nv, symmetric but under the discrete integrator
  StepStatus status = StepStatus::kOk;
  Coverage coverage;
};

/// Inverse dynamics about (q, v, qacc), what mj_inverse computes, and its Jacobians, constraint forces included:
///   qfrc_inverse(q ⊕ dq, v + dv, qacc + da) = qfrc + q dq + v dv + a da + …
struct InverseDerivative {
  VectorXd qfrc;     ///< qfrc_inverse (nv)
  MatrixXd q, v, a;  ///< nv × nv each; a = M + Jᵀ s'' J without mjENBL_INVDISCRETE
  StepStatus status = StepStatus::kOk;
  Coverage coverage;
};

struct LinearizeOptions {
  Level level = Level::kBest;
  int substeps = 1;      ///< engine steps a control interval: each is linearized where the engine's own before it ends
  bool sensors = true;   ///< also C and D
  bool centered = true;  ///< differences: centred (twice the cost, two digits more) or forward
  /// Step nudges; 0: 1e-6, centred unconverged 6e-6; kBest's last resort extrapolates from 3.2e-5, of controls that move
  /// little from further.
  double eps = 0;
  bool converge = true;  ///< differences: solver converged to rounding, warm-started at the solution of the point
  /// Width of the switch of constraint rows [m/s^2, rad/s^2], 0: none. The derivative is then not that of the step: a
  /// row acts by a share that goes from 0 to 1 over the width. Level 1 alone, without noslip and parameters; the
  /// coverage says "smoothing".  Source: plugin/derivative/README.md, section W.
  double smoothing = 0;
  bool operator==(const LinearizeOptions&) const = default;
};

/// Linearizes one control interval; owns a private mjData and all scratch memory. From the second call on what level 1
/// covers, and level 3, allocate nothing but where contacts, limits or couplings of them are more than ever before;
/// level 2 allocates in each column, also for single terms that fall to it (Coverage), and level 1 for tendons,
/// actuators and contacts in the discrete integrator's metric. One a thread. The model must outlive it and is not
/// modified.
class Linearizer {
 public:
  Linearizer(const mjModel* model, const LinearizeOptions& options = {});
  ~Linearizer();
  Linearizer(Linearizer&&) noexcept;
  Linearizer& operator=(Linearizer&&) noexcept;

  /// The context about which to linearize: applied forces, mocap, active equalities, user data and the moving part.
  void SetContext(ConstVectorRef context);       ///< by kContextSignature
  void SetMovingContext(ConstVectorRef moving);  ///< by kMovingSignature

  /// From now on C and D are of those sensors alone of which an entry is marked; rows of the others are zero. A sensor
  /// without closed form costs what several steps a column cost: do not ask for those that nobody reads.
  /// @param read  an entry of s each (ns); empty: all sensors.  @throws Error{kDimensionMismatch}.
  void SelectSensors(const std::vector<char>& read);

  /// From now on also derivatives by parameters: P and Ps in Linearize, theta in Vjp; null: no more. Values of the set
  /// may change between calls; it must outlive the calls.
  ///
  ///   f(x, u; θ + dθ) = f(x, u; θ) ⊕ P dθ,   h(x, u; θ + dθ) = h(x, u; θ) + Ps dθ
  ///
  /// with everything that the engine derives from θ (inverse weights, lengths, bounding volumes): what a step of the
  /// changed model does, at the same x. Inertias, gravity, joint damping, stiffness, springref, armature and friction
  /// loss have a closed form. The others, and Ps, move the residual or sensors at fixed acceleration, without solver;
  /// where that does not hold (friction loss at 0, P of delays, models at Level::kStep) whole converged steps. The
  /// coverage's term "parameters" says so.
  ///
  /// @throws Error{kInvalidArgument} unless the linearizer was made with parameters->model(). At Level::kAnalytic the
  ///         calls that follow refuse a parameter without closed form, by its name, and sensors by parameters.
  /// Cost: a closed form a few products; else per parameter and step 4 evaluations of positions, velocities and forces;
  ///       once 4 ParameterSet::Set each when values change.  Source: plugin/derivative/README.md, section Q.
  void SetParameters(const ParameterSet* parameters);

  /// At the edge of a clamp the derivative is one-sided: a control exactly on ctrlrange and an activation whose next
  /// value is exactly on actrange have the slope inside; strictly outside it is zero. A step that fails (bad state, bad
  /// control, full arena) gives out->status, not numbers.
  ///
  /// @param x (nx), u (nu). @param out  resized when needed.
  /// @throws Error{kDimensionMismatch}; Error{kInvalidArgument} if x or u holds a NaN; Error{kUnsupported} if
  ///         options.level cannot be had for this model (the message names the first term that is missing).
  /// Cost at kStep: substeps × (1 + (1 or 2)(ndx + nu)) mj_step.
  void Linearize(ConstVectorRef x, ConstVectorRef u, StepDerivative* out);

  /// A and B (C and D are empty) about the state, control and context that `data` holds, for a loop that has called
  /// mj_forward there anyway: what that has computed is not computed again. The numbers are those of Linearize to about
  /// 1e-9 of their size. Where an acceleration has not converged as far, Newton's method goes on from it; and the whole
  /// of Linearize is done, which takes mj_forward's time more, where level 1 does not have every term in closed form,
  /// rows are too hard, (C22), (C25), substeps, parameters, smoothing, delays, sleep or a noslip pass are asked for, or
  /// `data` is not what mj_forward leaves. That is seen after mj_step (unless nothing moves), and where these have
  /// changed since: applied forces, positions of free joints and mocap bodies, positions and velocities of scalar
  /// joints that actuators drive, velocities of each tree's first and last moving body, controls, activations, and the
  /// options that make rows of constraints (jacobian, cone, what is disabled). It is not seen of other positions and
  /// velocities alone, controls that act through activations, actuators with several inputs or at a tendon's limit,
  /// active equalities, user data and other numbers of the model, impratio and timestep among them: as mj_jac, this
  /// then answers for a mixture.
  ///
  /// @pre    mj_forward(model, data) has been called since state, control, context or model changed.
  /// @post   `data` is as before, bit for bit, but for the unused part of its arena and maxuse_stack. The context that
  ///         was set is still that of the other calls.
  /// @throws as Linearize; Error{kInvalidArgument} for data of another model.
  /// Cost at kAnalytic: Linearize without mj_forward; under RK4 without the first of its four.
  void LinearizeAfterForward(mjData* data, StepDerivative* out);

  /// Pulls a covector on the next state back: one step of a costate recursion.
  ///
  ///   λ·(A dx + B du + F df) = x·dx + u·du + qfrc·df   for all dx, du and applied forces df
  ///
  /// @param lambda  (ndx).  @param forces  also qfrc and xfrc.
  /// @throws as Linearize.
  /// Cost at kAnalytic: mj_forward, one factorization, two vector solves and recursions on the tree: O(nv) where no
  ///         constraint couples branches. A term that is differenced costs what it costs in Linearize; at kResidual and
  ///         kStep A and B are formed.
  /// Source: plugin/derivative/README.md, section V.
  void Vjp(ConstVectorRef x, ConstVectorRef u, ConstVectorRef lambda, StepVjp* out, bool forces = false);

  /// The same with a covector σ on the sensors s = h(x, u) at the beginning of the interval:
  ///
  ///   λ·(A dx + B du + F df) + σ·(C dx + D du + G df) = x·dx + u·du + qfrc·df
  ///
  /// Only sensors whose σ is not zero are visited. Their rows in closed form are contracted as they come, and what
  /// reads accelerations or contact forces becomes one covector of the acceleration that goes back with λ's; a sensor
  /// without closed form is differenced alone (the coverage's "sensors" names it). options.sensors does not matter.
  ///
  /// @param sigma  (ns), or empty: none.  @throws as Linearize.
  /// Cost at kAnalytic: one more solve and recursion where a sensor reads accelerations or forces; a differenced sensor
  ///         up to 2 to 4 evaluations of it an entry of x, u and qacc. Behind a noslip pass and at the other levels A …
  ///         D are formed.
  /// Source: plugin/derivative/README.md, (V4).
  void Vjp(ConstVectorRef x, ConstVectorRef u, ConstVectorRef lambda, ConstVectorRef sigma, StepVjp* out,
           bool forces = false);

  /// Aᵀ λ and Bᵀ λ (x and u; qfrc and xfrc are empty) after mj_forward: of Vjp what LinearizeAfterForward is of
  /// Linearize, @pre, @post, @throws likewise.
  void VjpAfterForward(mjData* data, ConstVectorRef lambda, StepVjp* out);

  /// Cᵀ σ about the last knot, where there is no control: `u` is empty.
  void VjpSensors(ConstVectorRef x, ConstVectorRef sigma, StepVjp* out, bool forces = false);

  /// Pushes k directions forward: A dx + B du.
  ///
  /// @param dx (ndx × k), du (nu × k).  @throws as Linearize.  Cost: as Vjp, the recursions once a direction.
  void Jvp(ConstVectorRef x, ConstVectorRef u, ConstMatrixRef dx, ConstMatrixRef du, StepJvp* out);

  /// Derivatives of qacc by state, control and applied forces, whatever the integrator and the substeps.
  ///
  /// @throws as Linearize.  Cost: Linearize without the integrator, and nv more columns of the solve.
  /// Source: plugin/derivative/README.md, eq. (3).
  void LinearizeAcceleration(ConstVectorRef x, ConstVectorRef u, AccelerationDerivative* out);

  /// Derivatives of inverse dynamics at the velocities of x and a given qacc; act and u matter only to the metric of
  /// the discrete integrator and the damping of mjENBL_INVDISCRETE (qacc is (v' − v) / h, kStep), applied forces never.
  /// A constraint at the edge of its active set has the derivative of the set that mj_inverse takes.
  ///
  /// @param qacc  (nv).
  /// @throws as Linearize; Error{kUnsupported} for mjENBL_INVDISCRETE with RK4, of which the engine has no inverse.
  /// Cost at kAnalytic: as Linearize without factorization and solves. At kStep: 4 (3 nv) mj_inverse.
  /// Source: plugin/derivative/README.md, eq. (8).
  void LinearizeInverse(ConstVectorRef x, ConstVectorRef u, ConstVectorRef qacc, InverseDerivative* out);

  /// C about the last knot, where there is no control: A, B and D are left empty.
  void LinearizeSensors(ConstVectorRef x, StepDerivative* out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Linearizes about the state, control and context that `data` holds.
///
/// @post   `data` holds the same state, ctrl, context and warm start as before, bit for bit (it is only read).
/// @throws as Linearizer::Linearize. Allocates; in a loop use a Linearizer.
StepDerivative Linearize(const mjModel* model, const mjData* data, const LinearizeOptions& options = {});

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_H_
