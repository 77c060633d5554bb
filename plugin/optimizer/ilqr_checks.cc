#include "optimizer/ilqr_checks.h"

#include <cmath>

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

}  // namespace costate
