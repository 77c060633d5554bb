#include "core/spec_sensors.h"

#include <costate/error.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/engine_guard.h"

namespace costate {
namespace {

std::string NameOf(mjsElement* element) { return mjs_getString(mjs_getName(element)); }

}  // namespace

std::vector<std::string> SpecNames(mjSpec* spec, int type) {
  std::vector<std::string> names;
  for (mjsElement* e = mjs_firstElement(spec, static_cast<mjtObj>(type)); e; e = mjs_nextElement(spec, e)) {
    const std::string name = NameOf(e);
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

void NameElements(mjSpec* spec, mjtObj type) {
  const EngineGuard guard;
  std::vector<std::string> taken = SpecNames(spec, type);
  int i = 0;
  for (mjsElement* e = mjs_firstElement(spec, type); e; e = mjs_nextElement(spec, e), ++i) {
    if (!NameOf(e).empty()) continue;
    std::string name = fmt::format("{} {}", mju_type2Str(type), i);
    for (int k = 2; std::find(taken.begin(), taken.end(), name) != taken.end(); ++k)
      name = fmt::format("{} {} ({})", mju_type2Str(type), i, k);
    mjs_setName(e, name.c_str());
    taken.push_back(name);
  }
}

std::vector<SpecJoint> SpecJoints(mjSpec* spec) {
  std::vector<SpecJoint> joints;
  for (mjsElement* e = mjs_firstElement(spec, mjOBJ_JOINT); e; e = mjs_nextElement(spec, e))
    joints.push_back({NameOf(e), mjs_asJoint(e)->type});
  return joints;
}

int SpecJointType(mjSpec* spec, const std::string& joint) {
  return mjs_asJoint(mjs_findElement(spec, mjOBJ_JOINT, joint.c_str()))->type;
}

bool IsMocapBody(mjSpec* spec, const std::string& body) {
  return mjs_asBody(mjs_findElement(spec, mjOBJ_BODY, body.c_str()))->mocap;
}

SensorDraft SpecSensor(mjSpec* spec, const std::string& name) {
  const mjsSensor* sensor = mjs_asSensor(mjs_findElement(spec, mjOBJ_SENSOR, name.c_str()));
  SensorDraft draft;
  draft.type = sensor->type;
  draft.objtype = sensor->objtype;
  draft.objname = sensor->objname ? mjs_getString(sensor->objname) : "";
  draft.reftype = sensor->reftype;
  draft.refname = sensor->refname ? mjs_getString(sensor->refname) : "";
  std::copy_n(sensor->intprm, mjNSENS, draft.intprm.begin());
  draft.cutoff = sensor->cutoff;
  return draft;
}

void AddSensor(mjSpec* spec, const SensorDraft& draft, const std::string& name) {
  const EngineGuard guard;
  mjsSensor* sensor = mjs_addSensor(spec);
  if (!sensor || mjs_setName(sensor->element, name.c_str()) != 0) {
    throw Error(ErrorCode::kEngine, "the sensor '" + name + "' could not be added: " + mjs_getError(spec));
  }
  sensor->type = static_cast<mjtSensor>(draft.type);
  sensor->objtype = static_cast<mjtObj>(draft.objtype);
  sensor->reftype = static_cast<mjtObj>(draft.reftype);
  if (!draft.objname.empty()) mjs_setString(sensor->objname, draft.objname.c_str());
  if (!draft.refname.empty()) mjs_setString(sensor->refname, draft.refname.c_str());
  std::copy(draft.intprm.begin(), draft.intprm.end(), sensor->intprm);
  sensor->cutoff = draft.cutoff;
}

}  // namespace costate
