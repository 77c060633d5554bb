#include "derivative/check_point.h"

#include <cmath>

#include "core/check.h"

namespace costate {
namespace {

void CheckFinite(const mjModel* model, const char* name, ConstVectorRef values,
                 std::vector<std::string> (*names)(const mjModel*)) {
  for (int i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    throw Error(ErrorCode::kInvalidArgument,
                std::string(name) + " is not finite: " + names(model)[i] + " is " + std::to_string(values[i]));
  }
}

}  // namespace

void CheckDifferentiable(const mjModel* model) {
  if ((model->opt.enableflags & mjENBL_IPC) == 0) return;
  throw Error(ErrorCode::kUnsupported,
              "model '" + ModelName(model) +
                  "' has option flag ipc: its contact multipliers belong to no state, so a step "
                  "cannot be repeated; disable the flag");
}

void CheckFiniteState(const mjModel* model, ConstVectorRef x) { CheckFinite(model, "x", x, StateNames); }
void CheckFiniteControl(const mjModel* model, ConstVectorRef u) { CheckFinite(model, "u", u, ControlNames); }

void CheckPoint(const mjModel* model, const Dims& dims, ConstVectorRef x, ConstVectorRef u) {
  CheckSize(model, "x", x.size(), "nx", dims.nx);
  CheckSize(model, "u", u.size(), "nu", dims.nu);
  CheckFiniteState(model, x);
  CheckFiniteControl(model, u);
}

}  // namespace costate
