// One contact linearized: its force in the contact basis and its wrench, by the geometry and by the bodies' relative
// fields. Equations (C4), (C7)–(C9) of README.md.
#ifndef COSTATE_DERIVATIVE_CONTACT_BLOCK_H_
#define COSTATE_DERIVATIVE_CONTACT_BLOCK_H_

#include <mujoco/mujoco.h>

#include "derivative/chain.h"
#include "derivative/contact_belt.h"
#include "derivative/contact_geometry.h"
#include "derivative/tree_derivative.h"

namespace costate {

/// Forces of a contact and their Hessian in its basis (n, t1, t2, spin, roll1, roll2), both cones, with the damping of
/// each row: (C4).
struct BasisForces {
  double f[6], b[6], H[6][6];
};
/// @return false where the contact carries no force.
bool FindBasisForces(const mjModel* model, const mjData* data, const mjContact& contact, BasisForces* out);

/// How a contact answers to its distance: y changes by kappa dφ, its forces by f · gain dφ as the impedance moves. (C7),
/// (C8), (C12); but for the normal kappa is zero, (C23) aside.
struct ContactStiffness {
  double kappa[6] = {0}, gain;
  ContactStiffness(const mjModel* model, const mjData* data, const mjContact& contact);
};

/// At most 6 × 7, on the stack: as many rows as the contact's dimension.
using ContactRows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, 0, 6, 7>;

/// df = by_geometry (dφ, dp, Ω) − by_a dUᵃ − by_v dUᵛ + by_belt dβ with U = V₂ − V₁ about the origin, and the same of
/// F.
struct ContactBlock {
  int body[2];
  bool moves[2];
  Vec3 origin;            ///< of body 2's tree; of body 1's if body 2 rests
  Vec3 shift1;            ///< from the origin of body 1's tree to it
  Vec6 f = Vec6::Zero();  ///< in the basis (n, t1, t2, spin, roll1, roll2), zero beyond the dimension
  ContactRows f_by_geometry, f_by_a, f_by_v, f_by_belt;
  Vec6 F = Vec6::Zero();  ///< wrench (moment; force) on body 2 about the origin
  Eigen::Matrix<double, 6, 7> F_by_geometry;
  Mat6 F_by_a, F_by_v;
  Eigen::Matrix<double, 6, 3> F_by_belt;  ///< by the surface velocity (t1, t2, spin): (C19)
  Mat6 about;                             ///< twist about the origin → twist at the contact point

  /// Bodies, origin and `about`; then the forces. @return whether there is a force.
  /// @param rows  also in the contact basis, f_by_…
  bool Fill(const mjModel* model, const mjData* data, const TreeDerivative& tree, const mjContact& contact,
            bool rows = true);

  /// The same of a constant pull [N] between the two bodies along the normal of a contact, with a row or without. (C21)
  void FillPull(const mjModel* model, const mjData* data, const mjContact& contact, double pull);

  /// A constant force beside those that the block has, in the contact's basis: such a pull, or what a noslip pass adds.
  void AddForce(const mjContact& contact, const Vec6& force);

  /// Wrench on body 2 about the origin of a force in the contact's basis.
  Vec6 Wrench(const mjContact& contact, const Vec6& force) const;

  /// F by a twist about the origin that moves the contact by G.
  /// @param surface  of the surface velocity (t1, t2, spin) by the twist at the contact point; null: none.
  Mat6 ByTwist(const ContactMatrix& G, const Eigen::Matrix<double, 3, 6>* surface) const;

 private:
  void Place(const mjModel* model, const mjData* data, const mjContact& contact);
  template <int dim>
  bool FillForces(const mjModel* model, const mjData* data, const TreeDerivative& tree, const mjContact& contact,
                  bool rows);
};

/// What one dof does to N numbers that depend on a contact.
template <int N>
struct ContactColumn {
  static constexpr int kRows = N;
  Eigen::Matrix<double, N, 1> q, v, a;
};

/// N numbers that change by geometry (dφ, dp, Ω) − a dUᵃ − v dUᵛ + belt dβ.
template <int N>
struct ContactSlopes {
  Eigen::Matrix<double, N, 7> geometry;
  Eigen::Matrix<double, N, 6> a, v;
  Eigen::Matrix<double, N, 3> belt;
};

/// f(dof, ContactColumn<N>) for every dof that moves a body of the contact.
/// @param belt  how the surface velocity changes; null: it does not.
template <int N, typename Function>
void ForContactDofs(const mjModel* model, const mjData* data, const TreeDerivative& tree, const ContactBlock& block,
                    const ContactMotion& motion, const BeltMotion* belt, const ContactSlopes<N>& by, Function f) {
  using Matrix = Eigen::Matrix<double, N, 6>;
  Vec6 Va[2], Vv[2];
  const Vec3 shift[2] = {block.shift1, Vec3::Zero()};
  for (int side = 0; side < 2; side++) {
    Va[side] = MotionAbout(tree.acceleration_field(block.body[side]), shift[side]);
    Vv[side] = MotionAbout(tree.velocity(block.body[side]), shift[side]);
  }
  Matrix by_both = by.geometry * (motion.by_both * block.about).eval();
  Matrix by_second = by.geometry * (motion.by_geom2 * block.about).eval();
  if (belt) {
    by_both += by.belt * (belt->by_both * block.about).eval();
    by_second += by.belt * (belt->by_geom2 * block.about).eval();
  }
  const Matrix by_first = by_both - by_second;
  ContactColumn<N> column;
  const int common =
      ForExclusiveDofs(model, LastDof(model, block.body[0]), LastDof(model, block.body[1]), [&](int dof, int side) {
        // signed: the relative motion is that of body 2
        const double sign = side ? 1 : -1;
        const Vec6 S = sign * MotionAbout(Vec6Map(data->cdof + 6 * dof), shift[side]);
        const Vec6 Ua = CrossMotion(S, Va[side]) - sign * MotionAbout(tree.axis_field(dof), shift[side]);
        const Vec6 Uv = CrossMotion(S, Vv[side]) + sign * MotionAbout(tree.axis_rate(dof), shift[side]);
        column.q.noalias() = sign * ((side ? by_second : by_first) * S) - by.a * Ua - by.v * Uv;
        column.v.noalias() = -by.v * S;
        column.a.noalias() = -by.a * S;
        f(dof, static_cast<const ContactColumn<N>&>(column));
      });
  column.v.setZero();
  column.a.setZero();
  for (int dof = common; dof >= 0; dof = model->dof_parentid[dof]) {
    const Vec6 S = Vec6Map(data->cdof + 6 * dof);
    column.q.noalias() = by_both * S - by.a * CrossMotion(S, Va[1] - Va[0]) - by.v * CrossMotion(S, Vv[1] - Vv[0]);
    f(dof, static_cast<const ContactColumn<N>&>(column));
  }
}

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_CONTACT_BLOCK_H_
