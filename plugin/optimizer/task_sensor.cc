#include "optimizer/task_sensor.h"

#include <costate/task.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/did_you_mean.h"
#include "core/joint.h"

namespace costate {
namespace {

constexpr double kDefaultCutoff = 10;  // [m] of distance sensors: beyond it they are constant
constexpr double kBoundMargin = 0.1;   // [m] beyond a lower bound, or as much as that bound: further off none is near
constexpr int kNetForce = 3;           // reduction of a contact sensor: one synthetic contact in the global frame

struct Quantity {
  const char* word;
  int type;     // mjtSensor
  int objtype;  // mjtObj, or -1: that of the element
};

struct ElementKind {
  const char* attribute;
  int lookup;   // type under which the name is found
  int objtype;  // type under which a sensor refers to it
  std::vector<Quantity> quantities;
};

std::vector<Quantity> FrameQuantities(std::vector<Quantity> more = {}) {
  std::vector<Quantity> quantities{
      {"pos", mjSENS_FRAMEPOS, -1},       {"quat", mjSENS_FRAMEQUAT, -1},     {"xaxis", mjSENS_FRAMEXAXIS, -1},
      {"yaxis", mjSENS_FRAMEYAXIS, -1},   {"zaxis", mjSENS_FRAMEZAXIS, -1},   {"linvel", mjSENS_FRAMELINVEL, -1},
      {"angvel", mjSENS_FRAMEANGVEL, -1}, {"linacc", mjSENS_FRAMELINACC, -1}, {"angacc", mjSENS_FRAMEANGACC, -1}};
  quantities.insert(quantities.end(), more.begin(), more.end());
  return quantities;
}

const std::vector<ElementKind>& ElementKinds() {
  static const std::vector<ElementKind> kinds{
      // scalar joints; ball joints are mapped in JointSensor
      {"joint",
       mjOBJ_JOINT,
       mjOBJ_JOINT,
       {{"pos", mjSENS_JOINTPOS, -1},
        {"vel", mjSENS_JOINTVEL, -1},
        {"velocity", mjSENS_JOINTVEL, -1},
        {"force", mjSENS_JOINTACTFRC, -1},
        {"quat", mjSENS_BALLQUAT, -1},
        {"angvel", mjSENS_BALLANGVEL, -1},
        {"limitpos", mjSENS_JOINTLIMITPOS, -1},
        {"limitvel", mjSENS_JOINTLIMITVEL, -1},
        {"limitforce", mjSENS_JOINTLIMITFRC, -1}}},
      // the body's own frame (xpos); its inertial frame is called com
      {"body", mjOBJ_BODY, mjOBJ_XBODY,
       FrameQuantities({{"com", mjSENS_FRAMEPOS, mjOBJ_BODY},
                        {"comvel", mjSENS_FRAMELINVEL, mjOBJ_BODY},
                        {"distance", mjSENS_GEOMDIST, mjOBJ_BODY},
                        {"normal", mjSENS_GEOMNORMAL, mjOBJ_BODY},
                        {"contactforce", mjSENS_CONTACT, mjOBJ_BODY}})},
      {"site", mjOBJ_SITE, mjOBJ_SITE,
       FrameQuantities({{"velocimeter", mjSENS_VELOCIMETER, -1},
                        {"gyro", mjSENS_GYRO, -1},
                        {"accelerometer", mjSENS_ACCELEROMETER, -1},
                        {"force", mjSENS_FORCE, -1},
                        {"torque", mjSENS_TORQUE, -1},
                        {"touch", mjSENS_TOUCH, -1},
                        {"rangefinder", mjSENS_RANGEFINDER, -1},
                        {"magnetometer", mjSENS_MAGNETOMETER, -1}})},
      {"geom", mjOBJ_GEOM, mjOBJ_GEOM,
       FrameQuantities({{"distance", mjSENS_GEOMDIST, -1},
                        {"normal", mjSENS_GEOMNORMAL, -1},
                        {"contactforce", mjSENS_CONTACT, -1}})},
      {"subtree",
       mjOBJ_BODY,
       mjOBJ_BODY,
       {{"com", mjSENS_SUBTREECOM, -1},
        {"linvel", mjSENS_SUBTREELINVEL, -1},
        {"momentum", mjSENS_SUBTREEANGMOM, -1},
        {"angmom", mjSENS_SUBTREEANGMOM, -1},
        {"contactforce", mjSENS_CONTACT, mjOBJ_XBODY}}},
      {"actuator",
       mjOBJ_ACTUATOR,
       mjOBJ_ACTUATOR,
       {{"length", mjSENS_ACTUATORPOS, -1},
        {"pos", mjSENS_ACTUATORPOS, -1},
        {"velocity", mjSENS_ACTUATORVEL, -1},
        {"vel", mjSENS_ACTUATORVEL, -1},
        {"force", mjSENS_ACTUATORFRC, -1}}},
      {"tendon",
       mjOBJ_TENDON,
       mjOBJ_TENDON,
       {{"length", mjSENS_TENDONPOS, -1},
        {"pos", mjSENS_TENDONPOS, -1},
        {"velocity", mjSENS_TENDONVEL, -1},
        {"vel", mjSENS_TENDONVEL, -1},
        {"force", mjSENS_TENDONACTFRC, -1},
        {"limitpos", mjSENS_TENDONLIMITPOS, -1},
        {"limitvel", mjSENS_TENDONLIMITVEL, -1},
        {"limitforce", mjSENS_TENDONLIMITFRC, -1}}},
      {"camera", mjOBJ_CAMERA, mjOBJ_CAMERA, FrameQuantities()},
  };
  return kinds;
}

const ElementKind& Kind(const std::string& attribute) {
  return *std::find_if(ElementKinds().begin(), ElementKinds().end(),
                       [&](const ElementKind& kind) { return attribute == kind.attribute; });
}

bool IsFrameSensor(int type) { return type >= mjSENS_FRAMEPOS && type <= mjSENS_FRAMEANGACC; }
bool IsPairSensor(int type) { return type == mjSENS_GEOMDIST || type == mjSENS_GEOMNORMAL; }

// scalar joints have positions, ball joints quaternions, free joints no sensor
int JointSensor(const XmlElement& element, int joint_type, const std::string& joint, const std::string& word,
                int type) {
  if (joint_type == mjJNT_FREE) {
    element.Fail(
        fmt::format("joint '{}' is free and has no {} of its own; use body=\"…\" or qpos=\"{}\"", joint, word, joint));
  }
  if (joint_type == mjJNT_BALL) {
    if (type == mjSENS_JOINTPOS || type == mjSENS_BALLQUAT) return mjSENS_BALLQUAT;
    if (type == mjSENS_JOINTVEL || type == mjSENS_BALLANGVEL) return mjSENS_BALLANGVEL;
    if (type == mjSENS_JOINTACTFRC) element.Fail("joint '" + joint + "' is a ball joint: there is no single force");
    return type;
  }
  if (type == mjSENS_BALLQUAT || type == mjSENS_BALLANGVEL) {
    element.Fail(fmt::format("joint '{}' is no ball joint: it has pos and vel, not {}", joint, word));
  }
  return type;
}

const Quantity& FindQuantity(const XmlElement& element, const ElementKind& kind, const std::string& word) {
  std::vector<std::string> words;
  for (const Quantity& quantity : kind.quantities) {
    if (word == quantity.word) return quantity;
    words.push_back(quantity.word);
  }
  element.Fail(fmt::format("{} {} has no quantity '{}'{}; it has {}",
                           std::strchr("aeiou", kind.attribute[0]) ? "an" : "a", kind.attribute, word,
                           DidYouMean(word, words), JoinWords(words)));
}

// the other party of distance, normal and contactforce: geom2 or body2
struct SecondElement {
  int type = mjOBJ_UNKNOWN;
  std::string kind, name;
};
SecondElement FindSecondElement(const XmlElement& element) {
  if (element.Has("geom2") && element.Has("body2")) element.Fail("give geom2 or body2, not both");
  if (element.Has("geom2")) return {mjOBJ_GEOM, "geom", *element.Text("geom2")};
  if (element.Has("body2")) return {mjOBJ_BODY, "body", *element.Text("body2")};
  return {};
}

// the cutoff of a distance that is bounded from below alone: how far it is beyond makes no difference to the bound, and
// pairs of geoms that are further apart take a search no longer
std::optional<double> CutoffOfBound(const XmlElement& element) {
  if (element.tag() != "constraint" || !element.Has("lower") || element.Has("upper") || element.Has("target"))
    return {};
  const double lower = std::max(0.0, element.Numbers("lower")->maxCoeff());
  return lower + std::max(kBoundMargin, lower);
}

}  // namespace

const std::vector<std::string>& ElementAttributes() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const ElementKind& kind : ElementKinds()) list.push_back(kind.attribute);
    return list;
  }();
  return names;
}

