// Writes a run: tables first, pictures, then record.json with everybody's hash, then the rename that makes it a run.
#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>

#include "core/compiler.h"
#include "core/option_words.h"
#include "core/plugin_library.h"
#include "rollout/check_trajectory.h"
#include "rollout/csv.h"
#include "rollout/plot.h"
#include "rollout/record_format.h"
#include "rollout/units.h"

namespace costate {
namespace {

constexpr int kMostPoints = 5000;  // of one line in a picture: several a pixel

std::string Now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

[[noreturn]] void WrongSize(const char* what, Eigen::Index size, const std::string& expected) {
  throw Error(ErrorCode::kDimensionMismatch,
              std::string("record: ") + what + " has " + std::to_string(size) + " entries, expected " + expected);
}

// which are pushed at any knot; -0 is another bit
std::vector<int> PushedBodies(const MatrixXd& xfrc) {
  std::vector<int> bodies;
  for (int body = 0; body < static_cast<int>(xfrc.rows()) / 6; ++body) {
    const auto rows = xfrc.middleRows(6 * body, 6).reshaped();
    if (std::any_of(rows.begin(), rows.end(), [](double f) { return f != 0 || std::signbit(f); }))
      bodies.push_back(body);
  }
  return bodies;
}

void WriteBytes(NewFolder* folder, const std::string& name, std::string_view bytes) {
  FileWriter file(folder, name);
  file.Write(bytes);
  file.Close();
}

void WriteTrajectory(const Record& record, const Contents& contents, NewFolder* folder) {
  FileWriter file(folder, kTrajectoryFile);
  CsvWriter csv(&file, TrajectoryHeader(record.model.get(), contents));
  const Trajectory& trajectory = record.trajectory;
  const int N = trajectory.N();
  for (int t = 0; t <= N; ++t) {
    csv.Cell(trajectory.time[t]);
    csv.Cells(trajectory.X.col(t));

    // at the last knot there is no control
    if (t < N) {
      csv.Cells(trajectory.U.col(t));
    } else {
      csv.Empty(static_cast<int>(trajectory.U.rows()));
    }
    csv.Cells(trajectory.S.col(t));
    if (contents.cost) csv.Cell(record.cost_per_knot[t]);
    if (contents.gradient_norm && t < N) csv.Cell(record.gradient_norm_per_knot[t]);
    if (contents.gradient_norm && t == N) csv.Empty();
    if (contents.diagnostics) {
      const KnotDiagnostics& knot = record.diagnostics[static_cast<std::size_t>(t)];
      csv.Cell(knot.energy_potential);
      csv.Cell(knot.energy_kinetic);
      csv.Cell(knot.penetration);
      csv.Cell(knot.constraint_violation);
      csv.Cell(knot.contacts);
      csv.Cell(knot.solver_iterations);
      csv.Cell(knot.saturated_actuators);
    }
    csv.EndRow();
  }
  file.Close();
}

void WriteContexts(const Record& record, NewFolder* folder) {
  FileWriter start(folder, kStartContextFile);
  CsvWriter start_csv(&start, ContextHeader(record.model.get(), kContextSignature));
  start_csv.Cells(record.context);
  start_csv.EndRow();
  start.Close();

  FileWriter knots(folder, kKnotContextFile);
  CsvWriter knots_csv(&knots, ContextHeader(record.model.get(), kMovingSignature));
  for (int t = 0; t <= record.trajectory.N(); ++t) {
    knots_csv.Cells(record.trajectory.context.col(t));
    knots_csv.EndRow();
  }
  knots.Close();
}

// of those bodies that are pushed
void WritePushes(const Record& record, const std::vector<int>& bodies, NewFolder* folder) {
  FileWriter file(folder, kPushesFile);
  CsvWriter csv(&file, PushesHeader(record.model.get(), bodies));
  for (int t = 0; t < record.trajectory.N(); ++t) {
    csv.Cell(t);
    for (int body : bodies) csv.Cells(record.xfrc.col(t).segment(6 * body, 6));
    csv.EndRow();
  }
  file.Close();
}

// one knot a row: k, then K row by row
void WritePolicy(const Record& record, NewFolder* folder) {
  FileWriter file(folder, kPolicyFile);
  CsvWriter csv(&file, PolicyHeader(record.model.get()));
  for (int t = 0; t < record.trajectory.N(); ++t) {
    csv.Cell(t);
    csv.Cells(record.policy.k.col(t));
    const MatrixXd& K = record.policy.K[static_cast<std::size_t>(t)];
    for (Eigen::Index i = 0; i < K.rows(); ++i) {
      for (Eigen::Index j = 0; j < K.cols(); ++j) csv.Cell(K(i, j));
    }
    csv.EndRow();
  }
  file.Close();
}

void WriteIterations(const Record& record, const Contents& contents, NewFolder* folder) {
  FileWriter file(folder, kIterationsFile);
  CsvWriter csv(&file, IterationsHeader(contents));
  for (const IterationRecord& iteration : record.iterations) {
    csv.Cell(iteration.iteration);
    for (double value : {iteration.cost, iteration.expected_change, iteration.actual_change, iteration.gradient_norm,
                         iteration.step, iteration.regularization, iteration.seconds_rollout,
                         iteration.seconds_derivative, iteration.seconds_backward}) {
      csv.Cell(value);
    }
    if (contents.second) {
      csv.Cell(iteration.regularization_by_step);
      csv.Cell(iteration.curvature);
    }
    if (contents.violation) csv.Cell(iteration.violation);
    if (contents.gap) {
      csv.Cell(iteration.gap);
      csv.Cell(iteration.gap_knot);
    }
    csv.EndRow();
  }
  file.Close();
}

std::vector<Plot> Plots(const Record& record, const Contents& contents) {
  const std::vector<std::string> header = TrajectoryHeader(record.model.get(), contents);
  const Dims dims(record.model.get());
  std::vector<Plot> plots;
  auto over_time = [&](const std::string& file, const std::string& title, const std::string& y, int first, int count) {
    Plot plot{.file = file,
              .table = kTrajectoryFile,
              .title = title,
              .x_label = "time (s)",
              .y_label = y,
              .every = 1 + record.trajectory.N() / kMostPoints};
    for (int i = first; i < first + count; ++i) {
      plot.columns.push_back(i);
      plot.labels.push_back(header[static_cast<std::size_t>(i)]);
    }
    if (count > 0) plots.push_back(plot);
  };
  over_time("positions.png", "Positions", "m, rad or quaternion", 1, dims.nq);
  over_time("velocities.png", "Velocities", "m/s or rad/s", 1 + dims.nq, dims.nv);
  if (record.trajectory.N() > 0) over_time("controls.png", "Controls", "ctrl", 1 + dims.nx, dims.nu);
  int next = 1 + dims.nx + dims.nu + dims.ns;
  if (contents.cost) over_time("knot_costs.png", "Cost of each knot", "cost", next++, 1);
  if (contents.gradient_norm) ++next;
  if (contents.diagnostics) {
    over_time("energy.png", "Energy", "J", next, 2);
    over_time("contacts.png", "Penetration and constraint violation", "m or rad", next + 2, 2);
  }

  // a logarithm needs one number that has it
  auto positive = [&](double IterationRecord::*member) {
    return std::any_of(record.iterations.begin(), record.iterations.end(),
                       [&](const IterationRecord& it) { return std::isnormal(it.*member); });
  };
  if (positive(&IterationRecord::cost) && positive(&IterationRecord::gradient_norm)) {
    plots.push_back({.file = "iterations.png",
                     .table = kIterationsFile,
                     .title = "Optimization",
                     .x_label = "iteration",
                     .y_label = "absolute value",
                     .columns = {1, 4},
                     .labels = {"cost", "gradient norm"},
                     .logarithmic = true});
  }
  return plots;
}

Json Array(ConstVectorRef values) {
  Json array = Json::array();
  for (Eigen::Index i = 0; i < values.size(); ++i) array.push_back(values[i]);
  return array;
}

// names of the set bits of the engine's flags
Json Flags(int flags, const char* const* names, int count) {
  Json array = Json::array();
  for (int i = 0; i < count; ++i) {
    if (flags & (1 << i)) array.push_back(names[i]);
  }
  return array;
}

Json ModelJson(const Record& record) {
  const mjModel* m = record.model.get();
  return {{"name", ModelName(m)},
          {"file", kModelFile},
          {"sha256", record.model_sha256},
          {"nq", m->nq},
          {"nv", m->nv},
          {"na", m->na},
          {"nu", m->nu},
          {"nbody", m->nbody},
          {"ngeom", m->ngeom},
          {"nsensordata", m->nsensordata},
          {"plugins", PluginNames(m)},
          {"total_mass_kg", mj_getTotalmass(m)}};
}

Json EngineJson(const mjModel* m) {
  constexpr const char* kJacobians[] = {"dense", "sparse", "auto"};
  const mjOption& o = m->opt;
  return {{"integrator", kIntegratorWords[o.integrator]},
          {"solver", kSolverWords[o.solver]},
          {"cone", kConeWords[o.cone]},
          {"jacobian", kJacobians[o.jacobian]},
          {"timestep_s", o.timestep},
          {"iterations", o.iterations},
          {"tolerance", o.tolerance},
          {"ls_iterations", o.ls_iterations},
          {"ls_tolerance", o.ls_tolerance},
          {"noslip_iterations", o.noslip_iterations},
          {"noslip_tolerance", o.noslip_tolerance},
          {"ccd_iterations", o.ccd_iterations},
          {"ccd_tolerance", o.ccd_tolerance},
          {"impratio", o.impratio},
          {"gravity_m_per_s2", {o.gravity[0], o.gravity[1], o.gravity[2]}},
          {"wind_m_per_s", {o.wind[0], o.wind[1], o.wind[2]}},
          {"density_kg_per_m3", o.density},
          {"viscosity_Pa_s", o.viscosity},
          {"disabled", Flags(o.disableflags, mjDISABLESTRING, mjNDISABLE)},
          {"enabled", Flags(o.enableflags, mjENABLESTRING, mjNENABLE)}};
}

Json SoftwareJson() {
  utsname system{};
  uname(&system);
  return {{"costate", COSTATE_VERSION},
          {"mujoco", mj_versionString()},
          {"compiler", kCompiler},
          {"system", std::string(system.sysname) + " " + system.release + " " + system.machine}};
}

Json DiagnosticsJson(const Record& record) {
  double penetration = 0, violation = 0;
  int iterations = 0, contacts = 0, saturated = 0;
  for (const KnotDiagnostics& knot : record.diagnostics) {
    penetration = std::max(penetration, knot.penetration);
    violation = std::max(violation, knot.constraint_violation);
    iterations = std::max(iterations, knot.solver_iterations);
    contacts = std::max(contacts, knot.contacts);
    saturated += knot.saturated_actuators > 0;
  }
  auto energy = [](const KnotDiagnostics& knot) { return knot.energy_potential + knot.energy_kinetic; };
  return {{"energy_at_start_J", energy(record.diagnostics.front())},
          {"energy_at_end_J", energy(record.diagnostics.back())},
          {"largest_penetration_m", penetration},
          {"largest_constraint_violation_m_or_rad", violation},
          {"most_contacts", contacts},
          {"most_solver_iterations", iterations},
          {"knots_with_saturated_actuators", saturated}};
}

Json FilesJson(const std::vector<WrittenFile>& files) {
  Json array = Json::array();
  for (const WrittenFile& file : files)
    array.push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  return array;
}

Json ResultJson(const Record& record, const Contents& contents) {
  Json terms = Json::array();
  for (const CostTermValue& term : record.cost_terms) terms.push_back({{"name", term.name}, {"value", term.value}});
  Json constraints = Json::array();
  for (const ConstraintReport& c : record.constraints) {
    constraints.push_back({{"name", c.name},
                           {"unit", c.unit},
                           {"violation", c.violation},
                           {"relative", c.relative},
                           {"knot", c.knot},
                           {"component", c.component},
                           {"value", c.value},
                           {"lower", c.lower},
                           {"upper", c.upper},
                           {"multiplier", c.multiplier},
                           {"penalty", c.penalty},
                           {"active", c.active}});
  }
  return {{"status", record.status},
          {"message", record.message},
          {"constraints", constraints},
          {"cost", contents.cost ? Json(record.cost_per_knot.sum()) : Json()},
          {"gradient_norm", contents.iterations ? Json(record.iterations.back().gradient_norm) : Json()},
          {"gap", contents.gap
                      ? Json{{"largest", record.iterations.back().gap}, {"knot", record.iterations.back().gap_knot}}
                      : Json()},
          {"cost_terms", terms},
          {"metric", record.metric},
          {"iterations", record.iterations.size()}};
}

Json RecordJson(const Record& record, const Contents& contents, const std::vector<WrittenFile>& files) {
  const int N = record.trajectory.N();
  const double timestep = record.model->opt.timestep;
  const bool some = contents.pushes && std::ssize(contents.pushed) < record.model->nbody;
  Json json = {
      {"format", kFormat}, {"schema", some ? kSchema : 1}, {"created", record.created}, {"command", record.command}};
  json["inputs"] = {{"model_file", record.model_file}, {"task_file", record.task_file}};
  json["result"] = ResultJson(record, contents);
  json["failures"] = record.failures;
  json["warnings"] = record.warnings;
  json["horizon"] = {{"N", N},
                     {"substeps", record.substeps},
                     {"timestep_s", timestep},
                     {"knot_time_s", record.knot_time()},
                     {"duration_s", N * record.substeps * timestep}};
  json["seed"] = record.seed;
  json["settings"] = record.settings;
  json["model"] = ModelJson(record);
  json["engine"] = EngineJson(record.model.get());
  json["diagnostics"] = contents.diagnostics ? DiagnosticsJson(record) : Json();
  json["latency_budget_s"] = record.latency_budget;  // NaN is written as null
  json["latency_used_s"] = record.latency_used;
  json["units"] = {{"length", "m"},
                   {"mass", "kg"},
                   {"time", "s"},
                   {"angle", "rad"},
                   {"force", "N"},
                   {"torque", "N m"},
                   {"energy", "J"},
                   {"ctrl", "as each actuator defines it"},
                   {"act", "as each actuator defines it"}};
  json["frames"] = {
      {"qpos",
       "free joints: position and unit quaternion (w x y z) in the world frame; others relative to "
       "the parent body"},
      {"qvel", "free joints: linear in the world frame, angular in the body frame; ball joints: body frame"},
      {"tangent", "qpos tangent, qvel, act; rotations as in qvel"},
      {"sensors", "as MuJoCo defines each sensor type"}};
  json["initial_state"] = Array(record.trajectory.X.col(0));
  json["goal_state"] = record.x_goal.size() > 0 ? Array(record.x_goal) : Json();
  json["goal_places"] = Json::array();
  for (const GoalPlace& goal : record.goal_places)
    json["goal_places"].push_back(
        {{"sensor", goal.sensor}, {"place", Array(Eigen::Map<const VectorXd>(goal.place, 3))}});
  json["contents"] = {{"task", contents.task},
                      {"cost", contents.cost},
                      {"gradient_norm", contents.gradient_norm},
                      {"diagnostics", contents.diagnostics},
                      {"policy", contents.policy},
                      {"iterations", contents.iterations},
                      {"violation", contents.violation},
                      {"gap", contents.gap},
                      {"pushes", contents.pushes},
                      {"pushed_bodies", contents.pushed},
                      {"second_regularization", contents.second}};
  json["software"] = SoftwareJson();
  json["files"] = FilesJson(files);
  json["checksum"] = Checksum(json);
  return json;
}

}  // namespace

Contents CheckRecord(const Record& record) {
  if (!record.model) throw Error(ErrorCode::kInvalidArgument, "record: it has no model");
  CheckTrajectory(record.model.get(), record.trajectory);
  if (record.substeps < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("record: substeps is {}, at least 1 is needed", record.substeps));
  }
  const Dims dims(record.model.get());
  const int N = record.trajectory.N();
  const int context = mj_stateSize(record.model.get(), kContextSignature);
  if (record.context.size() != context) WrongSize("context", record.context.size(), std::to_string(context));
  auto optional = [](const char* what, Eigen::Index size, Eigen::Index expected) {
    if (size != 0 && size != expected) WrongSize(what, size, "0 or " + std::to_string(expected));
    return size != 0;
  };
  Contents contents;
  optional("x_goal", record.x_goal.size(), dims.nx);
  for (const GoalPlace& goal : record.goal_places) {
    if (goal.sensor < 0 || goal.sensor > dims.ns - 3) {
      throw Error(ErrorCode::kDimensionMismatch,
                  fmt::format("record: a goal's place is compared with sensordata from {} on, which has {} entries",
                              goal.sensor, dims.ns));
    }
  }
  contents.task = !record.task_text.empty();
  contents.cost = optional("cost_per_knot", record.cost_per_knot.size(), N + 1);
  contents.gradient_norm = optional("gradient_norm_per_knot", record.gradient_norm_per_knot.size(), N);
  contents.diagnostics = optional("diagnostics", static_cast<Eigen::Index>(record.diagnostics.size()), N + 1);
  contents.policy = optional("policy.K", static_cast<Eigen::Index>(record.policy.K.size()), N);
  contents.pushes = optional("xfrc", record.xfrc.size(), 6 * static_cast<Eigen::Index>(record.model->nbody) * N);
  contents.pushed = PushedBodies(record.xfrc);
  contents.iterations = !record.iterations.empty();
  contents.violation = contents.iterations && !record.constraints.empty();
  contents.gap = std::any_of(record.iterations.begin(), record.iterations.end(),
                             [](const IterationRecord& it) { return it.gap_knot >= 0; });
  contents.second = std::any_of(record.iterations.begin(), record.iterations.end(),
                                [](const IterationRecord& it) { return it.regularization_by_step >= 0; });
  if (contents.policy && (record.policy.k.rows() != dims.nu || record.policy.k.cols() != N)) {
    WrongSize("policy.k", record.policy.k.size(), "nu * N = " + std::to_string(static_cast<Eigen::Index>(dims.nu) * N));
  }
  for (const auto& [name, bytes] : record.tables) {
    if (IsOwnFile(name) || name.empty() || name[0] == '.' || name.find('/') != name.npos) {
      throw Error(ErrorCode::kInvalidArgument, "record: '" + name + "' cannot be the name of a further table");
    }
  }
  for (const MatrixXd& K : record.policy.K) {
    if (K.rows() != dims.nu || K.cols() != dims.ndx)
      WrongSize("a gain K", K.size(), "nu * ndx = " + std::to_string(dims.nu * dims.ndx));
  }
  return contents;
}

