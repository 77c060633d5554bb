#include "derivative/contact_jacobian.h"

#include "core/joint.h"
#include "derivative/chain.h"
#include "derivative/plant.h"

namespace costate {

AxisGroups::AxisGroups(const mjModel* model) : group(model->nv), fixed(model->nv, 0) {
  for (int j = 0; j < model->nv; j++) {
    const int joint = model->dof_jntid[j];
    fixed[j] = model->jnt_type[joint] == mjJNT_FREE && j < model->jnt_dofadr[joint] + 3;
    group[j] = GroupBegin(model, j);
  }
}

ContactJacobian::ContactJacobian(const mjModel* m, const mjData* d, const AxisGroups& axes, const mjContact& contact,
                                 const ContactMotion& motion, int rows) {
  const int body[2] = {ContactBody(m, contact, 0), ContactBody(m, contact, 1)};
  const bool second_moves = LastDof(m, body[1]) >= 0;
  const Vec3 origin = Origin(m, d, body[second_moves ? 1 : 0]), p = Vec3Map(contact.pos) - origin;
  const Vec3 shift[2] = {LastDof(m, body[0]) >= 0 ? Vec3(origin - Origin(m, d, body[0])) : Vec3(Vec3::Zero()),
                         Vec3::Zero()};
  std::vector<int> side;
  std::vector<Vec6> axis;
  const int common = ForExclusiveDofs(m, LastDof(m, body[0]), LastDof(m, body[1]), [&](int i, int s) {
    dof.push_back(i);
    side.push_back(s);
    axis.push_back(MotionAbout(Vec6Map(d->cdof + 6 * i), shift[s]));
  });
  const int count = static_cast<int>(dof.size());
  turner = dof;
  for (int i = common; i >= 0; i = m->dof_parentid[i]) {
    turner.push_back(i);
    side.push_back(2);
    axis.push_back(Vec6Map(d->cdof + 6 * i));
  }
  const int turners = static_cast<int>(turner.size());

  // (dφ, dp, Ω) by each turner
  Mat6 about = Mat6::Identity();
  about.bottomLeftCorner<3, 3>() = -Skew(p);
  const ContactMatrix by[3] = {motion.by_geom1() * about, motion.by_geom2 * about, motion.by_both * about};
  moved.resize(7, turners);
  for (int k = 0; k < turners; k++) moved.col(k) = by[side[k]] * axis[k];

  // J and its turning in the contact basis
  turn.assign(rows, RowMatrix::Zero(count, turners));
  J.resize(rows, count);
  for (int n = 0; n < count; n++) {
    const double sign = side[n] ? 1 : -1;
    const Vec6 U = sign * axis[n];
    const Vec3 u = MotionAt(U, p), w = U.head<3>();
    for (int i = 0; i < rows; i++) J(i, n) = Vec3Map(contact.frame + 3 * (i % 3)).dot(i < 3 ? u : w);
    for (int k = 0; k < turners; k++) {
      const Vec3 dp = moved.block<3, 1>(1, k), turned = moved.block<3, 1>(4, k);
      const bool follows =
          !axes.fixed[dof[n]] && (side[k] == 2 || (side[k] == side[n] && axes.group[turner[k]] <= dof[n]));
      const Vec6 dU = follows ? Vec6(PLANT("contact rows: axes turn", CrossMotion(axis[k], U))) : Vec6(Vec6::Zero());
      const Vec3 du = PLANT("contact rows: frame turns", u.cross(turned)) +
                      PLANT("contact rows: point moves", w.cross(dp)) + MotionAt(dU, p);
      const Vec3 dw = PLANT("contact rows: torsion turns", w.cross(turned)) + dU.head<3>();
      for (int i = 0; i < rows; i++) turn[i](n, k) = Vec3Map(contact.frame + 3 * (i % 3)).dot(i < 3 ? du : dw);
    }
  }
}

}  // namespace costate
