#include "derivative/equality.h"

#include <cmath>

#include "derivative/body_point.h"

namespace costate {

namespace {

// vector part of (0, z) ∘ e
Vec3 Error(double e0, const Vec3& ev, const Vec3& z) { return e0 * z + z.cross(ev); }
// its transpose applied to f
Vec3 ErrorTransposed(double e0, const Vec3& ev, const Vec3& f) { return e0 * f + ev.cross(f); }

}  // namespace

bool IsBodyEquality(const mjModel* m, int i) { return m->eq_type[i] == mjEQ_CONNECT || m->eq_type[i] == mjEQ_WELD; }

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
    b.body[s] = body_semantic ? object : m->site_bodyid[object];
    if (body_semantic) {
      // connect: one anchor in each body; weld: they are stored the other way round
      const Mat3 R = Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>(d->xmat + 9 * object);
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
    b.torque = b.scale * (b.frame * ErrorTransposed(b.e0, b.ev, Vec3Map(d->efc_force + row + 3)));
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
      out.F.tail<3>() += sign * b.force;
      out.active = true;
    }
  }
}

void BodyEquality::AddColumns(const mjModel* m, const mjData* d, const TreeDerivative& tree, Columns* R) {
  const int nv = static_cast<int>(m->nv);
  side_.resize(nv, 0);
  for (const Block& b : blocks_) {
    // state of both sides; a static one rests
    BodyPoint point[2];
    Vec3 w[2], omega_rate[2];
    for (int s = 0; s < 2; s++) {
      point[s] = BodyPoint(m, d, tree, b.body[s], b.point[s]);
      w[s] = point[s].spin();
      omega_rate[s] = point[s].spin_rate();
    }
    chain_.clear();
    for (int s = 0; s < 2; s++) {
      for (int i = LastDof(m, b.body[s]); i >= 0; i = m->dof_parentid[i]) {
        if (!side_[i]) chain_.push_back(i);
        side_[i] |= 1 << s;
      }
    }

    // impedance: r is the norm of all rows
    const mjtNum* kbip = d->efc_KBIP + 4 * b.row;
    const double k = kbip[0], damping = kbip[1], impedance = kbip[2], slope = kbip[3];
    const double g = slope / (impedance * (1 - impedance));
    double norm = 0;
    for (int i = 0; i < b.rows; i++) norm += d->efc_pos[b.row + i] * d->efc_pos[b.row + i];
    norm = std::sqrt(norm);

    // weld: z = R1ᵀ (w0 − w1), ż = R1ᵀ (Δα − w1 × Δw), ė = ½ (0, z) ∘ e
    const bool weld = b.rows == 6;
    Vec3 z = Vec3::Zero(), z_rate = Vec3::Zero(), e_rate = Vec3::Zero(), spin_term = Vec3::Zero();
    double e0_rate = 0;
    if (weld) {
      z = b.frame.transpose() * (w[0] - w[1]);
      spin_term = omega_rate[0] - omega_rate[1] - w[1].cross(w[0] - w[1]);
      z_rate = b.frame.transpose() * spin_term;
      e0_rate = -0.5 * z.dot(b.ev);
      e_rate = 0.5 * Error(b.e0, b.ev, z);
    }

    // change of the rows' forces and of both wrenches by one dof's motion
    const auto column = [&](const PointChange side[2], int col) {
      Vec6 dy = Vec6::Zero(), dpos = Vec6::Zero();
      dpos.head<3>() = side[0].position - side[1].position;
      dy.head<3>() = side[0].acceleration - side[1].acceleration + damping * (side[0].velocity - side[1].velocity);
      Vec3 dev = Vec3::Zero();
      double de0 = 0;
      if (weld) {
        const Vec3 zeta = b.frame.transpose() * (side[0].rotation - side[1].rotation), dw = side[0].spin - side[1].spin;
        de0 = -0.5 * zeta.dot(b.ev);
        dev = 0.5 * Error(b.e0, b.ev, zeta);
        const Vec3 dz = b.frame.transpose() * (dw - side[1].rotation.cross(w[0] - w[1]));
        const Vec3 du = side[0].spin_rate - side[1].spin_rate - side[1].spin.cross(w[0] - w[1]) - w[1].cross(dw);
        const Vec3 dz_rate = b.frame.transpose() * (du - side[1].rotation.cross(spin_term));
        const double de0_rate = -0.5 * (dz.dot(b.ev) + z.dot(dev));
        const Vec3 de_rate = 0.5 * (Error(b.e0, b.ev, dz) + Error(de0, dev, z));
        dy.tail<3>() = b.scale * (Error(de0, dev, z_rate) + Error(b.e0, b.ev, dz_rate) + Error(de0_rate, de_rate, z) +
                                  Error(e0_rate, e_rate, dz));
        dy.tail<3>() += damping * b.scale * (Error(de0, dev, z) + Error(b.e0, b.ev, dz));
        dpos.tail<3>() = 2 * b.scale * dev;
      }
      double dnorm = 0;
      for (int i = 0; i < b.rows && norm > mjMINVAL; i++) dnorm += d->efc_pos[b.row + i] * dpos[i] / norm;
      Vec6 df = Vec6::Zero();
      for (int i = 0; i < b.rows; i++) {
        const double dyi = dy[i] + k * (impedance * dpos[i] + slope * d->efc_pos[b.row + i] * dnorm);
        df[i] = -d->efc_D[b.row + i] * dyi + d->efc_force[b.row + i] * g * dnorm;
      }
      const Vec3 dforce = df.head<3>();
      Vec3 dtorque = Vec3::Zero();
      if (weld) {
        const Vec3 f = Vec3Map(d->efc_force + b.row + 3);
        dtorque = side[1].rotation.cross(b.torque) +
                  b.scale * (b.frame * (ErrorTransposed(de0, dev, f) + ErrorTransposed(b.e0, b.ev, df.tail<3>())));
      }
      for (int s = 0; s < 2; s++) {
        Vec6 wrench;
        wrench << point[s].r().cross(dforce) + side[s].position.cross(b.force) + dtorque, dforce;
        if (s == 1) wrench = -wrench;
        for (int i : chain_) {
          if (side_[i] & (1 << s)) (*R)(i, col) += Vec6Map(d->cdof + 6 * i).dot(wrench);
        }
      }
    };

    for (int i : chain_) {
      PointChange by_q[2], by_v[2];
      for (int s = 0; s < 2; s++) {
        if (!(side_[i] & (1 << s))) continue;
        by_q[s] = point[s].ByPosition(d, tree, i);
        by_v[s] = point[s].ByVelocity(d, tree, i);
      }
      column(by_q, i);
      column(by_v, nv + i);
    }
    for (int i : chain_) side_[i] = 0;
  }
}

}  // namespace costate
