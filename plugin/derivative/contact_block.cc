#include "derivative/contact_block.h"

#include "derivative/hardest_rows.h"
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
};

template <int dim>
bool BasisForce(const mjModel* model, const mjData* data, const mjContact& contact, ContactForce<dim>* out) {
  const int row = contact.efc_address;
  out->f.setZero();
  out->b.setConstant(RowLawOf(model, data, row).damping);
  out->H.setZero();
  const bool pyramid = data->efc_type[row] == mjCNSTR_CONTACT_PYRAMIDAL;
  if (pyramid) {
    // edges u = e_0 ± μ_k e_k
    bool active = false;
    const double share = NormalShare(data, row);
    for (int edge = 0; edge < 2 * (dim - 1); edge++) {
      if (data->efc_state[row + edge] != mjCNSTRSTATE_QUADRATIC) continue;
      const int k = edge / 2 + 1;
      const double D = data->efc_D[row + edge] / share, f = data->efc_force[row + edge];
      const double mu = edge % 2 ? -contact.friction[k - 1] : contact.friction[k - 1];
      out->H(0, 0) += PLANT("contact: pyramid, normal", D);
      out->H(0, k) += PLANT("contact: pyramid", D * mu);
      out->H(k, 0) += D * mu;
      out->H(k, k) += PLANT("contact: pyramid, tangents", D * mu * mu);
      out->f(0) += f;
      out->f(k) += PLANT("contact: pyramid, force", f * mu);
      active = true;
    }
    if (active && share < 1) SoftenNormal(share, &out->H);
    return active;
  }

  if (data->efc_state[row] == mjCNSTRSTATE_SATISFIED) return false;
  for (int i = 0; i < dim; i++) {
    out->f(i) = data->efc_force[row + i];
    if (i > 0) out->b(i) = RowLawOf(model, data, row + i).damping;
    if (data->efc_state[row] == mjCNSTRSTATE_QUADRATIC)
      out->H(i, i) = PLANT("contact: elliptic, inner zone", data->efc_D[row + i]);
  }
  if (data->efc_state[row] == mjCNSTRSTATE_CONE)
    out->H = PLANT("contact: elliptic, middle zone", Eigen::Map<const Eigen::Matrix<double, dim, dim>>(contact.H));
  return true;
}

template <int dim>
bool CopyForces(const mjModel* model, const mjData* data, const mjContact& contact, BasisForces* out) {
  ContactForce<dim> force;
  if (!BasisForce<dim>(model, data, contact, &force)) return false;
  for (int i = 0; i < dim; i++) {
    out->f[i] = force.f(i);
    out->b[i] = force.b(i);
    for (int j = 0; j < dim; j++) out->H[i][j] = force.H(i, j);
  }
  return true;
}

// columns of df, side by side
enum { kGeometry = 0, kAcceleration = 7, kVelocity = 13, kBelt = 19, kStride = 24 };

// rows of the basis, of these columns and some that nobody reads
struct alignas(32) BasisRows {
  double at[6 * kStride];
};

// four and two numbers of a row or a column of six
struct Six {
  Double4 begin;
  LooseDouble2 end;

  explicit COSTATE_LANES Six(const Lanes6& x = Lanes6::Zero())
      : begin(__builtin_shufflevector(x.a, x.l, 0, 1, 2, 4)), end(__builtin_shufflevector(x.l, x.l, 1, 2)) {}
  explicit COSTATE_LANES Six(const double* p)
      : begin(LoadLanes(p)), end(*reinterpret_cast<const LooseDouble2*>(p + 4)) {}
  COSTATE_LANES void Store(double* to) const {
    *reinterpret_cast<LooseDouble4*>(to) = begin;
    *reinterpret_cast<LooseDouble2*>(to + 4) = end;
  }
  COSTATE_LANES void Add(double factor, const Six& x) {
    begin += factor * x.begin;
    end += factor * x.end;
  }
};

// what a contact's block is made of: the numbers of its ContactForce, its place and the fields of its bodies
struct BasisPoint {
  const double *f, *b, *H, *kappa;
  double gain;
  const mjContact& contact;
  const TreeDerivative::Field &first, &second;
};

