// One contact linearized: its force in the contact basis and its wrench, by the geometry and by the bodies' relative fields.
// Equations (C4), (C7)–(C9) of README.md.
#ifndef COSTATE_DERIVATIVE_CONTACT_BLOCK_H_
#define COSTATE_DERIVATIVE_CONTACT_BLOCK_H_

#include <mujoco/mujoco.h>

#include "derivative/chain.h"
#include "derivative/contact_geometry.h"
#include "derivative/tree_derivative.h"

namespace costate {

/// At most 6 × 7, on the stack: as many rows as the contact's dimension.
using ContactRows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, 0, 6, 7>;

/// df = by_geometry (dφ, dp, Ω) − by_a dUᵃ − by_v dUᵛ with U = V₂ − V₁ about the origin, and the same of F.
struct ContactBlock {
  int body[2];
  bool moves[2];
  Vec3 origin;                     ///< of body 2's tree; of body 1's if body 2 rests
  Vec3 shift1;                     ///< from the origin of body 1's tree to it
  Vec6 f = Vec6::Zero();           ///< in the basis (n, t1, t2, spin, roll1, roll2), zero beyond the dimension
  ContactRows f_by_geometry, f_by_a, f_by_v;
  Vec6 F = Vec6::Zero();           ///< wrench (moment; force) on body 2 about the origin
  Eigen::Matrix<double, 6, 7> F_by_geometry;
  Mat6 F_by_a, F_by_v;
  Mat6 about;                      ///< twist about the origin → twist at the contact point

  /// Bodies, origin and `about`; then the forces. @return whether there is a force.
  bool Fill(const mjModel* model, const mjData* data, const TreeDerivative& tree, const mjContact& contact);
};

/// What one dof does to a contact: by its q the three changes, by its v dUᵛ = S, by its a dUᵃ = S.
struct ContactChange {
  int dof;
  Eigen::Matrix<double, 7, 1> geometry;
  Vec6 Ua, Uv;
  Vec6 S;  ///< signed axis about the origin; zero when the dof moves both bodies
};

/// f(const ContactChange&) for every dof that moves a body of the contact.
template <typename Function>
void ForContactDofs(const mjModel* model, const mjData* data, const TreeDerivative& tree, const ContactBlock& block,
                    const ContactMotion& motion, Function f) {
  Vec6 Va[2], Vv[2];
  const Vec3 shift[2] = {block.shift1, Vec3::Zero()};
  for (int side = 0; side < 2; side++) {
    Va[side] = MotionAbout(tree.acceleration_field(block.body[side]), shift[side]);
    Vv[side] = MotionAbout(tree.velocity(block.body[side]), shift[side]);
  }
  const ContactMatrix by_geom[2] = {-motion.by_geom1() * block.about, motion.by_geom2 * block.about};
  const ContactMatrix by_both = motion.by_both * block.about;
  ContactChange change;
  const int common = ForExclusiveDofs(
      model, LastDof(model, block.body[0]), LastDof(model, block.body[1]), [&](int dof, int side) {
        const double sign = side ? 1 : -1;
        const Vec6 S = sign * MotionAbout(Vec6Map(data->cdof + 6 * dof), shift[side]);
        change.dof = dof;
        change.geometry = by_geom[side] * S;
        change.Ua = CrossMotion(S, Va[side]) - sign * MotionAbout(tree.axis_field(dof), shift[side]);
        change.Uv = CrossMotion(S, Vv[side]) + sign * MotionAbout(tree.axis_rate(dof), shift[side]);
        change.S = S;
        f(static_cast<const ContactChange&>(change));
      });
  for (int dof = common; dof >= 0; dof = model->dof_parentid[dof]) {
    const Vec6 S = Vec6Map(data->cdof + 6 * dof);
    change.dof = dof;
    change.geometry = by_both * S;
    change.Ua = CrossMotion(S, Va[1] - Va[0]);
    change.Uv = CrossMotion(S, Vv[1] - Vv[0]);
    change.S.setZero();
    f(static_cast<const ContactChange&>(change));
  }
}

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_CONTACT_BLOCK_H_
