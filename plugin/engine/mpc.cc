// costate.mpc: the host's robot goes where a task says, by plans made while it moves. README.md.
#include <costate/mpc.h>
#include <fmt/format.h>

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <mutex>
#include <optional>
#include <pugixml.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "core/engine_guard.h"
#include "core/extremes.h"
#include "core/lap.h"
#include "core/read_file.h"
#include "core/state_layout.h"
#include "engine/held_control.h"
#include "engine/kept_by_model.h"
#include "engine/mpc_host.h"
#include "engine/python_callbacks.h"
#include "optimizer/mpc_plant.h"

namespace costate {
namespace {

constexpr const char* kMpcAttributes[] = {"task", "wait", "start", "limit"};
constexpr double kLimit = 10;  // [s] for the first plan, during which the host stands still

struct KeptTask {
  std::string file;  // absolute
  std::string text;
};

std::mutex kept_tasks_mutex;

KeptByModel<KeptTask>& KeptTasks() {
  static auto* tasks = new KeptByModel<KeptTask>;  // data may be made after main
  return *tasks;
}

thread_local bool loads_task = false;

// The engine's compiler, which may be what asks for this instance, leaves by longjmp where it fails, to where its thread
// compiled last: the task's robot is compiled on another one.
Task LoadBeside(const KeptTask& kept) {
  return std::async(std::launch::async,
                    [&] {
                      loads_task = true;
                      return ParseTask(kept.text, kept.file);
                    })
      .get();
}

// a thread that plans waits for Python's lock in such a residual, and whoever frees the data may hold it
bool MayWaitForPython(const Task& task) {
  pugi::xml_document text;
  const bool own_residual = text.load_string(task.text.c_str()) && text.select_node("//*[@callback]");
  return own_residual && dlsym(RTLD_DEFAULT, "Py_IsInitialized") != nullptr;
}

class MpcPlugin {
 public:
  MpcPlugin(const mjModel* m, mjData* d, int instance);
  void Reset(const mjModel* m);
  void Compute(const mjModel* m, mjData* d, int capability);

 private:
  void Start(const mjModel* m, const mjData* d);
  void MoveGoals(const mjData* d);
  void Control(const mjModel* m, const mjData* d, HeldControl* control);
  void GiveUp(const std::string& why);
  void Load(const mjModel* m, const std::string& path, bool wait);

