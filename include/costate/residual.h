// Residuals that a task file cannot say: functions of one's own under a name, <cost callback="name" …/>.
#ifndef COSTATE_RESIDUAL_H_
#define COSTATE_RESIDUAL_H_

#include <mujoco/mujoco.h>

#include <functional>
#include <string>
#include <vector>

#include <costate/types.h>

namespace costate {

/// What a residual is evaluated at: one knot.
struct ResidualInput {
  const mjModel* model;     ///< the task's, with the sensors that were added to it
  int t, N;                 ///< knot and horizon
  double time;              ///< [s] from the start of the task
  ConstVectorRef measured;  ///< the measures that the cost names (<measure>), stacked in that order
  ConstVectorRef x, u;      ///< nx, nu; u is empty at t == N
};

/// Derivatives of a residual of size n. What the callback does not read stays empty.
struct ResidualJacobian {
  MatrixXd measured;  ///< n × size of `measured`
  MatrixXd x;         ///< n × ndx, columns as those of TangentNames
  MatrixXd u;         ///< n × nu
};

/// r = g(measured, x, u, time). Called from many threads at once; must give the same for the same input.
struct ResidualCallback {
  int size = 0;              ///< n ≥ 1
  bool reads_state = false;  ///< x directly; what `measured` gives needs no x
  bool reads_control = false;
  std::function<void(const ResidualInput&, Eigen::Ref<VectorXd>)> value;

  /// Sizes are set, to be kept, and entries zero on entry; another size is an Error{kDimensionMismatch} with the name,
  /// an entry that is not finite an Error{kInvalidArgument} with name and knot, which ends a solve.
  /// Without it: centred differences of `value`, an error near 1e-10 of its size.
  std::function<void(const ResidualInput&, ResidualJacobian*)> jacobian{};
};

/// Makes a residual known under a name, to every task file that is loaded afterwards in this process; a second one of
/// that name takes the first one's place there. Safe to call from many threads.
/// @throws Error{kInvalidArgument} for an empty name, size < 1 or no value.
void RegisterResidual(const std::string& name, ResidualCallback callback);

/// Names that are registered, in alphabetical order.
std::vector<std::string> ResidualNames();

}  // namespace costate

#endif  // COSTATE_RESIDUAL_H_