// (C7) y, df = −H_c dy + f g dφ, then (C9) the wrench Wᵀ df, all columns side by side
template <int dim>
COSTATE_LANES void FillColumns(const BasisPoint& at, BasisRows* df, ContactBlock* out) {
  // relative fields, body 2 minus body 1, about one origin, and at the contact point p
  const auto load = [](const double* x) __attribute__((always_inline)) { return Double4{x[0], x[1], x[2], 0}; };
  const Double4 p = load(at.contact.pos) - load(out->origin.data()), shift1 = load(out->shift1.data());
  const Lanes6 Ua = at.second.va - MotionAbout(at.first.va, shift1), Uv = at.second.v - MotionAbout(at.first.v, shift1);
  const Double4 ua = Ua.l + CrossLanes(Ua.a, p), uv = Uv.l + CrossLanes(Uv.a, p);

  // y by (dφ, dp, Ω), by dUᵃ, by dUᵛ with each row's own damping and by β; W: twist about the origin → contact basis
  Double4 y[dim][kStride / 4], push = {}, torque = {};
  Six W[dim], F;
  for (int i = 0; i < dim; i++) {
    const double b = at.b[i];
    const Double4 axis = LoadLanes(at.contact.frame + 3 * (i % 3)), none = {};
    const Double4 turned = PLANT("contact: turning rows", CrossLanes(axis, Ua.a + b * Uv.a));
    const Double4 moved = PLANT("contact: moving point", CrossLanes(axis, ua + b * uv));
    const Double4 arm = PLANT("contact: arm", CrossLanes(p, axis));
    const bool linear = i < 3;
    const Lanes6 w = linear ? Lanes6{arm, axis} : Lanes6{axis, none};
    const Lanes6 by_v = PLANT("contact: damping", b * w);
    const double slip = PLANT("contact: belt", b);
    const Double4 normal = {at.kappa[i]}, belt = {i == 1 ? slip : 0, i == 2 ? slip : 0, i == 3 ? slip : 0};
    y[i][0] = __builtin_shufflevector(normal, linear ? turned : none, 0, 4, 5, 6);
    y[i][1] = __builtin_shufflevector(linear ? moved : turned, w.a, 0, 1, 2, 4);
    y[i][2] = __builtin_shufflevector(w.a, w.l, 1, 2, 4, 5);
    y[i][3] = __builtin_shufflevector(w.l, by_v.a, 2, 4, 5, 6);
    y[i][4] = __builtin_shufflevector(by_v.l, belt, 0, 1, 2, 4);
    y[i][5] = __builtin_shufflevector(belt, belt, 1, 2, 3, 3);
    W[i] = Six(w);
    F.Add(at.f[i], W[i]);
    (linear ? push : torque) += at.f[i] * axis;
  }
  for (int i = 0; i < dim; i++) {
    const double impedance = PLANT("contact: force by impedance", at.f[i] * at.gain);
    for (int part = 0; part < kStride / 4; part++) {
      Double4 sum = {};
      for (int k = 0; k < dim; k++) sum += at.H[k * dim + i] * y[k][part];
      if (part == 0) sum = Double4{impedance} - sum;
      if (part == 1) sum *= Double4{-1, -1, -1, 1};
      *reinterpret_cast<Double4*>(df->at + i * kStride + 4 * part) = sum;
    }
  }

  const auto column = [&](int c, double factor) __attribute__((always_inline)) {
    Six sum;
    for (int k = 0; k < dim; k++) sum.Add(factor * df->at[k * kStride + c], W[k]);
    return sum;
  };
  F.Store(out->F.data());
  for (int c = 0; c < 7; c++) {
    Six sum = column(kGeometry + c, 1);
    if (c > 0) {
      // the force and torque move and turn with the contact
      const Double4 unit = {c % 3 == 1 ? 1.0 : 0, c % 3 == 2 ? 1.0 : 0, c % 3 == 0 ? 1.0 : 0};
      const Double4 turned = CrossLanes(push, unit);
      const Lanes6 by_p = {PLANT("contact: moving force", turned), Double4{}};
      const Lanes6 by_turn = {PLANT("contact: turning torque", CrossLanes(torque, unit) + CrossLanes(p, turned)),
                              PLANT("contact: turning force", turned)};
      sum.Add(-1, Six(c <= 3 ? by_p : by_turn));
    }
    sum.Store(out->F_by_geometry.data() + 6 * c);
  }
  for (int c = 0; c < 6; c++) column(kAcceleration + c, 1).Store(out->F_by_a.data() + 6 * c);
  for (int c = 0; c < 6; c++) column(kVelocity + c, 1).Store(out->F_by_v.data() + 6 * c);
  for (int c = 0; c < 3; c++) column(kBelt + c, -1).Store(out->F_by_belt.data() + 6 * c);
}

COSTATE_SIMD void FillColumns(int dim, const BasisPoint& at, BasisRows* df, ContactBlock* out) {
  switch (dim) {
    case 1: return FillColumns<1>(at, df, out);
    case 3: return FillColumns<3>(at, df, out);
    case 4: return FillColumns<4>(at, df, out);
    default: FillColumns<6>(at, df, out);
  }
}

// the wrench by a twist about the origin
COSTATE_SIMD void MultiplyTwist(const ContactBlock& block, const ContactMatrix& G,
                                const Eigen::Matrix<double, 3, 6>* surface, Mat6* K) {
  const double *F = block.F_by_geometry.data(), *belt = block.F_by_belt.data(), *about = block.about.data();
  Six column[6];
  for (int c = 5; c >= 0; c--) {
    Six sum;
    for (int k = 0; k < 7; k++) sum.Add(PLANT("contact: geometry", G.data()[6 * k + c]), Six(F + 6 * k));
    for (int k = 0; k < 3 && surface; k++) sum.Add(surface->data()[3 * c + k], Six(belt + 6 * k));
    for (int k = 3; k < 6 && c < 3; k++) sum.Add(about[6 * c + k], column[k]);
    column[c] = sum;
    sum.Store(K->data() + 6 * c);
  }
}

}  // namespace

