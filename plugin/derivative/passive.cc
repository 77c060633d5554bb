#include "derivative/passive.h"

#include <costate/model.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "core/driven.h"
#include "core/finite.h"
#include "core/joint.h"
#include "core/plugins.h"
#include "derivative/actuation.h"
#include "derivative/chain.h"
#include "derivative/compliant_contact.h"
#include "derivative/equilibrium.h"
#include "derivative/flex.h"
#include "derivative/plant.h"

namespace costate {

namespace {

bool Disabled(const mjModel* m, int bit) { return (m->opt.disableflags & bit) != 0; }

// d/dx of x (linear + Σ poly_k x^(k+1))
double PolySlope(double linear, const mjtNum* poly, double x) {
  double slope = linear, power = 1;
  for (int k = 0; k < mjNPOLY; k++) {
    power *= x;
    slope += (k + 2) * poly[k] * power;
  }
  return slope;
}

// linear + Σ poly_k x^(k+1)
double PolyValue(double linear, const mjtNum* poly, double x) {
  double value = linear, power = 1;
  for (int k = 0; k < mjNPOLY; k++) {
    power *= x;
    value += poly[k] * power;
  }
  return value;
}

void AddActuatorDamping(const mjModel* m, int actuator, Damping* damping) {
  const double gear = m->actuator_gear[6 * m->actuator_outadr[actuator]];
  damping->linear += m->actuator_damping[actuator] * gear * gear;
  for (int k = 0; k < mjNPOLY; k++) damping->poly[k] += m->actuator_dampingpoly[mjNPOLY * actuator + k] * gear * gear;
}

// `owner`: -1 no actuator, ≥ 0 one, below -1 several that have to be looked up
template <typename Acts>
void AddActuatorsDamping(const mjModel* m, int owner, Acts acts_on, Damping* damping) {
  if (owner >= 0) AddActuatorDamping(m, owner, damping);
  for (int i = 0; owner < -1 && i < m->nactuator; i++) {
    if (acts_on(i)) AddActuatorDamping(m, i, damping);
  }
}

// a radial spring −k(r) e on three coordinates, e = e(q): −[k 1 + k'(r)/r e eᵀ] ∂e/∂q
void AddRadialSpring(double stiffness, const mjtNum* poly, const Eigen::Vector3d& e, const Eigen::Matrix3d& de, int dof,
                     Columns* R) {
  const double r = e.norm(), k = PolyValue(stiffness, poly, r);
  double k_slope = 0, power = 1;
  for (int n = 0; n < mjNPOLY; n++, power *= r) k_slope += (n + 1) * poly[n] * power;
  Eigen::Matrix3d block = PLANT("spring: radial", k * de);
  if (r > mjMINVAL) block += PLANT("spring: radial slope", k_slope / r * e * (e.transpose() * de));
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) (*R)(dof + i, dof + j) -= block(i, j);
  }
}

bool AllZero(const mjtNum* poly) {
  bool zero = true;
  for (int k = 0; k < mjNPOLY; k++) zero = zero && poly[k] == 0;
  return zero;
}

// of a ball or free joint
void AddRotationSpring(const mjModel* m, const mjData* d, int j, Columns* R) {
  const mjtNum* poly = m->jnt_stiffnesspoly + mjNPOLY * j;
  const double stiffness = m->jnt_stiffness[j];
  const mjtNum *q = d->qpos + m->jnt_qposadr[j], *rest = SpringReference(m, d, j);
  int dof = m->jnt_dofadr[j];
  if (m->jnt_type[j] == mjJNT_FREE) {
    const Eigen::Vector3d e = Eigen::Map<const Eigen::Vector3d>(q) - Eigen::Map<const Eigen::Vector3d>(rest);
    AddRadialSpring(stiffness, poly, e, Eigen::Matrix3d::Identity(), dof, R);
    q += 3;
    rest += 3;
    dof += 3;
  }
  Eigen::Matrix<double, 3, 3, Eigen::RowMajor> de;
  Eigen::Vector3d e;
  mjtNum quat[4];
  mju_copy4(quat, q);
  mju_normalize4(quat);
  mju_subQuat(e.data(), quat, rest);
  mjd_subQuat(quat, rest, de.data(), nullptr);
  AddRadialSpring(stiffness, poly, e, de, dof, R);
}

