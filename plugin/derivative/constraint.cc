#include "derivative/constraint.h"

#include <algorithm>
#include <cmath>

#include <costate/model.h>

#include "derivative/equilibrium.h"

namespace costate {
namespace {

using MatXd = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, 0, 6, 7>;  // at most 6×7, on the stack
using VecXd = Eigen::Matrix<double, Eigen::Dynamic, 1, 0, 6, 1>;

// the same motion or field, or wrench, about another point: `shift` is new minus old
Vec6 MotionAbout(Vec6 s, const Vec3& shift) {
  s.tail<3>() += s.head<3>().cross(shift);
  return s;
}
Vec6 WrenchAbout(Vec6 f, const Vec3& shift) {
  f.head<3>() -= shift.cross(f.tail<3>());
  return f;
}

Vec3 Origin(const mjModel* model, const mjData* data, int body) {
  return Vec3Map(data->subtree_com + 3 * model->body_rootid[body]);
}

// last dof that moves a body; -1: static
int LastDof(const mjModel* model, int body) {
  const int weld = model->body_weldid[body];
  return model->body_dofnum[weld] ? model->body_dofadr[weld] + model->body_dofnum[weld] - 1 : -1;
}

// forces and their Hessian in the contact basis (n, t1, t2, spin, roll1, roll2), both cones: (C4)
struct ContactForce {
  VecXd f, b;  // force, damping of each row
  MatXd H;
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
      VecXd u = VecXd::Zero(dim);
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

ConstraintDerivative::ConstraintDerivative(const mjModel* model) : geometry_(model), body_(model->nbody) {}

bool ConstraintDerivative::Linearize(const mjModel* model, mjData* data, const TreeDerivative& tree, std::string* missing) {
  for (BodyConstraint& body : body_) {
    if (body.active) body = BodyConstraint();
  }
  any_body_ = false;
  pair_.clear();
  chain_.clear();
  chain_sign_.clear();
  row_.clear();
  row_dof_.clear();
  row_J_.clear();
  ball_.clear();

  remainder_.assign(data->nefc, 0);
  product_.clear();
  equality_.Clear();
  missing->clear();
  bool contacts = false;

  // D of every row then depends on the whole configuration
  const bool exact_diagonal = data->nefc > 0 && (model->opt.enableflags & mjENBL_DIAGEXACT);
  if (exact_diagonal) *missing = "diagexact: the exact diagonal of the constraint inertia moves with q";
  for (int row = 0; row < data->nefc; row++) {
    std::string why;
    if (data->efc_type[row] >= mjCNSTR_CONTACT_FRICTIONLESS) {
      contacts = true;
    } else if (exact_diagonal) {
      Leave(model, data, row, 1);
    } else if (data->efc_type[row] == mjCNSTR_EQUALITY && IsBodyEquality(model, data->efc_id[row])) {
      const int count = model->eq_type[data->efc_id[row]] == mjEQ_WELD ? 6 : 3;
      equality_.Add(model, data, row);
      KeepHessian(data, row, count);
      row += count - 1;
    } else if (!ScalarRow(model, data, row, &why)) {
      Leave(model, data, row, 1);
      if (missing->empty()) *missing = why;
    }
  }
  if (!equality_.empty()) {
    equality_.AddWrenches(model, data, &body_);
    any_body_ = true;
  }
  if (contacts && !exact_diagonal) geometry_.Compute(model, data, missing);
  for (int c = 0; c < data->ncon; c++) {
    const mjContact& contact = data->contact[c];
    if (contact.efc_address < 0) continue;
    const bool belt = mju_norm3(contact.surfacevel) != 0;
    if (belt && missing->empty()) {
      *missing = "surface velocity of the contact of " + ElementName(model, mjOBJ_GEOM, contact.geom[0]) + " and " +
                 ElementName(model, mjOBJ_GEOM, contact.geom[1]);
    }
    if (belt || exact_diagonal || !geometry_.has_motion(c)) {
      const bool pyramid = data->efc_type[contact.efc_address] == mjCNSTR_CONTACT_PYRAMIDAL;
      Leave(model, data, contact.efc_address, pyramid ? 2 * (contact.dim - 1) : contact.dim);
    } else {
      Contact(model, data, c, tree);
    }
  }
  return missing->empty();
}

// rows whose derivative is somebody else's
void ConstraintDerivative::Leave(const mjModel*, const mjData* data, int row, int count) {
  for (int i = row; i < row + count; i++) remainder_[i] = data->efc_state[i] != mjCNSTRSTATE_SATISFIED;
  KeepHessian(data, row, count);
}

// rows whose part of H is made from the engine's J
void ConstraintDerivative::KeepHessian(const mjData* data, int row, int count) {
  for (int i = row; i < row + count; i++) {
    const int state = data->efc_state[i];
    if (state == mjCNSTRSTATE_QUADRATIC) product_.push_back({i, i, data->efc_D[i]});
    for (int j = row; j < row + count && state == mjCNSTRSTATE_CONE; j++) {
      product_.push_back({i, j, data->contact[data->efc_id[i]].H[(i - row) * count + j - row]});
    }
  }
}

void ConstraintDerivative::AddFollower(const mjModel* model, const mjData* data, int body, const Vec3& point,
                                       const Vec6& wrench) {
  if (LastDof(model, body) < 0) return;
  const Vec6 W = WrenchAbout(wrench, Origin(model, data, body) - point);
  BodyConstraint& out = body_[body];
  for (int c = 0; c < 6; c++) out.K.col(c) += CrossForce(Vec6::Unit(c), W);
  out.F += W;
  out.active = any_body_ = true;
}

void ConstraintDerivative::Contact(const mjModel* model, const mjData* data, int c, const TreeDerivative& tree) {
  const mjContact& contact = data->contact[c];
  const ContactForce force = BasisForce(data, contact);
  if (!force.active) return;
  const int dim = contact.dim;
  const int body1 = model->geom_bodyid[contact.geom[0]], body2 = model->geom_bodyid[contact.geom[1]];
  const bool moves1 = LastDof(model, body1) >= 0, moves2 = LastDof(model, body2) >= 0;

  // relative fields, body 2 minus body 1, about one origin
  const Vec3 origin = Origin(model, data, moves2 ? body2 : body1);
  const Vec3 shift1 = moves1 ? Vec3(origin - Origin(model, data, body1)) : Vec3(Vec3::Zero());
  const Vec3 p = Vec3Map(contact.pos) - origin;
  const Vec6 Ua = tree.acceleration_field(body2) - MotionAbout(tree.acceleration_field(body1), shift1);
  const Vec6 Uv = tree.velocity(body2) - MotionAbout(tree.velocity(body1), shift1);
  const Vec3 ua = Ua.tail<3>() + Ua.head<3>().cross(p), uv = Uv.tail<3>() + Uv.head<3>().cross(p);
  const Mat3 R = Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>(contact.frame);

  // (C7) y by (dφ, dp, Ω): rows (n, t1, t2, spin, roll1, roll2); velocities count with each row's own damping
  auto by_geometry = [&](const Vec3& rot, const Vec3& lin) {
    Eigen::Matrix<double, 6, 7> Y = Eigen::Matrix<double, 6, 7>::Zero();
    const Mat3 turned = R * Skew(rot);
    Y.block<3, 3>(0, 1) = turned;
    Y.block<3, 3>(0, 4) = R * Skew(lin);
    Y.block<3, 3>(3, 4) = turned;
    return Y;
  };
  MatXd Y = by_geometry(Ua.head<3>(), ua).topRows(dim);
  Y += force.b.asDiagonal() * by_geometry(Uv.head<3>(), uv).topRows(dim);
  Y(0, 0) += force.kappa;

  // df_c = −H_c dy + f_c g dφ, then (C9) the wrench (moment; force) on body 2 about the origin
  MatXd df_c = -force.H * Y;
  df_c.col(0) += force.f * force.g;
  Eigen::Matrix<double, 6, 7> df = Eigen::Matrix<double, 6, 7>::Zero();
  df.topRows(dim) = df_c;
  Vec6 f_c = Vec6::Zero();
  f_c.head(dim) = force.f;
  const Vec3 f = R.transpose() * f_c.head<3>(), torque = R.transpose() * f_c.tail<3>();
  Eigen::Matrix<double, 6, 7> L;
  L.bottomRows<3>() = R.transpose() * df.topRows<3>();
  L.block<3, 3>(3, 4) -= Skew(f);
  L.topRows<3>() = Skew(p) * L.bottomRows<3>() + R.transpose() * df.bottomRows<3>();
  L.block<3, 3>(0, 1) -= Skew(f);
  L.block<3, 3>(0, 4) -= Skew(torque);

  // W: twist about the origin → contact basis; geometry by twists about the origin
  Eigen::Matrix<double, 6, 6> full = Mat6::Zero();
  full.topRightCorner<3, 3>() = R;
  full.topLeftCorner<3, 3>() = -R * Skew(p);
  full.bottomLeftCorner<3, 3>() = R;
  const MatXd W = full.topRows(dim);
  Mat6 about = Mat6::Identity();
  about.bottomLeftCorner<3, 3>() = -Skew(p);
  const ContactMotion& motion = geometry_.motion(c);
  const MatXd HW = force.H * W, HBW = force.H * force.b.asDiagonal() * W;
  const Mat6 HH = W.transpose() * HW, Kv = W.transpose() * HBW;
  Vec6 F;
  F << p.cross(f) + torque, f;

  if (!moves1 || !moves2) {
    // one body against the static world; on body 1 force and motion change sign together
    BodyConstraint& body = body_[moves2 ? body2 : body1];
    const ContactMatrix G = (moves2 ? motion.by_geom2 : ContactMatrix(-motion.by_geom1())) * about;
    body.K += L * G;
    body.HH += HH;
    body.Kv += Kv;
    body.F += moves2 ? F : Vec6(-F);
    body.active = any_body_ = true;
    return;
  }

  Pair* pair = FindPair(model, body1, body2);
  pair->K1 += L * motion.by_geom1() * about;
  pair->K2 += L * motion.by_geom2 * about;
  pair->Krig += L * motion.by_both * about;
  pair->HH += HH;
  pair->Kv += Kv;
  body_[body2].F += F;
  body_[body1].F -= WrenchAbout(F, -shift1);
  body_[body1].active = body_[body2].active = any_body_ = true;
}

ConstraintDerivative::Pair* ConstraintDerivative::FindPair(const mjModel* model, int body1, int body2) {
  for (Pair& pair : pair_) {
    if (pair.body1 == body1 && pair.body2 == body2) return &pair;
  }
  Pair pair{body1, body2, Mat6::Zero(), Mat6::Zero(), Mat6::Zero(), Mat6::Zero(), Mat6::Zero(), 0, 0, -1};
  pair.chain_start = static_cast<int>(chain_.size());

  // climb both chains, always from the larger dof, until they meet
  int i = LastDof(model, body1), j = LastDof(model, body2);
  while (i != j) {
    const bool first = i > j;
    int& at = first ? i : j;
    chain_.push_back(at);
    chain_sign_.push_back(first ? -1 : 1);
    at = model->dof_parentid[at];
  }
  pair.common = i;
  pair.chain_count = static_cast<int>(chain_.size()) - pair.chain_start;
  pair_.push_back(pair);
  return &pair_.back();
}

bool ConstraintDerivative::ScalarRow(const mjModel* model, const mjData* data, int row, std::string* missing) {
  const int type = data->efc_type[row], id = data->efc_id[row];
  auto refuse = [&](int object, const char* what) {
    *missing = std::string(what) + " of " + ElementName(model, object, id);
    return false;
  };
  auto spatial = [&](int tendon) { return model->tendon_type[tendon] != mjTENDON_FIXED; };
  Row out{};
  out.curved_dof = -1;

  // only rows whose Jacobian is constant, or linear in one joint, have a closed form here
  if (type == mjCNSTR_EQUALITY) {
    const mjtNum* poly = model->eq_data + mjNEQDATA * id;
    const int object1 = model->eq_obj1id[id], object2 = model->eq_obj2id[id];
    if (model->eq_type[id] == mjEQ_JOINT) {
      if (object2 >= 0) {
        const int address = model->jnt_qposadr[object2];
        const double x = data->qpos[address] - model->qpos0[address];
        out.curved_dof = model->jnt_dofadr[object2];
        out.curved_dJ = -(2 * poly[2] + 6 * poly[3] * x + 12 * poly[4] * x * x);
      }
    } else if (model->eq_type[id] == mjEQ_TENDON) {
      const bool curved = object2 >= 0 && (poly[2] != 0 || poly[3] != 0 || poly[4] != 0);
      if (spatial(object1) || (object2 >= 0 && spatial(object2)) || curved) return refuse(mjOBJ_EQUALITY, "tendon equality");
    } else {
      return refuse(mjOBJ_EQUALITY, model->eq_type[id] == mjEQ_CONNECT ? "connect" : model->eq_type[id] == mjEQ_WELD ? "weld" : "equality");
    }
  } else if (type == mjCNSTR_FRICTION_TENDON) {
    if (spatial(id)) return refuse(mjOBJ_TENDON, "friction loss of a spatial tendon:");
  } else if (type == mjCNSTR_LIMIT_TENDON) {
    if (spatial(id)) return refuse(mjOBJ_TENDON, "limit of a spatial tendon:");
  }
  if (data->efc_state[row] != mjCNSTRSTATE_QUADRATIC) return true;
  if (type == mjCNSTR_LIMIT_JOINT && model->jnt_type[id] == mjJNT_BALL) ball_.push_back(MakeBallLimit(model, data, row));

  // entries of J
  out.start = static_cast<int>(row_dof_.size());
  if (mj_isSparse(model)) {
    const int begin = data->efc_J_rowadr[row], end = begin + data->efc_J_rownnz[row];
    for (int n = begin; n < end; n++) {
      if (data->efc_J[n] == 0) continue;
      row_dof_.push_back(data->efc_J_colind[n]);
      row_J_.push_back(data->efc_J[n]);
    }
  } else {
    for (int j = 0; j < model->nv; j++) {
      const double J = data->efc_J[row * model->nv + j];
      if (J == 0) continue;
      row_dof_.push_back(j);
      row_J_.push_back(J);
    }
  }
  out.count = static_cast<int>(row_dof_.size()) - out.start;

  // (C11) ∂r/∂q = JᵀJ (D κ − f g), ∂r/∂v = JᵀJ D b, H = JᵀJ D; friction rows have no position
  const mjtNum* kbip = data->efc_KBIP + 4 * row;
  out.D = out.h = data->efc_D[row];
  out.force = data->efc_force[row];
  out.v = out.D * kbip[1];
  if (type != mjCNSTR_FRICTION_DOF && type != mjCNSTR_FRICTION_TENDON) {
    const double kappa = kbip[0] * (kbip[2] + kbip[3] * (data->efc_pos[row] - data->efc_margin[row]));
    out.q = out.D * kappa - out.force * kbip[3] / (kbip[2] * (1 - kbip[2]));
  }
  if (out.curved_dof >= 0) out.rate = data->qacc[out.curved_dof] + kbip[1] * data->qvel[out.curved_dof];
  row_.push_back(out);
  return true;
}

// (C17) G = [ (θ/2) cot(θ/2) (1 − a aᵀ) + (θ/2) [a]× ] / θ
ConstraintDerivative::BallLimit ConstraintDerivative::MakeBallLimit(const mjModel* model, const mjData* data, int row) const {
  const int joint = data->efc_id[row], dof = model->jnt_dofadr[joint];
  mjtNum quat[4];
  mju_copy4(quat, data->qpos + model->jnt_qposadr[joint]);
  mju_normalize4(quat);
  Vec3 turn;
  mju_quat2Vel(turn.data(), quat, 1);
  const double angle = std::max(mjMINVAL, turn.norm()), half = angle / 2;
  BallLimit ball;
  ball.dof = dof;
  ball.force = data->efc_force[row];
  ball.D = data->efc_D[row];
  ball.axis = turn / angle;
  ball.rate = Vec3Map(data->qacc + dof) + data->efc_KBIP[4 * row + 1] * Vec3Map(data->qvel + dof);
  ball.G = (half / std::tan(half) * (Mat3::Identity() - ball.axis * ball.axis.transpose()) + half * Skew(ball.axis)) / angle;
  return ball;
}

void ConstraintDerivative::DeclareCouplings(const mjModel* model, const mjData* data, TreeSolver* H) const {
  H->BeginCouplings();
  std::vector<int> dofs;
  for (const Product& product : product_) {
    if (product.row != product.col) continue;
    dofs.clear();
    ForJacobianRow(model, data, product.row, [&](int dof, double) { dofs.push_back(dof); });
    H->Couple(dofs.data(), static_cast<int>(dofs.size()));
  }
  for (const Pair& pair : pair_) H->Couple(chain_.data() + pair.chain_start, pair.chain_count);
  for (const Row& row : row_) {
    if (row.count > 1) H->Couple(row_dof_.data() + row.start, row.count);
  }
  H->EndCouplings();
}

void ConstraintDerivative::AddPairsAndRows(const mjModel* model, const mjData* data, const TreeDerivative& tree,
                                           BlockedMatrix* R, TreeSolver* H) const {
  const int nv = static_cast<int>(model->nv);

  for (const Product& product : product_) {
    ForJacobianRow(model, data, product.row, [&](int i, double Ji) {
      ForJacobianRow(model, data, product.col, [&](int j, double Jj) {
        if (j <= i && Ji * Jj != 0) H->Add(i, j, product.factor * Ji * Jj);
      });
    });
  }

  // (C11), (C13)
  for (const Row& row : row_) {
    const int* dof = row_dof_.data() + row.start;
    const double* J = row_J_.data() + row.start;
    for (int a = 0; a < row.count; a++) {
      for (int b = 0; b < row.count; b++) {
        const double JJ = J[a] * J[b];
        (*R)(dof[a], dof[b]) -= JJ * row.q;
        (*R)(dof[a], nv + dof[b]) -= JJ * row.v;
        if (dof[b] <= dof[a]) H->Add(dof[a], dof[b], JJ * row.h);
      }
      if (row.curved_dof >= 0) (*R)(dof[a], row.curved_dof) -= J[a] * row.D * row.curved_dJ * row.rate;
    }
    if (row.curved_dof >= 0) (*R)(row.curved_dof, row.curved_dof) += row.curved_dJ * row.force;
  }

  equality_.AddColumns(model, data, tree, R);

  // (C17) Jᵀ turns at fixed f, and J turns in y
  for (const BallLimit& ball : ball_) {
    const Mat3 block = -ball.force * ball.G - ball.axis * (ball.D * ball.rate.transpose() * ball.G);
    for (int i = 0; i < 3; i++) {
      for (int j = 0; j < 3; j++) (*R)(ball.dof + i, ball.dof + j) += block(i, j);
    }
  }

  // (C9), (C10) bodies that both move: rows are dofs that move one of them, columns those and the common ones
  for (const Pair& pair : pair_) {
    const int* chain = chain_.data() + pair.chain_start;
    const signed char* sign = chain_sign_.data() + pair.chain_start;
    const Vec3 origin = Origin(model, data, pair.body2), shift1 = origin - Origin(model, data, pair.body1);
    const Vec6 Va[2] = {MotionAbout(tree.acceleration_field(pair.body1), shift1), tree.acceleration_field(pair.body2)};
    const Vec6 Vv[2] = {MotionAbout(tree.velocity(pair.body1), shift1), tree.velocity(pair.body2)};
    auto axis = [&](int n) {
      const Vec6 S = Vec6Map(data->cdof + 6 * chain[n]);
      return sign[n] < 0 ? MotionAbout(S, shift1) : S;
    };

    auto add_column = [&](int m, const Vec6& dFq, const Vec6& dFv, const Vec6& dFa, int column) {
      for (int n = 0; n < pair.chain_count; n++) {
        const Vec6 S = sign[n] * axis(n);
        (*R)(chain[n], m) += S.dot(dFq);
        if (column < 0) continue;
        (*R)(chain[n], nv + m) += S.dot(dFv);
        if (chain[n] >= m) H->Add(chain[n], m, S.dot(dFa));
      }
    };
    for (int n = 0; n < pair.chain_count; n++) {
      const int m = chain[n], side = sign[n] > 0;
      const Vec6 S = axis(n);
      const Vec3 shift = side ? Vec3(Vec3::Zero()) : shift1;
      const Vec6 dUa = sign[n] * (CrossMotion(S, Va[side]) - MotionAbout(tree.axis_field(m), shift));
      const Vec6 dUv = sign[n] * (CrossMotion(S, Vv[side]) + MotionAbout(tree.axis_rate(m), shift));
      const Vec6 dFq = (side ? pair.K2 : pair.K1) * S - pair.HH * dUa - pair.Kv * dUv;
      add_column(m, dFq, -sign[n] * (pair.Kv * S), sign[n] * (pair.HH * S), n);
    }
    for (int m = pair.common; m >= 0; m = model->dof_parentid[m]) {
      const Vec6 S = Vec6Map(data->cdof + 6 * m);
      const Vec6 dFq = pair.Krig * S - pair.HH * CrossMotion(S, Va[1] - Va[0]) - pair.Kv * CrossMotion(S, Vv[1] - Vv[0]);
      add_column(m, dFq, Vec6::Zero(), Vec6::Zero(), -1);
    }
  }
}

}  // namespace costate
