#include "optimizer/via_cost.h"

#include "core/engine_guard.h"

namespace costate {
namespace {

using ViaRows = Eigen::Matrix<double, 3, Eigen::Dynamic, Eigen::RowMajor>;

Vec3 Miss(const mjData* d, const Via& via) { return Vec3Map(d->geom_xpos + 3 * via.geom) - via.place; }

}  // namespace

double ViaCost::Value(const KnotView& knot) const {
  double l = own().Value(knot);
  const auto [begin, end] = vias_.equal_range(knot.t);
  if (begin == end || knot.t == knot.N) return l;
  const DataPool::Lease lease(&pool_);
  const EngineGuard guard(lease.get());
  PutThere(model_, knot.x, lease.get());
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
  PutThere(model_, knot.x, d);
  const int nv = model_->nv;
  ViaRows J(3, nv);
  for (auto it = begin; it != end; ++it) {
    const Via& via = it->second;
    const Vec3 r = Miss(d, via);
    const double w = knot.dt * via.weight;
    mj_jac(model_, d, J.data(), nullptr, d->geom_xpos + 3 * via.geom, model_->geom_bodyid[via.geom]);
    out->l += 0.5 * w * r.squaredNorm();
    out->lx.head(nv) += w * J.transpose() * r;
    out->lxx.topLeftCorner(nv, nv) += w * J.transpose() * J;
  }
}

}  // namespace costate
