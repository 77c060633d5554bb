// Names of elements and of the entries of x, dx, u and s; nearest names; data at a keyframe.
#include <costate/model.h>
#include <costate/state.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "core/check.h"
#include "core/element.h"
#include "core/engine_guard.h"

namespace costate {
namespace {

using Names = std::vector<std::string>;

// "qvel[root].wx"; without a suffix "qvel[knee]"
std::string Entry(const char* vector, const std::string& element, const std::string& suffix = "") {
  return std::string(vector) + "[" + element + "]" + (suffix.empty() ? "" : "." + suffix);
}

Names PositionNames(const mjModel* model) {
  Names names;
  for (int i = 0; i < model->njnt; ++i) {
    const std::string joint = ElementName(model, mjOBJ_JOINT, i);
    const int type = model->jnt_type[i];
    if (type == mjJNT_FREE) {
      for (const char* axis : {"x", "y", "z"}) names.push_back(Entry("qpos", joint, axis));
    }
    if (type == mjJNT_FREE || type == mjJNT_BALL) {
      for (const char* part : {"qw", "qx", "qy", "qz"}) names.push_back(Entry("qpos", joint, part));
    } else {
      names.push_back(Entry("qpos", joint));
    }
  }
  return names;
}

// one entry a degree of freedom; `linear` and `angular` stand before x, y, z of free and ball joints
Names DofNames(const mjModel* model, const char* vector, const std::string& linear, const std::string& angular) {
  Names names;
  for (int i = 0; i < model->njnt; ++i) {
    const std::string joint = ElementName(model, mjOBJ_JOINT, i);
    const int type = model->jnt_type[i];
    if (type == mjJNT_FREE) {
      for (const char* axis : {"x", "y", "z"}) names.push_back(Entry(vector, joint, linear + axis));
    }
    if (type == mjJNT_FREE || type == mjJNT_BALL) {
      for (const char* axis : {"x", "y", "z"}) names.push_back(Entry(vector, joint, angular + axis));
    } else {
      names.push_back(Entry(vector, joint));
    }
  }
  return names;
}

// an actuator has none, one or several activations
Names ActivationNames(const mjModel* model) {
  Names names(model->na);
  for (int i = 0; i < model->nactuator; ++i) {
    const std::string actuator = ElementName(model, mjOBJ_ACTUATOR, i);
    const int address = model->actuator_actadr[i], count = model->actuator_actnum[i];
    for (int k = 0; address >= 0 && k < count; ++k) {
      names[address + k] = Entry("act", actuator, count == 1 ? "" : std::to_string(k));
    }
  }
  return names;
}

void Extend(const Names& more, Names* names) { names->insert(names->end(), more.begin(), more.end()); }

// edits (insert, delete, replace, swap of neighbours) that turn a into b, upper and lower case taken as equal
int EditDistance(const std::string& a, const std::string& b) {
  const int n = static_cast<int>(a.size()), m = static_cast<int>(b.size());
  std::vector<std::vector<int>> cost(n + 1, std::vector<int>(m + 1));
  auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  for (int i = 0; i <= n; ++i) {
    for (int j = 0; j <= m; ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1])) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[n][m];
}

// every number of a keyframe must be one that the engine can step from
void CheckKeyNumbers(const mjModel* model, const mjData* data, const std::string& key) {
  auto check = [&key](const mjtNum* values, int n, auto&& name) {
    for (int i = 0; i < n; ++i) {
      if (std::abs(values[i]) <= mjMAXVAL) continue;
      throw Error(ErrorCode::kInvalidArgument, fmt::format("keyframe '{}': {} is {:g}", key, name(i), values[i]));
    }
  };
  const Names x = StateNames(model), u = ControlNames(model);
  const VectorXd state = GetState(model, data);
  check(state.data(), static_cast<int>(state.size()), [&x](int i) { return x[i]; });
  check(data->ctrl, static_cast<int>(model->nu), [&u](int i) { return u[i]; });
  check(data->mocap_pos, static_cast<int>(3 * model->nmocap), [](int i) { return "mpos " + std::to_string(i); });
  check(data->mocap_quat, static_cast<int>(4 * model->nmocap), [](int i) { return "mquat " + std::to_string(i); });
  check(&data->time, 1, [](int) { return std::string("time"); });
}

}  // namespace

DataPtr MakeDataAtKey(const mjModel* model, const std::string& key) {
  const int id = FindNamedOrNumbered(NotNull(model), mjOBJ_KEY, "keyframe", key);
  DataPtr data = MakeData(model);
  EngineGuard guard(data.get());
  mj_resetDataKeyframe(model, data.get(), id);
  CheckKeyNumbers(model, data.get(), key);
  return data;
}

std::string ElementName(const mjModel* model, int type, int id) {
  const char* name = mj_id2name(NotNull(model), type, id);
  if (name != nullptr && name[0] != '\0') return name;
  const char* kind = mju_type2Str(type);
  return std::string(kind != nullptr ? kind : "element") + " " + std::to_string(id);
}

std::string ModelName(const mjModel* model) { return NotNull(model)->names; }

std::vector<std::string> StateNames(const mjModel* model) {
  Names names = PositionNames(NotNull(model));
  Extend(DofNames(model, "qvel", "v", "w"), &names);
  Extend(ActivationNames(model), &names);
  return names;
}

std::vector<std::string> TangentNames(const mjModel* model) {
  Names names = DofNames(NotNull(model), "qpos", "", "r");
  Extend(DofNames(model, "qvel", "v", "w"), &names);
  Extend(ActivationNames(model), &names);
  return names;
}

std::vector<std::string> ControlNames(const mjModel* model) {
  Names names(NotNull(model)->nu);
  for (int i = 0; i < model->nactuator; ++i) {
    const std::string actuator = ElementName(model, mjOBJ_ACTUATOR, i);
    const int count = model->actuator_ctrlnum[i];
    for (int k = 0; k < count; ++k) {
      const char* input = count == 1 ? "" : mj_actuatorInputName(model, i, k);
      names[model->actuator_ctrladr[i] + k] = Entry("ctrl", actuator, input != nullptr ? input : std::to_string(k));
    }
  }
  return names;
}

std::vector<std::string> SensorNames(const mjModel* model) {
  Names names(NotNull(model)->nsensordata);
  for (int i = 0; i < model->nsensor; ++i) {
    const std::string sensor = ElementName(model, mjOBJ_SENSOR, i);
    const int dim = model->sensor_dim[i];
    for (int k = 0; k < dim; ++k) {
      names[model->sensor_adr[i] + k] = Entry("sensor", sensor, dim == 1 ? "" : std::to_string(k));
    }
  }
  return names;
}

std::string NearestName(const std::string& name, const std::vector<std::string>& candidates) {
  // near: at most a third of the letters differ, at least one may
  std::string best;
  int best_distance = std::max<int>(1, static_cast<int>(name.size()) / 3) + 1;
  for (const std::string& candidate : candidates) {
    const int distance = EditDistance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  if (!best.empty() || name.size() < 3) return best;

  // else the shortest that begins or ends with it: "left_knee" of "left_knee_joint" and of "robot/left_knee"
  for (const std::string& candidate : candidates) {
    const bool part = candidate.starts_with(name) || candidate.ends_with(name);
    if (part && (best.empty() || candidate.size() < best.size())) best = candidate;
  }
  return best;
}

}  // namespace costate
