// A task without a task file: numbers of a robot fitted to a recorded motion.
#include <costate/rollout.h>
#include <costate/task.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/element.h"
#include "core/extremes.h"
#include "core/joint.h"
#include "core/number.h"
#include "core/posture.h"
#include "optimizer/task_csv.h"
#include "optimizer/task_start.h"
#include "optimizer/task_write.h"
#include "optimizer/task_xml.h"
#include "rollout/units.h"

namespace costate {
namespace {

constexpr double kWhole = 1e-6;       // of a control interval: times this near to a whole number of them are one
constexpr int kStartRows = 5;         // through which lines are fitted for the velocities of the start …
constexpr double kClearlyLess = 0.5;  // … unless the loss without these is less than this part: it begins to move there

constexpr char kFields[] =
    "   and what of it can be fitted, among others:\n"
    "     joint:NAME/damping, armature, frictionloss, stiffness, springref; body:NAME/mass, scale, inertia, pos;\n"
    "     actuator:NAME/kp, kv, gainprm[0], gear[0]; geom:NAME/friction[0], solref; option/gravity[2]\n";

// what was recorded of one vector: the words of qpos="…", and for each component the length in which it is measured
struct Recorded {
  std::string words;
  std::vector<double> spread;
  std::string entries;  // those of the tangent
  bool all = true;
};

class MotionFile {
 public:
  MotionFile(const mjModel* model, const std::string& path)
      : m_(model),
        table_(ReadTable(path)),
        state_(table_.StateColumns(model)),
        units_(StateUnits(model)),
        tangent_(TangentNames(model)) {
    if (table_.names.empty()) Fail("has no header: a first row with names, \"time\" and such as " + SomeNames());
    used_.assign(table_.names.size(), false);
    const int time = table_.Column("time");
    if (time < 0) Fail("has no column 'time'");
    used_[static_cast<std::size_t>(time)] = true;
    RefuseMisspelled();
    time_ = table_.values.col(time);
    if (time_.size() < 2 || !(time_[time_.size() - 1] > time_[0])) Fail("has no two rows of increasing times");
  }

  const std::string& path() const { return table_.path; }
  double duration() const { return time_[time_.size() - 1] - time_[0]; }
  double interval() const { return duration() / static_cast<double>(time_.size() - 1); }

  // where rows are missing in the middle of the others: what is compared there nobody has measured
  std::string Gap() const {
    constexpr double kMany = 5;  // rows
    const Eigen::Index n = time_.size() - 1;
    VectorXd steps = time_.tail(n) - time_.head(n);
    Eigen::Index widest = 0;
    const double largest = steps.maxCoeff(&widest);
    std::nth_element(steps.data(), steps.data() + n / 2, steps.data() + n);
    if (!(largest > kMany * steps[n / 2])) return "";
    return fmt::format(
        "{} has no rows between {:g} s and {:g} s, one each {:.3g} s elsewhere: what is compared there is a straight "
        "line; in a task file (costate task) two <cost when=\"…\"> leave it out",
        path(), time_[widest], time_[widest + 1], steps[n / 2]);
  }

  // joints all of whose entries are there
  Recorded Joints(bool velocity) {
    struct Part {
      int joint, component;
      std::string unit;
    };
    std::vector<Part> parts;
    std::map<std::string, double> spread;  // of all that have one unit
    Recorded recorded;
    for (int j = 0; j < m_->njnt; ++j) {
      const int type = m_->jnt_type[j];
      const int first = velocity ? static_cast<int>(m_->nq) + m_->jnt_dofadr[j] : m_->jnt_qposadr[j];
      const int size = velocity ? JointDofs(type) : JointPositions(type);
      const std::string word = JointWord(m_, j, velocity);
      if (word.empty() || !AllThere(first, size)) {
        recorded.all = false;
        NotePart(state_.begin() + first, size, StateNames(m_).begin() + first);
        continue;
      }
      const int entry = m_->jnt_dofadr[j] + (velocity ? static_cast<int>(m_->nv) : 0);
      for (int i = 0; i < JointDofs(type); ++i)
        recorded.entries += (recorded.entries.empty() ? "" : " ") + tangent_[static_cast<std::size_t>(entry + i)];
      recorded.words += (recorded.words.empty() ? "" : " ") + word;
      for (int i = 0; i < size; ++i) {
        // a quaternion's part moves by half the angle, and three components stand for its four
        const bool turns = !velocity && size > 1 && i >= size - 4;
        const std::string unit = turns ? "rad" : units_[static_cast<std::size_t>(first + i)];
        spread[unit] = std::max(spread[unit], (turns ? 2 : 1) * Spread(state_[static_cast<std::size_t>(first + i)]));
        if (!turns || i > size - 4) parts.push_back({j, i, unit});
      }
    }
    if (recorded.all) recorded.words = "all";
    for (const Part& part : parts) recorded.spread.push_back(spread[part.unit]);
    return recorded;
  }

