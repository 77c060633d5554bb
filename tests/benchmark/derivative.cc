// A and B at each level against one mj_step and against mjd_transitionFD: one table of ratios, all
// in this run.
//   benchmark_derivative [--discrete] [model.xml …]     default: models of this repository
// Models start in their first keyframe, if there is one, and settle for half a second; those
// without a floor get one. One thread, sensors and noslip off on all sides, the least of several
// repeats that take turns; the models' own integrator, or the discrete one, and solver. panel.sh fetches the robots that such tables are
// usually made of, and calls this.
#include <costate/derivative.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/fastest.h"
#include "core/warnings.h"
#include "derivative/step_difference.h"

namespace costate {
namespace {

constexpr double kSettle = 0.5;   // [s] of simulation before measuring
constexpr double kMeasure = 0.3;  // [s] of measuring each number …
constexpr int kRepeats = 20;      // … in so many parts, in turn with the others; the fastest counts
constexpr double kNone = std::numeric_limits<double>::infinity();

bool discrete = false;
std::vector<double> ratios;  // of all models: A and B after mj_forward, over mj_step

std::string Ratio(double seconds, double unit) {
  return std::isfinite(seconds) ? fmt::format("{:.3g}", seconds / unit) : std::string("-");
}

// a call of Linearize about `data`; null where the level does not cover the model
std::function<void()> LinearizeCall(const mjModel* model, const mjData* data, Level level, bool centered) {
  const LinearizeOptions options = {.level = level, .sensors = false, .centered = centered};
  const auto linearizer = std::make_shared<Linearizer>(model, options);
  linearizer->SetContext(GetContext(model, data));
  const VectorXd x = GetState(model, data), u = Eigen::Map<const VectorXd>(data->ctrl, model->nu);
  const auto derivative = std::make_shared<StepDerivative>();
  const auto call = [=] { linearizer->Linearize(x, u, derivative.get()); };
  try {
    call();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return nullptr;
  }
  return call;
}

// the model, with a floor under it where it has none; null when it does not load
ModelPtr LoadOnFloor(const std::string& file) {
  char error[1000] = "";
  mjSpec* spec = mj_parseXML(file.c_str(), nullptr, error, sizeof(error));
  if (!spec) throw Error(ErrorCode::kInvalidArgument, error);
  bool floor = false;
  for (mjsElement* e = mjs_firstElement(spec, mjOBJ_GEOM); e && !floor; e = mjs_nextElement(spec, e)) {
    const int type = mjs_asGeom(e)->type;
    floor = type == mjGEOM_PLANE || type == mjGEOM_HFIELD;
  }
  if (!floor) {
    mjsGeom* plane = mjs_addGeom(mjs_findBody(spec, "world"), nullptr);
    plane->type = mjGEOM_PLANE;
    plane->size[2] = 0.1;
  }
  ModelPtr model(mj_compile(spec, nullptr));
  const std::string why = model ? "" : mjs_getError(spec);
  mj_deleteSpec(spec);
  if (!model) throw Error(ErrorCode::kInvalidArgument, why);
  return model;
}

void Row(const std::string& file) {
  const ModelPtr model = LoadOnFloor(file);
  mjModel* m = model.get();
  m->opt.noslip_iterations = 0;
  if (discrete) m->opt.integrator = mjINT_DISCRETE;
  m->opt.disableflags |= mjDSBL_SENSOR;
  const Dims dims(m);
  const DataPtr data = MakeData(m), work = MakeData(m);
  if (m->nkey > 0) mj_resetDataKeyframe(m, data.get(), 0);
  m->opt.disableflags |= mjDSBL_AUTORESET;
  for (int i = 0; i < kSettle / m->opt.timestep; ++i) mj_step(m, data.get());
  if (StatusOfWarnings(data.get()) != StepStatus::kOk)
    throw Error(ErrorCode::kInvalidArgument, "it does not settle: its simulation is unstable or its arena too small");
  mj_forward(m, data.get());

  // one step from the same state again and again
  VectorXd state(mj_stateSize(m, mjSTATE_INTEGRATION));
  mj_getState(m, data.get(), state.data(), mjSTATE_INTEGRATION);
  const auto restart = [&] { mj_setState(m, work.get(), state.data(), mjSTATE_INTEGRATION); };
  enum Number { kStep, kTransition, kAfter, kVjp, kForward, kResidual, kBest, kNumbers };
  std::function<void()> call[kNumbers];
  call[kStep] = [&] {
    restart();
    mj_step(m, work.get());
  };
  MatrixXd A(dims.ndx, dims.ndx), B(dims.ndx, dims.nu);
  if (WhyNotTransitionFd(m, false) == nullptr) {
    call[kTransition] = [&] {
      restart();
      mjd_transitionFD(m, work.get(), 1e-6, 0, A.data(), B.data(), nullptr, nullptr);
    };
  }

  // the derivative alone, where mj_forward has been called anyway
  Linearizer linearizer(m, {.level = Level::kAnalytic, .sensors = false});
  StepDerivative derivative;
  StepVjp product;
  const VectorXd lambda = VectorXd::LinSpaced(dims.ndx, -1, 1);
  std::string missing;
  const DataPtr done = MakeData(m);
  mj_setState(m, done.get(), state.data(), mjSTATE_INTEGRATION);
  mj_forward(m, done.get());
  try {
    linearizer.LinearizeAfterForward(done.get(), &derivative);
    call[kAfter] = [&] { linearizer.LinearizeAfterForward(done.get(), &derivative); };
    call[kVjp] = [&] { linearizer.VjpAfterForward(done.get(), lambda, &product); };
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    missing = error.what();
  }
  call[kForward] = LinearizeCall(m, data.get(), Level::kStep, false);
  call[kResidual] = LinearizeCall(m, data.get(), Level::kResidual, true);
  call[kBest] = LinearizeCall(m, data.get(), Level::kBest, true);

  double seconds[kNumbers];
  std::vector<std::function<void()>> calls;
  for (const auto& c : call) {
    if (c) calls.push_back(c);
  }
  const std::vector<double> measured = FastestCalls(calls, kMeasure, kRepeats);
  for (int i = 0, k = 0; i < kNumbers; ++i) seconds[i] = call[i] ? measured[k++] : kNone;
  const double step = seconds[kStep], after = seconds[kAfter];
  const std::string name = file.substr(file.find_last_of('/') + 1);
  fmt::print("{:<24} {:>4} {:>4} {:>4} {:>9.2f} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {}\n", name.substr(0, 24),
             dims.nv, data->ncon, data->nefc, 1e6 * step, Ratio(seconds[kTransition], step),
             Ratio(seconds[kForward], step), Ratio(seconds[kResidual], step), Ratio(seconds[kBest], step),
             Ratio(after, step), Ratio(seconds[kTransition], after), Ratio(seconds[kVjp], step), missing);
  std::fflush(stdout);
  if (std::isfinite(after)) ratios.push_back(after / step);
}

}  // namespace
}  // namespace costate

