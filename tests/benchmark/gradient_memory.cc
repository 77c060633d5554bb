// The humanoid's gradient over a long motion within a memory that is given: what the process really takes.
//   benchmark_gradient_memory [steps; by default 100000] [MiB for kept states, controls, gradient and health together;
//   by default 64]
#include <costate/costate.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string>

#include "support/peak_memory.h"

namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// ½ |v|² and 0.05 |u − u_0|² at every knot, a thousandth of their sum
class Calm final : public costate::Loss {
 public:
  explicit Calm(const mjModel* model) : nq_(static_cast<int>(model->nq)), nv_(static_cast<int>(model->nv)) {}
  double Value(const costate::KnotView& k) const override {
    return 1e-3 * (0.5 * k.x.segment(nq_, nv_).squaredNorm() + 0.05 * k.u.squaredNorm());
  }
  void Gradient(const costate::KnotView& k, costate::KnotGradient* out) const override {
    out->x.segment(nv_, nv_) = 1e-3 * k.x.segment(nq_, nv_);
    if (k.t < k.N) out->u = 1e-4 * k.u;
  }
  bool NeedsSensors() const override { return false; }

 private:
  int nq_, nv_;
};

double MiB(double bytes) { return bytes / (1 << 20); }

}  // namespace

int main(int argc, char** argv) {
  const int N = argc > 1 ? std::atoi(argv[1]) : 100000;
  const double budget = (argc > 2 ? std::atof(argv[2]) : 64) * (1 << 20);
  const costate::ModelPtr model = costate::LoadModel(std::string(COSTATE_MODELS) + "/humanoid/humanoid.xml");
  const costate::DataPtr data = costate::MakeDataAtKey(model.get(), "stand");
  const costate::VectorXd context = costate::GetContext(model.get(), data.get()),
                          x0 = costate::GetState(model.get(), data.get());
  const double inputs = 8.0 * static_cast<double>(model->nu) * N, health = 8.0 * (2.0 * N + 1);
  const double states = budget - 2 * inputs - health - 4 * (1 << 20);  // 4 MiB: the worker's own
  if (states <= 0) {
    fmt::print(stderr, "controls and gradient alone take {:.1f} MiB\n", MiB(2 * inputs + health));
    return 2;
  }

  costate::support::ResetPeak();
  const double before = costate::support::ResidentBytes();
  costate::MatrixXd U(model->nu, N);
  for (int t = 0; t < N; t++) {
    for (int i = 0; i < model->nu; i++) U(i, t) = data->ctrl[i] + 0.02 * std::sin(0.01 * t + i);
  }
  costate::Adjoint adjoint(model.get(), context);
  costate::RolloutGradient g;
  const Clock::time_point start = Clock::now();
  adjoint.Gradient(x0, U, Calm(model.get()), {.memory = static_cast<std::size_t>(states)}, &g);
  const double seconds = Seconds(start), peak = costate::support::PeakBytes() - before;
  fmt::print("humanoid, {} steps: {} by {} controls and the start\n", N, g.status.ok() ? "gradient" : "FAILED",
             U.size());
  fmt::print(
      "  peak memory    {:.1f} MiB more than before it: controls {:.1f}, gradient {:.1f}, states {:.1f}, health "
      "{:.1f}\n",
      MiB(peak), MiB(inputs), MiB(inputs), MiB(static_cast<double>(g.kept_bytes)), MiB(health));
  fmt::print("  allowed        {:.1f} MiB\n", MiB(budget));
  fmt::print("  time           {:.1f} s, {} knots simulated again\n", seconds, g.recomputed);
  fmt::print("  loss           {:.6g}; |gradient by controls| {:.6g}\n  health         {}\n", g.loss, g.U.norm(),
             g.health.text);
  return g.status.ok() && peak <= budget ? 0 : 1;
}
