// Contacts as products need them: their part of H as matrices, everything else contact by contact. (C20) of README.md.
#include "derivative/chain.h"
#include "derivative/constraint.h"

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

// of the last contact
void ConstraintDerivative::KeepWrench(const mjModel* m) {
  const ContactProduct& contact = contact_.back();
  const Vec6 F = contact.Wrench();
  for (int side = 0; side < 2; side++) {
    if (!contact.moves[side]) continue;
    BodyConstraint& body = contact_body_[contact.body[side]];
    body.F += side ? F : Vec6(-WrenchAbout(F, -contact.shift1));
    body.active = true;
  }
  if (contact.moves[0] && contact.moves[1]) {
    FindPair(m, contact.body[0], contact.body[1])->HH += contact.Hessian();
  } else {
    contact_body_[contact.body[contact.moves[1]]].HH += contact.Hessian();
  }
}

bool ConstraintDerivative::AddDiagonal(double* diagonal) const {
  if (!product_.empty() || !pair_.empty()) return false;
  for (const Row& row : row_) {
    if (row.count > 1) return false;
    for (int n = row.start; n < row.start + row.count; n++) diagonal[row_dof_[n]] += row.h * row_J_[n] * row_J_[n];
  }
  return true;
}

void ConstraintDerivative::PullContacts(TreePull* tree) const {
  for (const ContactProduct& contact : contact_) {
    Vec6 T = Vec6::Zero();
    if (contact.moves[1]) T += tree->motion(contact.body[1]);
    if (contact.moves[0]) T -= MotionAbout(tree->motion(contact.body[0]), contact.shift1);
    ContactSide side[2];
    contact.Pull(geometry_.motion(contact.contact), T, side);
    if (contact.moves[1]) tree->AddCovectors(contact.body[1], side[1].twist, -side[1].Ua, -side[1].Uv);
    if (!contact.moves[0]) continue;
    const Vec3 back = -contact.shift1;
    tree->AddCovectors(contact.body[0], WrenchAbout(side[0].twist, back), -WrenchAbout(side[0].Ua, back),
                       -WrenchAbout(side[0].Uv, back));
  }
}

void ConstraintDerivative::PushContacts(TreeDerivative* tree) const {
  for (const ContactProduct& contact : contact_) {
    ContactSide side[2];
    for (int k = 0; k < 2; k++) {
      const Vec3 shift = k == 0 ? contact.shift1 : Vec3(Vec3::Zero());
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
    if (contact.moves[0]) tree->AddWrenchChange(contact.body[0], -WrenchAbout(dF, -contact.shift1));
  }
}

// bodies that both move: entries between the dofs that move one of them
void ConstraintDerivative::AddPairHessian(const mjModel* m, const mjData* d, const Pair& pair, TreeSolver* H) const {
  if (!H) return;
  const int* chain = chain_.data() + pair.chain_start;
  const signed char* sign = chain_sign_.data() + pair.chain_start;
  const Vec3 shift1 = Origin(m, d, pair.body2) - Origin(m, d, pair.body1);
  const auto axis = [&](int n) {
    const Vec6 S = Vec6Map(d->cdof + 6 * chain[n]);
    return sign[n] < 0 ? Vec6(-MotionAbout(S, shift1)) : S;
  };
  for (int n = 0; n < pair.chain_count; n++) {
    const Vec6 F = pair.HH * axis(n);
    for (int k = 0; k < pair.chain_count; k++) {
      if (chain[k] >= chain[n]) H->Add(chain[k], chain[n], axis(k).dot(F));
    }
  }
}

}  // namespace costate
