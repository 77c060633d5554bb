// The forward sweep: all directions through one knot, then the next.
#include <costate/tangent.h>

#include "rollout/check_trajectory.h"
#include "rollout/direction.h"
#include "rollout/knot_products.h"

namespace costate {

struct Tangent::Impl {
  const mjModel* model;
  VectorXd context;
  int substeps;
  Level level = Level::kBest;
  const ParameterSet* parameters = nullptr;
  std::unique_ptr<KnotProducts> products;
};

Tangent::Tangent(const mjModel* model, ConstVectorRef context, int substeps)
    : impl_(new Impl{model, context, substeps, Level::kBest, nullptr, nullptr}) {
  CheckStart(model, context, substeps);
  CheckHandsOnNothing(model);
}
Tangent::~Tangent() = default;

void Tangent::Push(const Trajectory& trajectory, const std::vector<RolloutDirection>& directions,
                   const TangentOptions& options, RolloutTangent* out) {
  CheckTrajectory(impl_->model, trajectory);
  if (options.sensors) RefusePastSensors(impl_->model, "a tangent of sensors", [](int) { return true; });
  for (const RolloutDirection& d : directions) CheckDirection(impl_->model, trajectory.N(), options.parameters, d);
  if (!impl_->products || impl_->level != options.level || impl_->parameters != options.parameters) {
    impl_->level = options.level;
    impl_->parameters = options.parameters;
    impl_->products = std::make_unique<KnotProducts>(impl_->model, impl_->context, impl_->substeps, options.level,
                                                     options.parameters);
  }
  impl_->products->ForgetCoverage();
  const Dims dims(impl_->model);
  const int N = trajectory.N(), k = static_cast<int>(directions.size());
  *out = RolloutTangent();
  out->dX.assign(directions.size(), MatrixXd::Zero(dims.ndx, N + 1));
  out->dS.assign(options.sensors ? directions.size() : 0, MatrixXd::Zero(dims.ns, N + 1));
  if (k == 0) return;

  // columns: directions
  MatrixXd dx(dims.ndx, k), du(dims.nu, k), dtheta(options.parameters ? options.parameters->size() : 0, k), next, ds;
  for (int i = 0; i < k; i++) {
    dx.col(i) = directions[static_cast<std::size_t>(i)].x0;
    dtheta.col(i) = directions[static_cast<std::size_t>(i)].theta;
  }
  for (int t = 0; t <= N; t++) {
    for (int i = 0; i < k; i++) {
      out->dX[static_cast<std::size_t>(i)].col(t) = dx.col(i);
      if (t < N) du.col(i) = directions[static_cast<std::size_t>(i)].U.col(t);
    }
    if (t == N && !options.sensors) break;
    if (!impl_->products->Push(PointAt(trajectory, t), {dx, du, dtheta}, &next, options.sensors ? &ds : nullptr)) {
      out->status = {.status = impl_->products->status(), .knot = t, .warnings = {}};
      break;
    }
    for (int i = 0; options.sensors && i < k; i++) out->dS[static_cast<std::size_t>(i)].col(t) = ds.col(i);
    dx.swap(next);
  }
  out->coverage = impl_->products->coverage();
}

}  // namespace costate
