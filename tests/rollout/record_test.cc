// The saved run: what is written comes back bit for bit, replays bit for bit, and no damage goes unnoticed.
#include <costate/record.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <tuple>

#include "rollout/models.h"
#include "rollout/record_format.h"
#include "rollout/sha256.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

namespace fs = std::filesystem;
using support::ReadFile;
using RecordTest = support::EngineTest;
using ReplayTest = support::EngineTest;
using LabelFailuresTest = support::EngineTest;

constexpr WriteRecordOptions kNoPlots{.force = false, .plots = false};

// a run with every part, numbers that need all their digits, names that need quotes
Record MakeRecord(const NamedModel& named, int N = 30) {
  Record record;
  record.model = LoadModelFromString(named.xml);
  const mjModel* model = record.model.get();
  DataPtr start = StartData(model);
  record.command = "rollout";
  record.model_file = "robots/\"odd\", name.xml";
  record.task_text = "<task model='x'>\n  <!-- kept as it was -->\n</task>\n";
  record.context = GetContext(model, start.get());
  record.x_goal = GetState(model, start.get()) * (1.0 / 3);
  record.substeps = 2;
  record.seed = 7;
  Simulator simulator(model, record.context, 2, 1);
  record.xfrc = 1e-3 * MatrixXd::Random(6 * model->nbody, N);
  record.latency_budget = 0.01;
  record.latency_used = 1.0 / 300;
  const VectorXd x0 = GetState(model, start.get());
  EXPECT_TRUE(simulator.RolloutPushed(x0, WavyControls(model, N), record.xfrc, &record.trajectory).ok());
  record.diagnostics = simulator.Diagnose(record.trajectory);
  const Dims& dims = simulator.dims();
  if (dims.ns >= 3) record.goal_places = {{dims.ns - 3, {0.1, NAN, -1.0 / 3}}};
  record.policy.k = MatrixXd::Random(dims.nu, N) / 3;
  for (int t = 0; t < N; ++t) record.policy.K.push_back(MatrixXd::Random(dims.nu, dims.ndx) * 1e-7);
  record.cost_per_knot = VectorXd::Random(N + 1);
  record.gradient_norm_per_knot = VectorXd::Random(N).cwiseAbs();
  record.cost_terms = {{"height, in \"m\"", 0.1}, {"effort", 1.0 / 3}};
  record.metric = "J = Σ_t dt l_t";
  record.iterations = {{1, 0.3, -0.1, -0.09, 3e-5, 0.5, 1e-6, -1, 0, 0.01, 7, 0.02, 0.003},
                       {2, 0.2, -0.1, -0.1, 1e-300, 1, 0, -1, 0, 1, 0, 2, 3}};
  record.status = "converged";
  record.message = "gradient below 1e-7";
  record.failures = {"control: ctrl[motor] at its limit at 20 of 30 knots"};
  record.settings = {{"solver.iterations", "200"}, {"threads", "2"}};
  record.warnings = {"a warning"};
  return record;
}

