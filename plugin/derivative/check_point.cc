#include "derivative/check_point.h"

#include <costate/state.h>

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "core/finite.h"

namespace costate {

void CheckDifferentiable(const mjModel* model) {
  if ((NotNull(model)->opt.enableflags & mjENBL_IPC) == 0) return;
  throw Error(ErrorCode::kUnsupported,
              "model '" + ModelName(model) +
                  "' has option flag ipc: its contact multipliers belong to no state, so a step "
                  "cannot be repeated; disable the flag");
}

void CheckFiniteState(const mjModel* model, ConstVectorRef x) { CheckFinite(model, "x", x, StateNames); }
void CheckFiniteControl(const mjModel* model, ConstVectorRef u) { CheckFinite(model, "u", u, ControlNames); }

void CheckFiniteContext(const mjModel* model, ConstVectorRef context) {
  if (IsFinite(context.data(), context.size())) return;
  // each entry belongs to the joint or body of its row
  struct Input {
    int bit;
    const char* name;
    int columns, objtype;
  };
  for (const Input& input : {Input{mjSTATE_QFRC_APPLIED, "qfrc_applied", 1, mjOBJ_DOF},
                             Input{mjSTATE_XFRC_APPLIED, "xfrc_applied", 6, mjOBJ_BODY},
                             Input{mjSTATE_MOCAP_POS, "mocap_pos", 3, mjOBJ_UNKNOWN},
                             Input{mjSTATE_MOCAP_QUAT, "mocap_quat", 4, mjOBJ_UNKNOWN}}) {
    const int first = mj_stateSize(model, kContextSignature & (input.bit - 1)), n = mj_stateSize(model, input.bit);
    for (int i = 0; i < n; ++i) {
      const double value = context[first + i];
      if (std::isfinite(value)) continue;
      const int row = i / input.columns, nbody = static_cast<int>(model->nbody);
      const int mocap =
          static_cast<int>(std::find(model->body_mocapid, model->body_mocapid + nbody, row) - model->body_mocapid);
      const std::string of = input.objtype == mjOBJ_DOF
                                 ? "joint " + ElementName(model, mjOBJ_JOINT, model->dof_jntid[row])
                                 : "body " + ElementName(model, mjOBJ_BODY, input.objtype == mjOBJ_BODY ? row : mocap);
      throw Error(ErrorCode::kInvalidArgument, std::string(input.name) + " is not finite: entry " + std::to_string(i) +
                                                   ", of " + of + ", is " + std::to_string(value));
    }
  }
}

void CheckPoint(const mjModel* model, const Dims& dims, ConstVectorRef x, ConstVectorRef u) {
  CheckSize(model, "x", x.size(), "nx", dims.nx);
  CheckSize(model, "u", u.size(), "nu", dims.nu);
  CheckFiniteState(model, x);
  CheckFiniteControl(model, u);
}

}  // namespace costate
