#include "optimizer/expander.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "optimizer/control_noise.h"
#include "optimizer/free_start.h"
#include "optimizer/take_knot.h"

namespace costate {

Expander::Expander(const Problem& problem, Simulator* simulator, const LinearizeOptions& derivative)
    : problem_(problem),
      simulator_(simulator),
      derivative_(derivative),
      unit_(RegularizationUnits(problem)),
      bounded_((problem.u_lower.array().isFinite() || problem.u_upper.array().isFinite()).any()),
      forces_(problem, simulator->threads()),
      augmented_(dynamic_cast<const AugmentedCost*>(problem.cost)),
      expansions_(static_cast<std::size_t>(simulator->threads())),
      failed_(static_cast<std::size_t>(problem.N) + 1) {
  bounds_.Resize(problem.N);
  SelectSensors(*problem.cost, problem.model, &derivative_, simulator);
}

int Expander::Expand(const Trajectory& motion, LqProblem* lq, bool limits) {
  lq->knots.resize(static_cast<std::size_t>(problem_.N));
  lq->unit = unit_;
  if (limits) forces_.Find(motion, derivative_);
  const auto use = [&](int t, int worker, StepDerivative* derivative) {
    const auto at = static_cast<std::size_t>(t);
    failed_[at] = derivative->status;
    if (derivative->status != StepStatus::kOk) return;
    if (limits && t < problem_.N) forces_.Reach(t, derivative);
    CostExpansion& expansion = t < problem_.N ? expansions_[static_cast<std::size_t>(worker)] : last_;
    const KnotView knot_view = ViewKnot(motion, t, simulator_->knot_time());
    if (augmented_ && !limits) {
      augmented_->Expand(knot_view, derivative->C, derivative->D, &expansion, bounds_.at(t));
    } else {
      problem_.cost->Expand(knot_view, derivative->C, derivative->D, &expansion);
    }

    TakeKnot(t, *simulator_, derivative, &expansion, lq);
    if (t == problem_.N) TakeStart(problem_, motion.X.col(0), &expansion, lq);
    if ((!bounded_ && !limits) || t == problem_.N) return;
    LqKnot& knot = lq->knots[at];
    if (bounded_) {
      knot.du_lower = problem_.u_lower - motion.U.col(t);
      knot.du_upper = problem_.u_upper - motion.U.col(t);
    }
    if (!limits) return;
    if (!bounded_) knot.du_lower.resize(0);
    forces_.Bound(t, &knot);
  };
  stopped_ = !simulator_->LinearizeEach(motion, derivative_, std::ref(use));
  if (stopped_) return problem_.N + 1;
  const auto failed = std::find_if(failed_.begin(), failed_.end(), [](StepStatus s) { return s != StepStatus::kOk; });
  return failed == failed_.end() ? -1 : static_cast<int>(failed - failed_.begin());
}

std::string BackwardFailsText(const Problem& problem, const Trajectory& motion, const LqProblem& lq, double dt,
                              int failed_knot, double regularization) {
  const auto is_finite = [&](int t) {
    if (t == problem.N) return lq.lx.allFinite() && lq.lxx.allFinite();
    const LqKnot& knot = lq.knots[static_cast<std::size_t>(t)];
    return knot.lx.allFinite() && knot.lu.allFinite() && knot.lxx.allFinite() && knot.lux.allFinite() &&
           knot.luu.allFinite();
  };
  for (int t = problem.N; t >= 0; --t) {
    if (is_finite(t)) continue;
    const std::vector<std::string> names = problem.cost->TermsWithoutSlope(ViewKnot(motion, t, dt));
    const std::string of = names.empty() ? "" : fmt::format(" of '{}'", fmt::join(names, "', '"));
    return fmt::format("the slope of its cost{} is not finite at knot {} of {} ({:.3g} s)", of, t, problem.N, t * dt);
  }
  return fmt::format(
      "the backward pass fails at knot {} of {} even with regularization {:g}: Quu is not positive definite or not "
      "finite",
      failed_knot, problem.N, regularization);
}

}  // namespace costate
