// Gradients through whole rollouts: one reverse sweep gives the derivative of a loss by every control, by the start and
// by every applied force, at a small multiple of the simulation's cost and in bounded memory.
#ifndef COSTATE_ADJOINT_H_
#define COSTATE_ADJOINT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <costate/certificate.h>
#include <costate/loss.h>

namespace costate {

struct AdjointOptions {
  Level level = Level::kBest;                ///< of the steps' derivatives
  bool forces = false;                       ///< also gradients by applied forces
  const ParameterSet* parameters = nullptr;  ///< also gradients by these; the adjoint was made with parameters->model()
  std::size_t memory = 0;  ///< [bytes] for the states that are kept on the way; 0: all are kept, nothing is recomputed
  /// Differentiates this model along the motion of the adjoint's own (MakeSmoothModel; same state, control, sensors and
  /// context); null: its own. Not with parameters.
  const mjModel* derivative_model = nullptr;
  double smoothing = 0;  ///< LinearizeOptions::smoothing
  /// u_t = π(t, x_t, s_t) was played: gradients by x0 are those of the closed loop, and `weights` are filled. U must be
  /// the controls that it gave (RolloutFeedback); gradients by U are by additions to them.
  const Feedback* feedback = nullptr;
  int window = 0;                ///< truncation: the costate is dropped after each so many knots from the end; 0: never
  double clip = 0;               ///< a costate longer than this is shortened to it; 0: never
  bool spectral_radius = false;  ///< also health.spectral_radius; forms A and its eigenvalues: O(ndx³) a knot
  bool certify = false;          ///< also health.labels; one Certify a knot
  double reach = CertifyOptions().reach;  ///< of the certificates
};

/// Step by step, how a gradient travels back.
struct GradientHealth {
  VectorXd costate;           ///< |λ_t| (N+1)
  VectorXd growth;            ///< |A_tᵀ λ_{t+1}| / |λ_{t+1}| (N), 1 where λ_{t+1} = 0
  std::vector<int> switches;  ///< knots t at which the active constraints are others than at t − 1
  std::vector<int> clipped;   ///< knots whose costate was shortened by options.clip
  std::vector<int> dropped;   ///< knots at which it was dropped by options.window
  VectorXd
      spectral_radius;  ///< largest |eigenvalue| of A_t (N), if asked for; A is no normal matrix: growth can exceed it
  std::vector<Smoothness> labels;  ///< of the step at x_t, its first substep (N), if asked for; or kSmoothed
  std::vector<std::string>
      crossing;  ///< what switches there: "release of contact of foot and floor"; "" where smooth (N)

  enum class Verdict { kHealthy, kExploding, kVanishing };
  Verdict verdict = Verdict::kHealthy;
  double rate = 0;   ///< mean of ln growth a second, backwards in time [1/s]
  int from = -1;     ///< exploding: the knot, going back, from which the product of growths exceeds 1e4
  std::string text;  ///< the verdict in a sentence with its numbers
};

/// The loss of a rollout and its gradient.
struct RolloutGradient {
  RolloutStatus status;  ///< not ok: the rollout or a derivative failed at status.knot, and there is no gradient
  double loss = 0;
  VectorXd x0;        ///< by the tangent of the initial state (ndx)
  MatrixXd U;         ///< by the controls (nu × N)
  MatrixXd qfrc;      ///< by qfrc_applied held over each control interval (nv × N), if asked for; when the loss reads
                      ///< sensors one column more: what the force does to those of the last knot
  MatrixXd xfrc;      ///< by xfrc_applied likewise (6 nbody × N or N + 1)
  VectorXd theta;     ///< by options.parameters (nθ), each acting in every interval and sensor; x0 is held
  VectorXd weights;   ///< by the weights of options.feedback
  VectorXd xN;        ///< the last state (nx)
  Coverage coverage;  ///< of the knot with the worst level
  GradientHealth health;
  std::int64_t recomputed = 0;  ///< knots that were simulated again because their state had not been kept
  std::size_t kept_bytes = 0;   ///< of the states that were kept, at most
};

/// The exact adjoint of the discrete steps: λ_N = ∂l_N, λ_t = A_tᵀ λ_{t+1} + ∂l_t/∂x, ∂L/∂u_t = B_tᵀ λ_{t+1} + ∂l_t/∂u,
/// by step VJPs, with slopes ∂l_t/∂s by sensors pulled back alongside: A, B, C and D are not formed.
///
/// One model and one start context. Each worker has its own mjData; results do not depend on how many there are.
class Adjoint {
 public:
  /// @param model    must outlive it; not modified.  @param context  by kContextSignature: what the rollout starts with
  /// besides x0 and U.  @param substeps  engine steps a control interval.  @param threads  workers; 0: one a core.
  ///
  /// With delayed actuators the gradient follows each control through the history to the steps in which it acts
  /// (substeps one by one); the history at the start is held.
  /// @throws Error{kUnsupported} for plastic deformation, reference frames of rods or plugin state, which steps hand on
  ///         beside x, for delays under RK4; in Gradient for slopes of sensors that are delayed, keep their value for
  ///         an interval or are a plugin's that has a state.
  Adjoint(const mjModel* model, ConstVectorRef context, int substeps = 1, int threads = 1);
  ~Adjoint();

  int threads() const;

  /// Simulates x0 (nx) under U (nu × N, N ≥ 1) and differentiates the loss.
  ///
  /// @throws Error{kDimensionMismatch, kInvalidArgument, kUnsupported} as Linearizer::Vjp.
  /// Cost: one rollout and N VJPs, whatever nu and nv; with options.memory also `recomputed` knots, the fewest that the
  ///       memory allows.  Source: plugin/rollout/README.md, "Adjoint"; Griewank & Walther 2000.
  void Gradient(ConstVectorRef x0, ConstMatrixRef U, const Loss& loss, const AdjointOptions& options,
                RolloutGradient* out, int worker = 0);

  /// Runs job(i, worker) for i in [0, n) on the workers: batches of gradients.
  void ParallelFor(int n, const std::function<void(int, int)>& job);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace costate

#endif  // COSTATE_ADJOINT_H_
