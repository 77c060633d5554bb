#include "optimizer/free_start.h"

#include <algorithm>
#include <utility>

namespace costate {

VectorXd NearestStart(const Problem& problem, ConstVectorRef x) {
  const FreeStart& start = problem.free_start;
  if (!HasFreeStart(problem)) return problem.x0;
  const VectorXd to = Difference(problem.model, x, problem.x0);
  VectorXd d = VectorXd::Zero(to.size());
  for (std::size_t i = 0; i < start.entries.size(); ++i) {
    const Eigen::Index at = static_cast<Eigen::Index>(i);
    d[start.entries[i]] = std::clamp(to[start.entries[i]], start.lower[at], start.upper[at]);
  }
  return d.isZero(0) ? problem.x0 : Retract(problem.model, problem.x0, d);
}

VectorXd FirstStart(const Problem& problem) {
  return problem.free_start.guess.size() > 0 ? NearestStart(problem, problem.free_start.guess) : problem.x0;
}

void TakeStart(const Problem& problem, ConstVectorRef x, CostExpansion* last, LqProblem* lq) {
  if (!HasFreeStart(problem)) return;
  const FreeStart& from = problem.free_start;
  LqStart& to = lq->start;
  const VectorXd moved = Difference(problem.model, x, problem.x0)(from.entries);
  to.entries = from.entries;
  to.lower = (from.lower - moved).cwiseMin(0);
  to.upper = (from.upper - moved).cwiseMax(0);
  std::swap(to.l0, last->l0);
  std::swap(to.l0x, last->l0x);
  std::swap(to.l00, last->l00);
}

}  // namespace costate
