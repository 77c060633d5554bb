#include "optimizer/mpc_measurement.h"

#include "core/state_layout.h"

namespace costate {

void SetMeasured(const Task& task, const MpcMeasurement& measured, mjData* data) {
  SetContext(task.model.get(), data, task.context);
  SetMovingContext(task.model.get(), data, measured.moving);
  if (measured.scene.size() > 0) SetStatePart(task.model.get(), data, measured.scene, kSceneSignature);
  mju_addTo(data->qfrc_applied, measured.force.data(), static_cast<int>(measured.force.size()));
}

}  // namespace costate
