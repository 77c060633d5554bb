// A and B, and one pull-back of a covector, over the number of links of a chain, with fitted exponents; and for models.
//   benchmark_chain [model.xml …]
// After mj_forward, one thread, the least of several repeats, sensors off.
#include <costate/derivative.h>
#include <fmt/core.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "benchmark/fastest.h"

namespace costate {
namespace {

constexpr double kMeasure = 0.01;  // [s] of measuring each number …
constexpr int kRepeats = 20;       // … so many times, of which the fastest counts
constexpr double kSettle = 0.5;    // [s] of simulation of a model before measuring

double Seconds(const std::function<void()>& call) { return FastestCall(call, kMeasure, kRepeats); }

struct Times {
  double step, jacobians, vjp;
};

Times Measure(const mjModel* model, const mjData* point) {
  mjModel plain = *model;
  plain.opt.disableflags |= mjDSBL_SENSOR;
  const DataPtr data = MakeData(model);
  VectorXd state(mj_stateSize(model, mjSTATE_INTEGRATION));
  mj_getState(model, point, state.data(), mjSTATE_INTEGRATION);
  Times times;
  times.step = Seconds([&] {
    mj_setState(&plain, data.get(), state.data(), mjSTATE_INTEGRATION);
    mj_step(&plain, data.get());
  });
  mj_setState(&plain, data.get(), state.data(), mjSTATE_INTEGRATION);
  mj_forward(&plain, data.get());
  Linearizer linearizer(&plain, {.sensors = false});
  StepDerivative jacobians;
  StepVjp vjp;
  const VectorXd lambda = VectorXd::LinSpaced(2 * model->nv + model->na, -1, 1);
  times.jacobians = Seconds([&] { linearizer.LinearizeAfterForward(data.get(), &jacobians); });
  times.vjp = Seconds([&] { linearizer.VjpAfterForward(data.get(), lambda, &vjp); });
  return times;
}

// n links, hinges about alternating axes, damped; in motion
ModelPtr Chain(int n) {
  std::string xml = "<mujoco><option timestep='0.001'/><worldbody>";
  for (int i = 0; i < n; ++i) {
    xml += fmt::format(
        "<body pos='{} 0 0'><joint axis='{} 1 0' damping='0.01'/>"
        "<geom type='capsule' size='0.02' fromto='0 0 0 0.1 0 0' contype='0' conaffinity='0'/>",
        i == 0 ? 0.0 : 0.1, i % 2);
  }
  for (int i = 0; i < n; ++i) xml += "</body>";
  xml += "</worldbody><actuator>";
  return LoadModelFromString(xml + "</actuator></mujoco>");
}

// slope of log y over log x by least squares
double Exponent(const std::vector<double>& x, const std::vector<double>& y) {
  double mx = 0, my = 0, xx = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) mx += std::log(x[i]) / x.size(), my += std::log(y[i]) / x.size();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double dx = std::log(x[i]) - mx;
    xx += dx * dx;
    xy += dx * (std::log(y[i]) - my);
  }
  return xy / xx;
}

void Row(const std::string& name, const mjModel* model, const mjData* data, const Times& t) {
  fmt::print("{:<20} {:>5} {:>5} {:>5} {:>10.2f} {:>10.2f} {:>10.2f} {:>9.2f} {:>9.2f}\n", name,
             static_cast<int>(model->nv), data->ncon, data->nefc, 1e6 * t.step, 1e6 * t.jacobians, 1e6 * t.vjp,
             t.jacobians / t.step, t.vjp / t.step);
  std::fflush(stdout);
}

void Chains() {
  std::vector<double> links, step, jacobians, vjp;
  for (int n : {10, 20, 50, 100, 200}) {
    const ModelPtr model = Chain(n);
    const DataPtr data = MakeData(model.get());
    for (int i = 0; i < n; ++i) data->qpos[i] = 0.05 * std::sin(i), data->qvel[i] = 0.1 * std::cos(3 * i);
    mj_forward(model.get(), data.get());
    const Times t = Measure(model.get(), data.get());
    Row(fmt::format("chain {}", n), model.get(), data.get(), t);
    links.push_back(n);
    step.push_back(t.step);
    jacobians.push_back(t.jacobians);
    vjp.push_back(t.vjp);
  }
  fmt::print("exponent of n: mj_step {:.2f}, A and B {:.2f}, pull-back {:.2f}\n", Exponent(links, step),
             Exponent(links, jacobians), Exponent(links, vjp));
}

void Model(const std::string& file) {
  const ModelPtr model = LoadModel(file);
  const DataPtr data = MakeData(model.get());
  for (int i = 0; i < kSettle / model->opt.timestep; ++i) mj_step(model.get(), data.get());
  mj_forward(model.get(), data.get());
  Row(file.substr(file.find_last_of('/') + 1), model.get(), data.get(), Measure(model.get(), data.get()));
}

}  // namespace
}  // namespace costate

int main(int argc, char** argv) {
  fmt::print(
      "times in µs, then in multiples of one mj_step\n{:<20} {:>5} {:>5} {:>5} {:>10} {:>10} {:>10} {:>9} {:>9}\n",
      "model", "nv", "ncon", "nefc", "step", "A, B", "pull-back", "A, B", "pull-back");
  int failed = 0;
  std::vector<std::string> files(argv + 1, argv + argc);
  for (const char* name : {"hopper", "quadruped", "humanoid"}) {
    if (argc == 1) files.push_back(std::string(COSTATE_MODELS) + "/" + name + "/" + name + ".xml");
  }
  try {
    costate::Chains();
    for (const std::string& file : files) costate::Model(file);
  } catch (const costate::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    failed = 1;
  }
  return failed;
}