int main(int argc, char** argv) {
  std::vector<std::string> files(argv + 1, argv + argc);
  costate::discrete = !files.empty() && files[0] == "--discrete";
  if (costate::discrete) files.erase(files.begin());
  if (files.empty()) {
    for (const char* name : {"cartpole", "acrobot", "hopper", "arm", "quadrotor", "quadruped", "humanoid"}) {
      files.push_back(std::string(COSTATE_MODELS) + "/" + name + "/" + name + ".xml");
    }
  }
  fmt::print(
      "A and B in multiples of one mj_step (µs); transFD and level 3 forward, the others centred "
      "or exact; \"best\" calls\n"
      "mj_forward itself, \"A, B\" is level 1 after it, FD/A,B what mjd_transitionFD costs more "
      "than that,\nVJP one pull-back after it\n");
  fmt::print("{:<24} {:>4} {:>4} {:>4} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "model", "nv", "ncon",
             "nefc", "step", "transFD", "level 3", "level 2", "best", "A, B", "FD/A,B", "VJP");
  int failed = 0;
  for (const std::string& file : files) {
    try {
      costate::Row(file);
    } catch (const costate::Error& error) {
      fmt::print(stderr, "{}: {}\n", file, error.what());
      failed = 1;
    }
  }
  if (!costate::ratios.empty()) {
    std::sort(costate::ratios.begin(), costate::ratios.end());
    fmt::print("A, B over mj_step: median {:.2f}, largest {:.2f}\n",
               (costate::ratios[(costate::ratios.size() - 1) / 2] + costate::ratios[costate::ratios.size() / 2]) / 2,
               costate::ratios.back());
  }
  return failed;
}
