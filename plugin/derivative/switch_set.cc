#include "derivative/switch_set.h"

#include <algorithm>
#include <cmath>

#include "core/plastic.h"
#include "derivative/actuation.h"
#include "derivative/contact_geometry.h"
#include "derivative/equilibrium.h"
#include "derivative/munthe_kaas.h"
#include "derivative/passive.h"
#include "derivative/sensor.h"
#include "derivative/servo.h"

namespace costate {
namespace {

constexpr const char* kNames[] = {
    "contacts",      "constraints",         "constraint states", "force limits",     "tendon paths",
    "muscles",       "limits of integrals", "corners of servos", "plastic yielding", "tensions of flexes",
    "sensor cutoffs"};

constexpr double kOnset = 1e-14;    // of a distance in metres: rounding
constexpr double kSwing = 0.5;      // cosine
constexpr double kUpright = 1e-12;  // sine: rounding
constexpr double kScaled = 1e-12;   // of a torque that is scaled to its limit: rounding
constexpr double kAlike = 1e-9;  // of a metre, of the strongest force: rounding decides which contact a sensor reads …
constexpr int kAnyContact = -2, kNoContact = -1;  // … and none is the same then

// -1, 0, 1: at or beyond the lower bound, between, at or beyond the upper one
int Zone(double value, const mjtNum* range) { return value <= range[0] ? -1 : value >= range[1] ? 1 : 0; }

}  // namespace

void ForceZones(const mjModel* model, const mjData* data, const mjtNum* act, bool beyond,
                std::vector<signed char>* zones) {
  zones->clear();
  const auto add = [&](double force, const mjtNum* range) {
    const bool at_limit = force == range[0] || force == range[1];
    zones->push_back(static_cast<signed char>(beyond && at_limit ? 0 : Zone(force, range)));
  };
  for (int i = 0; i < model->nactuator; ++i) {
    if (!model->actuator_forcelimited[i]) continue;
    const mjtNum* range = model->actuator_forcerange + 2 * i;
    if (model->actuator_gaintype[i] == mjGAIN_SO3) {
      // limited in norm; whether the engine's matrices have it beyond, rounding decides
      const bool matrix = model->opt.integrator != mjINT_EULER && model->opt.integrator != mjINT_RK4;
      const mjtNum norm[2] = {-range[1], beyond || matrix ? range[1] : range[1] * (1 - kScaled)};
      add(mju_norm3(data->actuator_force + model->actuator_outadr[i]), norm);
      continue;
    }
    for (int k = 0; k < model->actuator_outnum[i]; ++k) add(LimitedForce(model, data, act, i, k), range);
  }
  for (int i = 0; i < model->njnt; ++i) {
    if (model->jnt_actfrclimited[i]) add(data->qfrc_actuator[model->jnt_dofadr[i]], model->jnt_actfrcrange + 2 * i);
  }
  for (int i = 0; i < model->ntendon; ++i) {
    if (!model->tendon_actfrclimited[i]) continue;
    const ActuatorPull pull = ActuatorPullOf(model, data, i);
    add(pull.force, beyond ? model->tendon_actfrcrange + 2 * i : pull.range);
  }
}

void SwitchSet::Add(Kind kind, int value) {
  // FNV-1a
  for (int shift = 0; shift < 32; shift += 8) {
    hash_[kind] = (hash_[kind] ^ ((static_cast<std::uint32_t>(value) >> shift) & 255u)) * 1099511628211u;
  }
}

void SwitchSet::Step(const mjModel* model, mjData* data) {
  Before(model, data);
  if (model->opt.integrator == mjINT_RK4) Stages(model, data);
  mj_step(model, data);
  Note(model, data);
}

// the first three stages of RK4, (I6): a step leaves its last
void SwitchSet::Stages(const mjModel* m, mjData* d) {
  mj_forward(m, d);
  Note(m, d);
  using Map = Eigen::Map<VectorXd>;
  const Map v(d->qvel, m->nv), act(d->act, m->na);
  point_.resize(mj_stateSize(m, mjSTATE_INTEGRATION));
  mj_getState(m, d, point_.data(), mjSTATE_INTEGRATION);
  q0_ = Map(d->qpos, m->nq);
  v0_ = rate_ = v;
  act0_ = act;
  const double time = d->time;
  for (int i = 1; i < 3; ++i) {
    const double step = kStageWeight[i] * m->opt.timestep;
    turn_ = step * rate_;
    mju_copy(d->qpos, q0_.data(), static_cast<int>(m->nq));
    mj_integratePos(m, d->qpos, turn_.data(), 1);
    Map(d->qvel, m->nv) = v0_ + step * Map(d->qacc, m->nv);
    Map(d->act, m->na) = act0_ + step * Map(d->act_dot, m->na);
    d->time = time + step;
    rate_ = v;
    ForRotations(m, [&](int adr) {
      rate_.segment<3>(adr) = StageRotation(turn_.segment<3>(adr)).Apply(rate_.segment<3>(adr).eval());
    });
    act_ = act;
    d->flg_energyvel = 0;
    mj_forward(m, d);
    Note(m, d);
  }
  mj_setState(m, d, point_.data(), mjSTATE_INTEGRATION);
  d->flg_energyvel = 0;
  act_ = act0_;
}

void SwitchSet::Forward(const mjModel* model, mjData* data) {
  Before(model, data);
  mj_forward(model, data);
  Note(model, data);
}

void SwitchSet::Before(const mjModel* model, mjData* data) {
  plastic_ = Eigen::Map<const VectorXd>(data->plastic, model->nplastic);
  if (model->nplastic > 0) yields_ = Yielding(model);
  act_ = Eigen::Map<const VectorXd>(data->act, model->na);
  if (model->opt.noslip_iterations == 0) return;

  // rows of the minimum that a noslip pass begins with: what it leaves does not tell which of them pushed
  mjModel before = *model;
  before.opt.noslip_iterations = 0;
  before.opt.disableflags |= mjDSBL_SENSOR;
  mj_forward(&before, data);
  NoteStates(&before, data);
}

void SwitchSet::Note(const mjModel* model, mjData* data) {
  NoteConstraints(model, data);
  NoteActuators(model, data);
  NoteTendons(model, data);
  NoteFlexes(model, data);
  NoteSensors(model, data);
  for (int i = 0; i < model->nplastic; ++i) Add(kYield, yields_[i] && data->plastic[i] != plastic_[i]);
}

void SwitchSet::NoteConstraints(const mjModel* model, mjData* data) {
  unsigned corners = 0;  // whatever the order in which the engine finds those of a pair
  notes_++;
  Add(kContacts, data->ncon);
  for (int i = 0; i < data->ncon; ++i) {
    const mjContact& contact = data->contact[i];
    for (int side = 0; side < 2; ++side) {
      for (int id : {contact.geom[side], contact.flex[side], contact.elem[side], contact.vert[side]})
        Add(kContacts, id);
    }
    Add(kContacts, contact.exclude);
    if (model->opt.noslip_iterations > 0 && contact.dim > 1) {
      places_.push_back({Eigen::Map<const Eigen::Vector3d>(contact.pos), {notes_, contact.geom[0], contact.geom[1]}});
    }
    on_onset_ = on_onset_ || std::abs(contact.dist - contact.includemargin) < kOnset;
    NoteLean(model, data, contact);
    FacePair faces;
    if (FindFacePair(model, data, contact, &faces)) Add(kContacts, 2 * faces.owner[0] + faces.owner[1]);
    ClippedCorner corner;
    if (!FindClippedCorner(model, data, contact, &corner)) continue;
    unsigned mine = 1;
    for (int border : corner.borders) mine = 31 * mine + static_cast<unsigned>(border);
    corners += mine * mine;
  }
  Add(kContacts, static_cast<int>(corners));
  Add(kConstraints, data->nefc);
  for (int i = 0; i < data->nefc; ++i) {
    Add(kConstraints, data->efc_type[i]);
    Add(kConstraints, data->efc_id[i]);
    if (data->efc_type[i] == mjCNSTR_LIMIT_JOINT && model->jnt_type[data->efc_id[i]] == mjJNT_BALL) {
      const int adr = model->jnt_dofadr[data->efc_id[i]];
      Eigen::Vector3d axis = Eigen::Vector3d::Zero();
      ForJacobianRow(model, data, i, [&](int dof, double J) {
        if (dof >= adr && dof < adr + 3) axis[dof - adr] = J;
      });
      axes_.push_back(axis);
    }
  }
  if (data->nefc == 0) return;
  if (model->opt.noslip_iterations > 0) NoteNoslip(data);
  else NoteStates(model, data);
}

void SwitchSet::NoteStates(const mjModel* model, mjData* data) {
  // states at J a − aref
  residual_.resize(data->nefc);
  mj_mulJacVec(model, data, residual_.data(), data->qacc);
  residual_ -= Eigen::Map<const VectorXd>(data->efc_aref, data->nefc);
  mj_constraintUpdate(model, data, residual_.data(), nullptr, 0);
  for (int i = 0; i < data->nefc; ++i) Add(kStates, data->efc_state[i]);
}

// which way from its axis the lowest point of a cylinder on a plane lies
void SwitchSet::NoteLean(const mjModel* model, const mjData* data, const mjContact& contact) {
  const int g1 = contact.geom[0], g2 = contact.geom[1];
  if (g1 < 0 || g2 < 0 || model->geom_type[g1] != mjGEOM_PLANE || model->geom_type[g2] != mjGEOM_CYLINDER) return;
  const Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>> frame(data->geom_xmat + 9 * g2);
  const Eigen::Vector3d n(contact.frame[0], contact.frame[1], contact.frame[2]), axis = frame.col(2);
  const Eigen::Vector3d down = axis * axis.dot(n) - n;
  leans_.push_back(Eigen::Vector3d::Zero());
  if (down.norm() > kUpright) leans_.back() = down.normalized();
}

// the noslip pass leaves the minimum: its forces lie on their bounds exactly or not at all; and how many sweeps it took
void SwitchSet::NoteNoslip(const mjData* data) {
  for (int i = 0; i < data->nefc; ++i) {
    const double loss = data->efc_frictionloss[i];
    const double range[2] = {-loss, loss};
    Add(kStates, loss > 0 ? Zone(data->efc_force[i], range) : data->efc_force[i] != 0);
    if (data->efc_type[i] != mjCNSTR_CONTACT_ELLIPTIC) continue;
    const mjContact& contact = data->contact[data->efc_id[i]];
    double friction = 0;
    for (int k = 1; k < contact.dim; ++k) {
      Add(kStates, data->efc_force[i + k] != 0);
      friction += std::pow(data->efc_force[i + k] / contact.friction[k - 1], 2);
    }
    Add(kStates, std::sqrt(friction) >= data->efc_force[i] * (1 - 1e-12));
    i += contact.dim - 1;
  }
  for (int island = 0; island < std::min(mjNISLAND, std::max(1, data->nisland)); ++island) {
    // a sweep is the only iteration without gradient and without evaluations of the cost
    int sweeps = 0;
    const mjSolverStat* stat = data->solver + island * mjNSOLVER;
    for (int k = std::min(mjNSOLVER, data->solver_niter[island]) - 1; k >= 0; --k, ++sweeps) {
      if (stat[k].neval != 0 || stat[k].gradient != 0) break;
    }
    Add(kStates, sweeps);
  }
}

void SwitchSet::NoteActuators(const mjModel* model, const mjData* data) {
  ForceZones(model, data, act_.data(), false, &forces_);
  for (const signed char zone : forces_) Add(kForceLimits, zone);
  for (int i = 0; i < model->nactuator; ++i) {
    // an integral does not move while it is held
    const IntegralSlot integral = IntegralOf(model, i);
    if (integral.act >= 0) Add(kIntegrals, data->act_dot[integral.act] == 0);
    forces_.clear();
    directions_.push_back(static_cast<signed char>(AppendServoZones(model, data, act_.data(), i, &forces_)));
    for (const signed char zone : forces_) Add(kServos, zone);

    // an unsmoothed muscle's time constant depends on the sign of excitation − activation
    if (model->actuator_dyntype[i] != mjDYN_MUSCLE || model->actuator_dynprm[i * mjNDYN + 2] >= mjMINVAL) continue;
    for (int k = 0; k < model->actuator_actnum[i]; ++k) {
      const double rate = data->act_dot[model->actuator_actadr[i] + k];
      turns_.push_back((rate > 0) - (rate < 0));
      Add(kMuscles, turns_.back());
    }
  }
}

void SwitchSet::NoteTendons(const mjModel* model, const mjData* data) {
  for (int i = 0; i < model->ntendon; ++i) {
    if (model->tendon_type[i] == mjTENDON_SPATIAL) {
      const int begin = data->ten_wrapadr[i], end = begin + data->ten_wrapnum[i];
      Add(kTendonPaths, data->ten_wrapnum[i]);
      for (int k = begin; k < end; ++k) Add(kTendonPaths, data->wrap_obj[k]);
    }

    // dead band of the spring
    const mjtNum* range = SpringRange(model, data, i);
    if (range[0] < range[1]) Add(kTendonPaths, Zone(data->ten_length[i], range));
  }
}

void SwitchSet::NoteFlexes(const mjModel* model, const mjData* data) {
  if (model->nflex == 0) return;
  FindFlexTensions(model, data, &noted_);
  tensions_.insert(tensions_.end(), noted_.begin(), noted_.end());
}

void SwitchSet::NoteSensors(const mjModel* model, const mjData* data) {
  for (int i = 0; i < model->nsensor; ++i) {
    if (ChoosesContacts(model, i)) {
      MatchContacts(model, data, i, &matched_);
      const int slots = std::min(ContactSlots(model, i), static_cast<int>(matched_.size()));
      const double scale = ReductionOf(model, i) == Reduction::kNearest ? 1
                           : slots > 0                                  ? std::sqrt(-matched_[0].criterion)
                                                                        : 0;
      const bool alike = ChoiceRoom(model, i, matched_) < kAlike * scale;
      for (int slot = 0; slot < slots; ++slot) choices_.push_back({i, alike ? kAnyContact : matched_[slot].contact});
    }
    if (model->sensor_cutoff[i] <= 0) continue;
    for (int row = model->sensor_adr[i]; row < model->sensor_adr[i] + model->sensor_dim[i]; ++row) {
      const bool held = HeldByCutoff(model, data->sensordata, i, row);
      Add(kSensorCutoffs, !held ? 0 : data->sensordata[row] > 0 ? 1 : -1);
    }
  }
}

bool SwitchSet::SameChoice(const SwitchSet& other, int sensor) const {
  const auto next = [sensor](const auto& choices, std::size_t* at) {
    while (*at < choices.size() && choices[*at][0] != sensor) ++*at;
    return *at < choices.size() ? choices[(*at)++][1] : kNoContact;
  };
  for (std::size_t a = 0, b = 0;;) {
    const int mine = next(choices_, &a), theirs = next(other.choices_, &b);
    if (mine != theirs || mine == kAnyContact) return false;
    if (mine == kNoContact) return true;
  }
}

bool SwitchSet::Swings(const std::vector<Eigen::Vector3d>& a, const std::vector<Eigen::Vector3d>& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i].dot(b[i]) < kSwing && a[i] != b[i]) return true;
  }
  return false;
}

