#include "optimizer/task_goal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "core/element.h"
#include "core/joint.h"
#include "core/number.h"
#include "optimizer/task_start.h"
#include "optimizer/task_target.h"
#include "optimizer/task_write.h"
#include "optimizer/task_xml.h"

namespace costate {
namespace {

// what can be reached beside keyframes
constexpr mjtObj kGoalTypes[] = {mjOBJ_JOINT, mjOBJ_BODY, mjOBJ_SITE, mjOBJ_GEOM};
const std::vector<std::string> kGoalQuantities{"pos", "quat", "xaxis", "yaxis", "zaxis"};

[[noreturn]] void FailGoal(const std::string& goal, const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, fmt::format("goal '{}': {}", goal, what));
}

// how many numbers say it
int GoalSize(const mjModel* model, const PartGoal& goal) {
  if (goal.type != mjOBJ_JOINT) return goal.quantity == "quat" ? 4 : 3;
  return JointPositions(model->jnt_type[goal.id]);
}

constexpr double kDegree = mjPI / 180;  // [rad]
constexpr char kDegrees[] = "deg";      // behind a hinge's angle
constexpr double kLarge = 2;            // a number that may have been meant in them

constexpr double kDigits = 1e-5;  // of a range: its own end, as people write it

// what no motion can have: a joint beyond its range, a direction that is not of length one
void CheckInReach(const mjModel* model, const PartGoal& goal, const std::string& text) {
  if (goal.type == mjOBJ_JOINT && goal.size == 1 && model->jnt_limited[goal.id]) {
    const mjtNum* range = model->jnt_range + 2 * goal.id;
    const double digits = kDigits * std::max(std::abs(range[0]), std::abs(range[1]));
    const auto within = [&](double value) { return value >= range[0] - digits && value <= range[1] + digits; };
    const double value = goal.values[0];
    const bool hinge = model->jnt_type[goal.id] == mjJNT_HINGE;
    if (!within(value))
      FailGoal(text,
               fmt::format("{:g} is beyond the joint's range, {:g} to {:g} {}{}", value, range[0], range[1],
                           hinge ? "rad" : "m",
                           hinge && within(value * kDegree) && std::abs(value) >= kLarge && !text.ends_with(kDegrees)
                               ? fmt::format("; if these are degrees, say {:g}deg", value)
                               : ""));
  }
  if (goal.size >= 4 && std::all_of(goal.values.end() - 4, goal.values.end(), [](double v) { return v == 0; }))
    FailGoal(text, "a quaternion of zeros is no rotation");
  if (goal.quantity.size() != 5) return;  // xaxis, yaxis, zaxis
  double length = 0;
  for (double value : goal.values) length += value * value;
  length = std::sqrt(length);
  const bool whole = goal.index.size() == 3;
  if (length > 1 + kUnitLength || (whole && length < 1 - kUnitLength))
    FailGoal(text, fmt::format("a direction has length 1, {} {:g}", whole ? "this one" : "its given part has", length));
}

std::optional<mjtObj> GoalType(const std::string& word) {
  for (const mjtObj type : kGoalTypes) {
    if (word == mju_type2Str(type)) return type;
  }
  return std::nullopt;
}

PartGoal ReadPartGoal(const mjModel* model, const std::string& text) {
  PartGoal goal;
  const std::size_t equals = text.rfind('='), colon = text.find(':');
  const std::string word = text.substr(0, std::min(colon, equals));
  const std::optional<mjtObj> type = GoalType(word);
  if (!type || colon == std::string::npos || equals == std::string::npos || colon > equals)
    FailGoal(text, "expected a keyframe, or joint:, body:, site: or geom: with a name, = and numbers");
  goal.type = *type;
  goal.name = text.substr(colon + 1, equals - colon - 1);
  goal.quantity = goal.type == mjOBJ_JOINT ? "" : "pos";

  // a quantity behind the name, which may have colons itself
  goal.id = NamedId(model, goal.type, goal.name);
  for (int i = 0; i < model->njnt && goal.id < 0 && goal.type == mjOBJ_JOINT; ++i) {  // "joint 0", as it is called
    if (GivenName(model, mjOBJ_JOINT, i).empty() && ElementName(model, mjOBJ_JOINT, i) == goal.name) goal.id = i;
  }
  const std::size_t last = goal.name.rfind(':');
  if (goal.id < 0 && last != std::string::npos && goal.type != mjOBJ_JOINT) {
    goal.quantity = goal.name.substr(last + 1);
    goal.name.resize(last);
    goal.id = NamedId(model, goal.type, goal.name);
    if (std::find(kGoalQuantities.begin(), kGoalQuantities.end(), goal.quantity) == kGoalQuantities.end())
      FailGoal(text,
               fmt::format("there is no quantity '{}'{}", goal.quantity, Suggestion(goal.quantity, kGoalQuantities)));
  }
  if (goal.id < 0) {
    const std::vector<std::string> names = GivenNames(model, goal.type);
    FailGoal(text,
             fmt::format("model '{}' has no {} '{}'{}", ModelName(model), word, goal.name,
                         names.empty() ? fmt::format(" (no {} has a name)", word) : Suggestion(goal.name, names)));
  }

  const int weld = model->body_weldid[goal.Body(model)];
  if (weld == 0) FailGoal(text, fmt::format("{} '{}' stands fixed in the world, no control moves it", word, goal.name));
  if (model->body_dofnum[weld] == 0)
    FailGoal(text, fmt::format("{} '{}' stands where a program sets mocap body '{}', no control moves it", word,
                               goal.name, ElementName(model, mjOBJ_BODY, weld)));
  std::string numbers = text.substr(equals + 1);
  std::replace(numbers.begin(), numbers.end(), ',', ' ');
  const std::vector<std::string> words = SplitBlanks(numbers);
  goal.size = GoalSize(model, goal);
  if (static_cast<int>(words.size()) != goal.size)
    FailGoal(text, fmt::format("has {}, expected {}{}", Count(static_cast<long>(words.size()), "number"), goal.size,
                               goal.size == 3 ? ": x, y and z; _ leaves one open" : ""));
  for (int i = 0; i < goal.size; ++i) {
    double value = 0;
    std::string number = words[static_cast<std::size_t>(i)];
    const bool degrees = number.ends_with(kDegrees);
    if (degrees && (goal.type != mjOBJ_JOINT || model->jnt_type[goal.id] != mjJNT_HINGE))
      FailGoal(text, "only the angle of a hinge can be in degrees");
    if (degrees) number.resize(number.size() - std::strlen(kDegrees));
    const bool open = number == "_";
    if (open && goal.size != 3) FailGoal(text, "only places and directions can have an open component '_'");
    if (!open && !ParseNumber(number, &value)) FailGoal(text, fmt::format("'{}' is no number", number));
    if (!(std::abs(value) <= mjMAXVAL))
      FailGoal(text, fmt::format("{:g} is beyond what the engine takes, {:g}", value, mjMAXVAL));
    if (open) continue;
    if (degrees) value *= kDegree;
    goal.index.push_back(i);
    goal.values.push_back(value);
  }
  if (goal.index.empty()) FailGoal(text, "leaves everything open");
  CheckInReach(model, goal, text);
  return goal;
}

// a part without numbers is none
bool IsKey(const mjModel* model, const std::string& goal) {
  if (goal.find('=') != std::string::npos) return false;
  const std::size_t colon = goal.find(':');
  return colon == std::string::npos || !GoalType(goal.substr(0, colon)) || NamedId(model, mjOBJ_KEY, goal) >= 0;
}

}  // namespace

