#include "cli/model_facts.h"

#include <costate/state.h>
#include <costate/step.h>
#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "core/option_words.h"
#include "rollout/penetration.h"

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

std::string DeepStart(const Task& task) {
  const mjModel* m = task.model.get();
  const DataPtr data = MakeData(m);
  SetContext(m, data.get(), task.context);
  const VectorXd u = task.N > 0 ? VectorXd(task.U_guess.col(0)) : VectorXd::Zero(m->nu);
  VectorXd none;
  if (Forward(m, data.get(), task.x0, u, none) != StepStatus::kOk) return "";
  const mjContact *first = data->contact, *last = first + data->ncon;
  const mjContact* deepest =
      std::min_element(first, last, [](const mjContact& a, const mjContact& b) { return a.dist < b.dist; });
  if (deepest == last || !IsDeep(m, -deepest->dist)) return "";
  const auto body = [&](int geom) {
    return geom < 0 ? "a flex" : fmt::format("'{}'", ElementName(m, mjOBJ_BODY, m->geom_bodyid[geom]));
  };
  return fmt::format("at the start {} penetrates {} by {:.3g} m, the mean body size is {:.3g} m: they are thrown apart",
                     body(deepest->geom[1]), body(deepest->geom[0]), -deepest->dist, m->stat.meansize);
}

}  // namespace costate::cli