void WriteRecord(const std::string& folder, Record& record, const WriteRecordOptions& options) {
  const Contents contents = CheckRecord(record);
  NewFolder run(folder, options.force);

  // what the run consists of
  const std::vector<unsigned char> model = SerializeModel(record.model.get());
  WriteBytes(&run, kModelFile, {reinterpret_cast<const char*>(model.data()), model.size()});
  record.model_sha256 = run.files().back().sha256;
  if (contents.task) WriteBytes(&run, kTaskFile, record.task_text);
  WriteTrajectory(record, contents, &run);
  WriteContexts(record, &run);
  if (contents.pushes) WritePushes(record, contents.pushed, &run);
  if (contents.policy) WritePolicy(record, &run);
  if (contents.iterations) WriteIterations(record, contents, &run);
  for (const auto& [name, bytes] : record.tables) WriteBytes(&run, name, bytes);
  const std::vector<WrittenFile> files = run.files();

  // pictures: may be missing, may be deleted, hence without a hash
  if (options.plots) {
    WriteBytes(&run, kPlotFile, PlotScript(Plots(record, contents)));
    const std::string why = RunGnuplot(run.path(), kPlotFile);
    if (!why.empty()) record.warnings.push_back("plots are missing: " + why);
  }

  // the record last
  record.created = Now();
  WriteBytes(&run, kRecordFile, ToText(RecordJson(record, contents, files), 2) + "\n");
  run.Publish();
}

}  // namespace costate
