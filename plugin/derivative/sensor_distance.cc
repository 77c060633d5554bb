// Distances between geoms and along rays: (M16)–(M17) of README.md.
#include "derivative/chain.h"
#include "derivative/sensor.h"

namespace costate {

namespace {

constexpr double kTouching = 1e-8;  // [m] between nearest points: below it their direction is rounding

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
  if (hit && (geom < 0 || std::abs(slope) < mjMINVAL)) return false;
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

// (M17) the distance changes as that of the two nearest points
bool SensorDerivative::GeomDistance(int i) {
  const mjModel* m = at_.m;
  mjData* d = at_.d;
  const double cutoff = m->sensor_cutoff[i];
  int first[2], count[2];
  const int type[2] = {m->sensor_objtype[i], m->sensor_reftype[i]}, id[2] = {m->sensor_objid[i], m->sensor_refid[i]};
  for (int side = 0; side < 2; side++) {
    const bool body = type[side] == mjOBJ_BODY;
    first[side] = body ? m->body_geomadr[id[side]] : id[side];
    count[side] = body ? m->body_geomnum[id[side]] : 1;
  }
  double distance = cutoff;
  int geom[2] = {-1, -1};
  mjtNum segment[6] = {0};
  for (int a = first[0]; a < first[0] + count[0]; a++) {
    for (int b = first[1]; b < first[1] + count[1]; b++) {
      mjtNum between[6] = {0};
      const double found = mj_geomDistance(m, d, a, b, cutoff, between);
      if (found >= distance) continue;
      distance = found;
      geom[0] = a;
      geom[1] = b;
      mju_copy(segment, between, 6);
    }
  }
  if (geom[0] < 0) return true;  // beyond the cutoff
  const Vec3 from = Vec3Map(segment), to = Vec3Map(segment + 3), span = to - from;
  if (std::abs(distance) < kTouching) return false;
  const Vec3 n = (distance > 0 ? 1 : -1) * span.normalized();
  const int body[2] = {m->geom_bodyid[geom[0]], m->geom_bodyid[geom[1]]};
  const Vec3 r[2] = {from - Origin(m, d, body[0]), to - Origin(m, d, body[1])};
  ForExclusiveDofs(m, LastDof(m, body[0]), LastDof(m, body[1]), [&](int dof, int side) {
    out_->C(row_, dof) = (side ? 1 : -1) * n.dot(MotionAt(Vec6Map(d->cdof + 6 * dof), r[side]));
  });
  return true;
}

}  // namespace costate
