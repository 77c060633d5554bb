#include "derivative/free_body.h"

#include "derivative/plant.h"

namespace costate {

namespace {

// the bias of a free body in its own frame: l(ω) = m ω × (ω × s), g(ω) = s × l(ω) + ω × I ω; both quadratic, so their
// symmetric bilinear forms give all derivatives
Vec3 LinearForm(double mass, const Vec3& s, const Vec3& a, const Vec3& b) {
  return mass * (a.cross(b.cross(s)) + b.cross(a.cross(s)));
}
Vec3 AngularForm(double mass, const Vec3& s, const Mat3& I, const Vec3& a, const Vec3& b) {
  return s.cross(LinearForm(mass, s, a, b)) + a.cross(I * b) + b.cross(I * a);
}

}  // namespace

bool IsStandaloneFreeBody(const mjModel* m, int body) {
  if (m->body_jntnum[body] != 1) return false;
  const int joint = m->body_jntadr[body];
  return m->jnt_type[joint] == mjJNT_FREE && m->tree_dofnum[m->dof_treeid[m->jnt_dofadr[joint]]] == 6;
}

FreeBody::FreeBody(const mjModel* m, const mjData* d, int body) : body_(body), dof_(m->body_dofadr[body]) {
  const double h = m->opt.timestep;
  const Mat3 R = Mat3Map(d->xmat + 9 * body);

  // inertia of the whole tree about its com, in the body's frame
  Inertia inertia;
  for (int b = body; b < m->nbody && m->body_rootid[b] == body; b++) inertia.Add(Inertia::From(d->cinert + 10 * b));
  mass_ = inertia.m;
  com_ = R.transpose() * (Vec3Map(d->subtree_com + 3 * body) - Vec3Map(d->xpos + 3 * body));
  inertia_ = R.transpose() * inertia.Rotational() * R;
  const Vec3 omega = Vec3Map(d->qvel + dof_ + 3);
  damping_.setZero();
  for (int c = 0; c < 3; c++) {
    damping_.block<3, 1>(0, 3 + c) =
        PLANT("free body: force block", h * (R * LinearForm(mass_, com_, omega, Vec3::Unit(c))));
    damping_.block<3, 1>(3, 3 + c) =
        PLANT("free body: torque block", h * AngularForm(mass_, com_, inertia_, omega, Vec3::Unit(c)));
  }
}

// the linear part turns with the body, both change with ω
void FreeBody::AddColumns(const mjModel* m, const mjData* d, const double* a, Columns* E) const {
  const int nv = static_cast<int>(m->nv);
  const double h = m->opt.timestep;
  const Mat3 R = Mat3Map(d->xmat + 9 * body_);
  const Vec3 omega = Vec3Map(d->qvel + dof_ + 3), alpha = Vec3Map(a + dof_ + 3);
  const Vec3 linear = h * LinearForm(mass_, com_, omega, alpha);
  for (int c = 0; c < 3; c++) {
    const Vec3 unit = Vec3::Unit(c), turned = PLANT("free body: turning", R * unit.cross(linear));
    const Vec3 by_v = PLANT("free body: force by spin", h * (R * LinearForm(mass_, com_, unit, alpha)));
    const Vec3 by_v_rot = PLANT("free body: torque by spin", h * AngularForm(mass_, com_, inertia_, unit, alpha));
    for (int i = 0; i < 3; i++) {
      (*E)(dof_ + i, dof_ + 3 + c) -= turned[i];
      (*E)(dof_ + i, nv + dof_ + 3 + c) -= by_v[i];
      (*E)(dof_ + 3 + i, nv + dof_ + 3 + c) -= by_v_rot[i];
    }
  }
}

}  // namespace costate
