// Reads a run: is it one, is it ours to read, is it whole, then its parts.
#include <fmt/format.h>
#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "core/extremes.h"
#include "core/model.h"
#include "core/read_file.h"
#include "rollout/csv.h"
#include "rollout/json_member.h"
#include "rollout/record_format.h"

namespace costate {
namespace {

namespace fs = std::filesystem;

// by name, as record.json lists them
struct ListedFile {
  std::size_t bytes;
  std::string sha256;
};

class RunReader {
 public:
  explicit RunReader(const std::string& folder) : folder_(folder), what_("run '" + folder + "': ") {}

  Record Read();

 private:
  [[noreturn]] void Damaged(const std::string& what) const { throw Error(ErrorCode::kFile, what_ + what); }
  JsonMember Root() const { return {json_, ""}; }
  void ReadJson();
  void CheckVersions() const;
  void ReadContents();
  std::string ReadFile(const std::string& name) const;  // after comparing size and hash
  MatrixXd ReadTable(const std::string& name, const std::vector<std::string>& header, Eigen::Index rows) const;
  int Whole(const char* name, const MatrixXd& table, Eigen::Index row, Eigen::Index column) const;
  void ReadDescription(Record* record) const;
  void ReadConstraints(const JsonMember& list, Record* record) const;
  void ReadTrajectory(Record* record) const;
  void ReadPushes(Record* record) const;
  void ReadPolicy(Record* record) const;
  void ReadIterations(Record* record) const;
  void ReadFurtherTables(Record* record) const;

