#include "cli/model_facts.h"

#include <fmt/core.h>

namespace costate::cli {

bool HasContacts(const mjData* data) {
  for (int i = 0; i < data->ncon; ++i) {
    if (data->contact[i].efc_address >= 0 || data->contact[i].exclude == 4) return true;
  }
  return false;
}

std::string IntegratorName(const mjModel* model) {
  constexpr const char* kNames[] = {"Euler", "RK4", "implicit", "implicitfast", "discrete"};
  const int integrator = model->opt.integrator;
  return integrator >= 0 && integrator < 5 ? kNames[integrator] : fmt::format("integrator {}", integrator);
}

std::string SolverName(const mjModel* model) {
  constexpr const char* kNames[] = {"PGS", "CG", "Newton"};
  const int solver = model->opt.solver;
  std::string text = solver >= 0 && solver < 3 ? kNames[solver] : fmt::format("solver {}", solver);
  text += model->opt.cone == mjCONE_ELLIPTIC ? ", elliptic cone" : ", pyramidal cone";
  text += fmt::format(", tolerance {:.0e}, {} iterations", model->opt.tolerance, model->opt.iterations);
  if (model->opt.noslip_iterations > 0) text += fmt::format(", noslip {} iterations", model->opt.noslip_iterations);
  return text;
}

std::string SizesText(const mjModel* model) {
  const Dims d(model);
  return fmt::format("nq {}, nv {}, na {}, nu {}, ns {}", d.nq, d.nv, d.na, d.nu, d.ns);
}

}  // namespace costate::cli
