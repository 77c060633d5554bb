// Sensors that nothing reads need not be computed.
#ifndef COSTATE_CORE_SENSOR_STAGES_H_
#define COSTATE_CORE_SENSOR_STAGES_H_

#include <mujoco/mujoco.h>

#include <algorithm>
#include <vector>

#include "core/plugins.h"

namespace costate {

/// sensor_needstage for a model that computes those sensors alone of which an entry of s is marked (ns), those of
/// plugins and those of a user's callback.
/// @return empty: these are all there are, or a step, plugin or callback may depend on the others.
inline std::vector<int> StagesOfRead(const mjModel* model, const std::vector<char>& read) {
  if (read.empty() || MayReadReports(model)) return {};
  std::vector<int> stages(model->sensor_needstage, model->sensor_needstage + model->nsensor);
  bool all = true;
  for (int i = 0; i < model->nsensor; ++i) {
    const int type = model->sensor_type[i];
    if (type == mjSENS_PLUGIN || (type == mjSENS_USER && mjcb_sensor)) continue;
    const auto begin = read.begin() + model->sensor_adr[i];
    if (std::any_of(begin, begin + model->sensor_dim[i], [](char entry) { return entry != 0; })) continue;
    stages[static_cast<std::size_t>(i)] = mjSTAGE_NONE;
    all = false;
  }
  if (all) stages.clear();
  return stages;
}

}  // namespace costate

#endif  // COSTATE_CORE_SENSOR_STAGES_H_
