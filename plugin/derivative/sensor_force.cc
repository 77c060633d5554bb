// Interaction forces and touch: (M14)–(M15) of README.md.
#include "derivative/contact_block.h"
#include "derivative/equality.h"
#include "derivative/sensor.h"

namespace costate {

namespace {

// an active connect or weld whose body lies in [begin, end)
bool HasBodyEquality(const mjModel* m, const mjData* d, int begin, int end) {
  for (int row = 0; row < d->ne; row++) {
    const int i = d->efc_id[row];
    if (!IsBodyEquality(m, i)) continue;
    for (int object : {m->eq_obj1id[i], m->eq_obj2id[i]}) {
      const int body = m->eq_objtype[i] == mjOBJ_BODY ? object : m->site_bodyid[object];
      if (body >= begin && body < end) return true;
    }
  }
  return false;
}

}  // namespace

// external wrenches on each subtree; the engine's interaction forces at the converged acceleration
void SensorDerivative::FindForces() {
  if (has_forces_) return;
  has_forces_ = true;
  const mjModel* m = at_.m;
  mj_rnePostConstraint(m, at_.d);
  for (int b = 0; b < m->nbody; b++) external_[b] = Vec6Map(at_.d->cfrc_ext + 6 * b);
  for (int b = static_cast<int>(m->nbody) - 1; b > 0; b--) {
    if (m->body_parentid[b] > 0) external_[m->body_parentid[b]] += external_[b];
  }
}

// (M14) inertial wrench of the subtree less what acts on it from outside
bool SensorDerivative::ForceTorque(int i) {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;
  const TreeDerivative& tree = *at_.tree;
  const bool torque = m->sensor_type[i] == mjSENS_TORQUE;
  Frame site;
  if (!FindFrame(mjOBJ_SITE, m->sensor_objid[i], &site)) return false;
  const int body = site.body, end = subtree_end_[body];
  if (body == 0 || HasBodyEquality(m, d, body, end)) return false;
  FindForces();
  const Vec6 F = Vec6Map(d->cfrc_int + 6 * body);
  const Mat3 R = site.R.transpose();
  const auto seen = [&](const Vec6& wrench) -> Vec3 {
    const Vec3 force = wrench.tail<3>();
    return R * (torque ? Vec3(wrench.head<3>() - site.r.cross(force)) : force);
  };
  rows_.Begin(3);

  // the sensor's own frame turns and moves
  const Vec3 force = F.tail<3>(), moment = F.head<3>() - site.r.cross(force);
  for (int dof = site.last; dof >= 0; dof = m->dof_parentid[dof]) {
    const Vec6 S = Vec6Map(d->cdof + 6 * dof);
    Vec3 change = -S.head<3>().cross(torque ? moment : force);
    if (torque) change -= MotionAt(S, site.r).cross(force);
    rows_.Add(dof, R * change);
  }

  // d(I a + v ×* I v), as in (R3)
  ForSubtreeDofs(body, [&](int dof, int part) {
    const Vec6 S = Vec6Map(d->cdof + 6 * dof), inertial = Vec6Map(d->cfrc_int + 6 * part) + external_[part];
    const Inertia& I = tree.composite_inertia(part);
    const RotationMap& B = tree.composite_coriolis(part);
    rows_.Add(dof, seen(CrossForce(S, inertial) + I * tree.axis_acceleration(dof) + B * tree.axis_rate(dof)));
    rows_.Add(nv_ + dof, seen(I * tree.axis_sum(dof) + B * S));
    rows_.AddByA(dof, seen(I * S));
  });

  // applied wrenches rest in the world while their points move
  const Vec3 origin = Origin(m, d, body);
  for (int b = body; b < end; b++) {
    const mjtNum* load = d->xfrc_applied + 6 * b;
    if (mju_isZero(load, 3)) continue;
    const Vec3 r = Vec3Map(d->xipos + 3 * b) - origin;
    for (int dof = LastDof(m, b); dof >= 0; dof = m->dof_parentid[dof]) {
      Vec6 change = Vec6::Zero();
      change.head<3>() = MotionAt(Vec6Map(d->cdof + 6 * dof), r).cross(Vec3Map(load));
      rows_.Add(dof, -seen(change));
    }
  }

  // contacts with something outside
  for (int c = 0; c < d->ncon; c++) {
    const mjContact& contact = d->contact[c];
    if (contact.efc_address < 0 || contact.geom[0] < 0 || contact.geom[1] < 0) continue;
    const int body1 = m->geom_bodyid[contact.geom[0]], body2 = m->geom_bodyid[contact.geom[1]];
    const bool inside1 = body1 >= body && body1 < end, inside2 = body2 >= body && body2 < end;
    if (inside1 == inside2) continue;
    const ContactMotion* motion = at_.constraint->contact_motion(c);
    if (!motion) return false;
    ContactBlock block;
    if (!block.Fill(m, d, tree, contact)) continue;
    Eigen::Matrix<double, 3, 6> seen_wrench;
    for (int k = 0; k < 6; k++) seen_wrench.col(k) = (inside2 ? -1 : 1) * seen(WrenchAbout(Vec6::Unit(k), origin - block.origin));
    ForContactDofs<3>(m, d, tree, block, *motion, seen_wrench * block.F_by_geometry, seen_wrench * block.F_by_a,
                      seen_wrench * block.F_by_v, [&](int dof, const ContactColumn<3>& column) {
                        rows_.Add(dof, column.q);
                        rows_.Add(nv_ + dof, column.v);
                        rows_.AddByA(dof, column.a);
                      });
  }
  rows_.Store(*at_.da, m->sensor_adr[i], out_);
  return true;
}

// (M15) normal forces of the contacts that the zone sees
bool SensorDerivative::Touch(int i) {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;
  const int site = m->sensor_objid[i], body = m->site_bodyid[site];
  rows_.Begin(1);
  for (int c = 0; c < d->ncon; c++) {
    const mjContact& contact = d->contact[c];
    if (contact.efc_address < 0) continue;
    mjtNum force[6], ray[3];
    mj_contactForce(m, d, c, force);
    if (force[0] <= 0) continue;
    if (contact.geom[0] < 0 || contact.geom[1] < 0) return false;  // flex
    const int body1 = m->geom_bodyid[contact.geom[0]], body2 = m->geom_bodyid[contact.geom[1]];
    if (body != body1 && body != body2) continue;
    mju_scl3(ray, contact.frame, body == body2 ? -1 : 1);
    if (mju_rayGeom(d->site_xpos + 3 * site, d->site_xmat + 9 * site, m->site_size + 3 * site, contact.pos, ray,
                    m->site_type[site], nullptr) < 0) {
      continue;
    }
    const ContactMotion* motion = at_.constraint->contact_motion(c);
    if (!motion) return false;
    ContactBlock block;
    if (!block.Fill(m, d, *at_.tree, contact)) continue;
    ForContactDofs<1>(m, d, *at_.tree, block, *motion, block.f_by_geometry.row(0), block.f_by_a.row(0), block.f_by_v.row(0),
                      [&](int dof, const ContactColumn<1>& column) {
                        rows_.at(0, dof) += column.q[0];
                        rows_.at(0, nv_ + dof) += column.v[0];
                        rows_.by_a(0, dof) += column.a[0];
                      });
  }
  rows_.Store(*at_.da, m->sensor_adr[i], out_);
  return true;
}

}  // namespace costate