std::string FindElementAttribute(const XmlElement& element) {
  std::string found;
  for (const std::string& name : ElementAttributes()) {
    if (!element.Has(name.c_str())) continue;
    if (!found.empty()) element.Fail(fmt::format("give {} or {}, not both", found, name));
    found = name;
  }
  return found;
}

ElementTarget ParseElementTarget(const std::string& text) {
  for (const char* kind : {"site", "body", "geom", "camera", "mocap"}) {
    const std::string prefix = std::string(kind) + ":";
    if (text.starts_with(prefix)) return {kind, text.substr(prefix.size())};
  }
  return {};
}

SensorAdder::SensorAdder(mjSpec* spec, std::string model_file) : spec_(spec), model_file_(std::move(model_file)) {
  if (!spec_) return;
  NameElements(spec_, mjOBJ_ACTUATOR);
  NameElements(spec_, mjOBJ_TENDON);
}

std::vector<std::string> SensorAdder::Names(int type) const { return SpecNames(spec_, type); }

std::vector<std::string> SensorAdder::NamedElements(const XmlElement& element, const char* attribute, int type) const {
  const std::string text = *element.Text(attribute);
  if (text != "all") {
    const std::vector<std::string> names = SplitNames(text, Names(type));
    for (const std::string& name : names) CheckElement(element, type, attribute, name);
    return names;
  }
  const std::vector<std::string> names = Names(type);
  if (names.empty()) element.Fail(fmt::format("{}=\"all\": the model has no {}", attribute, attribute));
  return names;
}

