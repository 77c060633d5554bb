#include "derivative/equality.h"

#include <algorithm>
#include <cmath>

#include "derivative/body_point.h"
#include "derivative/equilibrium.h"
#include "derivative/impedance.h"
#include "derivative/metric.h"
#include "derivative/plant.h"

namespace costate {

namespace {

// vector part of (0, z) ∘ e
Vec3 Product(double e0, const Vec3& ev, const Vec3& z) { return e0 * z + z.cross(ev); }
// its transpose applied to f
Vec3 ProductTransposed(double e0, const Vec3& ev, const Vec3& f) { return e0 * f + ev.cross(f); }

}  // namespace

bool IsBodyEquality(const mjModel* m, int i) { return m->eq_type[i] == mjEQ_CONNECT || m->eq_type[i] == mjEQ_WELD; }

int EqualityBody(const mjModel* m, int i, int side) {
  const int object = side == 0 ? m->eq_obj1id[i] : m->eq_obj2id[i];
  return m->eq_objtype[i] == mjOBJ_BODY ? object : m->site_bodyid[object];
}

void BodyEquality::Add(const mjModel* m, const mjData* d, int row) {
  Block b;
  b.row = row;
  b.equality = d->efc_id[row];
  const int i = b.equality;
  const bool weld = m->eq_type[i] == mjEQ_WELD, body_semantic = m->eq_objtype[i] == mjOBJ_BODY;
  b.rows = weld ? 6 : 3;
  const mjtNum* data = m->eq_data + mjNEQDATA * i;
  mjtNum quat[2][4];
  for (int s = 0; s < 2; s++) {
    const int object = s == 0 ? m->eq_obj1id[i] : m->eq_obj2id[i];
    b.body[s] = EqualityBody(m, i, s);
    if (body_semantic) {
      // connect: one anchor in each body; weld: they are stored the other way round
      const Mat3 R = Mat3Map(d->xmat + 9 * object);
      b.point[s] = Vec3Map(d->xpos + 3 * object) + R * Vec3Map(data + 3 * (weld ? 1 - s : s));
      if (s == 0 && weld) mju_mulQuat(quat[0], d->xquat + 4 * object, data + 6);
      else mju_copy4(quat[s], d->xquat + 4 * object);
    } else {
      b.point[s] = Vec3Map(d->site_xpos + 3 * object);
      mju_mulQuat(quat[s], d->xquat + 4 * b.body[s], m->site_quat + 4 * object);
    }
  }
  b.force = Vec3Map(d->efc_force + row);
  b.torque.setZero();
  if (weld) {
    Eigen::Matrix<double, 3, 3, Eigen::RowMajor> frame;
    mju_quat2Mat(frame.data(), quat[1]);
    b.frame = frame;
    mjtNum conjugate[4], e[4];
    mju_negQuat(conjugate, quat[1]);
    mju_mulQuat(e, conjugate, quat[0]);
    b.e0 = e[0];
    b.ev = Vec3(e[1], e[2], e[3]);
    b.scale = 0.5 * data[10];
    b.torque = b.scale * (b.frame * ProductTransposed(b.e0, b.ev, Vec3Map(d->efc_force + row + 3)));
  }
  blocks_.push_back(b);
}

void BodyEquality::AddWrenches(const mjModel* m, const mjData* d, std::vector<BodyConstraint>* body) const {
  for (const Block& b : blocks_) {
    for (int s = 0; s < 2; s++) {
      if (LastDof(m, b.body[s]) < 0) continue;
      const double sign = s == 0 ? 1 : -1;
      BodyConstraint& out = (*body)[b.body[s]];
      const Vec3 r = b.point[s] - Origin(m, d, b.body[s]);
      out.F.head<3>() += sign * (r.cross(b.force) + b.torque);
      out.F.tail<3>() += PLANT("connect: wrench", sign * b.force);
      out.active = true;
    }
  }
}

// state of one equality at the point, and what a change of both sides does to it
class BodyEquality::Motion {
 public:
  Motion(const mjModel* m, const mjData* d, const TreeDerivative& tree, const Block& block)
      : m_(m), d_(d), b_(block), s_(IsDiscrete(m) ? EndOfStep(m, d, block.row) : 1) {
    for (int s = 0; s < 2; s++) point[s] = BodyPoint(m, d, tree, b_.body[s], b_.point[s], s_);

    // impedance: r is the norm of all rows
    for (int i = 0; i < b_.rows; i++) norm_ += d->efc_pos[b_.row + i] * d->efc_pos[b_.row + i];
    norm_ = std::sqrt(norm_);
    if (b_.rows < 6) return;

    // weld: z = R1ᵀ (w0 − w1), ż = R1ᵀ (Δα − w1 × Δw), ė = ½ (0, z) ∘ e
    const Vec3 w1 = point[1].spin();
    spin_ = point[0].spin() - w1;
    z_ = b_.frame.transpose() * spin_;
    spin_term_ = point[0].spin_rate() - point[1].spin_rate() - w1.cross(spin_);
    z_rate_ = b_.frame.transpose() * spin_term_;
    e0_rate_ = -0.5 * z_.dot(b_.ev);
    e_rate_ = 0.5 * Product(b_.e0, b_.ev, z_);
  }

