// How far the point is from each switch of the step. Where a row switches: section 2 of README.md.
#include <costate/certificate.h>
#include <costate/model.h>
#include <costate/state.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <set>
#include <utility>

#include "core/engine_guard.h"
#include "derivative/actuation.h"
#include "derivative/adhesion.h"
#include "derivative/check_point.h"
#include "derivative/contact_geometry.h"
#include "derivative/effective_mass.h"
#include "derivative/equilibrium.h"
#include "derivative/fluid_damping.h"
#include "derivative/impedance.h"
#include "derivative/noslip.h"
#include "derivative/onset.h"
#include "derivative/passive.h"
#include "derivative/sensor.h"
#include "derivative/sensor_contact.h"
#include "derivative/spatial_tendon.h"
#include "derivative/step_stencil.h"
#include "derivative/switch_set.h"

namespace costate {
namespace {

constexpr double kHuge = 1e12;  // of forces and activations: a rounding of one is 1e-4

class Certifier {
 public:
  Certifier(const mjModel* model, mjData* data, const CertifyOptions& options)
      : m_(model), d_(data), options_(options) {}

  void Run(Certificate* out) {
    out_ = out;
    y_.resize(d_->nefc);
    if (d_->nefc > 0) {
      mj_mulJacVec(m_, d_, y_.data(), d_->qacc);
      mju_subFrom(y_.data(), d_->efc_aref, d_->nefc);
    }
    Rows();
    Contacts();
    Pulls();
    Jumps();
    Facets();
    Searches();
    Magnitudes();
    if (m_->opt.noslip_iterations > 0) Noslip();
    Impedances();
    Limits();
    Forces();
    Inputs();
    const bool implicit = m_->opt.integrator == mjINT_IMPLICIT || m_->opt.integrator == mjINT_IMPLICITFAST;
    Bristles();
    if ((HasImplicitVelocity(m_) || IsDiscrete(m_)) && !(m_->opt.disableflags & mjDSBL_DAMPER)) Dampers();
    if (implicit || IsDiscrete(m_)) Reversals();
    ContactSensors();
    Cutoffs();
    Tendons();
    NearGeoms();
    const auto within = [&](const Switch& s) { return s.distance <= options_.reach; };
    if (std::none_of(out_->switches.begin(), out_->switches.end(), within)) Neighbours();

    // nearest first, unit by unit; what is within reach
    std::stable_sort(out_->switches.begin(), out_->switches.end(), [](const Switch& a, const Switch& b) {
      return std::pair(a.unit, a.distance) < std::pair(b.unit, b.distance);
    });
    if (std::any_of(out_->switches.begin(), out_->switches.end(), within)) out_->label = Smoothness::kModeCrossing;
  }

 private:
  void Add(std::string name, std::string state, std::string next, double distance, std::string unit, bool active) {
    out_->switches.push_back(
        {std::move(name), std::move(state), std::move(next), std::max(0.0, distance), std::move(unit), active});
  }

  void OneSided(const std::string& name) {
    std::vector<std::string>& names = out_->one_sided;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }

  std::string Name(const char* what, int type, int id) const {
    return std::string(what) + " of " + ElementName(m_, type, id);
  }
  const char* Unit(int joint) const { return m_->jnt_type[joint] == mjJNT_SLIDE ? "m" : "rad"; }

  // friction loss within its bound or at it; limits that are reached
  void Rows() {
    for (int i = 0; i < d_->nefc; i++) {
      const int type = d_->efc_type[i], id = d_->efc_id[i], state = d_->efc_state[i];
      const bool dof = type == mjCNSTR_FRICTION_DOF;
      if (dof || type == mjCNSTR_FRICTION_TENDON) {
        const std::string name =
            dof ? Name("friction loss", mjOBJ_JOINT, m_->dof_jntid[id]) : Name("friction loss", mjOBJ_TENDON, id);
        const bool sticks = state == mjCNSTRSTATE_QUADRATIC;
        const double loss = d_->efc_frictionloss[i],
                     edge = loss * d_->efc_R[i];  // |y| where the force reaches the loss
        Add(name, sticks ? "sticks" : "slides", "stick or slip", std::abs(std::abs(y_[i]) - edge),
            dof ? (m_->jnt_type[m_->dof_jntid[id]] == mjJNT_SLIDE ? "m/s^2" : "rad/s^2") : "m/s^2", sticks);
      } else if (type == mjCNSTR_LIMIT_JOINT || type == mjCNSTR_LIMIT_TENDON) {
        const bool joint = type == mjCNSTR_LIMIT_JOINT, pushes = state == mjCNSTRSTATE_QUADRATIC;
        const std::string name = joint ? Name("limit", mjOBJ_JOINT, id) : Name("limit", mjOBJ_TENDON, id);
        const std::string unit = joint ? Unit(id) : "m";
        Add(name, pushes ? "pushes" : "reached", "release", std::abs(y_[i]), unit + "/s^2", pushes);
        Add(name, pushes ? "pushes" : "reached", "limit", std::abs(d_->efc_pos[i] - d_->efc_margin[i]), unit, pushes);
      }
    }
  }

