#include "core/element.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "core/did_you_mean.h"

namespace costate {

int ElementCount(const mjModel* m, int type) {
  switch (type) {
    case mjOBJ_BODY: return static_cast<int>(m->nbody);
    case mjOBJ_JOINT: return static_cast<int>(m->njnt);
    case mjOBJ_GEOM: return static_cast<int>(m->ngeom);
    case mjOBJ_SITE: return static_cast<int>(m->nsite);
    case mjOBJ_CAMERA: return static_cast<int>(m->ncam);
    case mjOBJ_PAIR: return static_cast<int>(m->npair);
    case mjOBJ_EQUALITY: return static_cast<int>(m->neq);
    case mjOBJ_TENDON: return static_cast<int>(m->ntendon);
    case mjOBJ_ACTUATOR: return static_cast<int>(m->nactuator);
    case mjOBJ_SENSOR: return static_cast<int>(m->nsensor);
    case mjOBJ_KEY: return static_cast<int>(m->nkey);
    default: return 0;
  }
}

std::vector<std::string> ElementNames(const mjModel* model, int type) {
  std::vector<std::string> names;
  for (int i = 0; i < ElementCount(model, type); ++i) names.push_back(ElementName(model, type, i));
  return names;
}

std::string GivenName(const mjModel* model, int type, int id) {
  const char* name = mj_id2name(model, type, id);
  return name ? name : "";
}

std::vector<std::string> GivenNames(const mjModel* model, int type) {
  std::vector<std::string> names;
  for (int i = type == mjOBJ_BODY ? 1 : 0; i < ElementCount(model, type); ++i) {
    std::string name = GivenName(model, type, i);
    if (!name.empty()) names.push_back(std::move(name));
  }
  return names;
}

int NamedId(const mjModel* model, int type, const std::string& name) {
  return name.empty() ? -1 : mj_name2id(model, type, name.c_str());
}

int ElementId(const mjModel* model, int type, const std::string& name) {
  int id = NamedId(model, type, name);

  // one without a name as messages and tables call it
  for (int i = 0; id < 0 && i < ElementCount(model, type); ++i) {
    if (ElementName(model, type, i) == name) id = i;
  }
  return id;
}

int FindNamed(const mjModel* model, int type, const char* what, const std::string& name, const std::string& on) {
  const int id = ElementId(model, type, name);
  if (id >= 0) return id;
  const std::vector<std::string> names = ElementNames(model, type);
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{}model '{}' has no {} '{}'{}", on, ModelName(model), what, name,
                          names.empty() ? " (it has none)" : Suggestion(name, names)));
}

int FindNamedOrNumbered(const mjModel* model, int type, const char* what, const std::string& name,
                        const std::string& on) {
  int number = -1;
  const char* end = name.data() + name.size();
  const auto [last, code] = std::from_chars(name.data(), end, number);
  if (code != std::errc() || last != end || number < 0 || ElementId(model, type, name) >= 0) {
    return FindNamed(model, type, what, name, on);
  }
  const int count = ElementCount(model, type);
  if (number < count) return number;
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{}there is no {} {}: model '{}' has {}", on, what, name, ModelName(model), count));
}

int SensorAddress(const mjModel* model, const std::string& name) {
  return model->sensor_adr[FindNamed(model, mjOBJ_SENSOR, "sensor", name)];
}

}  // namespace costate
