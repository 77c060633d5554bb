#include "rollout/units.h"

namespace costate {
namespace {

using Units = std::vector<std::string>;

void Add(const std::string& unit, int count, Units* units) {
  units->insert(units->end(), static_cast<std::size_t>(count), unit);
}

bool IsSlide(const mjModel* m, int joint) { return joint >= 0 && m->jnt_type[joint] == mjJNT_SLIDE; }

// what a tendon measures: a length, or a sum of joint positions
std::string TendonUnit(const mjModel* m, int tendon) {
  return m->wrap_type[m->tendon_adr[tendon]] == mjWRAP_JOINT ? "m or rad" : "m";
}

std::string SensorUnit(const mjModel* m, int sensor) {
  const int object = m->sensor_objid[sensor];
  switch (m->sensor_type[sensor]) {
    case mjSENS_TOUCH:
    case mjSENS_FORCE:
    case mjSENS_TENDONACTFRC:
    case mjSENS_TENDONLIMITFRC: return "N";
    case mjSENS_TORQUE: return "N m";
    case mjSENS_ACCELEROMETER:
    case mjSENS_FRAMELINACC: return "m/s^2";
    case mjSENS_VELOCIMETER:
    case mjSENS_FRAMELINVEL:
    case mjSENS_SUBTREELINVEL: return "m/s";
    case mjSENS_GYRO:
    case mjSENS_BALLANGVEL:
    case mjSENS_FRAMEANGVEL: return "rad/s";
    case mjSENS_FRAMEANGACC: return "rad/s^2";
    case mjSENS_MAGNETOMETER: return "magnetic";
    case mjSENS_RANGEFINDER:
    case mjSENS_FRAMEPOS:
    case mjSENS_SUBTREECOM:
    case mjSENS_GEOMDIST:
    case mjSENS_GEOMFROMTO: return "m";
    case mjSENS_CAMPROJECTION: return "pixel";
    case mjSENS_JOINTPOS:
    case mjSENS_JOINTLIMITPOS: return IsSlide(m, object) ? "m" : "rad";
    case mjSENS_JOINTVEL:
    case mjSENS_JOINTLIMITVEL: return IsSlide(m, object) ? "m/s" : "rad/s";
    case mjSENS_JOINTACTFRC:
    case mjSENS_JOINTLIMITFRC: return IsSlide(m, object) ? "N" : "N m";
    case mjSENS_TENDONPOS:
    case mjSENS_TENDONLIMITPOS: return TendonUnit(m, object);
    case mjSENS_TENDONVEL:
    case mjSENS_TENDONLIMITVEL: return TendonUnit(m, object) == "m" ? "m/s" : "m/s or rad/s";
    case mjSENS_ACTUATORPOS: return "m or rad";
    case mjSENS_ACTUATORVEL: return "m/s or rad/s";
    case mjSENS_ACTUATORFRC: return "N or N m";
    case mjSENS_SUBTREEANGMOM: return "kg m^2/s";
    case mjSENS_E_POTENTIAL:
    case mjSENS_E_KINETIC: return "J";
    case mjSENS_CLOCK: return "s";
    case mjSENS_BALLQUAT:
    case mjSENS_FRAMEQUAT:
    case mjSENS_FRAMEXAXIS:
    case mjSENS_FRAMEYAXIS:
    case mjSENS_FRAMEZAXIS:
    case mjSENS_INSIDESITE:
    case mjSENS_GEOMNORMAL: return "1";
    case mjSENS_CONTACT: return "mixed";
    case mjSENS_TACTILE: return "m or m/s";
    default: return "user";
  }
}

}  // namespace

Units StateUnits(const mjModel* model) {
  Units units;
  for (int i = 0; i < model->njnt; ++i) {
    const int type = model->jnt_type[i];
    if (type == mjJNT_FREE) Add("m", 3, &units);
    if (type == mjJNT_FREE || type == mjJNT_BALL) Add("1", 4, &units);
    if (type == mjJNT_SLIDE) Add("m", 1, &units);
    if (type == mjJNT_HINGE) Add("rad", 1, &units);
  }
  for (int i = 0; i < model->njnt; ++i) {
    const int type = model->jnt_type[i];
    if (type == mjJNT_FREE) Add("m/s", 3, &units);
    if (type == mjJNT_FREE || type == mjJNT_BALL) Add("rad/s", 3, &units);
    if (type == mjJNT_SLIDE) Add("m/s", 1, &units);
    if (type == mjJNT_HINGE) Add("rad/s", 1, &units);
  }
  Add("act", static_cast<int>(model->na), &units);
  return units;
}

Units ControlUnits(const mjModel* model) { return Units(static_cast<std::size_t>(model->nu), "ctrl"); }

Units SensorUnits(const mjModel* model) {
  Units units(static_cast<std::size_t>(model->nsensordata), "user");
  for (int i = 0; i < model->nsensor; ++i) {
    const std::string unit = SensorUnit(model, i);
    for (int k = 0; k < model->sensor_dim[i]; ++k) units[static_cast<std::size_t>(model->sensor_adr[i] + k)] = unit;
  }
  return units;
}

std::vector<std::string> WithUnits(std::vector<std::string> names, const Units& units) {
  for (std::size_t i = 0; i < names.size(); ++i) names[i] += " (" + units[i] + ")";
  return names;
}

}  // namespace costate
