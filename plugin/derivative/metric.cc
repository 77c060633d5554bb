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
#include "derivative/spatial_lanes.h"

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
      x_(Eigen::VectorXd::Zero(model->nv)),
      added_(Eigen::VectorXd::Zero(model->nv)),
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
  scales_.Clear();
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

// does a row, or a spring or damper of M̂, reach one of six dofs?
bool Metric::IsReached(const mjModel* m, const mjData* d, int first) const {
  const auto is_one = [first](int dof) { return dof >= first && dof < first + 6; };
  const auto any = [&](const std::vector<int>& dofs) { return std::any_of(dofs.begin(), dofs.end(), is_one); };
  for (int i = 0; i < d->nefc; i++) {
    bool found = false;
    if (mj_isSparse(m)) ForJacobianRow(m, d, i, [&](int j, double J) { found |= is_one(j) && J != 0; });
    else found = !mju_isZero(d->efc_J + static_cast<std::size_t>(i) * m->nv + first, 6);
    if (found) return true;
  }
  return std::any_of(element_.all().begin(), element_.all().end(),
                     [&](const Element& e) { return e.acts() && any(e.dof); }) ||
         std::any_of(couplings_.all().begin(), couplings_.all().end(), any);
}

// (I12) bodies that nothing reaches
void Metric::AddSpins(const mjModel* m, const mjData* d) {
  for (int body : free_bodies_) {
    if (IsReached(m, d, m->body_dofadr[body])) continue;
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
COSTATE_SIMD void Metric::FindDiagonalRates(const mjModel* m, const mjData* d) {
  if (has_mass_rate_) return;
  has_mass_rate_ = true;
  const int nv = static_cast<int>(m->nv);
  mass_rate_.setZero(nv, nv);
  for (int j = 0; j < nv; j++) {
    const Lanes6 Sj = Lanes6::Load(d->cdof + 6 * j);
    const InertiaLanes behind(d->crb + 10 * m->dof_bodyid[j]);
    for (int k = m->dof_parentid[axes_.group[j]]; k >= 0; k = m->dof_parentid[k]) {
      const Lanes6 Sk = Lanes6::Load(d->cdof + 6 * k);
      mass_rate_(k, j) = PLANT("metric: diagonal of M", -2 * DotLanes(CrossMotion(Sj, Sk), behind * Sk));
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

// (I10) slope_ += ∂(J x) by q of a contact's first row, along e = `direction`, at fixed x = x_. Axes of free translations
// stand, but S × S of two of them is zero anyway.
COSTATE_SIMD void Metric::AddContactTurning(const mjModel* m, const mjData* d, const mjContact& contact,
                                            const Vec3& direction, const ContactMotion& motion) {
  const int body[2] = {ContactBody(m, contact, 0), ContactBody(m, contact, 1)};
  const int last[2] = {LastDof(m, body[0]), LastDof(m, body[1])};
  const auto origin = [&](int side) __attribute__((always_inline)) {
    return LoadLanes(d->subtree_com + 3 * m->body_rootid[body[side]]);
  };
  const Double4 about = origin(last[1] >= 0 ? 1 : 0), shift = last[0] >= 0 ? about - origin(0) : Double4{};
  const Double4 p = LoadLanes(contact.pos) - about, e = {direction[0], direction[1], direction[2], 0};
  const Lanes6 F = {CrossLanes(p, e), e};
  const int common = ForExclusiveDofs(m, last[0], last[1], [](int, int) {});
  const auto axis = [&](int i, int side) __attribute__((always_inline)) {
    const Lanes6 S = Lanes6::Load(d->cdof + 6 * i);
    return side == 0 ? MotionAbout(S, shift) : S;
  };
  const auto moving = [&](int i, int side) __attribute__((always_inline)) {
    return (side == 0 ? -x_[i] : x_[i]) * axis(i, side);
  };

  Lanes6 U = Lanes6::Zero();
  for (int side = 0; side < 2; side++) {
    for (int i = last[side]; i != common; i = m->dof_parentid[i]) U += moving(i, side);
  }

  // covectors of (dφ, dp, Ω), then of the motions that make them
  const Double4 u = U.l + CrossLanes(U.a, p);
  const Double4 point = PLANT("metric: contact point moves", CrossLanes(e, U.a)),
                turn = PLANT("metric: contact frame turns", CrossLanes(e, u));
  const double geometry[6] = {point[0], point[1], point[2], turn[0], turn[1], turn[2]};
  const auto covector = [&](const ContactMatrix& by) __attribute__((always_inline)) {
    Lanes6 sum = Lanes6::Zero();
    for (int n = 0; n < 6; n++) sum += geometry[n] * Lanes6::Load(by.data() + 6 * (n + 1));
    return Lanes6{sum.a + CrossLanes(p, sum.l), sum.l};
  };
  const Lanes6 both = covector(motion.by_both), second = covector(motion.by_geom2);

  for (int side = 0; side < 2; side++) {
    const Lanes6 own = side == 0 ? both - second : second;
    Lanes6 turned = Lanes6::Zero();
    for (int end = last[side]; end != common; end = m->dof_parentid[axes_.group[end]]) {
      const int begin = axes_.group[end];
      for (int i = begin; i <= end; i++) turned += moving(i, side);
      const Lanes6 by_axis = own + PLANT("metric: contact axes turn", CrossForce(turned, F));
      for (int i = begin; i <= end; i++) slope_[i] += DotLanes(by_axis, axis(i, side));
    }
  }
  const Lanes6 by_axis = both + PLANT("metric: contact axes turn", CrossForce(U, F));
  for (int i = common; i >= 0; i = m->dof_parentid[i]) slope_[i] += DotLanes(by_axis, axis(i, 1));
}

// the entries of J
void Metric::ReadRow(const mjModel* m, const mjData* d, int row) {
  row_dof_.clear();
  row_J_.clear();
  ForJacobianRow(m, d, row, [this](int dof, double J) {
    if (J == 0) return;
    row_dof_.push_back(dof);
    row_J_.push_back(J);
  });
}

// Jᵀ f of rows, as far as D makes f. @pre ReadRow of a single one. @return false if it makes none
bool Metric::ReadForces(const mjModel* m, const mjData* d, int row, int count, Scale* out) {
  out->dof.clear();
  out->force.clear();
  const auto is_made = [d](int i) {
    const int state = d->efc_state[i];
    return (state == mjCNSTRSTATE_QUADRATIC || state == mjCNSTRSTATE_CONE) && d->efc_force[i] != 0;
  };
  if (count == 1) {
    if (!is_made(row)) return false;
    out->dof = row_dof_;
    for (double J : row_J_) out->force.push_back(J * d->efc_force[row]);
    return true;
  }
  bool any = false;
  for (int i = row; i < row + count; i++) {
    if (!is_made(i)) continue;
    if (!any) force_.setZero();
    any = true;
    ForJacobianRow(m, d, i, [&](int j, double J) { force_[j] += J * d->efc_force[i]; });
  }
  for (int k = 0; k < m->nv && any; k++) {
    if (force_[k] != 0) out->dof.push_back(k), out->force.push_back(force_[k]);
  }
  return any;
}

// (I10) D goes as 1/ρ, ρ = Σ J²/M̂_kk / Σ J²/M_kk over the first row of a contact, or the row itself
void Metric::LinearizeRows(const mjModel* m, const mjData* d, const ConstraintDerivative& constraint) {
  scales_.Clear();
  const bool added = d->efm_active && d->efm_sdiag && !AreZero(d->efm_sdiag, m->nv);
  bool moved = false;
  moving_.clear();
  for (const Element& e : element_.all()) {
    const bool moves = e.gain.moves();
    moved = moved || moves;
    if (moves || e.moment) moving_.push_back(&e);
  }
  if (!added && !moved) return;
  const int nv = static_cast<int>(m->nv);
  const int columns = moved ? static_cast<int>(slope_.size()) : any_fluid_ ? 2 * nv : nv;  // that slopes are by
  for (int row = 0, count; row < d->nefc; row += count) {
    const int id = d->efc_id[row];
    const mjContact* contact = d->efc_type[row] < mjCNSTR_CONTACT_FRICTIONLESS ? nullptr : d->contact + id;
    count = contact ? RowCount(d, *contact) : 1;
    const ElementContact* element = contact ? constraint.element(id) : nullptr;
    if (contact ? !element && !constraint.contact_motion(id) : constraint.remainder()[row]) continue;

    if (IsHardest(d, row)) continue;
    ReadRow(m, d, row);
    const std::size_t n = row_dof_.size();
    double bare = 0, effective = 0, largest = 0;
    for (std::size_t i = 0; i < n; i++) {
      const double J = row_J_[i], M = BareInertia(m, d, row_dof_[i]);
      bare += J * J / M;
      effective += J * J / (added ? M + d->efm_sdiag[row_dof_[i]] : M);
      largest = std::max(largest, std::abs(J));
    }
    if ((bare == effective && !moved) || largest < kNothing) continue;
    Scale& scale = scales_.Append();
    if (!ReadForces(m, d, row, count, &scale)) {
      scales_.RemoveLast();
      continue;
    }
    FindDiagonalRates(m, d);
    if (any_fluid_) FindFluidRates(m, d);
    slope_.head(columns).setZero();
    for (std::size_t i = 0; i < n; i++) {
      const int k = row_dof_[i];
      const double J = row_J_[i], M = BareInertia(m, d, k), all = added ? M + d->efm_sdiag[k] : M, J2 = J * J;
      x_[k] = 2 * J * (1 / (all * effective) - 1 / (M * bare));
      added_[k] = -J2 / (all * all * effective);
      slope_.head(nv) += (added_[k] + J2 / (M * M * bare)) * mass_rate_.row(k).transpose();
      if (any_fluid_) slope_.head(2 * nv) -= PLANT("metric: moving fluid", added_[k] * fluid_rate_.row(k).transpose());
    }
    for (const Element* moving : moving_) {
      const Element& e = *moving;
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
    else if (contact) AddContactTurning(m, d, *contact, FirstRow(d, *contact), *constraint.contact_motion(id));
    else constraint.AddRowTurning(m, d, axes_, row, x_, &slope_);

    for (int k : row_dof_) x_[k] = added_[k] = 0;
    scale.row = row;
    scale.turner.clear();
    scale.slope.clear();
    for (int k = 0; k < columns; k++) {
      if (slope_[k] != 0) scale.turner.push_back(k), scale.slope.push_back(slope_[k]);
    }
  }
}

const Metric::Scale* Metric::FindScale(int row) const {
  const auto of_row = [&](const Scale& scale) { return scale.row == row; };
  const auto found = std::find_if(scales_.all().begin(), scales_.all().end(), of_row);
  return found == scales_.all().end() ? nullptr : &*found;
}

void Metric::AddRows(Columns* R) const {
  for (const Scale& scale : scales_.all()) R->SubtractProduct(scale.dof, scale.force, scale.turner, scale.slope);
}

}  // namespace costate
