#include "optimizer/via_cost.h"

#include "core/engine_guard.h"
#include "core/posture.h"

namespace costate {
namespace {

Vec3 Miss(const mjData* d, const Via& via) { return Vec3Map(d->geom_xpos + 3 * via.geom) - via.place; }

}  // namespace

double ViaCost::Value(const KnotView& knot) const {
  double l = own().Value(knot);
  const auto [begin, end] = vias_.equal_range(knot.t);
  if (begin == end || knot.t == knot.N) return l;
  const DataPool::Lease lease(&pool_);
  const EngineGuard guard(lease.get());
  SetPosture(model_, lease.get(), knot.x);
  for (auto it = begin; it != end; ++it)
    l += 0.5 * knot.dt * it->second.weight * Miss(lease.get(), it->second).squaredNorm();
  return l;
}

void ViaCost::Expand(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const {
  own().Expand(knot, C, D, out);
  const auto [begin, end] = vias_.equal_range(knot.t);
  if (begin == end || knot.t == knot.N) return;
  const DataPool::Lease lease(&pool_);
  mjData* d = lease.get();
  const EngineGuard guard(d);
  SetPosture(model_, d, knot.x);
  JacobianRows J(3, model_->nv);
  for (auto it = begin; it != end; ++it) {
    const Via& via = it->second;
    GeomJacobian(model_, d, via.geom, &J);
    AddSquare(knot.dt * via.weight, Miss(d, via), J, out);
  }
}

}  // namespace costate