  void Contacts() {
    for (int c = 0; c < d_->ncon; c++) {
      const mjContact& contact = d_->contact[c];
      if (contact.efc_address < 0) continue;
      touching_.insert(Objects(contact));
      const std::string name = ContactName(Objects(contact));
      const int row = contact.efc_address, dim = contact.dim;
      const bool elliptic = d_->efc_type[row] == mjCNSTR_CONTACT_ELLIPTIC;
      const bool pyramid = d_->efc_type[row] == mjCNSTR_CONTACT_PYRAMIDAL;
      double onset = contact.includemargin - contact.dist, switching = 0;
      std::string state = "apart", next = "release";
      bool active = false;
      if (elliptic) {
        // zones of the cone in y: apart where N ≥ μ T, sticks where μ N + T ≤ 0, slides between
        const double N = y_[row] * contact.mu;
        double T = 0;
        for (int k = 1; k < dim; k++) T += std::pow(y_[row + k] * contact.friction[k - 1], 2);
        T = std::sqrt(T);
        const double release = std::abs(N - contact.mu * T), slip = std::abs(contact.mu * N + T);
        active = d_->efc_state[row] != mjCNSTRSTATE_SATISFIED;
        state = !active ? "apart" : d_->efc_state[row] == mjCNSTRSTATE_QUADRATIC ? "sticks" : "slides";
        switching = active ? std::min(release, slip) : release;
        if (active && slip < release) next = "stick or slip";
      } else {
        // a pyramid's edge, or the normal alone, ends at y = 0
        const int rows = pyramid ? 2 * (dim - 1) : 1;
        int pushing = 0;
        switching = mjMAXVAL;
        for (int k = row; k < row + rows; k++) {
          pushing += d_->efc_state[k] == mjCNSTRSTATE_QUADRATIC;
          switching = std::min(switching, std::abs(y_[k]));
        }
        active = pushing > 0;
        if (active) state = pushing == rows ? "sticks" : "slides";
        if (active && pyramid) next = "stick or slip";
        if (rows == 1 && active) state = "pushes";
      }
      Add(name, state, next, switching, "m/s^2", active);
      Add(name, state, "onset", onset, "m", active);
      FacePair faces;
      if (FindFacePair(m_, d_, contact, &faces)) {
        Add(name, "face on face", "the other's normal", faces.tilt, "rad of tilt", active);
      }
      if (active && IsWithoutLever(m_, d_, contact) && !PushesInVain(m_, d_, contact))
        Add(name, "without lever", "any lever", 0, "m of lever", active);
      ClippedCorner corner;
      if (FindClippedCorner(m_, d_, contact, &corner))
        Add(name, "corner of two borders", "another border", corner.room, "m", active);
      const double border = active ? FeatureRoom(m_, d_, contact) : mjMAXVAL;
      if (border <= options_.proximity) Add(name, "beside a border", "another feature", border, "m", active);
      const double tilt = active ? TiltOfUpright(contact) : mjMAXVAL;
      if (tilt <= options_.proximity) Add(name, "upright", "another tangent", tilt, "rad", active);
    }
  }

  // (K14) of a capsule that stands on a plane, whose tangents go where it tilts, where its friction feels them
  double TiltOfUpright(const mjContact& contact) const {
    if (contact.dim < 3 || contact.geom[0] < 0 || contact.geom[1] < 0) return mjMAXVAL;
    const GeomPose plane(m_, d_, contact.geom[0]), post(m_, d_, contact.geom[1]);
    if (plane.type != mjGEOM_PLANE || post.type != mjGEOM_CAPSULE) return mjMAXVAL;
    bool feels = contact.friction[0] != contact.friction[1];
    const int row = contact.efc_address;
    if (d_->efc_type[row] == mjCNSTR_CONTACT_PYRAMIDAL) {
      // however the tangents lie, all edges push and their sum is that of a cone
      double turned = 0;
      for (int k = row; k < row + 4; k += 2) {
        const double sum = d_->efc_force[k] + d_->efc_force[k + 1];
        turned += sum > 0 ? std::pow((d_->efc_force[k] - d_->efc_force[k + 1]) / sum, 2) : 1;
      }
      feels = feels || turned >= 1;
    }
    return feels ? post.axis().cross(Vec3Map(contact.frame)).norm() : mjMAXVAL;
  }

