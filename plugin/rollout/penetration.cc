#include "rollout/penetration.h"

#include <costate/state.h>

#include <algorithm>

#include "core/engine_guard.h"

namespace costate {

VectorXd Penetrations(const mjModel* model, ConstVectorRef context, ConstMatrixRef X) {
  const DataPtr data = MakeData(model);
  const EngineGuard guard(data.get(), EngineGuard::Around::kEngine);
  VectorXd depths = VectorXd::Zero(X.cols());
  for (Eigen::Index i = 0; i < X.cols(); i++) {
    SetContext(model, data.get(), context);
    SetState(model, data.get(), X.col(i));
    mj_fwdPosition(model, data.get());
    for (int k = 0; k < data->ncon; k++) depths[i] = std::max(depths[i], -data->contact[k].dist);
  }
  return depths;
}

}  // namespace costate
