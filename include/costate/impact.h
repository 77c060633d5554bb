// Rigid impacts inside a step: where they happen, and the exact derivative through them. For stiff, elastic contacts.
#ifndef COSTATE_IMPACT_H_
#define COSTATE_IMPACT_H_

#include <memory>
#include <string>
#include <vector>

#include <costate/derivative.h>

namespace costate {

/// Why an interval has no event derivative. The derivative by the event does not exist there, or is not to be trusted.
enum class ImpactStatus {
  kOk,
  kInContact,     ///< geoms rest or slide on each other, or are inside each other, where a step starts
  kGrazing,       ///< they touch with hardly any approach speed: dτ/dx grows as 1/speed
  kSimultaneous,  ///< two contact points at once: the derivative depends on which is first
  kTooMany,       ///< impacts accumulate: more than max_impacts in one engine step
  kInexact,  ///< distance and normal of the pair are not smooth to rounding, or the step switches as its duration does
  kStepFailed,  ///< the engine's step failed between impacts
};
const char* ToString(ImpactStatus status);

struct ImpactOptions {
  double restitution = 1;  ///< e ∈ (0, 1]: separation speed / approach speed, of all impacts
  int substeps = 1;        ///< engine steps a control interval
  int max_impacts = 16;    ///< in one engine step
  double touch = 1e-9;     ///< distances up to this are contact [m]
  double grazing = 1e-4;   ///< normal speeds up to this are rest [m/s]
  double exactness =
      1e-6;  ///< largest error bar of what is differenced: the jump by q, the flow by its duration; relative
  /// Contacts of these geoms are impacts, all others stay the engine's own; empty: all contacts are impacts.
  std::vector<std::string> geoms;
  Level level = Level::kBest;  ///< of the flow between impacts
};

struct Impact {
  double time = 0;          ///< within the interval [s]
  int geom[2] = {-1, -1};   ///< in the engine's order; the normal points from the first to the second
  double position[3] = {};  ///< [m]
  double approach = 0;      ///< normal speed before, > 0 [m/s]
  double separation = 0;    ///< after, e · approach [m/s]
  double impulse = 0;       ///< along the normal [N s]
};

/// One control interval of the event model and its Jacobians; tangent columns as in StepDerivative.
struct ImpactStep {
  ImpactStatus status = ImpactStatus::kOk;
  std::string message;          ///< names and numbers when status is not kOk; x_next, A and B are then empty
  VectorXd x_next;              ///< nx
  MatrixXd A, B;                ///< ndx×ndx, ndx×nu; empty unless asked for
  std::vector<Impact> impacts;  ///< up to where it came
  Coverage coverage;            ///< terms of the flow; with impacts also "impact", event-aware
};

/// Steps and linearizes the event model: the model's own step without the contacts, cut at the instants at which the
/// distance of two geoms reaches their margin, where velocities jump by a rigid impulse along the normal:
///
///   x' = φ_{h−τ}(R(φ_τ(x, u)), u),   g(φ_τ(x, u)) = 0,   R: v⁺ = v − (1 + e) M⁻¹ nᵀ (n v) / (n M⁻¹ nᵀ),   n = ∂g/∂q
///
/// φ_s is a step of timestep s, by the model's integrator. What the engine's contacts do over many steps by stiffness
/// and damping happens here in an instant: the motion is another one, of which the engine's is the limit for solref =
/// (−k, 0), k → ∞, with e = 1. The impulse has no friction and passes on to no other constraint (these are soft);
/// stiffness, damping, impedance and friction of an impact contact have no derivative. A pair that goes in and out
/// within one segment between impacts is not seen, nor by the engine's own collision. Source: plugin/smooth/README.md,
/// (E1)–(E7).
class ImpactLinearizer {
 public:
  /// @param model  must outlive the linearizer; not modified. Its numbers and options are those of now: after a change
  ///               make another.
  /// @throws Error{kInvalidArgument} for options out of range and unknown geoms; Error{kUnsupported} for models with
  ///         flexes, adhesion, delays, plastic or plugin state, for `geoms` in explicit pairs, and as Linearizer.
  explicit ImpactLinearizer(const mjModel* model, const ImpactOptions& options = {});
  ~ImpactLinearizer();
  ImpactLinearizer(ImpactLinearizer&&) noexcept;
  ImpactLinearizer& operator=(ImpactLinearizer&&) noexcept;

  void SetContext(ConstVectorRef context);  ///< by kContextSignature: applied forces, mocap, time …

  /// x_next and impacts only. @param x (nx), u (nu). @throws Error{kDimensionMismatch, kInvalidArgument}.
  void Step(ConstVectorRef x, ConstVectorRef u, ImpactStep* out);

  /// Also A and B: the exact derivative of Step.
  /// Cost: one Linearize a segment; an impact some 50 steps more, and 14 nv times positions, collisions and inertias.
  void Linearize(ConstVectorRef x, ConstVectorRef u, ImpactStep* out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A motion of the event model.
struct ImpactTrajectory {
  MatrixXd X;                     ///< nx × (N+1); after a failure columns repeat the last good one
  std::vector<ImpactStep> steps;  ///< N, or up to the one that failed, which is the last
  bool ok() const { return steps.empty() || steps.back().status == ImpactStatus::kOk; }

  /// ∂x_N/∂x_0 = A_{N−1} … A_0 (ndx × ndx). @throws Error{kInvalidArgument} unless ok() and made with derivatives.
  MatrixXd ByStart() const;
  /// The same pulled back: λ_t = A_tᵀ λ_{t+1}; gradient by x_0, and by U into `by_control` (nu × N) when not null.
  VectorXd PullBack(ConstVectorRef lambda, MatrixXd* by_control = nullptr) const;
};

/// x_{t+1} of the event model from x0 under U (nu × N). @param context  by kContextSignature.
ImpactTrajectory ImpactRollout(const mjModel* model, ConstVectorRef context, ConstVectorRef x0, ConstMatrixRef U,
                               const ImpactOptions& options = {}, bool derivatives = true);

}  // namespace costate

#endif  // COSTATE_IMPACT_H_