  // contacts that an adhesion pulls along, whether they push or not (C21)
  void Pulls() {
    std::vector<double> pull(d_->ncon, 0.0);
    AddGeomPulls(m_, d_, &pull);
    AddActuatorPulls(m_, d_, &pull);
    pulled_.assign(d_->ncon, 0);
    for (int c = 0; c < d_->ncon; c++) pulled_[c] = pull[c] != 0;
  }

  bool IsPartOfForces(int c) const {
    return pulled_[c] || (d_->contact[c].efc_address >= 0 && CarriesForce(d_, d_->contact[c]));
  }

  // contacts that push and have no place of their own: nudges move them to and fro (a box on a height field's corner),
  // or each along another side of a corner
  void Jumps() {
    ContactGeometry geometry(m_);
    std::string missing;
    geometry.Compute(m_, d_, &missing, true, &pulled_);
    std::set<std::pair<int, int>> pairs;
    for (int c = 0; c < d_->ncon; c++) {
      const mjContact& contact = d_->contact[c];
      if (!IsPartOfForces(c)) continue;
      const std::string name = ContactName(Objects(contact));
      if (geometry.jumps(c) || (pairs.insert(Objects(contact)).second && geometry.Flickers(m_, d_, c))) {
        Add(name, "jumps", "another place", 0, "m", true);
      }
      if (geometry.bends(c)) Add(name, "on a corner", "another side of it", 0, "m", true);
    }
  }

  // does a sensor of contacts read this one, which need not push?
  std::vector<char> ReadContacts() const {
    std::vector<char> read(d_->ncon, 0);
    std::vector<MatchedContact> matched;
    for (int i = 0; i < m_->nsensor && !(m_->opt.disableflags & mjDSBL_SENSOR); i++) {
      if (m_->sensor_type[i] != mjSENS_CONTACT || !MatchContacts(m_, d_, i, &matched)) continue;
      const std::size_t count = std::min(matched.size(), static_cast<std::size_t>(ContactSlots(m_, i)));
      for (std::size_t k = 0; k < count; k++) read[matched[k].contact] = 1;
    }
    return read;
  }

  // contacts of curved surfaces that are felt: the collider's are a staircase of facets below its tolerance
  void Facets() {
    const std::vector<char> read = ReadContacts();
    for (int c : FeltStaircases(m_, d_)) {
      if (!IsPartOfForces(c) && !read[c]) continue;
      Add(ContactName(Objects(d_->contact[c])), "on a facet of the collider's", "another facet", 0, "m", true);
    }
    if (m_->opt.integrator != mjINT_RK4) return;
    const DataPtr stages = MakeData(m_);
    mj_copyState(m_, d_, stages.get(), mjSTATE_INTEGRATION);
    if (LaterStagesHaveStaircases(m_, stages.get()))
      Add("contacts of later stages", "on a facet of the collider's", "another facet", 0, "m", true);
  }

  // sensors of nearest points that a search ends near: where it ends jumps, too
  void Searches() {
    if (m_->nsensor == 0 || (m_->opt.disableflags & mjDSBL_SENSOR)) return;
    SensorDerivative sensors(m_);
    for (int i = 0; i < m_->nsensor; i++) {
      if (sensors.SearchedGeoms(m_, d_, i)[0] < 0) continue;
      Add(Name("nearest points", mjOBJ_SENSOR, i), "where a search ends", "another end", 0, "m", true);
    }
  }

  // (K12) numbers whose rounding is as large as what is to be known of them; the first of each kind
  void Magnitudes() {
    const auto say = [&](const std::string& name, const char* unit) {
      Add(name, "huge", "its rounding", 0, unit, true);
    };
    for (int i = 0; i < d_->nefc; i++) {
      if (std::abs(d_->efc_force[i]) >= kHuge) return say("force of " + RowName(i), "N, Nm");
    }
    for (int a = 0; a < m_->na; a++) {
      if (std::abs(d_->act[a]) >= kHuge) return say("activation " + TangentNames(m_)[2 * m_->nv + a], "of act");
    }
    for (int i = 0; i < m_->nactuator; i++) {
      if (std::abs(d_->actuator_force[m_->actuator_outadr[i]]) >= kHuge)
        return say(Name("force", mjOBJ_ACTUATOR, i), "N, Nm");
    }
    for (int i = 0; i < m_->nv; i++) {
      const double force = std::max(std::abs(d_->qfrc_actuator[i]), std::abs(d_->qfrc_passive[i]));
      if (std::max(force, std::abs(d_->qacc[i])) >= kHuge) return say("forces at " + TangentNames(m_)[i], "N, Nm");
    }
  }

  static std::pair<int, int> Objects(const mjContact& contact) {
    return {ContactObject(contact, 0), ContactObject(contact, 1)};
  }

