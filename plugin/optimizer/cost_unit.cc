#include "optimizer/cost_unit.h"

#include <algorithm>
#include <cmath>

#include "optimizer/control_noise.h"
#include "optimizer/take_knot.h"

namespace costate {
namespace {

// README.md, eq. (I2)
constexpr double kUnitsOfCurvature = 100;

}  // namespace

double CostUnit(const LqProblem& lq) {
  RiccatiResult riccati;
  SolveRiccati(lq, {.values = false}, &riccati);
  double sum = 0;
  int count = 0;
  if (lq.unit.size() > 0) riccati.curvature = lq.unit.cwiseAbs2().asDiagonal() * riccati.curvature;
  for (const double curvature : riccati.curvature.reshaped()) {
    if (!(curvature > 0) || !std::isfinite(curvature)) continue;
    sum += std::log(curvature);
    ++count;
  }
  return count > 0 ? kUnitsOfCurvature * std::exp(sum / count) : 1;
}

double CostUnit(const Problem& problem, const Trajectory& motion, const IlqrOptions& options) {
  Simulator simulator(problem.model, problem.context, problem.substeps, 1);
  simulator.SetDerivativeModel(options.derivative_model);
  LinearizeOptions derivative = options.derivative;
  SelectSensors(*problem.cost, problem.model, &derivative, &simulator);
  LqProblem lq;
  lq.knots.resize(static_cast<std::size_t>(problem.N));
  lq.unit = RegularizationUnits(problem);
  bool ok = true;
  CostExpansion expansion;
  simulator.LinearizeEach(motion, derivative, [&](int t, int, StepDerivative* d) {
    ok = ok && d->status == StepStatus::kOk;
    if (!ok) return;
    expansion = {};
    problem.cost->Expand(ViewKnot(motion, t, simulator.knot_time()), d->C, d->D, &expansion);
    TakeKnot(t, simulator, d, &expansion, &lq);
  });
  return ok ? CostUnit(lq) : 0;
}

}  // namespace costate
