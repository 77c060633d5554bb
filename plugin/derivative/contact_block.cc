#include "derivative/contact_block.h"

namespace costate {

namespace {

using Rows1 = Eigen::Matrix<double, Eigen::Dynamic, 1, 0, 6, 1>;

// forces and their Hessian in the contact basis (n, t1, t2, spin, roll1, roll2), both cones: (C4)
struct ContactForce {
  Rows1 f, b;  // force, damping of each row
  ContactRows H;
  double kappa = 0, g = 0;  // (C7), (C8)
  bool active = false;
};

ContactForce BasisForce(const mjData* data, const mjContact& contact) {
  ContactForce out;
  const int row = contact.efc_address, dim = contact.dim;
  const mjtNum* kbip = data->efc_KBIP + 4 * row;
  out.f.setZero(dim);
  out.b.setConstant(dim, kbip[1]);
  out.H.setZero(dim, dim);
  out.kappa = kbip[0] * (kbip[2] + kbip[3] * (contact.dist - contact.includemargin));
  out.g = kbip[3] / (kbip[2] * (1 - kbip[2]));

  // adhesion: aref += R delta, and R falls as D grows
  const bool pyramid = data->efc_type[row] == mjCNSTR_CONTACT_PYRAMIDAL;
  out.kappa += data->efc_R[row] * out.g * contact.adhesion / (pyramid ? 2 * (dim - 1) : 1);

  if (pyramid) {
    // edges u = e_0 ± μ_k e_k
    for (int edge = 0; edge < 2 * (dim - 1); edge++) {
      if (data->efc_state[row + edge] != mjCNSTRSTATE_QUADRATIC) continue;
      const int k = edge / 2 + 1;
      Rows1 u = Rows1::Zero(dim);
      u(0) = 1;
      u(k) = edge % 2 ? -contact.friction[k - 1] : contact.friction[k - 1];
      out.H += data->efc_D[row + edge] * u * u.transpose();
      out.f += data->efc_force[row + edge] * u;
      out.active = true;
    }
    return out;
  }

  if (data->efc_state[row] == mjCNSTRSTATE_SATISFIED) return out;
  out.active = true;
  for (int i = 0; i < dim; i++) {
    out.f(i) = data->efc_force[row + i];
    out.b(i) = data->efc_KBIP[4 * (row + i) + 1];
    if (data->efc_state[row] == mjCNSTRSTATE_QUADRATIC) out.H(i, i) = data->efc_D[row + i];
  }
  if (data->efc_state[row] == mjCNSTRSTATE_CONE) {
    out.H = Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(contact.H, dim, dim);
  }
  return out;
}

}  // namespace

bool ContactBlock::Fill(const mjModel* model, const mjData* data, const TreeDerivative& tree, const mjContact& contact) {
  const int dim = contact.dim;
  for (int side = 0; side < 2; side++) {
    body[side] = model->geom_bodyid[contact.geom[side]];
    moves[side] = LastDof(model, body[side]) >= 0;
  }
  origin = Origin(model, data, body[moves[1] ? 1 : 0]);
  shift1 = moves[0] ? Vec3(origin - Origin(model, data, body[0])) : Vec3(Vec3::Zero());
  const Vec3 p = Vec3Map(contact.pos) - origin;
  about.setIdentity();
  about.bottomLeftCorner<3, 3>() = -Skew(p);
  const ContactForce force = BasisForce(data, contact);
  if (!force.active) return false;

  // relative fields, body 2 minus body 1, about one origin
  const Vec6 Ua = tree.acceleration_field(body[1]) - MotionAbout(tree.acceleration_field(body[0]), shift1);
  const Vec6 Uv = tree.velocity(body[1]) - MotionAbout(tree.velocity(body[0]), shift1);
  const Vec3 ua = MotionAt(Ua, p), uv = MotionAt(Uv, p);
  const Mat3 R = Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>(contact.frame);

  // (C7) y by (dφ, dp, Ω): rows (n, t1, t2, spin, roll1, roll2); velocities count with each row's own damping
  const auto y_by_geometry = [&](const Vec3& rot, const Vec3& lin) {
    Eigen::Matrix<double, 6, 7> Y = Eigen::Matrix<double, 6, 7>::Zero();
    const Mat3 turned = R * Skew(rot);
    Y.block<3, 3>(0, 1) = turned;
    Y.block<3, 3>(0, 4) = R * Skew(lin);
    Y.block<3, 3>(3, 4) = turned;
    return Y;
  };
  ContactRows Y = y_by_geometry(Ua.head<3>(), ua).topRows(dim);
  Y += force.b.asDiagonal() * y_by_geometry(Uv.head<3>(), uv).topRows(dim);
  Y(0, 0) += force.kappa;

  // df = −H_c dy + f g dφ, then (C9) the wrench (moment; force) on body 2 about the origin
  f_by_geometry = -force.H * Y;
  f_by_geometry.col(0) += force.f * force.g;
  Eigen::Matrix<double, 6, 7> df = Eigen::Matrix<double, 6, 7>::Zero();
  df.topRows(dim) = f_by_geometry;
  f.setZero();
  f.head(dim) = force.f;
  const Vec3 push = R.transpose() * f.head<3>(), torque = R.transpose() * f.tail<3>();
  Eigen::Matrix<double, 6, 7>& L = F_by_geometry;
  L.bottomRows<3>() = R.transpose() * df.topRows<3>();
  L.block<3, 3>(3, 4) -= Skew(push);
  L.topRows<3>() = Skew(p) * L.bottomRows<3>() + R.transpose() * df.bottomRows<3>();
  L.block<3, 3>(0, 1) -= Skew(push);
  L.block<3, 3>(0, 4) -= Skew(torque);
  F << p.cross(push) + torque, push;

  // W: twist about the origin → contact basis
  Mat6 full = Mat6::Zero();
  full.topRightCorner<3, 3>() = R;
  full.topLeftCorner<3, 3>() = -R * Skew(p);
  full.bottomLeftCorner<3, 3>() = R;
  const ContactRows W = full.topRows(dim);
  f_by_a = force.H * W;
  f_by_v = force.H * force.b.asDiagonal() * W;
  F_by_a = W.transpose() * f_by_a;
  F_by_v = W.transpose() * f_by_v;
  return true;
}

}  // namespace costate
