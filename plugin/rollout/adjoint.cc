// The reverse sweep's entry: what it is asked for, checked, and its threads.
#include <costate/adjoint.h>
#include <fmt/core.h>

#include "core/check.h"
#include "core/engine_guard.h"
#include "derivative/check_point.h"
#include "rollout/adjoint_sweep.h"
#include "rollout/check_trajectory.h"
#include "rollout/thread_pool.h"

namespace costate {

struct Adjoint::Impl {
  Impl(const mjModel* model, ConstVectorRef context, int substeps, int threads)
      : setting(model, context, substeps), pool(threads), workers(static_cast<std::size_t>(pool.threads())) {}

  AdjointSetting setting;
  ThreadPool pool;
  std::vector<AdjointWorker> workers;
};

namespace {

void CheckOptions(const AdjointOptions& o) {
  if (o.window < 0)
    throw Error(ErrorCode::kInvalidArgument, "window is " + std::to_string(o.window) + ", it cannot be negative");
  if (!(o.clip >= 0))
    throw Error(ErrorCode::kInvalidArgument, "clip is " + fmt::format("{:g}", o.clip) + ", it cannot be negative");
  if (!(o.reach >= 0))
    throw Error(ErrorCode::kInvalidArgument, "reach is " + fmt::format("{:g}", o.reach) + ", it cannot be negative");
}

}  // namespace

Adjoint::Adjoint(const mjModel* model, ConstVectorRef context, int substeps, int threads)
    : impl_(std::make_unique<Impl>(model, context, substeps, threads)) {}
Adjoint::~Adjoint() = default;

int Adjoint::threads() const { return impl_->pool.threads(); }

void Adjoint::ParallelFor(int n, const std::function<void(int, int)>& job) { impl_->pool.ParallelFor(n, job); }

void Adjoint::Gradient(ConstVectorRef x0, ConstMatrixRef U, const Loss& loss, const AdjointOptions& options,
                       RolloutGradient* out, int worker) {
  RefuseInCallback("Adjoint::Gradient");
  const AdjointSetting& a = impl_->setting;
  CheckSize(a.model, "x0", x0.size(), "nx", a.dims.nx);
  CheckSize(a.model, "a column of U", U.rows(), "nu", a.dims.nu);
  CheckFiniteState(a.model, x0);
  for (Eigen::Index t = 0; t < U.cols(); ++t) CheckFiniteControl(a.model, U.col(t));
  if (U.cols() < 1)
    throw Error(ErrorCode::kInvalidArgument, "U has no columns: there is no interval to go back through");
  CheckOptions(options);
  if (options.spectral_radius && a.delays) {
    throw Error(ErrorCode::kUnsupported, "the spectral radius of a step with delays, whose history is no part of A");
  }
  if (options.derivative_model) {
    CheckSameSizes(a.model, options.derivative_model);
    if (options.parameters) {
      throw Error(ErrorCode::kUnsupported, "gradients by parameters are not there with another model's derivatives");
    }
  }
  CheckWorker(worker, impl_->workers.size(), "adjoint");
  AdjointWorker& w = impl_->workers[static_cast<std::size_t>(worker)];
  if (!w.data) w.data = MakeData(a.model);
  AdjointSweep(a, &w, U, loss, options, out).Run(x0);
}

}  // namespace costate