  // df of the rows, and of the torque beside that of the force
  void Change(const PointChange side[2], Vec6* df, Vec3* dtorque) const {
    const mjtNum* kbip = d_->efc_KBIP + 4 * b_.row;
    const double k = kbip[0], impedance = kbip[2], slope = kbip[3], damping = s_ * RowLawOf(m_, d_, b_.row).damping;
    Vec6 dy = Vec6::Zero(), dpos = Vec6::Zero();
    dpos.head<3>() = PLANT("connect: point", side[0].position - side[1].position);
    dy.head<3>() = PLANT("connect: acceleration", side[0].acceleration - side[1].acceleration) +
                   PLANT("connect: damping", damping * (side[0].velocity - side[1].velocity));
    Vec3 dev = Vec3::Zero();
    double de0 = 0;
    if (b_.rows == 6) {
      const Vec3 zeta = b_.frame.transpose() * (side[0].rotation - side[1].rotation), dw = side[0].spin - side[1].spin;
      de0 = -0.5 * zeta.dot(b_.ev);
      dev = PLANT("weld: turn", 0.5 * Product(b_.e0, b_.ev, zeta));
      const Vec3 dz = PLANT("weld: spin", b_.frame.transpose() * (dw - side[1].rotation.cross(spin_)));
      const Vec3 du = side[0].spin_rate - side[1].spin_rate - side[1].spin.cross(spin_) - point[1].spin().cross(dw);
      const Vec3 dz_rate = PLANT("weld: spin rate", b_.frame.transpose() * (du - side[1].rotation.cross(spin_term_)));
      const double de0_rate = -0.5 * (dz.dot(b_.ev) + z_.dot(dev));
      const Vec3 de_rate = 0.5 * (Product(b_.e0, b_.ev, dz) + Product(de0, dev, z_));
      dy.tail<3>() = b_.scale * (Product(de0, dev, z_rate_) + Product(b_.e0, b_.ev, dz_rate) +
                                 Product(de0_rate, de_rate, z_) + Product(e0_rate_, e_rate_, dz));
      dy.tail<3>() += PLANT("weld: damping", damping * b_.scale * (Product(de0, dev, z_) + Product(b_.e0, b_.ev, dz)));
      dpos.tail<3>() = PLANT("weld: error", 2 * b_.scale * dev);
    }
    double dnorm = 0;
    for (int i = 0; i < b_.rows && norm_ > mjMINVAL; i++) dnorm += d_->efc_pos[b_.row + i] * dpos[i] / norm_;
    df->setZero();
    for (int i = 0; i < b_.rows; i++) {
      const double by_impedance = s_ * AccelerationByImpedance(m_, d_, b_.row + i),
                   dyi = dy[i] + PLANT("connect: stiffness", k * impedance * dpos[i] + slope * by_impedance * dnorm);
      (*df)[i] = -d_->efc_D[b_.row + i] / s_ * dyi +
                 PLANT("connect: impedance", d_->efc_force[b_.row + i] * ImpedanceGain(m_, d_, b_.row + i) * dnorm);
    }
    dtorque->setZero();
    if (b_.rows < 6) return;
    const Vec3 f = Vec3Map(d_->efc_force + b_.row + 3);
    *dtorque = PLANT("weld: turning torque", side[1].rotation.cross(b_.torque)) +
               PLANT("weld: torque", b_.scale * (b_.frame * (ProductTransposed(de0, dev, f) +
                                                             ProductTransposed(b_.e0, b_.ev, df->tail<3>()))));
  }

