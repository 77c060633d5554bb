#include "optimizer/task_policy.h"

#include <fmt/format.h>

#include "optimizer/task_inputs.h"
#include "optimizer/task_start.h"

namespace costate {
namespace {

// which of qpos, qvel, act and others the element names: exactly one
std::string OneOf(const XmlElement& element, const std::vector<std::string>& attributes) {
  std::string found;
  for (const std::string& attribute : attributes) {
    if (!element.Has(attribute.c_str())) continue;
    if (!found.empty())
      element.Fail(fmt::format("{} and {}: give one of {}", found, attribute, JoinWords(attributes, "or")));
    found = attribute;
  }
  if (found.empty()) element.Fail("says not what: give " + JoinWords(attributes, "or"));
  return found;
}

// entries of the tangent by the part of the state that `kind` is
std::vector<int> TangentEntries(const XmlElement& element, const std::string& kind, const mjModel* model) {
  const Dims dims(model);
  const int begin = kind == "qpos" ? 0 : kind == "qvel" ? dims.nv : 2 * dims.nv;
  const int end = kind == "qpos" ? dims.nv : kind == "qvel" ? 2 * dims.nv : dims.ndx;
  const std::vector<std::string> names = TangentNames(model);
  std::vector<int> entries = SelectEntries(element, kind.c_str(), {names.begin() + begin, names.begin() + end});
  for (int& entry : entries) entry += begin;
  return entries;
}

void ReadObservation(const XmlElement& element, const Task& task, PolicyOptions* options) {
  const mjModel* model = task.model.get();
  element.Allow({"qpos", "qvel", "act", "sensor", "clock", "angle", "scale"});
  const std::string kind = OneOf(element, {"qpos", "qvel", "act", "sensor", "clock"});
  const double scale = element.Number("scale").value_or(1);
  if (scale == 0) element.Fail("scale is 0: nothing would be seen");
  const bool angle = element.Flag("angle", false);
  if (angle && kind != "qpos") element.Fail("angle belongs to qpos: it shows cosine and sine of hinges");
  if (kind == "clock") {
    options->observations.push_back(
        {.kind = Observation::Kind::kClock, .scale = scale, .period = *element.PositiveNumber("clock")});
    return;
  }
  if (kind == "sensor") {
    // the user's own: a controller elsewhere has no others
    std::vector<std::string> names = SensorNames(model);
    names.resize(static_cast<std::size_t>(task.user_sensors));
    for (int entry : SelectEntries(element, "sensor", names)) {
      options->observations.push_back({.kind = Observation::Kind::kSensor, .index = entry, .scale = scale});
    }
    return;
  }
  for (int entry : TangentEntries(element, kind, model)) {
    if (!angle) {
      options->observations.push_back({.index = entry, .scale = scale});
      continue;
    }
    const int joint = model->dof_jntid[entry];
    if (model->jnt_type[joint] != mjJNT_HINGE) {
      element.Fail(fmt::format("angle: {} is no hinge", TangentNames(model)[static_cast<std::size_t>(entry)]));
    }
    options->observations.push_back(
        {.kind = Observation::Kind::kAngle, .index = model->jnt_qposadr[joint], .scale = scale});
  }
}

void ReadSpread(const XmlElement& element, const mjModel* model, PolicyOptions* options) {
  element.Allow({"qpos", "qvel", "act", "by"});
  const std::string kind = OneOf(element, {"qpos", "qvel", "act"});
  const std::optional<double> by = element.PositiveNumber("by");
  if (!by) element.Fail("by is missing: starts differ from the task's by at most so much");
  for (int entry : TangentEntries(element, kind, model)) options->spread[entry] = *by;
}

}  // namespace

PolicyOptions ReadPolicy(const XmlElement* element, const Task& task) {
  PolicyOptions options;
  if (!element) return options;
  const mjModel* model = task.model.get();
  element->Allow({"hidden", "about", "starts", "seed"});
  options.spread.setZero(Dims(model).ndx);
  options.starts = element->WholeNumber("starts", 1).value_or(options.starts);
  options.seed = static_cast<std::uint64_t>(element->WholeNumber("seed", 0).value_or(static_cast<int>(options.seed)));
  if (const std::optional<VectorXd> hidden = element->Numbers("hidden")) {
    for (double size : *hidden) {
      if (size < 1 || size > 4096 || size != static_cast<int>(size)) {
        element->Fail(fmt::format("hidden: {:g} is no size of a layer, expected a whole number from 1 to 4096", size));
      }
      options.hidden.push_back(static_cast<int>(size));
    }
  }
  if (const std::optional<std::string> about = element->Text("about")) {
    if (!about->starts_with("key:")) element->Fail("about is '" + *about + "', expected key:NAME");
    try {
      options.x_ref = MakeStart(model, about->substr(4)).x;
    } catch (const Error& error) {
      element->Fail(error.what(), error.code());
    }
  }
  for (const XmlElement& child : element->Children()) {
    if (child.tag() == "observe") {
      ReadObservation(child, task, &options);
    } else if (child.tag() == "spread") {
      ReadSpread(child, model, &options);
    } else {
      child.Fail("there is no such element in a <policy>" + Suggestion(child.tag(), {"observe", "spread"}));
    }
    if (!child.Children().empty()) child.Children()[0].Fail("there are no elements inside <" + child.tag() + ">");
  }
  return options;
}

}  // namespace costate
