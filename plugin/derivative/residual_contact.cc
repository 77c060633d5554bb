// Contacts that no difference sees through: level 2 moves them as level 1 does. (10) of README.md.
#include "derivative/residual_difference.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "derivative/equilibrium.h"

namespace costate {

// remembers the contacts that differences would not see through, and how they move
void ResidualDifference::CaptureJumping(const mjModel* m, const mjData* d, const std::vector<char>* rows) {
  const auto curved = [m, rows](const mjContact& contact) {
    return IsCurved(m, contact) && (!rows || (contact.efc_address >= 0 && (*rows)[contact.efc_address]));
  };
  if (IsDiscrete(m) || std::none_of(d->contact, d->contact + d->ncon, curved)) return;
  if (!geometry_) geometry_ = std::make_unique<ContactGeometry>(m);
  mjData* p = probe_.get();
  Restore(m);
  mj_fwdPosition(m, p);
  if (p->nefc != d->nefc) return;
  std::copy(d->efc_state, d->efc_state + d->nefc, p->efc_state);
  if (!geometry_->ComputeJumping(m, p)) return;
  for (int c = 0; c < p->ncon; c++) {
    if (!geometry_->has_motion(c)) continue;
    JumpingContact jumping;
    jumping.contact = p->contact[c];
    jumping.motion = geometry_->motion(c);
    if (!MoveBelt(m, p, jumping.contact, jumping.motion, &jumping.belt)) continue;
    for (int side = 0; side < 2; side++) {
      const int geom = jumping.contact.geom[side];
      mju_copy3(jumping.xpos[side], p->geom_xpos + 3 * geom);
      mju_copy(jumping.xmat[side], p->geom_xmat + 9 * geom, 9);
    }
    jumping_.push_back(jumping);
  }
}

bool ResidualDifference::JumpingContact::Moved(const mjData* p) const {
  for (int side = 0; side < 2; side++) {
    const int geom = contact.geom[side];
    if (!std::equal(xpos[side], xpos[side] + 3, p->geom_xpos + 3 * geom)) return true;
    if (!std::equal(xmat[side], xmat[side] + 9, p->geom_xmat + 9 * geom)) return true;
  }
  return false;
}

// (10) the probe's contacts that are such go where their motion takes them; what the engine does not find is missing
void ResidualDifference::PlaceJumping() {
  mjData* p = probe_.get();
  std::vector<char> placed(p->ncon, 0);
  for (const JumpingContact& s : jumping_) {
    const Vec3 point = Vec3Map(s.contact.pos);
    int nearest = -1;
    for (int c = 0; c < p->ncon; c++) {
      const mjContact& found = p->contact[c];
      if (placed[c] || found.geom[0] != s.contact.geom[0] || found.geom[1] != s.contact.geom[1]) continue;
      const auto distance = [&](int k) { return (Vec3Map(p->contact[k].pos) - point).squaredNorm(); };
      if (nearest < 0 || distance(c) < distance(nearest)) nearest = c;
    }
    if (nearest < 0) continue;
    placed[nearest] = 1;
    if (!s.Moved(p)) continue;  // of a model with other shapes, maybe
    Eigen::Matrix<double, 7, 1> change = Eigen::Matrix<double, 7, 1>::Zero();
    Vec3 belt = Vec3::Zero();
    for (int side = 0; side < 2; side++) {
      const int geom = s.contact.geom[side];
      using Rotation = Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>;
      const Mat3 turn = Rotation(p->geom_xmat + 9 * geom) * Rotation(s.xmat[side]).transpose();
      Vec6 twist;
      twist << turn(2, 1) - turn(1, 2), turn(0, 2) - turn(2, 0), turn(1, 0) - turn(0, 1), 0, 0, 0;
      twist /= 2;
      twist.tail<3>() = Vec3Map(p->geom_xpos + 3 * geom) + turn * (point - Vec3Map(s.xpos[side])) - point;
      change += (side ? s.motion.by_geom2 : s.motion.by_geom1()) * twist;
      belt += (side ? s.belt.by_geom2 : s.belt.by_both - s.belt.by_geom2) * twist;
    }
    mjContact& contact = p->contact[nearest];
    contact.dim = s.contact.dim;
    contact.exclude = s.contact.exclude;
    contact.dist = s.contact.dist + change[0];
    Eigen::Map<Vec3>(contact.pos) = point + change.segment<3>(1);
    Eigen::Map<Vec3>(contact.surfacevel) = Vec3Map(s.contact.surfacevel) + belt;
    mju_copy(contact.frame, s.contact.frame, 9);
    const Vec3 w = change.tail<3>();
    if (w.isZero(0)) continue;
    const Mat3 turn = Eigen::AngleAxisd(w.norm(), w.normalized()).toRotationMatrix();
    for (int axis = 0; axis < 3; axis++)
      Eigen::Map<Vec3>(contact.frame + 3 * axis) = turn * Vec3Map(s.contact.frame + 3 * axis);
  }
}

void ResidualDifference::ForwardPosition(const mjModel* m) {
  mjData* p = probe_.get();
  if (jumping_.empty()) {
    mj_fwdPosition(m, p);
    return;
  }
  p->flg_energypos = 0;
  mj_fwdKinematics(m, p);
  mj_makeM(m, p);
  mj_factorM(m, p);
  mj_collision(m, p);
  PlaceJumping();
  mj_makeConstraint(m, p);
  mj_island(m, p);
  mj_projectConstraint(m, p);
  mj_transmission(m, p);
}

}  // namespace costate
