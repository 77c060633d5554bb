#include "optimizer/task_target.h"

#include <costate/step.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/engine_guard.h"
#include "core/number.h"
#include "optimizer/task_csv.h"

namespace costate {
namespace {

bool TakePrefix(const std::string& prefix, const std::string& text, std::string* rest) {
  if (text.compare(0, prefix.size(), prefix) != 0) return false;
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
  const int first = model->sensor_adr[mj_name2id(model, mjOBJ_SENSOR, draft.pieces[0].sensor.c_str())];
  const int second = model->sensor_adr[mj_name2id(model, mjOBJ_SENSOR, draft.target_sensor.c_str())];
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

}  // namespace

KeyKnot KnotAtKey(const mjModel* model, const std::string& key) {
  const DataPtr data = MakeDataAtKey(model, key);
  KeyKnot knot;
  knot.x = GetState(model, data.get());
  knot.u = Eigen::Map<const VectorXd>(data->ctrl, model->nu);
  knot.context = GetContext(model, data.get());
  mj_normalizeQuat(model, knot.x.data());
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
    if (draft.target == "equals" && numbers.size() == 1 && term->rotations.empty())
      numbers = VectorXd::Constant(n, numbers[0]);
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
