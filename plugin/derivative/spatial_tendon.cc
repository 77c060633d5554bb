#include "derivative/spatial_tendon.h"

#include <costate/model.h>

#include <cmath>

#include "derivative/plant.h"
#include "derivative/wrap.h"

namespace costate {

namespace {

using RowMat3 = Eigen::Matrix<double, 3, 3, Eigen::RowMajor>;

// a tendon that only is measured needs no moment
std::vector<char> UsedTendons(const mjModel* m) {
  std::vector<char> used(m->ntendon, 0);
  for (int t = 0; t < m->ntendon; t++) {
    used[t] = m->tendon_stiffness[t] != 0 || m->tendon_damping[t] != 0 || m->tendon_limited[t] ||
              m->tendon_frictionloss[t] > 0 || m->tendon_armature[t] != 0 || m->tendon_actuatorid[t] != -1 ||
              !mju_isZero(m->tendon_stiffnesspoly + mjNPOLY * t, mjNPOLY) ||
              !mju_isZero(m->tendon_dampingpoly + mjNPOLY * t, mjNPOLY);
  }
  for (int i = 0; i < m->nactuator; i++) {
    if (m->actuator_trntype[i] == mjTRN_TENDON) used[m->actuator_trnid[2 * i]] = 1;
  }
  for (int i = 0; i < m->neq; i++) {
    if (m->eq_type[i] != mjEQ_TENDON) continue;
    used[m->eq_obj1id[i]] = 1;
    if (m->eq_obj2id[i] >= 0) used[m->eq_obj2id[i]] = 1;
  }
  return used;
}

void FixedMoment(const mjModel* m, const mjData* d, int t, Moment* moment) {
  const int adr = m->ten_J_rowadr[t], n = m->ten_J_rownnz[t];
  if (moment->size() != n) {
    moment->dof.assign(m->ten_J_colind + adr, m->ten_J_colind + adr + n);
    moment->J.resize(n);
    moment->length.resize(n);
    moment->G.setZero(n, n);
    moment->rate.setZero(n);
  }
  for (int k = 0; k < n; k++) moment->J[k] = moment->length[k] = d->ten_J[adr + k];
}

// (T8) a straight piece: frame and first end are those of the first site
MomentElement Straight(const mjModel* m, const mjData* d, int site0, int site1, double divisor) {
  MomentElement element;
  element.frame = m->site_bodyid[site0];
  element.body[0] = m->site_bodyid[site1];
  element.point[0] = Vec3Map(d->site_xpos + 3 * site1);
  Vec3 line = element.point[0] - Vec3Map(d->site_xpos + 3 * site0);
  const double length = line.norm();
  line = length < mjMINVAL ? Vec3(Vec3::UnitX()) : Vec3(line / length);
  element.force[0] = line / divisor;
  if (length >= mjMINVAL)
    element.H.topLeftCorner<3, 3>() =
        PLANT("tendon: straight piece", (Mat3::Identity() - line * line.transpose()) / (length * divisor));
  return element;
}

bool Wrapped(const mjModel* m, const mjData* d, int at, int geom, int side, const int* site, double divisor,
             MomentElement* element) {
  const Mat3 R = Eigen::Map<const RowMat3>(d->geom_xmat + 9 * geom);
  const Vec3 center = Vec3Map(d->geom_xpos + 3 * geom);
  const auto local = [&](const double* x) { return Vec3(R.transpose() * (Vec3Map(x) - center)); };
  Wrap wrap;
  wrap.cylinder = m->geom_type[geom] != mjGEOM_SPHERE;
  wrap.radius = m->geom_size[3 * geom];
  wrap.inside = side >= 0 && local(d->site_xpos + 3 * side).norm() < wrap.radius;
  for (int k = 0; k < 2; k++) {
    wrap.end[k] = local(d->site_xpos + 3 * site[k]);
    wrap.touch[k] = local(d->wrap_xpos + 3 * (at + 1 + k));
  }
  WrapDerivative derivative;
  if (!Differentiate(wrap, &derivative)) return false;

  // into the world
  element->frame = m->geom_bodyid[geom];
  element->points = 2;
  for (int k = 0; k < 2; k++) {
    element->body[k] = m->site_bodyid[site[k]];
    element->point[k] = Vec3Map(d->site_xpos + 3 * site[k]);
    element->force[k] = R * derivative.force[k] / divisor;
    element->slack.segment<3>(3 * k) = R * derivative.slack.segment<3>(3 * k) / divisor;
    for (int l = 0; l < 2; l++) {
      element->H.block<3, 3>(3 * k, 3 * l) =
          PLANT("tendon: wrapped piece", R * derivative.H.block<3, 3>(3 * k, 3 * l) * R.transpose() / divisor);
    }
  }
  return true;
}

}  // namespace

bool IsFixedTendon(const mjModel* m, int t) { return m->wrap_type[m->tendon_adr[t]] == mjWRAP_JOINT; }

TendonMoments::TendonMoments(const mjModel* m) : TendonMoments(m, UsedTendons(m)) {}
TendonMoments::TendonMoments(const mjModel* m, const std::vector<char>& used)
    : builder_(m), used_(used), moment_(m->ntendon) {}

std::string TendonMoments::Compute(const mjModel* m, const mjData* d) {
  std::string missing;
  for (int t = 0; t < m->ntendon; t++) {
    if (!used_[t]) continue;
    if (IsFixedTendon(m, t)) {
      FixedMoment(m, d, t, &moment_[t]);
      continue;
    }
    builder_.Begin(&moment_[t]);
    const std::string why = Path(m, d, t);
    if (missing.empty()) missing = why;
    builder_.End(d);
  }
  return missing;
}

// walks the tendon's objects beside the path that the engine made of them
std::string TendonMoments::Path(const mjModel* m, const mjData* d, int t) {
  const int adr = m->tendon_adr[t], count = m->tendon_num[t];
  double divisor = 1;
  int at = d->ten_wrapadr[t];
  for (int j = 0; j < count - 1;) {
    const int *type = m->wrap_type + adr + j, *id = m->wrap_objid + adr + j;
    if (type[0] == mjWRAP_PULLEY || type[1] == mjWRAP_PULLEY) {
      if (type[0] == mjWRAP_PULLEY) divisor = m->wrap_prm[adr + j], at++;
      j++;
      continue;
    }
    const bool geom = type[1] == mjWRAP_SPHERE || type[1] == mjWRAP_CYLINDER;
    const int site[2] = {id[0], geom ? id[2] : id[1]};
    if (geom && d->wrap_obj[at + 1] == id[1]) {
      MomentElement element;
      const int side = static_cast<int>(std::lround(m->wrap_prm[adr + j + 1]));
      if (!Wrapped(m, d, at, id[1], side, site, divisor, &element)) {
        return ElementName(m, mjOBJ_TENDON, t) + " at " + ElementName(m, mjOBJ_GEOM, id[1]) + ": its path may turn to any side";
      }
      builder_.Add(m, d, element);
      at += 3;
    } else {
      builder_.Add(m, d, Straight(m, d, site[0], site[1], divisor));
      at++;
    }
    j += geom ? 2 : 1;
    if (j == count - 1 || m->wrap_type[adr + j + 1] == mjWRAP_PULLEY) at++;
  }
  return "";
}

}  // namespace costate
