// The gradient of a loss through a rollout by all controls and the start, against the rollout itself: one table of
// ratios.
//   benchmark_gradient [largest number of steps; by default 10000]
#include <costate/costate.h>
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "benchmark/effort.h"

namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// of this thread, or of the whole process, alone: what else the machine does matters little
double ProcessorSeconds(clockid_t whose = CLOCK_THREAD_CPUTIME_ID) {
  timespec now;
  clock_gettime(whose, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// the model, with an accelerometer and a force sensor at each site of a body that moves
costate::ModelPtr LoadSensed(const std::string& file) {
  char error[500];
  const std::unique_ptr<mjSpec, void (*)(mjSpec*)> spec(mj_parseXML(file.c_str(), nullptr, error, sizeof error),
                                                        mj_deleteSpec);
  if (!spec) throw costate::Error(costate::ErrorCode::kParse, error);
  for (mjsElement* e = mjs_firstElement(spec.get(), mjOBJ_SITE); e; e = mjs_nextElement(spec.get(), e)) {
    if (mjs_getParent(e) == mjs_findBody(spec.get(), "world")) continue;
    for (const mjtSensor type : {mjSENS_ACCELEROMETER, mjSENS_FORCE}) {
      mjsSensor* sensor = mjs_addSensor(spec.get());
      sensor->type = type;
      sensor->objtype = mjOBJ_SITE;
      mjs_setString(sensor->objname, mjs_getString(mjs_getName(e)));
    }
  }
  return costate::ModelPtr(mj_compile(spec.get(), nullptr));
}

struct Motion {
  costate::ModelPtr model;
  costate::VectorXd context, x0, control;

  Motion(const std::string& name, const char* key, bool sensed = false) {
    const std::string file = std::string(COSTATE_MODELS) + "/" + name + "/" + name + ".xml";
    model = sensed ? LoadSensed(file) : costate::LoadModel(file);
    const costate::DataPtr data = costate::MakeDataAtKey(model.get(), key);
    context = costate::GetContext(model.get(), data.get());
    x0 = costate::GetState(model.get(), data.get());
    control = Eigen::Map<const costate::VectorXd>(data->ctrl, model->nu);
  }
  costate::MatrixXd Controls(int N) const { return costate::WavedControls(control, N); }
  costate::AdjointOptions RoomFor(double states, bool sensed) const {
    const costate::Dims dims(model.get());
    const int size = dims.nx + mj_stateSize(model.get(), costate::kMovingSignature) + (sensed ? dims.ns : 0);
    return {.memory = sizeof(double) * static_cast<std::size_t>(size) * static_cast<std::size_t>(states)};
  }
};

std::string Duration(double seconds) {
  return seconds < 1     ? fmt::format("{:.0f} ms", 1e3 * seconds)
         : seconds < 600 ? fmt::format("{:.0f} s", seconds)
                         : fmt::format("{:.1f} h", seconds / 3600);
}

void Rows(const std::string& name, const char* key, int most, bool sensed) {
  const Motion m(name, key, sensed);
  const costate::Effort loss(m.model.get(), sensed ? 1e-4 : 0);
  costate::Simulator simulator(m.model.get(), m.context, 1, 1);
  costate::Adjoint adjoint(m.model.get(), m.context);
  for (int N = 100; N <= most; N *= 10) {
    const costate::MatrixXd U = m.Controls(N);
    const int repeats = N < 10000 ? std::max(5, 2000 / N) : 2;
    costate::Trajectory motion;
    const costate::AdjointOptions options[] = {
        {}, m.RoomFor(2 * std::sqrt(N), sensed), m.RoomFor(std::sqrt(N), sensed)};
    costate::RolloutGradient g[3];
    double rollout = 1e9, seconds[] = {1e9, 1e9, 1e9};
    for (int i = 0; i < repeats; i++) {
      double start = ProcessorSeconds();
      simulator.Rollout(m.x0, U, &motion);
      rollout = std::min(rollout, ProcessorSeconds() - start);
      for (int k = 0; k < 3; k++) {
        start = ProcessorSeconds();
        adjoint.Gradient(m.x0, U, loss, options[k], &g[k]);
        seconds[k] = std::min(seconds[k], ProcessorSeconds() - start);
      }
    }
    const double inputs = static_cast<double>(U.size()) + simulator.dims().ndx, differences = 2 * inputs * rollout;
    fmt::print(
        "{:<10} {:>6} {:>10.3f} {:>7.2f} {:>7.2f} {:>7.2f} {:>8} {:>7.3f} {:>9} {:>9.0f}  {:<12.8g} {:<12.8g} {}{}\n",
        name, N, 1e3 * rollout, seconds[0] / rollout, seconds[1] / rollout, seconds[2] / rollout, g[2].recomputed,
        static_cast<double>(g[2].kept_bytes) / (1 << 20), Duration(differences), differences / seconds[0], g[0].loss,
        g[0].U.norm(), g[0].status.ok() ? g[0].health.text.substr(0, g[0].health.text.find_first_of(" :")) : "failed",
        g[1].U == g[0].U && g[2].U == g[0].U ? "" : "  THEY DIFFER");
  }
}

// gradients a second of 16 motions of 100 steps, on one thread and on two
void Batch(const std::string& name, const char* key) {
  const Motion m(name, key);
  const costate::Effort loss(m.model.get());
  constexpr int kMotions = 16, kRepeats = 5;
  double seconds[] = {1e9, 1e9}, work[] = {1e9, 1e9};
  std::vector<costate::RolloutGradient> g[2];
  for (int k = 0; k < 2; k++) {
    costate::Adjoint adjoint(m.model.get(), m.context, 1, k + 1);
    g[k].resize(kMotions);
    for (int repeat = 0; repeat < kRepeats; repeat++) {
      const Clock::time_point start = Clock::now();
      const double before = ProcessorSeconds(CLOCK_PROCESS_CPUTIME_ID);
      adjoint.ParallelFor(kMotions, [&](int i, int worker) {
        adjoint.Gradient(m.x0, (1 + 0.01 * i) * m.Controls(100), loss, {}, &g[k][static_cast<std::size_t>(i)], worker);
      });
      work[k] = std::min(work[k], ProcessorSeconds(CLOCK_PROCESS_CPUTIME_ID) - before);
      seconds[k] = std::min(seconds[k], Seconds(start));
    }
  }
  bool same = true;
  for (std::size_t i = 0; i < kMotions; i++) same = same && g[0][i].U == g[1][i].U && g[0][i].x0 == g[1][i].x0;
  fmt::print("{:<10} {:>12.0f} {:>12.0f} {:>8.2f} {:>10.2f}  {}\n", name, kMotions / seconds[0], kMotions / seconds[1],
             seconds[0] / seconds[1], work[1] / work[0], same ? "same bits" : "THEY DIFFER");
}

// tangents and second derivatives of 100 steps, in multiples of the rollout
void Products(const std::string& name, const char* key) {
  const Motion m(name, key);
  const costate::Effort loss(m.model.get());
  constexpr int kSteps = 100, kRepeats = 10;
  const costate::MatrixXd U = m.Controls(kSteps);
  costate::Simulator simulator(m.model.get(), m.context, 1, 1);
  costate::Tangent tangent(m.model.get(), m.context);
  costate::Curvature curvature(m.model.get(), m.context);
  costate::Trajectory motion;
  const costate::RolloutDirection d{costate::VectorXd::Ones(simulator.dims().ndx),
                                    costate::MatrixXd::Ones(U.rows(), U.cols())};
  const std::vector<costate::RolloutDirection> one(1, d), ten(10, d);
  costate::RolloutTangent pushed;
  costate::CurvatureProduct product;
  const std::function<void()> calls[] = {
      [&] { simulator.Rollout(m.x0, U, &motion); },    [&] { tangent.Push(motion, one, {}, &pushed); },
      [&] { tangent.Push(motion, ten, {}, &pushed); }, [&] { curvature.SetPoint(motion, loss); },
      [&] { curvature.GaussNewton(d, &product); },     [&] { curvature.Hessian(d, &product); }};
  double seconds[] = {1e9, 1e9, 1e9, 1e9, 1e9, 1e9};
  for (int i = 0; i < kRepeats; i++) {
    for (int k = 0; k < 6; k++) {
      const double start = ProcessorSeconds();
      calls[k]();
      seconds[k] = std::min(seconds[k], ProcessorSeconds() - start);
    }
  }
  fmt::print("{:<10}", name);
  for (int k = 1; k < 6; k++) fmt::print(" {:>12.2f}", seconds[k] / seconds[0]);
  fmt::print("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const int most = argc > 1 ? std::atoi(argv[1]) : 10000;
  const std::pair<const char*, const char*> motions[] = {
      {"cartpole", "hang"}, {"arm", "home"}, {"hopper", "stand"}, {"quadruped", "stand"}, {"humanoid", "stand"}};
  fmt::print(
      "gradient by all controls and the start, in multiples of the rollout: all states kept, room for 2 sqrt(T), for "
      "sqrt(T);\n"
      "knots simulated again and MiB kept are of the last. Processor time of one thread, the least of several runs. "
      "Central\n"
      "differences of the loss are not run: 2 rollouts an input, each as long as the one measured; then in multiples "
      "of the gradient\n");
  fmt::print("{:<10} {:>6} {:>10} {:>7} {:>7} {:>7} {:>8} {:>7} {:>9} {:>9}  {:<12} {:<12} {}\n", "model", "T",
             "rollout ms", "all", "2 sqrt", "sqrt", "again", "MiB", "differ.", "times", "loss", "|by controls|",
             "health");
  try {
    for (const auto& [name, key] : motions) Rows(name, key, most, false);
    fmt::print(
        "the same with a loss that reads all sensors at every knot, with an accelerometer and a force sensor at each "
        "site:\n");
    for (const auto& [name, key] : motions) Rows(name, key, most, true);
    fmt::print(
        "\ngradients a second by the clock, 16 motions of 100 steps at once; processor time of two threads over that "
        "of one\n"
        "{:<10} {:>12} {:>12} {:>8} {:>10}\n",
        "model", "1 thread", "2 threads", "ratio", "processor");
    for (const auto& [name, key] : motions) Batch(name, key);
    fmt::print(
        "\n100 steps, in multiples of the rollout: directions pushed forward; second derivatives of the loss times a "
        "direction\n"
        "{:<10} {:>12} {:>12} {:>12} {:>12} {:>12}\n",
        "model", "1 tangent", "10 tangents", "point", "Gauss-Newton", "Hessian");
    for (const auto& [name, key] : motions) Products(name, key);
  } catch (const costate::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("\npeak memory {:.0f} MB\n", static_cast<double>(usage.ru_maxrss) / 1024);
}