void ExpectSame(const Record& a, const Record& b) {
  EXPECT_TRUE(BitwiseEqual(a.trajectory, b.trajectory));
  EXPECT_TRUE(BitwiseEqual(a.context, b.context));
  EXPECT_TRUE(BitwiseEqual(a.x_goal, b.x_goal));
  EXPECT_TRUE(BitwiseEqual(a.xfrc, b.xfrc));
  for (double Record::*latency : {&Record::latency_budget, &Record::latency_used}) {
    EXPECT_TRUE(a.*latency == b.*latency || (std::isnan(a.*latency) && std::isnan(b.*latency)));
  }
  ASSERT_EQ(a.goal_places.size(), b.goal_places.size());
  for (std::size_t i = 0; i < a.goal_places.size(); ++i) {
    EXPECT_EQ(a.goal_places[i].sensor, b.goal_places[i].sensor);
    EXPECT_EQ(a.goal_places[i].place[0], b.goal_places[i].place[0]);
    EXPECT_TRUE(std::isnan(b.goal_places[i].place[1]));
    EXPECT_EQ(a.goal_places[i].place[2], b.goal_places[i].place[2]);
  }
  EXPECT_TRUE(BitwiseEqual(a.policy.k, b.policy.k));
  ASSERT_EQ(a.policy.K.size(), b.policy.K.size());
  for (std::size_t t = 0; t < a.policy.K.size(); ++t) ASSERT_TRUE(BitwiseEqual(a.policy.K[t], b.policy.K[t]));
  EXPECT_TRUE(BitwiseEqual(a.cost_per_knot, b.cost_per_knot));
  EXPECT_TRUE(BitwiseEqual(a.gradient_norm_per_knot, b.gradient_norm_per_knot));
  ASSERT_EQ(a.diagnostics.size(), b.diagnostics.size());
  for (std::size_t t = 0; t < a.diagnostics.size(); ++t) {
    EXPECT_EQ(std::memcmp(&a.diagnostics[t], &b.diagnostics[t], sizeof(KnotDiagnostics) - sizeof(int)), 0);
    EXPECT_EQ(a.diagnostics[t].saturated_actuators, b.diagnostics[t].saturated_actuators);
  }
  ASSERT_EQ(a.iterations.size(), b.iterations.size());
  for (std::size_t i = 0; i < a.iterations.size(); ++i) {
    EXPECT_EQ(a.iterations[i].iteration, b.iterations[i].iteration);
    EXPECT_EQ(a.iterations[i].gradient_norm, b.iterations[i].gradient_norm);
    EXPECT_EQ(a.iterations[i].gap, b.iterations[i].gap);
    EXPECT_EQ(a.iterations[i].gap_knot, b.iterations[i].gap_knot);
    EXPECT_EQ(a.iterations[i].seconds_backward, b.iterations[i].seconds_backward);
  }
  ASSERT_EQ(a.cost_terms.size(), b.cost_terms.size());
  for (std::size_t i = 0; i < a.cost_terms.size(); ++i) {
    EXPECT_EQ(a.cost_terms[i].name, b.cost_terms[i].name);
    EXPECT_EQ(a.cost_terms[i].value, b.cost_terms[i].value);
  }
  EXPECT_EQ(SerializeModel(a.model.get()), SerializeModel(b.model.get()));
  EXPECT_EQ(std::tie(a.command, a.task_file, a.model_file, a.task_text, a.metric, a.status, a.message, a.created),
            std::tie(b.command, b.task_file, b.model_file, b.task_text, b.metric, b.status, b.message, b.created));
  EXPECT_EQ(std::tie(a.substeps, a.seed, a.failures, a.warnings, a.settings, a.model_sha256),
            std::tie(b.substeps, b.seed, b.failures, b.warnings, b.settings, b.model_sha256));
}

// 17 significant digits name each double, so text loses nothing.
TEST_F(RecordTest, ComesBackBitForBit) {
  for (const NamedModel& named : RolloutModels()) {
    SCOPED_TRACE(named.name);
    support::TemporaryFolder folder;
    Record record = MakeRecord(named);
    WriteRecord(folder.File("run"), record, kNoPlots);
    ExpectSame(record, ReadRecord(folder.File("run")));
  }
}

// the smallest run: no cost, no policy, no diagnostics, no controls, no horizon
TEST_F(RecordTest, ComesBackWithoutItsOptionalParts) {
  support::TemporaryFolder folder;
  Record record;
  record.model = LoadModelFromString("<mujoco/>");
  DataPtr data = MakeData(record.model.get());
  record.context = GetContext(record.model.get(), data.get());
  Simulator simulator(record.model.get(), record.context, 1, 1);
  ASSERT_TRUE(simulator.Rollout(VectorXd(0), MatrixXd(0, 0), &record.trajectory).ok());
  WriteRecord(folder.File("run"), record);
  const Record read = ReadRecord(folder.File("run"));
  ExpectSame(record, read);
  EXPECT_EQ(read.xfrc.size(), 0);
  EXPECT_TRUE(std::isnan(read.latency_budget));
  EXPECT_TRUE(Replay(read).identical);
}

