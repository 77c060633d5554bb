// MPC of a robot that others move.
#include <costate/mpc.h>
#include <costate/state.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/engine_guard.h"
#include "core/interval.h"
#include "core/state_layout.h"
#include "optimizer/mpc_driver.h"
#include "optimizer/mpc_plant.h"

namespace costate {
namespace {

constexpr std::size_t kMost = 10'000;  // latencies and events: then half of them goes

// returns how many are gone
template <typename T>
int KeepLast(std::vector<T>* all) {
  if (all->size() <= kMost) return 0;
  const auto gone = static_cast<std::ptrdiff_t>(all->size() - kMost / 2);
  all->erase(all->begin(), all->begin() + gone);
  return static_cast<int>(gone);
}

const Task& Checked(const Task& task, double latency) {
  CheckMpcTask(task, latency);
  return task;
}

}  // namespace

struct MpcController::Impl {
  Impl(Task given, const MpcControllerOptions& o)
      : task(std::move(given)),
        options(o),
        goals(Checked(task, o.latency)),
        control_time(task.knot_time()),
        given_context(task.context),
        data(MakeData(task.model.get())) {}

  void Clear() {
    schedule.reset();  // its thread ends
    driver.reset();
    report = {};
    began.reset();
    u.resize(0);
  }

  static_assert(mjSTATE_EQ_ACTIVE < mjSTATE_MOCAP_POS && mjSTATE_MOCAP_POS < mjSTATE_MOCAP_QUAT);

  // of a robot that has these states in this context
  void Measure(double time, ConstVectorRef x, const mjData* from, MpcMeasurement* measured) {
    const mjModel* m = task.model.get();
    measured->time = time;
    measured->x = x;
    SetContext(m, data.get(), given_context);
    measured->moving = GetMovingContext(m, data.get());
    measured->scene = GetStatePart(m, data.get(), kSceneSignature);
    if (from) {
      GetFittingState(robot, from, m, kMovingSignature, &measured->moving);
      GetFittingState(robot, from, m, mjSTATE_EQ_ACTIVE, &measured->scene);  // the first of the scene
      mjtNum* places = measured->scene.data() + m->neq;
      mjtNum* turns = places + 3 * m->nmocap;
      for (std::size_t k = 0; k < mocap.size(); ++k) {
        std::copy_n(from->mocap_pos + 3 * mocap[k], 3, places + 3 * k);
        std::copy_n(from->mocap_quat + 4 * mocap[k], 4, turns + 4 * k);
      }
    } else {
      static_assert(mjSTATE_TIME == 1);  // the engine's clock, first of what moves
      measured->moving[0] += time;
    }
  }

  // of this robot from now on; what was is gone, whether there will be a plan or not
  bool Begin(const mjModel* model, std::vector<int> its_mocap, ConstVectorRef x, const mjData* from,
             const IterationCallback& first) {
    CheckFinite(task.model.get(), "MPC: the state to start from", x, StateNames);
    Clear();
    robot = model;
    mocap = std::move(its_mocap);
    MpcMeasurement measured;
    Measure(0, x, from, &measured);
    task.x0 = x;
    task.context = given_context;
    SetMeasured(task, measured, data.get());
    task.context = GetContext(task.model.get(), data.get());
    driver.emplace(task, &goals, &report);
    if (!driver->First(first)) {
      driver.reset();
      return false;
    }
    schedule = options.threads ? MakePlannerThread(&*driver, measured) : MakeLockStep(&*driver, options.latency);
    return true;
  }

  const VectorXd& Control(double time, ConstVectorRef x, const mjData* from) {
    if (!schedule) throw Error(ErrorCode::kInvalidArgument, "MPC: there is no plan to follow, call Start first");
    if (!std::isfinite(time))
      throw Error(ErrorCode::kInvalidArgument, fmt::format("MPC: the robot's time is {:g} s, expected finite", time));
    if (!began) began = asked = time;
    if (time < asked) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("MPC: the robot's time went back from {:.9g} to {:.9g} s: Start begins anew", asked, time));
    }
    asked = time;
    const double now = time - *began, interval = std::floor(now / control_time + kIntervalSlack);
    if (u.size() > 0 && interval == interval_) return u;  // held
    interval_ = interval;
    MpcMeasurement measured;
    Measure(now, x, from, &measured);
    u = Drive(&*driver, schedule.get(), std::move(measured));
    KeepLast(&report.latency);
    report.events_before += KeepLast(&report.events);
    return u;
  }

  Task task;
  const MpcControllerOptions options;
  MpcGoals goals;
  const double control_time;
  const VectorXd given_context;
  const DataPtr data;
  const mjModel* robot = nullptr;  // that Control's data are of; null: it is known by its state
  std::vector<int> mocap;          // of it, for each of the task's
  MpcReport report;
  std::optional<MpcDriver> driver;
  std::unique_ptr<MpcSchedule> schedule;
  std::optional<double> began;  // the robot's time when it was first asked for a control
  double asked = 0, interval_ = 0;
  VectorXd u;
};

MpcController::MpcController(Task task, const MpcControllerOptions& options)
    : impl_(std::make_unique<Impl>(std::move(task), options)) {}
MpcController::~MpcController() = default;

const Task& MpcController::task() const { return impl_->task; }
MpcGoals& MpcController::goals() { return impl_->goals; }
const MpcGoals& MpcController::goals() const { return impl_->goals; }

bool MpcController::Start(const mjModel* model, const mjData* data, const IterationCallback& first) {
  RefuseInCallback("MpcController::Start");
  std::vector<int> mocap = MatchRobot(impl_->task, NotNull(model), "the controlled robot");
  return impl_->Begin(model, std::move(mocap), GetState(model, data), data, first);
}

bool MpcController::Start(ConstVectorRef x, const IterationCallback& first) {
  RefuseInCallback("MpcController::Start");
  const mjModel* m = impl_->task.model.get();
  CheckSize(m, "x", x.size(), "nx", Dims(m).nx);
  const int beside = StatePartSize(m, mjSTATE_HISTORY | mjSTATE_PLASTIC | mjSTATE_PLUGIN);
  if (beside > 0) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("MPC: a state of '{}' does not say how it goes on: {} numbers of delays, plastic "
                            "deformation or plugins do, too; hand over its mjData",
                            ModelName(m), beside));
  }
  return impl_->Begin(nullptr, {}, x, nullptr, first);
}

const VectorXd& MpcController::Control(const mjData* data) {
  RefuseInCallback("MpcController::Control");
  if (!impl_->robot)
    throw Error(ErrorCode::kInvalidArgument, "MPC: the controller was not started with a model and its data");
  return impl_->Control(data ? data->time : 0, GetState(impl_->robot, data), data);
}

const VectorXd& MpcController::Control(double time, ConstVectorRef x) {
  RefuseInCallback("MpcController::Control");
  const mjModel* m = impl_->task.model.get();
  if (impl_->robot)
    throw Error(ErrorCode::kInvalidArgument, "MPC: the controller was started with data, and is asked about them");
  CheckSize(m, "x", x.size(), "nx", Dims(m).nx);
  return impl_->Control(time, x, nullptr);
}

MpcReport MpcController::Report() const {
  if (impl_->driver) impl_->driver->Finish();
  return impl_->report;
}

}  // namespace costate