// a muscle at rest lies on its kink, and either side of it is near; one that moves is on one side
bool SwitchSet::SameTurns(const std::vector<signed char>& a, const std::vector<signed char>& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] * b[i] < 0) return false;
  }
  return true;
}

// a tension of either sign: what one that does not matter multiplies is zero at one of both points
bool SwitchSet::Turned(const std::vector<FlexTension>& a, const std::vector<FlexTension>& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i].matters && b[i].matters && a[i].sign != b[i].sign) return true;
  }
  return false;
}

// (N11) is a contact of one set where another of its geoms is in the other?
bool SwitchSet::Reordered(const std::vector<Place>& a, const std::vector<Place>& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double moved = (a[i].at - b[i].at).norm();
    for (std::size_t k = 0; k < b.size() && moved > 0; ++k) {
      if (k != i && a[i].group == b[k].group && (a[i].at - b[k].at).norm() < moved / 2) return true;
    }
  }
  return false;
}

const char* SwitchSet::DifferenceFrom(const SwitchSet& other, Kind end) const {
  for (int kind = 0; kind < end; ++kind) {
    if (hash_[kind] != other.hash_[kind]) return kNames[kind];
    // a nudge from the tip of a cone swings the axis
    if (kind == kContacts && Swings(leans_, other.leans_)) return "a cylinder that stands upright";
    if (kind == kContacts && Reordered(places_, other.places_)) return "order of contacts behind noslip";
    if (kind == kStates && Swings(axes_, other.axes_)) return "limit of a ball joint at angle zero";
    if (kind == kStates && !SameTurns(turns_, other.turns_)) return kNames[kMuscles];
    if (kind == kFlexTensions && Turned(tensions_, other.tensions_)) return kNames[kFlexTensions];
    if (kind == kServos && !SameTurns(directions_, other.directions_)) return kNames[kServos];
  }
  return nullptr;
}

}  // namespace costate
