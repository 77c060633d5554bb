#include "optimizer/added_cost.h"

#include <costate/state.h>

#include <utility>

namespace costate {

void AddSquare(double w, const Vec3& r, const JacobianRows& J, CostExpansion* out) {
  const Eigen::Index nv = J.cols();
  out->l += 0.5 * w * r.squaredNorm();
  out->lx.head(nv) += w * J.transpose() * r;
  out->lxx.topLeftCorner(nv, nv) += w * J.transpose() * J;
}

DataPool::Lease::~Lease() {
  const std::lock_guard lock(pool_.mutex_);
  pool_.free_.push_back(std::move(data_));
}

DataPtr DataPool::Take() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      DataPtr data = std::move(free_.back());
      free_.pop_back();
      return data;
    }
  }
  DataPtr data = MakeData(problem_.model);
  SetContext(problem_.model, data.get(), problem_.context);
  return data;
}

}  // namespace costate
