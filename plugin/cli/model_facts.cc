#include "cli/model_facts.h"

#include <fmt/core.h>

#include <iterator>

#include "core/option_words.h"

namespace costate::cli {

std::string IntegratorName(const mjModel* model) {
  const int integrator = model->opt.integrator;
  const bool known = integrator >= 0 && integrator < std::ssize(kIntegratorWords);
  return known ? kIntegratorWords[integrator] : fmt::format("integrator {}", integrator);
}

std::string SolverName(const mjModel* model) {
  const int solver = model->opt.solver;
  const bool known = solver >= 0 && solver < std::ssize(kSolverWords);
  std::string text = known ? kSolverWords[solver] : fmt::format("solver {}", solver);
  text += fmt::format(", {} cone", kConeWords[model->opt.cone == mjCONE_ELLIPTIC]);
  text += fmt::format(", tolerance {:.0e}, {} iterations", model->opt.tolerance, model->opt.iterations);
  if (model->opt.noslip_iterations > 0) text += fmt::format(", noslip {} iterations", model->opt.noslip_iterations);
  return text;
}

std::string SizesText(const mjModel* model) {
  const Dims d(model);
  return fmt::format("nq {}, nv {}, na {}, nu {}, ns {}", d.nq, d.nv, d.na, d.nu, d.ns);
}

}  // namespace costate::cli