// Columns of zeros say nothing: a body that nothing pushes has none. What older programs wrote has them all.
TEST_F(RecordTest, WritesPushesOfPushedBodiesAlone) {
  support::TemporaryFolder folder;
  Record record = MakeRecord(RolloutModels()[0]);
  Record all = MakeRecord(RolloutModels()[0]);
  const int nbody = static_cast<int>(record.model->nbody), last = nbody - 1;
  ASSERT_GT(nbody, 2);
  record.xfrc.setZero();
  record.xfrc(6 * last + 1, 7) = 1.0 / 3;
  Simulator simulator(record.model.get(), record.context, record.substeps, 1);
  const VectorXd x0 = record.trajectory.X.col(0);
  const MatrixXd U = record.trajectory.U;
  ASSERT_TRUE(simulator.RolloutPushed(x0, U, record.xfrc, &record.trajectory).ok());
  WriteRecord(folder.File("run"), record, kNoPlots);
  const std::string text = ReadFile(folder.path() / "run/pushes.csv"), header = text.substr(0, text.find('\n'));
  EXPECT_EQ(std::count(header.begin(), header.end(), ','), 6) << header;
  const Record read = ReadRecord(folder.File("run"));
  ExpectSame(record, read);
  EXPECT_TRUE(Replay(read).identical);

  const auto edited = [&](const std::string& run, const std::function<void(Json*)>& edit) {
    Json json = Json::parse(ReadFile(folder.path() / run / "record.json"));
    edit(&json["contents"]);
    json["checksum"] = Checksum(json);
    folder.Write(run + "/record.json", ToText(json, 2));
    return ReadRecord(folder.File(run));
  };
  WriteRecord(folder.File("old"), all, kNoPlots);
  EXPECT_TRUE(BitwiseEqual(edited("old", [](Json* contents) { contents->erase("pushed_bodies"); }).xfrc, all.xfrc));
  EXPECT_ERROR(edited("run", [](Json* contents) { (*contents)["pushed_bodies"] = {99}; }), ErrorCode::kFile,
               "body 99 is pushed");
}

TEST_F(RecordTest, StatesEverythingThatIsKnownAboutTheRun) {
  support::TemporaryFolder folder;
  Record record = MakeRecord(RolloutModels()[1]);
  WriteRecord(folder.File("run"), record, kNoPlots);
  const nlohmann::json json = nlohmann::json::parse(ReadFile(folder.path() / "run/record.json"));
  EXPECT_EQ(json["format"], "costate run");
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["engine"]["integrator"], "RK4");
  EXPECT_EQ(json["engine"]["solver"], "Newton");
  EXPECT_EQ(json["horizon"]["N"], 30);
  EXPECT_NEAR(json["horizon"]["duration_s"].get<double>(), 30 * 2 * 0.004, 1e-15);
  EXPECT_EQ(json["model"]["name"], "two links");
  EXPECT_EQ(json["model"]["sha256"], Sha256Of(ReadFile(folder.path() / "run/model.mjb")));
  EXPECT_EQ(json["result"]["gradient_norm"], 1e-300);
  EXPECT_NEAR(json["result"]["cost"].get<double>(), record.cost_per_knot.sum(), 1e-15);
  EXPECT_EQ(json["initial_state"].size(), 4u);
  EXPECT_EQ(json["seed"], 7);
  EXPECT_EQ(json["software"]["mujoco"], mj_versionString());
  EXPECT_EQ(json["latency_budget_s"], 0.01);
  EXPECT_EQ(json["latency_used_s"], 1.0 / 300);
  for (const char* field : {"created", "inputs", "failures", "settings", "units", "frames", "diagnostics", "files"}) {
    EXPECT_TRUE(json.contains(field)) << field;
  }

  // the table says what each column is
  const std::string table = ReadFile(folder.path() / "run/trajectory.csv");
  EXPECT_TRUE(
      table.starts_with("time (s),qpos[shoulder] (rad),qpos[elbow] (rad),qvel[shoulder] (rad/s),"
                        "qvel[elbow] (rad/s),ctrl[motor] (ctrl),"))
      << table.substr(0, 200);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 32);
}

// The compiled model has no padding or pointers that differ from run to run, so its hash names it.
TEST_F(RecordTest, GivesTheSameModelTheSameHash) {
  support::TemporaryFolder folder;
  Record a = MakeRecord(RolloutModels()[0]), b = MakeRecord(RolloutModels()[0], 5), c = MakeRecord(RolloutModels()[2]);
  WriteRecord(folder.File("a"), a, kNoPlots);
  WriteRecord(folder.File("b"), b, kNoPlots);
  WriteRecord(folder.File("c"), c, kNoPlots);
  EXPECT_EQ(a.model_sha256, b.model_sha256);
  EXPECT_NE(a.model_sha256, c.model_sha256);
}