  std::string ObjectName(int object) const {
    return object >= 0 ? ElementName(m_, mjOBJ_GEOM, object) : ElementName(m_, mjOBJ_FLEX, -1 - object);
  }
  std::string ContactName(const std::pair<int, int>& objects) const {
    return "contact of " + ObjectName(objects.first) + " and " + ObjectName(objects.second);
  }

  // bounds on the friction forces of each sweep, and the end of the sweeps
  void Noslip() {
    NoslipPass pass(m_);
    pass.Run(m_, d_, d_->qacc);
    for (const NoslipPass::Room& room : pass.room()) {
      const int type = d_->efc_type[room.efc], id = d_->efc_id[room.efc];
      const std::string name = type == mjCNSTR_FRICTION_DOF      ? Name("friction loss", mjOBJ_JOINT, m_->dof_jntid[id])
                               : type == mjCNSTR_FRICTION_TENDON ? Name("friction loss", mjOBJ_TENDON, id)
                                                                 : ContactName(Objects(d_->contact[id]));
      Add(name + " behind noslip", room.bounded ? "slides" : "sticks", "stick or slip", room.distance, "N, Nm", true);
    }
    if (!pass.room().empty() && pass.end_distance() < mjMAXVAL)
      Add("noslip pass", "ends", "another sweep", pass.end_distance(), "of noslip_tolerance", true);
  }

  // (K11) impedances that rise in a straight line have corners: where the row's error is the width, and where it is
  // none
  void Impedances() {
    for (int i = 0; i < d_->nefc;) {
      const ImpedanceCorner corner = ImpedanceCornerOf(m_, d_, i);
      const int *first = d_->efc_state + i, *end = first + corner.rows;
      if (corner.exists && std::any_of(first, end, [](int state) { return state != mjCNSTRSTATE_SATISFIED; })) {
        Add("impedance of " + RowName(i), corner.full ? "full" : "rises", "corner", corner.room, "of the row", true);
      }
      i += corner.rows;
    }
  }

  std::string RowName(int row) const {
    const int type = d_->efc_type[row], id = d_->efc_id[row];
    if (type == mjCNSTR_EQUALITY) return Name("equality", mjOBJ_EQUALITY, id);
    if (type == mjCNSTR_LIMIT_JOINT) return Name("limit", mjOBJ_JOINT, id);
    if (type == mjCNSTR_LIMIT_TENDON) return Name("limit", mjOBJ_TENDON, id);
    if (type == mjCNSTR_FRICTION_DOF) return Name("friction loss", mjOBJ_JOINT, m_->dof_jntid[id]);
    if (type == mjCNSTR_FRICTION_TENDON) return Name("friction loss", mjOBJ_TENDON, id);
    return ContactName(Objects(d_->contact[id]));
  }

  // limits that are not reached, or of which one side is not
  void Limits() {
    if (m_->opt.disableflags & (mjDSBL_LIMIT | mjDSBL_CONSTRAINT)) return;
    const auto inside = [&](const std::string& name, std::initializer_list<double> rooms, const char* unit) {
      double nearest = mjMAXVAL;
      for (const double room : rooms) {
        if (room >= 0) nearest = std::min(nearest, room);
      }
      if (nearest < mjMAXVAL) Add(name, "inside", "limit", nearest, unit, false);
    };
    for (int j = 0; j < m_->njnt; j++) {
      if (!m_->jnt_limited[j]) continue;
      const std::string name = Name("limit", mjOBJ_JOINT, j);
      const mjtNum *q = d_->qpos + m_->jnt_qposadr[j], *range = m_->jnt_range + 2 * j;
      const double margin = m_->jnt_margin[j];
      if (m_->jnt_type[j] == mjJNT_BALL) {
        Vector3 turn;
        mju_quat2Vel(turn.data(), q, 1);
        inside(name, {std::max(range[0], range[1]) - turn.norm() - margin}, "rad");
      } else {
        inside(name, {*q - range[0] - margin, range[1] - *q - margin}, Unit(j));
      }
    }
    for (int t = 0; t < m_->ntendon; t++) {
      if (!m_->tendon_limited[t]) continue;
      const mjtNum* range = m_->tendon_range + 2 * t;
      const double length = d_->ten_length[t], margin = m_->tendon_margin[t];
      inside(Name("limit", mjOBJ_TENDON, t), {length - range[0] - margin, range[1] - length - margin}, "m");
    }
  }

  // a value against the edges of its range
  void Clamp(const std::string& name, double value, const mjtNum* range, const char* unit) {
    const double edge = std::min(std::abs(value - range[0]), std::abs(range[1] - value));
    const bool clamped = value < range[0] || value > range[1];
    Add(name, clamped ? "clamped" : "inside", "clamp", edge, unit, clamped);
  }

