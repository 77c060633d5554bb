// How far the point is from each switch of the step. Where a row switches: section 2 of README.md.
#include <costate/certificate.h>
#include <costate/model.h>
#include <costate/state.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <utility>

#include "core/check.h"
#include "core/engine_guard.h"
#include "core/extremes.h"
#include "derivative/actuation.h"
#include "derivative/certifier.h"
#include "derivative/check_point.h"
#include "derivative/effective_mass.h"
#include "derivative/equilibrium.h"
#include "derivative/flex.h"
#include "derivative/flex_element.h"
#include "derivative/fluid_damping.h"
#include "derivative/impedance.h"
#include "derivative/passive.h"
#include "derivative/sensor.h"
#include "derivative/spatial_tendon.h"
#include "derivative/step_stencil.h"
#include "derivative/switch_set.h"

namespace costate {
namespace {

constexpr double kHuge = 1e12;   // of forces and activations: a rounding of one is 1e-4
constexpr double kRest = 1e-13;  // [m] a tendon's length is known to
constexpr double kLeap = 1e3;    // of a nudge: farther no point moves that does not jump

// of the engine's acceleration: less says nothing of its slopes; nudges of positions and velocities that do
constexpr double kGap = 1e-9, kGapNudges[] = {1e-5, 1e-3};

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

// How far slopes of both accelerations are apart, by positions or by velocities: the less of two sizes, as roundings of
// where iterations end are more over the smaller
double CompareSlopes(const mjModel* model, const mjData* data, bool velocities, mjData* work) {
  const int nv = static_cast<int>(model->nv);
  Equilibrium point;
  double least = kInf;
  for (const double size : {1.0, 0.25}) {
    VectorXd slope[2] = {VectorXd::Zero(nv), VectorXd::Zero(nv)};
    for (const double sign : {1.0, -1.0}) {
      VectorXd nudge(nv);
      for (int i = 0; i < nv; ++i) nudge[i] = sign * size * kGapNudges[velocities] * std::sin(1 + 1.7 * i);
      const auto move = [&] {
        mj_copyState(model, data, work, mjSTATE_INTEGRATION);
        if (velocities) mju_addTo(work->qvel, nudge.data(), nv);
        else mj_integratePos(model, work->qpos, nudge.data(), 1);
      };
      move();
      slope[0] += sign * EngineAcceleration(*model, work);
      move();
      StepStatus status = StepStatus::kOk;
      std::string reason;
      if (!point.Solve(model, work, &status, &reason)) return 0;
      slope[1] += sign * Eigen::Map<const VectorXd>(work->qacc, nv);
    }
    const double largest = slope[1].cwiseAbs().maxCoeff();
    least = std::min(least, largest > 0 ? (slope[0] - slope[1]).cwiseAbs().maxCoeff() / largest : 0);
  }
  return least;
}

// (K17) does the engine divide by a least pivot, of M or of what its integrator solves with?
bool StepIsSingular(const mjModel& model, const mjData* data) {
  const DataPtr step = MakeData(&model);
  mj_copyState(&model, data, step.get(), mjSTATE_INTEGRATION);
  mj_step(&model, step.get());
  return step->warning[mjWARN_INERTIA].number > 0;
}

}  // namespace

void Certifier::Run(Certificate* out) {
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
  Springs();
  Forces();
  Inputs();
  Bristles();
  Lengths();
  const bool implicit = m_->opt.integrator == mjINT_IMPLICIT || m_->opt.integrator == mjINT_IMPLICITFAST;
  if ((HasImplicitVelocity(m_) || IsDiscrete(m_)) && !(m_->opt.disableflags & mjDSBL_DAMPER)) Dampers();
  if (implicit || IsDiscrete(m_)) Reversals();
  if (IsDiscrete(m_)) MetricGains();
  ContactSensors();
  Cutoffs();
  Tendons();
  Flexes();
  NearGeoms();
  const auto within = [&](const Switch& s) { return s.distance <= options_.reach; };
  if (std::none_of(out_->switches.begin(), out_->switches.end(), within)) Neighbours();

  // nearest first, unit by unit; what is within reach
  std::stable_sort(out_->switches.begin(), out_->switches.end(), [](const Switch& a, const Switch& b) {
    return std::pair(a.unit, a.distance) < std::pair(b.unit, b.distance);
  });
  if (std::any_of(out_->switches.begin(), out_->switches.end(), within)) out_->label = Smoothness::kModeCrossing;
}

// friction loss within its bound or at it; limits that are reached
void Certifier::Rows() {
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
          std::string(dof ? DofUnit(id) : "m") + "/s^2", sticks);
    } else if (type == mjCNSTR_LIMIT_JOINT || type == mjCNSTR_LIMIT_TENDON) {
      const bool joint = type == mjCNSTR_LIMIT_JOINT, pushes = state == mjCNSTRSTATE_QUADRATIC;
      const std::string name = joint ? Name("limit", mjOBJ_JOINT, id) : Name("limit", mjOBJ_TENDON, id);
      const std::string unit = joint ? Unit(id) : "m";
      Add(name, pushes ? "pushes" : "reached", "release", std::abs(y_[i]), unit + "/s^2", pushes);
      Add(name, pushes ? "pushes" : "reached", "limit", std::abs(d_->efc_pos[i] - d_->efc_margin[i]), unit, pushes);
    }
  }
}

