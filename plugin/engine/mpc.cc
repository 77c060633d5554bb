// costate.mpc: the host's robot goes where a task says, by plans made while it moves. README.md.
#include <costate/mpc.h>
#include <fmt/format.h>

#include <filesystem>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <vector>

#include "core/engine_guard.h"
#include "core/lap.h"
#include "core/state_layout.h"
#include "engine/held_control.h"
#include "engine/mpc_host.h"
#include "engine/python_callbacks.h"
#include "optimizer/mpc_plant.h"

namespace costate {
namespace {

constexpr const char* kMpcAttributes[] = {"task", "wait", "start", "limit"};
constexpr double kLimit = 10;  // [s] for the first plan, during which the host stands still

// what a reset puts back beside x
constexpr int kMpcStart = mjSTATE_WARMSTART | mjSTATE_QFRC_APPLIED | mjSTATE_XFRC_APPLIED | mjSTATE_EQ_ACTIVE |
                          mjSTATE_MOCAP_POS | mjSTATE_MOCAP_QUAT | mjSTATE_USERDATA | mjSTATE_PLASTIC;

// where the task file of an attribute was when a model was compiled: data may be made wherever the host works by then
std::string FileOf(const std::string& path, bool compiling) {
  static std::mutex mutex;
  static auto* known = new std::map<std::string, std::string>;  // data may be made after main
  std::error_code ignored;
  const std::lock_guard<std::mutex> lock(mutex);
  if (compiling) (*known)[path] = std::filesystem::absolute(path, ignored).string();
  const auto at = known->find(path);
  return at == known->end() ? path : at->second;
}

// The engine's compiler, which may be what asks for this instance, leaves by longjmp where it fails, to where its thread
// compiled last: the task's robot is compiled on another one.
Task LoadBeside(const std::string& file) {
  return std::async(std::launch::async, [&] { return LoadTask(file); }).get();
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

  mjData* data_;
  const int instance_;
  const std::string owner_;
  bool start_ = false;
  double limit_ = kLimit, interval_ = 0;
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
  limit_ = attributes.Positive("limit", kLimit);
  try {
    RefusePythonCallbacks();
    controller_.emplace(LoadBeside(FileOf(path, IsBeingCompiled(m))), MpcControllerOptions{.threads = !wait});
    CheckRobot(controller_->task(), m, "this robot");
    MocapBodies(controller_->task(), m, "this robot");
  } catch (const std::exception& error) {
    attributes.Fail("task", error.what());
  }
  const Task& task = controller_->task();
  interval_ = task.substeps * task.model->opt.timestep;
  x0_ = task.x0;
  context_ = task.context;
  for (int i = 0; i < controller_->goals().size(); ++i) {
    const int body = mj_name2id(m, mjOBJ_BODY, GoalBody(controller_->goals(), i).c_str());
    goals_.push_back(body < 0 ? -1 : m->body_mocapid[body]);
  }
  CheckWritesControls(m, attributes, instance);
}

void MpcPlugin::Reset(const mjModel* m) {
  started_ = failed_ = false;
  if (!start_) return;
  LoadState(Dims(m), data_, x0_.data());
  SetFittingContext(controller_->task().model.get(), context_, m, data_, kMpcStart);
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
    if (place.allFinite()) goals.Move(i, place);
  }
}

void MpcPlugin::Control(const mjModel* m, const mjData* d, HeldControl* control) {
  if (started_ && d->time < asked_) started_ = false;
  if (!started_) {
    // a copy, or a time gone by that is looked at again
    const double since = d->time - control->made_at();
    if (since >= 0 && since < interval_ * (1 - kIntervalSlack)) return;
    Start(m, d);
  }
  MoveGoals(d);
  asked_ = d->time;
  mju_copy(control->u(), controller_->Control(d).data(), static_cast<int>(m->nu));
  control->SetMade();
}

void MpcPlugin::Compute(const mjModel* m, mjData* d, int /*capability*/) {
  if (IsBeingCompiled(m) || failed_) return;
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