bool FindBasisForces(const mjModel* model, const mjData* data, const mjContact& contact, BasisForces* out) {
  switch (contact.dim) {
    case 1: return CopyForces<1>(model, data, contact, out);
    case 3: return CopyForces<3>(model, data, contact, out);
    case 4: return CopyForces<4>(model, data, contact, out);
    default: return CopyForces<6>(model, data, contact, out);
  }
}

Mat6 ContactBlock::ByTwist(const ContactMatrix& G, const Eigen::Matrix<double, 3, 6>* surface) const {
  Mat6 K;
  MultiplyTwist(*this, G, surface, &K);
  return K;
}

ContactStiffness::ContactStiffness(const mjModel* model, const mjData* data, const mjContact& contact) {
  const int row = contact.efc_address;
  const bool pyramid = data->efc_type[row] == mjCNSTR_CONTACT_PYRAMIDAL;
  kappa[0] = PLANT("contact: stiffness", NormalStiffness(model, data, contact));
  for (int k = 1; k < contact.dim; k++)
    kappa[k] = PLANT("contact: tangents by distance", TangentStiffness(model, data, contact, k));
  gain = PLANT("contact: impedance", ImpedanceGain(model, data, row));

  // adhesion: aref += R delta, and R falls as D grows
  kappa[0] +=
      PLANT("contact: adhesion", data->efc_R[row] * gain * contact.adhesion / (pyramid ? 2 * (contact.dim - 1) : 1));
}

template <int dim>
bool ContactBlock::FillForces(const mjModel* model, const mjData* data, const TreeDerivative& tree,
                              const mjContact& contact, bool rows) {
  ContactForce<dim> force;
  if (!BasisForce<dim>(model, data, contact, &force)) return false;
  const ContactStiffness stiffness(model, data, contact);
  BasisRows df;
  FillColumns(dim,
              {force.f.data(), force.b.data(), force.H.data(), stiffness.kappa, stiffness.gain, contact,
               tree.field(body[0]), tree.field(body[1])},
              &df, this);
  if (!rows) return true;
  const Eigen::Map<const Eigen::Matrix<double, dim, kStride, Eigen::RowMajor>> all(df.at);
  f.setZero();
  f.head<dim>() = force.f;
  f_by_geometry = all.template middleCols<7>(kGeometry);
  f_by_a = all.template middleCols<6>(kAcceleration);
  f_by_v = all.template middleCols<6>(kVelocity);
  f_by_belt = -all.template middleCols<3>(kBelt);
  return true;
}

void ContactBlock::Place(const mjModel* model, const mjData* data, const mjContact& contact) {
  for (int side = 0; side < 2; side++) {
    body[side] = ContactBody(model, contact, side);
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
  AddForce(contact, -PLANT("adhesion: pull", pull) * Vec6::Unit(0));
}

Vec6 ContactBlock::Wrench(const mjContact& contact, const Vec6& force) const {
  const Mat3 axes = Eigen::Map<const Mat3>(contact.frame);
  const Vec3 push = axes * force.head<3>();
  Vec6 wrench;
  wrench << axes * force.tail<3>() + (Vec3Map(contact.pos) - origin).cross(push), push;
  return wrench;
}

void ContactBlock::AddForce(const mjContact& contact, const Vec6& force) {
  f += force;
  F += Wrench(contact, force);

  // (C9) at a constant force: it moves and turns with the contact
  const Mat3 axes = Eigen::Map<const Mat3>(contact.frame), push = Skew(axes * force.head<3>()),
             torque = Skew(axes * force.tail<3>()), p = Skew(Vec3Map(contact.pos) - origin);
  F_by_geometry.block<3, 3>(0, 1) -= PLANT("contact: moving constant force", push);
  F_by_geometry.block<3, 3>(0, 4) -= PLANT("contact: turning constant moment", p * push) + torque;
  F_by_geometry.block<3, 3>(3, 4) -= PLANT("contact: turning constant force", push);
}

bool ContactBlock::Fill(const mjModel* model, const mjData* data, const TreeDerivative& tree, const mjContact& contact,
                        bool rows) {
  Place(model, data, contact);
  switch (contact.dim) {
    case 1: return FillForces<1>(model, data, tree, contact, rows);
    case 3: return FillForces<3>(model, data, tree, contact, rows);
    case 4: return FillForces<4>(model, data, tree, contact, rows);
    default: return FillForces<6>(model, data, tree, contact, rows);
  }
}

}  // namespace costate