  // qvel of the start: what was recorded, else the slope of a line through the first rows of a joint's positions, else
  // the keyframe's; "" where no slope is wanted
  std::string StartVelocity(const Start& start) const {
    const Dims dims(m_);
    const VectorXd slope = FirstSlope(start.x.head(dims.nq));
    std::string words;
    bool any = false;
    for (int dof = 0; dof < slope.size(); ++dof) {
      const int joint = m_->dof_jntid[dof], column = state_[static_cast<std::size_t>(dims.nq + dof)];
      const bool moves = column < 0 && AllThere(m_->jnt_qposadr[joint], JointPositions(m_->jnt_type[joint]));
      const double other = column < 0 ? start.x[dims.nq + dof] : table_.values(0, column);
      words += fmt::format("{}{}", dof == 0 ? "" : " ",
                           moves ? fmt::format("{:.6g}", slope[dof]) : fmt::format("{}", other));
      any = any || moves;
    }
    return any ? words : "";
  }

  // sensors all of whose entries are there, by name, with the largest spread
  std::vector<std::pair<std::string, double>> Sensors() {
    const std::vector<std::string> names = SensorNames(m_);
    std::vector<std::pair<std::string, double>> sensors;
    for (int i = 0; i < m_->nsensor; ++i) {
      const std::string name = GivenName(m_, mjOBJ_SENSOR, i);
      const auto begin = names.begin() + m_->sensor_adr[i];
      const std::vector<int> columns = Exact({begin, begin + m_->sensor_dim[i]});
      NotePart(columns.begin(), m_->sensor_dim[i], begin);
      if (name.empty() || std::find(columns.begin(), columns.end(), -1) != columns.end()) continue;
      double spread = 0;
      for (int column : columns) spread = std::max(spread, Spread(column));
      sensors.push_back({name, m_->sensor_datatype[i] == mjDATATYPE_QUATERNION ? 2 * spread : spread});
    }
    return sensors;
  }

  // what of a joint or sensor is not there, beside what is; "" where there is no such
  const std::string& part() const { return part_; }

  // "qpos[wheel] jumps by 6.28 rad …": an angle that was brought back to a turn
  std::string Wraps() const {
    constexpr double kJump = 5.5;  // [rad] from row to row: nearer to a turn than to any motion between two rows
    for (int j = 0; j < m_->njnt; ++j) {
      const int column = state_[static_cast<std::size_t>(m_->jnt_qposadr[j])];
      if (m_->jnt_type[j] != mjJNT_HINGE || column < 0) continue;
      for (Eigen::Index row = 1; row < time_.size(); ++row) {
        const double jump = std::abs(table_.values(row, column) - table_.values(row - 1, column));
        if (!(jump > kJump && jump < 2 * mjPI + (2 * mjPI - kJump))) continue;
        return fmt::format(
            "{}: {} jumps by {:.3g} rad between {:g} s and {:g} s, as an angle that is brought back to a turn: it is "
            "compared as it stands, with a model that goes on; add the turns",
            path(), table_.names[static_cast<std::size_t>(column)], jump, time_[row - 1], time_[row]);
      }
    }
    return "";
  }

  std::string Converted() const {
    return table_.converted.empty()
               ? ""
               : path() + ": taken over in the units of the engine, " + JoinWords(table_.converted);
  }

  std::string UnknownUnits() const {
    return table_.unknown.empty() ? ""
                                  : fmt::format(
                                        "{}: what stands in brackets behind {} is no unit that is known here, the "
                                        "numbers are taken as they are",
                                        path(), JoinWords(table_.unknown));
  }