  fs::path folder_;
  std::string what_;
  Json json_;
  std::map<std::string, ListedFile> files_;
  Contents contents_;
  bool some_pushed_ = false;  // a run written before this list has columns of all bodies
  int N_ = 0, iterations_ = 0;
};

void RunReader::ReadJson() {
  std::error_code ignored;
  if (!fs::exists(folder_, ignored)) Damaged("there is no such folder");
  if (!fs::is_directory(folder_, ignored)) Damaged("it is not a folder");
  if (!fs::exists(folder_ / kRecordFile, ignored)) Damaged("it is not a run, it has no record.json");
  const std::string text = costate::ReadFile(folder_ / kRecordFile, what_ + kRecordFile);
  json_ = ParseJson(text, what_ + kRecordFile);
  if (!json_.is_object() || json_.value("format", Json()) != Json(kFormat)) {
    Damaged("record.json is not the record of a run (its format is not \"costate run\")");
  }
}

void RunReader::CheckVersions() const {
  // an older program cannot judge anything else of a newer run, not even its checksum
  const int schema = Root().At("schema").Whole(0);
  const JsonMember software = Root().At("software");
  if (schema > kSchema) {
    Damaged(fmt::format("it has schema {}, written by Costate {}; this is Costate {}, which reads up to schema {}",
                        schema, software.Has("costate") ? software.At("costate").Text() : "?", COSTATE_VERSION,
                        kSchema));
  }
  if (Root().At("checksum").Text() != Checksum(json_)) Damaged("record.json was changed after it was written");
  const std::string mujoco = software.At("mujoco").Text();
  if (mujoco != mj_versionString()) {
    throw Error(ErrorCode::kUnsupported, what_ + "it was made with MuJoCo " + mujoco + ", this is MuJoCo " +
                                             mj_versionString() + ", whose compiled models and numbers differ");
  }
}

// which parts there are, and how long
void RunReader::ReadContents() {
  const JsonMember contents = Root().At("contents");
  const auto later = [&](const char* name) { return contents.Has(name) && contents.At(name).Flag(); };
  contents_ = {.task = contents.At("task").Flag(),
               .cost = contents.At("cost").Flag(),
               .gradient_norm = contents.At("gradient_norm").Flag(),
               .diagnostics = contents.At("diagnostics").Flag(),
               .policy = contents.At("policy").Flag(),
               .iterations = contents.At("iterations").Flag(),
               .violation = later("violation"),
               .gap = later("gap"),
               .pushes = later("pushes"),
               .second = later("second_regularization")};
  some_pushed_ = contents.Has("pushed_bodies");
  if (some_pushed_) {
    for (const JsonMember& body : contents.At("pushed_bodies").List()) contents_.pushed.push_back(body.Whole(0));
  }
  const JsonMember horizon = Root().At("horizon");
  if (!(horizon.At("timestep_s").Real() > 0)) horizon.At("timestep_s").Expected("a number above 0");
  N_ = horizon.At("N").Whole(0, std::numeric_limits<int>::max() - 1);  // there are N + 1 states
  iterations_ = Root().At("result").At("iterations").Whole(0);
  for (const JsonMember& file : Root().At("files").List()) {
    const std::string name = file.At("name").Text();
    if (name.empty() || name[0] == '.' || name.find('/') != name.npos) file.At("name").Expected("a file of the folder");
    files_[name] = {file.At("bytes").Whole<std::size_t>(0), file.At("sha256").Text()};
  }
}

std::string RunReader::ReadFile(const std::string& name) const {
  const auto file = files_.find(name);
  if (file == files_.end()) Damaged("record.json does not list " + name);
  std::string bytes = costate::ReadFile(folder_ / name, what_ + name);
  const std::size_t expected = file->second.bytes;
  if (bytes.size() < expected) Damaged(fmt::format("{} is cut off: {} of {} bytes", name, bytes.size(), expected));
  if (bytes.size() > expected || Sha256Of(bytes) != file->second.sha256)
    Damaged(name + " was changed after it was written (its SHA-256 is another)");
  return bytes;
}

MatrixXd RunReader::ReadTable(const std::string& name, const std::vector<std::string>& header,
                              Eigen::Index rows) const {
  MatrixXd table = ReadCsv(what_ + name, ReadFile(name), header);
  if (table.rows() != rows) Damaged(fmt::format("{} has {} rows, expected {}", name, table.rows(), rows));
  return table;
}

// a count or a number of a knot, among a table's real numbers
int RunReader::Whole(const char* name, const MatrixXd& table, Eigen::Index row, Eigen::Index column) const {
  constexpr int kLeast = std::numeric_limits<int>::min(), kMost = std::numeric_limits<int>::max();
  const double value = table(row, column);
  if (!(value >= kLeast && value <= kMost) || value != std::floor(value))
    Damaged(fmt::format("{}: entry {} of row {} is {:g}, expected a whole number", name, column + 1, row + 1, value));
  return static_cast<int>(value);
}

void RunReader::ReadDescription(Record* record) const {
  const JsonMember root = Root();
  record->command = root.At("command").Text();
  record->created = root.At("created").Text();
  record->model_file = root.At("inputs").At("model_file").Text();
  record->task_file = root.At("inputs").At("task_file").Text();
  record->substeps = root.At("horizon").At("substeps").Whole(1);
  record->seed = root.At("seed").Whole<unsigned>(0);
  record->latency_budget = root.At("latency_budget_s").RealOr(kNan);
  record->latency_used = root.At("latency_used_s").RealOr(kNan);
  record->model_sha256 = root.At("model").At("sha256").Text();
  record->failures = root.At("failures").Texts();
  record->warnings = root.At("warnings").Texts();
  record->settings = root.At("settings").TextsByName();
  const JsonMember result = root.At("result");
  record->status = result.At("status").Text();
  record->message = result.At("message").Text();
  record->metric = result.At("metric").Text();
  for (const JsonMember& term : result.At("cost_terms").List())
    record->cost_terms.push_back({term.At("name").Text(), term.At("value").RealOr(kNan)});
  if (result.Has("constraints")) ReadConstraints(result.At("constraints"), record);
  if (root.Has("goal_places")) {
    for (const JsonMember& goal : root.At("goal_places").List()) {
      GoalPlace place{goal.At("sensor").Whole(0), {}};
      const VectorXd numbers = goal.At("place").RealsOr(kNan);
      if (numbers.size() != std::ssize(place.place)) goal.At("place").Expected("three numbers");
      std::copy(numbers.begin(), numbers.end(), place.place);
      record->goal_places.push_back(place);
    }
  }
  if (const JsonMember goal = root.At("goal_state"); !goal.is_null()) record->x_goal = goal.RealsOr(kNan);
}

void RunReader::ReadConstraints(const JsonMember& list, Record* record) const {
  for (const JsonMember& c : list.List()) {
    ConstraintReport report;
    report.name = c.At("name").Text();
    report.unit = c.At("unit").Text();
    report.violation = c.At("violation").RealOr(kNan);
    report.relative = c.At("relative").RealOr(kNan);
    report.knot = c.At("knot").Whole(-1);
    report.component = c.At("component").Text();
    report.value = c.At("value").RealOr(kNan);
    report.lower = c.At("lower").RealOr(-kInf);
    report.upper = c.At("upper").RealOr(kInf);
    report.multiplier = c.At("multiplier").RealOr(kNan);
    report.penalty = c.At("penalty").RealOr(kNan);
    report.active = c.At("active").Whole(0);
    record->constraints.push_back(std::move(report));
  }
}

void RunReader::ReadTrajectory(Record* record) const {
  const mjModel* model = record->model.get();
  const Dims dims(model);
  Trajectory& trajectory = record->trajectory;
  const MatrixXd table = ReadTable(kTrajectoryFile, TrajectoryHeader(model, contents_), N_ + 1);
  trajectory.time = table.col(0);
  trajectory.X = table.middleCols(1, dims.nx).transpose();
  trajectory.U = table.block(0, 1 + dims.nx, N_, dims.nu).transpose();
  trajectory.S = table.middleCols(1 + dims.nx + dims.nu, dims.ns).transpose();
  trajectory.context = ReadTable(kKnotContextFile, ContextHeader(model, kMovingSignature), N_ + 1).transpose();
  record->context = ReadTable(kStartContextFile, ContextHeader(model, kContextSignature), 1).row(0).transpose();

  int next = 1 + dims.nx + dims.nu + dims.ns;
  if (contents_.cost) record->cost_per_knot = table.col(next++);
  if (contents_.gradient_norm) record->gradient_norm_per_knot = table.col(next++).head(N_);
  if (!contents_.diagnostics) return;
  for (int t = 0; t <= N_; ++t) {
    const auto cell = table.row(t).segment(next, 4);
    const auto count = [&](int i) { return Whole(kTrajectoryFile, table, t, next + 4 + i); };
    record->diagnostics.push_back({cell[0], cell[1], cell[2], cell[3], count(0), count(1), count(2)});
  }
}

void RunReader::ReadPushes(Record* record) const {
  const int nbody = static_cast<int>(record->model->nbody);
  std::vector<int> bodies = contents_.pushed;
  if (!some_pushed_) {
    bodies.resize(static_cast<std::size_t>(nbody));
    std::iota(bodies.begin(), bodies.end(), 0);
  }
  for (int body : bodies) {
    if (body < 0 || body >= nbody)
      Damaged(fmt::format("record.json: body {} is pushed, the model has {}", body, nbody));
  }
  const MatrixXd table = ReadTable(kPushesFile, PushesHeader(record->model.get(), bodies), N_);
  record->xfrc.setZero(6 * nbody, N_);
  for (std::size_t i = 0; i < bodies.size(); ++i)
    record->xfrc.middleRows(6 * bodies[i], 6) = table.middleCols(1 + 6 * static_cast<Eigen::Index>(i), 6).transpose();
}

void RunReader::ReadPolicy(Record* record) const {
  const Dims dims(record->model.get());
  const MatrixXd table = ReadTable(kPolicyFile, PolicyHeader(record->model.get()), N_);
  record->policy.k = table.middleCols(1, dims.nu).transpose();
  for (int t = 0; t < N_; ++t) {
    MatrixXd K(dims.nu, dims.ndx);
    for (int i = 0; i < dims.nu; ++i) K.row(i) = table.row(t).segment(1 + dims.nu + i * dims.ndx, dims.ndx);
    record->policy.K.push_back(std::move(K));
  }
}

void RunReader::ReadIterations(Record* record) const {
  const MatrixXd table = ReadTable(kIterationsFile, IterationsHeader(contents_), iterations_);
  for (Eigen::Index i = 0; i < table.rows(); ++i) {
    IterationRecord it;
    it.iteration = Whole(kIterationsFile, table, i, 0);
    int column = 1;
    for (double* value : {&it.cost, &it.expected_change, &it.actual_change, &it.gradient_norm, &it.step,
                          &it.regularization, &it.seconds_rollout, &it.seconds_derivative, &it.seconds_backward}) {
      *value = table(i, column++);
    }
    if (contents_.second) {
      it.regularization_by_step = table(i, column++);
      it.curvature = table(i, column++);
    }
    if (contents_.violation) it.violation = table(i, column++);
    if (contents_.gap) {
      it.gap = table(i, column++);
      it.gap_knot = Whole(kIterationsFile, table, i, column);
    }
    record->iterations.push_back(it);
  }
}

// listed, and none of those above
void RunReader::ReadFurtherTables(Record* record) const {
  for (const auto& [name, file] : files_) {
    if (!IsOwnFile(name)) record->tables[name] = ReadFile(name);
  }
}

Record RunReader::Read() {
  Record record;
  std::optional<std::vector<std::string>> plugins;  // a run written before this list has none
  try {
    ReadJson();
    CheckVersions();
    ReadContents();
    ReadDescription(&record);
    if (const JsonMember model = Root().At("model"); model.Has("plugins")) plugins = model.At("plugins").Texts();
  } catch (const BadJsonMember& member) {
    Damaged("record.json is damaged: " + member.text);
  } catch (const Json::exception& error) {
    Damaged(std::string("record.json is damaged: ") + error.what());
  }
  const std::string model = ReadFile(kModelFile);
  try {
    record.model = plugins ? DeserializeModel({model.begin(), model.end()}, *plugins)
                           : DeserializeModel({model.begin(), model.end()});
  } catch (const Error& error) {
    throw Error(error.code(), what_ + kModelFile + ": " + error.what());
  }
  if (contents_.task) record.task_text = ReadFile(kTaskFile);
  ReadTrajectory(&record);
  if (contents_.pushes) ReadPushes(&record);
  if (contents_.policy) ReadPolicy(&record);
  if (contents_.iterations) ReadIterations(&record);
  ReadFurtherTables(&record);

  // what a run that can be written relies on, so does whoever reads one
  try {
    CheckRecord(record);
  } catch (const Error& error) {
    Damaged(error.what());
  }
  return record;
}

}  // namespace

Record ReadRecord(const std::string& folder) { return RunReader(folder).Read(); }

}  // namespace costate