void SensorAdder::NeedSpec(const XmlElement& element, const std::string& what) const {
  if (spec_) return;
  element.Fail(
      fmt::format("{}: '{}' is a compiled model, no sensor can be added to it; give its MJCF file", what, model_file_),
      ErrorCode::kUnsupported);
}

void SensorAdder::CheckElement(const XmlElement& element, int type, const std::string& kind,
                               const std::string& name) const {
  const std::vector<std::string> names = Names(type);
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  element.Fail(
      fmt::format("no {} '{}'{}", kind, name, names.empty() ? " (the model names none)" : Suggestion(name, names)));
}

void SensorAdder::CheckSensor(const XmlElement& element, const std::string& name) const {
  if (spec_) CheckElement(element, mjOBJ_SENSOR, "sensor", name);
}

std::string SensorAdder::Add(const XmlElement& element, const SensorDraft& draft, const std::string& label) {
  const auto known = std::find(drafts_.begin(), drafts_.end(), draft);
  if (known != drafts_.end()) return names_[static_cast<std::size_t>(known - drafts_.begin())];

  // a name of its own
  const std::vector<std::string> taken = Names(mjOBJ_SENSOR);
  std::string name = label;
  for (int i = 2; std::find(taken.begin(), taken.end(), name) != taken.end(); ++i) {
    name = fmt::format("{} ({})", label, i);
  }

  try {
    AddSensor(spec_, draft, name);
  } catch (const Error& error) {
    element.Fail(error.what(), error.code());
  }
  drafts_.push_back(draft);
  names_.push_back(name);
  return name;
}

std::vector<std::string> SensorAdder::AddQuantities(const XmlElement& element) {
  const std::string attribute = FindElementAttribute(element);
  const int type = Kind(attribute).lookup;
  if (!spec_ || (type != mjOBJ_JOINT && type != mjOBJ_TENDON && type != mjOBJ_ACTUATOR)) return {AddQuantity(element)};
  const bool all_joints = type == mjOBJ_JOINT && element.Text("joint") == "all";
  std::vector<std::string> added;
  for (const std::string& name : all_joints ? ScalarJoints(element) : NamedElements(element, attribute.c_str(), type)) {
    added.push_back(AddQuantity(element, "", name));
    if (std::count(added.begin(), added.end(), added.back()) > 1)
      element.Fail(fmt::format("{}: '{}' is chosen twice", attribute, name));
  }
  if (added.empty()) element.Fail(fmt::format("{} names none", attribute));
  return added;
}