  void Forces() {
    if (m_->opt.disableflags & mjDSBL_ACTUATION) return;
    for (int i = 0; i < m_->nactuator; i++) {
      if (!m_->actuator_forcelimited[i]) continue;
      if (m_->actuator_gaintype[i] == mjGAIN_SO3) {
        Torque(i);
        continue;
      }
      for (int k = 0; k < m_->actuator_outnum[i]; k++) {
        Saturation(Name("force", mjOBJ_ACTUATOR, i), LimitedForce(m_, d_, d_->act, i, k),
                   m_->actuator_forcerange + 2 * i);
      }
    }
    for (int j = 0; j < m_->njnt; j++) {
      if (!m_->jnt_actfrclimited[j]) continue;
      Saturation(Name("actuator force", mjOBJ_JOINT, j), d_->qfrc_actuator[m_->jnt_dofadr[j]],
                 m_->jnt_actfrcrange + 2 * j);
    }
    for (int t = 0; t < m_->ntendon; t++) {
      if (!m_->tendon_actfrclimited[t]) continue;
      const ActuatorPull pull = ActuatorPullOf(m_, d_, t);
      const bool inside = pull.force > pull.range[0] && pull.force < pull.range[1];
      Saturation(Name("actuator force", mjOBJ_TENDON, t), pull.force,
                 inside ? m_->tendon_actfrcrange + 2 * t : pull.range);
    }
  }

  // (K16) limited in norm; whether the matrices of implicit integrators have one that is clamped, rounding decides
  void Torque(int i) {
    if (IsActuatorDisabled(m_, i) || !ServoMissing(m_, i).empty()) return;
    const ServoSlope servo = MakeServoSlope(m_, d_, i);
    const double limit = m_->actuator_forcerange[2 * i + 1];
    const bool clamped = servo.value > limit;
    const std::string name = Name("torque", mjOBJ_ACTUATOR, i);
    Add(name, clamped ? "clamped" : "inside", "clamp", std::abs(servo.value - limit), "Nm", clamped);
    const bool matrix = HasImplicitVelocity(m_) || IsDiscrete(m_);
    if (clamped && matrix && m_->opt.integrator != mjINT_EULER && m_->actuator_biasprm[mjNBIAS * i + 2] != 0)
      Add(name, "clamped", "its rounding", 0, "Nm", true);
  }

  // the engine has clamped the force already: on the edge it is saturated, how far beyond is not kept
  void Saturation(const std::string& name, double force, const mjtNum* range) {
    if (force > range[0] && force < range[1]) Clamp(name, force, range, "N, Nm");
    else out_->switches.push_back({name, "clamped", "clamp", mjMAXVAL, "N, Nm", true});
  }

  void Inputs() {
    const std::vector<std::string> controls = ControlNames(m_);
    const bool clamps = !(m_->opt.disableflags & mjDSBL_CLAMPCTRL);
    for (int i = 0; i < m_->nu; i++) {
      if (!m_->actuator_ctrllimited[i] || !clamps) continue;
      Clamp(controls[i], d_->ctrl[i], m_->actuator_ctrlrange + 2 * i, "of ctrl");
      if (out_->switches.back().distance == 0) OneSided(controls[i]);
    }
    for (int i = 0; i < m_->nactuator; i++) {
      if (m_->actuator_dyntype[i] == mjDYN_MUSCLE) Muscle(i, controls, clamps);
      for (int k = 0; k < m_->actuator_actnum[i]; k++) {
        // act' against actrange: where the step's clamp is
        const ActivationStep update = ActivationStepOf(m_, i, k);
        if (!update.limited()) continue;
        const int act = m_->actuator_actadr[i] + k;
        const std::string name = Name("activation", mjOBJ_ACTUATOR, i);
        const mjtNum range[] = {update.lower, update.upper};
        Clamp(name, d_->act[act] + update.step * d_->act_dot[act], range, "of act");
        if (out_->switches.back().distance == 0) OneSided(name);
      }
      if (IntegralOf(m_, i).act >= 0 && !IsActuatorDisabled(m_, i)) Integral(i);
    }
  }

  // (K15) an integral runs up to its limit and is held from there on, until the error turns; on the limit the
  // derivative is that of being held
  void Integral(int i) {
    const IntegralSlot integral = IntegralOf(m_, i);
    const ServoSlope servo = MakeServoSlope(m_, d_, i);
    const std::string name = Name("integral", mjOBJ_ACTUATOR, i);
    const double act = d_->act[integral.act], error = servo.integral_error;
    const double limit = std::copysign(integral.limit, error == 0 ? act : error);
    const double beyond = limit > 0 ? act - limit : limit - act;
    const char* state = servo.held ? "held" : "runs";
    Add(name, state, "limit", std::abs(beyond), "of act", servo.held);
    if (beyond == 0) OneSided(Name("activation", mjOBJ_ACTUATOR, i));
    if (std::abs(act) >= integral.limit) Add(name, state, "error turns", std::abs(error), "of length", servo.held);
  }

