#include "engine/policy_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <mutex>

#include "core/option_words.h"
#include "engine/kept_by_model.h"
#include "engine/plugin.h"
#include "rollout/run_folder.h"

namespace costate {
namespace {

namespace fs = std::filesystem;

struct CachedRun {
  std::weak_ptr<const PolicyRun> run;
  std::string written;
};

// when each file of a run was written, and how long it is
std::string WhenWritten(const fs::path& folder) {
  std::map<std::string, std::string> files;  // the order of a listing means nothing
  std::error_code ignored;
  for (fs::directory_iterator at(folder, ignored), end; at != end; at.increment(ignored)) {
    const auto size = at->is_regular_file(ignored) ? at->file_size(ignored) : 0;
    files[at->path().filename().string()] =
        fmt::format("{} {}", at->last_write_time(ignored).time_since_epoch().count(), size);
  }
  std::string all;
  for (const auto& [name, written] : files) all += name + " " + written + "\n";
  return all;
}

std::mutex policy_runs_mutex;

std::map<std::string, CachedRun>& CachedRuns() {
  static auto* runs = new std::map<std::string, CachedRun>;  // data may be freed after main
  return *runs;
}

struct KeptRun {
  std::string folder;  // absolute
  std::shared_ptr<const PolicyRun> run;
};

std::mutex kept_runs_mutex;

KeptByModel<KeptRun>& KeptRuns() {
  static auto* runs = new KeptByModel<KeptRun>;  // as above
  return *runs;
}

// of an entry of sensordata
std::string WhatIsSensed(const mjModel* m, int entry) {
  int i = 0;
  while (entry >= m->sensor_adr[i] + m->sensor_dim[i]) i++;
  std::string what = fmt::format("type {}", m->sensor_type[i]);
  const auto of = [&](const char* word, int type, int id) {
    if (type != mjOBJ_UNKNOWN && id >= 0) what += fmt::format(" {} {}", word, ElementName(m, type, id));
  };
  of("of", m->sensor_objtype[i], m->sensor_objid[i]);
  of("relative to", m->sensor_reftype[i], m->sensor_refid[i]);
  return what;
}

bool LawFits(const PolicyRun& run, const mjModel* m) {
  std::string mismatch;
  run.LawSensors(m, &mismatch);
  return mismatch.empty();
}

// what its folder holds by now, where that can be played in its place
void TakeWhatIsNew(const mjModel* m, KeptRun* kept) {
  try {
    std::shared_ptr<const PolicyRun> run = ReadPolicyRun(kept->folder);
    if (run->Mismatch(m).empty() && run->has_gains() == kept->run->has_gains() &&
        run->law.has_value() == kept->run->law.has_value() && (LawFits(*run, m) || !LawFits(*kept->run, m)))
      kept->run = std::move(run);
  } catch (const std::exception&) {
    // gone, or not all written yet
  }
}

// the first name that differs
std::string NameMismatch(const char* what, const std::vector<std::string>& run, const std::vector<std::string>& here) {
  for (std::size_t i = 0; i < run.size(); ++i) {
    if (run[i] != here[i]) return fmt::format("{} {} is {} in the run's model, {} here", what, i, run[i], here[i]);
  }
  return "";
}

}  // namespace

std::string StructureMismatch(const mjModel* r, const mjModel* m) {
  const Dims run(r), here(m);
  const struct {
    const char* name;
    int run, here;
  } sizes[] = {{"nq", run.nq, here.nq}, {"nv", run.nv, here.nv}, {"na", run.na, here.na}, {"nu", run.nu, here.nu}};
  for (const auto& size : sizes) {
    if (size.run != size.here)
      return fmt::format("{} is {} in the run's model, {} here", size.name, size.run, size.here);
  }
  std::string mismatch = NameMismatch("state entry", StateNames(r), StateNames(m));
  if (mismatch.empty()) mismatch = NameMismatch("control", ControlNames(r), ControlNames(m));
  if (!mismatch.empty()) return mismatch;
  for (int j = 0; j < m->njnt; ++j) {
    if (r->jnt_type[j] == m->jnt_type[j]) continue;
    return fmt::format("joint {} is a {} joint in the run's model, a {} joint here", ElementName(m, mjOBJ_JOINT, j),
                       kJointWords[r->jnt_type[j]], kJointWords[m->jnt_type[j]]);
  }
  return "";
}

std::string PolicyRun::Mismatch(const mjModel* m) const {
  const double run = record.model->opt.timestep, here = m->opt.timestep;
  std::string mismatch = StructureMismatch(m);
  if (mismatch.empty() && run != here)
    mismatch = fmt::format("timestep is {} s in the run's model, {} s here", run, here);
  return mismatch;
}

std::vector<int> PolicyRun::LawSensors(const mjModel* m, std::string* mismatch) const {
  mismatch->clear();
  std::vector<int> addresses;
  if (!law) return addresses;
  const mjModel* r = record.model.get();
  const std::vector<std::string> run = SensorNames(r), here = SensorNames(m);
  for (const int entry : law->SensorsSeen()) {
    const std::string& name = run[static_cast<std::size_t>(entry)];
    const auto at = std::ranges::find(here, name);
    const int address = static_cast<int>(at - here.begin());
    if (at == here.end()) {
      *mismatch =
          fmt::format("the law sees {}, entry {} of sensordata in the run's model, which is not among the {} here",
                      name, entry, m->nsensordata);
    } else if (const std::string was = WhatIsSensed(r, entry), is = WhatIsSensed(m, address); was != is) {
      *mismatch = fmt::format("the law sees {}, which is {} in the run's model, {} here", name, was, is);
    }
    if (!mismatch->empty()) break;
    addresses.push_back(address);
  }
  return addresses;
}

std::shared_ptr<const PolicyRun> ReadPolicyRun(const std::string& path) {
  fs::path folder = path;
  if (folder.filename() == kRecordFile) folder = folder.parent_path();
  if (folder.empty()) folder = ".";
  std::error_code ignored;
  const std::string key = fs::weakly_canonical(folder, ignored).string();
  const std::string written = WhenWritten(folder);

  std::lock_guard<std::mutex> lock(policy_runs_mutex);
  CachedRun& cached = CachedRuns()[key];
  if (std::shared_ptr<const PolicyRun> run = cached.run.lock(); run && cached.written == written) return run;
  auto run = std::make_shared<PolicyRun>();
  run->folder = folder.string();
  run->record = ReadRecord(run->folder);
  run->N = run->record.trajectory.N();
  run->knot_time = run->record.knot_time();
  if (!(run->knot_time > 0) || !std::isfinite(run->knot_time)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("run '{}' holds its controls for {:g} s, expected a finite time above 0", run->folder,
                            run->knot_time));
  }
  if (run->N < 1 || run->record.model->nu == 0) {
    throw Error(ErrorCode::kInvalidArgument, "run '" + run->folder + "' has no control to play");
  }
  if (const fs::path law = folder / kLawFile; fs::exists(law, ignored))
    run->law = LoadPolicy(run->record.model.get(), law.string());
  cached = {run, written};  // as it was before it was read
  return run;
}

std::shared_ptr<const PolicyRun> PolicyRunOf(const mjModel* m, const std::string& path) {
  std::lock_guard<std::mutex> lock(kept_runs_mutex);
  if (!IsBeingCompiled(m)) {
    const auto fits = [&](const KeptRun& kept) { return kept.run->StructureMismatch(m).empty(); };
    if (KeptRun* kept = KeptRuns().Find(m, path, fits)) {
      TakeWhatIsNew(m, kept);
      return kept->run;
    }
  }
  const std::shared_ptr<const PolicyRun> run = ReadPolicyRun(path);
  if (!run->StructureMismatch(m).empty()) return run;
  KeptRuns().Keep(m, path, {fs::absolute(run->folder).string(), run});
  return run;
}

}  // namespace costate
