// The gradient of a loss through a rollout by all controls and the start, against the rollout itself: one table of ratios.
//   benchmark_gradient [largest number of steps; by default 10000]
#include <costate/costate.h>
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string>

namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// ½ |v|² at the end and 0.05 |u|² on the way
class Effort final : public costate::Loss {
 public:
  explicit Effort(const mjModel* model) : nq_(static_cast<int>(model->nq)), nv_(static_cast<int>(model->nv)) {}
  double Value(const costate::KnotView& k) const override {
    return k.t == k.N ? 0.5 * k.x.segment(nq_, nv_).squaredNorm() : 0.05 * k.u.squaredNorm();
  }
  void Gradient(const costate::KnotView& k, costate::KnotGradient* out) const override {
    if (k.t == k.N) {
      out->x.segment(nv_, nv_) = k.x.segment(nq_, nv_);
    } else {
      out->u = 0.1 * k.u;
    }
  }
  bool NeedsSensors() const override { return false; }

 private:
  int nq_, nv_;
};

void Rows(const std::string& name, const char* key, int most) {
  const costate::ModelPtr model = costate::LoadModel(std::string(COSTATE_MODELS) + "/" + name + "/" + name + ".xml");
  const costate::DataPtr data = costate::MakeDataAtKey(model.get(), key);
  const costate::VectorXd context = costate::GetContext(model.get(), data.get()), x0 = costate::GetState(model.get(), data.get());
  const Effort loss(model.get());
  costate::Simulator simulator(model.get(), context, 1, 1);
  costate::Adjoint adjoint(model.get(), context);
  for (int N = 100; N <= most; N *= 10) {
    costate::MatrixXd U(model->nu, N);
    for (int t = 0; t < N; t++) U.col(t) = Eigen::Map<const costate::VectorXd>(data->ctrl, model->nu);
    const int repeats = std::max(1, 2000 / N);
    costate::Trajectory motion;
    costate::RolloutGradient all, few;
    double rollout = 1e9, kept = 1e9, checkpointed = 1e9;
    const std::size_t bytes = sizeof(double) * static_cast<std::size_t>(simulator.dims().nx + mj_stateSize(model.get(), costate::kMovingSignature));
    const costate::AdjointOptions less = {.memory = bytes * static_cast<std::size_t>(2 * std::sqrt(N))};
    for (int i = 0; i < repeats; i++) {
      Clock::time_point start = Clock::now();
      simulator.Rollout(x0, U, &motion);
      rollout = std::min(rollout, Seconds(start));
      start = Clock::now();
      adjoint.Gradient(x0, U, loss, {}, &all);
      kept = std::min(kept, Seconds(start));
      start = Clock::now();
      adjoint.Gradient(x0, U, loss, less, &few);
      checkpointed = std::min(checkpointed, Seconds(start));
    }
    fmt::print("{:<11} {:>6} {:>11.3f} {:>9.2f} {:>9.2f} {:>11} {:>9.2f}  {}{}\n", name, N, 1e3 * rollout, kept / rollout,
               checkpointed / rollout, few.recomputed, static_cast<double>(few.kept_bytes) / (1 << 20),
               all.status.ok() ? all.health.text : "failed", few.U == all.U ? "" : "  THE TWO DIFFER");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int most = argc > 1 ? std::atoi(argv[1]) : 10000;
  fmt::print("gradient by all controls and the start, in multiples of the rollout: all states kept, or memory for 2 sqrt(T)\n");
  fmt::print("{:<11} {:>6} {:>11} {:>9} {:>9} {:>11} {:>9}  {}\n", "model", "T", "rollout ms", "all", "2 sqrt T", "recomputed",
             "MiB", "health");
  for (const auto& [name, key] : {std::pair{"cartpole", "hang"}, std::pair{"arm", "home"}, std::pair{"hopper", "stand"},
                                  std::pair{"quadruped", "stand"}, std::pair{"humanoid", "stand"}}) {
    try {
      Rows(name, key, most);
    } catch (const costate::Error& error) {
      fmt::print(stderr, "{}: {}\n", name, error.what());
      return 2;
    }
  }
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("peak memory {:.0f} MB\n", static_cast<double>(usage.ru_maxrss) / 1024);
}
