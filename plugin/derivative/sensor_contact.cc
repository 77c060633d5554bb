// Contact sensors: forces, positions and frames of the contacts that match. (M18) of README.md.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "derivative/contact_block.h"
#include "derivative/sensor.h"

namespace costate {

namespace {

constexpr int kFieldSize[mjNCONDATA] = {1, 3, 3, 1, 3, 3, 3, 3, 3};

// is the object part of this side of the contact?
bool Involves(const mjModel* m, int body, int geom, int type, int id) {
  switch (type) {
    case mjOBJ_UNKNOWN:
    case mjOBJ_SITE: return true;
    case mjOBJ_GEOM: return id == geom && geom >= 0;
    case mjOBJ_BODY: return id == body;
    case mjOBJ_XBODY:
      while (body > id) body = m->body_parentid[body];
      return body == id;
    default: return false;
  }
}

// of one of a contact's geoms; a flex is of no body
int BodyOf(const mjModel* m, int geom) { return geom < 0 ? -1 : m->geom_bodyid[geom]; }

// 0: no match, 1: as the contact is, −1: the other way round
int Match(const mjModel* m, const mjData* d, const mjContact& contact, int i) {
  const int type1 = m->sensor_objtype[i], id1 = m->sensor_objid[i], type2 = m->sensor_reftype[i],
            id2 = m->sensor_refid[i];
  if (type1 == mjOBJ_UNKNOWN && type2 == mjOBJ_UNKNOWN) return 1;
  if (type1 == mjOBJ_SITE && !mj_insideSite(m, d, id1, contact.pos)) return 0;
  const int geom1 = contact.geom[0], geom2 = contact.geom[1], body1 = BodyOf(m, geom1), body2 = BodyOf(m, geom2);
  const bool object1 = Involves(m, body1, geom1, type1, id1), object2 = Involves(m, body2, geom2, type1, id1);
  const bool other1 = Involves(m, body1, geom1, type2, id2), other2 = Involves(m, body2, geom2, type2, id2);
  if ((!object1 && !object2) || (!other1 && !other2)) return 0;
  if (type1 == mjOBJ_UNKNOWN) return other2 ? 1 : -1;
  if (type2 == mjOBJ_UNKNOWN) return object1 ? 1 : -1;
  if (object1 && other2) return 1;
  return object2 && other1 ? -1 : 0;
}

}  // namespace

Reduction ReductionOf(const mjModel* m, int i) { return static_cast<Reduction>(m->sensor_intprm[i * mjNSENS + 1]); }

bool MatchContacts(const mjModel* m, const mjData* d, int i, std::vector<MatchedContact>* found) {
  const Reduction reduce = ReductionOf(m, i);
  const auto is_body = [](int type) { return type == mjOBJ_BODY || type == mjOBJ_XBODY; };
  const bool by_body = is_body(m->sensor_objtype[i]) || is_body(m->sensor_reftype[i]);
  bool of_geoms = true;
  found->clear();
  for (int c = 0; c < d->ncon; c++) {
    const mjContact& contact = d->contact[c];
    // the engine counts a flex among the bodies of its vertices
    of_geoms = of_geoms && !(by_body && (contact.geom[0] < 0 || contact.geom[1] < 0));
    const int match = Match(m, d, contact, i);
    if (!match) continue;
    of_geoms = of_geoms && contact.geom[0] >= 0 && contact.geom[1] >= 0;
    mjtNum force[6];
    mj_contactForce(m, d, c, force);
    found->push_back({reduce == Reduction::kNearest     ? contact.dist
                      : reduce == Reduction::kStrongest ? -mju_dot(force, force, 6)
                                                        : 0,
                      c, static_cast<double>(match)});
  }
  if (!ChoosesContacts(m, i)) return of_geoms;
  std::sort(found->begin(), found->end(), [](const MatchedContact& a, const MatchedContact& b) {
    return a.criterion != b.criterion ? a.criterion < b.criterion : a.contact < b.contact;
  });
  return of_geoms;
}

bool PassesThroughSite(const mjModel* m, const mjData* d, int site, const mjContact& contact) {
  const int body = m->site_bodyid[site], body2 = BodyOf(m, contact.geom[1]);
  if (body != BodyOf(m, contact.geom[0]) && body != body2) return false;
  mjtNum ray[3];
  mju_scl3(ray, contact.frame, body == body2 ? -1 : 1);
  return mju_rayGeom(d->site_xpos + 3 * site, d->site_xmat + 9 * site, m->site_size + 3 * site, contact.pos, ray,
                     m->site_type[site], nullptr) >= 0;
}

void ContactsOfSite(const mjModel* m, const mjData* d, int i, std::vector<char>* within) {
  within->clear();
  const bool touch = m->sensor_type[i] == mjSENS_TOUCH;
  const int site = m->sensor_objid[i];
  for (int c = 0; c < d->ncon; c++) {
    const mjContact& contact = d->contact[c];
    within->push_back(touch ? PassesThroughSite(m, d, site, contact)
                            : static_cast<char>(mj_insideSite(m, d, site, contact.pos)));
  }
}

bool ReadsContactsOfSite(const mjModel* m, int i) {
  return m->sensor_type[i] == mjSENS_TOUCH ||
         (m->sensor_type[i] == mjSENS_CONTACT && m->sensor_objtype[i] == mjOBJ_SITE);
}

int ContactSlots(const mjModel* m, int i) {
  int size = 0;
  for (int k = 0; k < mjNCONDATA; k++) {
    if (m->sensor_intprm[i * mjNSENS] & (1 << k)) size += kFieldSize[k];
  }
  return m->sensor_dim[i] / size;
}

bool ChoosesContacts(const mjModel* m, int i) {
  const Reduction reduce = ReductionOf(m, i);
  return m->sensor_type[i] == mjSENS_CONTACT && (reduce == Reduction::kNearest || reduce == Reduction::kStrongest);
}

double ChoiceRoom(const mjModel* m, int i, const std::vector<MatchedContact>& found) {
  const bool nearest = ReductionOf(m, i) == Reduction::kNearest;
  double room = mjMAXVAL;
  for (int slot = 0; slot < std::min(ContactSlots(m, i), static_cast<int>(found.size()) - 1); slot++) {
    const double mine = found[slot].criterion, next = found[slot + 1].criterion;
    if (!nearest && mine == 0) break;  // those without force are alike
    room = std::min(room, nearest ? next - mine : std::sqrt(-mine) - std::sqrt(-next));
  }
  return room;
}

// f(dof, columns of (dφ, dp, Ω) and of the force in the contact's basis)
template <typename F>
void SensorDerivative::ForContact(const SensedContact& sensed, const ContactMotion& motion, F f) {
  const ContactBlock& block = sensed.block;
  ContactSlopes<13> by;
  by.geometry.setIdentity();
  by.a.setZero();
  by.v.setZero();
  by.belt.setZero();
  if (sensed.acts) {
    const int dim = static_cast<int>(block.f_by_a.rows());
    by.geometry.middleRows(7, dim) = block.f_by_geometry;
    by.a.middleRows(7, dim) = block.f_by_a;
    by.v.middleRows(7, dim) = block.f_by_v;
    by.belt.middleRows(7, dim) = block.f_by_belt;
  }
  ForContactDofs<13>(at_.m, at_.d, *at_.tree, block, motion, sensed.moving_belt(), by, f);
}

bool SensorDerivative::Contact(int i) {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;
  const int spec = m->sensor_intprm[i * mjNSENS];
  int field[mjNCONDATA], size = 0;  // rows of the fields in a slot; −1: not asked for
  for (int k = 0; k < mjNCONDATA; k++) {
    field[k] = spec & (1 << k) ? size : -1;
    if (field[k] >= 0) size += kFieldSize[k];
  }
  if (field[mjCONDATA_LINVEL] >= 0 || field[mjCONDATA_ANGVEL] >= 0) return false;

  std::vector<MatchedContact>& found = matched_;
  {
    const Behind behind(at_);
    if (!MatchContacts(m, d, i, &found)) return false;
  }
  if (ReductionOf(m, i) == Reduction::kNet) return NetContact(field);
  const int slots = std::min(ContactSlots(m, i), static_cast<int>(found.size()));

  for (int slot = 0; slot < slots; slot++) {
    if (!at_.constraint->contact_motion(found[slot].contact)) return false;
  }
  for (int slot = 0; slot < slots; slot++) {
    const int c = found[slot].contact, first = row_ + slot * size;
    const double sign = found[slot].sign;
    const mjContact& contact = d->contact[c];
    const ContactMotion* motion = at_.constraint->contact_motion(c);
    rows_.Begin(size);
    const auto put = [&](int kind, int column, const Vec3& v) {
      for (int k = 0; k < 3 && field[kind] >= 0; k++) rows_.at(field[kind] + k, column) += v[k];
    };
    // force and torque in the contact's basis; the other way round their last component changes sign
    const auto put_force = [&](int column, const Vec6& f) {
      put(mjCONDATA_FORCE, column, Vec3(f[0], f[1], sign * f[2]));
      put(mjCONDATA_TORQUE, column, Vec3(f[3], f[4], sign * f[5]));
    };
    ForContact(FindContact(c), *motion, [&](int dof, const ContactColumn<13>& column) {
      const Vec3 turn = column.q.segment<3>(4);
      if (field[mjCONDATA_DIST] >= 0) rows_.at(field[mjCONDATA_DIST], dof) = column.q[0];
      put(mjCONDATA_POS, dof, column.q.segment<3>(1));
      put(mjCONDATA_NORMAL, dof, sign * turn.cross(Vec3Map(contact.frame)));
      put(mjCONDATA_TANGENT, dof, sign * turn.cross(Vec3Map(contact.frame + 3)));
      put_force(dof, column.q.tail<6>());
      put_force(nv_ + dof, column.v.tail<6>());
      for (int k = 0; k < 6; k++) {
        const int kind = k < 3 ? mjCONDATA_FORCE : mjCONDATA_TORQUE;
        if (field[kind] >= 0) rows_.by_a(field[kind] + k % 3, dof) += (k % 3 == 2 ? sign : 1) * column.a[7 + k];
      }
    });
    const RowMatrix& change = FindContact(c).change;
    for (int column = 0; column < change.cols(); column++) {
      Vec6 by_pass = Vec6::Zero();
      by_pass.head(change.rows()) = change.col(column);
      put_force(column, by_pass);
    }
    Emit(first);
  }
  return true;
}

// (N10) of the sums below by what a noslip pass adds to one contact
void SensorDerivative::AddNetChange(const SensedContact& sensed, const mjContact& contact, double sign,
                                    bool force_alone) {
  const ContactBlock& block = sensed.block;
  const int n = std::min<int>(3, contact.dim);
  const Vec3 p = Vec3Map(contact.pos);
  for (int k = 0; k < sensed.change.rows(); k++) {
    const Vec6 wrench = sign * block.Wrench(contact, Vec6::Unit(k));
    Eigen::Matrix<double, 10, 1> by_force;
    by_force.head<3>() = wrench.tail<3>();
    by_force.segment<3>(3) = wrench.head<3>() + block.origin.cross(wrench.tail<3>());
    const double by_weight = k < n ? block.f[k] / block.f.head<3>().norm() : 0;
    by_force.tail<4>() << by_weight * p, by_weight;
    for (int column = 0; column < sensed.change.cols(); column++) {
      const double change = sensed.change(k, column);
      if (force_alone) rows_.Add<3>(column, change * by_force.head<3>());
      else rows_.Add<10>(column, change * by_force);
    }
  }
}

namespace {

// rows: F, moment about zero, Σ w p, Σ w
enum NetRow { kNetForce = 0, kNetMoment = 3, kNetCenter = 6, kNetWeight = 9 };

// are the first three enough?
bool IsForceAlone(const int* field) { return field[mjCONDATA_TORQUE] < 0 && field[mjCONDATA_POS] < 0; }

// of these rows, by what the force of one contact depends on
ContactSlopes<10> NetSlopes(const ContactBlock& block, const mjContact& contact, double sign) {
  const int n = std::min<int>(3, contact.dim);
  const double w = block.f.head<3>().norm();
  const Vec3 p = Vec3Map(contact.pos);
  ContactSlopes<10> by;
  const auto fill = [&](const auto& F, const auto& f, auto* rows) {
    rows->template topRows<3>() = sign * F.template bottomRows<3>();
    rows->template middleRows<3>(kNetMoment) =
        sign * F.template topRows<3>() + Skew(block.origin) * rows->template topRows<3>();
    rows->row(kNetWeight) = block.f.head(n).transpose() / w * f.topRows(n);
    rows->template middleRows<3>(kNetCenter) = p * rows->row(kNetWeight);
  };
  fill(block.F_by_geometry, block.f_by_geometry, &by.geometry);
  fill(block.F_by_a, block.f_by_a, &by.a);
  fill(block.F_by_v, block.f_by_v, &by.v);
  fill(block.F_by_belt, block.f_by_belt, &by.belt);
  by.geometry.block<3, 3>(kNetCenter, 1) += w * Mat3::Identity();
  return by;
}

}  // namespace

// all matching contacts as one, in the world's axes, about the centroid c weighted with w = |f|
bool SensorDerivative::NetContact(const int* field) {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;
  const bool force_alone = IsForceAlone(field);
  rows_.Begin(force_alone ? 3 : 10);
  const auto add = [&](int dof, const auto& column) {
    constexpr int kRows = std::decay_t<decltype(column)>::kRows;
    rows_.Add<kRows>(dof, column.q);
    rows_.Add<kRows>(nv_ + dof, column.v);
    rows_.AddByA<kRows>(dof, column.a);
  };
  Vec3 force = Vec3::Zero(), center = Vec3::Zero();
  double weight = 0;
  for (const MatchedContact& match : matched_) {
    const mjContact& contact = d->contact[match.contact];
    if (contact.efc_address < 0 || !FindContact(match.contact).acts) continue;
    const SensedContact& sensed = FindContact(match.contact);
    const ContactBlock& block = sensed.block;
    const double w = block.f.head<3>().norm();
    if (w == 0) continue;
    const ContactMotion* motion = at_.constraint->contact_motion(match.contact);
    if (!motion) return false;
    force += match.sign * block.F.tail<3>();
    AddNetChange(sensed, contact, match.sign, force_alone);
    center += w * Vec3Map(contact.pos);
    weight += w;
    if (force_alone) {
      ForContactDofs<3>(m, d, *at_.tree, block, *motion, sensed.moving_belt(),
                        {match.sign * block.F_by_geometry.bottomRows<3>(), match.sign * block.F_by_a.bottomRows<3>(),
                         match.sign * block.F_by_v.bottomRows<3>(), match.sign * block.F_by_belt.bottomRows<3>()},
                        add);
      continue;
    }
    ForContactDofs<10>(m, d, *at_.tree, block, *motion, sensed.moving_belt(), NetSlopes(block, contact, match.sign),
                       add);
  }
  if (weight != 0) NetFields(field, force, center / weight, weight);
  return true;
}

// rows of the sensor's fields from those of the sums
void SensorDerivative::NetFields(const int* field, const Vec3& force, const Vec3& center, double weight) {
  // dc = (Σ(w p)' − c Σw') / Σw, the moment about c loses c × F
  using Fields = Eigen::Matrix<double, 3, 10>;
  Fields by_rows[3] = {Fields::Zero(), Fields::Zero(), Fields::Zero()};  // force, centre, torque
  by_rows[0].middleCols<3>(kNetForce).setIdentity();
  by_rows[1].middleCols<3>(kNetCenter) = Mat3::Identity() / weight;
  by_rows[1].col(kNetWeight) = -center / weight;
  by_rows[2] = Skew(force) * by_rows[1] - Skew(center) * by_rows[0];
  by_rows[2].middleCols<3>(kNetMoment) += Mat3::Identity();
  constexpr int kKind[3] = {mjCONDATA_FORCE, mjCONDATA_POS, mjCONDATA_TORQUE};
  const int count = IsForceAlone(field) ? 3 : 10;
  if (pull_) {
    Eigen::Matrix<double, 10, 1> back = Eigen::Matrix<double, 10, 1>::Zero();
    for (int k = 0; k < 3; k++) {
      if (field[kKind[k]] >= 0) back += by_rows[k].transpose() * Vec3Map(weight_.data() + field[kKind[k]]);
    }
    rows_.Contract(back.data(), pull_->direct, pull_->acceleration);
    return;
  }
  rows_.MultiplyOut(*at_.da);
  for (int column = 0; column < ndx_ + static_cast<int>(at_.m->nu); column++) {
    MatrixXd& out = column < ndx_ ? out_->C : out_->D;
    Eigen::Matrix<double, 10, 1> rows = Eigen::Matrix<double, 10, 1>::Zero();
    for (int k = 0; k < count; k++) rows[k] = rows_.at(k, column);
    for (int k = 0; k < 3; k++) {
      if (field[kKind[k]] < 0) continue;
      out.block<3, 1>(row_ + field[kKind[k]], column < ndx_ ? column : column - ndx_) = by_rows[k] * rows;
    }
  }
}

}  // namespace costate
