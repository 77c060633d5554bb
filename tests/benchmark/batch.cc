// How much a processor does a second of what learning asks for: steps, A and B, gradients through 100 steps; of many
// states at once, on one thread, two, four … and all.
//   benchmark_batch [MODEL.xml …]     default: models of this repository
// Models start in their first keyframe, if there is one, and settle for half a second, as in benchmark_derivative; the
// states are those of one motion from there under small waves of all controls. The loss is that of benchmark_gradient.
// mjx_batch.py prints the same of MJX.
#include <costate/costate.h>
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "benchmark/effort.h"
#include "benchmark/fastest.h"

namespace {

constexpr double kSettle = 0.5;   // [s] of simulation before measuring
constexpr double kMeasure = 1.0;  // [s] of measuring each number
constexpr int kSteps = 1000;      // linearized a call
constexpr int kLength = 100;      // steps of a motion whose gradient is taken

// units a second of a call that does so many
double Rate(int units, const std::function<void()>& call) { return units / costate::FastestCall(call, kMeasure); }

void Rows(const std::string& file, int cores) {
  const costate::ModelPtr model = costate::LoadModel(file);
  mjModel* m = model.get();
  m->opt.disableflags |= mjDSBL_SENSOR;
  const costate::DataPtr data = costate::MakeData(m);
  if (m->nkey > 0) mj_resetDataKeyframe(m, data.get(), 0);
  for (int i = 0; i < kSettle / m->opt.timestep; ++i) mj_step(m, data.get());
  const costate::VectorXd context = costate::GetContext(m, data.get()), x0 = costate::GetState(m, data.get());
  const costate::MatrixXd U = costate::WavedControls(Eigen::Map<const costate::VectorXd>(data->ctrl, m->nu), kSteps);
  const costate::MatrixXd U100 = U.leftCols(kLength);
  const costate::Effort loss(m);

  double first[3] = {};
  for (int threads = 1;; threads = std::min(2 * threads, cores)) {
    costate::Simulator simulator(m, context, 1, threads);
    costate::Trajectory motion;
    std::vector<costate::Trajectory> motions(static_cast<std::size_t>(threads));
    const auto simulate = [&] {
      simulator.ParallelFor(threads,
                            [&](int i, int w) { simulator.Rollout(x0, U, &motions[static_cast<std::size_t>(i)], w); });
    };
    const double steps = Rate(threads * kSteps, simulate);

    if (const costate::RolloutStatus status = simulator.Rollout(x0, U, &motion); !status.ok()) {
      throw costate::Error(costate::ErrorCode::kInvalidArgument, "the motion that is measured diverges");
    }
    const costate::LinearizeOptions options = {.sensors = false};
    const double jacobians =
        Rate(kSteps, [&] { simulator.LinearizeEach(motion, options, [](int, int, costate::StepDerivative*) {}); });

    costate::Adjoint adjoint(m, context, 1, threads);
    const int batch = 8 * threads;
    std::vector<costate::RolloutGradient> g(static_cast<std::size_t>(batch));
    const double gradients = Rate(batch, [&] {
      adjoint.ParallelFor(batch, [&](int i, int w) {
        adjoint.Gradient(x0, (1 + 0.01 * i) * U100, loss, {}, &g[static_cast<std::size_t>(i)], w);
      });
    });
    const double rates[3] = {steps, jacobians, gradients};
    if (threads == 1) std::copy(rates, rates + 3, first);
    const std::string name = file.substr(file.find_last_of('/') + 1);
    fmt::print("{:<20} {:>4} {:>8}", name.substr(0, 20), m->nv, threads);
    for (int k = 0; k < 3; k++) fmt::print(" {:>11.0f} {:>6.2f}", rates[k], rates[k] / first[k]);
    fmt::print("   {:.8g}\n", g[0].loss);
    std::fflush(stdout);
    if (threads == cores) return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> files(argv + 1, argv + argc);
  if (files.empty()) {
    for (const char* name : {"cartpole", "arm", "hopper", "quadruped", "humanoid"}) {
      files.push_back(std::string(COSTATE_MODELS) + "/" + name + "/" + name + ".xml");
    }
  }
  fmt::print(
      "a second: steps; A and B with mj_forward, along a motion of {} steps; gradients of a loss by all controls and "
      "the\nstart through {} steps; behind each what one thread does goes into it so often\n"
      "{:<20} {:>4} {:>8} {:>11} {:>6} {:>11} {:>6} {:>11} {:>6}   {}\n",
      kSteps, kLength, "model", "nv", "threads", "steps", "", "A, B", "", "gradients", "", "loss");
  int failed = 0;
  for (const std::string& file : files) {
    try {
      Rows(file, static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
    } catch (const costate::Error& error) {
      fmt::print(stderr, "{}: {}\n", file, error.what());
      failed = 1;
    }
  }
  return failed;
}