std::vector<std::string> SensorAdder::ScalarJoints(const XmlElement& element) const {
  std::vector<std::string> names;
  for (const SpecJoint& joint : SpecJoints(spec_)) {
    if (!IsScalarJoint(joint.type)) continue;
    names.push_back(joint.name);
    if (joint.name.empty())
      element.Fail(
          "joint=\"all\": a joint has no name, by which sensors would find it; qpos and qvel take all of them");
  }
  return names;
}

std::string SensorAdder::AddQuantity(const XmlElement& element, const std::string& instead, const std::string& of) {
  const std::string attribute = FindElementAttribute(element);
  const ElementKind& kind = Kind(attribute);
  const std::string name = of.empty() ? *element.Text(attribute.c_str()) : of;
  if (!spec_) {
    element.Fail(
        fmt::format("'{}' is a compiled model, no sensor for {} '{}' can be added to it; give its MJCF file or "
                    "use sensor=\"…\"",
                    model_file_, attribute, name),
        ErrorCode::kUnsupported);
  }
  CheckElement(element, kind.lookup, kind.lookup == mjOBJ_BODY ? "body" : attribute, name);
  const std::optional<std::string> word = instead.empty() ? element.Text("quantity") : instead;
  if (!word) {
    element.Fail(
        fmt::format("{}=\"{}\" needs a quantity, e.g. quantity=\"{}\"", attribute, name, kind.quantities[0].word));
  }
  const Quantity& quantity = FindQuantity(element, kind, *word);

  SensorDraft draft;
  draft.type = quantity.type;
  if (draft.type == mjSENS_RANGEFINDER) draft.intprm[0] = 1 << mjRAYDATA_DIST;
  draft.objtype = quantity.objtype < 0 ? kind.objtype : quantity.objtype;
  draft.objname = name;
  if (kind.lookup == mjOBJ_JOINT)
    draft.type = JointSensor(element, SpecJointType(spec_, name), name, *word, quantity.type);
  std::string label = fmt::format("{}:{}.{}", attribute, name, quantity.word);
  label += SetFrame(element, *word, &draft);
  label += SetPair(element, *word, &draft);
  return Add(element, draft, label);
}

std::string SensorAdder::SetFrame(const XmlElement& element, const std::string& word, SensorDraft* draft) const {
  if (element.Has("reftype") != element.Has("refname")) element.Fail("reftype and refname belong together");
  if (!element.Has("reftype")) return "";
  if (!IsFrameSensor(draft->type)) element.Fail(word + " cannot be relative to another frame");
  const std::vector<std::string> kinds{"body", "site", "geom", "camera"};
  const std::string attribute = kinds[static_cast<std::size_t>(*element.Word("reftype", kinds))];
  const ElementKind& kind = Kind(attribute);
  draft->refname = *element.Text("refname");
  draft->reftype = kind.objtype;
  CheckElement(element, kind.lookup, attribute, draft->refname);
  return fmt::format(" in {}:{}", attribute, draft->refname);
}

std::string SensorAdder::SetPair(const XmlElement& element, const std::string& word, SensorDraft* draft) const {
  const SecondElement pair = FindSecondElement(element);
  const bool of_pair = IsPairSensor(draft->type), contact = draft->type == mjSENS_CONTACT;
  if (!pair.name.empty()) CheckElement(element, pair.type, pair.kind, pair.name);
  if (!pair.name.empty() && !of_pair && !contact) {
    element.Fail(fmt::format("{}2 belongs to distance, normal and contactforce, not to {}", pair.kind, word));
  }
  if (pair.name.empty() && of_pair) element.Fail(word + " needs the other party: geom2=\"…\" or body2=\"…\"");
  if (element.Has("cutoff") && !of_pair) element.Fail("cutoff belongs to distance and normal, not to " + word);

  if (of_pair) {
    draft->reftype = pair.type;
    draft->refname = pair.name;
    draft->cutoff = kDefaultCutoff;
    if (element.Has("cutoff")) {
      draft->cutoff = *element.PositiveNumber("cutoff");
    } else if (const std::optional<double> cutoff = CutoffOfBound(element); cutoff && word == "distance") {
      // unless it is measured further already
      draft->cutoff = *cutoff;
      for (const SensorDraft& other : drafts_) {
        SensorDraft further = *draft;
        further.cutoff = other.cutoff;
        if (further == other && further.cutoff > draft->cutoff) *draft = further;
      }
    }
    return fmt::format(" to {}:{}", pair.kind, pair.name);
  }
  if (!contact) return "";

  // the engine reports the force on the second party
  draft->reftype = draft->objtype;
  draft->refname = draft->objname;
  draft->objtype = pair.type;
  draft->objname = pair.name;
  draft->intprm = {1 << mjCONDATA_FORCE, kNetForce, 1};
  return pair.name.empty() ? "" : fmt::format(" from {}:{}", pair.kind, pair.name);
}

