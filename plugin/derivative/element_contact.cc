#include "derivative/element_contact.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

#include "derivative/chain.h"
#include "derivative/contact_block.h"
#include "derivative/contact_closed.h"
#include "derivative/contact_frame.h"
#include "derivative/flex.h"
#include "derivative/plant.h"

namespace costate {

namespace {

constexpr double kShare = 1e-12;  // of a vertex in the nearest point, below which it is none
constexpr double kSlack = 1e-9;   // of an element's size: by how much places may be off
constexpr double kAcross = 1e-7;  // sine between a normal and what it is normal to

// is x in the plane of a box' face whose normal is along m?
bool IsAboveFace(const GeomPose& geom, const Vec3& x, const Vec3& m, double slack) {
  if (geom.type != mjGEOM_BOX) return false;
  const Vec3 local = geom.R.transpose() * (x - geom.center), normal = geom.R.transpose() * m;
  int axis;
  normal.cwiseAbs().maxCoeff(&axis);
  return normal.cross(Vec3::Unit(axis)).norm() < kAcross && std::abs(std::abs(local[axis]) - geom.size[axis]) <= slack;
}

}  // namespace

bool ElementContact::Is(const mjModel* m, const mjContact& contact) {
  const int side = contact.elem[0] >= 0 ? 0 : 1;
  return contact.elem[side] >= 0 && contact.geom[1 - side] >= 0 && m->flex_interp[contact.flex[side]] == 0 &&
         !HasTwist(m, contact.flex[side]) && contact.adhesion == 0;  // which is in aref by what R is
}

// the point of a simplex nearest to p
ElementContact::Simplex ElementContact::Nearest(const Vec3* vertex, int count, const Vec3& p) {
  Simplex nearest;
  double least = mjMAXVAL;
  for (int set = 1; set < 1 << count; set++) {
    Simplex part;
    for (int k = 0; k < count; k++) {
      if (set >> k & 1) part.corner[part.corners++] = k;
    }
    const int n = part.corners - 1;
    part.share[0] = 1;
    if (n > 0) {
      const auto E = part.Edges(vertex);
      const auto square = (E.transpose() * E).eval();
      const auto s = square.ldlt().solve(E.transpose() * (p - vertex[part.corner[0]])).eval();
      for (int k = 0; k < n; k++) part.share[k + 1] = s[k], part.share[0] -= s[k];
    }
    Vec3 at = Vec3::Zero();
    for (int k = 0; k <= n; k++) at += part.share[k] * vertex[part.corner[k]];
    const bool within = std::all_of(part.share, part.share + n + 1, [](double x) { return x >= -kShare; });
    if (const double distance = (p - at).norm(); within && distance < least) {
      least = distance;
      nearest = part;
      nearest.at = at;
    }
  }
  // without those that have no share but rounding
  int kept = 0;
  for (int k = 0; k < nearest.corners; k++) {
    if (nearest.share[k] <= kShare) continue;
    nearest.corner[kept] = nearest.corner[k];
    nearest.share[kept++] = nearest.share[k];
  }
  nearest.corners = kept;
  return nearest;
}

// (G17) the nearest points, and how the contact moves with the geom and with the element as it were rigid
bool ElementContact::FindPlace(const mjModel* m, const mjData* d, const mjContact& contact) {
  const int f = contact.flex[side_];
  const Vec3 n = Vec3Map(contact.frame), p = Vec3Map(contact.pos), outward = side_ == 1 ? Vec3(-n) : n;
  const Vec3 surface = p - outward * (contact.dist / 2), of_geom = p + outward * (contact.dist / 2);
  const Vec3 within = surface - m->flex_radius[f] * outward;
  double size = 0;
  for (int k = 1; k < count_; k++) size = std::max(size, (vertex_[k] - vertex_[0]).norm());
  touch_ = Nearest(vertex_, count_, within);
  if (touch_.corners == 0 || touch_.corners > 3 || (touch_.at - within).norm() > kSlack * size) return false;
  pull_ = Nearest(vertex_, count_, p);
  if (pull_.corners == 0) return false;
  const Vec3* place[3];
  for (int k = 0; k < touch_.corners; k++) place[k] = vertex_ + touch_.corner[k];

  // on the border of what touches any motion brings in another vertex, or none
  for (int k = 0; k < count_ && touch_.corners < 3; k++) {
    if (std::find(touch_.corner, touch_.corner + touch_.corners, k) != touch_.corner + touch_.corners) continue;
    Vec3 aside = vertex_[k] - touch_.at;
    if (touch_.corners == 2) {
      const Vec3 line = (*place[1] - *place[0]).normalized();
      aside -= line.dot(aside) * line;
    }
    if (std::abs(outward.dot(aside)) <= kAcross * aside.norm()) return false;
  }

  Patch patch[2];
  if (touch_.corners == 1) {
    patch[side_] = Patch::Ball(within, m->flex_radius[f], outward);
  } else if (touch_.corners == 2) {
    const Vec3 line = (*place[1] - *place[0]).normalized();
    if (std::abs(line.dot(outward)) > kAcross) return false;
    patch[side_] = Patch::Line(within, line, m->flex_radius[f], outward);
  } else {
    const Vec3 normal = (*place[1] - *place[0]).cross(*place[2] - *place[0]).normalized();
    if (normal.cross(outward).norm() > kAcross) return false;
    patch[side_] = Patch::Face(surface);
  }
  const GeomPose geom(m, d, contact.geom[1 - side_]);
  // the engine takes vertices beside a box' face for ones above it
  if (touch_.corners == 1 && IsAboveFace(geom, of_geom, outward, kSlack * size)) {
    patch[1 - side_] = Patch::Face(of_geom);
  } else if (!GeomPatch(geom, of_geom, -outward, kSlack * size, &patch[1 - side_])) {
    return false;
  }
  const ContactFrame frame(contact.frame, Vec3::Zero());
  ContactRate rate;
  if (!MovePatches(patch[0], patch[1], n, contact.dist, p, &rate)) return false;
  by_side_[1] = Assemble(frame, rate, Mat36::Zero());
  CommonMotion(frame, &by_side_[0]);
  by_side_[0] -= by_side_[1];
  return true;
}

// the twist about `point` of vertex, edge or face, by the motions of the element's vertices
Vec6 ElementContact::ElementTwist(const Vec3* moved, const Vec3& point) const {
  Vec6 twist = Vec6::Zero();
  const int* corner = touch_.corner;
  for (int k = 0; k < touch_.corners; k++) twist.tail<3>() += touch_.share[k] * moved[corner[k]];
  if (touch_.corners == 1) return twist;  // a ball
  const Vec3 edge = vertex_[corner[1]] - vertex_[corner[0]];
  if (touch_.corners == 2) {
    twist.head<3>() =
        PLANT("element contact: edge turns", edge.cross(moved[corner[1]] - moved[corner[0]]) / edge.squaredNorm());
  } else {
    const Vec3 normal = edge.cross(vertex_[corner[2]] - vertex_[corner[0]]);
    Vec3 slope = Vec3::Zero();  // of the heights along the normal
    for (int k = 0; k < 3; k++) {
      const Vec3 opposite = vertex_[corner[(k + 2) % 3]] - vertex_[corner[(k + 1) % 3]];
      slope += normal.dot(moved[corner[k]]) / normal.squaredNorm() * normal.cross(opposite);
    }
    twist.head<3>() = PLANT("element contact: face turns", slope.cross(normal) / normal.squaredNorm());
  }
  twist.tail<3>() += twist.head<3>().cross(point - touch_.at);
  return twist;
}

// shares are those of the point nearest to p: (EᵀE) s = Eᵀ (p − x_0), E the edges from x_0
void ElementContact::FindShareRates(const Vec3& p, const Vec3& dp, const Vec3* moved, double* rate) const {
  const int n = pull_.corners - 1, *corner = pull_.corner;
  if (n == 0) return;
  const auto E = pull_.Edges(vertex_), dE = pull_.Edges(moved);
  Eigen::Matrix<double, Eigen::Dynamic, 1, 0, 3, 1> s(n);
  for (int k = 0; k < n; k++) s[k] = pull_.share[k + 1];
  const Vec3 rest = p - vertex_[corner[0]] - E * s, drift = dp - moved[corner[0]] - dE * s;
  const auto square = (E.transpose() * E).eval();
  const auto ds = square.ldlt().solve(dE.transpose() * rest + E.transpose() * drift).eval();
  for (int k = 0; k < n; k++) {
    const double x = PLANT("element contact: shares", ds[k]);
    rate[corner[k + 1]] += x;
    rate[corner[0]] -= x;
  }
}

void ElementContact::AddPart(const mjModel* m, const mjData* d, const mjContact& contact, int body, double weight,
                             const Vec3& at) {
  const Vec3 origin = Origin(m, d, body), p = Vec3Map(contact.pos);
  Part& part = part_.emplace_back();
  part.weight = weight;
  part.inverse_weight = m->body_invweight0[2 * body];
  part.begin = static_cast<int>(axis_.size());
  for (int i = LastDof(m, body); i >= 0; i = m->dof_parentid[i]) {
    const Vec6 S = Vec6Map(d->cdof + 6 * i);
    const int slot = static_cast<int>(std::find(dof_.begin(), dof_.end(), i) - dof_.begin());
    if (slot == static_cast<int>(dof_.size())) dof_.push_back(i);
    axis_.push_back({i, slot, S.head<3>(), MotionAt(S, p - origin), MotionAt(S, at - origin)});
  }
  part.end = static_cast<int>(axis_.size());
}

// does axis i turn with axis j, of the same body, and how
bool ElementContact::Turns(const Axis& i, const Axis& j) const {
  return !axes_->fixed[i.dof] && axes_->group[j.dof] <= i.dof;
}
Vec6 ElementContact::Turned(const Axis& i, const Axis& j) {
  Vec6 turned;
  turned << j.rot.cross(i.rot), j.rot.cross(i.lin) + j.lin.cross(i.rot);
  return turned;
}

// (w; v) at the contact of each part, and their sum by weights
Vec6 ElementContact::FindMotions(const double* x, Vec6* motion) const {
  Vec6 all = Vec6::Zero();
  for (std::size_t k = 0; k < part_.size(); k++) {
    motion[k].setZero();
    for (int i = part_[k].begin; i < part_[k].end; i++) {
      motion[k].head<3>() += x[axis_[i].dof] * axis_[i].rot;
      motion[k].tail<3>() += x[axis_[i].dof] * axis_[i].lin;
    }
    all += part_[k].weight * motion[k];
  }
  return all;
}

// how the contact moves with a dof
void ElementContact::FindColumn(const Vec3& p, double sign, int at, Column* out) const {
  Vec6 of_geom = Vec6::Zero();
  Vec3 moved[4] = {Vec3::Zero(), Vec3::Zero(), Vec3::Zero(), Vec3::Zero()};
  for (int k = 0; k <= count_; k++) {
    out->own[k] = -1;
    out->rate[k] = 0;
    for (int i = part_[k].begin; i < part_[k].end; i++) {
      if (axis_[i].slot == at) out->own[k] = i;
    }
    if (out->own[k] < 0) continue;
    const Axis& own = axis_[out->own[k]];
    if (k < count_) moved[k] = own.at_vertex;
    else of_geom << own.rot, own.lin;
  }
  const Eigen::Matrix<double, 7, 1> moves = by_side_[side_] * ElementTwist(moved, p) + by_side_[1 - side_] * of_geom;
  out->dphi = moves[0];
  out->dp = moves.segment<3>(1);
  out->turn = moves.tail<3>();
  FindShareRates(p, out->dp, moved, out->rate);
  for (int k = 0; k < count_; k++) out->rate[k] *= sign;
}

// of the sum of motions at fixed x
Vec6 ElementContact::Change(const Column& column, const double* x, const Vec6* motion) const {
  Vec6 change = Vec6::Zero();
  for (std::size_t k = 0; k < part_.size(); k++) {
    Vec6 own = Vec6::Zero();
    own.tail<3>() = motion[k].head<3>().cross(column.dp);
    for (int i = part_[k].begin; i < part_[k].end && column.own[k] >= 0; i++) {
      if (Turns(axis_[i], axis_[column.own[k]])) own += x[axis_[i].dof] * Turned(axis_[i], axis_[column.own[k]]);
    }
    change += column.rate[k] * motion[k] + part_[k].weight * own;
  }
  return change;
}

void ElementContact::AddTurning(const Vec3& axis, const Eigen::VectorXd& x, Eigen::VectorXd* slope) const {
  Vec6 motion[5];
  const Vec6 all = FindMotions(x.data(), motion);
  for (std::size_t at = 0; at < column_.size(); at++) {
    const Vec6 change = Change(column_[at], x.data(), motion);
    (*slope)[dof_[at]] += PLANT("element contact: row turns",
                                column_[at].turn.cross(axis).dot(all.tail<3>()) + axis.dot(change.tail<3>()));
  }
}

bool ElementContact::Fill(const mjModel* m, const mjData* d, const mjContact& contact, const AxisGroups& axes) {
  axes_ = &axes;
  column_.clear();
  part_.clear();
  axis_.clear();
  dof_.clear();
  side_ = contact.elem[0] >= 0 ? 0 : 1;
  BasisForces force;
  if (!FindBasisForces(m, d, contact, &force)) return true;  // nothing pushes
  const int f = contact.flex[side_], start = m->flex_vertadr[f];
  count_ = m->flex_dim[f] + 1;
  const int* vertex = m->flex_elem + m->flex_elemdataadr[f] + count_ * contact.elem[side_];
  for (int k = 0; k < count_; k++) vertex_[k] = Vec3Map(d->flexvert_xpos + 3 * (start + vertex[k]));
  if (!FindPlace(m, d, contact)) return false;

  // the bodies: vertices by their shares, and the geom's
  const int dim = contact.dim;
  const Vec3 p = Vec3Map(contact.pos);
  const double sign = side_ == 1 ? 1 : -1;
  double share[4] = {0};
  for (int k = 0; k < pull_.corners; k++) share[pull_.corner[k]] = pull_.share[k];
  for (int k = 0; k < count_; k++)
    AddPart(m, d, contact, m->flex_vertbodyid[start + vertex[k]], sign * share[k], vertex_[k]);
  AddPart(m, d, contact, m->geom_bodyid[contact.geom[1 - side_]], -sign, p);

  // rows are as hard as their bodies, by the same weights
  softness_ = 0;
  for (const Part& part : part_) softness_ += std::abs(part.weight) * part.inverse_weight;
  if (!(softness_ > mjMINVAL)) return false;

  State state(m, d, contact);
  state.force = force;
  for (int i = 0; i < dim; i++) {
    state.axis[i] = Vec3Map(contact.frame + 3 * (i % 3));
    (i < 3 ? state.push : state.torque) += force.f[i] * state.axis[i];
  }
  for (int k = 0; k < 2; k++) state.all[k] = FindMotions(state.x[k], state.motion[k]);
  const int n = static_cast<int>(dof_.size());
  by_q_.Resize(n);
  by_v_.Resize(n);
  column_.resize(n);
  for (int k = 0; k < n; k++) {
    FindColumn(p, sign, k, &column_[k]);
    AddColumn(state, sign, k);
  }
  return true;
}

// (C24) −∂r by a dof
void ElementContact::AddColumn(const State& at, double sign, int slot) {
  const Column& column = column_[slot];
  const int parts = static_cast<int>(part_.size());
  const Vec6 change[2] = {Change(column, at.x[0], at.motion[0]), Change(column, at.x[1], at.motion[1])};
  double softer = 0;
  for (int k = 0; k < count_; k++) softer += sign * column.rate[k] * part_[k].inverse_weight;
  Vec6 unit = Vec6::Zero();  // the contact's velocity by that of the dof
  for (int k = 0; k < parts; k++) {
    if (column.own[k] < 0) continue;
    unit.head<3>() += part_[k].weight * axis_[column.own[k]].rot;
    unit.tail<3>() += part_[k].weight * axis_[column.own[k]].lin;
  }

  // rows, then their forces
  double dy[6], by_v[6];
  for (int i = 0; i < at.dim; i++) {
    const auto part = [i](const Vec6& x) { return i < 3 ? Vec3(x.tail<3>()) : Vec3(x.head<3>()); };
    const double b = at.force.b[i];
    dy[i] = PLANT("element contact: rows turn", column.turn.cross(at.axis[i]).dot(part(at.all[0] + b * at.all[1]))) +
            PLANT("element contact: velocities", at.axis[i].dot(part(change[0] + b * change[1]))) +
            at.stiffness.kappa[i] * column.dphi;
    by_v[i] = PLANT("element contact: damping", b * at.axis[i].dot(part(unit)));
  }
  Vec3 dpush = column.turn.cross(at.push), dtorque = column.turn.cross(at.torque);
  Vec3 vpush = Vec3::Zero(), vtorque = Vec3::Zero();
  for (int i = 0; i < at.dim; i++) {
    double df = PLANT("element contact: impedance", at.force.f[i] * at.stiffness.gain * column.dphi) -
                PLANT("element contact: hardness", at.force.f[i] * softer / softness_);
    double df_by_v = 0;
    for (int l = 0; l < at.dim; l++) {
      df -= at.force.H[i][l] * dy[l];
      df_by_v -= at.force.H[i][l] * by_v[l];
    }
    (i < 3 ? dpush : dtorque) += df * at.axis[i];
    (i < 3 ? vpush : vtorque) += df_by_v * at.axis[i];
  }

  // what they do to each body
  for (int k = 0; k < parts; k++) {
    for (int i = part_[k].begin; i < part_[k].end; i++) {
      const Axis& axis = axis_[i];
      Vec6 own = Vec6::Zero();
      own.tail<3>() = axis.rot.cross(column.dp);
      if (column.own[k] >= 0 && Turns(axis, axis_[column.own[k]])) own += Turned(axis, axis_[column.own[k]]);
      by_q_(axis.slot, slot) += column.rate[k] * (axis.lin.dot(at.push) + axis.rot.dot(at.torque)) +
                                part_[k].weight * (PLANT("element contact: force stays",
                                                         own.tail<3>().dot(at.push) + own.head<3>().dot(at.torque)) +
                                                   axis.lin.dot(dpush) + axis.rot.dot(dtorque));
      by_v_(axis.slot, slot) += part_[k].weight * (axis.lin.dot(vpush) + axis.rot.dot(vtorque));
    }
  }
}

void ElementContact::Add(int nv, Columns* R) const {
  const int n = static_cast<int>(column_.size());
  for (int j = 0; j < n; j++) {
    for (int i = 0; i < n; i++) {
      (*R)(dof_[i], dof_[j]) += by_q_(i, j);
      (*R)(dof_[i], nv + dof_[j]) += by_v_(i, j);
    }
  }
}

}  // namespace costate
