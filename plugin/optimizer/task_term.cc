#include "optimizer/task_term.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/did_you_mean.h"
#include "core/element.h"
#include "core/number.h"
#include "optimizer/pose.h"
#include "optimizer/task_csv.h"
#include "optimizer/task_measure.h"
#include "optimizer/task_target.h"
#include "rollout/units.h"

namespace costate {
namespace {

const std::vector<std::string> kVectors{"qpos", "qvel", "act", "ctrl"};

// attributes of what is measured, common to <cost> and <term>
std::vector<std::string> MeasureAttributes() {
  std::vector<std::string> names{"sensor", "quantity", "index", "geom2", "body2", "cutoff", "reftype", "refname"};
  names.insert(names.end(), kVectors.begin(), kVectors.end());
  names.insert(names.end(), ElementAttributes().begin(), ElementAttributes().end());
  return names;
}

// the attribute that says what is measured, or ""
std::string FindSource(const XmlElement& element) {
  std::string found = FindElementAttribute(element);
  std::vector<std::string> others{"sensor"};
  others.insert(others.end(), kVectors.begin(), kVectors.end());
  for (const std::string& name : others) {
    if (!element.Has(name.c_str())) continue;
    if (!found.empty()) element.Fail(fmt::format("give {} or {}, not both", found, name));
    found = name;
  }
  return found;
}

PieceDraft ReadPiece(const XmlElement& element, const std::string& source, SensorAdder* sensors) {
  PieceDraft piece{element, "", "", element.Number("coef").value_or(1)};
  const bool is_vector = std::find(kVectors.begin(), kVectors.end(), source) != kVectors.end();
  if (source == "sensor" || is_vector) {
    for (const char* attribute : {"quantity", "geom2", "body2", "cutoff", "reftype", "refname"}) {
      if (element.Has(attribute)) {
        element.Fail(fmt::format("{} belongs to elements such as body or site, not to {}", attribute, source));
      }
    }
  }
  if (is_vector) {
    piece.vector = source;
  } else if (source == "sensor") {
    piece.sensor = *element.Text("sensor");
    sensors->CheckSensor(element, piece.sensor);
  } else if (element.Text("quantity") == "pose" && source != "joint" && source != "tendon" && source != "actuator" &&
             source != "subtree") {
    for (const char* attribute : {"index", "reftype", "coef"}) {
      if (element.Has(attribute))
        element.Fail(fmt::format("a pose is measured as a whole and in the world: {} does not go with it", attribute));
    }
    if (element.tag() != "cost" && element.tag() != "constraint")
      element.Fail("a pose stands in a <cost> or <constraint> of its own");
    piece.sensor = sensors->AddQuantity(element, "pos");
    piece.orientation = sensors->AddQuantity(element, "quat");
  } else {
    piece.others = sensors->AddQuantities(element);
    piece.sensor = piece.others.front();
    piece.others.erase(piece.others.begin());
  }
  return piece;
}

// ---- entries by name, number or "all" -------------------------------------------------------------------------------

// entries of joint or actuator `id` in one of the four vectors
bool Belongs(const mjModel* model, const std::string& vector, int id, const Component& component) {
  auto within = [](int value, int address, int count) {
    return address >= 0 && value >= address && value < address + count;
  };
  const int value = component.scalar.value;
  if (vector == "ctrl") return within(value, model->actuator_ctrladr[id], model->actuator_ctrlnum[id]);
  if (vector == "act") {
    const int offset = static_cast<int>(model->nq + model->nv);
    return within(value - offset, model->actuator_actadr[id], model->actuator_actnum[id]);
  }
  const bool next_joint = id + 1 < model->njnt;
  if (vector == "qpos") {
    const int end = next_joint ? model->jnt_qposadr[id + 1] : static_cast<int>(model->nq);
    return within(value, model->jnt_qposadr[id], end - model->jnt_qposadr[id]);
  }
  const int end = next_joint ? model->jnt_dofadr[id + 1] : static_cast<int>(model->nv);
  return within(value - static_cast<int>(model->nq), model->jnt_dofadr[id], end - model->jnt_dofadr[id]);
}

// one word of qpos="…": a joint's name or an index
std::vector<Component> SelectWord(const XmlElement& element, const mjModel* model, const std::string& vector,
                                  const std::string& word, const std::vector<Component>& all) {
  std::vector<Component> chosen;
  const bool of_joint = vector == "qpos" || vector == "qvel";
  const int type = of_joint ? mjOBJ_JOINT : mjOBJ_ACTUATOR;
  const char* kind = of_joint ? "joint" : "actuator";
  const int id = ElementId(model, type, word);
  if (id >= 0) {
    for (const Component& component : all) {
      if (Belongs(model, vector, id, component)) chosen.push_back(component);
    }
    if (chosen.empty()) element.Fail(fmt::format("{} '{}' has no {}", kind, word, vector));
    return chosen;
  }

  // an index counts entries of mjData's vector; a quaternion's entries are not free one by one
  double number;
  const Dims dims(model);
  const int size = vector == "qpos" ? dims.nq : vector == "qvel" ? dims.nv : vector == "act" ? dims.na : dims.nu;
  if (ParseNumber(word, &number)) {
    if (number != std::floor(number) || number < 0 || number >= size) {
      element.Fail(fmt::format("{}: there is no entry {}, the model has {}", vector, word, Count(size, "entry")));
    }
    const int offset = vector == "qvel" ? dims.nq : vector == "act" ? dims.nq + dims.nv : 0;
    for (const Component& component : all) {
      if (component.part < 0 && component.scalar.value == offset + static_cast<int>(number)) return {component};
    }
    element.Fail(fmt::format("qpos {} is an entry of a quaternion; name the joint, and its components by index", word));
  }
  element.Fail(fmt::format("{}: no {} '{}'{}", vector, kind, word, Suggestion(word, ElementNames(model, type))));
}

std::vector<Component> SelectFromVector(const PieceDraft& piece, const mjModel* model) {
  const std::vector<Component> all = VectorComponents(model, piece.vector);
  const std::string text = *piece.element.Text(piece.vector.c_str());
  if (all.empty()) piece.element.Fail(fmt::format("the model has no {}", piece.vector));
  if (text == "all") return all;
  std::vector<Component> chosen;
  const bool of_joint = piece.vector == "qpos" || piece.vector == "qvel";
  const std::vector<std::string> names = ElementNames(model, of_joint ? mjOBJ_JOINT : mjOBJ_ACTUATOR);
  for (const std::string& word : SplitNames(text, names)) {
    for (Component& component : SelectWord(piece.element, model, piece.vector, word, all)) {
      for (const Component& other : chosen) {
        if (other.name == component.name) {
          piece.element.Fail(fmt::format("{}: '{}' is chosen twice", piece.vector, word));
        }
      }
      chosen.push_back(std::move(component));
    }
  }
  return chosen;
}

std::vector<Component> SensorComponents(const XmlElement& element, const std::string& sensor, const mjModel* model) {
  const int id = ElementId(model, mjOBJ_SENSOR, sensor);
  if (id < 0) {
    const std::vector<std::string> names = ElementNames(model, mjOBJ_SENSOR);
    element.Fail(
        fmt::format("no sensor '{}'{}", sensor, names.empty() ? " (the model has none)" : Suggestion(sensor, names)));
  }
  const std::vector<std::string> names = SensorNames(model);
  const int address = model->sensor_adr[id], dim = model->sensor_dim[id];
  const bool rotation = model->sensor_datatype[id] == mjDATATYPE_QUATERNION && dim == 4;
  const bool force =
      model->sensor_type[id] == mjSENS_CONTACT && model->sensor_intprm[id * mjNSENS] == 1 << mjCONDATA_FORCE;
  const std::string unit = rotation ? "rad" : force ? "N" : SensorUnits(model)[static_cast<std::size_t>(address)];
  std::vector<Component> components;
  for (int i = 0; i < (rotation ? 3 : dim); ++i) {
    Component component{
        {Input::kSensor, rotation ? address : address + i, 0}, rotation ? i : -1, names[address + i], unit, {}};
    if (rotation) {
      component.name = fmt::format("sensor[{}].r{}", sensor, "xyz"[i]);
      component.slots.assign(names.begin() + address, names.begin() + address + 4);
    } else {
      component.slots = {names[address + i]};
    }
    components.push_back(std::move(component));
  }
  return components;
}

// "actuator:hip knee.force" of several
std::string SensorText(const PieceDraft& piece) {
  if (piece.others.empty()) return piece.sensor;
  const std::string attribute = FindElementAttribute(piece.element);
  return fmt::format("{}:{}.{}", attribute, *piece.element.Text(attribute.c_str()), *piece.element.Text("quantity"));
}

}  // namespace

std::vector<Component> PieceComponents(const PieceDraft& piece, const mjModel* model) {
  std::vector<Component> all =
      piece.vector.empty() ? SensorComponents(piece.element, piece.sensor, model) : SelectFromVector(piece, model);
  std::vector<std::string> others = piece.others;
  if (!piece.orientation.empty()) others.push_back(piece.orientation);
  for (const std::string& other : others) {
    for (Component& component : SensorComponents(piece.element, other, model)) all.push_back(std::move(component));
  }
  const std::optional<VectorXd> index = piece.element.Numbers("index");
  if (!index) return all;
  std::vector<Component> chosen;
  std::set<int> seen;
  for (double number : *index) {
    if (number != std::floor(number) || number < 0 || number >= static_cast<double>(all.size())) {
      piece.element.Fail(fmt::format("index {:g} does not exist: {} has {}, counted from 0", number,
                                     !piece.orientation.empty() ? piece.sensor + " " + piece.orientation
                                     : !piece.vector.empty()    ? piece.vector
                                                                : SensorText(piece),
                                     Count(static_cast<long>(all.size()), "component")));
    }
    const int i = static_cast<int>(number);
    if (!seen.insert(i).second) piece.element.Fail(fmt::format("index {} is given twice", i));
    chosen.push_back(all[static_cast<std::size_t>(i)]);
  }
  return chosen;
}

namespace {

// ---- norm, weights, window ------------------------------------------------------------------------------------------

Norm ReadNorm(const XmlElement& element) {
  Norm norm;
  if (const std::optional<std::string> word = element.Text("norm")) {
    const auto found = std::find(NormNames().begin(), NormNames().end(), *word);
    if (found == NormNames().end()) {
      element.Fail(
          fmt::format("no norm '{}'{}; there is {}", *word, DidYouMean(*word, NormNames()), JoinWords(NormNames())));
    }
    norm.type = static_cast<NormType>(found - NormNames().begin());
  }
  const VectorXd param = element.Numbers("param").value_or(VectorXd());
  const int expected = NormParameterCount(norm.type);
  const std::string& name = NormNames()[static_cast<std::size_t>(norm.type)];
  if (param.size() != expected) {
    element.Fail(fmt::format("param has {}, norm '{}' takes {}: {}", Count(param.size(), "number"), name,
                             Count(expected, "number"), NormParameterText(norm.type)));
  }
  if (expected > 0) norm.p = param[0];
  if (expected > 1) norm.q = param[1];
  if (!HasValidParameters(norm)) {
    element.Fail(
        fmt::format("param is '{}', norm '{}' needs {}", *element.Text("param"), name, NormParameterText(norm.type)));
  }
  return norm;
}

VectorXd ReadWeight(const XmlElement& element, const char* attribute, const ResidualTerm& term, double otherwise) {
  const VectorXd given = element.Numbers(attribute).value_or(VectorXd::Constant(1, otherwise));
  if (given.minCoeff() < 0) {
    element.Fail(
        fmt::format("{} is {:g}; a weight is never negative: what it shall keep away from or make large is a cost of a "
                    "target far off or of an "
                    "expression that falls with it",
                    attribute, given.minCoeff()));
  }
  if (given.size() == 1) return VectorXd::Constant(term.size(), given[0]);
  if (given.size() != term.size()) {
    element.Fail(fmt::format("{} has {}, the residual has {}", attribute, Count(given.size(), "number"),
                             Count(term.size(), "component")));
  }
  if (!term.norm.IsSeparable()) {
    element.Fail(fmt::format("{} has {}, norm '{}' takes one: it mixes the components", attribute,
                             Count(given.size(), "number"), ToString(term.norm)));
  }
  return given;
}

// weight counts at running knots, terminal at the last; when="end" moves weight there
void ReadWeights(const XmlElement& element, ResidualTerm* term) {
  const std::optional<std::string> when = element.Text("when");
  const bool at_end = when == "end";
  const bool has_weight = element.Has("weight"), has_terminal = element.Has("terminal");
  term->weight = ReadWeight(element, "weight", *term, has_terminal ? 0 : 1);
  term->terminal = ReadWeight(element, "terminal", *term, 0);
  if (at_end) {
    if (has_weight && has_terminal) {
      element.Fail("when=\"end\" takes weight or terminal, not both: they mean the same then");
    }
    if (!has_terminal) term->terminal = term->weight;
    term->weight.setZero();
  } else if (when) {
    const std::optional<TimeWindow> window = ParseWindow(*when);
    if (window && window->one_time) {
      element.Fail(
          fmt::format("when is '{0}', one time: costs count over a span, \"t0 t1\"; what shall hold at one time is a "
                      "<constraint when=\"{0}\">",
                      *when));
    }
    if (!window || window->begin < 0 || window->end <= window->begin) {
      element.Fail(
          fmt::format("when is '{}', expected \"t0 t1\" with 0 <= t0 < t1 in seconds, \"t0 end\" or \"end\"", *when));
    }
    term->begin = window->begin;
    term->end = window->end;
  }
  if (term->reads_control() && !term->terminal.isZero(0)) {
    element.Fail(
        "ctrl has no value at the end: there are N controls and N + 1 states; leave terminal and when=\"end\" out");
  }
}

constexpr char kNoMeasure[] =
    "says not what it measures: give sensor, qpos, qvel, act, ctrl, or an element with a quantity";

// <term> children of a <cost>
std::vector<PieceDraft> ReadTerms(const XmlElement& element, SensorAdder* sensors) {
  std::vector<PieceDraft> pieces;
  std::vector<std::string> attributes = MeasureAttributes();
  for (const std::string& name : attributes) {
    if (element.Has(name.c_str())) element.Fail(name + " belongs to a <term> here");
  }
  attributes.push_back("coef");
  for (const XmlElement& child : element.Children()) {
    if (child.tag() != "term") child.Fail("a <" + element.tag() + "> holds <term> elements, nothing else");
    child.Allow(attributes);
    const std::string source = FindSource(child);
    if (source.empty()) child.Fail(kNoMeasure);
    pieces.push_back(ReadPiece(child, source, sensors));
  }
  return pieces;
}

// one piece's rows, or its share of the rows that the first piece has made
void AddPiece(const PieceDraft& piece, const std::vector<Component>& components, bool alone,
              std::vector<std::string>* slots, ResidualTerm* term) {
  const bool rotation =
      std::any_of(components.begin(), components.end(), [](const Component& c) { return c.part >= 0; });
  if (rotation && (!alone || piece.coef != 1)) {
    piece.element.Fail("an orientation can neither be scaled nor added to other quantities");
  }
  if (term->size() == 0) {
    AddComponents(components, piece.coef, slots, term);
    return;
  }
  if (static_cast<int>(components.size()) != term->size()) {
    piece.element.Fail(fmt::format("has {}, the first <term> has {}",
                                   Count(static_cast<long>(components.size()), "component"),
                                   Count(term->size(), "component")));
  }
  for (int i = 0; i < term->size(); ++i) {
    term->linear.push_back({components[static_cast<std::size_t>(i)].scalar, i, piece.coef});
  }
}

// "-2 gyro[0 1]"
std::string PieceText(const PieceDraft& piece) {
  std::string text =
      piece.vector.empty() ? SensorText(piece) : piece.vector + " " + *piece.element.Text(piece.vector.c_str());
  if (piece.element.Has("index")) text += "[" + *piece.element.Text("index") + "]";
  return piece.coef == 1 ? text : fmt::format("{:g} {}", piece.coef, text);
}

std::string UnitText(const std::vector<Component>& components) {
  std::vector<std::string> units;
  for (const Component& component : components) {
    if (std::find(units.begin(), units.end(), component.unit) == units.end()) units.push_back(component.unit);
  }
  return JoinWords(units);
}

}  // namespace

std::vector<std::string> SourceAttributes() {
  std::vector<std::string> names{"sensor"};
  names.insert(names.end(), kVectors.begin(), kVectors.end());
  names.insert(names.end(), ElementAttributes().begin(), ElementAttributes().end());
  return names;
}

PieceDraft ReadMeasure(const XmlElement& element, SensorAdder* sensors) {
  std::vector<std::string> attributes = MeasureAttributes();
  attributes.insert(attributes.end(), {"name", "coef"});
  element.Allow(attributes);
  const std::string source = FindSource(element);
  if (source.empty()) element.Fail(kNoMeasure);
  return ReadPiece(element, source, sensors);
}

CostDraft ReadCost(const XmlElement& element, const Definitions& definitions, SensorAdder* sensors) {
  return ReadResidual(element, {"norm", "param", "weight", "terminal", "when"}, "target", definitions, sensors);
}

CostDraft ReadResidual(const XmlElement& element, const std::vector<std::string>& further,
                       const std::string& target_attribute, const Definitions& definitions, SensorAdder* sensors) {
  std::vector<std::string> attributes = MeasureAttributes();
  attributes.insert(attributes.end(), {"name", "target", "value", "callback", "reads"});
  attributes.insert(attributes.end(), further.begin(), further.end());
  element.Allow(attributes);
  CostDraft draft{element, element.Text("name").value_or(""), {}};
  draft.target = target_attribute;
  if (element.Has("value") || element.Has("callback")) {
    ReadFunction(element, definitions, &draft);
    return draft;
  }
  if (element.Has("reads")) element.Fail("reads belongs to callback=\"…\"");

  // one measure in the element itself, or several in <term> children
  const std::string source = FindSource(element);
  const bool has_children = !element.Children().empty();
  if (source.empty() && !has_children) element.Fail(std::string(kNoMeasure) + ", or <term> children, or value=\"…\"");
  if (!source.empty() && has_children) {
    element.Fail("gives " + source + " and has children too; write " + source + " as another <term>");
  }
  if (has_children) {
    draft.pieces = ReadTerms(element, sensors);
  } else {
    draft.pieces.push_back(ReadPiece(element, source, sensors));
  }

  // a target that moves is a second sensor
  const std::optional<std::string> target = element.Text(target_attribute.c_str());
  if (target && !ParseElementTarget(*target).kind.empty()) {
    if (draft.pieces.size() != 1 || draft.pieces[0].sensor.empty() || !draft.pieces[0].others.empty()) {
      element.Fail(
          fmt::format("{} '{}' needs one measured sensor or element quantity; else write it as a <term> "
                      "with coef=\"-1\"",
                      target_attribute, *target));
    }
    if (!draft.pieces[0].orientation.empty()) {
      element.Fail(fmt::format(
          "target '{}': a pose is compared with numbers (position and quaternion), keyframes or a file", *target));
    }
    draft.target_sensor = sensors->AddTarget(element, draft.pieces[0].sensor, *target);
  }
  return draft;
}

ResidualTerm MakeMeasure(const CostDraft& draft, const mjModel* model, std::vector<std::string>* slots,
                         std::vector<std::string>* names) {
  ResidualTerm term;
  const bool has_target = (draft.exclude || draft.element.Has(draft.target.c_str())) && draft.target_sensor.empty();
  if (!draft.function.empty()) MakeFunction(draft, model, &term);
  for (const PieceDraft& piece : draft.pieces) {
    if (term.map) break;
    std::vector<Component> components = PieceComponents(piece, model);
    if (draft.exclude) {
      const auto excluded = [&](const Component& component) { return draft.exclude(component.name); };
      components.erase(std::remove_if(components.begin(), components.end(), excluded), components.end());
      if (components.empty()) draft.element.Fail("leaves nothing of " + piece.vector);
    }
    if (term.size() == 0) {
      term.unit = UnitText(components);
      for (const Component& component : components) {
        if (names && draft.pieces.size() == 1) names->push_back(component.name);
      }
    }
    AddPiece(piece, components, draft.pieces.size() == 1, has_target ? slots : nullptr, &term);
    term.measured += (term.measured.empty() ? "" : " + ") + PieceText(piece);
  }
  term.name = draft.name.empty() ? term.measured : draft.name;
  if (names && term.map && term.size() == 1) names->push_back(term.name);
  if (names && names->empty()) {
    for (int i = 0; i < term.size(); ++i) names->push_back(fmt::format("{}.{}", term.name, i));
  }
  return term;
}

ResidualTerm MakeTerm(const CostDraft& draft, const mjModel* model, const std::string& folder, VectorXd* x_goal) {
  std::vector<std::string> slots;
  std::vector<std::string> names;
  ResidualTerm term = MakeMeasure(draft, model, &slots, &names);
  term.row_names = std::move(names);
  term.norm = ReadNorm(draft.element);
  ReadWeights(draft.element, &term);
  ReadTarget(draft, model, folder, slots, &term, x_goal);
  if (IsPose(draft)) term.map = std::make_shared<PoseMap>(term);
  return term;
}

bool IsPose(const CostDraft& draft) { return draft.pieces.size() == 1 && !draft.pieces[0].orientation.empty(); }

}  // namespace costate