  bool HasControls() {
    const std::vector<int> columns = Exact(ControlNames(m_));
    const auto missing = std::count(columns.begin(), columns.end(), -1);
    if (missing > 0 && missing < static_cast<std::ptrdiff_t>(columns.size())) {
      const auto at = std::find(columns.begin(), columns.end(), -1) - columns.begin();
      Fail("has no column '" + ControlNames(m_)[static_cast<std::size_t>(at)] + "', but some of the other controls");
    }
    if (missing > 0 || columns.empty()) return false;
    for (int column : columns) used_[static_cast<std::size_t>(column)] = true;
    return true;
  }

  // names of columns that none of those above took, nor the start its activations from
  std::vector<std::string> Unused() {
    for (std::size_t i = static_cast<std::size_t>(m_->nq + m_->nv); i < state_.size(); ++i)
      if (state_[i] >= 0) used_[static_cast<std::size_t>(state_[i])] = true;
    std::vector<std::string> names;
    for (std::size_t i = 0; i < used_.size(); ++i)
      if (!used_[i]) names.push_back(table_.names[i]);
    return names;
  }

  std::string SomeNames() const {
    const std::vector<std::string> names = StateNames(m_);
    return JoinWords({names.begin(), names.begin() + std::min<std::ptrdiff_t>(3, m_->nq)}, "or");
  }

  [[noreturn]] void Fail(const std::string& what) const {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{} {}", table_.path, what));
  }

 private:
  // columns that are there beside names that are not
  void NotePart(std::vector<int>::const_iterator columns, int size, std::vector<std::string>::const_iterator names) {
    std::vector<std::string> there, missing;
    for (int i = 0; i < size; ++i) (columns[i] < 0 ? missing : there).push_back(names[i]);
    if (there.empty() || missing.empty() || !part_.empty()) return;
    part_ = fmt::format(
        "it has {}, but not {}: of several numbers all are compared, or none; in a task file (costate "
        "task) <cost … index=\"…\" target=\"file:…\"/> compares some",
        JoinWords(there), JoinWords(missing));
  }

  // a column that nothing takes beside an entry that has none and is called nearly so
  void RefuseMisspelled() const {
    std::vector<std::string> names = StateNames(m_);
    const std::size_t state = names.size();
    for (const auto& more : {ControlNames(m_), SensorNames(m_)}) names.insert(names.end(), more.begin(), more.end());
    std::vector<int> columns = Exact(names);
    for (std::size_t i = 0; i < state; ++i) columns[i] = state_[i];
    const std::string text = table_.MisspelledText(names, columns);
    if (!text.empty()) throw Error(ErrorCode::kParse, text);
  }

  // entries of the state
  bool AllThere(int first, int size) const {
    const auto begin = state_.begin() + first;
    return std::none_of(begin, begin + size, [](int column) { return column < 0; });
  }

  // of the recorded positions in the tangent, by least squares over those of the first rows that are complete
  VectorXd FirstSlope(const VectorXd& qpos) const {
    std::vector<double> time;
    std::vector<VectorXd> moved;
    VectorXd first;
    for (Eigen::Index row = 0; row < std::min<Eigen::Index>(kStartRows, time_.size()); ++row) {
      VectorXd q = qpos;
      for (Eigen::Index i = 0; i < q.size(); ++i) {
        const int column = state_[static_cast<std::size_t>(i)];
        if (column >= 0) q[i] = table_.values(row, column);
      }
      if (!q.allFinite() || !std::isfinite(time_[row])) continue;
      NormalizeQuaternions(m_, q);
      if (moved.empty()) first = q;
      time.push_back(time_[row]);
      moved.push_back(PostureDifference(m_, q, first));
    }
    double mean = 0, squares = 0;
    for (double t : time) mean += t / static_cast<double>(time.size());
    VectorXd slope = VectorXd::Zero(m_->nv);
    for (std::size_t k = 0; k < time.size(); ++k) {
      squares += (time[k] - mean) * (time[k] - mean);
      slope += (time[k] - mean) * moved[k];
    }
    return squares > 0 ? VectorXd(slope / squares) : VectorXd();
  }