  // (A8) |velocity| in what bends a motor's bristle, where it is bent
  void Bristles() {
    for (int i = 0; i < m_->nactuator && !IsActuationOff(m_); i++) {
      if (m_->actuator_dyntype[i] != mjDYN_DCMOTOR || IsActuatorDisabled(m_, i)) continue;
      const int slot = SlotsOf(m_, i).bristle;
      if (slot < 0 || d_->act[m_->actuator_actadr[i] + slot] == 0) continue;
      Direction(Name("friction", mjOBJ_ACTUATOR, i), d_->actuator_velocity[m_->actuator_outadr[i]], "m/s, rad/s");
    }
  }

  void Direction(const std::string& name, double velocity, const char* unit) {
    Add(name,
        velocity > 0   ? "forwards"
        : velocity < 0 ? "backwards"
                       : "rests",
        "reversal", std::abs(velocity), unit, true);
  }

  // (P1) quadratic ones under an implicit integrator, whose M' has |v|
  void Dampers() {
    const auto quadratic = [&](const std::string& name, const Damping& damping, double velocity, const char* unit) {
      if (damping.poly[0] != 0) Direction(name, velocity, unit);
    };
    for (int i = 0; i < m_->nv; i++) {
      const int joint = m_->dof_jntid[i], type = m_->jnt_type[joint];
      const bool slides = type == mjJNT_SLIDE || (type == mjJNT_FREE && i < m_->jnt_dofadr[joint] + 3);
      quadratic(Name("damping", mjOBJ_JOINT, joint), DofDamping(m_, i), d_->qvel[i], slides ? "m/s" : "rad/s");
    }
    for (int t = 0; t < m_->ntendon && m_->opt.integrator != mjINT_EULER; t++) {
      quadratic(Name("damping", mjOBJ_TENDON, t), TendonDamping(m_, t), d_->ten_velocity[t], "m/s");
    }
  }

  // (K8) what else has corners in the matrix of the implicit integrators: a part that stands still in a fluid, a muscle
  // between two pieces of its force by velocity
  void Reversals() {
    for (const FluidReversal& part : FluidReversals(m_, d_)) {
      const std::string name =
          part.geom < 0 ? Name("fluid", mjOBJ_BODY, part.body) : Name("fluid", mjOBJ_GEOM, part.geom);
      Add(name, part.speed > 0 ? "moves" : "rests", "reversal", part.speed, part.turns ? "rad/s" : "m/s", true);
    }
    if (m_->opt.disableflags & mjDSBL_ACTUATION) return;
    for (int i = 0; i < m_->nactuator; i++) {
      const double room = MuscleBendRoom(m_, d_, i);
      if (room == mjMAXVAL) continue;
      const double velocity = d_->actuator_velocity[m_->actuator_outadr[i]];
      Add(Name("velocity", mjOBJ_ACTUATOR, i),
          velocity > 0   ? "lengthens"
          : velocity < 0 ? "shortens"
                         : "rests",
          "another piece", room, "of velocity", true);
    }
  }

  // (A3) the range of excitations and of the activation in the time constant, and where that switches
  void Muscle(int i, const std::vector<std::string>& controls, bool clamps) {
    constexpr mjtNum kRange[] = {0, 1};
    const int u = m_->actuator_ctrladr[i], a = m_->actuator_actadr[i];
    if (m_->actuator_ctrlnum[i] != 1 || m_->actuator_actnum[i] != 1) return;
    const mjtNum* range = m_->actuator_ctrlrange + 2 * u;
    const bool limited = clamps && m_->actuator_ctrllimited[u];
    const double ctrl = limited ? std::clamp(d_->ctrl[u], range[0], range[1]) : d_->ctrl[u];
    if (!limited || range[0] < 0 || range[1] > 1) {
      Clamp(controls[u], ctrl, kRange, "of ctrl");
      if (out_->switches.back().distance == 0) OneSided(controls[u]);
    }
    const double excess = std::clamp(ctrl, 0.0, 1.0) - d_->act[a];
    const std::string name = Name("activation", mjOBJ_ACTUATOR, i);
    if (excess != 0) {  // at rest the time constant does not matter
      Clamp(name, d_->act[a], kRange, "of act");
      if (out_->switches.back().distance == 0) OneSided(name);
    }
    if (m_->actuator_dynprm[mjNDYN * i + 2] >= mjMINVAL) return;
    const bool stages = m_->opt.integrator == mjINT_RK4;
    Add(name,
        excess > 0   ? "rises"
        : excess < 0 ? "falls"
                     : "rests",
        "rise or fall", stages ? StagesOfMuscle(m_, i, ctrl, d_->act[a]).excess : std::abs(excess), "of act", false);
    if (excess == 0) OneSided(name);
  }

