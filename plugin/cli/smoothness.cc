#include "cli/smoothness.h"

#include <fmt/core.h>

#include <costate/model.h>

#include <algorithm>

#include "cli/model_facts.h"
#include "core/collision_filter.h"
#include "core/plastic.h"

namespace costate::cli {
namespace {

using NonSmoothList = std::vector<NonSmoothness>;

// "3 of 5 joints (hip, knee, ankle)"; at most four names
std::string Listing(const mjModel* model, int type, const std::vector<int>& ids, int total, const char* plural) {
  std::string names;
  for (std::size_t i = 0; i < ids.size() && i < 4; ++i) {
    names += (i > 0 ? ", " : "") + ElementName(model, type, ids[i]);
  }
  if (ids.size() > 4) names += ", …";
  return fmt::format("{} of {} {} ({})", ids.size(), total, plural, names);
}

template <typename Predicate>
std::vector<int> Where(mjtSize n, Predicate predicate) {
  std::vector<int> ids;
  for (int i = 0; i < n; ++i) {
    if (predicate(i)) ids.push_back(i);
  }
  return ids;
}

bool Enabled(const mjModel* model, int disable_flag) {
  return (model->opt.disableflags & (disable_flag | mjDSBL_CONSTRAINT)) == 0;
}

void FindContacts(const mjModel* model, NonSmoothList* found) {
  if (!CanHaveContacts(model)) return;
  const char* remedy =
      "solimp=\"0 0.95 0.001\" (first number 0) on the geoms or pairs makes the onset smooth; before touch-down the "
      "derivative "
      "is that of free flight";
  if (model->opt.enableflags & mjENBL_OVERRIDE) {
    if (model->opt.o_solimp[0] > mjMINIMP) {
      found->push_back({fmt::format("contact onset jumps: o_solimp[0] is {:g}", model->opt.o_solimp[0]), remedy});
    }
  } else {
    const auto colliding =
        Where(model->ngeom, [&](int i) { return model->geom_contype[i] != 0 || model->geom_conaffinity[i] != 0; });
    std::vector<int> jumping;
    double largest = 0;
    for (int i : colliding) {
      if (model->geom_solimp[i * mjNIMP] <= mjMINIMP) continue;
      jumping.push_back(i);
      largest = std::max(largest, model->geom_solimp[i * mjNIMP]);
    }
    if (!jumping.empty()) {
      found->push_back(
          {fmt::format("contact onset jumps (the force is not zero at touch-down): solimp[0] is up to {:g} on {}",
                       largest,
                       Listing(model, mjOBJ_GEOM, jumping, static_cast<int>(colliding.size()), "colliding geoms")),
           remedy});
    }
    const auto pairs = Where(model->npair, [&](int i) { return model->pair_solimp[i * mjNIMP] > mjMINIMP; });
    if (!pairs.empty()) {
      found->push_back({fmt::format("contact onset jumps: solimp[0] above 0 on {}",
                                    Listing(model, mjOBJ_PAIR, pairs, static_cast<int>(model->npair), "contact pairs")),
                        remedy});
    }
  }
  found->push_back(
      {"contacts appear and vanish, and their friction sticks or slips: the derivative is that of the contacts "
       "there are at the point",
       "`costate check` tells at which inputs something switches"});
  const auto polytopes = Where(model->ngeom, [&](int i) {
    const int type = model->geom_type[i];
    return (type == mjGEOM_BOX || type == mjGEOM_MESH || type == mjGEOM_HFIELD || type == mjGEOM_CYLINDER) &&
           (model->geom_contype[i] != 0 || model->geom_conaffinity[i] != 0);
  });
  if (!polytopes.empty()) {
    found->push_back(
        {fmt::format("contact points jump from corner to corner of {}",
                     Listing(model, mjOBJ_GEOM, polytopes, static_cast<int>(model->ngeom), "geoms with flat faces")),
         "spheres or capsules in their place have contact points that move smoothly"});
  }
  const auto curved = Where(model->ngeom, [&](int i) {
    const int type = model->geom_type[i];
    return (type == mjGEOM_ELLIPSOID || type == mjGEOM_CYLINDER) &&
           (model->geom_contype[i] != 0 || model->geom_conaffinity[i] != 0);
  });
  if (!curved.empty()) {
    found->push_back(
        {fmt::format("contacts of curved surfaces, but for those with a plane, are found to ccd_tolerance only and "
                     "jump within it; the derivative is that of the exact surfaces: {}",
                     Listing(model, mjOBJ_GEOM, curved, static_cast<int>(model->ngeom), "geoms")),
         "spheres or capsules in their place are exact; a smaller ccd_tolerance makes the jumps smaller"});
  }
}

void FindLimits(const mjModel* model, NonSmoothList* found) {
  if (!Enabled(model, mjDSBL_LIMIT)) return;
  const auto joints =
      Where(model->njnt, [&](int i) { return model->jnt_limited[i] && model->jnt_solimp[i * mjNIMP] > mjMINIMP; });
  if (!joints.empty()) {
    found->push_back({fmt::format("joint limits jump when reached: solimp[0] above 0 on {}",
                                  Listing(model, mjOBJ_JOINT, joints, static_cast<int>(model->njnt), "joints")),
                      "solimplimit with first number 0"});
  }
  const auto tendons = Where(model->ntendon, [&](int i) {
    return model->tendon_limited[i] && model->tendon_solimp_lim[i * mjNIMP] > mjMINIMP;
  });
  if (!tendons.empty()) {
    found->push_back({fmt::format("tendon limits jump when reached: solimp[0] above 0 on {}",
                                  Listing(model, mjOBJ_TENDON, tendons, static_cast<int>(model->ntendon), "tendons")),
                      "solimplimit with first number 0"});
  }
}

void FindFriction(const mjModel* model, NonSmoothList* found) {
  if (!Enabled(model, mjDSBL_FRICTIONLOSS)) return;
  std::vector<int> joints;
  for (int i = 0; i < model->nv; ++i) {
    const int joint = model->dof_jntid[i];
    if (model->dof_frictionloss[i] > 0 && (joints.empty() || joints.back() != joint)) joints.push_back(joint);
  }
  const auto tendons = Where(model->ntendon, [&](int i) { return model->tendon_frictionloss[i] > 0; });
  if (!joints.empty()) {
    found->push_back({"dry friction bends where sticking turns to sliding: frictionloss on " +
                          Listing(model, mjOBJ_JOINT, joints, static_cast<int>(model->njnt), "joints"),
                      "a softer solreffriction or solimpfriction spreads the corner; damping in its place has none"});
  }
  if (!tendons.empty()) {
    found->push_back({"dry friction bends where sticking turns to sliding: frictionloss on " +
                          Listing(model, mjOBJ_TENDON, tendons, static_cast<int>(model->ntendon), "tendons"),
                      "damping in its place has no corner"});
  }
}

void FindActuators(const mjModel* model, NonSmoothList* found) {
  const int total = static_cast<int>(model->nactuator);
  const auto controls = Where(model->nactuator, [&](int i) {
    for (int k = 0; k < model->actuator_ctrlnum[i]; ++k) {
      if (model->actuator_ctrllimited[model->actuator_ctrladr[i] + k]) return true;
    }
    return false;
  });
  if (!controls.empty() && (model->opt.disableflags & mjDSBL_CLAMPCTRL) == 0) {
    found->push_back(
        {"controls beyond ctrlrange have no effect, hence a zero derivative (at the edge: the slope inside): " +
             Listing(model, mjOBJ_ACTUATOR, controls, total, "actuators"),
         "keep controls inside their range; the optimizers do"});
  }
  const auto forces = Where(model->nactuator, [&](int i) { return model->actuator_forcelimited[i] != 0; });
  const auto joints = Where(model->njnt, [&](int i) { return model->jnt_actfrclimited[i] != 0; });
  const bool implicit = model->opt.integrator == mjINT_IMPLICIT || model->opt.integrator == mjINT_IMPLICITFAST;
  const auto damped = Where(implicit ? model->nactuator : 0, [&](int i) {
    const bool bias = model->actuator_biastype[i] == mjBIAS_AFFINE && model->actuator_biasprm[i * mjNBIAS + 2] != 0,
               gain = model->actuator_gaintype[i] == mjGAIN_AFFINE && model->actuator_gainprm[i * mjNGAIN + 2] != 0;
    return model->actuator_forcelimited[i] && (bias || gain);
  });
  if (!damped.empty()) {
    found->push_back(
        {fmt::format(
             "the step jumps where a force reaches its forcerange: {} has the actuator's damping in its implicit "
             "part below that alone: {}",
             IntegratorName(model), Listing(model, mjOBJ_ACTUATOR, damped, total, "actuators")),
         "damping of the joint in place of kv stays; a task's <limit actuator= quantity=\"force\"> keeps below it"});
  }
  if (!forces.empty()) {
    found->push_back({"a saturated force has a zero derivative: forcerange on " +
                          Listing(model, mjOBJ_ACTUATOR, forces, total, "actuators"),
                      ""});
  }
  if (!joints.empty()) {
    found->push_back({"a saturated force has a zero derivative: actuatorfrcrange on " +
                          Listing(model, mjOBJ_JOINT, joints, static_cast<int>(model->njnt), "joints"),
                      ""});
  }
  const auto activations =
      Where(model->nactuator, [&](int i) { return model->actuator_actlimited[i] && model->actuator_actnum[i] > 0; });
  if (!activations.empty()) {
    found->push_back({"an activation at its limit has a zero derivative (at the edge: the slope inside): actrange on " +
                          Listing(model, mjOBJ_ACTUATOR, activations, total, "actuators"),
                      ""});
  }
  const auto muscles = Where(model->nactuator, [&](int i) {
    return model->actuator_dyntype[i] == mjDYN_MUSCLE && model->actuator_dynprm[i * mjNDYN + 2] < mjMINVAL;
  });
  if (!muscles.empty()) {
    found->push_back({"muscles bend where excitation equals activation (at rest, for one): " +
                          Listing(model, mjOBJ_ACTUATOR, muscles, total, "actuators"),
                      "tausmooth above 0 rounds the corner"});
  }
}

void FindOptions(const mjModel* model, NonSmoothList* found) {
  if (model->opt.noslip_iterations > 0) {
    found->push_back(
        {fmt::format("noslip_iterations is {}: friction forces stick or slide at hard bounds, and a sweep more or less "
                     "jumps",
                     model->opt.noslip_iterations),
         "noslip_iterations=\"0\" and a larger impratio, or noslip_tolerance=\"0\" against the jumps"});
  }
  if (model->opt.enableflags & mjENBL_SLEEP) {
    found->push_back(
        {"sleep: which trees sleep belongs to no state; steps and derivatives here keep all trees awake", ""});
  }
  if (model->opt.enableflags & mjENBL_IPC) {
    found->push_back({"ipc: contact multipliers belong to no state; derivatives are refused", "disable the flag"});
  }
  if (HasPlasticity(model)) {
    found->push_back(
        {"plastic springs or flexes bend where they begin to yield; the plastic state is context, not x", ""});
  }
  if (HasRodFrames(model)) {
    found->push_back(
        {"rods: the frames that their twist is measured from go along with the motion; they are context, not x", ""});
  }
  if (model->nhistory > 0) {
    found->push_back(
        {"delays: the buffers are context, not x; a control that arrives after the interval has derivative zero",
         "a control interval longer than the delay (substeps)"});
  }
  const auto bands = Where(model->ntendon, [&](int i) {
    return model->tendon_lengthspring[2 * i] < model->tendon_lengthspring[2 * i + 1] && model->tendon_stiffness[i] > 0;
  });
  if (!bands.empty()) {
    found->push_back({"springs bend at the ends of their dead band: springlength on " +
                          Listing(model, mjOBJ_TENDON, bands, static_cast<int>(model->ntendon), "tendons"),
                      ""});
  }
}

}  // namespace

std::vector<NonSmoothness> FindNonSmooth(const mjModel* model) {
  NonSmoothList found;
  FindContacts(model, &found);
  FindLimits(model, &found);
  FindFriction(model, &found);
  FindActuators(model, &found);
  FindOptions(model, &found);
  return found;
}

}  // namespace costate::cli