  BodyPoint point[2];

 private:
  const mjModel* m_;
  const mjData* d_;
  const Block& b_;
  const double s_;  // all here is of s y, (C23); 1 but under the discrete integrator
  double norm_ = 0, e0_rate_ = 0;
  Vec3 spin_ = Vec3::Zero(), z_ = Vec3::Zero(), z_rate_ = Vec3::Zero(), e_rate_ = Vec3::Zero(),
       spin_term_ = Vec3::Zero();
};

// f(dof, by_q[2], by_v[2]) for each dof that moves a side
template <typename F>
void BodyEquality::ForDofs(const mjModel* m, const mjData* d, const TreeDerivative& tree, const Block& b,
                           const Motion& motion, F f) {
  side_.resize(m->nv, 0);
  chain_.clear();
  for (int s = 0; s < 2; s++) {
    for (int i = LastDof(m, b.body[s]); i >= 0; i = m->dof_parentid[i]) {
      if (!side_[i]) chain_.push_back(i);
      side_[i] |= 1 << s;
    }
  }
  for (int i : chain_) {
    PointChange by_q[2], by_v[2];
    for (int s = 0; s < 2; s++) {
      if (!(side_[i] & (1 << s))) continue;
      by_q[s] = motion.point[s].ByPosition(d, tree, i);
      by_v[s] = motion.point[s].ByVelocity(d, tree, i);
    }
    f(i, by_q, by_v);
  }
  for (int i : chain_) side_[i] = 0;
}

void BodyEquality::AddColumns(const mjModel* m, const mjData* d, const TreeDerivative& tree, Columns* R) {
  const int nv = static_cast<int>(m->nv);
  for (const Block& b : blocks_) {
    const Motion motion(m, d, tree, b);
    const auto column = [&](const PointChange side[2], int col) {
      Vec6 df;
      Vec3 dtorque;
      motion.Change(side, &df, &dtorque);
      const Vec3 dforce = df.head<3>();
      for (int s = 0; s < 2; s++) {
        Vec6 wrench;
        wrench << motion.point[s].r().cross(dforce) + side[s].position.cross(b.force) + dtorque, dforce;
        if (s == 1) wrench = -wrench;
        for (int i : chain_) {
          if (side_[i] & (1 << s)) (*R)(i, col) += Vec6Map(d->cdof + 6 * i).dot(wrench);
        }
      }
    };
    ForDofs(m, d, tree, b, motion, [&](int dof, const PointChange* by_q, const PointChange* by_v) {
      column(by_q, dof);
      column(by_v, nv + dof);
    });
  }
}

// (I10) of the rows e·(u₀ − u₁) of points u = J x at unit axes e, or t·(w₀ − w₁) of turns
void BodyEquality::AddTurning(const mjModel* m, const mjData* d, const AxisGroups& axes, int row,
                              const Eigen::VectorXd& x, Eigen::VectorXd* slope) const {
  const auto of_row = [&](const Block& b) { return b.row <= row && row < b.row + b.rows; };
  const Block& b = *std::find_if(blocks_.begin(), blocks_.end(), of_row);
  const Vec6 unit = Vec6::Unit(row - b.row);
  const Vec3 axis = unit.head<3>(), along = unit.tail<3>();
  const bool turns = row - b.row >= 3;
  const Vec3 torque = turns ? Vec3(b.scale * (b.frame * ProductTransposed(b.e0, b.ev, along))) : Vec3(Vec3::Zero());
  const auto axis_of = [&](int dof) { return Vec6Map(d->cdof + 6 * dof); };

  Vec6 field[2];  // Σ S x of a side
  for (int s = 0; s < 2; s++) {
    field[s].setZero();
    for (int j = LastDof(m, b.body[s]); j >= 0; j = m->dof_parentid[j]) field[s] += x[j] * axis_of(j);
  }
  const Vec3 spin = field[0].head<3>() - field[1].head<3>();
  for (int s = 0; s < 2; s++) {
    const Vec3 r = b.point[s] - Origin(m, d, b.body[s]);
    const double sign = s == 0 ? 1 : -1;
    Vec6 behind = Vec6::Zero();  // of what a dof turns: from its group on
    for (int j = LastDof(m, b.body[s]), k = j; j >= 0; j = m->dof_parentid[j]) {
      for (; k >= axes.group[j]; k = m->dof_parentid[k]) behind += x[k] * axis_of(k);
      const Vec6 S = axis_of(j), turned = CrossMotion(S, behind);
      double& out = (*slope)[j];
      if (!turns) {
        out += PLANT("connect row: turning",
                     sign * axis.dot(MotionAt(turned, r) + field[s].head<3>().cross(MotionAt(S, r))));
        continue;
      }
      const Vec3 zeta = sign * (b.frame.transpose() * S.head<3>()), dev = 0.5 * Product(b.e0, b.ev, zeta);
      const double de0 = -0.5 * zeta.dot(b.ev);
      out += PLANT("weld row: turning", sign * torque.dot(turned.head<3>()));
      out += PLANT("weld row: error", b.scale * (b.frame * ProductTransposed(de0, dev, along)).dot(spin));
      if (s == 1) out += PLANT("weld row: frame", S.head<3>().cross(torque).dot(spin));
    }
  }
}

void BodyEquality::AddWrenchColumns(const mjModel* m, const mjData* d, const TreeDerivative& tree, int begin, int end,
                                    const Vec3& origin, const Metric* metric,
                                    const std::function<void(int, int, const Vec6&)>& add) {
  for (const Block& b : blocks_) {
    const bool inside[2] = {b.body[0] >= begin && b.body[0] < end, b.body[1] >= begin && b.body[1] < end};
    if (!inside[0] && !inside[1]) continue;
    const Motion motion(m, d, tree, b);

    // wrench on the bodies inside, by changes of force and torque and of the points
    const auto wrench = [&](const Vec3& force, const Vec3& torque, const PointChange* side) {
      Vec6 sum = Vec6::Zero();
      for (int s = 0; s < 2; s++) {
        if (!inside[s]) continue;
        Vec6 one;
        one << (b.point[s] - origin).cross(force) + torque, force;
        if (side) one.head<3>() += side[s].position.cross(b.force);
        sum += s == 0 ? one : Vec6(-one);
      }
      return sum;
    };
    const auto column = [&](const PointChange* side) {
      Vec6 df;
      Vec3 dtorque;
      motion.Change(side, &df, &dtorque);
      return wrench(df.head<3>(), dtorque, side);
    };
    ForDofs(m, d, tree, b, motion, [&](int dof, const PointChange* by_q, const PointChange* by_v) {
      add(dof, 0, column(by_q));
      add(dof, 1, column(by_v));
    });
    for (int i = 0; i < b.rows; i++) {
      const Vec6 row = Vec6::Unit(i);
      const Vec3 torque =
          i < 3 ? Vec3(Vec3::Zero()) : Vec3(b.scale * (b.frame * ProductTransposed(b.e0, b.ev, row.tail<3>())));
      const Vec6 unit = wrench(row.head<3>(), torque, nullptr);
      ForJacobianRow(m, d, b.row + i, [&](int dof, double J) { add(dof, 2, -d->efc_D[b.row + i] * J * unit); });
      const Metric::Scale* scale = metric ? metric->FindScale(b.row + i) : nullptr;
      for (std::size_t k = 0; scale && k < scale->turner.size(); k++) {
        add(scale->turner[k], 0, -d->efc_force[b.row + i] * scale->slope[k] * unit);
      }
    }
  }
}

}  // namespace costate