std::string SensorAdder::AddTarget(const XmlElement& element, const std::string& sensor, const std::string& text) {
  const ElementTarget target = ParseElementTarget(text);
  if (!spec_) {
    element.Fail(fmt::format("target '{}': '{}' is a compiled model, no sensor can be added to it; give its MJCF file",
                             text, model_file_),
                 ErrorCode::kUnsupported);
  }
  const SensorDraft first = SpecSensor(spec_, sensor);

  // the same quantity of the other element; a subtree's centre of mass is compared with a position
  SensorDraft draft;
  draft.type = first.type == mjSENS_SUBTREECOM ? mjSENS_FRAMEPOS : first.type;
  if (!IsFrameSensor(draft.type)) {
    element.Fail(
        fmt::format("target '{}' needs a measured position, orientation, axis, velocity or acceleration of a frame; "
                    "'{}' is none",
                    text, sensor));
  }
  const ElementKind& kind = Kind(target.kind == "mocap" ? "body" : target.kind);
  CheckElement(element, kind.lookup, target.kind == "mocap" ? "body" : target.kind, target.name);
  if (target.kind == "mocap" && !IsMocapBody(spec_, target.name)) {
    element.Fail(fmt::format("body '{}' is not a mocap body; write body:{}", target.name, target.name));
  }
  draft.objtype = kind.objtype;
  draft.objname = target.name;
  draft.reftype = first.reftype;
  draft.refname = first.refname;
  const std::size_t dot = sensor.rfind('.');
  const std::string word = dot == std::string::npos || draft.type == mjSENS_FRAMEPOS ? "pos" : sensor.substr(dot + 1);
  return Add(element, draft, fmt::format("{}:{}.{}", kind.attribute, target.name, word));
}

void WarnOfIdleGeoms(Task* task) {
  const mjModel* m = task->model.get();
  std::vector<char> read(static_cast<std::size_t>(m->nsensordata)), told(static_cast<std::size_t>(m->nbody));
  task->cost->MarkSensors(&read);
  for (int i = 0; i < task->constraints.size(); ++i) task->constraints[i].MarkSensors(&read);
  const auto idle = [m](int geom) {
    const auto has = [geom](const int* ids, auto n) { return std::find(ids, ids + n, geom) != ids + n; };
    return m->geom_contype[geom] == 0 && m->geom_conaffinity[geom] == 0 && !has(m->pair_geom1, m->npair) &&
           !has(m->pair_geom2, m->npair);
  };
  const auto look = [&](int type, int body) {
    if (type != mjOBJ_BODY || told[static_cast<std::size_t>(body)]) return;
    told[static_cast<std::size_t>(body)] = 1;
    int geoms = m->body_geomnum[body], idles = 0, meshes = 0;
    std::string collides;
    for (int g = m->body_geomadr[body]; g < m->body_geomadr[body] + geoms; ++g) {
      idles += idle(g);
      meshes += m->geom_type[g] == mjGEOM_MESH;
      if (collides.empty() && !idle(g)) collides = ElementName(m, mjOBJ_GEOM, g);
    }
    if (idles == 0 || idles == geoms) return;
    task->warnings.push_back(
        fmt::format("the distance of body '{}' looks at {} geoms{}, of which {} collide with nothing: geom=\"{}\" "
                    "is that of one that does",
                    ElementName(m, mjOBJ_BODY, body), geoms,
                    meshes > 0 ? fmt::format(", {} of them meshes", meshes) : "", idles, collides));
  };
  for (int i = 0; i < m->nsensor; ++i) {
    const int type = m->sensor_type[i];
    if (type != mjSENS_GEOMDIST && type != mjSENS_GEOMNORMAL && type != mjSENS_GEOMFROMTO) continue;
    if (!read[static_cast<std::size_t>(m->sensor_adr[i])]) continue;
    look(m->sensor_objtype[i], m->sensor_objid[i]);
    look(m->sensor_reftype[i], m->sensor_refid[i]);
  }
}

}  // namespace costate
