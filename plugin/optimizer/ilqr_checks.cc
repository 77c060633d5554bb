#include "optimizer/ilqr_checks.h"

#include <costate/state.h>
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "core/check.h"
#include "optimizer/solver_checks.h"

namespace costate {

void CheckOptions(const IlqrOptions& o) {
  const OptionCheck need("iLQR option ");
  CheckSolverOptions(o, need);
  need(o.regularization_min > 0, "regularization_min", o.regularization_min, "positive");
  need(o.regularization_init >= 0, "regularization_init", o.regularization_init, "0 or more");
  need(!std::isnan(o.regularization_by_step_init), "regularization_by_step_init", o.regularization_by_step_init,
       "a number");
  need(o.regularization_max >= o.regularization_min && std::isfinite(o.regularization_max), "regularization_max",
       o.regularization_max, "finite and at least regularization_min");
  need(o.regularization_factor > 1 && std::isfinite(o.regularization_factor), "regularization_factor",
       o.regularization_factor, "finite and greater than 1");
  need(o.seconds > 0, "seconds", o.seconds, "positive");
}

void CheckReference(const Problem& problem, const Trajectory& reference, const std::vector<MatrixXd>& K) {
  const mjModel* m = problem.model;
  if (reference.N() != problem.N) {
    throw Error(ErrorCode::kDimensionMismatch,
                fmt::format("the reference has N = {}, the problem has {}", reference.N(), problem.N));
  }
  for (Eigen::Index t = 0; t < reference.X.cols(); ++t) {
    if (reference.X.rows() != m->nq + m->nv + m->na || reference.X.col(t).allFinite()) continue;
    CheckFinite(m, "the reference's X", reference.X.col(t), StateNames, " at knot " + std::to_string(t));
  }
  for (std::size_t t = 0; t < K.size(); ++t) {
    if (K[t].allFinite()) continue;
    throw Error(ErrorCode::kInvalidArgument, fmt::format("K of knot {} is not finite", t));
  }
}

}  // namespace costate
