#include "cli/model_facts.h"

#include <fmt/core.h>

#include <algorithm>

namespace costate::cli {
namespace {

bool MayTouch(int contype1, int conaffinity1, int contype2, int conaffinity2) {
  return (contype1 & conaffinity2) != 0 || (contype2 & conaffinity1) != 0;
}

// moves with some joint, or is moved by hand
bool Movable(const mjModel* model, int body) { return model->body_weldid[body] != 0 || model->body_mocapid[body] >= 0; }

bool Excluded(const mjModel* model, int body1, int body2) {
  const int signature = (std::min(body1, body2) << 16) + std::max(body1, body2);
  for (int i = 0; i < model->nexclude; ++i) {
    if (model->exclude_signature[i] == signature) return true;
  }
  return false;
}

// a body and the parent it hangs from never collide unless the parent is the world
bool ParentAndChild(const mjModel* model, int weld1, int weld2) {
  if ((model->opt.disableflags & mjDSBL_FILTERPARENT) != 0 || weld1 == 0 || weld2 == 0) return false;
  const int parent1 = model->body_weldid[model->body_parentid[weld1]];
  const int parent2 = model->body_weldid[model->body_parentid[weld2]];
  return weld1 == parent2 || weld2 == parent1;
}

bool GeomsMayTouch(const mjModel* model, int geom1, int geom2) {
  if (!MayTouch(model->geom_contype[geom1], model->geom_conaffinity[geom1], model->geom_contype[geom2],
                model->geom_conaffinity[geom2])) {
    return false;
  }
  const int body1 = model->geom_bodyid[geom1], body2 = model->geom_bodyid[geom2];
  const int weld1 = model->body_weldid[body1], weld2 = model->body_weldid[body2];
  return weld1 != weld2 && (Movable(model, body1) || Movable(model, body2)) && !Excluded(model, body1, body2) &&
         !ParentAndChild(model, weld1, weld2);
}

}  // namespace

bool CanHaveContacts(const mjModel* model) {
  if ((model->opt.disableflags & (mjDSBL_CONTACT | mjDSBL_CONSTRAINT)) != 0 || model->nv == 0) return false;
  if (model->npair > 0) return true;
  for (int i = 0; i < model->ngeom; ++i) {
    for (int j = i + 1; j < model->ngeom; ++j) {
      if (GeomsMayTouch(model, i, j)) return true;
    }
  }
  for (int i = 0; i < model->nflex; ++i) {
    const int contype = model->flex_contype[i], conaffinity = model->flex_conaffinity[i];
    if (model->flex_selfcollide[i] != mjFLEXSELF_NONE && MayTouch(contype, conaffinity, contype, conaffinity))
      return true;
    for (int j = 0; j < model->ngeom; ++j) {
      if (MayTouch(contype, conaffinity, model->geom_contype[j], model->geom_conaffinity[j])) return true;
    }
    for (int j = i + 1; j < model->nflex; ++j) {
      if (MayTouch(contype, conaffinity, model->flex_contype[j], model->flex_conaffinity[j])) return true;
    }
  }
  return false;
}

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
