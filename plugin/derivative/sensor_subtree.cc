// Centre of mass, momenta and energies: (M10)–(M13) of README.md.
#include "derivative/armature.h"
#include "derivative/chain.h"
#include "derivative/sensor.h"

namespace costate {

// momentum of each subtree about its tree's origin
void SensorDerivative::FindMomentum() {
  if (has_momentum_) return;
  has_momentum_ = true;
  const mjModel* m = at_.m;
  momentum_[0].setZero();
  for (int b = 1; b < m->nbody; b++) momentum_[b] = Inertia::From(at_.d->cinert + 10 * b) * at_.tree->velocity(b);
  for (int b = static_cast<int>(m->nbody) - 1; b > 0; b--) {
    if (m->body_parentid[b] > 0) momentum_[m->body_parentid[b]] += momentum_[b];
  }
}

bool SensorDerivative::Subtree(int i) {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;
  const int type = m->sensor_type[i], body = m->sensor_objid[i], row = row_;
  const double mass = m->body_subtreemass[body];
  MatrixXd& C = out_->C;
  if (mass < mjMINVAL) return type != mjSENS_SUBTREECOM;  // no momentum, no centre
  const Vec3 center = Vec3Map(d->subtree_com + 3 * body);

  // (M10) the part's centre moves by S, weighted with its mass
  const auto center_change = [&](int dof, int part) -> Vec3 {
    const Vec3 r = Vec3Map(d->subtree_com + 3 * part) - Origin(m, d, part);
    return m->body_subtreemass[part] / mass * MotionAt(Vec6Map(d->cdof + 6 * dof), r);
  };
  if (type == mjSENS_SUBTREECOM) {
    ForSubtreeDofs(body, [&](int dof, int part) { C.block<3, 1>(row, dof) = center_change(dof, part); });
    return true;
  }

  // (M11) dh = S ×* h + I ψ̇ by q and I S by v, for the momentum h and inertia I of the part
  FindMomentum();
  Vec3 linear = Vec3::Zero();
  for (int b = body; b < subtree_end_[body]; b++) {
    if (b == body || (body == 0 && m->body_parentid[b] == 0)) linear += momentum_[b].tail<3>();
  }
  ForSubtreeDofs(body, [&](int dof, int part) {
    const Vec6 S = Vec6Map(d->cdof + 6 * dof);
    const Inertia& I = at_.tree->composite_inertia(part);
    const Vec6 by_q = CrossForce(S, momentum_[part]) + I * at_.tree->axis_rate(dof), by_v = I * S;
    if (type == mjSENS_SUBTREELINVEL) {
      C.block<3, 1>(row, dof) = by_q.tail<3>() / mass;
      C.block<3, 1>(row, nv_ + dof) = by_v.tail<3>() / mass;
      return;
    }
    // (M12) about the centre, which moves too
    const Vec3 r = Origin(m, d, part) - center;
    C.block<3, 1>(row, dof) = by_q.head<3>() + r.cross(by_q.tail<3>()) - center_change(dof, part).cross(linear);
    C.block<3, 1>(row, nv_ + dof) = by_v.head<3>() + r.cross(by_v.tail<3>());
  });
  return true;
}

// (M13) weight, and the springs' forces
bool SensorDerivative::PotentialEnergy() {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;
  if (m->nflex > 0) return false;
  const bool weight = !(m->opt.disableflags & mjDSBL_GRAVITY);
  for (int dof = 0; dof < nv_; dof++) {
    const int body = m->dof_bodyid[dof];
    const Vec3 r = Vec3Map(d->subtree_com + 3 * body) - Origin(m, d, body);
    double& entry = out_->C(row_, dof);
    entry = -d->qfrc_spring[dof];
    if (weight)
      entry -= m->body_subtreemass[body] * Vec3Map(m->opt.gravity).dot(MotionAt(Vec6Map(d->cdof + 6 * dof), r));
  }
  return true;
}

// (M13) T = vᵀ M v / 2
bool SensorDerivative::KineticEnergy() {
  const mjModel* m = at_.m;
  if (HasMovingArmature(m)) return false;
  FindMomentum();
  Eigen::VectorXd& p = vector_;
  p.resize(nv_);
  mj_mulM(m, at_.d, p.data(), at_.d->qvel);
  for (int dof = 0; dof < nv_; dof++) {
    out_->C(row_, dof) = momentum_[m->dof_bodyid[dof]].dot(at_.tree->axis_rate(dof));
    out_->C(row_, nv_ + dof) = p[dof];
  }
  return true;
}

}  // namespace costate