void AddJointSpring(const mjModel* m, const mjData* d, int j, Columns* R) {
  const mjtNum* poly = m->jnt_stiffnesspoly + mjNPOLY * j;
  const int type = m->jnt_type[j], dof = m->jnt_dofadr[j];
  double slope = m->jnt_stiffness[j];
  const bool linear = AllZero(poly);
  if (linear && slope == 0) return;
  if (!IsScalarJoint(type)) return AddRotationSpring(m, d, j, R);
  if (!linear) slope = PolySlope(slope, poly, d->qpos[m->jnt_qposadr[j]] - SpringReference(m, d, j)[0]);
  (*R)(dof, dof) -= PLANT("spring: joint", slope);
}

bool MayPull(const mjModel* m, int t) {
  return m->tendon_stiffness[t] != 0 || m->tendon_damping[t] != 0 || m->tendon_actuatorid[t] != -1 ||
         !AllZero(m->tendon_stiffnesspoly + mjNPOLY * t) || !AllZero(m->tendon_dampingpoly + mjNPOLY * t);
}

// (P3)
void AddTendon(const mjModel* m, const mjData* d, int t, const Moment& moment, Columns* R) {
  if (!MayPull(m, t)) return;
  const TendonPull pull = FindTendonPull(m, d, t);
  if (pull.force == 0 && pull.stiffness == 0 && pull.damping == 0) return;
  AddSlopes(moment, static_cast<int>(m->nv), PLANT("spring: tendon", -pull.stiffness),
            PLANT("damper: tendon", -pull.damping), nullptr, R);
  if (!IsFixedTendon(m, t)) AddTurning(moment, PLANT("spring: turning tendon", pull.force), nullptr, R);
}

}  // namespace

double Damping::Value(double v) const { return PolyValue(linear, poly, std::abs(v)); }

double Damping::Slope(double v) const { return PolySlope(linear, poly, std::abs(v)); }

// at rest, where |v| v has two, their mean
double Damping::SlopeSlope(double v) const {
  if (v == 0) return 0;
  double slope = 0, power = 1;
  for (int k = 0; k < mjNPOLY; k++, power *= std::abs(v))
    slope += PLANT("damper: polynomial", (k + 1) * (k + 2) * poly[k] * power);
  return v < 0 ? -slope : slope;
}

bool HasLinearDamping(const mjModel* m) {
  return AreZero(m->dof_dampingpoly, mjNPOLY * m->nv) &&
         std::all_of(m->jnt_actuatorid, m->jnt_actuatorid + m->njnt, [](int id) { return id == -1; });
}

bool Damping::IsZero() const { return linear == 0 && AllZero(poly); }

Damping DofDamping(const mjModel* m, int dof) {
  Damping damping;
  damping.linear = m->dof_damping[dof];
  std::copy_n(m->dof_dampingpoly + mjNPOLY * dof, mjNPOLY, damping.poly);
  const int joint = m->dof_jntid[dof];
  const auto acts_on = [&](int i) { return m->actuator_trnid[2 * i] == joint && ActsOnJoint(m, i); };
  AddActuatorsDamping(m, m->jnt_actuatorid[joint], acts_on, &damping);
  return damping;
}

TendonPull FindTendonPull(const mjModel* m, const mjData* d, int t) {
  const mjtNum* poly = m->tendon_stiffnesspoly + mjNPOLY * t;
  TendonPull pull;
  if (!Disabled(m, mjDSBL_SPRING) && !(m->tendon_stiffness[t] == 0 && AllZero(poly))) {
    // zero inside the dead band of lengthspring
    const mjtNum* range = SpringRange(m, d, t);
    const double length = d->ten_length[t];
    const double x = length > range[1] ? length - range[1] : length < range[0] ? length - range[0] : 0;
    const bool slack = length >= range[0] && length <= range[1] && range[0] < range[1];
    if (!slack) pull.stiffness = PolySlope(m->tendon_stiffness[t], poly, x);
    pull.force -= x * PolyValue(m->tendon_stiffness[t], poly, x);
  }
  const Damping damper = Disabled(m, mjDSBL_DAMPER) ? Damping() : TendonDamping(m, t);
  if (!damper.IsZero()) {
    const double v = d->ten_velocity[t];
    pull.damping = damper.Slope(v);
    pull.force -= v * damper.Value(v);
  }
  return pull;
}

Damping TendonDamping(const mjModel* m, int t) {
  Damping damping;
  damping.linear = m->tendon_damping[t];
  std::copy_n(m->tendon_dampingpoly + mjNPOLY * t, mjNPOLY, damping.poly);
  const auto acts_on = [&](int i) { return m->actuator_trntype[i] == mjTRN_TENDON && m->actuator_trnid[2 * i] == t; };
  AddActuatorsDamping(m, m->tendon_actuatorid[t], acts_on, &damping);
  return damping;
}