TEST_F(RecordTest, RefusesPartsThatDoNotFit) {
  support::TemporaryFolder folder;
  Record record = MakeRecord(RolloutModels()[0]);
  const std::string run = folder.File("run");
  record.cost_per_knot.conservativeResize(30);
  EXPECT_ERROR(WriteRecord(run, record, kNoPlots), ErrorCode::kDimensionMismatch, "cost_per_knot has 30", "31");
  record.cost_per_knot.resize(0);
  record.xfrc.resize(6, 30);
  EXPECT_ERROR(WriteRecord(run, record, kNoPlots), ErrorCode::kDimensionMismatch, "xfrc has 180");
  record.xfrc.resize(0, 0);
  record.policy.K.pop_back();
  EXPECT_ERROR(WriteRecord(run, record, kNoPlots), ErrorCode::kDimensionMismatch, "policy.K has 29");
  record.policy.K.push_back(MatrixXd::Zero(1, 1));
  EXPECT_ERROR(WriteRecord(run, record, kNoPlots), ErrorCode::kDimensionMismatch, "a gain K");
  record.policy = {};
  record.substeps = 0;
  EXPECT_ERROR(WriteRecord(run, record, kNoPlots), ErrorCode::kInvalidArgument, "substeps is 0");
  record.substeps = 1;
  record.trajectory.X.conservativeResize(3, 31);
  EXPECT_ERROR(WriteRecord(run, record, kNoPlots), ErrorCode::kDimensionMismatch, "X is 3 x 31");
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST_F(RecordTest, NoticesEveryDamagedFile) {
  for (const char* name :
       {kModelFile, kTaskFile, kTrajectoryFile, kStartContextFile, kKnotContextFile, kPolicyFile, kIterationsFile}) {
    SCOPED_TRACE(name);
    support::TemporaryFolder folder;
    Record record = MakeRecord(RolloutModels()[0]);
    const std::string run = folder.File("run");
    WriteRecord(run, record, kNoPlots);
    const std::string path = folder.File(std::string("run/") + name), whole = ReadFile(path);

    // cut off
    fs::resize_file(path, whole.size() / 2);
    EXPECT_ERROR(ReadRecord(run), ErrorCode::kFile, name, "is cut off");

    // one byte changed, the size as before
    std::string edited = whole;
    edited[edited.size() * 3 / 4] ^= 1;
    folder.Write(std::string("run/") + name, edited);
    EXPECT_ERROR(ReadRecord(run), ErrorCode::kFile, name, "was changed after it was written");

    // longer
    folder.Write(std::string("run/") + name, whole + whole);
    EXPECT_ERROR(ReadRecord(run), ErrorCode::kFile, name, "was changed after it was written");

    // missing, or something else under its name
    fs::remove(path);
    EXPECT_ERROR(ReadRecord(run), ErrorCode::kFile, name, "does not exist");
    fs::create_directory(path);
    EXPECT_ERROR(ReadRecord(run), ErrorCode::kFile, name, "is a folder, not a file");
    fs::remove(path);
    folder.Write(std::string("run/") + name, whole);
    ExpectSame(record, ReadRecord(run));
  }
}

TEST_F(RecordTest, NoticesADamagedNewerOrForeignDescription) {
  support::TemporaryFolder folder;
  Record record = MakeRecord(RolloutModels()[0]);
  const std::string run = folder.File("run");
  WriteRecord(run, record, kNoPlots);
  const std::string whole = ReadFile(run + "/record.json");
  auto read_with = [&](const std::string& text) {
    folder.Write("run/record.json", text);
    return ReadRecord(run);
  };
  auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    EXPECT_NE(text.find(from), std::string::npos) << from;
    return text.replace(text.find(from), from.size(), to);
  };

  EXPECT_ERROR(read_with(whole.substr(0, whole.size() / 2)), ErrorCode::kFile, "record.json is cut off");
  EXPECT_ERROR(read_with(""), ErrorCode::kFile, "record.json is cut off");
  EXPECT_ERROR(read_with("[1, 2]"), ErrorCode::kFile, "not the record of a run");
  EXPECT_ERROR(read_with(replaced("costate run", "other thing")), ErrorCode::kFile, "not the record of a run");
  EXPECT_ERROR(read_with(replaced("\"schema\": 1", "\"schema\": 3")), ErrorCode::kFile, "it has schema 3",
               "up to schema 2");
  EXPECT_ERROR(read_with(replaced("\"substeps\": 2", "\"substeps\": 3")), ErrorCode::kFile, "record.json was changed");
  EXPECT_ERROR(read_with(replaced("\"format\"", "\"other\": 1, \"format\"")), ErrorCode::kFile,
               "record.json was changed");
  EXPECT_ERROR(read_with("{\"format\": \"costate run\"}"), ErrorCode::kFile, "record.json is damaged", "schema");

  // a record of another engine, otherwise whole
  Json other = Json::parse(whole);
  other["software"]["mujoco"] = "9.9.9";
  other["checksum"] = Checksum(other);
  EXPECT_ERROR(read_with(ToText(other, 2)), ErrorCode::kUnsupported, "made with MuJoCo 9.9.9", mj_versionString());

  // white space is no change
  ExpectSame(record, read_with(ToText(Json::parse(whole), 7)));
}

