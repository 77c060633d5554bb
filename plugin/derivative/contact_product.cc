#include "derivative/contact_product.h"

#include "derivative/chain.h"
#include "derivative/contact_block.h"
#include "derivative/hardest_rows.h"
#include "derivative/impedance.h"
#include "derivative/spatial_lanes.h"

namespace costate {

// bodies, point and axes, and the force in the world
COSTATE_LANES void ContactProduct::Place(const mjModel* model, const mjData* data) {
  const mjContact& con = data->contact[contact];
  for (int side = 0; side < 2; side++) {
    body[side] = ContactBody(model, con, side);
    moves[side] = LastDof(model, body[side]) >= 0;
  }
  const auto origin = [&](int side) __attribute__((always_inline)) {
    return LoadLanes(data->subtree_com + 3 * model->body_rootid[body[side]]);
  };
  const Double4 about = origin(moves[1] ? 1 : 0);
  shift1 = moves[0] ? about - origin(0) : Double4{};
  p = LoadLanes(con.pos) - about;
  axes = {LoadLanes(con.frame), LoadLanes(con.frame + 3), LoadLanes(con.frame + 6)};
  basis = axes.Transposed();
  push = axes.x * f[0] + axes.y * f[1] + axes.z * f[2];
  torque = axes.x * f[3] + axes.y * f[4] + axes.z * f[5];
}

// (C4) both cones in one basis
COSTATE_LANES bool ContactProduct::FillForces(const mjModel* model, const mjData* data, int index) {
  const mjContact& con = data->contact[index];
  const int row = con.efc_address;
  const bool pyramid = data->efc_type[row] == mjCNSTR_CONTACT_PYRAMIDAL;
  contact = index;
  dim = con.dim;

  bool active = false;
  f.setZero();
  H.setZero();
  b.setZero();
  for (int i = 0; i < dim; i++) b[i] = RowLawOf(model, data, pyramid ? row : row + i).damping;
  if (pyramid) {
    // edges u = e_0 ± μ_k e_k
    const double share = NormalShare(data, row);
    for (int k = 1; k < dim; k++) {
      const double mu = con.friction[k - 1];
      double D[2] = {0}, force[2] = {0};
      for (int side = 0; side < 2; side++) {
        const int edge = row + 2 * (k - 1) + side;
        if (data->efc_state[edge] != mjCNSTRSTATE_QUADRATIC) continue;
        D[side] = data->efc_D[edge] / share;
        force[side] = data->efc_force[edge];
        active = true;
      }
      H(0, 0) += D[0] + D[1];
      H(0, k) = H(k, 0) = mu * (D[0] - D[1]);
      H(k, k) = mu * mu * (D[0] + D[1]);
      f[0] += force[0] + force[1];
      f[k] = mu * (force[0] - force[1]);
    }
    if (active && share < 1) SoftenNormal(share, &H);
  } else if (data->efc_state[row] != mjCNSTRSTATE_SATISFIED) {
    active = true;
    for (int i = 0; i < dim; i++) {
      f[i] = data->efc_force[row + i];
      if (data->efc_state[row] == mjCNSTRSTATE_QUADRATIC) H(i, i) = data->efc_D[row + i];
      for (int j = 0; j < dim && data->efc_state[row] == mjCNSTRSTATE_CONE; j++) H(i, j) = con.H[i * dim + j];
    }
  }
  return active;
}

COSTATE_SIMD bool ContactProduct::FillHessian(const mjModel* model, const mjData* data, int index) {
  if (!FillForces(model, data, index)) return false;
  Place(model, data);
  return true;
}

COSTATE_SIMD bool ContactProduct::Fill(const mjModel* model, const mjData* data, const TreeDerivative& tree,
                                       int index) {
  if (!FillForces(model, data, index)) return false;
  const ContactStiffness stiffness(model, data, data->contact[index]);
  kappa = Eigen::Map<const Vec6>(stiffness.kappa);
  g = stiffness.gain;

  Place(model, data);
  const TreeDerivative::Field &first = tree.field(body[0]), &second = tree.field(body[1]);
  const Lanes6 Ua = second.va - MotionAbout(first.va, shift1), Uv = second.v - MotionAbout(first.v, shift1);
  a_rot = Ua.a;
  v_rot = Uv.a;
  a_lin = Ua.l + CrossLanes(Ua.a, p);
  v_lin = Uv.l + CrossLanes(Uv.a, p);
  return true;
}

COSTATE_SIMD void ContactProduct::FillPull(const mjModel* model, const mjData* data, int index, double pull) {
  contact = index;
  dim = 1;
  f.setZero();
  f[0] = -pull;
  b.setZero();
  H.setZero();
  kappa.setZero();
  g = 0;
  has_belt = false;
  Place(model, data);
  for (Double4* field : {&a_rot, &a_lin, &v_rot, &v_lin}) *field = Double4{};
}

COSTATE_SIMD void ContactProduct::AddWrench(int side, Vec6* F) const {
  const Lanes6 on_second = {CrossLanes(p, push) + torque, push};
  const Lanes6 before = Lanes6::Load(F->data());
  (side == 1 ? before + on_second : before - WrenchAbout(on_second, -shift1)).Store(F->data());
}

namespace {

// Rᵀ H R for 3×3 blocks of H in the basis; H(r + i, c + k) of a symmetric matrix
COSTATE_LANES Lanes3x3 ToWorld(const Mat6& H, int r, int c, const Lanes3x3& axes) {
  const double* h = H.data() + 6 * c + r;
  const Double4 x = axes.x * h[0] + axes.y * h[6] + axes.z * h[12], y = axes.x * h[1] + axes.y * h[7] + axes.z * h[13],
                z = axes.x * h[2] + axes.y * h[8] + axes.z * h[14];
  const auto column = [&](int k) __attribute__((always_inline)) {
    return axes.x * x[k] + axes.y * y[k] + axes.z * z[k];
  };
  return {column(0), column(1), column(2)};
}

COSTATE_LANES Lanes3x3 CrossColumns(Double4 p, const Lanes3x3& m) {
  return {CrossLanes(p, m.x), CrossLanes(p, m.y), CrossLanes(p, m.z)};
}

COSTATE_LANES Lanes3x3 Sum(const Lanes3x3& m, const Lanes3x3& n) { return {m.x + n.x, m.y + n.y, m.z + n.z}; }

}  // namespace

COSTATE_SIMD void ContactProduct::AddHessian(Mat6* HH) const {
  // in the world about the point, then shifted: lin at the point is lin − [p×] rot
  const Lanes3x3 ll = ToWorld(H, 0, 0, axes);
  Lanes3x3 rl = CrossColumns(p, ll);
  if (dim > 3) rl = Sum(rl, ToWorld(H, 3, 0, axes));
  Lanes3x3 rr = {rl.z * p[1] - rl.y * p[2], rl.x * p[2] - rl.z * p[0], rl.y * p[0] - rl.x * p[1]};
  if (dim > 3) rr = Sum(rr, Sum(CrossColumns(p, ToWorld(H, 0, 3, axes)), ToWorld(H, 3, 3, axes)));
  const Lanes3x3 lr = rl.Transposed();
  const Lanes6 columns[6] = {{rr.x, lr.x}, {rr.y, lr.y}, {rr.z, lr.z}, {rl.x, ll.x}, {rl.y, ll.y}, {rl.z, ll.z}};
  for (int c = 0; c < 6; c++) (Lanes6::Load(HH->data() + 6 * c) + columns[c]).Store(HH->data() + 6 * c);
}

Vec6 ContactProduct::Push(const ContactMotion& motion, const ContactSide side[2]) const {
  const auto three = [](const Double4& x) { return Vec3(x[0], x[1], x[2]); };
  const Vec3 p = three(this->p), push = three(this->push), torque = three(this->torque), a_rot = three(this->a_rot),
             a_lin = three(this->a_lin), v_rot = three(this->v_rot), v_lin = three(this->v_lin);
  Mat3 R;
  R << three(basis.x), three(basis.y), three(basis.z);
  const auto to_basis = [&](const Vec6& twist) {
    Vec6 out;
    out << R * MotionAt(twist, p), R * twist.head<3>();
    return out;
  };

  // (dφ, dp, Ω)
  Vec6 s[2];
  for (int k = 0; k < 2; k++) s[k] << side[k].twist.head<3>(), MotionAt(side[k].twist, p);
  const Eigen::Matrix<double, 7, 1> geometry = motion.by_both * s[0] + motion.by_geom2 * (s[1] - s[0]);
  const double dist = geometry[0];
  const Vec3 dp = geometry.segment<3>(1), turn = geometry.tail<3>();

  Vec6 a = to_basis(side[1].Ua - side[0].Ua), v = to_basis(side[1].Uv - side[0].Uv);
  a.head<3>() += R * (a_rot.cross(dp) + a_lin.cross(turn));
  a.tail<3>() += R * a_rot.cross(turn);
  v.head<3>() += R * (v_rot.cross(dp) + v_lin.cross(turn));
  v.tail<3>() += R * v_rot.cross(turn);
  Vec6 dy = a + b.cwiseProduct(v);
  dy += kappa * dist;
  if (has_belt) dy.segment<3>(1) += b.segment<3>(1).cwiseProduct(belt.by_both * s[0] + belt.by_geom2 * (s[1] - s[0]));
  const Vec6 df = f * (g * dist) - H * dy;

  const Vec3 force = R.transpose() * df.head<3>() + turn.cross(push);
  Vec6 out;
  out << p.cross(force) + R.transpose() * df.tail<3>() + turn.cross(torque) + dp.cross(push), force;
  return out;
}

namespace {

// the first three rows of three columns of H
COSTATE_LANES Lanes3x3 LoadColumns(const double* first) {
  return {LoadLanes(first), LoadLanes(first + 6), LoadLanes(first + 12)};
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

COSTATE_SIMD void ContactProduct::Pull(const ContactMotion& motion, const Lanes6& T, ContactCovectors* out) const {
  const bool turns = dim > 3;
  const Double4 tau = T.a, nu = T.l + CrossLanes(tau, p);

  // c of the rows, z = −H_c c and b z, of linear rows and of those that turn; in the world
  const Double4 c = basis * nu, c_rot = turns ? basis * tau : Double4{};
  Double4 z = -(LoadColumns(H.data()) * c), z_rot = {};
  if (turns) {
    z -= LoadColumns(H.data() + 18) * c_rot;
    z_rot = -(LoadLanesEnd(H.data() + 3) * c[0] + LoadLanesEnd(H.data() + 9) * c[1] +
              LoadLanesEnd(H.data() + 15) * c[2] + LoadLanesEnd(H.data() + 21) * c_rot[0] +
              LoadLanesEnd(H.data() + 27) * c_rot[1] + LoadLanesEnd(H.data() + 33) * c_rot[2]);
  }
  const Double4 zb = LoadLanes(b.data()) * z, zb_rot = LoadLanesEnd(b.data() + 3) * z_rot;
  const Double4 lin = axes * z, lin_b = axes * zb, rot = axes * z_rot, rot_b = axes * zb_rot;

  // of (dφ, dp, Ω)
  double along = DotLanes(LoadLanes(f.data()), c);
  Double4 turn = CrossLanes(lin, a_lin) + CrossLanes(lin_b, v_lin) + CrossLanes(push, nu);
  if (turns) {
    along += DotLanes(LoadLanesEnd(f.data() + 3), c_rot);
    turn += CrossLanes(rot, a_rot) + CrossLanes(rot_b, v_rot) + CrossLanes(torque, tau);
  }
  const Double4 point = CrossLanes(lin, a_rot) + CrossLanes(lin_b, v_rot) + CrossLanes(push, tau);
  double by_distance = kappa[0] * z[0] + kappa[1] * z[1] + kappa[2] * z[2];
  if (turns) by_distance += DotLanes(LoadLanesEnd(kappa.data() + 3), z_rot);
  const double geometry[7] = {g * along + by_distance, point[0], point[1], point[2], turn[0], turn[1], turn[2]};

  // of both sides: geom 1 moves what both move less what geom 2 moves
  Lanes6 second = SumRows(7, geometry, motion.by_geom2.data());
  if (has_belt) second += BeltRows(belt.by_geom2, zb, zb_rot);
  out->Ua = {rot + CrossLanes(p, lin), lin};
  out->Uv = {rot_b + CrossLanes(p, lin_b), lin_b};
  out->twist[1] = {second.a + CrossLanes(p, second.l), second.l};
  if (!moves[0]) return;
  Lanes6 first = SumRows(7, geometry, motion.by_both.data()) - second;
  if (has_belt) first += BeltRows(belt.by_both, zb, zb_rot);
  out->twist[0] = {first.a + CrossLanes(p, first.l), first.l};
}

}  // namespace costate
