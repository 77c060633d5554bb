#include <costate/step.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "core/check.h"
#include "core/engine_guard.h"
#include "core/plugins.h"
#include "core/state_layout.h"
#include "core/warnings.h"

namespace costate {
namespace {

// the engine's own bound: beyond it, or NaN, a number is bad
bool AllGood(const mjtNum* values, int n) {
  for (int i = 0; i < n; ++i) {
    if (!(std::abs(values[i]) <= mjMAXVAL)) return false;
  }
  return true;
}

// Reads what the engine's warning counters gained in a scope. Comparing them before and after is not enough: an
// automatic reset sets them back, so that one failure looks like the one before. They are zeroed, read, and what was
// there is added.
class Warnings {
 public:
  explicit Warnings(mjData* data) : data_(data) {
    for (int i = 0; i < mjNWARNING; ++i) {
      before_[i] = data->warning[i].number;
      data->warning[i].number = 0;
    }
  }
  ~Warnings() {
    for (int i = 0; i < mjNWARNING; ++i) data_->warning[i].number += before_[i];
  }
  StepStatus Status() const { return StatusOfWarnings(data_); }

 private:
  mjData* data_;
  std::array<int, mjNWARNING> before_;
};

// The caller's model, or a shallow copy without sleep: which trees sleep is history that no state holds, f has none.
class Awake {
 public:
  explicit Awake(const mjModel* model) : model_(model) {
    if ((model->opt.enableflags & mjENBL_SLEEP) == 0) return;
    copy_ = std::make_unique<mjModel>(*model);
    copy_->opt.enableflags &= ~mjENBL_SLEEP;
    model_ = copy_.get();
  }
  const mjModel* get() const { return model_; }

 private:
  const mjModel* model_;
  std::unique_ptr<mjModel> copy_;
};

// Runs engine calls under a guard. When the arena is full the engine drops contacts or constraints and warns, unless
// its stack is what does not fit: that it calls an error, here the same status.
template <typename Calls>
StepStatus Run(mjData* data, const Calls& calls) {
  EngineGuard guard(data, EngineGuard::Around::kEngine);
  const Warnings warnings(data);
  try {
    calls(warnings);
  } catch (const Error& error) {
    if (std::strstr(error.what(), "stack overflow") == nullptr) throw;
    return StepStatus::kArenaFull;
  }
  return warnings.Status();
}

void SetStateAndControl(const mjModel* model, mjData* data, const Dims& dims, ConstVectorRef x, ConstVectorRef u) {
  CheckData(model, data);
  CheckSize(model, "x", x.size(), "nx", dims.nx);
  CheckSize(model, "u", u.size(), "nu", dims.nu);
  LoadState(dims, data, x.data());
  std::copy_n(u.data(), dims.nu, data->ctrl);
  data->flg_energyvel = 0;  // else sensors of kinetic energy read that of another state
}

// a callback that was refused in this step may have set the control as it does where a call of its fails: the motion
// would be that of another control, without a word
void CheckControlStayed(const mjData* data, ConstVectorRef u, int refused_before) {
  if (RefusedInCallbacks() == refused_before || std::equal(u.data(), u.data() + u.size(), data->ctrl)) return;
  throw Error(
      ErrorCode::kInvalidArgument,
      "a callback of the engine (mjcb_control …) called Costate in a step that Costate simulates on data of its "
      "own, was refused, and changed the control of that step (remedy: the callback returns at once where the "
      "data that it is given are not the host's: if (d != mine) return;)");
}

void CopySensors(const Dims& dims, const mjData* data, VectorRef sensors) {
  if (sensors.size() > 0) sensors = Eigen::Map<const VectorXd>(data->sensordata, dims.ns);
}

}  // namespace

const char* ToString(StepStatus status) {
  switch (status) {
    case StepStatus::kOk: return "ok";
    case StepStatus::kBadState: return "state or acceleration became NaN or huge";
    case StepStatus::kBadControl: return "a control is NaN or huge";
    case StepStatus::kArenaFull:
      return "contacts or constraints found no memory: the model's <size memory> is too small";
  }
  return "unknown";
}

StepStatus Step(const mjModel* model, mjData* data, ConstVectorRef x, ConstVectorRef u, int substeps, VectorRef x_next,
                VectorRef sensors) {
  const Dims dims(model);
  if (substeps < 1) {
    throw Error(ErrorCode::kInvalidArgument, "substeps is " + std::to_string(substeps) + ", at least 1 is needed");
  }
  CheckModelOptions(model);
  if (x_next.size() > 0) CheckSize(model, "x_next", x_next.size(), "nx", dims.nx);
  if (sensors.size() > 0) CheckSize(model, "sensors", sensors.size(), "nsensordata", dims.ns);
  SetStateAndControl(model, data, dims, x, u);

  const Awake awake(model);

  // sensors are those of the first step. No std::optional: it would be filled with zeros, 6 kB a step.
  mjModel senseless;
  const mjModel* further = awake.get();
  if (substeps > 1 && model->nsensor > 0 && !MayReadReports(model)) {
    senseless = *awake.get();
    senseless.opt.disableflags |= mjDSBL_SENSOR;
    further = &senseless;
  }
  const int refused = RefusedInCallbacks();
  const StepStatus status = Run(data, [&](const Warnings& warnings) {
    for (int i = 0; i < substeps; ++i) {
      mj_step(i > 0 ? further : awake.get(), data);

      // mj_step leaves the sensors of the state that it started from
      if (i == 0) CopySensors(dims, data, sensors);
      if (warnings.Status() == StepStatus::kBadState) break;
    }
  });
  if (status == StepStatus::kOk) CheckControlStayed(data, u, refused);
  if (x_next.size() > 0) SaveState(dims, data, x_next.data());

  // the engine looks at a state only when it steps from it
  const bool good = AllGood(data->qpos, dims.nq) && AllGood(data->qvel, dims.nv) && AllGood(data->act, dims.na);
  return good ? status : StepStatus::kBadState;
}

StepStatus Forward(const mjModel* model, mjData* data, ConstVectorRef x, ConstVectorRef u, VectorRef sensors) {
  const Dims dims(model);
  CheckModelOptions(model);
  if (sensors.size() > 0) CheckSize(model, "sensors", sensors.size(), "nsensordata", dims.ns);
  SetStateAndControl(model, data, dims, x, u);
  if (!AllGood(data->qpos, dims.nq) || !AllGood(data->qvel, dims.nv) || !AllGood(data->act, dims.na)) {
    return StepStatus::kBadState;
  }

  const Awake awake(model);
  const StepStatus status = Run(data, [&](const Warnings&) {
    mj_forward(awake.get(), data);
    CopySensors(dims, data, sensors);
  });
  return AllGood(data->qacc, dims.nv) ? status : StepStatus::kBadState;
}

}  // namespace costate
