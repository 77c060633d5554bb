#include "derivative/contact_block.h"

#include "derivative/impedance.h"
#include "derivative/plant.h"
#include "derivative/spatial_lanes.h"

namespace costate {

namespace {

// forces and their Hessian in the contact basis (n, t1, t2, spin, roll1, roll2), both cones: (C4)
template <int dim>
struct ContactForce {
  Eigen::Matrix<double, dim, 1> f, b;  // force, damping of each row
  Eigen::Matrix<double, dim, dim> H;
  double kappa, g;  // (C7), (C8)
};

template <int dim>
bool BasisForce(const mjData* data, const mjContact& contact, ContactForce<dim>* out) {
  const int row = contact.efc_address;
  const mjtNum* kbip = data->efc_KBIP + 4 * row;
  out->f.setZero();
  out->b.setConstant(kbip[1]);
  out->H.setZero();
  const ContactStiffness stiffness(data, contact);
  out->kappa = stiffness.kappa;
  out->g = stiffness.gain;
  const bool pyramid = data->efc_type[row] == mjCNSTR_CONTACT_PYRAMIDAL;
  if (pyramid) {
    // edges u = e_0 ± μ_k e_k
    bool active = false;
    for (int edge = 0; edge < 2 * (dim - 1); edge++) {
      if (data->efc_state[row + edge] != mjCNSTRSTATE_QUADRATIC) continue;
      const int k = edge / 2 + 1;
      const double D = data->efc_D[row + edge], f = data->efc_force[row + edge];
      const double mu = edge % 2 ? -contact.friction[k - 1] : contact.friction[k - 1];
      out->H(0, 0) += PLANT("contact: pyramid, normal", D);
      out->H(0, k) += PLANT("contact: pyramid", D * mu);
      out->H(k, 0) += D * mu;
      out->H(k, k) += PLANT("contact: pyramid, tangents", D * mu * mu);
      out->f(0) += f;
      out->f(k) += PLANT("contact: pyramid, force", f * mu);
      active = true;
    }
    return active;
  }

  if (data->efc_state[row] == mjCNSTRSTATE_SATISFIED) return false;
  for (int i = 0; i < dim; i++) {
    out->f(i) = data->efc_force[row + i];
    out->b(i) = data->efc_KBIP[4 * (row + i) + 1];
    if (data->efc_state[row] == mjCNSTRSTATE_QUADRATIC)
      out->H(i, i) = PLANT("contact: elliptic, inner zone", data->efc_D[row + i]);
  }
  if (data->efc_state[row] == mjCNSTRSTATE_CONE)
    out->H = PLANT("contact: elliptic, middle zone", Eigen::Map<const Eigen::Matrix<double, dim, dim>>(contact.H));
  return true;
}

// columns of y and of what follows from it, side by side
enum { kGeometry = 0, kAcceleration = 7, kVelocity = 13, kBelt = 19, kColumns = 22, kStride = 24 };

// rows of the basis, each of kColumns numbers and some that nobody reads
struct alignas(64) BasisRows {
  double at[6 * kStride];
};

// four and two numbers of a row or a column of six
struct Six {
  Double4 begin;
  LooseDouble2 end;
};
COSTATE_LANES Six LoadSix(const double* p) { return {LoadLanes(p), *reinterpret_cast<const LooseDouble2*>(p + 4)}; }

// df = −H_c dy + f g dφ, then (C9) the wrench Wᵀ df, by columns; the rows of W are the acceleration's columns of y
template <int dim>
COSTATE_LANES void MultiplyRows(const double* H, const double* f, double g, const BasisRows& Y, BasisRows* HY,
                                ContactBlock* out) {
  const Double8 sign = {-1, -1, -1, -1, -1, -1, -1, 1};
  for (int i = 0; i < dim; i++) {
    const double impedance = PLANT("contact: force by impedance", f[i] * g);
    for (int part = 0; part < kStride / 8; part++) {
      Double8 sum = {};
      for (int k = 0; k < dim; k++) {
        sum += H[k * dim + i] * *reinterpret_cast<const Double8*>(Y.at + k * kStride + 8 * part);
      }
      if (part == 0) sum = sign * sum + Double8{impedance};
      *reinterpret_cast<Double8*>(HY->at + i * kStride + 8 * part) = sum;
    }
  }

  Six W[dim], F = {};
  for (int k = 0; k < dim; k++) {
    W[k] = LoadSix(Y.at + k * kStride + kAcceleration);
    F.begin += f[k] * W[k].begin;
    F.end += f[k] * W[k].end;
  }
  const auto store = [](const Six& x, double* to) __attribute__((always_inline)) {
    *reinterpret_cast<LooseDouble4*>(to) = x.begin;
    *reinterpret_cast<LooseDouble2*>(to + 4) = x.end;
  };
  const auto columns = [&](int first, int count, double factor, double* to) __attribute__((always_inline)) {
    for (int c = 0; c < count; c++) {
      Six sum = {};
      for (int k = 0; k < dim; k++) {
        const double df = factor * HY->at[k * kStride + first + c];
        sum.begin += df * W[k].begin;
        sum.end += df * W[k].end;
      }
      store(sum, to + 6 * c);
    }
  };
  store(F, out->F.data());
  columns(kGeometry, 7, 1, out->F_by_geometry.data());
  columns(kAcceleration, 6, 1, out->F_by_a.data());
  columns(kVelocity, 6, 1, out->F_by_v.data());
  columns(kBelt, 3, -1, out->F_by_belt.data());
}

COSTATE_SIMD void Multiply(int dim, const double* H, const double* f, double g, const BasisRows& Y, BasisRows* HY,
                           ContactBlock* out) {
  switch (dim) {
    case 1: return MultiplyRows<1>(H, f, g, Y, HY, out);
    case 3: return MultiplyRows<3>(H, f, g, Y, HY, out);
    case 4: return MultiplyRows<4>(H, f, g, Y, HY, out);
    default: MultiplyRows<6>(H, f, g, Y, HY, out);
  }
}

// the wrench by a twist about the origin
COSTATE_SIMD void MultiplyTwist(const ContactBlock& block, const ContactMatrix& G,
                                const Eigen::Matrix<double, 3, 6>* surface, Mat6* K) {
  const double *F = block.F_by_geometry.data(), *belt = block.F_by_belt.data(), *about = block.about.data();
  Six column[6];
  for (int c = 5; c >= 0; c--) {
    Six sum = {};
    const auto add = [&](double factor, const Six& x) __attribute__((always_inline)) {
      sum.begin += factor * x.begin;
      sum.end += factor * x.end;
    };
    for (int k = 0; k < 7; k++) add(PLANT("contact: geometry", G.data()[6 * k + c]), LoadSix(F + 6 * k));
    for (int k = 0; k < 3 && surface; k++) add(surface->data()[3 * c + k], LoadSix(belt + 6 * k));
    for (int k = 3; k < 6 && c < 3; k++) add(about[6 * c + k], column[k]);
    column[c] = sum;
    *reinterpret_cast<LooseDouble4*>(K->data() + 6 * c) = sum.begin;
    *reinterpret_cast<LooseDouble2*>(K->data() + 6 * c + 4) = sum.end;
  }
}

}  // namespace

Mat6 ContactBlock::ByTwist(const ContactMatrix& G, const Eigen::Matrix<double, 3, 6>* surface) const {
  Mat6 K;
  MultiplyTwist(*this, G, surface, &K);
  return K;
}

ContactStiffness::ContactStiffness(const mjData* data, const mjContact& contact) {
  const int row = contact.efc_address;
  const mjtNum* kbip = data->efc_KBIP + 4 * row;
  kappa = PLANT("contact: stiffness", kbip[0] * (kbip[2] + kbip[3] * (contact.dist - contact.includemargin)));
  gain = PLANT("contact: impedance", ImpedanceGain(data, row));

  // adhesion: aref += R delta, and R falls as D grows
  const bool pyramid = data->efc_type[row] == mjCNSTR_CONTACT_PYRAMIDAL;
  kappa +=
      PLANT("contact: adhesion", data->efc_R[row] * gain * contact.adhesion / (pyramid ? 2 * (contact.dim - 1) : 1));
}

template <int dim>
bool ContactBlock::FillForces(const mjData* data, const TreeDerivative& tree, const mjContact& contact, bool rows) {
  ContactForce<dim> force;
  if (!BasisForce<dim>(data, contact, &force)) return false;
  constexpr int kLinear = dim < 3 ? dim : 3;

  // relative fields, body 2 minus body 1, about one origin
  const Vec3 p = Vec3Map(contact.pos) - origin;
  const Vec6 Ua = tree.acceleration_field(body[1]) - MotionAbout(tree.acceleration_field(body[0]), shift1);
  const Vec6 Uv = tree.velocity(body[1]) - MotionAbout(tree.velocity(body[0]), shift1);
  const Vec3 ua = MotionAt(Ua, p), uv = MotionAt(Uv, p);

  // (C7) y by (dφ, dp, Ω), velocities with each row's own damping; W: twist about the origin →
  // contact basis. All of them side by side, since the same two products follow
  BasisRows y, hy;
  Eigen::Map<Eigen::Matrix<double, dim, kStride, Eigen::RowMajor>> Y(y.at), HY(hy.at);
  Y.setZero();
  Y(0, 0) = force.kappa;
  for (int i = 0; i < dim; i++) {
    const Vec3 axis = Vec3Map(contact.frame + 3 * (i % 3));
    const Vec3 turned = PLANT("contact: turning rows", axis.cross(Ua.head<3>() + force.b(i) * Uv.head<3>()));
    if (i < 3) {
      Y.template block<1, 3>(i, 1) = turned;
      Y.template block<1, 3>(i, 4) = PLANT("contact: moving point", axis.cross(ua + force.b(i) * uv));
      Y.template block<1, 3>(i, kAcceleration) = PLANT("contact: arm", p.cross(axis));
      Y.template block<1, 3>(i, kAcceleration + 3) = axis;
    } else {
      Y.template block<1, 3>(i, 4) = turned;
      Y.template block<1, 3>(i, kAcceleration) = axis;
    }
    Y.template block<1, 6>(i, kVelocity) =
        PLANT("contact: damping", force.b(i) * Y.template block<1, 6>(i, kAcceleration));
    if (i > 0 && i < 4) Y(i, kBelt + i - 1) = PLANT("contact: belt", force.b(i));
  }

  Multiply(dim, force.H.data(), force.f.data(), force.g, y, &hy, this);

  // the force and torque move and turn with the contact
  Vec3 push = Vec3::Zero(), torque = Vec3::Zero();
  for (int i = 0; i < kLinear; i++) push += force.f(i) * Vec3Map(contact.frame + 3 * i);
  for (int i = 3; i < dim; i++) torque += force.f(i) * Vec3Map(contact.frame + 3 * (i - 3));
  const Mat3 push_cross = Skew(push);
  F_by_geometry.template block<3, 3>(0, 1) -= PLANT("contact: moving force", push_cross);
  F_by_geometry.template block<3, 3>(0, 4) -= PLANT("contact: turning torque", Skew(torque) + Skew(p) * push_cross);
  F_by_geometry.template block<3, 3>(3, 4) -= PLANT("contact: turning force", push_cross);
  if (rows) {
    f.setZero();
    f.head<dim>() = force.f;
    f_by_geometry = HY.template leftCols<7>();
    f_by_a = HY.template middleCols<6>(kAcceleration);
    f_by_v = HY.template middleCols<6>(kVelocity);
    f_by_belt = -HY.template middleCols<3>(kBelt);
  }
  return true;
}

void ContactBlock::Place(const mjModel* model, const mjData* data, const mjContact& contact) {
  for (int side = 0; side < 2; side++) {
    body[side] = model->geom_bodyid[contact.geom[side]];
    moves[side] = LastDof(model, body[side]) >= 0;
  }
  origin = Origin(model, data, body[moves[1] ? 1 : 0]);
  shift1 = moves[0] ? Vec3(origin - Origin(model, data, body[0])) : Vec3(Vec3::Zero());
  about.setIdentity();
  about.bottomLeftCorner<3, 3>() = -Skew(Vec3Map(contact.pos) - origin);
}

void ContactBlock::FillPull(const mjModel* model, const mjData* data, const mjContact& contact, double pull) {
  Place(model, data, contact);
  f.setZero();
  F.setZero();
  f_by_geometry.setZero(contact.dim, 7);
  for (ContactRows* rows : {&f_by_a, &f_by_v}) rows->setZero(contact.dim, 6);
  f_by_belt.setZero(contact.dim, 3);
  F_by_geometry.setZero();
  F_by_a.setZero();
  F_by_v.setZero();
  F_by_belt.setZero();
  AddPull(contact, pull);
}

void ContactBlock::AddPull(const mjContact& contact, double pull) {
  const Vec3 p = Vec3Map(contact.pos) - origin, push = PLANT("adhesion: pull", -pull * Vec3Map(contact.frame));
  f[0] -= pull;
  F.head<3>() += p.cross(push);
  F.tail<3>() += push;

  // (C9) at a constant force: it moves and turns with the contact
  const Mat3 push_cross = Skew(push);
  F_by_geometry.block<3, 3>(0, 1) -= PLANT("adhesion: moving pull", push_cross);
  F_by_geometry.block<3, 3>(0, 4) -= PLANT("adhesion: turning moment", Skew(p) * push_cross);
  F_by_geometry.block<3, 3>(3, 4) -= PLANT("adhesion: turning pull", push_cross);
}

bool ContactBlock::Fill(const mjModel* model, const mjData* data, const TreeDerivative& tree, const mjContact& contact,
                        bool rows) {
  Place(model, data, contact);
  switch (contact.dim) {
    case 1: return FillForces<1>(data, tree, contact, rows);
    case 3: return FillForces<3>(data, tree, contact, rows);
    case 4: return FillForces<4>(data, tree, contact, rows);
    default: return FillForces<6>(data, tree, contact, rows);
  }
}

}  // namespace costate
