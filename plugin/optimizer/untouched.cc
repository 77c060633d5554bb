#include "optimizer/untouched.h"

#include <costate/adjoint.h>
#include <costate/state.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/collision_filter.h"
#include "core/engine_guard.h"
#include "core/extremes.h"
#include "core/posture.h"
#include "optimizer/control_noise.h"
#include "optimizer/cost_terms.h"

namespace costate {
namespace {

constexpr double kShare = 0.1;  // of the cost: smaller terms may well be left as they are

bool SlopesAreFinite(const Cost& cost, const Trajectory& motion) {
  const double dt = ControlInterval(motion);
  for (int t = 0; t <= motion.N(); ++t) {
    if (!cost.TermsWithoutSlope(ViewKnot(motion, t, dt)).empty()) return false;
  }
  return true;
}

double LargestSlope(const Problem& problem, const RolloutGradient& gradient) {
  double largest = (KickUnits(problem).asDiagonal() * gradient.U).cwiseAbs().maxCoeff();
  for (const int entry : problem.free_start.entries) largest = std::max(largest, std::abs(gradient.x0[entry]));
  return largest;
}

}  // namespace

Untouched FindUntouched(const Problem& problem, const Trajectory& motion, double slope) {
  const auto* cost = dynamic_cast<const ResidualCost*>(problem.cost);
  if (!cost || motion.N() == 0) return {};
  const std::vector<CostTermValue> values = cost->Terms(motion);
  double total = 0;
  for (const CostTermValue& term : values) total += std::abs(term.value);
  Untouched untouched;
  try {
    Adjoint adjoint(problem.model, problem.context, problem.substeps);
    RolloutGradient gradient;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double value = std::abs(values[i].value);
      if (!std::isfinite(value) || value == 0 || value < kShare * total) continue;
      const ResidualCost alone(problem.model, {cost->terms()[i]}, cost->scale());
      if (!SlopesAreFinite(alone, motion)) continue;
      adjoint.Gradient(motion.X.col(0), motion.U, alone, {}, &gradient);
      if (!gradient.status.ok() || LargestSlope(problem, gradient) > slope * value) continue;
      untouched.terms.push_back(values[i].name);
      untouched.cost += value;
      untouched.slope = untouched.terms.size() == 1 ? gradient.x0 : VectorXd(untouched.slope + gradient.x0);
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
  }
  return untouched;
}

bool TouchesNothing(const Problem& problem, const Trajectory& motion) {
  if (!CanHaveContacts(problem.model)) return true;
  const DataPtr data = MakeData(problem.model);
  mjData* d = data.get();
  SetContext(problem.model, d, problem.context);
  const EngineGuard guard(d);
  for (int t = 0; t <= motion.N(); ++t) {
    SetState(problem.model, d, motion.X.col(t));
    UpdatePosture(problem.model, d, PostureStage::kWhole);
    if (d->ncon > 0) return false;
  }
  return true;
}

std::vector<std::string> UntouchedTerms(const Problem& problem, const Trajectory& motion, double slope) {
  return FindUntouched(problem, motion, slope).terms;
}

std::vector<std::string> SayUntouched(const Problem& problem, SolveResult* result) {
  if (result->status != SolveStatus::kConverged) return {};
  std::vector<std::string> terms = UntouchedTerms(problem, result->trajectory);
  if (terms.empty()) return terms;
  result->status = SolveStatus::kStalled;
  result->message = fmt::format("no control changes '{}' along this motion to first order; {}",
                                fmt::join(terms, "', '"), result->message);
  return terms;
}

}  // namespace costate
