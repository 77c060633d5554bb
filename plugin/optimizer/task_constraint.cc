#include "optimizer/task_constraint.h"

#include <costate/step.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/element.h"
#include "core/extremes.h"
#include "core/joint.h"
#include "optimizer/constraint_terms.h"
#include "optimizer/pose.h"
#include "optimizer/task_measure.h"
#include "optimizer/task_target.h"
#include "rollout/units.h"

namespace costate {
namespace {

constexpr double kKnotTolerance = 1e-6;  // of a control interval: a time this near to a knot means it

bool IsPower(const XmlElement& element) {
  return element.Has("actuator") && element.Text("quantity").value_or("") == "power";
}

// ---- before the model is compiled -----------------------------------------------------------------------------------

std::vector<std::string> AddSensors(const XmlElement& element, const std::vector<std::string>& names, int objtype,
                                    int type, const char* label, SensorAdder* sensors) {
  std::vector<std::string> added;
  for (const std::string& name : names) {
    SensorDraft draft;
    draft.type = type;
    draft.objtype = objtype;
    draft.objname = name;
    added.push_back(sensors->Add(
        element, draft, fmt::format("{}:{}.{}", objtype == mjOBJ_TENDON ? "tendon" : "actuator", name, label)));
  }
  return added;
}

// sensors of tendons or actuators by the quantity that is bounded
void ReadLimitQuantity(const XmlElement& element, ConstraintDraft* draft, SensorAdder* sensors) {
  const bool tendon = element.Has("tendon");
  const char* attribute = tendon ? "tendon" : "actuator";
  const int type = tendon ? mjOBJ_TENDON : mjOBJ_ACTUATOR;
  const std::vector<std::string> words = tendon ? std::vector<std::string>{"length", "velocity"}
                                                : std::vector<std::string>{"force", "power", "velocity", "length"};
  const int word = element.Word("quantity", words).value_or(0);
  sensors->NeedSpec(element, attribute);
  draft->names = sensors->NamedElements(element, attribute, type);
  const int kTendonSensors[] = {mjSENS_TENDONPOS, mjSENS_TENDONVEL};
  const int kActuatorSensors[] = {mjSENS_ACTUATORFRC, mjSENS_ACTUATORFRC, mjSENS_ACTUATORVEL, mjSENS_ACTUATORPOS};
  const char* kActuatorLabels[] = {"force", "force", "velocity", "length"};
  draft->sensors = AddSensors(element, draft->names, type, tendon ? kTendonSensors[word] : kActuatorSensors[word],
                              tendon ? words[static_cast<std::size_t>(word)].c_str() : kActuatorLabels[word], sensors);
  if (!tendon && words[static_cast<std::size_t>(word)] == "power") {
    draft->velocities = AddSensors(element, draft->names, type, mjSENS_ACTUATORVEL, "velocity", sensors);
  }
}

// positions of joints and lengths of tendons have ranges in the model
bool HasRange(const XmlElement& element) {
  return element.Text("quantity").value_or("") == (element.Has("tendon") ? "length" : "position") ||
         !element.Has("quantity");
}

void CheckLimitElement(const XmlElement& element) {
  element.Allow({"name", "joint", "tendon", "actuator", "quantity", "lower", "upper", "margin", "soft", "when"});
  int kinds = 0;
  for (const char* kind : {"joint", "tendon", "actuator"}) kinds += element.Has(kind) ? 1 : 0;
  if (kinds != 1) element.Fail("give one of joint, tendon and actuator: all, or names");
  const bool range = !element.Has("actuator") && HasRange(element);
  if (element.Has("margin") && (element.Has("lower") || element.Has("upper"))) {
    element.Fail("margin belongs to the ranges of the model; here the bounds are given: leave margin out");
  }
  if (!range && !element.Has("lower") && !element.Has("upper")) {
    element.Fail(fmt::format("the model has no range of {}: give lower, upper or both",
                             element.Has("quantity") ? *element.Text("quantity") : "an actuator's force"));
  }
}

// ---- bounds, windows ------------------------------------------------------------------------------------------------

// what is bounded, where, and how
struct Bounded {
  ResidualTerm term;
  ConstraintInfo info;
};

VectorXd ReadBound(const XmlElement& element, const char* attribute, int size, double otherwise) {
  const std::optional<VectorXd> given = element.Numbers(attribute);
  if (!given) return VectorXd::Constant(size, otherwise);
  if (given->size() == 1) return VectorXd::Constant(size, (*given)[0]);
  if (given->size() != size) {
    element.Fail(fmt::format("{} has {}, what it bounds has {}", attribute, Count(given->size(), "number"),
                             Count(size, "component")));
  }
  return *given;
}

void ReadBounds(const XmlElement& element, int size, ConstraintInfo* info) {
  info->lower = ReadBound(element, "lower", size, -kInf);
  info->upper = ReadBound(element, "upper", size, kInf);
  for (int i = 0; i < size; ++i) {
    if (info->lower[i] <= info->upper[i]) continue;
    element.Fail(fmt::format("lower is {:g}, above upper {:g}", info->lower[i], info->upper[i]));
  }
}

// the window as knots, both included; what neither controls nor a free start move at their own knot is bounded from
// knot 1 on; what controls move there is not bounded at the last knot, which has none, unless that knot is all there is
struct Moved {
  bool by_control = false, by_start = false;
};
void ReadWindow(const XmlElement& element, const Task& task, bool of_control, Moved moved, ConstraintInfo* info) {
  const double dt = task.knot_time();
  info->first = 0;
  info->last = task.N;
  if (const std::optional<std::string> when = element.Text("when")) {
    const std::optional<TimeWindow> window = ParseWindow(*when);
    if (!window) {
      element.Fail(fmt::format("when is '{}', expected \"t0 t1\" in seconds, \"t0 end\", one time, or \"end\"", *when));
    }
    double begin = window->begin == kInf ? task.N * dt : window->begin;
    double end = window->end == kInf ? task.N * dt : window->end;
    if (window->one_time) begin = end = std::round(begin / dt) * dt;
    if (begin < 0 || end < begin || begin > (task.N + kKnotTolerance) * dt) {
      element.Fail(fmt::format("when is '{}': no time from 0 to the end at {:g} s", *when, task.N * dt));
    }
    info->first = static_cast<int>(std::ceil(begin / dt - kKnotTolerance));
    info->last = static_cast<int>(std::min<double>(task.N, std::floor(end / dt + kKnotTolerance)));
  }
  if (of_control || (moved.by_control && info->first < task.N)) info->last = std::min(info->last, task.N - 1);
  if (!moved.by_control && !moved.by_start) info->first = std::max(info->first, 1);
  if (info->first <= info->last) return;
  element.Fail(
      of_control
          ? "ctrl has no value at the end: there are N controls and N + 1 states"
          : fmt::format(
                "no knot lies in when=\"{}\" that controls could move: knots are {:g} s apart, the first is the start",
                element.Text("when").value_or(""), dt));
}

// ---- what is bounded ------------------------------------------------------------------------------------------------

void NameComponents(const std::vector<Component>& components, Bounded* bounded) {
  for (const Component& component : components) {
    bounded->info.components.push_back(component.name);
    if (bounded->info.unit.find(component.unit) != std::string::npos) continue;
    bounded->info.unit += (bounded->info.unit.empty() ? "" : ", ") + component.unit;
  }
}

// joints by name, or all of them that have what is bounded
std::vector<int> SelectJoints(const XmlElement& element, const mjModel* model, bool velocity) {
  const std::string text = *element.Text("joint");
  const bool ranges = !velocity && !element.Has("lower") && !element.Has("upper");
  std::vector<int> joints;
  std::vector<std::string> names;
  for (int j = 0; j < model->njnt; ++j) {
    names.push_back(ElementName(model, mjOBJ_JOINT, j));
    const bool scalar = IsScalarJoint(model->jnt_type[j]);
    if (text == "all" && (ranges ? model->jnt_limited[j] != 0 : scalar)) joints.push_back(j);
  }
  if (text == "all") {
    if (joints.empty())
      element.Fail(ranges ? "joint=\"all\": no joint of the model has a range"
                          : "joint=\"all\": the model has no hinge or slide");
    return joints;
  }
  for (const std::string& name : SplitNames(text, names)) {
    const int j = ElementId(model, mjOBJ_JOINT, name);
    if (j < 0) element.Fail(fmt::format("no joint '{}'{}", name, Suggestion(name, names)));
    const int type = model->jnt_type[j];
    if (ranges && !model->jnt_limited[j])
      element.Fail(fmt::format("joint '{}' has no range in the model: give lower, upper or both", name));
    if (!velocity && !ranges && (type == mjJNT_FREE || type == mjJNT_BALL)) {
      element.Fail(fmt::format("joint '{}' has no single position; bound its entries by <constraint qpos=\"{}\" …/>",
                               name, name));
    }
    joints.push_back(j);
  }
  return joints;
}

// Where the model's own limit begins to push, steps have another slope: solvers aim so far inside, unless a margin is
// given.
double InsetOf(const XmlElement& element, double margin, double width) {
  constexpr double kInset = 5e-3, kPart = 0.01;  // rad or m; of the range
  if (element.Has("margin") || element.Has("soft")) return 0;
  return std::min(std::max(margin, 0.0) + std::min(kInset, kPart * width), width / 4);
}

// the model's own ranges, of joints or tendons, each smaller by the margin
struct Ranges {
  const XmlElement& element;
  double margin;
  std::vector<double> lower, upper, inset;

