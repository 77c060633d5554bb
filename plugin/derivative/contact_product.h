// One contact as products need it: its linearized wrench applied to motions, and the transpose, by vectors alone.
// Equation (C20) of README.md.
#ifndef COSTATE_DERIVATIVE_CONTACT_PRODUCT_H_
#define COSTATE_DERIVATIVE_CONTACT_PRODUCT_H_

#include <mujoco/mujoco.h>

#include "derivative/contact_belt.h"
#include "derivative/contact_geometry.h"
#include "derivative/tree_derivative.h"

namespace costate {

/// What the motion of one side does to a contact, about the origin.
struct ContactSide {
  Vec6 twist;   ///< motion of the body
  Vec6 Ua, Uv;  ///< changes of its acceleration and velocity fields
};

/// Covectors of it, of both sides.
struct ContactCovectors {
  Lanes6 twist[2];
  Lanes6 Ua, Uv;  ///< of the fields of body 2; body 1's are the opposite
};

struct ContactProduct {
  ContactProduct() {}  // Fill sets all

  Double4 shift1;        ///< from the origin of body 1's tree to that of body 2's (body 1's, if body 2 rests)
  Double4 p;             ///< contact point from the origin
  Lanes3x3 axes, basis;  ///< columns n, t1, t2; its transpose
  Double4 push, torque;  ///< f in the world
  Double4 a_rot, a_lin, v_rot, v_lin;  ///< fields of body 2 minus body 1 at the point
  Vec6 f, b;        ///< force and damping in the basis (n, t1, t2, spin, roll1, roll2), zero beyond the dimension
  Mat6 H;           ///< Hessian in the same basis
  Vec6 kappa;       ///< (C7): but for the first zero, (C23) aside
  double g;         ///< (C8)
  int dim, contact, body[2];
  bool moves[2];
  bool has_belt;    ///< the surfaces move …
  BeltMotion belt;  ///< … and their velocity changes so

  /// @return whether there is a force.
  bool Fill(const mjModel* model, const mjData* data, const TreeDerivative& tree, int contact);

  /// All that AddHessian needs. @return whether there is a force.
  bool FillHessian(const mjModel* model, const mjData* data, int contact);

  /// A constant pull [N] along the contact's normal, which needs no row. (C21)
  void FillPull(const mjModel* model, const mjData* data, int contact, double pull);

  /// Adds the wrench on the body of a side, about the origin of its tree.
  void AddWrench(int side, Vec6* F) const;
  /// Adds Wᵀ H_c W: change of minus the wrench on body 2 with the acceleration field, about the origin.
  void AddHessian(Mat6* HH) const;

  /// Change of the wrench on body 2 when both sides move.
  Vec6 Push(const ContactMotion& motion, const ContactSide side[2]) const;

  /// Covectors of the sides that move for the covector T of the wrench.
  void Pull(const ContactMotion& motion, const Lanes6& T, ContactCovectors* out) const;

 private:
  bool FillForces(const mjModel* model, const mjData* data, int contact);
  void Place(const mjModel* model, const mjData* data);
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_CONTACT_PRODUCT_H_