std::string PassiveMissing(const mjModel* m) {
  if (!HasPassiveForces(m)) return "";
  if (mjcb_passive) return "a passive-force callback is installed";
  if (!PassivePluginsAreCompliant(m)) return "plugins";
  return FlexForces::Missing(m);
}

void AddPassive(const mjModel* m, const mjData* d, const TendonMoments& tendons, Columns* R) {
  const int nv = static_cast<int>(m->nv);
  const bool springs = !AreZero(m->jnt_stiffness, m->njnt) || !AreZero(m->jnt_stiffnesspoly, mjNPOLY * m->njnt);
  if (springs && !Disabled(m, mjDSBL_SPRING)) {
    for (int j = 0; j < m->njnt; j++) AddJointSpring(m, d, j, R);
  }
  if (!Disabled(m, mjDSBL_DAMPER) && HasLinearDamping(m)) {
    R->SubtractDiagonal(nv, m->dof_damping, nv, PLANT("damper: joint, linear", 1.0));
  } else if (!Disabled(m, mjDSBL_DAMPER)) {
    for (int i = 0; i < nv; i++) {
      const double slope = PLANT("damper: joint", DofDampingSlopes(m, i, d->qvel[i]).slope);
      if (slope != 0) (*R)(i, nv + i) -= slope;
    }
  }
  for (int t : tendons.used()) AddTendon(m, d, t, tendons[t], R);
}

bool CompensatesGravity(const mjModel* m) {
  return HasPassiveForces(m) && m->flg_gravcomp && !Disabled(m, mjDSBL_GRAVITY);
}

void SubtractLostGravity(const mjModel* m, const mjData* d, const Actuation& actuation, Columns* R) {
  if (!CompensatesGravity(m)) return;
  const int nv = static_cast<int>(m->nv);
  std::vector<char> wanted(nv, 0);
  bool any = false;
  for (int i = 0; i < nv; i++) {
    wanted[i] = m->jnt_actgravcomp[m->dof_jntid[i]] && (IsActuationOff(m) || actuation.IsDofClamped(i));
    any = any || wanted[i];
  }
  if (!any) return;

  // c_j = Σ v_j(x) × G over the bodies that j moves
  std::vector<Vec3> c(nv, Vec3::Zero());
  const auto axis = [&](int j) { return Vec3(Vec3Map(d->cdof + 6 * j)); };
  for (int b = 1; b < m->nbody; b++) {
    if (m->body_gravcomp[b] == 0) continue;
    const Vec3 load = -m->body_mass[b] * m->body_gravcomp[b] * Vec3Map(m->opt.gravity);
    const Vec3 r = Vec3Map(d->xipos + 3 * b) - Vec3Map(d->subtree_com + 3 * m->body_rootid[b]);
    for (int j = LastDof(m, b); j >= 0; j = m->dof_parentid[j]) {
      c[j] += (Vec3Map(d->cdof + 6 * j + 3) + axis(j).cross(r)).cross(load);
    }
  }
  for (int j = 0; j < nv; j++) {
    for (int i = j; i >= 0; i = m->dof_parentid[i]) {
      const bool group = m->dof_jntid[i] == m->dof_jntid[j] && !axis(i).isZero(0);  // its axes turn by each other
      if (wanted[i]) (*R)(i, j) -= group ? axis(j).dot(c[i]) : axis(i).dot(c[j]);
      if (wanted[j] && i != j) (*R)(j, i) -= axis(i).dot(c[j]);
    }
  }
}

bool WorldLoads(const mjModel* m, const mjData* d, bool gravity_compensation, std::vector<double>* load) {
  const bool compensate = gravity_compensation && CompensatesGravity(m);
  if (!compensate && AreZero(d->xfrc_applied, 6 * m->nbody)) return false;
  load->assign(6 * m->nbody, 0);
  bool any = false;
  for (int b = 1; b < m->nbody; b++) {
    double* out = load->data() + 6 * b;
    for (int k = 0; k < 3; k++) {
      out[k] = d->xfrc_applied[6 * b + 3 + k];
      out[3 + k] = PLANT("load: applied", d->xfrc_applied[6 * b + k]);
      if (compensate)
        out[3 + k] -= PLANT("load: gravity compensation", m->opt.gravity[k] * m->body_mass[b] * m->body_gravcomp[b]);
    }
    any = any || !mju_isZero(out, 6);
  }
  return any;
}

}  // namespace costate
