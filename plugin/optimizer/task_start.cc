#include "optimizer/task_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/extremes.h"
#include "core/joint.h"
#include "core/number.h"
#include "core/posture.h"
#include "optimizer/control_limits.h"
#include "optimizer/task_csv.h"
#include "optimizer/task_follow.h"
#include "optimizer/task_inputs.h"
#include "optimizer/task_target.h"
#include "optimizer/task_term.h"

namespace costate {
namespace {

constexpr int kMaxKnots = 1000000;  // beyond it a trajectory does not fit into memory
constexpr double kDivides = 1e-6;   // relative: a horizon this near to a whole number of knots is one

// one part of a state given in numbers
void SetPart(const XmlElement& element, const char* attribute, int offset, int size, const mjModel* model,
             VectorXd* x) {
  const std::optional<VectorXd> numbers = element.Numbers(attribute);
  if (!numbers) return;
  if (numbers->size() != size) {
    element.Fail(fmt::format("{} has {}, model '{}' has {}", attribute, Count(numbers->size(), "number"),
                             ModelName(model), size));
  }
  x->segment(offset, size) = *numbers;
}

// what the first row of a motion says of the state
void SetFromFile(const XmlElement& element, const std::string& path, const mjModel* model, VectorXd* x) {
  CsvTable table;
  try {
    table = ReadTable(path);
  } catch (const Error& error) {
    element.Fail(error.what(), error.code());
  }
  const std::vector<int> columns = table.StateColumns(model);
  const auto said = [&](Eigen::Index i) { return columns[static_cast<std::size_t>(i)] >= 0; };
  const std::vector<std::string> names = StateNames(model);
  const std::string place = fmt::format("{}:{}", table.path, table.line[0]);
  bool any = false;
  for (Eigen::Index i = 0; i < x->size(); ++i) {
    if (!said(i)) continue;
    const int column = columns[static_cast<std::size_t>(i)];
    (*x)[i] = table.values(0, column);
    any = true;
    if (std::isnan((*x)[i])) element.Fail(fmt::format("{}: the cell in column {} is empty or nan", place, column + 1));
  }
  const std::string misspelled = table.MisspelledText(names, columns);
  if (!misspelled.empty()) element.Fail("file: " + misspelled);
  if (!any) {
    element.Fail(fmt::format("file: {} has no column of the state, such as {}", table.path,
                             JoinWords({names.begin(), names.begin() + std::min<std::ptrdiff_t>(2, model->nq)}, "or")));
  }
  for (int j = 0; j < model->njnt; ++j) {
    const int type = model->jnt_type[j];
    if (type != mjJNT_FREE && type != mjJNT_BALL) continue;
    const int first = model->jnt_qposadr[j] + (type == mjJNT_FREE ? 3 : 0);
    for (int i = first + 1; i < first + 4; ++i) {
      if (said(i) == said(first)) continue;
      element.Fail(fmt::format("file: {} has {}, but not {}: a quaternion counts as a whole", table.path,
                               names[static_cast<std::size_t>(said(i) ? i : first)],
                               names[static_cast<std::size_t>(said(i) ? first : i)]));
    }
  }
}

void CheckQuaternions(const XmlElement& element, const mjModel* model, const VectorXd& x) {
  for (int j = 0; j < model->njnt; ++j) {
    const int type = model->jnt_type[j];
    if (type != mjJNT_FREE && type != mjJNT_BALL) continue;
    if (x.segment<4>(model->jnt_qposadr[j] + (type == mjJNT_FREE ? 3 : 0)).norm() < mjMINVAL) {
      element.Fail(fmt::format("qpos: the quaternion of joint '{}' has length 0", ElementName(model, mjOBJ_JOINT, j)));
    }
  }
}

KeyKnot NamedKnot(const XmlElement& element, const char* attribute, const mjModel* model, const std::string& key) {
  try {
    return KnotAtKey(model, key);
  } catch (const Error& error) {
    element.Fail(fmt::format("{}: {}", attribute, error.what()), error.code());
  }
}

// "crouch@0 stand@0.5"
struct TimedKeys {
  std::vector<std::string> names;
  VectorXd time;
};

TimedKeys ReadTimedKeys(const XmlElement& element, const char* attribute, const std::string& text) {
  const std::vector<std::string> words = SplitTimed(text);
  TimedKeys keys{{}, VectorXd(static_cast<Eigen::Index>(words.size()))};
  for (Eigen::Index k = 0; k < keys.time.size(); ++k) {
    const std::string& word = words[static_cast<std::size_t>(k)];
    const std::size_t at = word.rfind('@');
    if (at == std::string::npos || !ParseNumber(word.substr(at + 1), &keys.time[k])) {
      element.Fail(fmt::format("{}: '{}' is no keyframe with a time, expected NAME@SECONDS", attribute, word));
    }
    if (k > 0 && keys.time[k] <= keys.time[k - 1]) {
      element.Fail(fmt::format("{}: times must increase, '{}' does not", attribute, word));
    }
    keys.names.push_back(word.substr(0, at));
  }
  return keys;
}

// key="stand", or key="crouch@0 stand@0.5": the controls of keyframes at times
TimeSeries GuessKeys(const XmlElement& element, const mjModel* model) {
  const std::string text = *element.Text("key");
  if (text.find('@') == std::string::npos) return {VectorXd(), NamedKnot(element, "key", model, text).u};
  TimedKeys keys = ReadTimedKeys(element, "key", text);
  TimeSeries series{std::move(keys.time), MatrixXd(model->nu, static_cast<Eigen::Index>(keys.names.size()))};
  for (std::size_t k = 0; k < keys.names.size(); ++k)
    series.values.col(static_cast<Eigen::Index>(k)) = NamedKnot(element, "key", model, keys.names[k]).u;
  return series;
}

// qpos="…" at="1.2" beside hold="true" or follow="true": postures, one for each time
struct Postures {
  VectorXd at;
  MatrixXd X;  // nx × n
};

Postures ReadPostures(const XmlElement& element, const Start& start, const Task& task) {
  const mjModel* model = task.model.get();
  const Eigen::Index nq = model->nq;
  const double end = std::max(task.N - 1, 1) * task.substeps * model->opt.timestep;
  Postures postures{element.Numbers("at").value_or(VectorXd::Constant(1, end)), {}};
  const Eigen::Index n = postures.at.size();
  postures.X = start.x.replicate(1, n);
  if (n == 1) {
    VectorXd x = start.x;
    SetPart(element, "qpos", 0, Dims(model).nq, model, &x);
    postures.X.col(0) = x;
  } else {
    const VectorXd qpos = *element.Numbers("qpos");
    if (qpos.size() != n * nq) {
      element.Fail(fmt::format("qpos has {}, expected {}: {} for each of the {} times in at",
                               Count(qpos.size(), "number"), n * nq, nq, n));
    }
    postures.X.topRows(nq) = qpos.reshaped(nq, n);
  }
  for (Eigen::Index i = 0; i < n; ++i) {
    CheckQuaternions(element, model, postures.X.col(i));
    NormalizeQuaternions(model, postures.X.col(i));
    if (!(postures.at[i] > 0)) element.Fail(fmt::format("at is {:g} s, expected a time above 0", postures.at[i]));
    if (i > 0 && !(postures.at[i] > postures.at[i - 1]))
      element.Fail(
          fmt::format("at: {:g} s comes behind {:g} s, expected later times", postures.at[i], postures.at[i - 1]));
  }
  return postures;
}

// from what holds the start to what holds postures
TimeSeries GuessPosture(const XmlElement& element, const Start& start, const VectorXd& u, const Task& task) {
  const Postures postures = ReadPostures(element, start, task);
  const Eigen::Index n = postures.at.size();
  TimeSeries series{VectorXd::Zero(n + 1), MatrixXd(u.size(), n + 1)};
  series.time.tail(n) = postures.at;
  series.values.col(0) = u;
  for (Eigen::Index i = 0; i < n; ++i)
    series.values.col(i + 1) = HoldControl(task, postures.X.col(i), start.context, u);
  return series;
}

// hold="true", or hold="crouch@0.5": what holds the start and, at their times, keyframes
TimeSeries GuessHeld(const XmlElement* element, const Start& start, const Task& task) {
  const std::string text = element ? element->Text("hold").value_or("true") : "true";
  const VectorXd u = HoldControl(task, start.x, start.context, start.u);
  if (text == "true") {
    if (!element || !element->Has("qpos")) {
      const double knot_time = task.knot_time();
      return {knot_time * VectorXd::LinSpaced(task.N, 0, task.N - 1), HoldByFeedback(task, start, u)};
    }
    return GuessPosture(*element, start, u, task);
  }
  if (text.find('@') == std::string::npos) {
    element->Fail(fmt::format(
        "hold: '{}' is neither true, for what holds the start, nor keyframes with times, NAME@SECONDS", text));
  }
  const TimedKeys keys = ReadTimedKeys(*element, "hold", text);
  const Eigen::Index n = keys.time.size();
  TimeSeries series{VectorXd::Zero(n + 1), MatrixXd(u.size(), n + 1)};
  series.values.col(0) = u;
  for (Eigen::Index k = 0; k < n; ++k) {
    const KeyKnot knot = NamedKnot(*element, "hold", task.model.get(), keys.names[static_cast<std::size_t>(k)]);
    series.time[k + 1] = keys.time[k];
    series.values.col(k + 1) = HoldControl(task, knot.x, knot.context, knot.u);
  }
  if (n > 0 && series.time[1] <= 0) element->Fail("hold: what holds the start comes at 0 s, all others after it");
  return series;
}

// follow="true" qpos="…" at="1.2", or follow="crouch@0.5 stand@1"
MatrixXd GuessFollowed(const XmlElement& element, const Start& start, const Task& task) {
  const mjModel* model = task.model.get();
  const std::string text = *element.Text("follow");
  const bool driven = element.Flag("driven", false);
  if (text == "true") {
    const Postures postures = ReadPostures(element, start, task);
    return FollowControls(task, start, {postures.at, postures.X.topRows(model->nq)}, driven).U;
  }
  if (text.find('@') == std::string::npos) {
    element.Fail(
        fmt::format("follow: '{}' is neither true, beside qpos, nor keyframes with times, NAME@SECONDS", text));
  }
  TimedKeys keys = ReadTimedKeys(element, "follow", text);
  if (keys.time[0] <= 0) element.Fail("follow: the start is at 0 s, all keyframes come after it");
  Waypoints waypoints{keys.time, MatrixXd(model->nq, keys.time.size())};
  for (Eigen::Index k = 0; k < keys.time.size(); ++k) {
    waypoints.qpos.col(k) =
        NamedKnot(element, "follow", model, keys.names[static_cast<std::size_t>(k)]).x.head(model->nq);
  }
  return FollowControls(task, start, waypoints, driven).U;
}

// bounds of free entries in their own units, as changes of the start
VectorXd FreeBounds(const XmlElement& element, const char* attribute, const mjModel* model, const VectorXd& x0,
                    const std::vector<int>& entries, const VectorXd& usual) {
  const std::optional<VectorXd> given = element.Numbers(attribute);
  if (!given) return usual(entries);
  const Eigen::Index n = static_cast<Eigen::Index>(entries.size());
  if (given->size() != 1 && given->size() != n) {
    element.Fail(fmt::format("{} has {}, free names {}", attribute, Count(given->size(), "number"), Count(n, "entry")));
  }
  VectorXd bounds(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const int entry = entries[static_cast<std::size_t>(i)], at = StateEntry(model, entry);
    const std::string name = TangentNames(model)[static_cast<std::size_t>(entry)];
    if (at < 0)
      element.Fail(fmt::format("{}: {} is one of a rotation, which has no bounds: free it by an element without {}",
                               attribute, name, attribute),
                   ErrorCode::kUnsupported);
    const double bound = (*given)[given->size() == 1 ? 0 : i];
    bounds[i] = bound - x0[at];
    const bool is_lower = attribute[0] == 'l';
    if (is_lower ? bounds[i] <= 0 : bounds[i] >= 0) continue;
    element.Fail(fmt::format("{} is {:g} for {}, the start has {:g}", attribute, bound, name, x0[at]));
  }
  return bounds;
}

}  // namespace

// by how much each entry of the start may change: hinges and slides stay in their range, single activations in theirs;
// a start that is outside need not come in
void StartBounds(const mjModel* m, const VectorXd& x0, VectorXd* lower, VectorXd* upper) {
  const Dims dims(m);
  *lower = VectorXd::Constant(dims.ndx, -kInf);
  *upper = VectorXd::Constant(dims.ndx, kInf);
  const auto keep = [&](Eigen::Index entry, double value, const mjtNum* range) {
    (*lower)[entry] = std::min(0.0, range[0] - value);
    (*upper)[entry] = std::max(0.0, range[1] - value);
  };
  const bool limits = !(m->opt.disableflags & (mjDSBL_LIMIT | mjDSBL_CONSTRAINT));
  for (int j = 0; j < m->njnt && limits; j++) {
    const bool scalar = IsScalarJoint(m->jnt_type[j]);
    if (scalar && m->jnt_limited[j]) keep(m->jnt_dofadr[j], x0[m->jnt_qposadr[j]], m->jnt_range + 2 * j);
  }
  for (int i = 0; i < m->nactuator; i++) {
    if (!m->actuator_actlimited[i] || m->actuator_actnum[i] != 1) continue;
    const int a = m->actuator_actadr[i];
    keep(2 * m->nv + a, x0[m->nq + m->nv + a], m->actuator_actrange + 2 * i);
  }
}

int AtStartBound(double dx, double lower, double upper) {
  // dx is taken of two states that are rounded
  constexpr double kRounding = 1e-12;
  const auto at = [&](double bound) {
    return std::isfinite(bound) && std::abs(dx - bound) <= kRounding * std::max(1.0, std::abs(bound));
  };
  return at(lower) ? -1 : at(upper) ? 1 : 0;
}

FreeStart ReadFreeStart(const XmlElement* element, const mjModel* model, const VectorXd& x0) {
  FreeStart start;
  if (!element || !element->Has("free")) {
    for (const char* attribute : {"lower", "upper"}) {
      if (element && element->Has(attribute))
        element->Fail(fmt::format("{} bounds what free=\"…\" names, which is missing", attribute));
    }
    return start;
  }
  start.entries = SelectEntries(*element, "free", TangentNames(model));
  VectorXd lower, upper;
  StartBounds(model, x0, &lower, &upper);
  start.lower = FreeBounds(*element, "lower", model, x0, start.entries, lower);
  start.upper = FreeBounds(*element, "upper", model, x0, start.entries, upper);
  return start;
}

std::string KeyName(const std::string& text) { return text.starts_with("key:") ? text.substr(4) : text; }

Start MakeStart(const mjModel* model, const std::string& key) {
  if (!key.empty()) {
    KeyKnot knot = KnotAtKey(model, key);
    return {std::move(knot.x), std::move(knot.u), std::move(knot.context)};
  }
  const DataPtr data = MakeData(model);
  return {GetState(model, data.get()), VectorXd::Zero(model->nu), GetContext(model, data.get())};
}

Start ReadStart(const XmlElement* element, const std::string& folder, const mjModel* model) {
  if (!element) return MakeStart(model, "");
  Start start;
  try {
    start = MakeStart(model, element->Text("key").value_or(""));
  } catch (const Error& error) {
    element->Fail(error.what(), error.code());
  }

  // numbers, of a file or given here, replace parts of the keyframe or of the default
  if (const std::optional<std::string> file = element->Text("file"))
    SetFromFile(*element, Resolve(folder, *file), model, &start.x);
  const Dims dims(model);
  SetPart(*element, "qpos", 0, dims.nq, model, &start.x);
  SetPart(*element, "qvel", dims.nq, dims.nv, model, &start.x);
  SetPart(*element, "act", dims.nq + dims.nv, dims.na, model, &start.x);
  CheckQuaternions(*element, model, start.x);
  NormalizeQuaternions(model, start.x);
  return start;
}

MatrixXd ReadGuess(const XmlElement* element, const Start& start, const std::string& folder, Task* task) {
  const mjModel* model = task->model.get();
  const int nu = static_cast<int>(model->nu);
  const double knot_time = task->knot_time();
  auto constant = [&](const VectorXd& u) -> MatrixXd { return u.replicate(1, task->N); };
  const bool follows = element && element->Has("follow");
  const bool names_controls =
      follows ||
      (element && (element->Has("key") || element->Has("ctrl") || element->Has("file") || element->Has("hold")));
  MatrixXd U;
  if (nu == 0 && (!element || element->Has("hold") || follows || !names_controls)) {
    return constant(VectorXd());
  } else if (follows) {
    U = GuessFollowed(*element, start, *task);
  } else if (!names_controls || element->Has("hold")) {
    U = Sample(GuessHeld(names_controls ? element : nullptr, start, *task), task->N, knot_time);
  } else if (element->Has("key")) {
    U = Sample(GuessKeys(*element, model), task->N, knot_time);
  } else if (element->Has("ctrl")) {
    VectorXd u = *element->Numbers("ctrl");
    if (u.size() == 1) u = VectorXd::Constant(nu, u[0]);
    if (u.size() != nu) {
      element->Fail(
          fmt::format("ctrl has {}, model '{}' has nu = {}", Count(u.size(), "number"), ModelName(model), nu));
    }
    U = constant(u);
  } else {
    try {
      const std::string file = *element->Text("file");
      const TimeSeries series = ReadControls(Resolve(folder, file), model);
      U = Sample(series, task->N, knot_time);
      task->constrained.trust_guess = true;
      const std::string more = LeftOut(series, task->N, knot_time);
      if (!more.empty())
        task->warnings.push_back(element->Says(fmt::format("{} has {}: what is beyond them is left out", file, more)));
    } catch (const Error& error) {
      element->Fail(error.what(), error.code());
    }
  }

  // within the limits
  const MatrixXd clamped = WithinLimits(*task, U);
  constexpr double kRounding = 1e-12;
  const Eigen::Index beyond = ((clamped - U).array().abs() > kRounding * U.array().abs().max(1)).count();
  if (beyond > 0) {
    task->warnings.push_back(
        fmt::format("{} of {} controls of the guess lay beyond their range and were clamped", beyond, U.size()));
  }
  return clamped;
}

void SetHorizon(double horizon, int substeps, Task* task) {
  const double dt = task->model->opt.timestep * substeps;
  const double knots = horizon / dt;
  if (!(knots >= 0.5)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("horizon is {:g} s, less than one control interval of {} x {:g} s", horizon, substeps,
                            task->model->opt.timestep));
  }
  if (knots > kMaxKnots) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("horizon is {:g} s, that is {:g} control intervals of {:g} s; at most {} are possible",
                            horizon, knots, dt, kMaxKnots));
  }
  task->substeps = substeps;
  task->N = static_cast<int>(std::lround(knots));
  if (std::abs(knots - task->N) > kDivides * knots) {
    task->warnings.push_back(
        fmt::format("horizon {:g} s is no whole number of control intervals of {:g} s: {} of them, {:g} s, are taken",
                    horizon, dt, task->N, task->N * dt));
  }
  ControlLimits(task->model.get(), &task->u_lower, &task->u_upper);
}

void CheckModel(const Task& task, bool names_inputs) {
  const mjModel* model = task.model.get();
  if (model->nv == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("model '{}' ({}) has no degrees of freedom (nv = 0): nothing can move", ModelName(model),
                            task.model_file));
  }
  if (model->nu == 0 && !names_inputs) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("model '{}' ({}) has no actuators (nu = 0): there is nothing to optimize; an MJCF file that "
                    "includes it can add them (<actuator>), URDF has none",
                    ModelName(model), task.model_file));
  }
  if (model->opt.disableflags & mjDSBL_SENSOR) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("model '{}' ({}) disables sensors (<flag sensor=\"disable\"/>): costs are measured by them",
                            ModelName(model), task.model_file));
  }
}

}  // namespace costate
