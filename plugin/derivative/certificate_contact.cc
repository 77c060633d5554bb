// Switches of contacts, and of sensors that choose among them.
#include <algorithm>
#include <cmath>
#include <map>

#include "derivative/adhesion.h"
#include "derivative/certifier.h"
#include "derivative/contact_geometry.h"
#include "derivative/effective_mass.h"
#include "derivative/noslip.h"
#include "derivative/onset.h"
#include "derivative/sensor.h"
#include "derivative/sensor_contact.h"
#include "derivative/switch_set.h"

namespace costate {

void Certifier::Contacts() {
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
double Certifier::TiltOfUpright(const mjContact& contact) const {
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
void Certifier::Pulls() {
  std::vector<double> pull(d_->ncon, 0.0);
  AddGeomPulls(m_, d_, &pull);
  AddActuatorPulls(m_, d_, &pull);
  pulled_.assign(d_->ncon, 0);
  for (int c = 0; c < d_->ncon; c++) pulled_[c] = pull[c] != 0;
}

bool Certifier::IsPartOfForces(int c) const {
  return pulled_[c] || (d_->contact[c].efc_address >= 0 && CarriesForce(d_, d_->contact[c]));
}

// contacts that push and have no place of their own: nudges move them to and fro (a box on a height field's corner),
// or each along another side of a corner
void Certifier::Jumps() {
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
std::vector<char> Certifier::ReadContacts() const {
  std::vector<char> read(d_->ncon, 0);
  std::vector<MatchedContact> matched;
  for (int i = 0; i < m_->nsensor && !(m_->opt.disableflags & mjDSBL_SENSOR); i++) {
    if (m_->sensor_type[i] != mjSENS_CONTACT) continue;
    MatchContacts(m_, d_, i, &matched);
    const std::size_t count = std::min(matched.size(), static_cast<std::size_t>(ContactSlots(m_, i)));
    for (std::size_t k = 0; k < count; k++) read[matched[k].contact] = 1;
  }
  return read;
}

// contacts of curved surfaces that are felt: the collider's are a staircase of facets below its tolerance
void Certifier::Facets() {
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
void Certifier::Searches() {
  if (m_->nsensor == 0 || (m_->opt.disableflags & mjDSBL_SENSOR)) return;
  SensorDerivative sensors(m_);
  for (int i = 0; i < m_->nsensor; i++) {
    if (sensors.SearchedGeoms(m_, d_, i)[0] < 0) continue;
    Add(Name("nearest points", mjOBJ_SENSOR, i), "where a search ends", "another end", 0, "m", true);
  }
}

// bounds on the friction forces of each sweep, and the end of the sweeps
void Certifier::Noslip() {
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

// sensors that choose among contacts: how much nearer or stronger one is than the next
void Certifier::ContactSensors() {
  std::vector<MatchedContact> found;
  for (int i = 0; i < m_->nsensor; i++) {
    if (!ChoosesContacts(m_, i)) continue;
    MatchContacts(m_, d_, i, &found);
    const bool nearest = ReductionOf(m_, i) == Reduction::kNearest;
    const double room = ChoiceRoom(m_, i, found);
    if (room == mjMAXVAL) continue;
    Add(Name("choice", mjOBJ_SENSOR, i), nearest ? "nearest" : "strongest", "another contact", room,
        nearest ? "m" : "N", false);
  }
}

// geoms about to touch: a collision pass with a margin
void Certifier::NearGeoms() {
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

}  // namespace costate
