#include "optimizer/ilqr_checks.h"

#include <fmt/core.h>

#include <cmath>

namespace costate {

void CheckOptions(const IlqrOptions& o) {
  const auto need = [](bool good, const char* name, double value, const char* range) {
    if (good) return;
    throw Error(ErrorCode::kInvalidArgument, fmt::format("iLQR option {} is {:g}, it must be {}", name, value, range));
  };
  need(o.iterations >= 0, "iterations", o.iterations, "0 or more");
  need(o.tolerance >= 0, "tolerance", o.tolerance, "0 or more");
  need(o.gradient_tolerance >= 0, "gradient_tolerance", o.gradient_tolerance, "0 or more");
  need(o.regularization_min > 0, "regularization_min", o.regularization_min, "positive");
  need(o.regularization_init >= 0, "regularization_init", o.regularization_init, "0 or more");
  need(o.regularization_max >= o.regularization_min && std::isfinite(o.regularization_max), "regularization_max",
       o.regularization_max, "finite and at least regularization_min");
  need(o.regularization_factor > 1 && std::isfinite(o.regularization_factor), "regularization_factor",
       o.regularization_factor, "finite and greater than 1");
  need(o.line_search_steps >= 1 && o.line_search_steps <= 60, "line_search_steps", o.line_search_steps, "1 … 60");
  need(o.line_search_ratio >= 0 && o.line_search_ratio < 1, "line_search_ratio", o.line_search_ratio,
       "0 or more and below 1");
  need(o.seconds > 0, "seconds", o.seconds, "positive");
  need(o.threads >= 0, "threads", o.threads, "0 (all cores) or more");
}

}  // namespace costate
