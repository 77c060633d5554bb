#include "derivative/attachment.h"

#include <algorithm>

namespace costate {

using Quat = Eigen::Quaterniond;
using Rows6 = Eigen::Matrix<double, 6, 1>;

namespace {

Quat ToQuat(const mjtNum* q) { return Quat(q[0], q[1], q[2], q[3]); }

// (0, z) e / 2: how e changes when the first body turns by z against the second, in the second's frame
Quat HalfProduct(const Vec3& z, const Quat& e) {
  Quat r = Quat(0, z.x(), z.y(), z.z()) * e;
  r.coeffs() *= 0.5;
  return r;
}

// E(e) z = e_w z − e_v × z: vector part of (0, z) e
Vec3 E(const Quat& e, const Vec3& z) { return e.w() * z - e.vec().cross(z); }
// E(e)ᵀ f
Vec3 Et(const Quat& e, const Vec3& f) { return e.w() * f + e.vec().cross(f); }

Quat Sum(const Quat& a, const Quat& b) {
  Quat r;
  r.coeffs() = a.coeffs() + b.coeffs();
  return r;
}

}  // namespace

struct AttachmentDerivative::Pose {
  Vec3 origin, shift[2];  // common origin, minus each tree's own
  Vec3 p[2];              // anchors from the origin
  Mat3 R1;                // frame of the second end
  Quat e;                 // conj(q1) q0: rotation error
  double scale;           // torquescale
};

void AttachmentDerivative::Clear() {
  item_.clear();
  chain_.clear();
  moves_.clear();
}

AttachmentDerivative::Pose AttachmentDerivative::MakePose(const mjModel* model, const mjData* data, const Item& item) {
  const int id = data->efc_id[item.row];
  const mjtNum* prm = model->eq_data + mjNEQDATA * id;
  const int object[2] = {model->eq_obj1id[id], model->eq_obj2id[id]};
  const bool weld = item.rows == 6;
  Pose pose;
  pose.origin = TreeOrigin(model, data, LastDofOf(model, item.body[1]) >= 0 ? item.body[1] : item.body[0]);
  Quat q[2];
  for (int s = 0; s < 2; s++) {
    const int body = item.body[s];
    pose.shift[s] = LastDofOf(model, body) >= 0 ? Vec3(pose.origin - TreeOrigin(model, data, body)) : Vec3(Vec3::Zero());
    Vec3 world;
    q[s] = ToQuat(data->xquat + 4 * body);
    if (model->eq_objtype[id] == mjOBJ_BODY) {
      // connect keeps the anchor of body s at 3s, weld at 3(1−s); weld's relative pose belongs to the first body
      const mjtNum* anchor = prm + 3 * (weld ? 1 - s : s);
      world = Vec3Map(data->xpos + 3 * body) + ToQuat(data->xquat + 4 * body) * Vec3Map(anchor);
      if (weld && s == 0) q[s] = q[s] * ToQuat(prm + 6);
    } else {
      world = Vec3Map(data->site_xpos + 3 * object[s]);
      q[s] = q[s] * ToQuat(model->site_quat + 4 * object[s]);
    }
    pose.p[s] = world - pose.origin;
  }
  pose.R1 = q[1].toRotationMatrix();
  pose.e = q[1].conjugate() * q[0];
  pose.scale = weld ? prm[10] : 0;
  return pose;
}

void AttachmentDerivative::Add(const mjModel* model, const mjData* data, int row, std::vector<BodyConstraint>* body) {
  const int id = data->efc_id[row];
  Item item;
  item.row = row;
  item.rows = model->eq_type[id] == mjEQ_WELD ? 6 : 3;
  const bool bodies = model->eq_objtype[id] == mjOBJ_BODY;
  item.body[0] = bodies ? model->eq_obj1id[id] : model->site_bodyid[model->eq_obj1id[id]];
  item.body[1] = bodies ? model->eq_obj2id[id] : model->site_bodyid[model->eq_obj2id[id]];

  // union of both chains
  item.chain_start = static_cast<int>(chain_.size());
  int at[2] = {LastDofOf(model, item.body[0]), LastDofOf(model, item.body[1])};
  while (at[0] >= 0 || at[1] >= 0) {
    const int dof = std::max(at[0], at[1]);
    unsigned char moves = 0;
    for (int s = 0; s < 2; s++) {
      if (at[s] != dof) continue;
      moves |= 1 << s;
      at[s] = model->dof_parentid[dof];
    }
    chain_.push_back(dof);
    moves_.push_back(moves);
  }
  item.chain_count = static_cast<int>(chain_.size()) - item.chain_start;
  item_.push_back(item);

  // wrench on the first body, its opposite on the second, each about its own tree's origin
  const Pose pose = MakePose(model, data, item);
  const Vec3 f = Vec3Map(data->efc_force + row);
  Vec3 T = Vec3::Zero();
  if (item.rows == 6) T = 0.5 * pose.scale * (pose.R1 * Et(pose.e, Vec3Map(data->efc_force + row + 3)));
  for (int s = 0; s < 2; s++) {
    if (LastDofOf(model, item.body[s]) < 0) continue;
    Vec6 F;
    F << pose.p[s].cross(f) + T, f;
    BodyConstraint& own = (*body)[item.body[s]];
    own.F += (s == 0 ? 1.0 : -1.0) * WrenchAbout(F, -pose.shift[s]);
    own.active = true;
  }
}

void AttachmentDerivative::DeclareCouplings(TreeSolver* H) const {
  for (const Item& item : item_) H->Couple(chain_.data() + item.chain_start, item.chain_count);
}

void AttachmentDerivative::AddTo(const mjModel* model, const mjData* data, const TreeDerivative& tree, BlockedMatrix* R,
                                 TreeSolver* H) const {
  for (const Item& item : item_) AddItem(model, data, tree, item, R, H);
}

void AttachmentDerivative::AddItem(const mjModel* model, const mjData* data, const TreeDerivative& tree, const Item& item,
                                   BlockedMatrix* R, TreeSolver* H) const {
  const int nv = static_cast<int>(model->nv), n = item.chain_count, k = item.rows;
  const Pose pose = MakePose(model, data, item);
  const mjtNum* kbip = data->efc_KBIP + 4 * item.row;
  const double b = kbip[1], scale = pose.scale / 2;
  const Vec3 f = Vec3Map(data->efc_force + item.row);
  const Vec3 f_rot = k == 6 ? Vec3(Vec3Map(data->efc_force + item.row + 3)) : Vec3(Vec3::Zero());
  const Vec3 T = scale * (pose.R1 * Et(pose.e, f_rot));

  // row positions and their norm: all rows share one impedance; a connect's rows 3 to 5 stay zero
  Rows6 r = Rows6::Zero(), force = Rows6::Zero(), D = Rows6::Zero();
  for (int i = 0; i < k; i++) D(i) = data->efc_D[item.row + i];
  r.head<3>() = pose.p[0] - pose.p[1];
  r.tail<3>() = pose.scale * pose.e.vec();
  if (k == 3) r.tail<3>().setZero();
  force << f, f_rot;
  const double norm = r.norm(), g = kbip[3] / (kbip[2] * (1 - kbip[2]));
  const Rows6 unit = norm > 0 ? Rows6(r / norm) : Rows6(Rows6::Zero());

  // velocities and accelerations of both ends about the common origin
  Vec6 V[2], A[2];
  Vec3 point_velocity[2];
  for (int s = 0; s < 2; s++) {
    V[s] = MotionAbout(tree.velocity(item.body[s]), pose.shift[s]);
    A[s] = MotionAbout(tree.acceleration(item.body[s]), pose.shift[s]);
    point_velocity[s] = V[s].tail<3>() + V[s].head<3>().cross(pose.p[s]);
  }
  const Vec3 omega = V[0].head<3>() - V[1].head<3>(), omega1 = V[1].head<3>();
  const Vec3 alpha = A[0].head<3>() - A[1].head<3>();
  const Mat3 R1t = pose.R1.transpose();
  const Vec3 z = R1t * omega, zdot = R1t * (alpha - omega1.cross(omega));
  const Quat edot = HalfProduct(z, pose.e);

  work_.resize(static_cast<std::size_t>(4 * 6 + 6) * n);
  using Block = Eigen::Map<Eigen::Matrix<double, 6, Eigen::Dynamic>>;
  Block J(work_.data(), 6, n), dfq(work_.data() + 6 * n, 6, n), dfv(work_.data() + 12 * n, 6, n);
  Block moment(work_.data() + 18 * n, 6, n), rotation(work_.data() + 24 * n, 6, n);
  for (int m = 0; m < n; m++) {
    const int dof = chain_[item.chain_start + m];
    const unsigned char moves = moves_[item.chain_start + m];
    Vec3 dp[2], da[2], dav[2], dvp[2], Jp[2], theta[2], domega[2], domega_v[2], dalpha[2], dalpha_v[2];
    for (int s = 0; s < 2; s++) {
      dp[s].setZero(), da[s].setZero(), dav[s].setZero(), dvp[s].setZero(), Jp[s].setZero(), theta[s].setZero();
      domega[s].setZero(), domega_v[s].setZero(), dalpha[s].setZero(), dalpha_v[s].setZero();
      if (!(moves & (1 << s))) continue;

      // (W1) dV = S × (V − base), dA = S × (A − baseᴬ) + (base × S) × (V − base); by v: dV = S, dA = Ṡ + S × (V − base)
      const Vec6 S = MotionAbout(Vec6Map(data->cdof + 6 * dof), pose.shift[s]);
      const Vec6 base_v = MotionAbout(tree.base_velocity(dof), pose.shift[s]);
      const Vec6 base_a = MotionAbout(tree.base_acceleration(dof), pose.shift[s]);
      const Vec6 dV = CrossMotion(S, V[s] - base_v);
      const Vec6 dA = CrossMotion(S, A[s] - base_a) + CrossMotion(CrossMotion(base_v, S), V[s] - base_v);
      const Vec6 dAv = MotionAbout(tree.full_axis_rate(dof), pose.shift[s]) + dV;

      // (W2) a_p = A_lin + A_rot × p + ω × (V_lin + ω × p)
      const Vec3 p = pose.p[s], w = V[s].head<3>();
      dp[s] = S.tail<3>() + S.head<3>().cross(p);
      Jp[s] = dp[s];
      dvp[s] = dV.tail<3>() + dV.head<3>().cross(p) + w.cross(dp[s]);
      da[s] = dA.tail<3>() + dA.head<3>().cross(p) + A[s].head<3>().cross(dp[s]) + dV.head<3>().cross(point_velocity[s]) +
              w.cross(dvp[s]);
      dav[s] = dAv.tail<3>() + dAv.head<3>().cross(p) + S.head<3>().cross(point_velocity[s]) + w.cross(Jp[s]);
      theta[s] = S.head<3>();
      domega[s] = dV.head<3>();
      domega_v[s] = S.head<3>();
      dalpha[s] = dA.head<3>();
      dalpha_v[s] = dAv.head<3>();
    }

    // translation rows: y = a_p0 − a_p1 + b (v_p0 − v_p1) + k d r
    Rows6 dr = Rows6::Zero(), yq = Rows6::Zero(), yv = Rows6::Zero();
    dr.head<3>() = dp[0] - dp[1];
    yq.head<3>() = da[0] - da[1] + b * (dvp[0] - dvp[1]);
    yv.head<3>() = dav[0] - dav[1] + b * (Jp[0] - Jp[1]);
    J.col(m).setZero();
    J.col(m).head<3>() = Jp[0] - Jp[1];

    // rotation rows: y = (ts/2) (E ż + E(ė) z) + b (ts/2) E z + k d r  (W3)
    Vec3 dT = Vec3::Zero();
    if (k == 6) {
      const Vec3 turn = theta[0] - theta[1], dw = domega[0] - domega[1];
      const Quat de = HalfProduct(R1t * turn, pose.e);
      const Vec3 dz = R1t * (dw - theta[1].cross(omega));
      const Vec3 dzdot = R1t * (dalpha[0] - dalpha[1] - domega[1].cross(omega) - omega1.cross(dw) -
                                theta[1].cross(alpha - omega1.cross(omega)));
      const Quat dedot = Sum(HalfProduct(dz, pose.e), HalfProduct(z, de));
      dr.tail<3>() = pose.scale * de.vec();
      yq.tail<3>() = scale * (E(de, zdot) + E(pose.e, dzdot) + E(dedot, z) + E(edot, dz) + b * (E(de, z) + E(pose.e, dz)));
      const Vec3 dwv = domega_v[0] - domega_v[1], dzv = R1t * dwv;
      const Vec3 dzdot_v = R1t * (dalpha_v[0] - dalpha_v[1] - domega_v[1].cross(omega) - omega1.cross(dwv));
      yv.tail<3>() = scale * (E(pose.e, dzdot_v) + E(HalfProduct(dzv, pose.e), z) + E(edot, dzv) + b * E(pose.e, dzv));
      J.col(m).tail<3>() = scale * E(pose.e, dzv);
      dT = theta[1].cross(T) + scale * (pose.R1 * Et(de, f_rot));
    }

    // (C14) df = −D dy + f g d|r|, with ∂(k d(|r|) r) = k (d dr + d' r d|r|)
    const double dnorm = unit.dot(dr);
    yq += kbip[0] * (kbip[2] * dr + kbip[3] * r * dnorm);
    dfq.col(m) = force * g * dnorm - D.cwiseProduct(yq);
    dfv.col(m) = -D.cwiseProduct(yv);
    moment.col(m) << dp[0].cross(f) + dT, dp[1].cross(f) + dT;
    rotation.col(m) << theta[0], theta[1];
  }

  // R −= ∂r: forces that change along fixed axes, and arms and torque that move (the axes themselves: composites)
  for (int j = 0; j < n; j++) {
    const int row = chain_[item.chain_start + j];
    for (int m = 0; m < n; m++) {
      const int col = chain_[item.chain_start + m];
      (*R)(row, col) += J.col(j).dot(dfq.col(m)) + rotation.col(j).head<3>().dot(moment.col(m).head<3>()) -
                        rotation.col(j).tail<3>().dot(moment.col(m).tail<3>());
      (*R)(row, nv + col) += J.col(j).dot(dfv.col(m));
      if (col <= row) H->Add(row, col, J.col(j).dot(D.cwiseProduct(J.col(m))));
    }
  }
}

}  // namespace costate