// (K12) numbers whose rounding is as large as what is to be known of them; the first of each kind
void Certifier::Magnitudes() {
  const auto say = [&](const std::string& name, const char* unit) { Add(name, "huge", "its rounding", 0, unit, true); };
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

// (K11) impedances that rise in a straight line have corners: where the row's error is the width, and where it is
// none
void Certifier::Impedances() {
  for (int i = 0; i < d_->nefc;) {
    const ImpedanceCorner corner = ImpedanceCornerOf(m_, d_, i);
    const int *first = d_->efc_state + i, *end = first + corner.rows;
    if (corner.exists && std::any_of(first, end, [](int state) { return state != mjCNSTRSTATE_SATISFIED; })) {
      Add("impedance of " + RowName(i), corner.full ? "full" : "rises", "corner", corner.room, "of the row", true);
    }
    i += corner.rows;
  }
}

std::string Certifier::RowName(int row) const {
  const int type = d_->efc_type[row], id = d_->efc_id[row];
  if (type == mjCNSTR_EQUALITY) return Name("equality", mjOBJ_EQUALITY, id);
  if (type == mjCNSTR_LIMIT_JOINT) return Name("limit", mjOBJ_JOINT, id);
  if (type == mjCNSTR_LIMIT_TENDON) return Name("limit", mjOBJ_TENDON, id);
  if (type == mjCNSTR_FRICTION_DOF) return Name("friction loss", mjOBJ_JOINT, m_->dof_jntid[id]);
  if (type == mjCNSTR_FRICTION_TENDON) return Name("friction loss", mjOBJ_TENDON, id);
  return ContactName(Objects(d_->contact[id]));
}

// limits that are not reached, or of which one side is not
void Certifier::Limits() {
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
      Eigen::Vector3d turn;
      mju_quat2Vel(turn.data(), q, 1);
      const double reach = std::max(range[0], range[1]) - margin;
      inside(name, {reach - turn.norm()}, "rad");
      if (reach < mjPI) Turn(name, turn.norm());
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

// (K20) those of balls, which turn back the shorter way
void Certifier::Springs() {
  if (m_->opt.disableflags & mjDSBL_SPRING) return;
  for (int j = 0; j < m_->njnt; j++) {
    const int type = m_->jnt_type[j];
    if (IsScalarJoint(type) || !HasSpring(m_, j)) continue;
    const int rotation = type == mjJNT_FREE ? 3 : 0;
    mjtNum quat[4], turn[3];
    mju_copy4(quat, d_->qpos + m_->jnt_qposadr[j] + rotation);
    mju_normalize4(quat);
    mju_subQuat(turn, quat, SpringReference(m_, d_, j) + rotation);
    Turn(Name("spring", mjOBJ_JOINT, j), mju_norm3(turn));
  }
}

void Certifier::Direction(const std::string& name, double velocity, const std::string& unit) {
  Add(name,
      velocity > 0   ? "forwards"
      : velocity < 0 ? "backwards"
                     : "rests",
      "reversal", std::abs(velocity), unit, true);
}

// (P1) quadratic ones under an implicit integrator, whose M' has |v|
void Certifier::Dampers() {
  const auto quadratic = [&](const std::string& name, const Damping& damping, double velocity,
                             const std::string& unit) {
    if (damping.poly[0] != 0) Direction(name, velocity, unit);
  };
  for (int i = 0; i < m_->nv; i++) {
    quadratic(Name("damping", mjOBJ_JOINT, m_->dof_jntid[i]), DofDamping(m_, i), d_->qvel[i],
              std::string(DofUnit(i)) + "/s");
  }
  for (int t = 0; t < m_->ntendon && m_->opt.integrator != mjINT_EULER; t++) {
    quadratic(Name("damping", mjOBJ_TENDON, t), TendonDamping(m_, t), d_->ten_velocity[t], "m/s");
  }
}

// (K8) what else has corners in the matrix of the implicit integrators: a part that stands still in a fluid, a muscle
// between two pieces of its force by velocity
void Certifier::Reversals() {
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

// values against the cutoffs of their sensors; how far beyond is not kept
void Certifier::Cutoffs() {
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
      if (HeldByCutoff(m_, sensed->sensordata, i, row)) held = true;
      else
        room = std::min(room,
                        m_->sensor_cutoff[i] - (m_->sensor_datatype[i] == mjDATATYPE_REAL ? std::abs(value) : value));
    }
    Add(name, held ? "held" : "inside", "cutoff", room, "of the sensor", held);
  }
}

// sensors that show a place or direction, found by rays or as that of nearest points, or tell on which side of a border
// something is
bool ShowsPlace(int type) {
  return type == mjSENS_RANGEFINDER || type == mjSENS_GEOMDIST || type == mjSENS_GEOMNORMAL ||
         type == mjSENS_GEOMFROMTO || type == mjSENS_INSIDESITE;
}

// (K10) neighbours along each coordinate and control whose step takes another branch, of what kind it may be
void Certifier::Neighbours() {
  if (options_.reach == 0) return;
  DifferenceModel model(m_);
  model.Refresh(m_, true);
  StepStencil stencil(m_);
  const DataPtr data = MakeData(m_);
  mj_copyState(m_, d_, data.get(), mjSTATE_INTEGRATION);
  stencil.CaptureConverged(&model, data.get());
  stencil.Restore(model.get(), data.get(), -1, 0);
  model.SelectActivationBranches(data.get(), 1);
  std::vector<int> zoned;  // sensors of contacts at a site
  for (int i = 0; i < m_->nsensor && !(m_->opt.disableflags & mjDSBL_SENSOR); i++) {
    if (ReadsContactsOfSite(m_, i)) zoned.push_back(i);
  }
  using Zones = std::vector<std::vector<char>>;
  const auto step = [&](int column, double nudge, SwitchSet* set, Zones* zones) {
    zones->resize(zoned.size());
    if (!zoned.empty()) {
      stencil.Restore(model.get(), data.get(), column, nudge);
      mj_fwdPosition(model.get(), data.get());
      for (std::size_t k = 0; k < zoned.size(); k++) ContactsOfSite(m_, data.get(), zoned[k], &(*zones)[k]);
    }
    stencil.Restore(model.get(), data.get(), column, nudge);
    set->Clear();
    set->Step(model.get(), data.get());
  };
  SwitchSet here, there;
  Zones zones_here, zones_there;
  step(-1, 0, &here, &zones_here);
  const VectorXd sensed = Eigen::Map<const VectorXd>(data->sensordata, m_->nsensordata);
  std::vector<char> leaps(m_->nsensor, 0);
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
      step(column, sign * nudge, &there, &zones_there);
      change = there.DifferenceFrom(here, end);
      for (std::size_t k = 0; k < zoned.size() && !change; k++) {
        leaps[zoned[k]] = leaps[zoned[k]] || zones_there[k] != zones_here[k];
      }
      for (int i = 0; i < m_->nsensor; i++) {
        if (!ShowsPlace(m_->sensor_type[i])) continue;
        const int at = m_->sensor_adr[i], n = m_->sensor_dim[i];
        const auto moved = Eigen::Map<const VectorXd>(data->sensordata + at, n) - sensed.segment(at, n);
        leaps[i] = leaps[i] || moved.norm() > kLeap * nudge;
      }
    }
    if (change) changes.insert({change, {column, 0}}).first->second.second++;
  }
  for (int i = 0; i < m_->nsensor; i++) {
    if (leaps[i]) Add(Name("place", mjOBJ_SENSOR, i), "here", "another place", options_.reach, "of a nudge", true);
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
void Certifier::Tendons() {
  if (m_->ntendon == 0) return;
  TendonMoments tendons(m_);
  const std::string turns = tendons.Compute(m_, d_);
  if (!turns.empty()) Add(turns, "wraps", "another side", 0, "m", true);
  for (const WrapRoom& room : tendons.Rooms(m_, d_)) {
    Add(Name("path", mjOBJ_TENDON, room.tendon) + " at " + ElementName(m_, mjOBJ_GEOM, room.geom),
        room.wraps ? "wraps" : "straight",
        room.turns   ? "another side"
        : room.wraps ? "straight"
                     : "wraps",
        room.room, "m", room.wraps);
  }
  for (int t = 0; t < m_->ntendon && !(m_->opt.disableflags & mjDSBL_SPRING); t++) {
    const mjtNum* rest = SpringRange(m_, d_, t);
    if (m_->tendon_stiffness[t] == 0) continue;
    const double length = d_->ten_length[t], edge = std::min(std::abs(length - rest[0]), std::abs(length - rest[1]));
    if (rest[0] == rest[1]) {
      const bool in_metric = std::find(d_->efm_tid, d_->efm_tid + d_->nefmT, t) != d_->efm_tid + d_->nefmT;
      if (IsDiscrete(m_) && in_metric && edge < kRest)  // (H2)
        Add(Name("spring", mjOBJ_TENDON, t), "rests", "pulls", 0, "m", false);
      continue;
    }
    const bool slack = length >= rest[0] && length <= rest[1];
    Add(Name("spring", mjOBJ_TENDON, t), slack ? "slack" : "pulls", slack ? "pulls" : "slack", edge, "m", !slack);
  }
}

// (K21) a rod that is straight between two elements has no plane that it bends in, and damps what it bends with
void Certifier::Rods() {
  if ((m_->opt.disableflags & (mjDSBL_SPRING | mjDSBL_DAMPER)) || mju_isZero(d_->qvel, static_cast<int>(m_->nv)))
    return;
  for (int f = 0; f < m_->nflex; f++) {
    if (!HasTwist(m_, f) || m_->flex_damping[f] == 0) continue;
    const int* element = m_->flex_elem + m_->flex_elemdataadr[f];
    const auto vertex = [&](int i) -> Eigen::Vector3d {
      return Eigen::Map<const Eigen::Vector3d>(d_->flexvert_xpos + 3 * (m_->flex_vertadr[f] + i));
    };
    double least = mjMAXVAL;
    for (int i = 0; i < m_->flex_elemnum[f]; i++) {
      for (int k = 0; k < i; k++) {
        const int *one = element + 2 * i, *other = element + 2 * k;
        for (int end = 0; end < 4; end++) {
          if (one[end / 2] != other[end % 2]) continue;
          const Eigen::Vector3d middle = vertex(one[end / 2]), a = vertex(one[1 - end / 2]) - middle,
                                b = middle - vertex(other[1 - end % 2]);
          least = std::min(least, std::atan2(a.cross(b).norm(), a.dot(b)));
        }
      }
    }
    if (least < mjMAXVAL) Add("bend of " + ElementName(m_, mjOBJ_FLEX, f), "bent", "straight", least, "rad", false);
  }
}

// (H4) of each flex the tension that is nearest to none
void Certifier::Flexes() {
  if (m_->nflex == 0) return;
  Rods();
  std::vector<FlexTension> tensions;
  FindFlexTensions(m_, d_, &tensions);
  for (int f = 0; f < m_->nflex; f++) {
    const FlexTension* nearest = nullptr;
    for (const FlexTension& t : tensions) {
      if (t.flex == f && t.matters && (!nearest || t.room < nearest->room)) nearest = &t;
    }
    if (!nearest) continue;
    Add(fmt::format("tension of {}, edge {} of element {}", ElementName(m_, mjOBJ_FLEX, f), nearest->edge,
                    nearest->element),
        nearest->sign > 0   ? "pulls"
        : nearest->sign < 0 ? "pushes"
                            : "rests",
        nearest->sign > 0 ? "pushes" : "pulls", nearest->room, "m", nearest->sign > 0);
  }
}

const char* ToString(Smoothness label) {
  switch (label) {
    case Smoothness::kSmooth: return "smooth";
    case Smoothness::kModeCrossing: return "mode-crossing";
    case Smoothness::kSmoothed: return "smoothed";
  }
  return "unknown";
}

namespace {

void CheckDistance(const char* name, double distance) {
  if (distance >= 0) return;
  throw Error(ErrorCode::kInvalidArgument, fmt::format("{} is {:g}, it cannot be negative", name, distance));
}

}  // namespace

Certificate Certify(const mjModel* model, const mjData* data, const CertifyOptions& options) {
  RefuseInCallback("Certify");
  CheckDifferentiable(model);
  CheckModelOptions(model);
  CheckDistance("reach", options.reach);
  CheckDistance("proximity", options.proximity);
  CheckFiniteState(model, GetState(model, data));
  CheckFiniteControl(model, Eigen::Map<const VectorXd>(data->ctrl, model->nu));
  CheckFiniteContext(model, GetContext(model, data));
  mjModel local = *model;
  local.opt.disableflags |= mjDSBL_AUTORESET;
  local.opt.enableflags &= ~mjENBL_SLEEP;
  const DataPtr work = MakeData(model);
  EngineGuard guard(work.get(), EngineGuard::Around::kEngine);
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
    if (point.IsSingular() || StepIsSingular(local, work.get()))
      out.switches.push_back({"inertia", "singular", "its rounding", 0, "", true});
    Certifier(&local, work.get(), options).Run(&out);
    for (const bool velocities : {false, true}) {
      if (!(out.solver_gap.size > kGap)) break;
      out.solver_gap.slope = std::max(out.solver_gap.slope, CompareSlopes(&local, data, velocities, work.get()));
    }
  }
  guard.TakeWarnings();
  return out;
}

}  // namespace costate
