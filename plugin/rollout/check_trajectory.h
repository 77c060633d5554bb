// What every consumer of a trajectory relies on: its shape, its start, its worker.
#ifndef COSTATE_ROLLOUT_CHECK_TRAJECTORY_H_
#define COSTATE_ROLLOUT_CHECK_TRAJECTORY_H_

#include <costate/rollout.h>

#include <string>

#include "core/check.h"
#include "core/plastic.h"
#include "core/plugins.h"
#include "derivative/check_point.h"
#include "derivative/delayed.h"

namespace costate {

/// @throws Error{kDimensionMismatch}: "trajectory: X is 3 x 7, expected 4 x 7 for model 'hopper' and N = 6".
inline void CheckTrajectory(const mjModel* model, const Trajectory& trajectory) {
  const Dims dims(model);
  const int N = trajectory.N();
  auto check = [&](const char* name, Eigen::Index rows, Eigen::Index cols, int expected_rows, int expected_cols) {
    if (rows == expected_rows && cols == expected_cols) return;
    throw Error(ErrorCode::kDimensionMismatch,
                std::string("trajectory: ") + name + " is " + std::to_string(rows) + " x " + std::to_string(cols) +
                    ", expected " + std::to_string(expected_rows) + " x " + std::to_string(expected_cols) +
                    " for model '" + ModelName(model) + "' and N = " + std::to_string(N));
  };
  check("X", trajectory.X.rows(), trajectory.X.cols(), dims.nx, N + 1);
  check("U", trajectory.U.rows(), trajectory.U.cols(), dims.nu, N);
  check("S", trajectory.S.rows(), trajectory.S.cols(), dims.ns, N + 1);
  check("time", trajectory.time.rows(), trajectory.time.cols(), N + 1, 1);
  check("context", trajectory.context.rows(), trajectory.context.cols(), mj_stateSize(model, kMovingSignature), N + 1);
}

/// What a rollout starts with besides x0 and controls. @throws Error{kDimensionMismatch, kInvalidArgument}.
inline void CheckStart(const mjModel* model, ConstVectorRef context, int substeps) {
  CheckSize(model, "context", context.size(), "context size", mj_stateSize(model, kContextSignature));
  CheckFiniteContext(model, context);
  CheckModelOptions(model);
  if (substeps >= 1) return;
  throw Error(ErrorCode::kInvalidArgument, "substeps is " + std::to_string(substeps) + ", at least 1 is needed");
}

/// A model whose derivatives are taken along another one's motion. @throws
/// Error{kDimensionMismatch} that names the size.
inline void CheckSameSizes(const mjModel* model, const mjModel* other) {
  const Dims a(model), b(other);
  const auto check = [&](const char* name, int found, int expected) {
    if (found == expected) return;
    throw Error(ErrorCode::kDimensionMismatch, std::string("the model of the derivatives has ") + name + " = " +
                                                   std::to_string(found) + ", model '" + ModelName(model) + "' has " +
                                                   std::to_string(expected));
  };
  check("nq", b.nq, a.nq);
  check("nv", b.nv, a.nv);
  check("na", b.na, a.na);
  check("nu", b.nu, a.nu);
  check("nsensordata", b.ns, a.ns);
  check("nbody", static_cast<int>(other->nbody), static_cast<int>(model->nbody));
  check("context size", mj_stateSize(other, kContextSignature), mj_stateSize(model, kContextSignature));
}

/// What a step hands on besides x has no derivative: a gradient through a rollout would lack it. @throws
/// Error{kUnsupported}.
/// @param delays  false: the caller follows the history of controls itself.
inline void CheckHandsOnNothing(const mjModel* model, bool delays = true) {
  const char* what = delays && model->nhistory > 0 ? "delays"
                     : HasPlasticity(model)        ? "plastic deformation"
                     : model->nplastic > 0         ? "reference frames of rods"
                     : HasMovingPluginState(model) ? "state of plugins"
                                                   : nullptr;
  if (!what) return;
  throw Error(ErrorCode::kUnsupported,
              "model '" + ModelName(model) + "' has " + what +
                  ", which a step hands on beside the state: gradients through rollouts would lack it");
}

/// Values of the past are not followed back. @param reads  reads(i): is entry i of the sensors read?  @param who  "the
/// loss". @throws Error{kUnsupported} for a sensor that is read and shows earlier steps.
template <typename Reads>
void RefusePastSensors(const mjModel* model, const char* who, Reads reads) {
  for (int i = 0; i < model->nsensor; i++) {
    if (!HasPast(model, i) && !ShowsPluginState(model, i)) continue;
    bool read = false;
    for (int k = 0; k < model->sensor_dim[i]; k++) read = read || reads(model->sensor_adr[i] + k);
    if (!read) continue;
    throw Error(ErrorCode::kUnsupported, std::string(who) + " reads sensor " + ElementName(model, mjOBJ_SENSOR, i) +
                                             ", which is delayed, keeps its value for an interval or is a plugin's "
                                             "that has a state: values on their way are not followed back");
  }
}

/// @throws Error{kInvalidArgument} unless 0 ≤ worker < workers; `owner` is its name in words.
inline void CheckWorker(int worker, std::size_t workers, const char* owner) {
  if (worker >= 0 && worker < static_cast<int>(workers)) return;
  throw Error(ErrorCode::kInvalidArgument,
              "worker is " + std::to_string(worker) + ", the " + owner + " has " + std::to_string(workers));
}

}  // namespace costate

#endif  // COSTATE_ROLLOUT_CHECK_TRAJECTORY_H_
