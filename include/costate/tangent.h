// Directions through whole rollouts, forward in time: few inputs, many outputs.
#ifndef COSTATE_TANGENT_H_
#define COSTATE_TANGENT_H_

#include <memory>
#include <vector>

#include <costate/rollout.h>

namespace costate {

/// A change of a rollout's inputs, or a covector on them.
struct RolloutDirection {
  VectorXd x0;       ///< tangent of the initial state (ndx)
  MatrixXd U;        ///< nu × N
  VectorXd theta{};  ///< of parameters, held over the motion (nθ); empty where none are asked for
};

struct TangentOptions {
  Level level = Level::kBest;                ///< of the steps' derivatives
  bool sensors = false;                      ///< also dS; forms A, B, C and D at each knot
  const ParameterSet* parameters = nullptr;  ///< directions have theta; the tangent was made with parameters->model()
};

/// What directions become: one trajectory of tangents each.
struct RolloutTangent {
  RolloutStatus status;      ///< not ok: a derivative failed at status.knot, later columns are zero
  std::vector<MatrixXd> dX;  ///< ndx × (N+1) for each direction
  std::vector<MatrixXd> dS;  ///< ns × (N+1) likewise, if asked for
  Coverage coverage;         ///< of the knot with the worst level
};

/// The exact tangent of the discrete steps: dx_{t+1} = A_t dx_t + B_t du_t + P_t dθ, ds_t likewise, by step JVPs: A and
/// B are not formed, but for sensors and parameters. Its results do not depend on how many directions travel together.
class Tangent {
 public:
  /// @param model    must outlive it; not modified.  @param context  by kContextSignature, as of the rollout.
  /// @throws Error{kUnsupported} as Adjoint.
  Tangent(const mjModel* model, ConstVectorRef context, int substeps = 1);
  ~Tangent();

  /// @param trajectory  as Simulator::Rollout fills it.
  /// @throws Error{kDimensionMismatch, kInvalidArgument, kUnsupported} as Linearizer::Jvp.
  /// Cost: N JVPs, their recursions once a direction.
  void Push(const Trajectory& trajectory, const std::vector<RolloutDirection>& directions,
            const TangentOptions& options, RolloutTangent* out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace costate

#endif  // COSTATE_TANGENT_H_