  // sensors that choose among contacts: how much nearer or stronger one is than the next
  void ContactSensors() {
    std::vector<MatchedContact> found;
    for (int i = 0; i < m_->nsensor; i++) {
      if (!ChoosesContacts(m_, i) || !MatchContacts(m_, d_, i, &found)) continue;
      const bool nearest = ReductionOf(m_, i) == Reduction::kNearest;
      const double room = ChoiceRoom(m_, i, found);
      if (room == mjMAXVAL) continue;
      Add(Name("choice", mjOBJ_SENSOR, i), nearest ? "nearest" : "strongest", "another contact", room,
          nearest ? "m" : "N", false);
    }
  }

  // values against the cutoffs of their sensors; how far beyond is not kept
  void Cutoffs() {
    if (std::none_of(m_->sensor_cutoff, m_->sensor_cutoff + m_->nsensor, [](mjtNum cutoff) { return cutoff > 0; }))
      return;
    const DataPtr sensed = MakeData(m_);
    mj_copyState(m_, d_, sensed.get(), mjSTATE_INTEGRATION);
    mj_forward(m_, sensed.get());
    for (int i = 0; i < m_->nsensor; i++) {
      if (!HasCutoff(m_, i)) continue;
      const std::string name = Name("value", mjOBJ_SENSOR, i);
      double room = mjMAXVAL;
      bool held = false;
      for (int row = m_->sensor_adr[i]; row < m_->sensor_adr[i] + m_->sensor_dim[i]; row++) {
        const double value = sensed->sensordata[row];
        if (HeldByCutoff(m_, sensed.get(), i, row)) held = true;
        else
          room = std::min(room,
                          m_->sensor_cutoff[i] - (m_->sensor_datatype[i] == mjDATATYPE_REAL ? std::abs(value) : value));
      }
      Add(name, held ? "held" : "inside", "cutoff", room, "of the sensor", held);
    }
  }

  // (K10) neighbours along each coordinate and control whose step takes another branch, of what kind it may be
  void Neighbours() {
    if (options_.reach == 0) return;
    DifferenceModel model(m_);
    model.Refresh(m_, true);
    StepStencil stencil(m_);
    const DataPtr data = MakeData(m_);
    mj_copyState(m_, d_, data.get(), mjSTATE_INTEGRATION);
    stencil.CaptureConverged(model.get(), data.get());
    stencil.Restore(model.get(), data.get(), -1, 0);
    model.SelectActivationBranches(data.get(), 1);
    const auto step = [&](int column, double nudge, SwitchSet* set) {
      stencil.Restore(model.get(), data.get(), column, nudge);
      set->Clear();
      set->Step(model.get(), data.get());
    };
    SwitchSet here, there;
    step(-1, 0, &here);
    std::map<std::string, std::pair<int, int>> changes;  // what differs: along which column first, along how many
    for (int column = 0; column < stencil.dims().ndx + stencil.dims().nu; column++) {
      double nudge = options_.reach;
      const Side side = stencil.ColumnSide(model, column, true, &nudge);
      if (side == Side::kNone) continue;
      const SwitchSet::Kind end =
          side != Side::kCentered && stencil.OnEdge(model, column) ? SwitchSet::kForceLimits : SwitchSet::kKinds;
      const char* change = nullptr;
      for (const int sign : {1, -1}) {
        if (change || side == (sign > 0 ? Side::kBackward : Side::kForward)) continue;
        step(column, sign * nudge, &there);
        change = there.DifferenceFrom(here, end);
      }
      if (change) changes.insert({change, {column, 0}}).first->second.second++;
    }
    std::vector<std::string> names = TangentNames(m_);
    for (const std::string& name : ControlNames(m_)) names.push_back(name);
    for (const auto& [change, where] : changes) {
      const auto& [column, count] = where;
      Add(names[column] + (count > 1 ? " and " + std::to_string(count - 1) + " more" : ""), "here", change,
          options_.reach, "of a nudge", false);
    }
  }