// whole by its checksum, but of a hand that wrote something else: file, member and what stands there
TEST_F(RecordTest, NamesEachMemberThatIsNone) {
  support::TemporaryFolder folder;
  Record record = MakeRecord(RolloutModels()[0]);
  const std::string run = folder.File("run");
  WriteRecord(run, record, kNoPlots);
  const Json whole = Json::parse(ReadFile(run + "/record.json"));
  const auto read_with = [&](const char* pointer, const Json& value) {
    Json changed = whole;
    changed[Json::json_pointer(pointer)] = value;
    changed["checksum"] = Checksum(changed);
    folder.Write("run/record.json", ToText(changed, 1));
    return ReadRecord(run);
  };
  const auto refused = [&](const char* pointer, const Json& value, const char* text) {
    EXPECT_ERROR(read_with(pointer, value), ErrorCode::kFile, "run", "record.json is damaged: ", text);
  };
  refused("/horizon/substeps", 0, "horizon.substeps is 0, expected a whole number from 1 to ");
  refused("/horizon/substeps", -1, "horizon.substeps is -1");
  refused("/horizon/substeps", 2.7, "horizon.substeps is 2.7");
  refused("/horizon/substeps", 4294967298, "horizon.substeps is 4294967298");
  refused("/horizon/timestep_s", 0, "horizon.timestep_s is 0, expected a number above 0");
  refused("/horizon/timestep_s", nullptr, "horizon.timestep_s is null, expected a number");
  refused("/horizon/N", 2147483647, "horizon.N is 2147483647, expected a whole number from 0 to 2147483646");
  refused("/horizon/N", -1, "horizon.N is -1");
  refused("/horizon/N", 1e300, "horizon.N is 1e+300");
  refused("/horizon", 3, "horizon is 3, expected members by name");
  refused("/files", 3, "files is 3, expected a list");
  refused("/files/0", nullptr, "files[0] is null, expected members by name");
  refused("/files/1/name", 5, "files[1].name is 5, expected a text");
  refused("/files/1/name", "../passwd", "files[1].name is \"../passwd\", expected a file of the folder");
  refused("/files/0/bytes", -1, "files[0].bytes is -1, expected a whole number from 0");
  refused("/files/0/sha256", Json::array(), "files[0].sha256 is [], expected a text");
  refused("/result/iterations", nullptr, "result.iterations is null, expected a whole number");
  refused("/result/cost_terms/0/value", "x", "result.cost_terms[0].value is \"x\", expected a number");
  refused("/contents/task", 1, "contents.task is 1, expected true or false");
  refused("/goal_state", "none", "goal_state is \"none\", expected a list");
  refused("/settings/threads", 2, "settings.threads is 2, expected a text");
  refused("/failures/0", Json::object(), "failures[0] is {}, expected a text");
  refused("/seed", 1e10, "seed is 10000000000.0, expected a whole number");

  // whole as members, but none of this model and this motion: what reads a run would reach beyond its numbers
  const auto unfit = [&](const char* pointer, const Json& value, const char* text) {
    EXPECT_ERROR(read_with(pointer, value), ErrorCode::kFile, "run", text);
  };
  const auto goal = [](long sensor) { return Json{{{"sensor", sensor}, {"place", {0, Json(), 0.5}}}}; };
  const int ns = static_cast<int>(record.model->nsensordata);
  unfit("/goal_places", goal(200000000), "a goal's place is compared with sensordata from 200000000 on");
  unfit("/goal_places", goal(2147483647), "a goal's place is compared with sensordata from 2147483647 on");
  unfit("/goal_places", goal(ns - 2), "a goal's place is compared with sensordata from");
  unfit("/goal_state", {0.5}, "x_goal has 1 entries, expected 0 or");

  // every member that is read, replaced by something of each kind: a run, or an error that says file and member
  const Json flat = whole.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    if (pointer == "/checksum" || pointer == "/format" || pointer == "/schema") continue;
    for (const Json& other : {Json(), Json(-1), Json(1e300), Json("x"), Json(true), Json::array(), Json::object()}) {
      try {
        read_with(pointer.c_str(), other);
      } catch (const Error&) {
      } catch (const std::exception& error) {
        ADD_FAILURE() << pointer << " = " << other << ": " << error.what();
      }
    }
  }
}

