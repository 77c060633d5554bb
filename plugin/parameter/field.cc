#include "parameter/field.h"

#include <mujoco/mjxmacro.h>

#include <cmath>
#include <set>

#include "core/extremes.h"
#include "core/joint.h"

namespace costate {
namespace {

constexpr double kSmallestMass = 1e-10;  // the engine wants more than mjMINVAL

int Scalar(const mjModel* m, int joint) { return IsScalarJoint(m->jnt_type[joint]) ? 1 : 0; }

#define COUNT(n) [](const mjModel*, int) { return static_cast<int>(n); }
#define AT(array, stride) [](const mjModel* m, int i) -> mjtNum* { return m->array + (stride)*i; }
#define DOFS(n) [](const mjModel* m, int i) { return (n)*JointDofs(m->jnt_type[i]); }
#define AT_DOF(array, stride) [](const mjModel* m, int i) -> mjtNum* { return m->array + (stride)*m->jnt_dofadr[i]; }
#define AT_QPOS(array) [](const mjModel* m, int i) -> mjtNum* { return m->array + m->jnt_qposadr[i]; }
#define AT_OPTION(member) [](const mjModel* m, int) -> mjtNum* { return const_cast<mjtNum*>(m->opt.member); }
#define AT_OPTION_SCALAR(member) [](const mjModel* m, int) -> mjtNum* { return const_cast<mjtNum*>(&m->opt.member); }

constexpr Nudge kSoft = Nudge::kSoft, kGeometric = Nudge::kGeometric;

const std::vector<Field>& Table() {
  static const std::vector<Field> table =
      {
          // bodies
          {"body", "mass", "body_mass", "kg", nullptr, kSmallestMass, kInf, kSoft, 1e-3, COUNT(1), AT(body_mass, 1)},
          {"body", "ipos", "body_ipos", "m", nullptr, -kInf, kInf, kSoft, 0.1, COUNT(3), AT(body_ipos, 3)},
          {"body", "diaginertia", "body_inertia", "kg m²", nullptr, kSmallestMass, kInf, kSoft, 1e-6, COUNT(3),
           AT(body_inertia, 3)},
          {"body", "inertia", "body_mass", "1", nullptr, -kInf, kInf, kSoft, 1, COUNT(10), AT(body_mass, 1),
           Writer::kLogCholesky},
          {"body", "scale", "body_mass", "1", nullptr, 1e-6, kInf, kSoft, 1, COUNT(1), AT(body_mass, 1),
           Writer::kScale},
          {"body", "gravcomp", "body_gravcomp", "1", nullptr, -kInf, kInf, kSoft, 1, COUNT(1), AT(body_gravcomp, 1)},
          {"body", "pos", "body_pos", "m", nullptr, -kInf, kInf, kGeometric, 1, COUNT(3), AT(body_pos, 3)},
          {"body", "rotation", "body_quat", "rad", nullptr, -kInf, kInf, kGeometric, 1, COUNT(3), AT(body_quat, 4),
           Writer::kRotation},

          // joints
          {"joint", "damping", "dof_damping", "N s/m", "N m s/rad", 0, kInf, kSoft, 1e-2, DOFS(1),
           AT_DOF(dof_damping, 1)},
          {"joint", "dampingpoly", "dof_dampingpoly", "N/(m/s)^k", "N m/(rad/s)^k", -kInf, kInf, kSoft, 1e-2,
           DOFS(mjNPOLY), AT_DOF(dof_dampingpoly, mjNPOLY)},
          {"joint", "stiffness", "jnt_stiffness", "N/m", "N m/rad", 0, kInf, kSoft, 1e-1, COUNT(1),
           AT(jnt_stiffness, 1)},
          {"joint", "stiffnesspoly", "jnt_stiffnesspoly", "N/m^k", "N m/rad^k", -kInf, kInf, kSoft, 1e-1,
           COUNT(mjNPOLY), AT(jnt_stiffnesspoly, mjNPOLY)},
          {"joint", "springref", "qpos_spring", "m", "rad", -kInf, kInf, kSoft, 1, Scalar, AT_QPOS(qpos_spring)},
          {"joint", "ref", "qpos0", "m", "rad", -kInf, kInf, kGeometric, 1, Scalar, AT_QPOS(qpos0)},
          {"joint", "armature", "dof_armature", "kg", "kg m²", 0, kInf, kSoft, 1e-2, DOFS(1), AT_DOF(dof_armature, 1)},
          {"joint", "frictionloss", "dof_frictionloss", "N", "N m", 0, kInf, kSoft, 1e-1, DOFS(1),
           AT_DOF(dof_frictionloss, 1)},
          {"joint", "range", "jnt_range", "m", "rad", -kInf, kInf, kGeometric, 1, COUNT(2), AT(jnt_range, 2)},
          {"joint", "margin", "jnt_margin", "m", "rad", -kInf, kInf, kGeometric, 1, COUNT(1), AT(jnt_margin, 1)},
          {"joint", "pos", "jnt_pos", "m", nullptr, -kInf, kInf, kGeometric, 1, COUNT(3), AT(jnt_pos, 3)},
          {"joint", "axis", "jnt_axis", "1", nullptr, -1, 1, kGeometric, 1, COUNT(3), AT(jnt_axis, 3), Writer::kAxis},
          {"joint", "solreflimit", "jnt_solref", "1", nullptr, -kInf, kInf, kSoft, 1e-2, COUNT(mjNREF),
           AT(jnt_solref, mjNREF)},
          {"joint", "solimplimit", "jnt_solimp", "1", nullptr, 0, kInf, kSoft, 1e-3, COUNT(mjNIMP),
           AT(jnt_solimp, mjNIMP)},
          {"joint", "solreffriction", "dof_solref", "1", nullptr, -kInf, kInf, kSoft, 1e-2, DOFS(mjNREF),
           AT_DOF(dof_solref, mjNREF)},
          {"joint", "solimpfriction", "dof_solimp", "1", nullptr, 0, kInf, kSoft, 1e-3, DOFS(mjNIMP),
           AT_DOF(dof_solimp, mjNIMP)},
          {"joint", "actuatorfrcrange", "jnt_actfrcrange", "N", "N m", -kInf, kInf, kSoft, 1, COUNT(2),
           AT(jnt_actfrcrange, 2)},

          // geoms
          {"geom", "size", "geom_size", "m", nullptr, 0, kInf, kGeometric, 1, COUNT(3), AT(geom_size, 3)},
          {"geom", "pos", "geom_pos", "m", nullptr, -kInf, kInf, kGeometric, 1, COUNT(3), AT(geom_pos, 3)},
          {"geom", "rotation", "geom_quat", "rad", nullptr, -kInf, kInf, kGeometric, 1, COUNT(3), AT(geom_quat, 4),
           Writer::kRotation},
          {"geom", "friction", "geom_friction", "1", nullptr, 0, kInf, kSoft, 1e-3, COUNT(3), AT(geom_friction, 3)},
          {"geom", "solmix", "geom_solmix", "1", nullptr, 0, kInf, kSoft, 1e-2, COUNT(1), AT(geom_solmix, 1)},
          {"geom", "solref", "geom_solref", "1", nullptr, -kInf, kInf, kSoft, 1e-2, COUNT(mjNREF),
           AT(geom_solref, mjNREF)},
          {"geom", "solimp", "geom_solimp", "1", nullptr, 0, kInf, kSoft, 1e-3, COUNT(mjNIMP), AT(geom_solimp, mjNIMP)},
          {"geom", "margin", "geom_margin", "m", nullptr, -kInf, kInf, kGeometric, 1, COUNT(1), AT(geom_margin, 1)},
          {"geom", "gap", "geom_gap", "m", nullptr, -kInf, kInf, kGeometric, 1, COUNT(1), AT(geom_gap, 1)},
          {"geom", "surfacevel", "geom_surfacevel", "m/s, rad/s", nullptr, -kInf, kInf, kSoft, 1, COUNT(6),
           AT(geom_surfacevel, 6)},
          {"geom", "adhesion", "geom_adhesion", "N", nullptr, -kInf, kInf, kSoft, 1, COUNT(1), AT(geom_adhesion, 1)},
          {"geom", "fluid", "geom_fluid", "1", nullptr, -kInf, kInf, kSoft, 1e-1, COUNT(6), AT(geom_fluid, mjNFLUID)},

          // sites
          {"site", "pos", "site_pos", "m", nullptr, -kInf, kInf, kGeometric, 1, COUNT(3), AT(site_pos, 3)},
          {"site", "rotation", "site_quat", "rad", nullptr, -kInf, kInf, kGeometric, 1, COUNT(3), AT(site_quat, 4),
           Writer::kRotation},

          // contact pairs
          {"pair", "friction", "pair_friction", "1", nullptr, 0, kInf, kSoft, 1e-3, COUNT(5), AT(pair_friction, 5)},
          {"pair", "solref", "pair_solref", "1", nullptr, -kInf, kInf, kSoft, 1e-2, COUNT(mjNREF),
           AT(pair_solref, mjNREF)},
          {"pair", "solreffriction", "pair_solreffriction", "1", nullptr, -kInf, kInf, kSoft, 1e-2, COUNT(mjNREF),
           AT(pair_solreffriction, mjNREF)},
          {"pair", "solimp", "pair_solimp", "1", nullptr, 0, kInf, kSoft, 1e-3, COUNT(mjNIMP), AT(pair_solimp, mjNIMP)},
          {"pair", "margin", "pair_margin", "m", nullptr, -kInf, kInf, kGeometric, 1, COUNT(1), AT(pair_margin, 1)},
          {"pair", "gap", "pair_gap", "m", nullptr, -kInf, kInf, kGeometric, 1, COUNT(1), AT(pair_gap, 1)},
          {"pair", "adhesion", "pair_adhesion", "N", nullptr, -kInf, kInf, kSoft, 1, COUNT(1), AT(pair_adhesion, 1)},

          // equalities
          {"equality", "data", "eq_data", "1", nullptr, -kInf, kInf, kGeometric, 1, COUNT(11), AT(eq_data, mjNEQDATA)},
          {"equality", "solref", "eq_solref", "1", nullptr, -kInf, kInf, kSoft, 1e-2, COUNT(mjNREF),
           AT(eq_solref, mjNREF)},
          {"equality", "solimp", "eq_solimp", "1", nullptr, 0, kInf, kSoft, 1e-3, COUNT(mjNIMP), AT(eq_solimp, mjNIMP)},

          // tendons
          {"tendon", "stiffness", "tendon_stiffness", "N/m", nullptr, 0, kInf, kSoft, 1e-1, COUNT(1),
           AT(tendon_stiffness, 1)},
          {"tendon", "stiffnesspoly", "tendon_stiffnesspoly", "N/m^k", nullptr, -kInf, kInf, kSoft, 1e-1,
           COUNT(mjNPOLY), AT(tendon_stiffnesspoly, mjNPOLY)},
          {"tendon", "damping", "tendon_damping", "N s/m", nullptr, 0, kInf, kSoft, 1e-2, COUNT(1),
           AT(tendon_damping, 1)},
          {"tendon", "dampingpoly", "tendon_dampingpoly", "N/(m/s)^k", nullptr, -kInf, kInf, kSoft, 1e-2,
           COUNT(mjNPOLY), AT(tendon_dampingpoly, mjNPOLY)},
          {"tendon", "springlength", "tendon_lengthspring", "m", nullptr, -kInf, kInf, kSoft, 1e-1, COUNT(2),
           AT(tendon_lengthspring, 2)},
          {"tendon", "frictionloss", "tendon_frictionloss", "N", nullptr, 0, kInf, kSoft, 1e-1, COUNT(1),
           AT(tendon_frictionloss, 1)},
          {"tendon", "armature", "tendon_armature", "kg", nullptr, 0, kInf, kSoft, 1e-2, COUNT(1),
           AT(tendon_armature, 1)},
          {"tendon", "range", "tendon_range", "m", nullptr, -kInf, kInf, kGeometric, 1, COUNT(2), AT(tendon_range, 2)},
          {"tendon", "margin", "tendon_margin", "m", nullptr, -kInf, kInf, kGeometric, 1, COUNT(1),
           AT(tendon_margin, 1)},
          {"tendon", "solreflimit", "tendon_solref_lim", "1", nullptr, -kInf, kInf, kSoft, 1e-2, COUNT(mjNREF),
           AT(tendon_solref_lim, mjNREF)},
          {"tendon", "solimplimit", "tendon_solimp_lim", "1", nullptr, 0, kInf, kSoft, 1e-3, COUNT(mjNIMP),
           AT(tendon_solimp_lim, mjNIMP)},
          {"tendon", "solreffriction", "tendon_solref_fri", "1", nullptr, -kInf, kInf, kSoft, 1e-2, COUNT(mjNREF),
           AT(tendon_solref_fri, mjNREF)},
          {"tendon", "solimpfriction", "tendon_solimp_fri", "1", nullptr, 0, kInf, kSoft, 1e-3, COUNT(mjNIMP),
           AT(tendon_solimp_fri, mjNIMP)},
          {"tendon", "actuatorfrcrange", "tendon_actfrcrange", "N", nullptr, -kInf, kInf, kSoft, 1, COUNT(2),
           AT(tendon_actfrcrange, 2)},
          {"tendon", "coef", "wrap_prm", "1", nullptr, -kInf, kInf, kSoft, 0.1,
           [](const mjModel* m, int i) {
             return m->wrap_type[m->tendon_adr[i]] == mjWRAP_JOINT ? m->tendon_num[i] : 0;
           },
           [](const mjModel* m, int i) -> mjtNum* { return m->wrap_prm + m->tendon_adr[i]; }},

          // actuators
          {"actuator", "gear", "actuator_gear", "1", nullptr, -kInf, kInf, kSoft, 1,
           [](const mjModel* m, int i) { return 6 * m->actuator_outnum[i]; },
           [](const mjModel* m, int i) -> mjtNum* { return m->actuator_gear + 6 * m->actuator_outadr[i]; }},
          {"actuator", "gainprm", "actuator_gainprm", "1", nullptr, -kInf, kInf, kSoft, 1e-1, COUNT(mjNGAIN),
           AT(actuator_gainprm, mjNGAIN)},
          {"actuator", "biasprm", "actuator_biasprm", "1", nullptr, -kInf, kInf, kSoft, 1e-1, COUNT(mjNBIAS),
           AT(actuator_biasprm, mjNBIAS)},
          {"actuator", "dynprm", "actuator_dynprm", "1", nullptr, -kInf, kInf, kSoft, 1e-2, COUNT(mjNDYN),
           AT(actuator_dynprm, mjNDYN)},
          {"actuator", "timeconst", "actuator_dynprm", "s", nullptr, 1e-10, kInf, kSoft, 1e-3,
           [](const mjModel* m, int i) {
             const int dyn = m->actuator_dyntype[i];
             return dyn == mjDYN_FILTER || dyn == mjDYN_FILTEREXACT ? 1 : dyn == mjDYN_MUSCLE ? 2 : 0;
           },
           AT(actuator_dynprm, mjNDYN)},
          {"actuator", "kp", "actuator_gainprm", "N/m or N m/rad", nullptr, 0, kInf, kSoft, 1e-1, COUNT(1),
           AT(actuator_gainprm, mjNGAIN), Writer::kPosition},
          {"actuator", "kv", "actuator_biasprm", "N s/m or N m s/rad", nullptr, 0, kInf, kSoft, 1e-2, COUNT(1),
           AT(actuator_biasprm, mjNBIAS), Writer::kVelocity},
          {"actuator", "force", "actuator_gainprm", "N", nullptr, mjMINVAL, kInf, kSoft, 1,
           [](const mjModel* m, int i) {
             return m->actuator_gaintype[i] == mjGAIN_MUSCLE && m->actuator_biastype[i] == mjBIAS_MUSCLE ? 1 : 0;
           },
           [](const mjModel* m, int i) -> mjtNum* { return m->actuator_gainprm + mjNGAIN * i + 2; }, Writer::kMuscle},
          {"actuator", "ctrlrange", "actuator_ctrlrange", "of ctrl", nullptr, -kInf, kInf, kSoft, 1,
           [](const mjModel* m, int i) { return 2 * m->actuator_ctrlnum[i]; },
           [](const mjModel* m, int i) -> mjtNum* { return m->actuator_ctrlrange + 2 * m->actuator_ctrladr[i]; }},
          {"actuator", "forcerange", "actuator_forcerange", "N or N m", nullptr, -kInf, kInf, kSoft, 1, COUNT(2),
           AT(actuator_forcerange, 2)},
          {"actuator", "actrange", "actuator_actrange", "of act", nullptr, -kInf, kInf, kSoft, 1, COUNT(2),
           AT(actuator_actrange, 2)},
          {"actuator", "lengthrange", "actuator_lengthrange", "m or rad", nullptr, -kInf, kInf, kSoft, 1e-1,
           [](const mjModel* m, int i) { return 2 * m->actuator_outnum[i]; },
           [](const mjModel* m, int i) -> mjtNum* { return m->actuator_lengthrange + 2 * m->actuator_outadr[i]; }},
          {"actuator", "damping", "actuator_damping", "N s/m or N m s/rad", nullptr, 0, kInf, kSoft, 1e-2, COUNT(1),
           AT(actuator_damping, 1)},
          {"actuator", "armature", "actuator_armature", "kg or kg m²", nullptr, 0, kInf, kSoft, 1e-2, COUNT(1),
           AT(actuator_armature, 1)},
          {"actuator", "cranklength", "actuator_cranklength", "m", nullptr, 0, kInf, kGeometric, 1, COUNT(1),
           AT(actuator_cranklength, 1)},
          {"actuator", "delay", "actuator_delay", "s", nullptr, 0, kInf, kSoft, 1e-2, COUNT(1), AT(actuator_delay, 1)},

          // the world
          {"option", "gravity", "", "m/s²", nullptr, -kInf, kInf, kSoft, 1, COUNT(3), AT_OPTION(gravity)},
          {"option", "wind", "", "m/s", nullptr, -kInf, kInf, kSoft, 1, COUNT(3), AT_OPTION(wind)},
          {"option", "density", "", "kg/m³", nullptr, 0, kInf, kSoft, 1, COUNT(1), AT_OPTION_SCALAR(density)},
          {"option", "viscosity", "", "Pa s", nullptr, 0, kInf, kSoft, 1e-3, COUNT(1), AT_OPTION_SCALAR(viscosity)},
          {"option", "magnetic", "", "1", nullptr, -kInf, kInf, kSoft, 1, COUNT(3), AT_OPTION(magnetic)},
          {"option", "impratio", "", "1", nullptr, 1e-6, kInf, kSoft, 1, COUNT(1), AT_OPTION_SCALAR(impratio)},
          {"option", "o_margin", "", "m", nullptr, -kInf, kInf, kGeometric, 1, COUNT(1), AT_OPTION_SCALAR(o_margin)},
          {"option", "o_solref", "", "1", nullptr, -kInf, kInf, kSoft, 1e-2, COUNT(mjNREF), AT_OPTION(o_solref)},
          {"option", "o_solimp", "", "1", nullptr, 0, kInf, kSoft, 1e-3, COUNT(mjNIMP), AT_OPTION(o_solimp)},
          {"option", "o_friction", "", "1", nullptr, 0, kInf, kSoft, 1e-3, COUNT(5), AT_OPTION(o_friction)},
      };
  return table;
}

struct KindObject {
  const char* kind;
  int object;
};
constexpr KindObject kKinds[] = {{"body", mjOBJ_BODY},     {"joint", mjOBJ_JOINT},       {"geom", mjOBJ_GEOM},
                                 {"site", mjOBJ_SITE},     {"pair", mjOBJ_PAIR},         {"equality", mjOBJ_EQUALITY},
                                 {"tendon", mjOBJ_TENDON}, {"actuator", mjOBJ_ACTUATOR}, {"option", -1}};

// arrays that mj_setConst reads before it writes them, and those that it writes, by the engine's own list
struct SetConstArrays {
  std::set<std::string> inputs, outputs;
  SetConstArrays() {
    const auto add = [this](const char* name, int fixed, int kin0, int inert0, int spring) {
      for (int use : {fixed, kin0, inert0, spring}) {
        if (use == 0) continue;
        if (use & mjSC_IN) inputs.insert(name);
        break;
      }
      if ((fixed | kin0 | inert0 | spring) & mjSC_OUT) outputs.insert(name);
    };
#define X(name, fixed, kin0, inert0, spring) add(#name, fixed, kin0, inert0, spring);
    MJSETCONST_ARRAYS
#undef X
  }
};
const SetConstArrays& SetConst() {
  static const SetConstArrays arrays;
  return arrays;
}

bool Is(const Field& field, const char* kind, const char* name) {
  return std::string(field.kind) == kind && std::string(field.name) == name;
}

}  // namespace

const std::vector<Field>& Fields() { return Table(); }

bool ObjectOfKind(const std::string& kind, int* object) {
  for (const KindObject& known : kKinds) {
    if (kind != known.kind) continue;
    *object = known.object;
    return true;
  }
  return false;
}

std::vector<std::string> Kinds() {
  std::vector<std::string> kinds;
  for (const KindObject& known : kKinds) kinds.emplace_back(known.kind);
  return kinds;
}

bool EntersPosition(const Field& field) {
  static const std::set<std::string> later = {
      "dof_damping",       "dof_dampingpoly",      "jnt_stiffness",   "jnt_stiffnesspoly",  "qpos_spring",
      "tendon_stiffness",  "tendon_stiffnesspoly", "tendon_damping",  "tendon_dampingpoly", "tendon_lengthspring",
      "actuator_gainprm",  "actuator_biasprm",     "actuator_dynprm", "actuator_ctrlrange", "actuator_forcerange",
      "actuator_actrange", "actuator_lengthrange"};
  static const std::set<std::string> options = {"gravity", "wind", "density", "viscosity"};
  return field.array[0] == '\0' ? options.count(field.name) == 0 : later.count(field.array) == 0;
}

bool IsDerivedFrom(const std::string& array) { return SetConst().inputs.count(array) > 0; }
bool IsDerived(const std::string& array) { return SetConst().outputs.count(array) > 0; }

bool SwitchesState(const mjModel* m, const Field& field, int id, int index) {
  if (std::string(field.kind) != "actuator") return false;
  const bool dynamics = std::string(field.name) == "dynprm", gain = std::string(field.name) == "gainprm";
  switch (m->actuator_gaintype[id]) {
    case mjGAIN_DCMOTOR:  // current, temperature, bristle, rate of the setpoint; integral
      return dynamics ? index == 0 || index == 2 || index == 5 || index == 7 : gain && index == 5;
    case mjGAIN_PID:  // rate of the setpoint; integral
      return dynamics ? index == 1 : gain && index == 0;
    default: return false;
  }
}

bool IsPeakForce(const mjModel* m, const Field& field, int id, int index) {
  const std::string array = field.array;
  const bool gain = array == "actuator_gainprm" && m->actuator_gaintype[id] == mjGAIN_MUSCLE;
  const bool bias = array == "actuator_biasprm" && m->actuator_biastype[id] == mjBIAS_MUSCLE;
  return field.writer == Writer::kPlain && (gain || bias) && index == 2 && field.at(m, id)[2] > 0;
}

std::string WhyFixed(const mjModel* m, const Field& field, int id, int index) {
  const std::string kind = field.kind, name = field.name;
  if (kind == "body" && id == 0 && name != "gravcomp") return "the world does not move and has no inertia";

  // M of simple bodies is stored as a diagonal
  int body = -1;
  if (kind == "body" && (name == "ipos" || (name == "inertia" && index >= 4))) body = id;
  if (kind == "joint" && (name == "pos" || name == "axis")) body = m->jnt_bodyid[id];
  if (body >= 0 && m->body_simple[body]) {
    return "the compiler found the body's inertia diagonal and keeps no room for anything else (simple=\"false\" on "
           "the "
           "body in the MJCF makes room)";
  }
  if (kind == "tendon" && name == "armature" && m->tendon_armature[id] == 0) {
    return "the inertia matrix has no room for it: the compiler must have found a value above 0";
  }
  if (kind == "actuator" && name == "armature" && m->actuator_armature[id] == 0 &&
      m->actuator_trntype[id] == mjTRN_TENDON) {
    return "the inertia matrix has no room for it: the compiler must have found a value above 0";
  }
  if (SwitchesState(m, field, id, index) && !(field.at(m, id)[index] > 0)) {
    return "above 0 it gives the actuator a state, for which it was compiled without room";
  }
  if (kind == "actuator" && name == "delay" && m->actuator_history[2 * id] == 0) {
    return "the actuator was compiled without a history buffer";
  }
  if (kind == "geom" && name == "fluid" && m->geom_fluid[mjNFLUID * id] == 0) {
    return "the geom has no ellipsoid fluid model";
  }
  if (kind == "geom" && name == "fluid" && index == 0) return "it switches the ellipsoid fluid model on and off";
  if (kind == "geom" && name == "size") {
    const int type = m->geom_type[id];
    if (type == mjGEOM_MESH || type == mjGEOM_SDF || type == mjGEOM_HFIELD) {
      return "its shape is an asset, which the engine does not resize";
    }
    const int used = type == mjGEOM_SPHERE ? 1 : type == mjGEOM_CAPSULE || type == mjGEOM_CYLINDER ? 2 : 3;
    if (index >= used) return "this type of geom has only " + std::to_string(used) + (used == 1 ? " size" : " sizes");
  }
  if (kind == "equality" && name == "data") {
    const bool of_bodies = m->eq_objtype[id] == mjOBJ_BODY;
    const int type = m->eq_type[id];
    if ((type == mjEQ_CONNECT || type == mjEQ_WELD) && !of_bodies && (type == mjEQ_CONNECT || index < 10)) {
      return "between sites these numbers are not used: move the sites";
    }
    if (type == mjEQ_CONNECT && index >= 3 && index < 6) return "the engine derives the second anchor from data[0 … 2]";
    if (type == mjEQ_WELD && index >= 3 && index < 10 && m->eq_data[mjNEQDATA * id + 11] != 0) {
      return "the engine derives this relative pose from the model";
    }
    if (type == mjEQ_WELD && index >= 6 && index < 10) return "a quaternion's entries are not free";
  }
  return "";
}

std::string Note(const mjModel* m, const Field& field, int id) {
  const auto has_geoms = [&](int body) { return m->body_geomnum[body] > 0; };
  if (Is(field, "geom", "size") || Is(field, "geom", "pos") || Is(field, "geom", "rotation")) {
    if (m->geom_type[id] == mjGEOM_PLANE && Is(field, "geom", "size")) return "a plane's size is for pictures only";
    return m->body_dofnum[m->body_weldid[m->geom_bodyid[id]]] > 0 ? "the body's mass and inertia stay" : "";
  }
  if (Is(field, "geom", "friction"))
    return "of two geoms in contact the larger friction acts, or the higher priority's; where both are equal more "
           "of this one acts and less of it does not: the slope is half of that by more";
  if (Is(field, "body", "mass")) return "the body's moments of inertia stay (scale changes both)";
  if (Is(field, "body", "scale") || Is(field, "body", "inertia")) return has_geoms(id) ? "the geoms' shapes stay" : "";
  if (Is(field, "body", "pos") || Is(field, "body", "rotation")) {
    const int joint = m->body_jntadr[id];
    if (joint >= 0 && m->jnt_type[joint] == mjJNT_FREE) return "no effect: a free joint's pose is in qpos";
    if (m->body_mocapid[id] >= 0) return "no effect: a mocap body's pose is in mjData";
  }
  if ((Is(field, "joint", "range") || Is(field, "joint", "solreflimit") || Is(field, "joint", "solimplimit") ||
       Is(field, "joint", "margin")) &&
      !m->jnt_limited[id]) {
    return "no effect: the joint has no limits";
  }
  if ((Is(field, "tendon", "range") || Is(field, "tendon", "solreflimit") || Is(field, "tendon", "solimplimit") ||
       Is(field, "tendon", "margin")) &&
      !m->tendon_limited[id]) {
    return "no effect: the tendon has no limits";
  }
  if (Is(field, "actuator", "forcerange") && !m->actuator_forcelimited[id]) return "no effect: the force has no limits";
  if (Is(field, "actuator", "actrange") && !m->actuator_actlimited[id])
    return "no effect: the activation has no limits";
  if (Is(field, "option", "wind") && m->opt.density == 0 && m->opt.viscosity == 0) {
    return "no effect: the medium has neither density nor viscosity";
  }
  if (Is(field, "option", "magnetic")) return "acts on magnetometers alone";
  if (std::string(field.kind) == "option" && std::string(field.name).starts_with("o_") &&
      !(m->opt.enableflags & mjENBL_OVERRIDE)) {
    return "no effect: the flag override is off";
  }
  return "";
}

std::string Unit(const mjModel* m, const Field& field, int id, int index) {
  if (Is(field, "body", "inertia")) return index < 4 ? "1" : "m";
  if (std::string(field.kind) != "joint" || !field.unit_of_angle) return field.unit;
  const int type = m->jnt_type[id];
  const bool linear = type == mjJNT_SLIDE || (type == mjJNT_FREE && index < 3 && field.count(m, id) == 6);
  return linear ? field.unit : field.unit_of_angle;
}

}  // namespace costate