Goals ReadGoals(const mjModel* model, const std::vector<std::string>& texts) {
  Goals goals;
  std::vector<PartGoal>& parts = goals.parts;
  for (const std::string& text : texts) {
    if (!IsKey(model, text)) {
      parts.push_back(ReadPartGoal(model, text));
      const auto same = [&](const PartGoal& part) { return part.CostName() == parts.back().CostName(); };
      if (std::any_of(parts.begin(), parts.end() - 1, same))
        FailGoal(text, fmt::format("{} has a goal already", parts.back().CostName()));
    } else if (!goals.key.empty()) {
      FailGoal(text, fmt::format("'{}' is a keyframe to reach already", goals.key));
    } else {
      goals.key = KeyName(text);
    }
  }
  return goals;
}

void CheckAgrees(const mjModel* model, const PartGoal& part, const std::string& key, const VectorXd& x) {
  if (part.type != mjOBJ_JOINT || part.size != 1) return;
  const double there = x[model->jnt_qposadr[part.id]], here = part.values[0];
  if (std::abs(here - there) <= kDigits * std::max(1.0, std::abs(there))) return;
  FailGoal(
      fmt::format("joint:{}={:g}", part.name, here),
      fmt::format("keyframe '{}', a goal too, has {:g} there; in a task file (costate task) the posture's weight can "
                  "leave the joint out",
                  key, there));
}

}  // namespace costate