  std::vector<int> Exact(const std::vector<std::string>& names) const {
    std::vector<int> columns;
    for (const std::string& name : names) {
      const auto found = std::find(table_.names.begin(), table_.names.end(), name);
      columns.push_back(found == table_.names.end() ? -1 : static_cast<int>(found - table_.names.begin()));
    }
    return columns;
  }

  // root of the mean square about the mean
  double Spread(int column) {
    used_[static_cast<std::size_t>(column)] = true;
    const VectorXd values = table_.values.col(column);
    // a reference that ends before the motion is held there, which is not what was measured
    if (const Eigen::Index last = values.size() - 1; std::isnan(values[last])) {
      throw Error(ErrorCode::kParse,
                  fmt::format("{}:{}: the cell in column '{}' is empty or nan in the last row: leave out rows of which "
                              "not all was measured",
                              table_.path, table_.line[static_cast<std::size_t>(last)],
                              table_.names[static_cast<std::size_t>(column)]));
    }
    const double spread = std::sqrt((values.array() - values.mean()).square().mean());
    return std::isfinite(spread) ? spread : 0;  // an empty cell is told when the task is read
  }

  const mjModel* m_;
  CsvTable table_;
  std::vector<int> state_;
  std::vector<std::string> units_, tangent_;
  std::vector<bool> used_;
  VectorXd time_;
  std::string part_;
};

// what does not move is measured in its unit
VectorXd Weights(const std::vector<double>& spread) {
  VectorXd weights(static_cast<Eigen::Index>(spread.size()));
  for (Eigen::Index i = 0; i < weights.size(); ++i) {
    const double length = spread[static_cast<std::size_t>(i)];
    weights[i] = length > mjMINVAL ? 1 / (length * length) : 1;
  }
  return weights;
}

void AddRecorded(const std::string& name, const char* measure, const std::string& words, const std::string& file,
                 const std::vector<double>& spread, pugi::xml_node root) {
  if (words.empty()) return;
  pugi::xml_node cost = root.append_child("cost");
  SetAttribute(cost, "name", name);
  SetAttribute(cost, measure, words);
  SetAttribute(cost, "target", "file:" + file);
  SetWeights(cost, "weight", Weights(spread));
}

// what of the start is fitted: recorded positions, whose first row has noise as all others, and all velocities
std::string StartEntries(const mjModel* model, const Recorded& positions) {
  if (positions.words.empty()) return "qvel";
  if (!positions.all) return positions.entries + " qvel";
  return model->na == 0 ? "all" : "qpos qvel";
}

// what is said of the recording
struct FitNotes {
  std::vector<std::string> unused;
  std::string part, gap, wraps, converted, unknown, between;
};

double LossOfGuess(const std::string& text, const std::string& model_path) try {
  const Task task = ParseWrittenTask(text, model_path);
  Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  Trajectory motion;
  return simulator.Rollout(task.x0, task.U_guess, &motion).ok() ? TotalCost(*task.cost, motion, simulator.knot_time())
                                                                : kInf;
} catch (const Error&) {  // told when the task that is taken is read
  return kInf;
}

// @param notes  receives what is said of it
std::string WriteFit(const std::string& model_path, const FitOptions& options, const std::string& folder,
                     FitNotes* notes) {
  Task task;
  task.model_file = model_path;
  task.model = LoadModel(model_path);
  const mjModel* model = task.model.get();
  CheckModel(task, true);
  if (options.parameters.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("say what of {} shall be fitted, such as joint:NAME/damping; it has\n{}{}", model_path,
                            WhatThereIs(model), kFields));
  }
  ParameterSet(model, options.parameters);
  MotionFile motion(model, options.motion);

  // a control interval is a whole number of engine steps, near to a row of the file
  const double timestep = model->opt.timestep;
  task.substeps = std::max(1, static_cast<int>(std::floor(motion.interval() / timestep + kWhole)));
  const double knot = task.substeps * timestep;
  const double knots = std::floor(motion.duration() / knot + kWhole);
  if (knots < 1)
    motion.Fail(fmt::format("lasts {:g} s, less than an engine step of {:g} s", motion.duration(), timestep));

