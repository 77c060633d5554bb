#include "derivative/spatial_tendon.h"

#include <costate/model.h>

#include <algorithm>
#include <cmath>

#include "core/finite.h"
#include "derivative/chain.h"
#include "derivative/plant.h"
#include "derivative/wrap.h"

namespace costate {

namespace {

using RowMat3 = Eigen::Matrix<double, 3, 3, Eigen::RowMajor>;

// tendons that actuators and equalities pull at
std::vector<char> NamedTendons(const mjModel* m) {
  std::vector<char> used(m->ntendon, 0);
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

// Do any of so many tendons, by values that may change between calls? One look at all: most are zero in most models.
// Limits are rows of the solver, which has their J: HasTurningRow.
bool PullByThemselves(const mjModel* m, int t, mjtSize count) {
  return std::any_of(m->tendon_actuatorid + t, m->tendon_actuatorid + t + count, [](int id) { return id != -1; }) ||
         !AreZero(m->tendon_stiffness + t, count) || !AreZero(m->tendon_damping + t, count) ||
         !AreZero(m->tendon_frictionloss + t, count) || !AreZero(m->tendon_armature + t, count) ||
         !AreZero(m->tendon_stiffnesspoly + mjNPOLY * t, mjNPOLY * count) ||
         !AreZero(m->tendon_dampingpoly + mjNPOLY * t, mjNPOLY * count);
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

// frame and first end are those of the first site
MomentElement Straight(const mjModel* m, const mjData* d, int site0, int site1, double divisor) {
  return StraightElement(m->site_bodyid[site0], Vec3Map(d->site_xpos + 3 * site0), m->site_bodyid[site1],
                         Vec3Map(d->site_xpos + 3 * site1), divisor);
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

// f(element) for the pieces of a tendon: walks its objects beside the path that the engine made of them
template <typename F>
std::string ForElements(const mjModel* m, const mjData* d, int t, F f) {
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
        return ElementName(m, mjOBJ_TENDON, t) + " at " + ElementName(m, mjOBJ_GEOM, id[1]) +
               ": its path may turn to any side";
      }
      f(element);
      at += 3;
    } else {
      f(Straight(m, d, site[0], site[1], divisor));
      at++;
    }
    j += geom ? 2 : 1;
    if (j == count - 1 || m->wrap_type[adr + j + 1] == mjWRAP_PULLEY) at++;
  }
  return "";
}

// (T14) in the frame of the geom, a cylinder's heights left out; false where an end lies within it
bool FindRoom(const Vec3* end, double radius, bool inside, const Vec3* side, WrapRoom* out) {
  if (end[0].norm() < radius || end[1].norm() < radius) return false;
  const Vec3 line = end[1] - end[0];
  const Vec3 nearest = end[0] - std::clamp(line.dot(end[0]) / std::max(mjMINVAL, line.squaredNorm()), -1.0, 0.0) * line;
  const double beyond = nearest.norm() - radius;
  out->wraps = inside ? beyond > 0 : beyond < 0;
  out->room = std::abs(beyond);
  if (!inside && !side && out->wraps && nearest.norm() < out->room) {
    out->turns = true;
    out->room = nearest.norm();
  }
  if (inside || !side) return true;
  const Vec3 across = end[0].cross(end[1]);
  Vec3 direction = *side - across * across.dot(*side) / std::max(mjMINVAL, across.squaredNorm());
  if (direction.norm() < mjMINVAL) return false;
  const double height = direction.normalized().dot(nearest);
  if (height < 0) {
    // around by its side, to where the line is beside the circle on the other half
    out->wraps = true;
    const double aside = std::sqrt(std::max(0.0, nearest.squaredNorm() - height * height));
    out->room = std::hypot(height, std::max(0.0, radius - aside));
  } else if (!out->wraps) {
    out->room = std::min(beyond, height);
  }
  return true;
}

Vec6 WrenchAt(const Vec3& force, const Vec3& r) {
  Vec6 wrench;
  wrench << r.cross(force), force;
  return wrench;
}

}  // namespace

bool IsFixedTendon(const mjModel* m, int t) { return m->wrap_type[m->tendon_adr[t]] == mjWRAP_JOINT; }

bool HasTurningRow(const mjModel* m, int t) {
  return (m->tendon_limited[t] || m->tendon_frictionloss[t] > 0) && !IsFixedTendon(m, t);
}

TendonMoments::TendonMoments(const mjModel* m) : TendonMoments(m, NamedTendons(m)) { by_values_ = true; }
TendonMoments::TendonMoments(const mjModel* m, const std::vector<char>& used)
    : builder_(m), named_(used), moment_(m->ntendon) {}

std::string TendonMoments::Compute(const mjModel* m, const mjData* d) {
  std::string missing;
  const bool any = by_values_ && m->ntendon > 0 && PullByThemselves(m, 0, m->ntendon);
  used_.clear();
  for (int t = 0; t < m->ntendon; t++) {
    if (!named_[t] && !(by_values_ && HasTurningRow(m, t)) && !(any && PullByThemselves(m, t, 1))) {
      if (moment_[t].size() > 0) moment_[t] = {};
      continue;
    }
    used_.push_back(t);
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

std::vector<WrapRoom> TendonMoments::Rooms(const mjModel* m, const mjData* d) const {
  std::vector<WrapRoom> rooms;
  for (int t : used_) {
    for (int w = m->tendon_adr[t]; w < m->tendon_adr[t] + m->tendon_num[t]; w++) {
      const bool cylinder = m->wrap_type[w] == mjWRAP_CYLINDER;
      if (!cylinder && m->wrap_type[w] != mjWRAP_SPHERE) continue;
      WrapRoom room;
      room.tendon = t;
      room.geom = m->wrap_objid[w];
      const Eigen::Map<const RowMat3> R(d->geom_xmat + 9 * room.geom);
      const Vec3 center = Vec3Map(d->geom_xpos + 3 * room.geom);
      const double radius = m->geom_size[3 * room.geom];
      const int side = static_cast<int>(std::lround(m->wrap_prm[w])),
                site[3] = {m->wrap_objid[w - 1], m->wrap_objid[w + 1], side};
      Vec3 x[3];
      bool inside = false;
      for (int k = 0; k < (side < 0 ? 2 : 3); k++) {
        x[k] = R.transpose() * (Vec3Map(d->site_xpos + 3 * site[k]) - center);
        inside = k == 2 && x[k].norm() < radius;
        if (cylinder) x[k].z() = 0;
      }
      if (FindRoom(x, radius, inside, side < 0 ? nullptr : &x[2], &room)) rooms.push_back(room);
    }
  }
  return rooms;
}

std::string TendonMoments::Path(const mjModel* m, const mjData* d, int t) {
  return ForElements(m, d, t, [&](const MomentElement& element) { builder_.Add(m, d, element); });
}

bool LeavesBodies(const mjModel* m, int t, int begin, int end) {
  bool inside = false, outside = false;
  for (int w = m->tendon_adr[t]; w < m->tendon_adr[t] + m->tendon_num[t]; w++) {
    const int type = m->wrap_type[w], id = m->wrap_objid[w];
    if (type == mjWRAP_JOINT || type == mjWRAP_PULLEY) continue;
    const int body = type == mjWRAP_SITE ? m->site_bodyid[id] : m->geom_bodyid[id];
    (body >= begin && body < end ? inside : outside) = true;
  }
  return inside && outside;
}

bool FindCrossingWrench(const mjModel* m, const mjData* d, int t, int begin, int end, const Vec3& origin,
                        CrossingWrench* out) {
  const auto inside = [&](int body) { return body >= begin && body < end ? 1 : 0; };
  std::vector<int>&moved = out->moved, &dofs = out->dofs;
  moved.assign(m->nv, 0);
  out->wrench.setZero();
  out->by_position.setZero(6, m->nv);
  const auto add = [&](const MomentElement& e) {
    int side[2] = {0, 0};
    for (int k = 0; k < e.points; k++) side[k] = inside(e.body[k]) - inside(e.frame);
    if (side[0] == 0 && side[1] == 0) return;
    for (int k = 0; k < e.points; k++) out->wrench += side[k] * WrenchAt(e.force[k], e.point[k] - origin);

    // points move with their bodies, forces turn with the frame and change by H
    dofs.clear();
    for (int b = -1; b < e.points; b++) {
      for (int i = LastDof(m, b < 0 ? e.frame : e.body[b]); i >= 0; i = m->dof_parentid[i]) {
        if (moved[i] == 0) dofs.push_back(i);
        moved[i] |= 1 << (b + 1);
      }
    }
    for (int i : dofs) {
      const Vec6 S = Vec6Map(d->cdof + 6 * i);
      const Vec3 center = Origin(m, d, m->dof_bodyid[i]);
      const int frame = moved[i] & 1;
      Vec6 motion = Vec6::Zero(), turn = Vec6::Zero();  // of the points in the frame; of the forces with it
      Vec3 change[2];
      for (int k = 0; k < e.points; k++) {
        const int own = (moved[i] >> (k + 1)) & 1;
        const Vec3 velocity = MotionAt(S, e.point[k] - center);
        motion.segment<3>(3 * k) = (own - frame) * velocity;
        turn.segment<3>(3 * k) = frame * S.head<3>().cross(e.force[k]);
        change[k] = own * velocity;
      }
      const Vec6 force = turn + e.H * motion;
      for (int k = 0; k < e.points; k++) {
        out->by_position.col(i) += side[k] * WrenchAt(force.segment<3>(3 * k), e.point[k] - origin);
        out->by_position.col(i).head<3>() += side[k] * change[k].cross(e.force[k]);
      }
      moved[i] = 0;
    }
  };
  return ForElements(m, d, t, add).empty();
}

}  // namespace costate
