#include "derivative/moment.h"

#include "core/joint.h"
#include "derivative/plant.h"

namespace costate {

double Moment::Along(const double* v) const {
  double sum = 0;
  for (int i = 0; i < size(); i++) sum += J[i] * v[dof[i]];
  return sum;
}

void Moment::AddTurn(const double* v, Eigen::VectorXd* out) const {
  for (int i = 0; i < size(); i++) *out += v[dof[i]] * G.row(i).transpose();
}

Eigen::VectorXd Moment::Turn(const double* v) const {
  Eigen::VectorXd turn = Eigen::VectorXd::Zero(size());
  AddTurn(v, &turn);
  return turn;
}

void Moment::FindRate(const double* v) {
  rate.setZero(size());
  AddTurn(v, &rate);
}

MomentElement StraightElement(int body, const Vec3& point, int other, const Vec3& other_point, double divisor) {
  MomentElement element;
  element.frame = body;
  element.body[0] = other;
  element.point[0] = other_point;
  Vec3 line = other_point - point;
  const double length = line.norm();
  line = length < mjMINVAL ? Vec3(Vec3::UnitX()) : Vec3(line / length);
  element.force[0] = line / divisor;
  if (length >= mjMINVAL)
    element.H.topLeftCorner<3, 3>() =
        PLANT("moment: straight", (Mat3::Identity() - line * line.transpose()) / (length * divisor));
  return element;
}

void AddTurning(const Moment& moment, double force, const char* clamped, Columns* R) {
  if (force == 0) return;
  for (int i = 0; i < moment.size(); i++) {
    if (clamped && clamped[moment.dof[i]]) continue;
    for (int j = 0; j < moment.size(); j++)
      (*R)(moment.dof[i], moment.dof[j]) += PLANT("moment: turn", force * moment.G(i, j));
  }
}

void AddSlopes(const Moment& moment, int nv, double by_length, double by_velocity, const char* clamped, Columns* R) {
  AddSlopes(moment, moment, nv, by_length, by_velocity, clamped, R);
}

void AddSlopes(const Moment& moment, const Moment& other, int nv, double by_length, double by_velocity,
               const char* clamped, Columns* R) {
  if (by_length == 0 && by_velocity == 0) return;
  for (int i = 0; i < moment.size(); i++) {
    if (clamped && clamped[moment.dof[i]]) continue;
    const double q = moment.J[i] * by_length, v = moment.J[i] * by_velocity;
    for (int j = 0; j < other.size(); j++) {
      (*R)(moment.dof[i], other.dof[j]) += q * other.length[j] + PLANT("moment: rate", v * other.rate[j]);
      (*R)(moment.dof[i], nv + other.dof[j]) += v * other.J[j];
    }
  }
}

MomentBuilder::MomentBuilder(const mjModel* m)
    : nv_(static_cast<int>(m->nv)),
      order_(static_cast<std::size_t>(m->nv) * m->nv, 0),
      slot_(m->nv, -1),
      mask_(m->nv, 0) {
  std::vector<int> group(nv_);
  for (int i = 0; i < nv_; i++) group[i] = GroupBegin(m, i);
  const auto set = [&](int i, int j, int value) {
    order_[static_cast<std::size_t>(i) * nv_ + j] = static_cast<signed char>(value);
  };
  for (int i = 0; i < nv_; i++) {
    for (int j = i; j >= 0; j = m->dof_parentid[j]) {
      set(i, j, 1);
      set(j, i, group[i] == group[j] ? 1 : -1);
    }
  }
}

void MomentBuilder::Begin(Moment* moment) {
  moment_ = moment;
  moment->dof.clear();
  J_.clear();
  length_.clear();
  entries_.clear();
}

int MomentBuilder::Slot(int dof) {
  if (slot_[dof] < 0) {
    slot_[dof] = moment_->size();
    moment_->dof.push_back(dof);
    J_.push_back(0);
    length_.push_back(0);
  }
  return slot_[dof];
}

// dofs that move all bodies of an element alike change neither it nor its moment
void MomentBuilder::Collect(const mjModel* m, const int* body, int count) {
  active_.clear();
  for (int b = 0; b < count; b++) {
    for (int i = LastDof(m, body[b]); i >= 0; i = m->dof_parentid[i]) {
      if (!mask_[i]) active_.push_back(i);
      mask_[i] |= 1 << b;
    }
  }
  const int all = (1 << count) - 1;
  std::size_t kept = 0;
  for (int i : active_) {
    if (mask_[i] == all) mask_[i] = 0;
    else active_[kept++] = i;
  }
  active_.resize(kept);
}

namespace {

// rotation and translation at a point, of one dof
struct Axis {
  Vec3 rot, lin;
};
Axis AxisAt(const mjModel* m, const mjData* d, int dof, const Vec3& point) {
  const Vec3 rot = Vec3Map(d->cdof + 6 * dof);
  const Vec3 com = Vec3Map(d->subtree_com + 3 * m->body_rootid[m->dof_bodyid[dof]]);
  return {rot, Vec3Map(d->cdof + 6 * dof + 3) + rot.cross(point - com)};
}

}  // namespace

void MomentBuilder::Add(const mjModel* m, const mjData* d, const MomentElement& e) {
  const int bodies[3] = {e.frame, e.body[0], e.body[1]};
  if (e.points == 1 || bodies[1] == bodies[2]) {
    Collect(m, bodies, 2);
    for (int i : active_) mask_[i] |= (mask_[i] & 2) << 1;
  } else {
    Collect(m, bodies, 3);
  }

  // c = Σ A × F
  std::vector<PointColumn>& columns = point_columns_;
  columns.clear();
  for (int i : active_) {
    PointColumn column;
    column.A.setZero();
    column.c.setZero();
    const int slot = Slot(i);
    for (int k = 0; k < e.points; k++) {
      const Axis axis = AxisAt(m, d, i, e.point[k]);
      column.rot = axis.rot;
      const double sign = ((mask_[i] >> (k + 1)) & 1) - (mask_[i] & 1);
      column.A.segment<3>(3 * k) = sign * axis.lin;
      column.c += sign * axis.lin.cross(e.force[k]);
      J_[slot] += sign * axis.lin.dot(e.force[k]);
    }
    length_[slot] += e.slack.dot(column.A);
    column.frame = (mask_[i] & 1) ? column.rot : Vec3(Vec3::Zero());
    column.HA = e.H * column.A;
    columns.push_back(column);
  }

  // (T2) A_iᵀ H A_j − ω_gi·c_j − ω_gj·c_i, and the later of the two turns with the earlier
  for (std::size_t a = 0; a < active_.size(); a++) {
    const PointColumn& i = columns[a];
    const int slot = Slot(active_[a]);
    for (std::size_t b = 0; b < active_.size(); b++) {
      const PointColumn& j = columns[b];
      const int order = Order(active_[a], active_[b]);
      double value = PLANT("moment: element", i.A.dot(j.HA) - i.frame.dot(j.c) - j.frame.dot(i.c));
      if (order) value += PLANT("moment: turning axes", order > 0 ? j.rot.dot(i.c) : i.rot.dot(j.c));
      entries_.push_back({slot, Slot(active_[b]), value});
    }
  }
  for (int i : active_) mask_[i] = 0;
}

void MomentBuilder::Add(const mjModel* m, const mjData* d, const MomentWrench& w) {
  const int bodies[2] = {w.body, w.other};
  Collect(m, bodies, w.other < 0 ? 1 : 2);
  if (w.other < 0) {
    // one body alone: nothing is common
    for (int i = LastDof(m, w.body); i >= 0; i = m->dof_parentid[i]) mask_[i] = 1, active_.push_back(i);
  }
  const int frame_bit = w.frame == w.body ? 1 : 2;
  std::vector<WrenchColumn>& columns = wrench_columns_;
  columns.clear();
  for (int i : active_) {
    const bool first = mask_[i] & 1;
    const Axis axis = AxisAt(m, d, i, first ? w.point : w.other_point);
    WrenchColumn column;
    column.sign = first ? 1 : -1;
    column.rot = axis.rot;
    column.lin = axis.lin;
    column.frame = (mask_[i] & frame_bit) ? axis.rot : Vec3(Vec3::Zero());
    column.c = column.sign * axis.lin.cross(w.force);
    J_[Slot(i)] += column.sign * (axis.lin.dot(w.force) + axis.rot.dot(w.torque));
    columns.push_back(column);
  }

  // (T3) the wrench turns with its frame; a force's point moves with both dofs, a torque feels only earlier ones
  for (std::size_t a = 0; a < active_.size(); a++) {
    const WrenchColumn& i = columns[a];
    const int slot = Slot(active_[a]);
    for (std::size_t b = 0; b < active_.size(); b++) {
      const WrenchColumn& j = columns[b];
      const int order = Order(active_[a], active_[b]);
      double value =
          PLANT("moment: wrench", i.sign * (j.frame.cross(w.force).dot(i.lin) + j.frame.cross(w.torque).dot(i.rot)));
      if (order > 0)
        value += PLANT("moment: wrench, later axis", j.rot.dot(i.c) + i.sign * j.rot.dot(i.rot.cross(w.torque)));
      else if (order < 0) value += PLANT("moment: wrench, earlier axis", i.rot.dot(j.c));
      entries_.push_back({slot, Slot(active_[b]), value});
    }
  }
  for (int i : active_) mask_[i] = 0;
}

void MomentBuilder::End(const mjData* d) {
  const int n = moment_->size();
  moment_->J = Eigen::Map<const Eigen::VectorXd>(J_.data(), n);
  moment_->length = moment_->J + Eigen::Map<const Eigen::VectorXd>(length_.data(), n);
  moment_->G.setZero(n, n);
  for (const Entry& entry : entries_) moment_->G(entry.i, entry.j) += entry.value;
  moment_->FindRate(d->qvel);
  for (int dof : moment_->dof) slot_[dof] = -1;
}

}  // namespace costate
