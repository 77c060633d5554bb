#include "derivative/contact_product.h"

#include "derivative/chain.h"
#include "derivative/spatial_lanes.h"

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
    for (int k = 1; k < dim; k++) {
      const double mu = con.friction[k - 1];
      double D[2] = {0}, force[2] = {0};
      for (int side = 0; side < 2; side++) {
        const int edge = row + 2 * (k - 1) + side;
        if (data->efc_state[edge] != mjCNSTRSTATE_QUADRATIC) continue;
        D[side] = data->efc_D[edge];
        force[side] = data->efc_force[edge];
        active = true;
      }
      H(0, 0) += D[0] + D[1];
      H(0, k) = H(k, 0) = mu * (D[0] - D[1]);
      H(k, k) = mu * mu * (D[0] + D[1]);
      f[0] += force[0] + force[1];
      f[k] = mu * (force[0] - force[1]);
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

  Place(model, data);
  const Vec6 Ua = tree.acceleration_field(body[1]) - MotionAbout(tree.acceleration_field(body[0]), shift1);
  const Vec6 Uv = tree.velocity(body[1]) - MotionAbout(tree.velocity(body[0]), shift1);
  a_rot = Ua.head<3>();
  v_rot = Uv.head<3>();
  a_lin = MotionAt(Ua, p);
  v_lin = MotionAt(Uv, p);
  return true;
}

// bodies, point and axes, and the force in the world
void ContactProduct::Place(const mjModel* model, const mjData* data) {
  const mjContact& con = data->contact[contact];
  for (int side = 0; side < 2; side++) {
    body[side] = model->geom_bodyid[con.geom[side]];
    moves[side] = LastDof(model, body[side]) >= 0;
  }
  const Vec3 origin = Origin(model, data, body[moves[1] ? 1 : 0]);
  shift1.setZero();
  if (moves[0]) shift1 = origin - Origin(model, data, body[0]);
  p = Vec3Map(con.pos) - origin;
  R = Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>(con.frame);
  axes = R.transpose();
  push = axes * f.head<3>();
  torque = axes * f.tail<3>();
}

void ContactProduct::FillPull(const mjModel* model, const mjData* data, int index, double pull) {
  contact = index;
  dim = 1;
  f.setZero();
  f[0] = -pull;
  b.setZero();
  H.setZero();
  kappa = g = 0;
  has_belt = false;
  Place(model, data);
  for (Vec3* field : {&a_rot, &a_lin, &v_rot, &v_lin}) field->setZero();
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

namespace {

// three columns, `stride` numbers apart, with a number behind the last
COSTATE_LANES Lanes3x3 LoadColumns(const double* first, int stride = 3) {
  return {LoadLanes(first), LoadLanes(first + stride), LoadLanes(first + 2 * stride)};
}

COSTATE_LANES double DotLanes(Double4 x, Double4 y) {
  const Double4 all = x * y;
  return all[0] + all[1] + all[2];
}

// the last three of six numbers
COSTATE_LANES Double4 LoadLanesEnd(const double* p) {
  const Double4 end = LoadLanes(p - 1);
  return __builtin_shufflevector(end, end, 1, 2, 3, 3);
}

// Σ_k x_k row_k, rows of six
COSTATE_LANES Lanes6 SumRows(int count, const double* x, const double* rows) {
  Lanes6 sum = Lanes6::Zero();
  for (int k = 0; k < count; k++) sum += x[k] * Lanes6::Load(rows + 6 * k);
  return sum;
}

// of the velocity of a moving surface: rows t1, t2 and spin
COSTATE_LANES Lanes6 BeltRows(const Eigen::Matrix<double, 3, 6>& belt, Double4 z, Double4 z_rot) {
  const double x[3] = {z[1], z[2], z_rot[0]};
  const Eigen::Matrix<double, 3, 6, Eigen::RowMajor> rows = belt;
  return SumRows(3, x, rows.data());
}

}  // namespace

COSTATE_SIMD void ContactProduct::Pull(const ContactMotion& motion, const Vec6& T, ContactSide side[2]) const {
  const bool turns = dim > 3;
  const Lanes6 wrench = Lanes6::Load(T.data());
  const Double4 arm = LoadLanes(p.data()), tau = wrench.a, nu = wrench.l + CrossLanes(tau, arm);
  const Lanes3x3 to_basis = LoadColumns(R.data()), to_world = LoadColumns(axes.data());

  // c of the rows, z = −H_c c and b z, of linear rows and of those that turn; in the world
  const Double4 c = to_basis * nu, c_rot = turns ? to_basis * tau : Double4{};
  Double4 z = -(LoadColumns(H.data(), 6) * c), z_rot = {};
  if (turns) {
    z -= LoadColumns(H.data() + 18, 6) * c_rot;
    z_rot = -(LoadLanesEnd(H.data() + 3) * c[0] + LoadLanesEnd(H.data() + 9) * c[1] + LoadLanesEnd(H.data() + 15) * c[2] +
              LoadLanesEnd(H.data() + 21) * c_rot[0] + LoadLanesEnd(H.data() + 27) * c_rot[1] + LoadLanesEnd(H.data() + 33) * c_rot[2]);
  }
  const Double4 zb = LoadLanes(b.data()) * z, zb_rot = LoadLanesEnd(b.data() + 3) * z_rot;
  const Double4 lin = to_world * z, lin_b = to_world * zb, rot = to_world * z_rot, rot_b = to_world * zb_rot;

  // of (dφ, dp, Ω)
  const Double4 a_turn = LoadLanes(a_rot.data()), v_turn = LoadLanes(v_rot.data()), force = LoadLanes(push.data());
  double along = DotLanes(LoadLanes(f.data()), c);
  Double4 turn = CrossLanes(lin, LoadLanes(a_lin.data())) + CrossLanes(lin_b, LoadLanes(v_lin.data())) + CrossLanes(force, nu);
  if (turns) {
    along += DotLanes(LoadLanesEnd(f.data() + 3), c_rot);
    turn += CrossLanes(rot, a_turn) + CrossLanes(rot_b, v_turn) + CrossLanes(LoadLanes(torque.data()), tau);
  }
  const Double4 point = CrossLanes(lin, a_turn) + CrossLanes(lin_b, v_turn) + CrossLanes(force, tau);
  const double geometry[7] = {g * along + kappa * z[0], point[0], point[1], point[2], turn[0], turn[1], turn[2]};

  // of both sides: geom 1 moves what both move less what geom 2 moves
  Lanes6 second = SumRows(7, geometry, motion.by_geom2.data());
  if (has_belt) second += BeltRows(belt.by_geom2, zb, zb_rot);
  const Lanes6 Ua = {rot + CrossLanes(arm, lin), lin}, Uv = {rot_b + CrossLanes(arm, lin_b), lin_b};
  if (moves[1]) {
    Lanes6{second.a + CrossLanes(arm, second.l), second.l}.Store(side[1].twist.data());
    Ua.Store(side[1].Ua.data());
    Uv.Store(side[1].Uv.data());
  }
  if (moves[0]) {
    Lanes6 first = SumRows(7, geometry, motion.by_both.data()) - second;
    if (has_belt) first += BeltRows(belt.by_both, zb, zb_rot);
    Lanes6{first.a + CrossLanes(arm, first.l), first.l}.Store(side[0].twist.data());
    (Lanes6::Zero() - Ua).Store(side[0].Ua.data());
    (Lanes6::Zero() - Uv).Store(side[0].Uv.data());
  }
}

}  // namespace costate
