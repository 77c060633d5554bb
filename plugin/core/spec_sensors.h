// Sensors in a spec, before it is compiled: what they refer to by name, those that there are, and new ones.
#ifndef COSTATE_CORE_SPEC_SENSORS_H_
#define COSTATE_CORE_SPEC_SENSORS_H_

#include <mujoco/mujoco.h>

#include <array>
#include <string>
#include <vector>

namespace costate {

/// A sensor to be: what mjsSensor needs to know.
struct SensorDraft {
  int type = -1;  // mjtSensor
  int objtype = mjOBJ_UNKNOWN;
  std::string objname;
  int reftype = mjOBJ_UNKNOWN;
  std::string refname;
  std::array<int, mjNSENS> intprm{};
  double cutoff = 0;
  bool operator==(const SensorDraft&) const = default;
};

/// Names of the elements of a type (mjtObj) that have one.
std::vector<std::string> SpecNames(mjSpec* spec, int type);

/// Those of a type that have no name get that of tables, "actuator 0", by which sensors find them; "actuator 0 (2)"
/// where that is taken.
void NameElements(mjSpec* spec, mjtObj type);

/// Names, "" where there is none, and types (mjtJoint) of all joints.
struct SpecJoint {
  std::string name;
  int type;
};
std::vector<SpecJoint> SpecJoints(mjSpec* spec);

/// Type of the joint of this name. @pre there is one.
int SpecJointType(mjSpec* spec, const std::string& joint);

/// Is the body of this name one that a program moves? @pre there is one.
bool IsMocapBody(mjSpec* spec, const std::string& body);

/// The sensor of this name. @pre there is one.
SensorDraft SpecSensor(mjSpec* spec, const std::string& sensor);

/// @throws Error{kEngine} with the engine's reason, as for a name that is taken.
void AddSensor(mjSpec* spec, const SensorDraft& draft, const std::string& name);

}  // namespace costate

#endif  // COSTATE_CORE_SPEC_SENSORS_H_