  mjData* data_;
  const int instance_;
  const std::string owner_;
  bool start_ = false;
  double limit_ = kInf, interval_ = 0;
  std::optional<MpcController> controller_;
  VectorXd x0_, context_;   // where the task starts
  std::vector<int> goals_;  // mocap bodies that move them, by number; -1: none
  bool started_ = false, failed_ = false;
  double asked_ = 0;
};

MpcPlugin::MpcPlugin(const mjModel* m, mjData* d, int instance)
    : data_(d), instance_(instance), owner_(Attributes(m, instance).owner()) {
  const Attributes attributes(m, instance);
  const std::string path = attributes.Required("task");
  const bool wait = attributes.Choice("wait", {"off", "on"}, 0) == 1;
  start_ = attributes.Choice("start", {"off", "on"}, 0) == 1;
  limit_ = attributes.Positive("limit", wait ? kInf : kLimit);
  if (loads_task)
    attributes.Fail("task",
                    "its model has this plugin itself, and plans need the robot without it: put the plugin into a "
                    "file of its own that includes the robot's");
  CheckWritesControls(m, attributes, instance);
  try {
    Load(m, path, wait);
  } catch (const std::exception& error) {
    if (IsBeingCompiled(m)) attributes.Fail("task", error.what());
    WarnOnce(owner_ + ": task: " + error.what());
    return;
  }
  if (!wait && MayWaitForPython(controller_->task())) {
    controller_.reset();
    attributes.Fail("wait",
                    "the task has a residual of the host's own, for which a thread may have to wait for Python: "
                    "set it to on");
  }
  const Task& task = controller_->task();
  interval_ = task.knot_time();
  x0_ = task.x0;
  context_ = task.context;
  for (int i = 0; i < controller_->goals().size(); ++i) {
    const int body = mj_name2id(m, mjOBJ_BODY, GoalBody(controller_->goals(), i).c_str());
    goals_.push_back(body < 0 ? -1 : m->body_mocapid[body]);
  }
}

// the task as it was when the model was compiled, whatever became of its file; of a model that was saved compiled, as it
// is now
void MpcPlugin::Load(const mjModel* m, const std::string& path, bool wait) {
  RefusePythonCallbacks();
  std::optional<Task> task;
  std::string why;
  const auto fits = [&](const KeptTask& kept) {
    try {
      task.emplace(LoadBeside(kept));
      MatchRobot(*task, m, "this robot");
      return true;
    } catch (const std::exception& error) {
      why = error.what();
      return false;
    }
  };
  const std::lock_guard<std::mutex> lock(kept_tasks_mutex);
  const bool found = !IsBeingCompiled(m) && KeptTasks().Find(m, path, fits);
  if (!found && why.empty()) {
    std::error_code ignored;
    KeptTask read{std::filesystem::absolute(path, ignored).string(), ReadFile(path, "task file '" + path + "'")};
    if (fits(read)) KeptTasks().Keep(m, path, std::move(read));
  }
  if (!why.empty() && !found) throw Error(ErrorCode::kInvalidArgument, why);
  controller_.emplace(std::move(*task), MpcControllerOptions{.threads = !wait});
}

void MpcPlugin::Reset(const mjModel* m) {
  started_ = failed_ = false;
  if (!start_ || !controller_) return;
  LoadState(Dims(m), data_, x0_.data());
  SetFittingContext(controller_->task().model.get(), context_, m, data_, kStartContext);
}

void MpcPlugin::GiveUp(const std::string& why) {
  failed_ = true;
  mju_warning("%s: it does nothing until a reset: %s", owner_.c_str(), why.c_str());
}

void MpcPlugin::Start(const mjModel* m, const mjData* d) {
  Clock::time_point begin = Clock::now();
  started_ = controller_->Start(m, d, [&](const IterationRecord&) { return SecondsSince(begin) < limit_; });
  if (!started_) throw Error(ErrorCode::kInvalidArgument, controller_->Report().first_plan);
}

void MpcPlugin::MoveGoals(const mjData* d) {
  MpcGoals& goals = controller_->goals();
  for (int i = 0; i < goals.size(); ++i) {
    if (goals_[static_cast<std::size_t>(i)] < 0) continue;
    const Eigen::Vector3d place(d->mocap_pos + 3 * static_cast<std::ptrdiff_t>(goals_[static_cast<std::size_t>(i)]));
    const Eigen::Vector3d before = goals.Place(i);
    const bool moves = (before.array().isFinite() && place.array() != before.array()).any();
    if (moves && place.allFinite()) goals.Move(i, place);
  }
}

void MpcPlugin::Control(const mjModel* m, const mjData* d, HeldControl* control) {
  RefusePythonCallbacks();
  MoveGoals(d);
  const double since = d->time - control->made_at();
  if (started_ && d->time < asked_) started_ = false;
  if (!started_) {
    // a copy, or a time gone by that is looked at again: it has a control, and what comes after begins anew
    if (since >= 0 && since <= std::max(interval_, m->opt.timestep) * (1 + kIntervalSlack)) return;
    Start(m, d);
  }
  asked_ = d->time;
  mju_copy(control->u(), controller_->Control(d).data(), static_cast<int>(m->nu));
  if (!(since >= 0 && since < interval_ * (1 - kIntervalSlack))) control->SetMade();
}

void MpcPlugin::Compute(const mjModel* m, mjData* d, int /*capability*/) {
  if (IsBeingCompiled(m) || failed_ || !controller_) return;
  HeldControl control(m, d, instance_);
  std::string why;
  if (control.BeginsStep()) {
    const EngineGuard guard;  // what it warns of plans stays here
    try {
      Control(m, d, &control);
    } catch (const std::exception& error) {
      why = error.what();
    }
  }
  if (!why.empty()) return GiveUp(why);
  control.Act();
}

}  // namespace

void RegisterMpc() { RegisterOnce(MakeControlPlugin<MpcPlugin>(kMpcName, kMpcAttributes)); }

}  // namespace costate