  // a tendon straight through the middle of what it wraps (T5), one that begins or ceases to wrap, and the ends of a
  // slack spring
  void Tendons() {
    if (m_->ntendon == 0) return;
    TendonMoments tendons(m_);
    const std::string turns = tendons.Compute(m_, d_);
    if (!turns.empty()) Add(turns, "wraps", "another side", 0, "m", true);
    for (const WrapRoom& room : tendons.Rooms(m_, d_)) {
      Add(Name("path", mjOBJ_TENDON, room.tendon) + " at " + ElementName(m_, mjOBJ_GEOM, room.geom),
          room.wraps ? "wraps" : "straight", room.wraps ? "straight" : "wraps", room.room, "m", room.wraps);
    }
    for (int t = 0; t < m_->ntendon && !(m_->opt.disableflags & mjDSBL_SPRING); t++) {
      const mjtNum* rest = SpringRange(m_, d_, t);
      if (m_->tendon_stiffness[t] == 0 || rest[0] == rest[1]) continue;
      const double length = d_->ten_length[t], edge = std::min(std::abs(length - rest[0]), std::abs(length - rest[1]));
      const bool slack = length >= rest[0] && length <= rest[1];
      Add(Name("spring", mjOBJ_TENDON, t), slack ? "slack" : "pulls", slack ? "pulls" : "slack", edge, "m", !slack);
    }
  }

  // geoms about to touch: a collision pass with a margin
  void NearGeoms() {
    if ((m_->opt.disableflags & (mjDSBL_CONTACT | mjDSBL_CONSTRAINT)) || !(options_.proximity > 0)) return;
    const mjModel wide = WithReach(m_, options_.proximity);
    mj_collision(&wide, d_);
    std::map<std::pair<int, int>, double> nearest;
    for (int c = 0; c < d_->ncon; c++) {
      const mjContact& contact = d_->contact[c];
      const std::pair<int, int> pair = Objects(contact);
      if (touching_.count(pair)) continue;
      const auto [at, fresh] = nearest.insert({pair, contact.dist});
      if (!fresh) at->second = std::min(at->second, static_cast<double>(contact.dist));
    }
    for (const auto& [pair, dist] : nearest) {
      const double room = dist - OnsetMargin(m_, pair.first, pair.second);
      if (room <= options_.proximity) Add(ContactName(pair), "apart", "onset", room, "m", false);
    }
  }

  using Vector3 = Eigen::Vector3d;
  const mjModel* m_;
  mjData* d_;
  const CertifyOptions& options_;
  Certificate* out_ = nullptr;
  VectorXd y_;                // J a − aref
  std::vector<char> pulled_;  // contacts
  std::set<std::pair<int, int>> touching_;
};

// as the model sets its solver, before noslip
VectorXd EngineAcceleration(mjModel model, mjData* data) {
  model.opt.noslip_iterations = 0;
  mj_forward(&model, data);
  return Eigen::Map<const VectorXd>(data->qacc, model.nv);
}

SolverGap CompareAccelerations(const mjModel* model, const VectorXd& engine, const VectorXd& converged) {
  SolverGap gap;
  if (model->nv == 0) return gap;
  Eigen::Index at = 0;
  const double largest = (engine - converged).cwiseAbs().maxCoeff(&at);
  gap.size = largest / std::max(1.0, converged.cwiseAbs().maxCoeff());
  if (largest > 0) gap.name = TangentNames(model)[model->nv + at];
  gap.engine = engine[at];
  gap.converged = converged[at];
  return gap;
}

}  // namespace

const char* ToString(Smoothness label) {
  switch (label) {
    case Smoothness::kSmooth: return "smooth";
    case Smoothness::kModeCrossing: return "mode-crossing";
    case Smoothness::kSmoothed: return "smoothed";
  }
  return "unknown";
}

Certificate Certify(const mjModel* model, const mjData* data, const CertifyOptions& options) {
  CheckDifferentiable(model);
  CheckFiniteState(model, GetState(model, data));
  CheckFiniteControl(model, Eigen::Map<const VectorXd>(data->ctrl, model->nu));
  mjModel local = *model;
  local.opt.disableflags |= mjDSBL_AUTORESET;
  local.opt.enableflags &= ~mjENBL_SLEEP;
  const DataPtr work = MakeData(model);
  EngineGuard guard(work.get());
  mj_copyState(model, data, work.get(), mjSTATE_INTEGRATION);
  Certificate out;
  Equilibrium point;
  StepStatus status = StepStatus::kOk;
  std::string reason;
  const VectorXd engine = EngineAcceleration(local, work.get());
  mj_copyState(model, data, work.get(), mjSTATE_INTEGRATION);
  point.Solve(&local, work.get(), &status, &reason);  // where it does not converge its last point is looked at
  out.valid = status == StepStatus::kOk;
  if (out.valid) {
    out.solver_gap = CompareAccelerations(model, engine, Eigen::Map<const VectorXd>(work->qacc, model->nv));
    if (point.IsSingular()) out.switches.push_back({"inertia", "singular", "its rounding", 0, "", true});
    Certifier(&local, work.get(), options).Run(&out);
  }
  guard.TakeWarnings();
  return out;
}

}  // namespace costate
