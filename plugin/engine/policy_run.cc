#include "engine/policy_run.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <mutex>

#include "core/option_words.h"
#include "rollout/run_folder.h"

namespace costate {
namespace {

namespace fs = std::filesystem;

struct CachedRun {
  std::weak_ptr<const PolicyRun> run;
  fs::file_time_type written;
};

std::mutex policy_runs_mutex;

std::map<std::string, CachedRun>& CachedRuns() {
  static auto* runs = new std::map<std::string, CachedRun>;  // data may be freed after main
  return *runs;
}

// the first name that differs
std::string NameMismatch(const char* what, const std::vector<std::string>& run, const std::vector<std::string>& here) {
  for (std::size_t i = 0; i < run.size(); ++i) {
    if (run[i] != here[i]) return fmt::format("{} {} is {} in the run's model, {} here", what, i, run[i], here[i]);
  }
  return "";
}

}  // namespace

std::string PolicyRun::StructureMismatch(const mjModel* m) const {
  const mjModel* r = record.model.get();
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

std::shared_ptr<const PolicyRun> ReadPolicyRun(const std::string& path) {
  fs::path folder = path;
  if (folder.filename() == kRecordFile) folder = folder.parent_path();
  if (folder.empty()) folder = ".";
  std::error_code ignored;
  const std::string key = fs::weakly_canonical(folder, ignored).string();
  const fs::file_time_type written = fs::last_write_time(folder / kRecordFile, ignored);

  std::lock_guard<std::mutex> lock(policy_runs_mutex);
  CachedRun& cached = CachedRuns()[key];
  if (std::shared_ptr<const PolicyRun> run = cached.run.lock(); run && cached.written == written) return run;
  auto run = std::make_shared<PolicyRun>();
  run->folder = folder.string();
  run->record = ReadRecord(run->folder);
  run->N = run->record.trajectory.N();
  run->knot_time = run->record.substeps * run->record.model->opt.timestep;
  if (run->N < 1 || run->record.model->nu == 0) {
    throw Error(ErrorCode::kInvalidArgument, "run '" + run->folder + "' has no control to play");
  }
  cached = {run, written};
  return run;
}

}  // namespace costate
