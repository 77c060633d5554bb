#include "derivative/metric.h"

#include <costate/model.h>

#include <algorithm>

#include "core/actuator_range.h"
#include "core/finite.h"
#include "derivative/chain.h"
#include "derivative/equilibrium.h"
#include "derivative/flex.h"
#include "derivative/fluid.h"
#include "derivative/hardest_rows.h"
#include "derivative/impedance.h"
#include "derivative/plant.h"

namespace costate {

namespace {

constexpr double kNothing = 1e-14;  // entries of a J that is zero but for rounding: so is ρ's slope

double BareInertia(const mjModel* m, const mjData* d, int dof) { return d->M[m->M_rowadr[dof] + m->M_rownnz[dof] - 1]; }

// along which a contact's first row measures
Vec3 FirstRow(const mjData* d, const mjContact& contact) {
  const bool pyramid = d->efc_type[contact.efc_address] == mjCNSTR_CONTACT_PYRAMIDAL;
  return Vec3Map(contact.frame) + (pyramid ? contact.friction[0] : 0) * Vec3Map(contact.frame + 3);
}

bool HasKnownMoment(const mjModel* m, int i, const Actuation& actuation) {
  return actuation.moment(m->actuator_outadr[i]).moment || HasConstantMoment(m, i);
}

}  // namespace

// (H2) the engine gives a tendon no stiffness in M̂ exactly at its spring's rest length, but beside it: v' jumps
std::string RestingTendon(const mjModel* m, const mjData* d) {
  for (int k = 0; IsDiscrete(m) && k < d->nefmT; k++) {
    const int t = d->efm_tid[k];
    const mjtNum *range = SpringRange(m, d, t), *poly = m->tendon_stiffnesspoly + mjNPOLY * t;
    const bool rests = d->ten_length[t] == range[0] || d->ten_length[t] == range[1];
    if (rests && (m->tendon_stiffness[t] != 0 || !mju_isZero(poly, mjNPOLY))) {
      return ElementName(m, mjOBJ_TENDON, t) + " is exactly at its spring's rest length";
    }
  }
  return "";
}

Metric::Metric(const mjModel* model)
    : axes_(model),
      fluid_(model),
      J_(model->nv),
      x_(model->nv),
      added_(model->nv),
      force_(model->nv),
      slope_(2 * model->nv + model->na + model->nu) {
  for (int body = 1; body < model->nbody; body++) {
    if (IsStandaloneFreeBody(model, body)) free_bodies_.push_back(body);
  }
}

std::string Metric::Missing(const mjModel* m) {
  if (std::string flexes = FlexForces::Missing(m); !flexes.empty()) return flexes;
  if (m->flg_adhesion) return "adhesion";
  if (m->opt.noslip_iterations > 0) return "a noslip pass";
  if (m->nplastic > 0) return "springs that yield";
  for (int j = 0; j < m->njnt; j++) {
    if (!AreZero(m->jnt_stiffnesspoly + mjNPOLY * j, mjNPOLY)) return "spring of " + ElementName(m, mjOBJ_JOINT, j);
  }
  if (!HasLinearDamping(m)) return "damping that grows with velocity";
  for (int t = 0; t < m->ntendon; t++) {
    if (!AreZero(m->tendon_stiffnesspoly + mjNPOLY * t, mjNPOLY) ||
        !AreZero(m->tendon_dampingpoly + mjNPOLY * t, mjNPOLY) || m->tendon_actuatorid[t] != -1) {
      return "spring or damper of " + ElementName(m, mjOBJ_TENDON, t);
    }
    if (m->tendon_armature[t] != 0 && !IsFixedTendon(m, t)) return "armature of " + ElementName(m, mjOBJ_TENDON, t);
  }
  for (int i = 0; i < m->nactuator; i++) {
    const int gain = m->actuator_gaintype[i], bias = m->actuator_biastype[i];
    if ((gain != mjGAIN_FIXED && gain != mjGAIN_AFFINE && gain != mjGAIN_MUSCLE) ||
        (bias != mjBIAS_NONE && bias != mjBIAS_AFFINE && bias != mjBIAS_MUSCLE) || IsServo(m, i)) {
      return "slopes of " + ElementName(m, mjOBJ_ACTUATOR, i);
    }
  }
  return "";
}

Metric::Element* Metric::Append() {
  Element& element = element_.Append();
  element.moment = nullptr;
  element.scale = 1;
  element.gain = {};
  return &element;
}

void Metric::Couple(const Element& element) {
  if (element.dof.size() > 1) couplings_.Append() = element.dof;
}

std::string Metric::Compute(const mjModel* m, const mjData* d, const TendonMoments& tendons,
                            const Actuation& actuation) {
  element_.Clear();
  couplings_.Clear();
  scales_.clear();
  spins_.clear();
  has_mass_rate_ = has_fluid_rate_ = false;
  if (HasLeastR(d)) return "rows without softness";
  if (std::string resting = RestingTendon(m, d); !resting.empty()) return resting;
  any_fluid_ = d->efm_active && d->efm_fluid && HasFluid(m) && fluid_.Compute(m, d);
  std::string missing = AddElements(m, d, tendons, actuation);
  if (missing.empty()) AddSpins(m, d);
  return missing;
}

// of flexes and tendons
void Metric::AddTensions(const mjModel* m, const mjData* d, const TendonMoments& tendons) {
  flexes_.Compute(m, d);
  flexes_.AppendCouplings(m, &couplings_);
  for (int k = 0; k < d->nefmT; k++) {
    const int t = d->efm_tid[k], adr = m->ten_J_rowadr[t], n = m->ten_J_rownnz[t];
    Element& element = *Append();
    if (!IsFixedTendon(m, t)) element.moment = &tendons[t];
    element.dof.assign(m->ten_J_colind + adr, m->ten_J_colind + adr + n);
    element.J = Eigen::Map<const Eigen::VectorXd>(d->ten_J + adr, n);
    element.s = d->efm_ts[k];
    element.kappa = d->efm_tk[k];
    Couple(element);
  }
}

const Metric::Element& Metric::AlongActuator(const mjModel* m, const mjData* d, int i, const Actuation& actuation,
                                             double s, double kappa) {
  const int out = m->actuator_outadr[i], adr = d->moment_rowadr[out], n = d->moment_rownnz[out];
  Element& element = *Append();
  element.moment = actuation.moment(out).moment;
  element.scale = actuation.moment(out).scale;
  element.dof.assign(d->moment_colind + adr, d->moment_colind + adr + n);
  element.J = Eigen::Map<const Eigen::VectorXd>(d->actuator_moment + adr, n);
  element.s = s;
  element.kappa = kappa;
  if (HasMovingGain(m, i)) element.gain = GainOf(m, d, i, actuation.slopes()[i]);
  return element;
}

std::string Metric::AddElements(const mjModel* m, const mjData* d, const TendonMoments& tendons,
                                const Actuation& actuation) {
  if (d->efm_active) AddTensions(m, d, tendons);
  is_added_.assign(m->nactuator, 0);
  for (int k = 0; k < d->nefmA && d->efm_active; k++) {
    const int a = d->efm_aid[k];
    if (d->efm_as[k] == 0 && d->efm_ak[k] == 0) continue;
    if (!HasKnownMoment(m, a, actuation)) return "slopes of " + ElementName(m, mjOBJ_ACTUATOR, a);
    is_added_[a] = 1;
    Couple(AlongActuator(m, d, a, actuation, d->efm_as[k], d->efm_ak[k]));
  }
  // those that add nothing, but beside the point
  for (int a = 0; a < m->nactuator && !IsActuationOff(m); a++) {
    if (is_added_[a] || !HasMovingGain(m, a)) continue;
    if (!AlongActuator(m, d, a, actuation, 0, 0).gain.moves()) {
      element_.RemoveLast();
      continue;
    }
    if (!HasKnownMoment(m, a, actuation)) return "slopes of " + ElementName(m, mjOBJ_ACTUATOR, a);
  }
  return "";
}

template <typename F>
void Metric::ForFluid(const mjModel* m, const mjData* d, F f) const {
  for (int i = 0; i < m->nv && any_fluid_; i++) {
    for (int k = m->M_rowadr[i]; k < m->M_rowadr[i] + m->M_rownnz[i]; k++) f(i, m->M_colind[k], d->efm_fluid[k]);
  }
}

// (I12) bodies that nothing reaches: neither a row nor a spring or damper of M̂
void Metric::AddSpins(const mjModel* m, const mjData* d) {
  if (free_bodies_.empty()) return;
  reached_.assign(m->nv, 0);
  for (int i = 0; i < d->nefc; i++) {
    ForJacobianRow(m, d, i, [&](int j, double J) { reached_[j] |= J != 0; });
  }
  for (const Element& e : element_.all()) {
    for (int j : e.dof) reached_[j] |= e.acts();
  }
  for (const std::vector<int>& dofs : couplings_.all()) {
    for (int j : dofs) reached_[j] = 1;
  }
  for (int body : free_bodies_) {
    const auto of_body = reached_.begin() + m->body_dofadr[body];
    if (std::find(of_body, of_body + 6, 1) != of_body + 6) continue;
    Spin& spin = spins_.emplace_back(m, d, body);
    const int first = spin.body.dof();
    Mat6 block = spin.body.damping();
    for (int i = 0; i < 6; i++) {
      const int row = first + i, start = m->M_rowadr[row], count = m->M_rownnz[row];
      for (int k = start; k < start + count; k++) {
        const int j = m->M_colind[k] - first;
        block(i, j) += d->M[k];
        if (j != i) block(j, i) += d->M[k];
      }
      if (d->efm_active && d->efm_diag) block(i, i) += d->efm_diag[row];
    }
    ForFluid(m, d, [&](int i, int j, double entry) {
      if (i < first || i >= first + 6) return;
      block(i - first, j - first) += entry;
      if (i != j) block(j - first, i - first) += entry;
    });
    spin.lu.Factor(block);
  }
}

// with D = h ∂c/∂v: (S + D)⁻¹ S x = x − (S + D)⁻¹ D x, and transposed
void Metric::CorrectVector(double* x, bool transposed) const {
  for (const Spin& spin : spins_) {
    Eigen::Map<Vec6> own(x + spin.body.dof());
    const Mat6& D = spin.body.damping();
    if (transposed) own -= spin.lu.Solve(D.transpose() * own, true);
    else own -= spin.lu.Solve(D * own);
  }
}

void Metric::CorrectBlock(double* x) const {
  using Rows = Eigen::Matrix<double, 6, BlockedMatrix::kWidth, Eigen::RowMajor>;
  for (const Spin& spin : spins_) {
    Eigen::Map<Rows> own(x + spin.body.dof() * BlockedMatrix::kWidth);
    const Rows force = spin.body.damping() * own;
    Rows change;
    spin.lu.SolveRows(force.data(), change.data());
    own -= change;
  }
}

void Metric::AddForce(const mjModel* m, const mjData* d, const double* a, double* out) const {
  for (const Spin& spin : spins_) {
    const int dof = spin.body.dof();
    Eigen::Map<Vec6>(out + dof) += PLANT("metric: spin", spin.body.damping() * Vec6Map(a + dof));
  }
  if (!d->efm_active) return;
  for (int i = 0; i < m->nv && d->efm_diag; i++) out[i] += d->efm_diag[i] * a[i];
  for (int i = 0; i < m->nv && d->efm_ck; i++) out[i] += d->efm_ck[i] * d->qvel[i];
  ForFluid(m, d, [&](int i, int j, double entry) {
    out[i] += entry * a[j];
    if (i != j) out[j] += entry * a[i];
  });
  for (const Element& e : element_.all()) {
    double along = 0;
    for (std::size_t k = 0; k < e.dof.size(); k++) along += e.J[k] * (e.s * a[e.dof[k]] + e.kappa * d->qvel[e.dof[k]]);
    for (std::size_t k = 0; k < e.dof.size(); k++) out[e.dof[k]] += along * e.J[k];
  }
  if (!flexes_.empty()) flexes_.AddForce(m, d, a, out);
}

bool Metric::AddDiagonal(const mjModel* m, const mjData* d, double* diagonal) const {
  if (!couplings_.all().empty() || any_fluid_) return false;
  for (int i = 0; i < m->nv && d->efm_active && d->efm_diag; i++) diagonal[i] += d->efm_diag[i];
  for (const Element& e : element_.all()) {
    for (std::size_t k = 0; k < e.dof.size(); k++) diagonal[e.dof[k]] += e.s * e.J[k] * e.J[k];
  }
  return true;
}

void Metric::AddHessian(const mjModel* m, const mjData* d, TreeSolver* H) const {
  if (d->efm_active) flexes_.AddHessian(H);
  for (int i = 0; i < m->nv && d->efm_active && d->efm_diag; i++)
    H->diagonal(i) += PLANT("metric: joints", d->efm_diag[i]);
  ForFluid(m, d, [&](int i, int j, double entry) { H->Add(i, j, PLANT("metric: fluid", entry)); });
  for (const Element& e : element_.all()) {
    const std::size_t n = e.dof.size();
    for (std::size_t i = 0; i < n; i++) {
      for (std::size_t j = 0; j < n; j++) {
        if (e.dof[j] <= e.dof[i]) H->Add(e.dof[i], e.dof[j], PLANT("metric: along a moment", e.s * e.J[i] * e.J[j]));
      }
    }
  }
}

// (I9) B and K are what they are above zero: at zero the mean of both sides, of inputs on an edge that of the inside
Metric::Gain Metric::GainOf(const mjModel* m, const mjData* d, int i, const ActuatorSlope& s) {
  struct Room {
    bool below = true, above = true;
  };
  constexpr mjtNum kUnit[] = {0, 1};  // of a muscle
  const mjtNum* unit = m->actuator_dyntype[i] == mjDYN_MUSCLE ? kUnit : nullptr;
  const auto room = [unit](double value, const mjtNum* limit) {
    Room room;
    for (const mjtNum* range : {limit, unit}) {
      if (range) room = {room.below && value != range[0], room.above && value != range[1]};
    }
    return room;
  };
  const auto slope_of = [](double value, double slope, Room room) {
    if (value != 0) return value > 0 ? slope : 0;
    const double below = std::min(0.0, slope), above = std::max(0.0, slope);
    return room.below && room.above ? 0.5 * slope : room.above ? above : room.below ? below : 0;
  };
  Room rooms[4];
  rooms[2] = room(d->ctrl[s.ctrl_index], ControlRange(m, s.ctrl_index));
  if (s.act_index >= 0)
    rooms[3] = room(d->act[s.act_index], m->actuator_actlimited[i] ? m->actuator_actrange + 2 * i : nullptr);
  const double damping[] = {s.damping_length, s.damping_velocity, s.damping_ctrl, s.damping_act};
  const double stiffness[] = {s.stiffness_length, s.stiffness_velocity, s.stiffness_ctrl, s.stiffness_act};
  Gain gain;
  for (int k = 0; k < 4; k++) {
    gain.damping[k] = PLANT("metric: moving damping", slope_of(s.damping, damping[k], rooms[k]));
    gain.stiffness[k] = PLANT("metric: moving stiffness", slope_of(s.stiffness, stiffness[k], rooms[k]));
  }
  gain.ctrl = s.ctrl_index;
  gain.act = s.act_index;
  return gain;
}

template <typename F>
void Metric::ForGain(const mjModel* m, const Element& e, double by_s, double by_kappa, F f) {
  const int nv = static_cast<int>(m->nv), ndx = 2 * nv + static_cast<int>(m->na);
  const double h = m->opt.timestep;
  const Eigen::Array4d slope = h * by_s * e.gain.damping + h * (h * by_s + by_kappa) * e.gain.stiffness;
  const auto by_length = [&](int dof, double length, double rate, double J) {
    f(dof, slope[0] * length + slope[1] * rate);
    f(nv + dof, slope[1] * J);
  };
  for (int j = 0; e.moment && j < e.moment->size(); j++) {
    const Moment& moment = *e.moment;
    by_length(moment.dof[j], e.scale * moment.length[j], e.scale * moment.rate[j], e.scale * moment.J[j]);
  }
  for (std::size_t j = 0; !e.moment && j < e.dof.size(); j++) by_length(e.dof[j], e.J[j], 0, e.J[j]);
  f(ndx + e.gain.ctrl, slope[2]);
  if (e.gain.act >= 0) f(2 * nv + e.gain.act, slope[3]);
}

// (I9)
void Metric::AddColumns(const mjModel* m, const mjData* d, const double* a, Columns* R) const {
  for (const Spin& spin : spins_) spin.body.AddColumns(m, d, a, R);
  const int nv = static_cast<int>(m->nv);
  if (d->efm_active && !flexes_.empty()) flexes_.AddColumns(m, d, axes_, a, R);
  if (any_fluid_) fluid_.AddColumns(m, d, Eigen::Map<const Eigen::VectorXd>(a, nv), R);
  if (d->efm_active && d->efm_ck) R->SubtractDiagonal(nv, d->efm_ck, nv, PLANT("metric: springs of joints", 1.0));
  for (const Element& e : element_.all()) {
    const int n = static_cast<int>(e.dof.size());
    const double kappa = PLANT("metric: springs along a moment", e.kappa);
    for (int i = 0; i < n && kappa != 0; i++) {
      for (int j = 0; j < n; j++) (*R)(e.dof[i], nv + e.dof[j]) -= kappa * e.J[i] * e.J[j];
    }
    if (e.gain.moves()) {
      double by_s = 0, by_kappa = 0;
      for (int i = 0; i < n; i++) by_s += e.J[i] * a[e.dof[i]], by_kappa += e.J[i] * d->qvel[e.dof[i]];
      ForGain(m, e, by_s, by_kappa, [&](int column, double change) {
        for (int i = 0; i < n && change != 0; i++) (*R)(e.dof[i], column) -= e.J[i] * change;
      });
    }
    if (!e.moment || !e.acts()) continue;
    const Moment& moment = *e.moment;
    Eigen::VectorXd rate(moment.size());
    double along = 0;
    for (int k = 0; k < moment.size(); k++) {
      rate[k] = e.s * a[moment.dof[k]] + e.kappa * d->qvel[moment.dof[k]];
      along += e.scale * moment.J[k] * rate[k];
    }
    AddTurning(moment, PLANT("metric: turning force", -along * e.scale), nullptr, R);
    const Eigen::VectorXd turned = PLANT("metric: turning moment", e.scale * (moment.G.transpose() * rate));
    for (int i = 0; i < n; i++) {
      for (int j = 0; j < moment.size(); j++) (*R)(e.dof[i], moment.dof[j]) -= e.J[i] * turned[j];
    }
  }
}

// (I10) M_kk moves with the dofs behind k: ∂M_kk/∂q_j = −2 (S_j × S_k)·(I_j S_k), I_j of all that j moves
void Metric::FindDiagonalRates(const mjModel* m, const mjData* d) {
  if (has_mass_rate_) return;
  has_mass_rate_ = true;
  const int nv = static_cast<int>(m->nv);
  mass_rate_.setZero(nv, nv);
  for (int j = 0; j < nv; j++) {
    const Vec6 Sj = Vec6Map(d->cdof + 6 * j);
    const Inertia behind = Inertia::From(d->crb + 10 * m->dof_bodyid[j]);
    for (int k = m->dof_parentid[axes_.group[j]]; k >= 0; k = m->dof_parentid[k]) {
      const Vec6 Sk = Vec6Map(d->cdof + 6 * k);
      mass_rate_(k, j) = PLANT("metric: diagonal of M", -2 * CrossMotion(Sj, Sk).dot(behind * Sk));
    }
  }
}

// … and the fluid's share of M̂_kk with q and v
void Metric::FindFluidRates(const mjModel* m, const mjData* d) {
  if (has_fluid_rate_) return;
  has_fluid_rate_ = true;
  const int nv = static_cast<int>(m->nv);
  fluid_rate_.setZero(nv, 2 * nv);
  Columns rates = Columns::Of(fluid_rate_.data(), 2 * nv, nullptr, nv);
  fluid_.AddDiagonalColumns(m, d, &rates);
}

// slope_ += ∂(J x) by q of a contact's first row at fixed x = x_
void Metric::AddContactTurning(const mjModel* m, const mjData* d, const mjContact& contact,
                               const ContactMotion& motion) {
  const bool pyramid = d->efc_type[contact.efc_address] == mjCNSTR_CONTACT_PYRAMIDAL;
  const ContactJacobian rows(m, d, axes_, contact, motion, pyramid ? 2 : 1);
  for (std::size_t n = 0; n < rows.dof.size(); n++) {
    for (std::size_t k = 0; k < rows.turner.size(); k++) {
      double sum = rows.turn[0](n, k);
      if (pyramid) sum += contact.friction[0] * rows.turn[1](n, k);
      slope_[rows.turner[k]] += PLANT("metric: contact row", x_[rows.dof[n]] * sum);
    }
  }
}

// (I10) D goes as 1/ρ, ρ = Σ J²/M̂_kk / Σ J²/M_kk over the first row of a contact, or the row itself
void Metric::LinearizeRows(const mjModel* m, const mjData* d, const ConstraintDerivative& constraint) {
  scales_.clear();
  const bool added = d->efm_active && d->efm_sdiag && !AreZero(d->efm_sdiag, m->nv);
  const bool moved =
      std::any_of(element_.all().begin(), element_.all().end(), [](const Element& e) { return e.gain.moves(); });
  if (!added && !moved) return;
  const int nv = static_cast<int>(m->nv);
  for (int row = 0, count; row < d->nefc; row += count) {
    const int id = d->efc_id[row];
    const mjContact* contact = d->efc_type[row] < mjCNSTR_CONTACT_FRICTIONLESS ? nullptr : d->contact + id;
    count = contact ? RowCount(d, *contact) : 1;
    const ElementContact* element = contact ? constraint.element(id) : nullptr;
    if (contact ? !element && !constraint.contact_motion(id) : constraint.remainder()[row]) continue;

    // their forces, as far as D makes them
    force_.setZero();
    bool any = false;
    for (int i = row; i < row + count; i++) {
      const int state = d->efc_state[i];
      if ((state != mjCNSTRSTATE_QUADRATIC && state != mjCNSTRSTATE_CONE) || d->efc_force[i] == 0) continue;
      any = true;
      ForJacobianRow(m, d, i, [&](int j, double J) { force_[j] += J * d->efc_force[i]; });
    }
    if (!any || IsHardest(d, row)) continue;

    double bare = 0, effective = 0;
    J_.setZero();
    ForJacobianRow(m, d, row, [&](int k, double J) {
      J_[k] = J;
      const double M = BareInertia(m, d, k);
      bare += J * J / M;
      effective += J * J / (added ? M + d->efm_sdiag[k] : M);
    });
    if ((bare == effective && !moved) || J_.lpNorm<Eigen::Infinity>() < kNothing) continue;
    FindDiagonalRates(m, d);
    if (any_fluid_) FindFluidRates(m, d);
    slope_.setZero();
    x_.setZero();
    added_.setZero();
    for (int k = 0; k < nv; k++) {
      if (J_[k] == 0) continue;
      const double M = BareInertia(m, d, k), all = added ? M + d->efm_sdiag[k] : M, J2 = J_[k] * J_[k];
      x_[k] = 2 * J_[k] * (1 / (all * effective) - 1 / (M * bare));
      added_[k] = -J2 / (all * all * effective);
      slope_.head(nv) += (added_[k] + J2 / (M * M * bare)) * mass_rate_.row(k).transpose();
      if (any_fluid_) slope_.head(2 * nv) -= PLANT("metric: moving fluid", added_[k] * fluid_rate_.row(k).transpose());
    }
    for (const Element& e : element_.all()) {
      if (e.gain.moves()) {
        double by_s = 0;
        for (std::size_t k = 0; k < e.dof.size(); k++) by_s += added_[e.dof[k]] * e.J[k] * e.J[k];
        ForGain(m, e, by_s, 0, [&](int column, double change) { slope_[column] += change; });
      }
      if (!e.moment) continue;
      for (int k = 0; k < e.moment->size(); k++) {
        const double by_J = added_[e.moment->dof[k]] * 2 * e.s * e.scale * e.scale * e.moment->J[k];
        for (int j = 0; j < e.moment->size() && by_J != 0; j++)
          slope_[e.moment->dof[j]] += PLANT("metric: moving diagonal", by_J * e.moment->G(k, j));
      }
    }
    if (element) element->AddTurning(FirstRow(d, *contact), x_, &slope_);
    else if (contact) AddContactTurning(m, d, *contact, *constraint.contact_motion(id));
    else constraint.AddRowTurning(m, d, axes_, row, x_, &slope_);

    Scale& scale = scales_.emplace_back();
    scale.row = row;
    for (int k = 0; k < nv; k++) {
      if (force_[k] != 0) scale.dof.push_back(k), scale.force.push_back(force_[k]);
    }
    for (int k = 0; k < slope_.size(); k++) {
      if (slope_[k] != 0) scale.turner.push_back(k), scale.slope.push_back(slope_[k]);
    }
  }
}

const Metric::Scale* Metric::FindScale(int row) const {
  const auto of_row = [&](const Scale& scale) { return scale.row == row; };
  const auto found = std::find_if(scales_.begin(), scales_.end(), of_row);
  return found == scales_.end() ? nullptr : &*found;
}

void Metric::AddRows(Columns* R) const {
  for (const Scale& scale : scales_) {
    for (std::size_t i = 0; i < scale.dof.size(); i++) {
      for (std::size_t j = 0; j < scale.turner.size(); j++)
        (*R)(scale.dof[i], scale.turner[j]) -= scale.force[i] * scale.slope[j];
    }
  }
}

}  // namespace costate
