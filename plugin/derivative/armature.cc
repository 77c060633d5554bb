#include "derivative/armature.h"

#include <costate/model.h>

#include <algorithm>

#include "derivative/body_point.h"

namespace costate {

namespace {

// of spatial tendons; the inertia of fixed ones is constant
double Armature(const mjModel* m, int t) {
  if (IsFixedTendon(m, t)) return 0;
  double armature = m->tendon_armature[t];
  if (m->tendon_actuatorid[t] == -1) return armature;
  for (int i = 0; i < m->nactuator; i++) {
    if (m->actuator_trntype[i] != mjTRN_TENDON || m->actuator_trnid[2 * i] != t) continue;
    const double gear = m->actuator_gear[6 * m->actuator_outadr[i]];
    armature += m->actuator_armature[i] * gear * gear;
  }
  return armature;
}

// J_i P_i with P_i = Σ_k J_k x_k over k on i's path, where M has entries: value and derivative
struct Truncated {
  Eigen::VectorXd P;
  Eigen::MatrixXd dP;
  Truncated(const mjModel* m, const Moment& moment, const double* x) {
    const int n = moment.size();
    P.setZero(n);
    dP.setZero(n, n);
    for (int i = 0; i < n; i++) {
      for (int k = 0; k < n; k++) {
        if (!OnePath(m, moment.dof[i], moment.dof[k])) continue;
        P[i] += moment.J[k] * x[moment.dof[k]];
        dP.row(i) += x[moment.dof[k]] * moment.G.row(k);
      }
    }
  }
};

// "" or why the tendon's armature has no closed form
std::string PathMissing(const mjModel* m, int t) {
  for (int j = m->tendon_adr[t]; j < m->tendon_adr[t] + m->tendon_num[t]; j++) {
    const int type = m->wrap_type[j];
    if (type != mjWRAP_SITE && type != mjWRAP_PULLEY)
      return "armature around a geom of " + ElementName(m, mjOBJ_TENDON, t);
    if (type == mjWRAP_SITE && HasJointBehindBall(m, m->site_bodyid[m->wrap_objid[j]])) {
      return "armature behind a joint that follows a ball joint of one body, of " + ElementName(m, mjOBJ_TENDON, t);
    }
  }
  return "";
}

// J̇ v = vᵀ G v and its slopes by v
double BiasRate(const mjData* d, const Moment& moment, Eigen::VectorXd* by_v) {
  double bias = 0;
  *by_v = moment.rate;
  for (int i = 0; i < moment.size(); i++) {
    bias += moment.rate[i] * d->qvel[moment.dof[i]];
    *by_v += moment.G.col(i) * d->qvel[moment.dof[i]];
  }
  return bias;
}

// ∂(l̈) by q of a tendon through sites, at the acceleration of `tree`
Eigen::VectorXd LengthAcceleration(const mjModel* m, const mjData* d, const TreeDerivative& tree, int t,
                                   const Moment& moment) {
  std::vector<int> slot(m->nv, -1);
  for (int i = 0; i < moment.size(); i++) slot[moment.dof[i]] = i;
  Eigen::VectorXd out = Eigen::VectorXd::Zero(moment.size());
  const int* type = m->wrap_type + m->tendon_adr[t];
  const int* id = m->wrap_objid + m->tendon_adr[t];
  double divisor = 1;
  for (int j = 0; j < m->tendon_num[t] - 1; j++) {
    if (type[j] == mjWRAP_PULLEY) divisor = m->wrap_prm[m->tendon_adr[t] + j];
    if (type[j] != mjWRAP_SITE || type[j + 1] != mjWRAP_SITE) continue;
    BodyPoint point[2];
    Vec3 acceleration[2];
    for (int s = 0; s < 2; s++) {
      const int body = m->site_bodyid[id[j + s]];
      point[s] = BodyPoint(m, d, tree, body, Vec3Map(d->site_xpos + 3 * id[j + s]));
      acceleration[s] = point[s].last_dof() >= 0 ? point[s].acceleration() : Vec3(tree.acceleration(0).tail<3>());
    }
    Vec3 line = Vec3Map(d->site_xpos + 3 * id[j + 1]) - Vec3Map(d->site_xpos + 3 * id[j]);
    const double length = line.norm();
    if (length < mjMINVAL) continue;
    line /= length;
    const Vec3 v = point[1].velocity() - point[0].velocity(), a = acceleration[1] - acceleration[0];
    const double along = line.dot(v), turning = (v.squaredNorm() - along * along) / length;
    ForExclusiveDofs(m, point[0].last_dof(), point[1].last_dof(), [&](int dof, int side) {
      const double sign = side ? 1 : -1;
      const PointChange change = point[side].ByPosition(d, tree, dof);
      const Vec3 dx = sign * change.position, dv = sign * change.velocity, da = sign * change.acceleration;
      const Vec3 dline = (dx - line * line.dot(dx)) / length;
      const double dturning =
          2 * (v.dot(dv) - along * (dline.dot(v) + line.dot(dv))) / length - turning / length * line.dot(dx);
      if (slot[dof] >= 0) out[slot[dof]] += (dline.dot(a) + line.dot(da) + dturning) / divisor;
    });
  }
  return out;
}

}  // namespace

bool OnePath(const mjModel* m, int i, int j) {
  int later = std::max(i, j);
  const int earlier = std::min(i, j);
  while (later > earlier) later = m->dof_parentid[later];
  return later == earlier;
}

std::string ArmatureMissing(const mjModel* m) {
  for (int t = 0; t < m->ntendon; t++) {
    const std::string missing = Armature(m, t) == 0 ? "" : PathMissing(m, t);
    if (!missing.empty()) return missing;
  }
  return "";
}

bool HasMovingArmature(const mjModel* m) {
  for (int t = 0; t < m->ntendon; t++) {
    if (Armature(m, t) != 0) return true;
  }
  return false;
}

// (T13) μ [(JᵀJ on M's pattern) a + Jᵀ J̇ v], J̇ v = vᵀ G v, whose derivative by q is that of l̈ less Gᵀ a
void AddTendonArmature(const mjModel* m, const mjData* d, const TreeDerivative& tree, const TendonMoments& tendons,
                       const double* a, Columns* R) {
  const int nv = static_cast<int>(m->nv);
  for (int t : tendons.used()) {
    const double armature = Armature(m, t);
    if (armature == 0) continue;
    const Moment& moment = tendons[t];
    const Truncated product(m, moment, a);
    Eigen::VectorXd by_v;
    const double bias = BiasRate(d, moment, &by_v);
    const Eigen::VectorXd by_q = LengthAcceleration(m, d, tree, t, moment) - moment.Turn(a);
    for (int i = 0; i < moment.size(); i++) {
      for (int j = 0; j < moment.size(); j++) {
        const double q = moment.G(i, j) * (product.P[i] + bias) + moment.J[i] * (product.dP(i, j) + by_q[j]);
        (*R)(moment.dof[i], moment.dof[j]) -= armature * q;
        (*R)(moment.dof[i], nv + moment.dof[j]) -= armature * moment.J[i] * by_v[j];
      }
    }
  }
}

bool FindArmaturePull(const mjModel* m, const mjData* d, const TreeDerivative& tree, int t, const Moment& moment,
                      const double* a, ArmaturePull* out) {
  *out = ArmaturePull();
  out->armature = Armature(m, t);
  if (out->armature == 0) return true;
  if (!PathMissing(m, t).empty()) return false;
  out->force = -out->armature * (moment.Along(a) + BiasRate(d, moment, &out->by_v));
  out->by_v *= -out->armature;
  out->by_q = -out->armature * LengthAcceleration(m, d, tree, t, moment);
  return true;
}

void AddTendonArmatureProduct(const mjModel* m, const TendonMoments& tendons, const double* e, Columns* E) {
  for (int t : tendons.used()) {
    const double armature = Armature(m, t);
    if (armature == 0) continue;
    const Moment& moment = tendons[t];
    const Truncated product(m, moment, e);
    for (int i = 0; i < moment.size(); i++) {
      for (int j = 0; j < moment.size(); j++) {
        const double q = moment.G(i, j) * product.P[i] + moment.J[i] * product.dP(i, j);
        (*E)(moment.dof[i], moment.dof[j]) += armature * q;
      }
    }
  }
}

}  // namespace costate