// Whatever copies or prints such a value calls itself for each level, more often than a stack has room for.
TEST_F(RecordTest, RefusesADescriptionThatIsNestedTooDeep) {
  support::TemporaryFolder folder;
  Record record = MakeRecord(RolloutModels()[0]);
  const std::string run = folder.File("run");
  WriteRecord(run, record, kNoPlots);
  const std::string whole = ReadFile(run + "/record.json");
  const auto read_with = [&](const std::string& member, int depth) {
    std::string text = whole;
    text.replace(text.rfind('}'), 1,
                 ", \"" + member + "\": " + std::string(depth, '[') + std::string(depth, ']') + "}");
    folder.Write("run/record.json", text);
    return ReadRecord(run);
  };
  for (const char* member : {"else", "seed"})
    EXPECT_ERROR(read_with(member, 200000), ErrorCode::kFile, "record.json is damaged: it is nested more than 64 deep");
  EXPECT_ERROR(read_with("else", 64), ErrorCode::kFile, "record.json is damaged: it is nested more than 64 deep");
  EXPECT_ERROR(read_with("else", 63), ErrorCode::kFile, "record.json was changed after it was written");
}

// counts are read from columns of real numbers, which hold more than they do
TEST_F(RecordTest, NamesACountThatIsNone) {
  support::TemporaryFolder folder;
  Record record = MakeRecord(RolloutModels()[0]);
  const std::string run = folder.File("run");
  WriteRecord(run, record, kNoPlots);
  const Json whole = Json::parse(ReadFile(run + "/record.json"));
  // the last entry of the first row of numbers
  const auto read_with = [&](const std::string& table, const std::string& number) {
    const std::string before = ReadFile(run + "/" + table);
    std::string text = before;
    const std::size_t end = text.find_first_of("\r\n", text.find('\n') + 1), begin = text.rfind(',', end) + 1;
    folder.Write("run/" + table, text.replace(begin, end - begin, number));
    Json changed = whole;
    for (Json& file : changed["files"]) {
      if (file["name"] == table) file.update({{"bytes", text.size()}, {"sha256", Sha256Of(text)}});
    }
    changed["checksum"] = Checksum(changed);
    folder.Write("run/record.json", ToText(changed, 1));
    std::string error = "none";
    try {
      ReadRecord(run);
    } catch (const Error& e) {
      error = e.what();
    }
    folder.Write("run/" + table, before);
    return error;
  };
  EXPECT_EQ(read_with("trajectory.csv", "3"), "none");
  for (const char* table : {"trajectory.csv", "iterations.csv"}) {
    for (const char* number : {"1e300", "nan", "inf", "2147483648", "0.5"}) {
      EXPECT_NE(read_with(table, number).find(std::string(table) + ": entry "), std::string::npos)
          << table << " " << number << ": " << read_with(table, number);
    }
  }
}

TEST_F(RecordTest, SaysWhatIsNotARun) {
  support::TemporaryFolder folder;
  EXPECT_ERROR(ReadRecord(folder.File("none")), ErrorCode::kFile, "none", "no such folder");
  EXPECT_ERROR(ReadRecord(folder.Write("file", "x")), ErrorCode::kFile, "is not a folder");
  EXPECT_ERROR(ReadRecord(folder.path().string()), ErrorCode::kFile, "it has no record.json");
}

TEST_F(RecordTest, DrawsPicturesOrWarnsThatItCannot) {
  support::TemporaryFolder folder;
  Record record = MakeRecord(RolloutModels()[0]);
  const std::string path = std::getenv("PATH");

  // a PATH without gnuplot
  setenv("PATH", folder.path().c_str(), 1);
  WriteRecord(folder.File("without"), record);
  setenv("PATH", path.c_str(), 1);
  ASSERT_EQ(record.warnings.size(), 2u);
  EXPECT_NE(record.warnings[1].find("gnuplot is not installed"), std::string::npos) << record.warnings[1];
  EXPECT_EQ(ReadRecord(folder.File("without")).warnings, record.warnings);

  // one that fails
  folder.Write("gnuplot", "#!/bin/sh\nexit 3\n");
  fs::permissions(folder.path() / "gnuplot", fs::perms::all);
  setenv("PATH", folder.path().c_str(), 1);
  WriteRecord(folder.File("failing"), record);
  setenv("PATH", path.c_str(), 1);
  EXPECT_NE(record.warnings.back().find("gnuplot ended with code 3"), std::string::npos) << record.warnings.back();

  // the real one, where there is one
  record.warnings.clear();
  WriteRecord(folder.File("with"), record);
  if (!record.warnings.empty()) {
    EXPECT_NE(record.warnings[0].find("gnuplot is not installed"), std::string::npos) << record.warnings[0];
    return;
  }
  for (const char* name : {"positions.png", "velocities.png", "controls.png", "knot_costs.png", "energy.png",
                           "contacts.png", "iterations.png"}) {
    const std::string picture = ReadFile(folder.path() / "with" / name);
    EXPECT_TRUE(picture.starts_with("\x89PNG")) << name;
    EXPECT_GT(picture.size(), 2000u) << name;
  }

  // pictures are for people: a run is whole without them
  fs::remove(folder.path() / "with/controls.png");
  ExpectSame(record, ReadRecord(folder.File("with")));
}