  const Recorded positions = motion.Joints(false), velocities = motion.Joints(true);
  const auto sensors = motion.Sensors();
  const bool has_controls = motion.HasControls();
  if (positions.words.empty() && velocities.words.empty() && sensors.empty())
    motion.Fail(fmt::format("has no position, velocity or sensor of model '{}' to compare: {}", ModelName(model),
                            motion.part().empty() ? "columns such as " + motion.SomeNames() : motion.part()));

  std::string further = kFields;
  notes->unused = motion.Unused();
  notes->part = motion.part();
  notes->gap = motion.Gap();
  notes->wraps = motion.Wraps();
  notes->converted = motion.Converted();
  notes->unknown = motion.UnknownUnits();
  if (!notes->unused.empty()) further += "   not used of the motion: " + JoinWords(notes->unused) + "\n";
  const std::string key = KeyName(options.start);
  const auto text = [&](const std::string& in, const std::string& qvel, int substeps) {
    pugi::xml_document document;
    pugi::xml_node root =
        AddTaskRoot(model, "fit", NamedFrom(in, model_path), knots * knot, substeps, further, &document);
    SetAttribute(root, "scale", "mean");
    const std::string file = NamedFrom(in, options.motion);
    pugi::xml_node start = root.append_child("start");
    if (!key.empty()) SetAttribute(start, "key", key);
    if (!positions.words.empty() || !velocities.words.empty()) {
      SetAttribute(start, "file", file);
      if (!qvel.empty()) SetAttribute(start, "qvel", qvel);
    }
    const std::string controls = options.controls.empty() ? has_controls ? file : "" : NamedFrom(in, options.controls);
    if (!controls.empty()) SetAttribute(root.append_child("guess"), "file", controls);
    pugi::xml_node gradient = root.append_child("gradient");
    SetAttribute(gradient, "controls", "none");
    SetAttribute(gradient, "start", StartEntries(model, positions));
    for (const std::string& name : options.parameters) SetAttribute(gradient.append_child("parameter"), "name", name);
    AddRecorded("positions", "qpos", positions.words, file, positions.spread, root);
    AddRecorded("velocities", "qvel", velocities.words, file, velocities.spread, root);
    for (const auto& [name, spread] : sensors) AddRecorded(name, "sensor", name, file, {spread}, root);
    return TaskText(document);
  };
  const std::string qvel = motion.StartVelocity(MakeStart(model, key));
  const auto loss = [&](const std::string& start, int substeps) {
    return LossOfGuess(text("", start, substeps), model_path);
  };
  double held = loss(qvel, task.substeps);
  std::string start = qvel;
  if (const double rest = loss("", task.substeps);
      !qvel.empty() && velocities.words.empty() && rest < kClearlyLess * held) {
    start.clear();
    held = rest;
  }
  if (task.substeps > 1 && (has_controls || !options.controls.empty())) {
    if (const double led = loss(start, 1); led < kClearlyLess * held)
      notes->between = fmt::format(
          "the controls are held from row to row ({:g} s); led straight between them they leave {:.2g} of the loss at "
          "the guess: write the task with `costate task --fit` and say controlstep=\"1\" there",
          knot, led / held);
  }
  return text(folder, start, task.substeps);
}

}  // namespace

std::string WriteFitTask(const std::string& model_path, const FitOptions& options, const std::string& folder) {
  FitNotes notes;
  return WriteFit(model_path, options, folder, &notes);
}

Task MakeFitTask(const std::string& model_path, const FitOptions& options) {
  FitNotes notes;
  Task task = ParseWrittenTask(WriteFit(model_path, options, "", &notes), model_path);
  for (const std::string& note : {notes.converted, notes.unknown, notes.gap, notes.wraps, notes.between})
    if (!note.empty()) task.warnings.push_back(note);
  if (!notes.unused.empty()) {
    constexpr std::size_t kMost = 8;
    task.warnings.push_back(fmt::format("{}: of its columns nothing takes {}{}", options.motion,
                                        FirstWords(std::move(notes.unused), kMost),
                                        notes.part.empty() ? "" : "; " + notes.part));
  }
  if (task.model->nu > 0 && options.controls.empty() && task.text.find("<guess") == std::string::npos) {
    task.warnings.push_back(options.motion + " has no controls (columns such as " +
                            ControlNames(task.model.get()).front() + "): those that hold the start are taken");
  }
  return task;
}

}  // namespace costate
