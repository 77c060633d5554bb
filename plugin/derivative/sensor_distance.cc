// Distances between geoms and along rays: (M16), (M17), (M19) of README.md.
#include <algorithm>
#include <cmath>

#include "derivative/chain.h"
#include "derivative/contact_closed.h"
#include "derivative/moving_geom.h"
#include "derivative/sensor.h"

namespace costate {

namespace {

constexpr double kTouching = 1e-8;  // [m] between nearest points: below it their direction is rounding
constexpr double kExact = 1e-10;    // of a geom's size: what rounding leaves of nearest points that no search has found
constexpr double kPoseStep = 1e-5;  // where a search has …
constexpr double kLeastStep = 1e-7;
constexpr double kAgree = 1e-6;  // … unless it jumps within the step, which the two quotients of five points show

// are the balls around two geoms further apart than that? A plane has none.
bool BallsApart(const mjModel* m, const mjData* d, int a, int b, double within) {
  const double radius[2] = {m->geom_rbound[a], m->geom_rbound[b]};
  if (!(radius[0] > 0) || !(radius[1] > 0)) return false;
  const double centers = (Vec3Map(d->geom_xpos + 3 * a) - Vec3Map(d->geom_xpos + 3 * b)).norm();
  return centers - radius[0] - radius[1] > within * (1 + kExact) + kTouching;
}

// no joint moves one of them against the other: whatever a search finds of one, it turns with both
bool MoveAsOne(const mjModel* m, const int* geom) {
  return LastDof(m, m->geom_bodyid[geom[0]]) == LastDof(m, m->geom_bodyid[geom[1]]);
}

}  // namespace

// (M16) n·dx = 0 on the surface that is hit: only the relative motion of surface and ray counts
bool SensorDerivative::Rangefinder(int i) {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;
  const int spec = m->sensor_intprm[i * mjNSENS];
  const auto wants = [&](int field) { return (spec & (1 << field)) != 0; };
  if (m->sensor_objtype[i] != mjOBJ_SITE || wants(mjRAYDATA_NORMAL)) return false;
  Frame site;
  FindFrame(mjOBJ_SITE, m->sensor_objid[i], &site);
  const Vec3 ray = site.R.col(2);
  int geom = -1;
  Vec3 normal = Vec3::Zero();
  const double distance = mj_ray(m, d, site.p.data(), ray.data(), nullptr, 1, site.body, &geom, normal.data());
  const bool hit = distance >= 0;
  const double slope = normal.dot(ray);
  const bool marched = hit && geom >= 0 && m->geom_type[geom] == mjGEOM_SDF;  // its normal is none of the surface
  if (hit && (geom < 0 || marched || std::abs(slope) < mjMINVAL)) return false;
  const Vec3 point = site.p + distance * ray;

  // rows of the fields that are asked for
  int row[mjNRAYDATA], at = row_;
  for (int field = 0; field < mjNRAYDATA; field++) {
    const bool vector = field == mjRAYDATA_DIR || field == mjRAYDATA_ORIGIN || field == mjRAYDATA_POINT;
    row[field] = at;
    if (wants(field)) at += vector ? 3 : 1;
  }
  MatrixXd& C = out_->C;
  const auto add_distance = [&](int dof, double change) {
    if (wants(mjRAYDATA_DIST)) C(row[mjRAYDATA_DIST], dof) += change;
    if (wants(mjRAYDATA_DEPTH)) C(row[mjRAYDATA_DEPTH], dof) += change;
    if (wants(mjRAYDATA_POINT)) C.block<3, 1>(row[mjRAYDATA_POINT], dof) += change * ray;
  };
  for (int dof = site.last; dof >= 0; dof = m->dof_parentid[dof]) {
    const Vec6 S = Vec6Map(d->cdof + 6 * dof);
    if (wants(mjRAYDATA_ORIGIN)) C.block<3, 1>(row[mjRAYDATA_ORIGIN], dof) = MotionAt(S, site.r);
    if (!hit) continue;
    if (wants(mjRAYDATA_DIR)) C.block<3, 1>(row[mjRAYDATA_DIR], dof) = S.head<3>().cross(ray);
    if (wants(mjRAYDATA_POINT)) C.block<3, 1>(row[mjRAYDATA_POINT], dof) = MotionAt(S, site.r + distance * ray);
  }
  if (!hit) return true;
  const int body = m->geom_bodyid[geom];
  const Vec3 r[2] = {site.r + distance * ray, point - Origin(m, d, body)};
  ForExclusiveDofs(m, site.last, LastDof(m, body), [&](int dof, int side) {
    add_distance(dof, (side ? 1 : -1) * normal.dot(MotionAt(Vec6Map(d->cdof + 6 * dof), r[side])) / slope);
  });
  return true;
}

// the nearest pair of geoms within the cutoff, with their nearest points as the engine has them
bool SensorDerivative::FindNearest(int i, NearestPoints* out) {
  const mjModel* m = at_.m;
  int first[2], count[2];
  const int type[2] = {m->sensor_objtype[i], m->sensor_reftype[i]}, id[2] = {m->sensor_objid[i], m->sensor_refid[i]};
  for (int side = 0; side < 2; side++) {
    const bool body = type[side] == mjOBJ_BODY;
    first[side] = body ? m->body_geomadr[id[side]] : id[side];
    count[side] = body ? m->body_geomnum[id[side]] : 1;
  }
  const double cutoff = m->sensor_cutoff[i];
  out->distance = cutoff;
  out->geom[0] = -1;
  for (int a = first[0]; a < first[0] + count[0]; a++) {
    for (int b = first[1]; b < first[1] + count[1]; b++) {
      // only what is nearer yet is looked for, by a search that gives up beyond; in penetration it measures otherwise
      const double within = out->distance > 0 ? out->distance : cutoff;
      if (BallsApart(m, at_.d, a, b, within)) continue;
      mjtNum between[6] = {0};
      const double found = mj_geomDistance(m, at_.d, a, b, within, between);
      if (found >= out->distance) continue;
      *out = {{a, b}, found, {Vec3Map(between), Vec3Map(between + 3)}, Vec3::Zero()};
    }
  }
  if (out->geom[0] >= 0) out->normal = (out->distance > 0 ? 1 : -1) * (out->point[1] - out->point[0]).normalized();
  return out->geom[0] >= 0;
}

// (M19) how nearest points move with the second geom while the first rests
SensorDerivative::Nearness SensorDerivative::MoveNearest(const NearestPoints& nearest, NearestRate* rate) {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;

  // as the engine's colliders have them: the lower type is the first
  const bool flip = m->geom_type[nearest.geom[0]] > m->geom_type[nearest.geom[1]];
  mjContact contact;
  contact.geom[0] = nearest.geom[flip];
  contact.geom[1] = nearest.geom[!flip];
  contact.dist = nearest.distance;
  const Vec3 n = (flip ? -1 : 1) * nearest.normal, middle = (nearest.point[0] + nearest.point[1]) / 2;
  Eigen::Map<Vec3>(contact.frame, 3) = n;
  Eigen::Map<Vec3>(contact.pos, 3) = middle;
  Patch first, second;
  if (m->geom_type[contact.geom[0]] == mjGEOM_PLANE) {
    PatchPair pair;
    if (!ClosedPatches(m, d, contact, &pair)) return Nearness::kUnknown;
    first = pair.first;
    second = pair.second;
  } else {
    const ConvexShape shape1(m, d, contact.geom[0]), shape2(m, d, contact.geom[1]);
    ConvexContact exact;
    if (!nearest_.Solve(shape1, shape2, n, middle, nearest.distance, m->opt.ccd_tolerance, &exact))
      return Nearness::kRough;
    if (exact.parallel) return (exact.normal - n).norm() > kExact ? Nearness::kRough : Nearness::kUnknown;
    first = exact.first;
    second = exact.second;
    const double off = (first.x - nearest.point[flip]).norm() + (second.x - nearest.point[!flip]).norm();
    if (off > kExact * std::min(shape1.radius(), shape2.radius())) return Nearness::kRough;
  }
  ContactRate moved;
  if (!MovePatches(first, second, n, nearest.distance, middle, &moved)) return Nearness::kUnknown;
  const Mat36 half = (nearest.distance * moved.dn + n * moved.dphi) / 2;
  rate->pivot = middle;
  rate->normal = (flip ? -1 : 1) * moved.dn;
  rate->point[flip] = moved.dp - half;
  rate->point[!flip] = moved.dp + half;
  if (!flip) return Nearness::kExact;

  // it is the first of the sensor's geoms that has moved: what moves both as one less that
  Mat36 turn = Mat36::Zero();
  turn.leftCols<3>() = -Skew(nearest.normal);
  rate->normal = turn - rate->normal;
  for (int side = 0; side < 2; side++) {
    Mat36 motion;
    motion << -Skew(nearest.point[side] - middle), Mat3::Identity();
    rate->point[side] = motion - rate->point[side];
  }
  return Nearness::kExact;
}

std::array<int, 2> SensorDerivative::SearchedGeoms(const mjModel* m, mjData* d, int sensor) {
  const int type = m->sensor_type[sensor];
  at_ = {m, d};
  NearestPoints nearest;
  NearestRate rate;
  const bool near = type == mjSENS_GEOMDIST || type == mjSENS_GEOMNORMAL || type == mjSENS_GEOMFROMTO;
  if (!near || !FindNearest(sensor, &nearest) || std::abs(nearest.distance) < kTouching) return {-1, -1};
  if (MoveNearest(nearest, &rate) != Nearness::kRough) return {-1, -1};
  return {nearest.geom[0], nearest.geom[1]};
}

// (M17) the engine's own distance of a pair along a dof that moves one of them, by five points that no jump parts
double SensorDerivative::DifferenceDistance(const NearestPoints& nearest, int dof, int side, double cutoff) {
  const mjModel* m = at_.m;
  mjData* d = at_.d;
  const Vec6 S = Vec6Map(d->cdof + 6 * dof);
  const Vec3 origin = Origin(m, d, m->dof_bodyid[dof]);
  MovingGeom geom(d, nearest.geom[side]);
  const auto distance = [&](double h) {
    geom.Move(origin, S, h);
    return mj_geomDistance(m, d, nearest.geom[0], nearest.geom[1], cutoff, nullptr);
  };
  for (double step = kPoseStep;; step /= 10) {
    const double near = distance(step) - distance(-step), far = distance(2 * step) - distance(-2 * step);
    const double slope = (8 * near - far) / (12 * step);
    if (std::abs(2 * near - far) <= kAgree * 4 * step * std::max(1.0, std::abs(slope)) || step <= kLeastStep)
      return slope;
  }
}

// (M17) the distance changes as that of the two nearest points, unless a search has found them
bool SensorDerivative::GeomDistance(int i) {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;
  NearestPoints nearest;
  if (!FindNearest(i, &nearest) || MoveAsOne(m, nearest.geom)) return true;
  if (std::abs(nearest.distance) < kTouching) return false;
  NearestRate rate;
  const bool searched = MoveNearest(nearest, &rate) == Nearness::kRough;
  const double cutoff = m->sensor_cutoff[i];
  const int body[2] = {m->geom_bodyid[nearest.geom[0]], m->geom_bodyid[nearest.geom[1]]};
  const Vec3 r[2] = {nearest.point[0] - Origin(m, d, body[0]), nearest.point[1] - Origin(m, d, body[1])};
  ForExclusiveDofs(m, LastDof(m, body[0]), LastDof(m, body[1]), [&](int dof, int side) {
    const double along = (side ? 1 : -1) * nearest.normal.dot(MotionAt(Vec6Map(d->cdof + 6 * dof), r[side]));
    out_->C(row_, dof) = searched ? DifferenceDistance(nearest, dof, side, cutoff) : along;
  });
  return true;
}

// (M19) the nearest points themselves, and the direction from one to the other
bool SensorDerivative::GeomNearest(int i) {
  const mjModel* m = at_.m;
  const mjData* d = at_.d;
  const bool normal = m->sensor_type[i] == mjSENS_GEOMNORMAL;
  NearestPoints nearest;
  NearestRate rate;
  if (!FindNearest(i, &nearest)) return true;
  if (std::abs(nearest.distance) < kTouching) return false;
  const Nearness nearness = MoveNearest(nearest, &rate);
  if (nearness != Nearness::kExact && !(nearness == Nearness::kRough && MoveAsOne(m, nearest.geom))) return false;
  const int body[2] = {m->geom_bodyid[nearest.geom[0]], m->geom_bodyid[nearest.geom[1]]};
  const double sign = nearest.distance > 0 ? 1 : -1;
  const auto add = [&](int dof, const Vec6& S, const Vec6& twist, bool both, double direction) {
    for (int k = 0; k < 2 && !normal; k++) {
      Vec3 change = Vec3::Zero();
      if (direction != 0) change = direction * rate.point[k] * twist;
      if (both) change += MotionAt(S, nearest.point[k] - Origin(m, d, m->dof_bodyid[dof]));
      out_->C.block<3, 1>(row_ + 3 * k, dof) = change;
    }
    if (!normal) return;
    Vec3 change = Vec3::Zero();
    if (direction != 0) change = direction * rate.normal * twist;
    if (both) change += S.head<3>().cross(nearest.normal);
    out_->C.block<3, 1>(row_, dof) = sign * change;
  };

  // the first geom moves: both as one, less the second
  const auto twist_of = [&](int dof, Vec6* S) {
    *S = Vec6Map(d->cdof + 6 * dof);
    return MotionAbout(*S, rate.pivot - Origin(m, d, m->dof_bodyid[dof]));
  };
  Vec6 S;
  int common = ForExclusiveDofs(m, LastDof(m, body[0]), LastDof(m, body[1]), [&](int dof, int side) {
    const Vec6 twist = twist_of(dof, &S);
    add(dof, S, twist, side == 0, side == 0 ? -1 : 1);
  });
  for (; common >= 0; common = m->dof_parentid[common]) {
    S = Vec6Map(d->cdof + 6 * common);
    add(common, S, Vec6::Zero(), true, 0);
  }
  return true;
}

}  // namespace costate