// The model, the start context and the controls are all that a motion depends on.
TEST_F(ReplayTest, IsIdenticalForEveryKindOfModel) {
  for (const NamedModel& named : RolloutModels()) {
    SCOPED_TRACE(named.name);
    support::TemporaryFolder folder;
    Record record = MakeRecord(named, 100);
    WriteRecord(folder.File("run"), record, kNoPlots);
    const Record read = ReadRecord(folder.File("run"));
    const ReplayResult replay = Replay(read);
    EXPECT_TRUE(replay.identical) << "knot " << replay.first_difference << ", " << replay.first_name;
    EXPECT_TRUE(BitwiseEqual(replay.trajectory, record.trajectory));
    EXPECT_EQ(replay.largest_difference, 0);
  }
}

TEST_F(ReplayTest, FindsTheFirstDifferenceAndTheLargest) {
  Record record = MakeRecord(RolloutModels()[0]);
  const double original = record.trajectory.X(3, 12);
  record.trajectory.X(3, 12) = std::nextafter(original, 1e9);
  record.trajectory.X(0, 20) += 0.5;
  const ReplayResult replay = Replay(record);
  EXPECT_FALSE(replay.identical);
  EXPECT_EQ(replay.first_difference, 12);
  EXPECT_EQ(replay.first_name, "qvel[elbow]");
  EXPECT_EQ(replay.replayed, original);
  EXPECT_NEAR(replay.largest_difference, 0.5, 1e-15);

  // a sensor alone
  record = MakeRecord(RolloutModels()[0]);
  record.trajectory.S(0, 7) += 1;
  EXPECT_EQ(Replay(record).first_name, SensorNames(record.model.get())[0]);
  EXPECT_EQ(Replay(record).first_difference, 7);
}

// What a failing rollout leaves is the same each time as well.
// parts that do not fit would be compared beyond their ends
TEST_F(ReplayTest, RefusesPartsThatDoNotFit) {
  Record record = MakeRecord(RolloutModels()[0]);
  record.trajectory.context.resize(0, 0);
  EXPECT_ERROR(Replay(record), ErrorCode::kDimensionMismatch, "trajectory: context is 0 x 0");
  EXPECT_ERROR(Replay({}), ErrorCode::kInvalidArgument, "it has no model");
}

TEST_F(ReplayTest, IsIdenticalWhenTheMotionDiverges) {
  support::TemporaryFolder folder;
  Record record;
  record.model = LoadModelFromString(
      "<mujoco><worldbody><body><joint name='j' type='slide'/><geom size='.1'/></body></worldbody>"
      "<actuator><motor joint='j' gear='1e9'/></actuator></mujoco>");
  DataPtr data = MakeData(record.model.get());
  record.context = GetContext(record.model.get(), data.get());
  Simulator simulator(record.model.get(), record.context, 1, 1);
  MatrixXd U = MatrixXd::Zero(1, 20);
  U(0, 5) = 1e9;
  const RolloutStatus status = simulator.Rollout(VectorXd::Zero(2), U, &record.trajectory);
  EXPECT_FALSE(status.ok());
  record.failures = LabelFailures(record.model.get(), record.trajectory, status, {});
  ASSERT_EQ(record.failures.size(), 1u);
  EXPECT_TRUE(record.failures[0].starts_with("state: ")) << record.failures[0];
  EXPECT_NE(record.failures[0].find("at knot 5 (0.01 s)"), std::string::npos) << record.failures[0];
  WriteRecord(folder.File("run"), record, kNoPlots);
  EXPECT_TRUE(Replay(ReadRecord(folder.File("run"))).identical);
}

