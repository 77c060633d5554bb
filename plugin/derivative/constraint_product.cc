// Contacts as products need them: their part of H as matrices, everything else contact by contact. (C20) of README.md.
#include <algorithm>

#include "derivative/chain.h"
#include "derivative/chain_axes.h"
#include "derivative/constraint.h"
#include "derivative/impedance.h"

namespace costate {

void ConstraintDerivative::KeepContact(const mjModel* m, const mjData* d, int c, const TreeDerivative& tree,
                                       const BeltMotion* belt) {
  contact_.emplace_back();
  ContactProduct& contact = contact_.back();
  if (!contact.Fill(m, d, tree, c)) {
    contact_.pop_back();
    return;
  }
  contact.has_belt = belt != nullptr;
  if (belt) contact.belt = *belt;
  KeepWrench(m);
}

bool HasOwnHessian(const mjModel* m) {
  for (int i = 0; i < m->neq; i++) {
    if (m->eq_type[i] != mjEQ_JOINT) return false;
  }
  for (int t = 0; t < m->ntendon; t++) {
    if (HasTurningRow(m, t)) return false;
  }
  return m->nflex == 0;
}

void ConstraintDerivative::LinearizeHessian(const mjModel* m, const mjData* d) {
  Clear();
  std::string missing;
  for (int row = 0; row < d->nefc && d->efc_type[row] < mjCNSTR_CONTACT_FRICTIONLESS; row++)
    if (!AddSingle(m, d, row)) ScalarRow(m, d, row, &missing);
  for (int c = 0; c < d->ncon; c++) {
    const mjContact& contact = d->contact[c];
    if (contact.efc_address < 0) continue;
    // (C22) a body's block with a D of 1e15 would leave M no digits where the contact has no lever
    if (IsHardest(d, contact.efc_address)) {
      KeepHessian(d, contact.efc_address, RowCount(d, contact));
    } else if (contact_.emplace_back().FillHessian(m, d, c)) {
      KeepWrench(m);
    } else {
      contact_.pop_back();
    }
  }
}

// of the last contact
void ConstraintDerivative::KeepWrench(const mjModel* m) {
  const ContactProduct& contact = contact_.back();
  for (int side = 0; side < 2; side++) {
    if (!contact.moves[side]) continue;
    BodyConstraint& body = contact_body_[contact.body[side]];
    contact.AddWrench(side, &body.F);
    body.active = true;
  }
  const bool pair = contact.moves[0] && contact.moves[1];
  contact.AddHessian(pair ? &FindPair(m, contact.body[0], contact.body[1])->HH
                          : &contact_body_[contact.body[contact.moves[1]]].HH);
}

bool ConstraintDerivative::AddDiagonal(double* diagonal) const {
  if (!product_.empty() || !pair_.empty()) return false;
  for (std::size_t i = 0; i < single_h_.size(); i++) diagonal[i] += single_h_[i];
  for (const Row& row : row_) {
    if (row.count > 1) return false;
    for (int n = row.start; n < row.start + row.count; n++) diagonal[row_dof_[n]] += row.D * row_J_[n] * row_J_[n];
  }
  return true;
}

COSTATE_SIMD void ConstraintDerivative::PullContacts(TreePull* tree) const {
  for (const ContactProduct& contact : contact_) {
    Lanes6 T = Lanes6::Zero();
    if (contact.moves[1]) T += tree->motion(contact.body[1]);
    if (contact.moves[0]) T -= MotionAbout(tree->motion(contact.body[0]), contact.shift1);
    ContactCovectors pulled;
    contact.Pull(geometry_.motion(contact.contact), T, &pulled);
    if (contact.moves[1]) tree->AddCovectors(contact.body[1], pulled.twist[1], -pulled.Ua, -pulled.Uv);
    if (!contact.moves[0]) continue;
    const Double4 back = -contact.shift1;
    tree->AddCovectors(contact.body[0], WrenchAbout(pulled.twist[0], back), WrenchAbout(pulled.Ua, back),
                       WrenchAbout(pulled.Uv, back));
  }
}

void ConstraintDerivative::PushContacts(TreeDerivative* tree) const {
  for (const ContactProduct& contact : contact_) {
    ContactSide side[2];
    const Vec3 shift1(contact.shift1[0], contact.shift1[1], contact.shift1[2]);
    for (int k = 0; k < 2; k++) {
      const Vec3 shift = k == 0 ? shift1 : Vec3(Vec3::Zero());
      const int body = contact.body[k];
      if (contact.moves[k]) {
        side[k].twist = MotionAbout(tree->pushed(body), shift);
        side[k].Ua = MotionAbout(tree->pushed_acceleration(body), shift);
        side[k].Uv = MotionAbout(tree->pushed_velocity(body), shift);
      } else {
        side[k].twist.setZero();
        side[k].Ua.setZero();
        side[k].Uv.setZero();
      }
    }
    const Vec6 dF = contact.Push(geometry_.motion(contact.contact), side);
    if (contact.moves[1]) tree->AddWrenchChange(contact.body[1], dF);
    if (contact.moves[0]) tree->AddWrenchChange(contact.body[0], -WrenchAbout(dF, -shift1));
  }
}

// bodies that both move: entries between the dofs that move one of them
COSTATE_SIMD void ConstraintDerivative::AddPairHessian(const mjModel* m, const mjData* d, const Pair& pair,
                                                       const int* entry, TreeSolver* H) const {
  const int* chain = chain_.data() + pair.chain_start;
  const signed char* sign = chain_sign_.data() + pair.chain_start;
  const auto origin = [&](int body) __attribute__((always_inline)) {
    return LoadLanes(d->subtree_com + 3 * m->body_rootid[body]);
  };
  const Double4 shift1 = origin(pair.body2) - origin(pair.body1);
  const auto axis = [&](int n) __attribute__((always_inline)) {
    const Lanes6 S = Lanes6::Load(d->cdof + 6 * chain[n]);
    return sign[n] < 0 ? -MotionAbout(S, shift1) : S;
  };
  ChainAxes axes(pair.chain_count, 7, &axes_);
  for (int n = 0; n < pair.chain_count; n++) axes.Set(n, axis(n));
  double *wrenches = axes.products(0), *products = axes.products(6);
  axes.Multiply(pair.HH, wrenches);
  for (int k = 0; k < pair.chain_count; k++) {
    axes.Multiply(axes.Gather(wrenches, k), k, products);
    H->diagonal(chain[k]) += products[k];
    for (int n = k + 1; n < pair.chain_count; n++) H->entry(*entry++) += products[n];
  }
}

}  // namespace costate
