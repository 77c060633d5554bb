// Units of the entries of x, u and s, beside their names in tables.
#ifndef COSTATE_ROLLOUT_UNITS_H_
#define COSTATE_ROLLOUT_UNITS_H_

#include <costate/model.h>

#include <string>
#include <vector>

namespace costate {

/// One unit an entry; "1" has none, "ctrl" and "act" are whatever the actuator takes, "user" whatever the sensor gives.
std::vector<std::string> StateUnits(const mjModel* model);
std::vector<std::string> ControlUnits(const mjModel* model);
std::vector<std::string> SensorUnits(const mjModel* model);

/// "qpos[knee] (rad)" for each.
std::vector<std::string> WithUnits(std::vector<std::string> names, const std::vector<std::string>& units);

}  // namespace costate

#endif  // COSTATE_ROLLOUT_UNITS_H_
