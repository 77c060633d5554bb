// Quantities of elements as sensors: whatever a task measures and the model does not yet sense is added to its spec.
#ifndef COSTATE_OPTIMIZER_TASK_SENSOR_H_
#define COSTATE_OPTIMIZER_TASK_SENSOR_H_

#include <costate/model.h>

#include <string>
#include <vector>

#include "core/spec_sensors.h"
#include "optimizer/task_xml.h"

namespace costate {

struct Task;

/// Adds sensors to a spec, each once, behind the user's own.
class SensorAdder {
 public:
  /// @param spec  null for a compiled model, to which nothing can be added.
  /// Actuators and tendons without a name get that of the tables, "actuator 0", by which sensors find them.
  /// @param model_file  for messages.
  SensorAdder(mjSpec* spec, std::string model_file);

  /// The sensor for `element`'s attributes (body, site, …, quantity, geom2, reftype …). Returns the sensor's name.
  /// @param quantity, name  taken instead of the attributes when not empty.
  std::string AddQuantity(const XmlElement& element, const std::string& quantity = "", const std::string& name = "");

  /// The same for joints, tendons and actuators, of which the attribute may name several or "all" (of joints, hinges
  /// and slides): one sensor each.
  std::vector<std::string> AddQuantities(const XmlElement& element);

  /// A second sensor that measures the same quantity of another element: "site:tip", "body:", "geom:", "camera:",
  /// "mocap:".
  /// @param sensor  name of the first, the user's own or one that AddQuantity returned.
  std::string AddTarget(const XmlElement& element, const std::string& sensor, const std::string& target);

  /// @throws Error{kParse} at `element` if the model has no such sensor.
  void CheckSensor(const XmlElement& element, const std::string& name) const;

  /// Adds a sensor unless it is there already; returns its name. @param label  the name, where it is free.
  std::string Add(const XmlElement& element, const SensorDraft& draft, const std::string& label);

  /// Names of the elements of a type (mjtObj) that have one.
  std::vector<std::string> Names(int type) const;

  /// Those that an attribute names: "all" or a list. @throws Error{kParse} at `element` if there is no such element.
  std::vector<std::string> NamedElements(const XmlElement& element, const char* attribute, int type) const;

  /// @throws Error{kParse} at `element` if there is no element of that name, with what is near.
  void CheckElement(const XmlElement& element, int type, const std::string& kind, const std::string& name) const;

  /// @throws Error{kUnsupported} for a compiled model. @param what  stands in the message: the attribute that needs a
  /// sensor.
  void NeedSpec(const XmlElement& element, const std::string& what) const;

  int added() const { return static_cast<int>(drafts_.size()); }

 private:
  std::vector<std::string> ScalarJoints(const XmlElement& element) const;  // names of hinges and slides
  // reftype and refname, geom2 and body2; each returns what to append to the sensor's name
  std::string SetFrame(const XmlElement& element, const std::string& word, SensorDraft* draft) const;
  std::string SetPair(const XmlElement& element, const std::string& word, SensorDraft* draft) const;

  mjSpec* spec_;
  std::string model_file_;
  std::vector<SensorDraft> drafts_;
  std::vector<std::string> names_;
};

/// Element attributes of <cost> and <term>: joint, body, site, geom, subtree, actuator, tendon, camera.
const std::vector<std::string>& ElementAttributes();

/// Which of them an element has, or "" if none. @throws Error{kParse} if it has several.
std::string FindElementAttribute(const XmlElement& element);

/// What "site:tip" names: kind and name; empty kind if the text does not start with such a word.
struct ElementTarget {
  std::string kind, name;
};
ElementTarget ParseElementTarget(const std::string& text);

/// Says of which bodies distances are read that look at geoms which collide with nothing, such as visual meshes, beside
/// some that do. @pre the task has its cost and constraints.
void WarnOfIdleGeoms(Task* task);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TASK_SENSOR_H_
