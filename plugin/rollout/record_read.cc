// Reads a run: is it one, is it ours to read, is it whole, then its parts.
#include <fmt/format.h>
#include <mujoco/mujoco.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/extremes.h"
#include "core/model.h"
#include "core/read_file.h"
#include "rollout/csv.h"
#include "rollout/record_format.h"

namespace costate {
namespace {

namespace fs = std::filesystem;

class RunReader {
 public:
  explicit RunReader(const std::string& folder) : folder_(folder), what_("run '" + folder + "': ") {}

  Record Read();

 private:
  [[noreturn]] void Damaged(const std::string& what) const { throw Error(ErrorCode::kFile, what_ + what); }
  void ReadJson();
  void CheckVersions() const;
  std::string ReadFile(const std::string& name) const;  // after comparing size and hash
  MatrixXd ReadTable(const std::string& name, const std::vector<std::string>& header, Eigen::Index rows) const;
  void ReadDescription(Record* record) const;
  void ReadTrajectory(Record* record) const;
  void ReadPushes(Record* record) const;
  void ReadPolicy(Record* record) const;
  void ReadIterations(Record* record) const;
  void ReadFurtherTables(Record* record) const;

  fs::path folder_;
  std::string what_;
  Json json_;
  Contents contents_;
  bool some_pushed_ = false;  // a run written before this list has columns of all bodies
  int N_ = 0;
};

// JSON has no NaN and no infinity: they are written as null
double Number(const Json& json) { return json.is_null() ? kNan : json.get<double>(); }

void RunReader::ReadJson() {
  std::error_code ignored;
  if (!fs::exists(folder_, ignored)) Damaged("there is no such folder");
  if (!fs::is_directory(folder_, ignored)) Damaged("it is not a folder");
  if (!fs::exists(folder_ / kRecordFile, ignored)) Damaged("it is not a run, it has no record.json");
  const std::string text = costate::ReadFile(folder_ / kRecordFile, what_ + kRecordFile);
  json_ = Json::parse(text, nullptr, false);
  if (json_.is_discarded()) Damaged("record.json is cut off or is not JSON");
  if (!json_.is_object() || json_.value("format", Json()) != Json(kFormat)) {
    Damaged("record.json is not the record of a run (its format is not \"costate run\")");
  }
}

void RunReader::CheckVersions() const {
  // an older program cannot judge anything else of a newer run, not even its checksum
  const int schema = json_.at("schema").get<int>();
  const Json& software = json_.at("software");
  if (schema > kSchema) {
    Damaged(fmt::format("it has schema {}, written by Costate {}; this is Costate {}, which reads up to schema {}",
                        schema, software.value("costate", "?"), COSTATE_VERSION, kSchema));
  }
  if (json_.at("checksum").get<std::string>() != Checksum(json_))
    Damaged("record.json was changed after it was written");
  const std::string mujoco = software.at("mujoco").get<std::string>();
  if (mujoco != mj_versionString()) {
    throw Error(ErrorCode::kUnsupported, what_ + "it was made with MuJoCo " + mujoco + ", this is MuJoCo " +
                                             mj_versionString() + ", whose compiled models and numbers differ");
  }
}

std::string RunReader::ReadFile(const std::string& name) const {
  for (const Json& file : json_.at("files")) {
    if (file.at("name").get<std::string>() != name) continue;
    std::string bytes = costate::ReadFile(folder_ / name, what_ + name);
    const std::size_t expected = file.at("bytes").get<std::size_t>();
    if (bytes.size() < expected) Damaged(fmt::format("{} is cut off: {} of {} bytes", name, bytes.size(), expected));
    if (bytes.size() > expected || Sha256Of(bytes) != file.at("sha256").get<std::string>()) {
      Damaged(name + " was changed after it was written (its SHA-256 is another)");
    }
    return bytes;
  }
  Damaged("record.json does not list " + name);
}

MatrixXd RunReader::ReadTable(const std::string& name, const std::vector<std::string>& header,
                              Eigen::Index rows) const {
  MatrixXd table = ReadCsv(what_ + name, ReadFile(name), header);
  if (table.rows() != rows) Damaged(fmt::format("{} has {} rows, expected {}", name, table.rows(), rows));
  return table;
}

void RunReader::ReadDescription(Record* record) const {
  record->command = json_.at("command");
  record->created = json_.at("created");
  record->model_file = json_.at("inputs").at("model_file");
  record->task_file = json_.at("inputs").at("task_file");
  record->substeps = json_.at("horizon").at("substeps");
  record->seed = json_.at("seed");
  record->latency_budget = Number(json_.at("latency_budget_s"));
  record->latency_used = Number(json_.at("latency_used_s"));
  record->model_sha256 = json_.at("model").at("sha256");
  record->failures = json_.at("failures").get<std::vector<std::string>>();
  record->warnings = json_.at("warnings").get<std::vector<std::string>>();
  record->settings = json_.at("settings").get<std::map<std::string, std::string>>();
  const Json& result = json_.at("result");
  record->status = result.at("status");
  record->message = result.at("message");
  record->metric = result.at("metric");
  for (const Json& term : result.at("cost_terms"))
    record->cost_terms.push_back({term.at("name"), Number(term.at("value"))});
  for (const Json& c : result.value("constraints", Json::array())) {
    // a bound that is infinite is written as null
    ConstraintReport report;
    report.name = c.at("name");
    report.unit = c.at("unit");
    report.violation = Number(c.at("violation"));
    report.relative = Number(c.at("relative"));
    report.knot = c.at("knot");
    report.component = c.at("component");
    report.value = Number(c.at("value"));
    report.lower = c.at("lower").is_null() ? -kInf : c.at("lower").get<double>();
    report.upper = c.at("upper").is_null() ? kInf : c.at("upper").get<double>();
    report.multiplier = Number(c.at("multiplier"));
    report.penalty = Number(c.at("penalty"));
    report.active = c.at("active");
    record->constraints.push_back(std::move(report));
  }
  for (const Json& goal : json_.value("goal_places", Json::array())) {
    GoalPlace place{goal.at("sensor"), {}};
    for (std::size_t i = 0; i < 3; ++i) place.place[i] = Number(goal.at("place").at(i));
    record->goal_places.push_back(place);
  }
  const Json& goal = json_.at("goal_state");
  if (!goal.is_null()) {
    record->x_goal.resize(static_cast<Eigen::Index>(goal.size()));
    for (std::size_t i = 0; i < goal.size(); ++i) record->x_goal[static_cast<Eigen::Index>(i)] = Number(goal[i]);
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
    const auto cell = table.row(t).tail(7);
    record->diagnostics.push_back({cell[0], cell[1], cell[2], cell[3], static_cast<int>(cell[4]),
                                   static_cast<int>(cell[5]), static_cast<int>(cell[6])});
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
  const MatrixXd table =
      ReadTable(kIterationsFile, IterationsHeader(contents_), json_.at("result").at("iterations").get<int>());
  for (Eigen::Index i = 0; i < table.rows(); ++i) {
    IterationRecord it;
    it.iteration = static_cast<int>(table(i, 0));
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
      it.gap_knot = static_cast<int>(table(i, column));
    }
    record->iterations.push_back(it);
  }
}

// listed, and none of those above
void RunReader::ReadFurtherTables(Record* record) const {
  for (const Json& file : json_.at("files")) {
    const std::string name = file.at("name").get<std::string>();
    if (!IsOwnFile(name)) record->tables[name] = ReadFile(name);
  }
}

Record RunReader::Read() {
  Record record;
  std::optional<std::vector<std::string>> plugins;  // a run written before this list has none
  try {
    ReadJson();
    CheckVersions();
    const Json& contents = json_.at("contents");
    contents_ = {contents.at("task"),
                 contents.at("cost"),
                 contents.at("gradient_norm"),
                 contents.at("diagnostics"),
                 contents.at("policy"),
                 contents.at("iterations"),
                 contents.value("violation", false),
                 contents.value("gap", false),
                 contents.value("pushes", false),
                 contents.value("pushed_bodies", std::vector<int>()),
                 contents.value("second_regularization", false)};
    some_pushed_ = contents.contains("pushed_bodies");
    N_ = json_.at("horizon").at("N");
    if (N_ < 0) Damaged("record.json: the horizon is negative");
    ReadDescription(&record);
    if (const Json& model = json_.at("model"); model.contains("plugins"))
      plugins = model.at("plugins").get<std::vector<std::string>>();
  } catch (const Json::exception& error) {
    Damaged(std::string("record.json is damaged: ") + error.what());
  }
  const std::string model = ReadFile(kModelFile);
  record.model = plugins ? DeserializeModel({model.begin(), model.end()}, *plugins)
                         : DeserializeModel({model.begin(), model.end()});
  if (contents_.task) record.task_text = ReadFile(kTaskFile);
  ReadTrajectory(&record);
  if (contents_.pushes) ReadPushes(&record);
  if (contents_.policy) ReadPolicy(&record);
  if (contents_.iterations) ReadIterations(&record);
  ReadFurtherTables(&record);
  return record;
}

}  // namespace

Record ReadRecord(const std::string& folder) { return RunReader(folder).Read(); }

}  // namespace costate
