#include "smooth/impact_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/check.h"
#include "core/convergence.h"
#include "core/element.h"
#include "derivative/check_point.h"

namespace costate {
namespace {

constexpr double kConverged = 1e-15;  // solver tolerance: durations are found to rounding
constexpr int kConvergedIterations = 100;

void RefuseImpacts(const std::string& what) { throw Error(ErrorCode::kUnsupported, "impacts: " + what); }

}  // namespace

void CheckImpactOptions(const ImpactOptions& options) {
  const auto refuse = [](const std::string& text) { throw Error(ErrorCode::kInvalidArgument, text); };
  if (!(options.restitution > 0 && options.restitution <= 1)) {
    refuse(fmt::format("restitution is {:g}, it must be above 0 (what does not bounce stays in contact) and at most 1",
                       options.restitution));
  }
  if (options.substeps < 1) refuse(fmt::format("substeps is {}, at least 1 is needed", options.substeps));
  if (options.max_impacts < 1) refuse(fmt::format("max_impacts is {}, at least 1 is needed", options.max_impacts));
  if (!(options.touch > 0)) refuse(fmt::format("touch is {:g} m, it must be positive", options.touch));
  if (!(options.grazing > 0)) refuse(fmt::format("grazing is {:g} m/s, it must be positive", options.grazing));
  if (!(options.exactness > 0)) refuse(fmt::format("exactness is {:g}, it must be positive", options.exactness));
}

void CheckImpactModel(const mjModel* model) {
  CheckDifferentiable(model);
  CheckModelOptions(model);
  if (model->nflex > 0) RefuseImpacts("flexes touch by elements, which have no distance here");
  if (model->nhistory > 0) RefuseImpacts("delays carry derivatives from step to step");
  if (model->nplastic > 0) RefuseImpacts("plastic state carries derivatives from step to step");
  if (model->npluginstate > 0) RefuseImpacts("plugin state carries derivatives from step to step");
  const bool adheres = model->flg_adhesion ||
                       std::find(model->actuator_trntype, model->actuator_trntype + model->nactuator, mjTRN_BODY) !=
                           model->actuator_trntype + model->nactuator;
  if (adheres) RefuseImpacts("adhesion acts by contacts, which are instants here");
}

std::vector<bool> ImpactGeoms(const mjModel* model, const ImpactOptions& options) {
  std::vector<bool> of(model->ngeom, options.geoms.empty());
  for (const std::string& name : options.geoms) {
    of[FindNamed(model, mjOBJ_GEOM, "geom", name)] = true;
  }
  return of;
}

ModelPtr ModelBetweenImpacts(const mjModel* model, const ImpactOptions& options) {
  ModelPtr copy = CopyModel(model);
  SearchUntil(std::min(copy->opt.tolerance, kConverged), kConvergedIterations, &copy->opt);
  copy->opt.solver = mjSOL_NEWTON;  // the minimum is that of all three
  copy->opt.enableflags &= ~mjENBL_SLEEP;
  copy->opt.disableflags |= mjDSBL_AUTORESET;
  if (options.geoms.empty()) {
    copy->opt.disableflags |= mjDSBL_CONTACT;
    return copy;
  }
  const std::vector<bool> of = ImpactGeoms(model, options);
  for (int i = 0; i < copy->ngeom; ++i) {
    if (of[i]) copy->geom_contype[i] = copy->geom_conaffinity[i] = 0;
  }
  for (int i = 0; i < copy->npair; ++i) {
    if (!of[copy->pair_geom1[i]] && !of[copy->pair_geom2[i]]) continue;
    RefuseImpacts("'" + ElementName(model, mjOBJ_PAIR, i) +
                  "' is an explicit pair: it cannot be taken from the step alone; leave `geoms` empty or make it a "
                  "contact of geoms");
  }
  return copy;
}

}  // namespace costate
