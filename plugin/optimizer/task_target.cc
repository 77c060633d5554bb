#include "optimizer/task_target.h"

#include <costate/step.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/actuator_range.h"
#include "core/element.h"
#include "core/engine_guard.h"
#include "core/extremes.h"
#include "core/joint.h"
#include "core/number.h"
#include "core/posture.h"
#include "optimizer/task_csv.h"

namespace costate {
namespace {

bool TakePrefix(const std::string& prefix, const std::string& text, std::string* rest) {
  if (!text.starts_with(prefix)) return false;
  *rest = text.substr(prefix.size());
  return true;
}

// quaternions of a target become unit length
void Normalize(const XmlElement& element, ResidualTerm* term) {
  for (const RotationEntry& rotation : term->rotations) {
    if (rotation.slot < 0) continue;
    for (Eigen::Index k = 0; k < term->target.values.cols(); ++k) {
      auto q = term->target.values.col(k).segment<4>(rotation.slot);
      const double length = q.norm();
      if (length < mjMINVAL) element.Fail("target: a quaternion has length 0");
      q /= length;
    }
  }
}

// r = value - value of the same quantity elsewhere
void ReadMeasuredTarget(const CostDraft& draft, const mjModel* model, ResidualTerm* term) {
  const int first = SensorAddress(model, draft.pieces[0].sensor);
  const int second = SensorAddress(model, draft.target_sensor);
  const std::vector<LinearEntry> measured = term->linear;
  for (const LinearEntry& entry : measured) {
    term->linear.push_back({{Input::kSensor, entry.scalar.value - first + second, 0}, entry.row, -1});
  }
  for (RotationEntry& rotation : term->rotations) rotation.other = second;
}

struct KeyAtTime {
  std::string key;
  double time = 0;
};

// "key:stand", or "key:a@0 key:b@0.5"
std::vector<KeyAtTime> ReadKeys(const XmlElement& element, const std::string& attribute, const std::string& text) {
  std::string name;
  TakePrefix("key:", text, &name);
  if (text.find('@') == std::string::npos) return {{name, 0}};
  std::vector<KeyAtTime> keys;
  for (const std::string& word : SplitTimed(text)) {
    KeyAtTime key;
    const std::size_t at = word.rfind('@');
    if (!TakePrefix("key:", word.substr(0, at), &key.key) || at == std::string::npos ||
        !ParseNumber(word.substr(at + 1), &key.time)) {
      element.Fail(fmt::format("{}: '{}' is no keyframe with a time, expected key:NAME@SECONDS", attribute, word));
    }
    if (!keys.empty() && key.time <= keys.back().time) {
      element.Fail(fmt::format("{}: times must increase, '{}' does not", attribute, word));
    }
    keys.push_back(key);
  }
  return keys;
}

void ReadKeyTarget(const CostDraft& draft, const mjModel* model, const std::string& text, int slots, ResidualTerm* term,
                   VectorXd* x_goal) {
  const std::vector<KeyAtTime> keys = ReadKeys(draft.element, draft.target, text);
  const Eigen::Index n = static_cast<Eigen::Index>(keys.size());
  Target& target = term->target;
  target.values.resize(slots, n);
  target.time.resize(n);

  // the keyframe is the goal only if all joints shall be there at the end: a posture of some, or on the way, is not
  const bool whole = draft.pieces.size() == 1 && draft.pieces[0].vector == "qpos" && term->size() == model->nv;
  const bool last = term->terminal.maxCoeff() > 0;
  for (Eigen::Index k = 0; k < n; ++k) {
    const KeyAtTime& key = keys[static_cast<std::size_t>(k)];
    KeyKnot knot;
    try {
      knot = KnotAtKey(model, key.key);
    } catch (const Error& error) {
      draft.element.Fail(draft.target + ": " + error.what(), error.code());
    }
    target.values.col(k) = MeasuredSlots(*term, knot.x, knot.u, knot.s, slots);
    target.time[k] = key.time;
    if (whole && last) *x_goal = knot.x;
  }
}

void ReadFileTarget(const CostDraft& draft, const std::string& path, std::vector<std::string> slots,
                    ResidualTerm* term) {
  // a combination has no name of its own in a file's header
  if (draft.pieces.size() > 1 || draft.pieces[0].coef != 1) {
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = fmt::format("{}.{}", term->name, i);
  }
  try {
    const TimeSeries series = ReadTimeSeries(path, slots, true);
    term->target.values = series.values;
    term->target.time = series.time;
  } catch (const Error& error) {
    draft.element.Fail(draft.target + ": " + error.what(), error.code());
  }
}

// ---- what no motion can have ----------------------------------------------------------------------------------------

// of a range: so far springs of limits are pressed; further in motions that were recorded, not as far as in wrong units
constexpr double kGivesWay = 0.01, kRecordedBeyond = 1;

// the values that a number can have
struct Extent {
  double lower = -kInf, upper = kInf;
  std::string what;  // "the range of joint 'knee'"
  std::string unit;  // behind the numbers, with a blank before it
  int axis = -1;     // of a component of a direction: its sensor
};

Extent Within(const mjtNum* range, const std::string& what, const std::string& name, const std::string& unit = "") {
  if (range == nullptr) return {};
  return {range[0], range[1], fmt::format("the {} of {}", what, name), unit};
}

bool HasLimits(const mjModel* m) { return !(m->opt.disableflags & (mjDSBL_LIMIT | mjDSBL_CONSTRAINT)); }

Extent ExtentOfJoint(const mjModel* m, int joint) {
  const bool scalar = IsScalarJoint(m->jnt_type[joint]);
  return Within(scalar && HasLimits(m) && m->jnt_limited[joint] ? m->jnt_range + 2 * joint : nullptr, "range",
                fmt::format("joint '{}'", ElementName(m, mjOBJ_JOINT, joint)),
                m->jnt_type[joint] == mjJNT_HINGE ? " rad" : " m");
}

Extent ExtentOfSensor(const mjModel* m, int value) {
  int i = 0;
  while (i + 1 < m->nsensor && m->sensor_adr[i + 1] <= value) ++i;
  const int id = m->sensor_objid[i];
  switch (m->sensor_type[i]) {
    case mjSENS_JOINTPOS: return ExtentOfJoint(m, id);
    case mjSENS_TENDONPOS:
      return Within(HasLimits(m) && m->tendon_limited[id] ? m->tendon_range + 2 * id : nullptr, "range",
                    fmt::format("tendon '{}'", ElementName(m, mjOBJ_TENDON, id)));
    case mjSENS_ACTUATORFRC:
      return Within(ForceRange(m, id), "force range", fmt::format("actuator '{}'", ElementName(m, mjOBJ_ACTUATOR, id)));
    case mjSENS_FRAMEXAXIS:
    case mjSENS_FRAMEYAXIS:
    case mjSENS_FRAMEZAXIS: return {-1, 1, "what a direction's component can be", "", i};
    default: return {};
  }
}

Extent ExtentOf(const mjModel* m, const Scalar& scalar) {
  if (scalar.input == Input::kSensor) return ExtentOfSensor(m, scalar.value);
  if (scalar.input == Input::kControl) {
    return Within(ControlRange(m, scalar.value), "range", ControlNames(m)[static_cast<std::size_t>(scalar.value)]);
  }
  for (int j = 0; j < m->njnt; ++j) {
    if (m->jnt_qposadr[j] == scalar.value) return ExtentOfJoint(m, j);
  }
  return {};
}

// the components of one direction, as far as they are measured
struct Direction {
  int sensor = -1, rows = 0;
  bool weighed = true;
  VectorXd square;  // of its length, one a time of the target
};

void CheckDirections(const XmlElement& element, const ResidualTerm& term, const std::vector<Direction>& directions) {
  for (const Direction& direction : directions) {
    const double length = std::sqrt(direction.square.maxCoeff()), least = std::sqrt(direction.square.minCoeff());
    const bool whole = direction.rows == 3 && direction.weighed;
    if (length <= 1 + kUnitLength && (!whole || least >= 1 - kUnitLength)) continue;
    element.Fail(fmt::format("target '{}': a direction has length 1, {} {:g}", term.target_text,
                             whole ? "this one" : "its given part has", length > 1 + kUnitLength ? length : least));
  }
}

}  // namespace

void CheckReach(const XmlElement& element, const mjModel* model, const ResidualTerm& term, ConstVectorRef lower,
                ConstVectorRef upper, bool hard, std::vector<std::string>* warnings) {
  if (term.map || (!term.target_text.empty() && term.target.values.cols() == 0)) return;  // measured, or the guess
  const bool targeted = term.target.values.cols() > 0;
  const double part = term.target_text.starts_with("file:") ? kRecordedBeyond : kGivesWay;
  std::vector<Direction> directions;
  for (const LinearEntry& entry : term.linear) {
    const auto same_row = [&](const LinearEntry& other) { return other.row == entry.row; };
    if (std::count_if(term.linear.begin(), term.linear.end(), same_row) > 1 || entry.coef == 0) continue;
    const Extent extent = ExtentOf(model, entry.scalar);
    const int slot = term.row_slot[static_cast<std::size_t>(entry.row)];
    if (extent.what.empty() || (slot < 0 && targeted)) continue;
    const VectorXd target = targeted ? VectorXd(term.target.values.row(slot)) : VectorXd::Zero(1);

    // r = coef value - target within [lower, upper]
    const double one = extent.lower * entry.coef, other = extent.upper * entry.coef;
    const double least = std::min(one, other), most = std::max(one, other), slack = part * (most - least);
    const double below = target.maxCoeff() + lower[entry.row], above = target.minCoeff() + upper[entry.row];
    const bool high = below > most + slack, low = above < least - slack;
    if (high || low) {
      const std::string name =
          term.row_names.empty() ? term.measured : term.row_names[static_cast<std::size_t>(entry.row)];
      const std::string text = fmt::format("{} shall be {:g}{}, beyond {}, {:g} to {:g}{}", name, high ? below : above,
                                           lower[entry.row] == upper[entry.row] ? ""
                                           : high                               ? " at least"
                                                                                : " at most",
                                           extent.what, least, most, extent.unit);
      if (hard || extent.axis >= 0) element.Fail(text);
      warnings->push_back(element.Says(text));
    }
    if (extent.axis < 0 || std::abs(entry.coef) != 1 || !targeted) continue;
    auto direction = std::find_if(directions.begin(), directions.end(),
                                  [&](const Direction& known) { return known.sensor == extent.axis; });
    if (direction == directions.end())
      direction = directions.insert(direction, {extent.axis, 0, true, VectorXd::Zero(target.size())});
    direction->rows++;
    direction->weighed &= term.weight[entry.row] > 0 || term.terminal[entry.row] > 0;
    direction->square += target.cwiseAbs2();
  }
  if (lower == upper) CheckDirections(element, term, directions);
}

KeyKnot KnotAtKey(const mjModel* model, const std::string& key) {
  const DataPtr data = MakeDataAtKey(model, key);
  KeyKnot knot;
  knot.x = GetState(model, data.get());
  knot.u = Eigen::Map<const VectorXd>(data->ctrl, model->nu);
  knot.context = GetContext(model, data.get());
  NormalizeQuaternions(model, knot.x);
  knot.s.resize(model->nsensordata);
  const StepStatus status = Forward(model, data.get(), knot.x, knot.u, knot.s);
  if (status != StepStatus::kOk) {
    throw Error(ErrorCode::kInvalidArgument, "keyframe '" + key + "' cannot be evaluated: " + ToString(status));
  }
  return knot;
}

void ReadTarget(const CostDraft& draft, const mjModel* model, const std::string& folder,
                const std::vector<std::string>& slots, ResidualTerm* term, VectorXd* x_goal) {
  const XmlElement& element = draft.element;
  term->target_text = element.Text(draft.target.c_str()).value_or("");
  if (term->target_text.empty()) return;
  const int n = static_cast<int>(slots.size());
  std::string rest;
  if (!draft.target_sensor.empty()) {
    ReadMeasuredTarget(draft, model, term);
  } else if (TakePrefix("key:", term->target_text, &rest)) {
    ReadKeyTarget(draft, model, term->target_text, n, term, x_goal);
  } else if (TakePrefix("file:", term->target_text, &rest)) {
    ReadFileTarget(draft, Resolve(folder, rest), slots, term);
  } else if (term->target_text == kGuessTarget) {
    const auto of_control = [](const PieceDraft& piece) { return piece.vector == "ctrl"; };
    if (draft.target != "target" || !std::all_of(draft.pieces.begin(), draft.pieces.end(), of_control))
      element.Fail(fmt::format("{} is 'guess', which has controls alone: for <cost ctrl=\"…\"/>", draft.target));
    return;
  } else {
    double number;
    if (!ParseNumber(SplitBlanks(term->target_text)[0], &number)) {
      element.Fail(fmt::format(
          "{} is '{}', expected {}, key:NAME, key:NAME@SECONDS …, file:PATH, guess, or site:, body:, geom:, camera: or "
          "mocap: with a name",
          draft.target, term->target_text, Count(n, "number")));
    }
    VectorXd numbers = element.ParseNumbers(draft.target.c_str(), term->target_text);
    if (numbers.size() == 1 && term->rotations.empty()) numbers = VectorXd::Constant(n, numbers[0]);
    if (numbers.size() != n) {
      element.Fail(fmt::format("{} has {}, expected {}{}", draft.target, Count(numbers.size(), "number"), n,
                               n <= 12 ? ": " + JoinWords(slots) : ""));
    }
    term->target.values = numbers;
    term->target.time = VectorXd::Zero(1);
  }
  Normalize(element, term);
}

}  // namespace costate
