// The C interface to plans for a robot that the host moves. Nothing throws or prints past it.
#include <costate/costate_c.h>
#include <costate/mpc.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "engine/c_call.h"
#include "engine/python_callbacks.h"
#include "engine/two_engines.h"

struct costate_mpc {
  costate_mpc(costate::Task task, const costate::MpcControllerOptions& options)
      : controller(std::move(task), options) {}

  costate::MpcController controller;
};

namespace costate {
namespace {

using Progress = int (*)(void*, int, mjtNum, mjtNum);

// returns how the first plan's solver ended
std::string StartFrom(costate_mpc* mpc, Progress progress, void* user, auto&& start) {
  RefuseNull(mpc, "mpc");
  RefuseTwoEngines();
  RefusePythonCallbacks();
  IterationCallback callback;
  if (progress) {
    callback = [=](const IterationRecord& record) {
      return progress(user, record.iteration, record.cost, record.violation) == 0;
    };
  }
  const bool has_plan = start(&mpc->controller, callback);
  std::string how = mpc->controller.Report().first_plan;
  if (!has_plan) throw Error(ErrorCode::kInvalidArgument, std::move(how));
  return how;
}

void CopyControl(const VectorXd& from, mjtNum* u) {
  if (u) mju_copy(u, from.data(), static_cast<int>(from.size()));
}

}  // namespace
}  // namespace costate

costate_mpc* costate_make_mpc(const char* file, int threads, char* error, int error_sz) {
  costate_mpc* mpc = nullptr;
  costate::SimulateFromC("costate_make_mpc", error, error_sz, [&] {
    costate::RefuseTwoEngines();
    costate::RefuseNull(file, "file");
    costate::RefusePythonCallbacks();
    mpc = new costate_mpc(costate::LoadTask(file), {.threads = threads != 0});
  });
  return mpc;
}

void costate_delete_mpc(costate_mpc* mpc) { delete mpc; }

const mjModel* costate_mpc_model(const costate_mpc* mpc) { return mpc ? mpc->controller.task().model.get() : nullptr; }

mjtNum costate_mpc_interval(const costate_mpc* mpc) { return mpc ? mpc->controller.task().knot_time() : 0; }

int costate_mpc_start(costate_mpc* mpc, const mjModel* m, const mjData* d, costate::Progress progress, void* user,
                      char* error, int error_sz) {
  return costate::SimulateFromC("costate_mpc_start", error, error_sz, [&] {
    return costate::StartFrom(mpc, progress, user, [&](costate::MpcController* controller, const auto& callback) {
      costate::RefuseNull(m, "m");
      costate::RefuseNull(d, "d");
      return controller->Start(m, d, callback);
    });
  });
}

int costate_mpc_start_at(costate_mpc* mpc, const mjtNum* x, costate::Progress progress, void* user, char* error,
                         int error_sz) {
  return costate::SimulateFromC("costate_mpc_start_at", error, error_sz, [&] {
    return costate::StartFrom(mpc, progress, user, [&](costate::MpcController* controller, const auto& callback) {
      costate::RefuseNull(x, "x");
      const costate::Dims dims(controller->task().model.get());
      return controller->Start(Eigen::Map<const costate::VectorXd>(x, dims.nx), callback);
    });
  });
}

int costate_mpc_control(costate_mpc* mpc, const mjData* d, mjtNum* u, char* error, int error_sz) {
  return costate::SimulateFromC("costate_mpc_control", error, error_sz, [&] {
    costate::RefuseNull(mpc, "mpc");
    costate::RefuseNull(d, "d");
    costate::RefusePythonCallbacks();
    costate::CopyControl(mpc->controller.Control(d), u);
  });
}

int costate_mpc_control_at(costate_mpc* mpc, mjtNum time, const mjtNum* x, mjtNum* u, char* error, int error_sz) {
  return costate::SimulateFromC("costate_mpc_control_at", error, error_sz, [&] {
    costate::RefuseNull(mpc, "mpc");
    costate::RefuseNull(x, "x");
    costate::RefusePythonCallbacks();
    const costate::Dims dims(mpc->controller.task().model.get());
    costate::CopyControl(mpc->controller.Control(time, Eigen::Map<const costate::VectorXd>(x, dims.nx)), u);
  });
}

int costate_mpc_ngoal(const costate_mpc* mpc) { return mpc ? mpc->controller.goals().size() : 0; }

const char* costate_mpc_goal(const costate_mpc* mpc, int i) {
  return mpc && i >= 0 && i < costate_mpc_ngoal(mpc) ? mpc->controller.goals().Name(i).c_str() : nullptr;
}

int costate_mpc_move_goal(costate_mpc* mpc, int i, const mjtNum place[3], char* error, int error_sz) {
  return costate::CallFromC(error, error_sz, [&] {
    costate::RefuseNull(mpc, "mpc");
    costate::RefuseNull(place, "place");
    mpc->controller.goals().Move(i, Eigen::Vector3d(place[0], place[1], place[2]));
  });
}

void costate_mpc_get_report(const costate_mpc* mpc, costate_mpc_report* report, char* text, int text_sz) {
  if (report) *report = {};
  costate::CallFromC(text, text_sz, [&]() -> std::string {
    costate::RefuseNull(mpc, "mpc");
    const costate::MpcReport now = mpc->controller.Report();
    if (report) {
      *report = {now.plans,
                 now.plans_taken,
                 now.plans_over_budget,
                 now.fallback_steps,
                 now.events_before + static_cast<int>(now.events.size()),
                 now.Latency(0.5),
                 now.Latency(1)};
    }
    std::string lines;
    const auto wanted = static_cast<std::size_t>(std::max(text && text_sz > 0 ? text_sz : 0, 0));
    for (auto event = now.events.rbegin(); event != now.events.rend() && lines.size() < wanted; ++event)
      lines += fmt::format("{} at {:.4g} s: {}\n", ToString(event->kind), event->time, event->reason);
    return lines;
  });
}
