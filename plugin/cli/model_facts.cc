#include "cli/model_facts.h"

#include <costate/state.h>
#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "core/collision_filter.h"
#include "core/driven.h"
#include "core/joint.h"
#include "core/option_words.h"
#include "optimizer/hints.h"

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
  const VectorXd u = task.N > 0 ? VectorXd(task.U_guess.col(0)) : VectorXd::Zero(m->nu);
  const DeepContact deep = FindDeepContact(m, task.context, task.x0, u);
  if (deep.text.empty()) return "";
  return fmt::format("at the start {}: they {}", deep.text, deep.parts ? "are thrown apart" : "stay in each other");
}

namespace {

// -1: of the world, of mocap bodies and of flexes
int TreeOfGeom(const mjModel* m, int geom) { return geom < 0 ? -1 : m->body_treeid[m->geom_bodyid[geom]]; }

// is there something that may hold a body that falls: contact with what does not fall, a tie, a thrust, a fluid?
bool MayBeHeld(const mjModel* m, int tree, bool contacts) {
  const auto falls = [&](int geom) {
    const int t = TreeOfGeom(m, geom);
    return t >= 0 && HasFreeRoot(m, t);
  };
  const auto meets = [&](int a, int b) {
    return (TreeOfGeom(m, a) == tree && !falls(b)) || (TreeOfGeom(m, b) == tree && !falls(a));
  };
  for (int i = 0; contacts && i < m->npair; i++) {
    if (meets(m->pair_geom1[i], m->pair_geom2[i])) return true;
  }
  for (int a = 0; contacts && a < m->ngeom; a++) {
    for (int b = a + 1; b < m->ngeom; b++) {
      if (meets(a, b) && MayTouch(m, a, b)) return true;
    }
  }
  for (int b = 0; b < m->nbody; b++) {
    if (m->body_treeid[b] == tree && m->body_gravcomp[b] != 0) return true;
  }
  for (int i = 0; i < m->nactuator; i++) {
    const int id = m->actuator_trnid[2 * i];
    if (ActsOnJoint(m, i) ? m->jnt_type[id] == mjJNT_FREE : m->actuator_trntype[i] != mjTRN_TENDON)
      return true;  // thrusts, adhesion
  }
  for (int i = 0; i < m->nwrap; i++) {
    if (m->wrap_type[i] != mjWRAP_JOINT && m->wrap_type[i] != mjWRAP_PULLEY) return true;  // a rope may hold it
  }
  const bool ties =
      std::any_of(m->eq_type, m->eq_type + m->neq, [](int type) { return type != mjEQ_JOINT && type != mjEQ_TENDON; });
  return ties || m->nflex > 0 || m->nplugin > 0 || m->opt.density > 0 || m->opt.viscosity > 0;
}

}  // namespace

std::string FallsFreely(const mjModel* m) {
  constexpr mjtNum kWeightless = 1e-3;  // [m/s²]
  const bool gravity = !(m->opt.disableflags & mjDSBL_GRAVITY) && mju_norm3(m->opt.gravity) > kWeightless;
  if (!gravity || m->ntree == 0 || m->nactuator == 0) return "";
  const std::vector<char> driven = DrivenDofs(m);
  const bool contacts = !(m->opt.disableflags & (mjDSBL_CONTACT | mjDSBL_CONSTRAINT));
  for (int tree = 0; tree < m->ntree; tree++) {
    const char* first = driven.data() + m->tree_dofadr[tree];
    const bool robot = std::find(first, first + m->tree_dofnum[tree], 1) != first + m->tree_dofnum[tree];
    if (!robot || !HasFreeRoot(m, tree) || MayBeHeld(m, tree, contacts)) continue;
    return fmt::format(
        "nothing of the world can touch '{}': it falls freely{}",
        ElementName(m, mjOBJ_BODY, m->dof_bodyid[m->tree_dofadr[tree]]),
        contacts ? "; is there a scene file, with a floor, that includes this one?" : ", for contacts are disabled");
  }
  return "";
}

}  // namespace costate::cli
