#include "derivative/contact_product.h"

#include "core/simd.h"
#include "derivative/chain.h"

namespace costate {

COSTATE_SIMD bool ContactProduct::Fill(const mjModel* model, const mjData* data, const TreeDerivative& tree, int index) {
  const mjContact& con = data->contact[index];
  const int row = con.efc_address;
  const mjtNum* kbip = data->efc_KBIP + 4 * row;
  const bool pyramid = data->efc_type[row] == mjCNSTR_CONTACT_PYRAMIDAL;
  contact = index;
  dim = con.dim;

  // (C4) both cones in one basis
  bool active = false;
  f.setZero();
  H.setZero();
  b.setZero();
  for (int i = 0; i < dim; i++) b[i] = data->efc_KBIP[4 * (pyramid ? row : row + i) + 1];
  if (pyramid) {
    // edges u = e_0 ± μ_k e_k
    for (int edge = 0; edge < 2 * (dim - 1); edge++) {
      if (data->efc_state[row + edge] != mjCNSTRSTATE_QUADRATIC) continue;
      const int k = edge / 2 + 1;
      const double mu = edge % 2 ? -con.friction[k - 1] : con.friction[k - 1];
      const double D = data->efc_D[row + edge], force = data->efc_force[row + edge];
      H(0, 0) += D;
      H(0, k) += D * mu;
      H(k, 0) += D * mu;
      H(k, k) += D * mu * mu;
      f[0] += force;
      f[k] += force * mu;
      active = true;
    }
  } else if (data->efc_state[row] != mjCNSTRSTATE_SATISFIED) {
    active = true;
    for (int i = 0; i < dim; i++) {
      f[i] = data->efc_force[row + i];
      if (data->efc_state[row] == mjCNSTRSTATE_QUADRATIC) H(i, i) = data->efc_D[row + i];
      for (int j = 0; j < dim && data->efc_state[row] == mjCNSTRSTATE_CONE; j++) H(i, j) = con.H[i * dim + j];
    }
  }
  if (!active) return false;

  // (C7), (C8), (C12)
  kappa = kbip[0] * (kbip[2] + kbip[3] * (con.dist - con.includemargin));
  g = kbip[3] / (kbip[2] * (1 - kbip[2]));
  kappa += data->efc_R[row] * g * con.adhesion / (pyramid ? 2 * (dim - 1) : 1);

  for (int side = 0; side < 2; side++) {
    body[side] = model->geom_bodyid[con.geom[side]];
    moves[side] = LastDof(model, body[side]) >= 0;
  }
  const Vec3 origin = Origin(model, data, body[moves[1] ? 1 : 0]);
  shift1.setZero();
  if (moves[0]) shift1 = origin - Origin(model, data, body[0]);
  p = Vec3Map(con.pos) - origin;
  R = Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>(con.frame);
  push = R.transpose() * f.head<3>();
  torque = R.transpose() * f.tail<3>();

  const Vec6 Ua = tree.acceleration_field(body[1]) - MotionAbout(tree.acceleration_field(body[0]), shift1);
  const Vec6 Uv = tree.velocity(body[1]) - MotionAbout(tree.velocity(body[0]), shift1);
  a_rot = Ua.head<3>();
  v_rot = Uv.head<3>();
  a_lin = MotionAt(Ua, p);
  v_lin = MotionAt(Uv, p);
  return true;
}

Vec6 ContactProduct::Wrench() const {
  Vec6 F;
  F << p.cross(push) + torque, push;
  return F;
}

COSTATE_SIMD Mat6 ContactProduct::Hessian() const {
  // in the world about the point, then shifted: lin at the point is lin − [p×] rot
  Mat6 out;
  const Mat3 X = Skew(p), lin = H.topLeftCorner<3, 3>() * R, ll = R.transpose() * lin;
  out.bottomRightCorner<3, 3>() = ll;
  out.topRightCorner<3, 3>() = X * ll;
  if (dim > 3) {
    const Mat3 rot = H.bottomLeftCorner<3, 3>() * R;
    out.topRightCorner<3, 3>() += R.transpose() * rot;
  }
  out.bottomLeftCorner<3, 3>() = out.topRightCorner<3, 3>().transpose();
  out.topLeftCorner<3, 3>() = -out.topRightCorner<3, 3>() * X;
  if (dim > 3) {
    const Mat3 mixed = H.topRightCorner<3, 3>() * R, rot = H.bottomRightCorner<3, 3>() * R, lr = R.transpose() * mixed;
    out.topLeftCorner<3, 3>() += X * lr + R.transpose() * rot;
  }
  return out;
}

// twist about the origin → motion of the rows
Vec6 ContactProduct::ToBasis(const Vec6& s) const {
  Vec6 out;
  out << R * MotionAt(s, p), R * s.head<3>();
  return out;
}

// its transpose
Vec6 ContactProduct::FromBasis(const Vec6& c) const {
  const Vec3 lin = R.transpose() * c.head<3>();
  Vec6 out;
  out << R.transpose() * c.tail<3>() + p.cross(lin), lin;
  return out;
}

Vec6 ContactProduct::Push(const ContactMotion& motion, const ContactSide side[2]) const {
  // (dφ, dp, Ω)
  Vec6 s[2];
  for (int k = 0; k < 2; k++) s[k] << side[k].twist.head<3>(), MotionAt(side[k].twist, p);
  const Eigen::Matrix<double, 7, 1> geometry = motion.by_both * s[0] + motion.by_geom2 * (s[1] - s[0]);
  const double dist = geometry[0];
  const Vec3 dp = geometry.segment<3>(1), turn = geometry.tail<3>();

  Vec6 a = ToBasis(side[1].Ua - side[0].Ua), v = ToBasis(side[1].Uv - side[0].Uv);
  a.head<3>() += R * (a_rot.cross(dp) + a_lin.cross(turn));
  a.tail<3>() += R * a_rot.cross(turn);
  v.head<3>() += R * (v_rot.cross(dp) + v_lin.cross(turn));
  v.tail<3>() += R * v_rot.cross(turn);
  Vec6 dy = a + b.cwiseProduct(v);
  dy[0] += kappa * dist;
  if (has_belt) dy.segment<3>(1) += b.segment<3>(1).cwiseProduct(belt.by_both * s[0] + belt.by_geom2 * (s[1] - s[0]));
  const Vec6 df = f * (g * dist) - H * dy;

  const Vec3 force = R.transpose() * df.head<3>() + turn.cross(push);
  Vec6 out;
  out << p.cross(force) + R.transpose() * df.tail<3>() + turn.cross(torque) + dp.cross(push), force;
  return out;
}

COSTATE_SIMD void ContactProduct::Pull(const ContactMotion& motion, const Vec6& T, ContactSide side[2]) const {
  const Vec6 c = ToBasis(T), z = -(H * c), zb = b.cwiseProduct(z);
  const Vec3 tau = T.head<3>(), nu = MotionAt(T, p);

  // of (dφ, dp, Ω)
  Eigen::Matrix<double, 7, 1> geometry;
  const Vec3 z_lin = R.transpose() * z.head<3>(), zb_lin = R.transpose() * zb.head<3>();
  Vec3 turn = z_lin.cross(a_lin) + zb_lin.cross(v_lin) + push.cross(nu);
  if (dim > 3) {
    const Vec3 z_rot = R.transpose() * z.tail<3>(), zb_rot = R.transpose() * zb.tail<3>();
    turn += z_rot.cross(a_rot) + zb_rot.cross(v_rot) + torque.cross(tau);
  }
  geometry << g * f.dot(c) + kappa * z[0], z_lin.cross(a_rot) + zb_lin.cross(v_rot) + push.cross(tau), turn;

  // of both sides: geom 1 moves what both move less what geom 2 moves
  Vec6 second = motion.by_geom2.transpose() * geometry, first = motion.by_both.transpose() * geometry;
  if (has_belt) {
    second += belt.by_geom2.transpose() * zb.segment<3>(1);
    first += belt.by_both.transpose() * zb.segment<3>(1);
  }
  first -= second;
  side[0].twist << first.head<3>() + p.cross(first.tail<3>()), first.tail<3>();
  side[1].twist << second.head<3>() + p.cross(second.tail<3>()), second.tail<3>();
  side[1].Ua = FromBasis(z);
  side[1].Uv = FromBasis(zb);
  side[0].Ua = -side[1].Ua;
  side[0].Uv = -side[1].Uv;
}

}  // namespace costate
