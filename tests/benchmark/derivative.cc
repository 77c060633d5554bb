// Linearize at each level against one mj_step and against mjd_transitionFD: one table of ratios, all in this run.
//   benchmark_derivative [model.xml …]     default: models of this repository, settled in contact
// A and B only, one thread, the least of several repeats; the models' own integrator and solver.
#include <costate/derivative.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "derivative/step_difference.h"

namespace costate {
namespace {

constexpr double kSettle = 0.5;    // [s] of simulation before measuring
constexpr double kMeasure = 0.15;  // [s] of measuring each number …
constexpr int kRepeats = 5;        // … in so many parts, of which the fastest counts
constexpr double kNone = std::numeric_limits<double>::infinity();

double Seconds(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  double best = kNone;
  call();
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const auto start = Clock::now();
    double seconds = 0;
    int calls = 0;
    while (calls == 0 || seconds < kMeasure / kRepeats) {
      call();
      ++calls;
      seconds = std::chrono::duration<double>(Clock::now() - start).count();
    }
    best = std::min(best, seconds / calls);
  }
  return best;
}

std::string Ratio(double seconds, double unit) {
  return std::isfinite(seconds) ? fmt::format("{:.3g}", seconds / unit) : std::string("-");
}

// seconds of one Linearize, or kNone where the level does not cover the model
double LinearizeSeconds(const mjModel* model, const mjData* data, Level level, bool centered) {
  Linearizer linearizer(model, {.level = level, .sensors = false, .centered = centered});
  linearizer.SetContext(GetContext(model, data));
  const VectorXd x = GetState(model, data), u = Eigen::Map<const VectorXd>(data->ctrl, model->nu);
  StepDerivative derivative;
  try {
    return Seconds([&] { linearizer.Linearize(x, u, &derivative); });
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return kNone;
  }
}

void Row(const std::string& file) {
  const ModelPtr model = LoadModel(file);
  const mjModel* m = model.get();
  const Dims dims(m);
  const DataPtr data = MakeData(m), work = MakeData(m);
  for (int i = 0; i < kSettle / m->opt.timestep; ++i) mj_step(m, data.get());

  // one step from the same state again and again, sensors off on all sides
  mjModel plain = *m;
  plain.opt.disableflags |= mjDSBL_SENSOR;
  VectorXd state(mj_stateSize(m, mjSTATE_INTEGRATION));
  mj_getState(m, data.get(), state.data(), mjSTATE_INTEGRATION);
  const double step = Seconds([&] {
    mj_setState(&plain, work.get(), state.data(), mjSTATE_INTEGRATION);
    mj_step(&plain, work.get());
  });
  double transition = kNone;
  if (WhyNotTransitionFd(m, false) == nullptr) {
    MatrixXd A(dims.ndx, dims.ndx), B(dims.ndx, dims.nu);
    transition = Seconds([&] {
      mj_setState(&plain, work.get(), state.data(), mjSTATE_INTEGRATION);
      mjd_transitionFD(&plain, work.get(), 1e-6, 0, A.data(), B.data(), nullptr, nullptr);
    });
  }
  const double forward = LinearizeSeconds(m, data.get(), Level::kStep, false);
  const double residual = LinearizeSeconds(m, data.get(), Level::kResidual, true);
  const double analytic = LinearizeSeconds(m, data.get(), Level::kAnalytic, true);
  const double best = LinearizeSeconds(m, data.get(), Level::kBest, true);
  fmt::print("{:<24} {:>4} {:>4} {:>4} {:>9.2f} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n",
             file.substr(file.find_last_of('/') + 1), dims.nv, data->ncon, data->nefc, 1e6 * step, Ratio(transition, step),
             Ratio(forward, step), Ratio(residual, step), Ratio(analytic, step), Ratio(best, step), Ratio(transition, best));
  std::fflush(stdout);
}

}  // namespace
}  // namespace costate

int main(int argc, char** argv) {
  std::vector<std::string> files(argv + 1, argv + argc);
  if (files.empty()) {
    for (const char* name : {"cartpole", "acrobot", "hopper", "arm", "quadrotor", "quadruped", "humanoid"}) {
      files.push_back(std::string(COSTATE_MODELS) + "/" + name + "/" + name + ".xml");
    }
  }
  fmt::print("A and B in multiples of one mj_step (µs); transitionFD and level 3 forward, the others centred or exact\n");
  fmt::print("{:<24} {:>4} {:>4} {:>4} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "model", "nv", "ncon", "nefc", "step",
             "transFD", "level 3", "level 2", "level 1", "best", "FD/best");
  int failed = 0;
  for (const std::string& file : files) {
    try {
      costate::Row(file);
    } catch (const costate::Error& error) {
      fmt::print(stderr, "{}: {}\n", file, error.what());
      failed = 1;
    }
  }
  return failed;
}