TEST_F(LabelFailuresTest, NamesSaturationExhaustionAndPenetrationWithNumbers) {
  ModelPtr model = LoadModelFromString(RolloutModels()[0].xml);
  DataPtr start = StartData(model.get());
  Simulator simulator(model.get(), GetContext(model.get(), start.get()), 1, 1);
  MatrixXd U = MatrixXd::Zero(1, 40);
  Trajectory trajectory;
  ASSERT_TRUE(simulator.Rollout(GetState(model.get(), start.get()), U, &trajectory).ok());
  std::vector<KnotDiagnostics> diagnostics = simulator.Diagnose(trajectory);
  EXPECT_TRUE(LabelFailures(model.get(), trajectory, {}, diagnostics).empty());

  trajectory.U.leftCols(10).setConstant(1);  // exactly a quarter
  diagnostics[3].solver_iterations = model->opt.iterations;
  diagnostics[4].penetration = model->stat.meansize;
  const std::vector<std::string> labels = LabelFailures(model.get(), trajectory, {}, diagnostics);
  ASSERT_EQ(labels.size(), 3u);
  EXPECT_EQ(labels[0], "control: ctrl[motor] at its limit at 10 of 40 knots");
  EXPECT_EQ(labels[1],
            "state: the constraint solver used all its 100 iterations at 1 of 41 knots; derivatives hold for converged "
            "steps (remedy: more iterations in <option>)");
  EXPECT_TRUE(labels[2].starts_with("evaluation: a contact penetrates by")) << labels[2];
  EXPECT_NE(labels[2].find("at knot 4"), std::string::npos) << labels[2];

  // where the engine takes controls as they are none is at a limit
  EXPECT_EQ(simulator.Diagnose(trajectory)[5].saturated_actuators, 1);
  model->opt.disableflags |= mjDSBL_CLAMPCTRL;
  EXPECT_EQ(simulator.Diagnose(trajectory)[5].saturated_actuators, 0);
  EXPECT_EQ(LabelFailures(model.get(), trajectory, {}, diagnostics).size(), 2u);
}

TEST_F(LabelFailuresTest, NamesWhatPenetrates) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><geom name="floor" type="plane" size="1 1 .1"/>
      <body pos="0 0 .05"><freejoint/><geom name="ball" size=".1"/></body></worldbody></mujoco>)");
  const DataPtr start = MakeData(model.get());
  Simulator simulator(model.get(), GetContext(model.get(), start.get()), 1, 1);
  Trajectory trajectory;
  ASSERT_TRUE(simulator.Rollout(GetState(model.get(), start.get()), MatrixXd(0, 3), &trajectory).ok());
  const std::vector<std::string> labels = LabelFailures(model.get(), trajectory, {}, simulator.Diagnose(trajectory));
  ASSERT_EQ(labels.size(), 1u);
  EXPECT_TRUE(labels[0].starts_with("evaluation: a contact of floor and ball penetrates by 0.05 m at knot 0"))
      << labels[0];
}

// eighty muscles at rest are one line
TEST_F(LabelFailuresTest, NamesManySaturatedControlsAtOnce) {
  std::string joints, motors;
  for (int i = 0; i < 8; ++i) {
    const std::string name = "j" + std::to_string(i);
    joints += "<body><joint name='" + name + "'/><geom size='0.1' contype='0' conaffinity='0'/></body>";
    motors += "<motor name='" + name + "' joint='" + name + "' ctrlrange='0 1'/>";
  }
  const ModelPtr model = LoadModelFromString("<mujoco><option gravity='0 0 0'/><worldbody>" + joints +
                                             "</worldbody><actuator>" + motors + "</actuator></mujoco>");
  const DataPtr start = MakeData(model.get());
  Simulator simulator(model.get(), GetContext(model.get(), start.get()), 1, 1);
  Trajectory trajectory;
  const VectorXd x0 = GetState(model.get(), start.get());
  ASSERT_TRUE(simulator.Rollout(x0, MatrixXd::Zero(8, 4), &trajectory).ok());
  EXPECT_EQ(LabelFailures(model.get(), trajectory, {}, {}),
            std::vector<std::string>{"control: ctrl[j0] at its limit at 4 of 4 knots, and 7 other controls too"});
  trajectory.U.bottomRows(2).setConstant(0.5);
  EXPECT_EQ(LabelFailures(model.get(), trajectory, {}, {}).size(), 6u);
}

}  // namespace
}  // namespace costate
