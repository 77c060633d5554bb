// The smooth part of A and B alone: a model without its constraints, in microseconds. peers.py prints it beside
// others'.
//   benchmark_smooth model.xml …        one line each: name, nv, A and B after mj_forward, mj_forward
// Passive and actuator forces and the integrator are part of it (Euler instead of RK4); one thread, the least of
// several parts.
#include <costate/derivative.h>
#include <fmt/core.h>

#include <algorithm>

#include "benchmark/fastest.h"

namespace costate {
namespace {

constexpr double kMeasure = 0.5;  // [s] of measuring each number …
constexpr int kParts = 500;       // … in so many parts, short ones, between which other programs may run

void Row(const std::string& file) {
  const ModelPtr model = LoadModel(file);
  mjModel* m = model.get();
  m->opt.disableflags |= mjDSBL_CONSTRAINT | mjDSBL_SENSOR;
  if (m->opt.integrator == mjINT_RK4) m->opt.integrator = mjINT_EULER;
  const DataPtr data = MakeData(m);
  mjData* d = data.get();
  if (m->nkey > 0) mj_resetDataKeyframe(m, d, 0);
  std::fill_n(d->qvel, m->nv, 0.1);
  mj_forward(m, d);

  Linearizer linearizer(m, {.level = Level::kAnalytic});
  StepDerivative derivative;
  const double after = FastestCall([&] { linearizer.LinearizeAfterForward(d, &derivative); }, kMeasure, kParts);
  const double forward = FastestCall([&] { mj_forward(m, d); }, kMeasure, kParts);
  fmt::print("{} {} {:.3f} {:.3f}\n", file.substr(file.find_last_of('/') + 1), m->nv, 1e6 * after, 1e6 * forward);
}

}  // namespace
}  // namespace costate

int main(int argc, char** argv) {
  int failed = 0;
  for (int i = 1; i < argc; i++) {
    try {
      costate::Row(argv[i]);
    } catch (const costate::Error& error) {
      fmt::print(stderr, "{}: {}\n", argv[i], error.what());
      failed = 1;
    }
  }
  return failed;
}