  void Add(const mjtNum* range, double onset) {
    lower.push_back(range[0] + margin);
    upper.push_back(range[1] - margin);
    inset.push_back(InsetOf(element, onset, upper.back() - lower.back()));
  }

  void Bound(ConstraintInfo* info) const {
    const int n = static_cast<int>(lower.size());
    info->lower = Eigen::Map<const VectorXd>(lower.data(), n);
    info->upper = Eigen::Map<const VectorXd>(upper.data(), n);
    info->inset = Eigen::Map<const VectorXd>(inset.data(), n);
    for (int i = 0; i < n; ++i) {
      if (info->lower[i] <= info->upper[i]) continue;
      element.Fail(fmt::format("margin {:g} leaves nothing of the range of {}: {:g} to {:g}", margin,
                               info->components[static_cast<std::size_t>(i)], info->lower[i] - margin,
                               info->upper[i] + margin));
    }
  }
};

// hinges and slides within their ranges, or speeds of joints
Bounded BoundJoints(const XmlElement& element, const mjModel* model, const std::vector<int>& joints, bool velocity,
                    double margin) {
  Bounded bounded;
  std::vector<Component> chosen;
  Ranges ranges{element, margin, {}, {}, {}};
  for (const Component& component : VectorComponents(model, velocity ? "qvel" : "qpos")) {
    const int joint = model->dof_jntid[component.scalar.column - (velocity ? static_cast<int>(model->nv) : 0)];
    if (std::find(joints.begin(), joints.end(), joint) == joints.end()) continue;
    const bool scalar = IsScalarJoint(model->jnt_type[joint]);
    if (!velocity && !scalar) continue;  // balls have angles of their own
    chosen.push_back(component);
    ranges.Add(model->jnt_range + 2 * joint, model->jnt_margin[joint]);
  }
  AddComponents(chosen, 1, nullptr, &bounded.term);
  NameComponents(chosen, &bounded);
  if (velocity || element.Has("lower") || element.Has("upper")) {
    ReadBounds(element, static_cast<int>(chosen.size()), &bounded.info);
  } else {
    ranges.Bound(&bounded.info);
  }
  return bounded;
}

// sensors of tendons or actuators
Bounded BoundSensors(const ConstraintDraft& draft, const mjModel* model, double margin) {
  Bounded bounded;
  const bool own = draft.element.Has("tendon") && HasRange(draft.element) && !draft.element.Has("lower") &&
                   !draft.element.Has("upper");
  const bool all = draft.element.Has("tendon") && *draft.element.Text("tendon") == "all";
  std::vector<Component> chosen;
  Ranges ranges{draft.element, margin, {}, {}, {}};
  const std::vector<std::string> units = SensorUnits(model);
  for (std::size_t i = 0; i < draft.names.size(); ++i) {
    if (own) {
      const int id = FindNamed(model, mjOBJ_TENDON, "tendon", draft.names[i]);
      if (!model->tendon_limited[id]) {
        if (all) continue;
        draft.element.Fail(
            fmt::format("tendon '{}' has no range in the model: give lower, upper or both", draft.names[i]));
      }
      ranges.Add(model->tendon_range + 2 * id, model->tendon_margin[id]);
    }
    const int address = SensorAddress(model, draft.sensors[i]);
    chosen.push_back(
        {{Input::kSensor, address, 0}, -1, draft.sensors[i], units[static_cast<std::size_t>(address)], {}});
  }
  if (chosen.empty()) draft.element.Fail("tendon=\"all\": no tendon of the model has a range");
  AddComponents(chosen, 1, nullptr, &bounded.term);
  NameComponents(chosen, &bounded);
  if (own) {
    ranges.Bound(&bounded.info);
  } else {
    ReadBounds(draft.element, static_cast<int>(chosen.size()), &bounded.info);
  }
  return bounded;
}

// ---- hard or soft ---------------------------------------------------------------------------------------------------

// adds to the target of some rows, with a slot of its own where a row has none
void ShiftTarget(const VectorXd& shift, ResidualTerm* term) {
  Target& target = term->target;
  if (target.values.cols() == 0) {
    target.values.resize(0, 1);
    target.time = VectorXd::Zero(1);
  }
  for (int i = 0; i < term->size(); ++i) {
    int& slot = term->row_slot[static_cast<std::size_t>(i)];
    if (slot < 0) {
      slot = static_cast<int>(target.values.rows());
      target.values.conservativeResize(slot + 1, Eigen::NoChange);
      target.values.row(slot).setZero();
    }
    target.values.row(slot).array() += shift[i];
  }
}

// ½ w max(r - upper, 0)² and ½ w max(lower - r, 0)², or ½ w (r - bound)² where both are equal
void AddSoft(const XmlElement& element, const Bounded& bounded, double weight, const Task& task,
             std::vector<ResidualTerm>* soft) {
  const double dt = task.knot_time();
  const ConstraintInfo& info = bounded.info;
  const auto add = [&](const std::string& side, double sign, const VectorXd& bound, const std::vector<bool>& counts,
                       NormType norm) {
    if (std::none_of(counts.begin(), counts.end(), [](bool c) { return c; })) return;
    ResidualTerm term = bounded.term;
    term.name = info.name + side;
    term.norm.type = norm;
    if (sign < 0) {
      for (LinearEntry& entry : term.linear) entry.coef = -entry.coef;
      term.target.values = -term.target.values;
    }
    VectorXd shift = VectorXd::Zero(term.size());
    term.weight = VectorXd::Zero(term.size());
    for (int i = 0; i < term.size(); ++i) {
      if (!counts[static_cast<std::size_t>(i)]) continue;
      shift[i] = sign * bound[i];
      term.weight[i] = weight;
    }
    if (!shift.isZero(0)) ShiftTarget(shift, &term);
    term.target_text = fmt::format("{}{}",
                                   norm == NormType::kQuadratic ? ""
                                   : sign > 0                   ? "<= "
                                                                : ">= ",
                                   term.target_text.empty() ? "bound" : term.target_text + " + bound");
    term.terminal = info.last == task.N ? term.weight : VectorXd::Zero(term.size());
    // up to the end, as far away as it may move: by <time>, or by plans that follow each other
    const double shortest = task.free_time.longest > 0 ? std::min(dt, task.free_time.shortest / task.N) : dt;
    term.begin = info.first <= 1 ? (info.first - 0.5) * shortest : (info.first - 0.5) * dt;
    term.begin = std::max(0.0, term.begin);
    term.end = info.last >= task.N - (term.reads_control() ? 1 : 0) ? kInf : (info.last + 0.5) * dt;
    if (info.first == task.N) term.weight.setZero();
    soft->push_back(std::move(term));
  };
  std::vector<bool> equal, above, below;
  for (int i = 0; i < bounded.term.size(); ++i) {
    equal.push_back(info.lower[i] == info.upper[i]);
    above.push_back(!equal.back() && std::isfinite(info.upper[i]));
    below.push_back(!equal.back() && std::isfinite(info.lower[i]));
    if (!bounded.term.rotations.empty() && !(equal.back() && info.lower[i] == 0)) {
      element.Fail("a soft bound of an orientation can only be equals: write a <cost> with a norm of its own");
    }
  }
  add("", 1, info.upper, equal, NormType::kQuadratic);
  add(" (upper)", 1, info.upper, above, NormType::kHinge);
  add(" (lower)", -1, info.lower, below, NormType::kHinge);
}

void AddHard(const XmlElement& element, std::unique_ptr<Constraint> constraint, Task* task) {
  try {
    task->constraints.Add(std::move(constraint));
  } catch (const Error& error) {
    element.Fail(error.what(), error.code());
  }
}

void AddBounded(const XmlElement& element, Bounded bounded, Task* task, std::vector<ResidualTerm>* soft) {
  if (element.Has("lower") || element.Has("upper") || element.Has("equals")) {
    ResidualTerm named = bounded.term;
    named.row_names = bounded.info.components;
    CheckReach(element, task->model.get(), named, bounded.info.lower, bounded.info.upper, !element.Has("soft"),
               &task->warnings);
  }
  const ResidualCost probe(task->model.get(), {bounded.term}, CostScale::kSum);
  const Moved moved{probe.DependsOnControl(0), probe.DependsOn(0, task->free_start.entries)};
  ReadWindow(element, *task, bounded.term.reads_control(), moved, &bounded.info);
  if (const std::optional<double> weight = element.PositiveNumber("soft"))
    return AddSoft(element, bounded, *weight, *task, soft);
  bounded.term.name = bounded.info.name;
  AddHard(element,
          std::make_unique<ResidualConstraint>(task->model.get(), std::move(bounded.info), std::move(bounded.term)),
          task);
}

void RefuseSoft(const XmlElement& element, const char* what) {
  if (element.Has("soft"))
    element.Fail(fmt::format("soft is not supported for {}: leave soft out, the bound then holds", what),
                 ErrorCode::kUnsupported);
}

// ---- the elements ---------------------------------------------------------------------------------------------------

void MakePower(const ConstraintDraft& draft, Task* task) {
  const mjModel* model = task->model.get();
  RefuseSoft(draft.element, "power");
  ConstraintInfo info;
  info.name = draft.element.Text("name").value_or("power");
  info.unit = "W";
  std::vector<int> force, velocity;
  for (std::size_t i = 0; i < draft.names.size(); ++i) {
    info.components.push_back(fmt::format("power[{}]", draft.names[i]));
    force.push_back(SensorAddress(model, draft.sensors[i]));
    velocity.push_back(SensorAddress(model, draft.velocities[i]));
  }
  ReadBounds(draft.element, static_cast<int>(force.size()), &info);
  ReadWindow(draft.element, *task, false, {.by_control = true}, &info);
  AddHard(draft.element, std::make_unique<PowerConstraint>(std::move(info), std::move(force), std::move(velocity)),
          task);
}

// does a bound on joints keep them off the model's own limits, at all times?
bool KeepsOff(const XmlElement& element, bool velocity, double margin) {
  return !velocity && !element.Has("soft") && !element.Has("when") && !element.Has("lower") && !element.Has("upper") &&
         margin >= 0;
}

void MakeJointLimit(const ConstraintDraft& draft, Task* task, std::vector<ResidualTerm>* soft) {
  const XmlElement& element = draft.element;
  const mjModel* model = task->model.get();
  const bool velocity = element.Word("quantity", {"position", "velocity"}).value_or(0) == 1;
  const double margin = element.Number("margin").value_or(0);
  const std::vector<int> joints = SelectJoints(element, model, velocity);
  const std::string name = element.Text("name").value_or(velocity ? "joint speeds" : "joint ranges");
  if (KeepsOff(element, velocity, margin)) task->stops.insert(task->stops.end(), joints.begin(), joints.end());

  // balls by their angle, all others entry by entry
  std::vector<BallAngleConstraint::Ball> balls;
  ConstraintInfo info;
  info.name = name + " (balls)";
  info.unit = "rad";
  std::vector<double> upper, inset;
  for (const int j : joints) {
    if (velocity || model->jnt_type[j] != mjJNT_BALL) continue;
    balls.push_back({static_cast<int>(model->jnt_qposadr[j]), static_cast<int>(model->jnt_dofadr[j])});
    upper.push_back(model->jnt_range[2 * j + 1] - margin);
    inset.push_back(InsetOf(element, model->jnt_margin[j], upper.back()));
    info.components.push_back(fmt::format("angle[{}]", ElementName(model, mjOBJ_JOINT, j)));
    if (upper.back() <= 0)
      element.Fail(fmt::format("margin {:g} leaves nothing of the range of ball joint '{}'", margin,
                               ElementName(model, mjOBJ_JOINT, j)));
  }
  if (balls.size() < joints.size()) {
    Bounded bounded = BoundJoints(element, model, joints, velocity, margin);
    bounded.info.name = name;
    AddBounded(element, std::move(bounded), task, soft);
  }
  if (balls.empty()) return;
  RefuseSoft(element, "ball joints");
  info.upper = Eigen::Map<const VectorXd>(upper.data(), static_cast<Eigen::Index>(upper.size()));
  info.lower = VectorXd::Constant(info.upper.size(), -kInf);
  info.inset = Eigen::Map<const VectorXd>(inset.data(), info.upper.size());
  const std::vector<int>& free = task->free_start.entries;
  const bool moves = std::any_of(balls.begin(), balls.end(), [&](const BallAngleConstraint::Ball& ball) {
    return std::any_of(free.begin(), free.end(), [&](int entry) { return entry >= ball.dof && entry < ball.dof + 3; });
  });
  ReadWindow(element, *task, false, {.by_start = moves}, &info);
  AddHard(element, std::make_unique<BallAngleConstraint>(std::move(info), std::move(balls)), task);
}

void MakeMeasured(const ConstraintDraft& draft, const std::string& folder, Task* task,
                  std::vector<ResidualTerm>* soft) {
  const XmlElement& element = draft.element;
  const mjModel* model = task->model.get();
  Bounded bounded;
  std::vector<std::string> slots;
  bounded.term = MakeMeasure(*draft.measure, model, &slots, &bounded.info.components);
  const int n = bounded.term.size();
  bounded.info.name = bounded.term.name;
  bounded.info.unit = bounded.term.unit;
  const bool equality = element.Has("equals");
  if (equality && bounded.term.map) {
    bounded.info.lower = bounded.info.upper = ReadBound(element, "equals", n, 0);
  } else if (equality) {
    bounded.info.lower = bounded.info.upper = VectorXd::Zero(n);
  } else {
    ReadBounds(element, n, &bounded.info);
  }

  // a keyframe for all of qpos at the end is the goal of the motion
  ConstraintInfo window;
  ReadWindow(element, *task, bounded.term.reads_control(), {.by_start = true}, &window);
  bounded.term.weight = VectorXd::Ones(n);
  bounded.term.terminal = VectorXd::Constant(n, equality && window.last == task->N ? 1 : 0);
  if (bounded.term.map && element.Has("soft")) {
    element.Fail("soft is not supported beside value and callback: write a <cost> with norm=\"hinge\"",
                 ErrorCode::kUnsupported);
  }
  if (!bounded.term.map) ReadTarget(*draft.measure, model, folder, slots, &bounded.term, &task->x_goal);
  if (IsPose(*draft.measure)) {
    if (element.Has("soft"))
      element.Fail("soft is not supported for a pose: write a <cost> with quantity=\"pose\"", ErrorCode::kUnsupported);
    bounded.term.map = std::make_shared<PoseMap>(bounded.term);
  }
  AddBounded(element, std::move(bounded), task, soft);
}

// "root.x" of "qpos[root].x"
std::string Bare(const std::string& name) {
  std::string bare = name.substr(name.find('[') + 1);
  bare.erase(bare.rfind(']'), 1);
  return bare;
}

// the same where x_0 may move: both ends are read
void MakePeriodicFromFreeStart(const XmlElement& element, Bounded bounded, Task* task) {
  RefuseSoft(element, "a periodic motion whose start is free");
  const std::vector<std::string> names = TangentNames(task->model.get());
  std::vector<int> entries;
  for (const std::string& component : bounded.info.components) {
    const auto at = std::find(names.begin(), names.end(), component);
    if (at == names.end())
      element.Fail(fmt::format("'{}' is no entry of the state's tangent", component), ErrorCode::kUnsupported);
    entries.push_back(static_cast<int>(at - names.begin()));
  }
  AddHard(element, std::make_unique<PeriodicConstraint>(task->model.get(), std::move(bounded.info), std::move(entries)),
          task);
}

// x_N = x_0 in chosen entries
void MakePeriodic(const XmlElement& element, Task* task, std::vector<ResidualTerm>* soft) {
  const mjModel* model = task->model.get();
  std::vector<std::string> entries = TangentNames(model);
  std::vector<std::string> positions;
  for (std::size_t i = 0, n = entries.size(); i < n; ++i) {
    entries.push_back(Bare(entries[i]));
    if (entries[i].starts_with("qpos")) positions.push_back(entries.back());
  }
  const std::vector<std::string> without = SplitNames(element.Text("except").value_or(""), entries);
  std::vector<bool> used(without.size(), false);
  for (const std::string vector : {"qpos", "qvel", "act"}) {
    if (!element.Has(vector.c_str())) continue;
    CostDraft draft{element, element.Text("name").value_or("periodic") + " " + vector, {{element, "", vector, 1}}};
    // a slide's bare name is its position's, where positions are named at all: its velocity returns
    std::vector<bool> taken(without.size());
    for (std::size_t i = 0; i < without.size() && vector != "qpos" && element.Has("qpos"); ++i)
      taken[i] = std::find(positions.begin(), positions.end(), without[i]) != positions.end();
    draft.exclude = [&](const std::string& name) {
      for (std::size_t i = 0; i < without.size(); ++i) {
        if (without[i] != name && (taken[i] || without[i] != Bare(name))) continue;
        used[i] = true;
        return true;
      }
      return false;
    };
    Bounded bounded;
    std::vector<std::string> slots;
    bounded.term = MakeMeasure(draft, model, &slots, &bounded.info.components);
    bounded.info.name = bounded.term.name;
    bounded.info.unit = bounded.term.unit;
    bounded.info.lower = bounded.info.upper = VectorXd::Zero(bounded.term.size());
    bounded.info.first = bounded.info.last = task->N;
    bounded.info.periodic = true;
    if (!task->free_start.entries.empty()) {
      MakePeriodicFromFreeStart(element, std::move(bounded), task);
      continue;
    }
    const VectorXd u = VectorXd::Zero(model->nu), s = VectorXd::Zero(model->nsensordata);
    bounded.term.target.values = MeasuredSlots(bounded.term, task->x0, u, s, static_cast<int>(slots.size()));
    bounded.term.target.time = VectorXd::Zero(1);
    bounded.term.target_text = "start";
    if (const std::optional<double> weight = element.PositiveNumber("soft")) {
      AddSoft(element, bounded, *weight, *task, soft);
    } else {
      AddHard(element, std::make_unique<ResidualConstraint>(model, std::move(bounded.info), std::move(bounded.term)),
              task);
    }
  }
  for (std::size_t i = 0; i < without.size(); ++i) {
    if (!used[i])
      element.Fail(fmt::format("except: '{}' is none of the entries that are named, such as qpos[root].x", without[i]));
  }
}

}  // namespace

ConstraintDraft ReadConstraint(const XmlElement& element, const Definitions& definitions, SensorAdder* sensors) {
  ConstraintDraft draft{element, std::nullopt, {}, {}, {}};
  if (element.tag() == "periodic") {
    element.Allow({"name", "qpos", "qvel", "act", "except", "soft"});
    if (!element.Has("qpos") && !element.Has("qvel") && !element.Has("act")) {
      element.Fail("names nothing that shall return: give qpos, qvel or act, each \"all\" or names");
    }
  } else if (element.tag() == "limit") {
    CheckLimitElement(element);
    if (!element.Has("joint")) ReadLimitQuantity(element, &draft, sensors);
  } else if (IsPower(element)) {
    element.Allow({"name", "actuator", "quantity", "lower", "upper", "soft", "when"});
    if (!element.Has("lower") && !element.Has("upper")) element.Fail("has no bound: give lower, upper or both");
    ReadLimitQuantity(element, &draft, sensors);
  } else {
    const bool equals = element.Has("equals");
    if (equals && (element.Has("lower") || element.Has("upper") || element.Has("target"))) {
      element.Fail("give equals, or lower and upper (with target, if they are counted from one), not both");
    }
    if (!equals && !element.Has("lower") && !element.Has("upper"))
      element.Fail("has no bound: give equals, lower or upper");
    draft.measure = ReadResidual(element, {"lower", "upper", "equals", "soft", "when"}, equals ? "equals" : "target",
                                 definitions, sensors);
  }
  return draft;
}

void MakeConstraints(const ConstraintDraft& draft, const std::string& folder, Task* task,
                     std::vector<ResidualTerm>* soft) {
  const XmlElement& element = draft.element;
  if (element.tag() == "periodic") return MakePeriodic(element, task, soft);
  if (!draft.velocities.empty()) return MakePower(draft, task);
  if (draft.measure) return MakeMeasured(draft, folder, task, soft);
  if (element.Has("joint")) return MakeJointLimit(draft, task, soft);
  Bounded bounded = BoundSensors(draft, task->model.get(), element.Number("margin").value_or(0));
  const std::string kind = element.Has("tendon") ? "tendon" : "actuator";
  const std::string quantity = element.Text("quantity").value_or(element.Has("tendon") ? "ranges" : "force");
  bounded.info.name = element.Text("name").value_or(kind + " " + quantity);
  AddBounded(element, std::move(bounded), task, soft);
}

void WarnOfStart(Task* task) {
  if (task->constraints.size() == 0) return;
  const mjModel* model = task->model.get();
  const DataPtr data = MakeData(model);
  SetContext(model, data.get(), task->context);
  VectorXd s(model->nsensordata), c;
  const VectorXd u = task->U_guess.cols() > 0 ? VectorXd(task->U_guess.col(0)) : VectorXd::Zero(model->nu);
  if (Forward(model, data.get(), task->x0, u, s) != StepStatus::kOk) return;
  const KnotView knot{.t = 0,
                      .N = task->N,
                      .time = 0,
                      .dt = task->knot_time(),
                      .x = task->x0,
                      .u = u,
                      .s = s,
                      .start = task->x0.data()};
  for (int i = 0; i < task->constraints.size(); ++i) {
    const ConstraintInfo& info = task->constraints[i].info();
    if (info.first != 1) continue;
    task->constraints[i].Value(knot, &c);
    for (int k = 0; k < c.size(); ++k) {
      if (c[k] >= info.lower[k] - task->constrained.tolerance && c[k] <= info.upper[k] + task->constrained.tolerance)
        continue;
      task->warnings.push_back(fmt::format(
          "constraint '{}': the start violates it, {} is {:g}, allowed {:g} to {:g}; it counts from the next knot on",
          info.name, info.components[static_cast<std::size_t>(k)], c[k], info.lower[k], info.upper[k]));
      break;
    }
  }
}

}  // namespace costate
