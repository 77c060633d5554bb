#include "derivative/effective_mass.h"

#include <costate/model.h>

#include <algorithm>

#include "derivative/armature.h"
#include "derivative/equilibrium.h"
#include "derivative/fluid.h"
#include "derivative/passive.h"
#include "derivative/plant.h"

namespace costate {

namespace {

bool Damps(const mjModel* m) { return !(m->opt.disableflags & mjDSBL_DAMPER); }

bool AnyStandaloneFree(const mjModel* m) {
  for (int b = 1; b < m->nbody; b++) {
    if (IsStandaloneFreeBody(m, b)) return true;
  }
  return false;
}

}  // namespace

bool HasDiagonalMass(const mjModel* m, int dof) {
  if (m->M_rownnz[dof] != 1) return false;
  return IsDiscrete(m) || (m->opt.integrator == mjINT_IMPLICITFAST && !IsStandaloneFreeBody(m, m->dof_bodyid[dof]));
}

bool HasImplicitVelocity(const mjModel* m) {
  if (m->opt.integrator == mjINT_IMPLICIT || m->opt.integrator == mjINT_IMPLICITFAST) return true;
  if (m->opt.integrator != mjINT_EULER || (m->opt.disableflags & mjDSBL_EULERDAMP) || !Damps(m)) return false;
  for (int i = 0; i < m->nv; i++) {
    if (m->dof_damping[i] > 0 || !mju_isZero(m->dof_dampingpoly + mjNPOLY * i, mjNPOLY) ||
        m->jnt_actuatorid[m->dof_jntid[i]] != -1) {
      return true;
    }
  }
  return false;
}

EffectiveMass::EffectiveMass(const mjModel* model)
    : solver_(model->dof_parentid, static_cast<int>(model->nv), FindWaist(model)),
      articulated_solver_(model),
      diagonal_(model->nv),
      slope_(model->nv),
      any_standalone_(AnyStandaloneFree(model)) {}

std::string EffectiveMass::Missing(const mjModel* m, const std::string& actuation) {
  if (m->opt.integrator == mjINT_EULER) return "";
  std::string missing = PassiveMissing(m);
  if (missing.empty()) missing = actuation;
  if (!missing.empty()) return "implicit damping of " + missing;
  return "";
}

namespace {

bool KeepsDamping(const mjModel* m, int i, int j) {
  return i == j || (!HasDiagonalMass(m, std::max(i, j)) && OnePath(m, i, j));
}

}  // namespace

// an entry of M' − M, dropped where M has none, as the engine does
void EffectiveMass::Add(int row, int col, double value) {
  if (row == col) {
    diagonal_[row] += value;
    solver_.diagonal(row) += value;
  } else if (col < row && solver_.Add(row, col, value)) {
    entries_.push_back({row, col, value});
  }
}

// a damper's part of M'
void EffectiveMass::AddDamping(const mjModel* m, const int* dof, const mjtNum* J, int n, double B) {
  if (n == 1) return Add(dof[0], dof[0], B * J[0] * J[0]);  // most are: no pairs to ask for
  for (int k = 0; k < n && B != 0; k++) {
    for (int l = 0; l < n; l++) {
      if (dof[l] <= dof[k] && KeepsDamping(m, dof[k], dof[l])) Add(dof[k], dof[l], B * J[k] * J[l]);
    }
  }
}

void EffectiveMass::AddJointDamping(const mjModel* m, const mjData* d) {
  const double h = m->opt.timestep;
  const bool linear = HasLinearDamping(m);
  for (int i = 0; i < m->nv && Damps(m); i++) {
    const DampingSlopes damping = linear ? DampingSlopes{m->dof_damping[i], 0} : DofDampingSlopes(m, i, d->qvel[i]);
    diagonal_[i] = PLANT("integrator: damping of joints", h * damping.slope);
    solver_.diagonal(i) += diagonal_[i];
    slope_[i] = PLANT("integrator: slope of damping", h * damping.slope_slope);
  }
}

// memory of one before is kept
EffectiveMass::Damper& EffectiveMass::NextDamper() {
  if (dampers_ == damper_.size()) damper_.emplace_back();
  Damper next;
  Damper& damper = damper_[dampers_++];
  next.dof.swap(damper.dof);
  next.J.swap(damper.J);
  damper = std::move(next);
  return damper;
}

void EffectiveMass::AddTendonDampers(const mjModel* m, const mjData* d) {
  const double h = m->opt.timestep;
  for (int t = 0; t < m->ntendon && Damps(m); t++) {
    const Damping damping = TendonDamping(m, t);
    if (damping.IsZero()) continue;
    const int adr = m->ten_J_rowadr[t], n = m->ten_J_rownnz[t];
    AddDamping(m, m->ten_J_colind + adr, d->ten_J + adr, n, h * damping.Slope(d->ten_velocity[t]));
    if (IsFixedTendon(m, t) && damping.SlopeSlope(d->ten_velocity[t]) == 0) continue;
    Damper& damper = NextDamper();
    damper.dof.assign(m->ten_J_colind + adr, m->ten_J_colind + adr + n);
    damper.J = Eigen::Map<const Eigen::VectorXd>(d->ten_J + adr, n);
    damper.B = PLANT("integrator: damping of tendons", h * damping.Slope(d->ten_velocity[t]));
    damper.velocity = PLANT("integrator: slope of tendon damping", h * damping.SlopeSlope(d->ten_velocity[t]));
    if (!IsFixedTendon(m, t)) damper.moment = &(*tendons_)[t];
  }
}

// what actuators gain by velocity
void EffectiveMass::AddActuatorDampers(const mjModel* m, const mjData* d, const Actuation& actuation) {
  const double h = m->opt.timestep;
  for (int i = 0; i < static_cast<int>(actuation.slopes().size()); i++) {
    const ActuatorSlope& s = actuation.slopes()[i];
    if (s.damping == 0 && s.damping_act == 0 && s.damping_ctrl == 0 && s.damping_velocity == 0) continue;
    const int out = m->actuator_outadr[i], adr = d->moment_rowadr[out], n = d->moment_rownnz[out];
    AddDamping(m, d->moment_colind + adr, d->actuator_moment + adr, n, h * s.damping);
    const bool moves = s.damping_length != 0 || s.damping_velocity != 0 || s.damping_act != 0 || s.damping_ctrl != 0;
    if (!moves && !actuation.moment(out).moment) continue;
    Damper& damper = NextDamper();
    damper.dof.assign(d->moment_colind + adr, d->moment_colind + adr + n);
    damper.J = Eigen::Map<const Eigen::VectorXd>(d->actuator_moment + adr, n);
    damper.B = PLANT("integrator: damping of actuators", h * s.damping);
    damper.length = h * s.damping_length;
    damper.velocity = h * s.damping_velocity;
    damper.act = h * s.damping_act;
    damper.ctrl = h * s.damping_ctrl;
    damper.act_index = s.act_index;
    damper.ctrl_index = s.ctrl_index;
    damper.moment = actuation.moment(out).moment;
    damper.scale = actuation.moment(out).scale;
  }
}

void EffectiveMass::AddServoDampers(const mjModel* m, const Actuation& actuation) {
  const double h = m->opt.timestep;
  for (const ServoSlope& servo : actuation.servos()) {
    for (int k = 0; k < servo.outputs && servo.damping != 0; k++) {
      Damper& damper = NextDamper();
      const int out = m->actuator_outadr[servo.actuator] + k;
      damper.moment = actuation.moment(out).moment;
      damper.scale = actuation.moment(out).scale;
      damper.dof = damper.moment->dof;
      damper.J = damper.scale * damper.moment->J;
      damper.B = h * servo.damping;
      damper.act = h * servo.damping_slope;
      damper.act_index = servo.damping_state;
      AddDamping(m, damper.dof.data(), damper.J.data(), damper.moment->size(), damper.B);
    }
  }
}

bool EffectiveMass::Compute(const mjModel* m, const mjData* d, const TendonMoments& tendons, const Actuation& actuation,
                            const double* a, const double* Ma) {
  tendons_ = &tendons;
  // where articulated bodies hold Euler's M', M and a diagonal, nothing is read of the other solver
  if (!use_products_ || m->opt.integrator != mjINT_EULER || !ArticulatedSolver::Pays(m)) solver_.SetZero();
  std::fill(diagonal_.begin(), diagonal_.end(), 0.0);
  std::fill(slope_.begin(), slope_.end(), 0.0);
  entries_.clear();
  dampers_ = 0;

  // M' − M
  AddJointDamping(m, d);
  if (m->opt.integrator != mjINT_EULER) {
    AddTendonDampers(m, d);
    AddActuatorDampers(m, d, actuation);
    AddServoDampers(m, actuation);
  }
  AddFluid(m, d);
  if (!FactorMass(m, d)) return false;

  // ā = M'⁻¹ M a
  const int nv = static_cast<int>(m->nv);
  applied_.resize(nv);
  mju_copy(applied_.data(), Ma, nv);
  difference_ = applied_;
  Solve(applied_.data());
  for (const FreeBlock& free : free_)
    applied_.segment<6>(free.dof()) = free.lu.Solve(difference_.segment<6>(free.dof()));
  difference_ = Eigen::Map<const Eigen::VectorXd>(a, nv) - applied_;
  return true;
}

// M' by the solver that pays
bool EffectiveMass::FactorMass(const mjModel* m, const mjData* d) {
  if (m->opt.integrator != mjINT_IMPLICIT) coriolis_.reset();
  else if (!coriolis_) coriolis_ = std::make_unique<CoriolisDamping>(m);
  free_.clear();
  const bool free_bodies = m->opt.integrator == mjINT_IMPLICITFAST && any_standalone_;
  articulated_ = use_products_ && entries_.empty() && !free_bodies && !coriolis_ && ArticulatedSolver::Pays(m);
  if (articulated_) return articulated_solver_.Factor(m, d, diagonal_.data());
  solver_.AddRows(m->M_rowadr, m->M_rownnz, m->M_colind, d->M);
  if (free_bodies) AddFreeBodies(m, d);
  return Factor(m, d);
}

// its symmetric part; the rest goes to what is not symmetric, bias_ and the blocks of free bodies
void EffectiveMass::AddFluid(const mjModel* m, const mjData* d) {
  fluid_present_ = m->opt.integrator != mjINT_EULER && HasFluid(m);
  if (!fluid_present_) return;
  if (!fluid_) fluid_ = std::make_unique<FluidDamping>(m);
  fluid_present_ = fluid_->Compute(m, d);
  if (!fluid_present_ || m->opt.integrator != mjINT_IMPLICITFAST) return;
  for (int i = 0; i < m->nv; i++) {
    if (IsStandaloneFreeBody(m, m->dof_bodyid[i])) continue;
    for (int j = i; j >= 0; j = m->dof_parentid[j]) {
      if (KeepsDamping(m, i, j)) Add(i, j, fluid_->Entry(m, d, i, j));
    }
  }
}

bool EffectiveMass::Factor(const mjModel* m, const mjData* d) {
  if (!coriolis_) return solver_.Factor(entries_.empty() ? AxesOfInertia(m, d, solver_) : nullptr);
  coriolis_->Compute(m, d, &bias_);
  for (int i = 0; i < m->nv && fluid_present_; i++) {
    bias_(i, i) += fluid_->Entry(m, d, i, i);
    for (int j = m->dof_parentid[i]; j >= 0; j = m->dof_parentid[j]) {
      bias_(i, j) += fluid_->Entry(m, d, i, j);
      bias_(j, i) += fluid_->Entry(m, d, j, i);
    }
  }
  whole_ = bias_;
  for (int i = 0; i < m->nv; i++) {
    whole_(i, i) += solver_.diagonal(i);
    for (int k = 0; k < solver_.row_size(i); k++) {
      const int j = solver_.row_columns(i)[k];
      whole_(i, j) += solver_.row(i)[k];
      whole_(j, i) += solver_.row(i)[k];
    }
  }
  lu_.Factor(whole_);
  return true;
}

// x ← M'⁻¹ x or M'⁻ᵀ x, free bodies aside
void EffectiveMass::Solve(double* x, bool transposed) const {
  if (articulated_) {
    articulated_solver_.Solve(x);
  } else if (coriolis_) {
    lu_.Solve(x, transposed);
  } else {
    solver_.Solve(x);
  }
}

// blocks M − h D + h ∂c/∂v, before solver_ is factored
void EffectiveMass::AddFreeBodies(const mjModel* m, const mjData* d) {
  for (int b = 1; b < m->nbody; b++) {
    if (!IsStandaloneFreeBody(m, b)) continue;
    FreeBlock& free = free_.emplace_back(m, d, b);
    for (int i = 0; i < 6 && fluid_present_; i++) {
      for (int k = 0; k < 6; k++) free.damping(i, k) += fluid_->Entry(m, d, free.dof() + i, free.dof() + k);
    }
    Mat6 block = free.damping;
    for (int i = 0; i < 6; i++) {
      block(i, i) += solver_.diagonal(free.dof() + i);
      for (int k = 0; k < solver_.row_size(free.dof() + i); k++) {
        const int col = solver_.row_columns(free.dof() + i)[k] - free.dof();
        block(i, col) += solver_.row(free.dof() + i)[k];
        block(col, i) += solver_.row(free.dof() + i)[k];
      }
    }
    free.lu.Factor(block);
  }
}

// (I3) −d(h B JᵀJ) ā on the pattern of M: J_i (dB P_i + B dP_i) + B dJ_i P_i with P_i = Σ_k J_k ā_k over the entries of
// row i
void EffectiveMass::AddDamperColumns(const mjModel* m, const Damper& damper, Columns* E) const {
  const int nv = static_cast<int>(m->nv), ndx = 2 * nv + static_cast<int>(m->na);
  const Moment* moment = damper.moment;
  const std::vector<int>& dof = moment ? moment->dof : damper.dof;
  const int n = static_cast<int>(dof.size());
  if (column_.rows() != nv) column_.resize(nv, 4);
  auto J = column_.col(0).head(n), length = column_.col(1).head(n), dP = column_.col(2).head(n),
       by_q = column_.col(3).head(n);
  if (moment) {
    J = damper.scale * moment->J;
    length = damper.scale * moment->length;
  } else {
    J = length = damper.J;
  }
  for (int i = 0; i < n; i++) {
    double P = 0;
    dP.setZero();
    for (int k = 0; k < n; k++) {
      if (!KeepsDamping(m, dof[i], dof[k])) continue;
      P += J[k] * applied_[dof[k]];
      if (moment)
        dP += PLANT("integrator: turning moment", damper.scale * applied_[dof[k]] * moment->G.row(k).transpose());
    }
    by_q = J[i] * (PLANT("integrator: damping by length", damper.length * P * length) + damper.B * dP);
    if (moment) {
      by_q += PLANT("integrator: turning arm", damper.B * P * damper.scale * moment->G.row(i).transpose());
      by_q +=
          PLANT("integrator: velocity along turning moment", J[i] * damper.velocity * P * damper.scale * moment->rate);
    }
    for (int j = 0; j < n; j++) {
      (*E)(dof[i], dof[j]) -= by_q[j];
      (*E)(dof[i], nv + dof[j]) -= PLANT("integrator: damping by velocity", J[i] * damper.velocity * P * J[j]);
    }
    if (damper.act_index >= 0)
      (*E)(dof[i], 2 * nv + damper.act_index) -= PLANT("integrator: damping by activation", J[i] * damper.act * P);
    if (damper.ctrl_index >= 0)
      (*E)(dof[i], ndx + damper.ctrl_index) -= PLANT("integrator: damping by control", J[i] * damper.ctrl * P);
  }
}

namespace {

constexpr int kWidth = BlockedMatrix::kWidth;

// rows: e_i −= diagonal_i x_i
COSTATE_SIMD void SubtractDiagonal(int nv, const double* diagonal, const double* x, double* e) {
  for (int i = 0; i < nv; i++, x += kWidth, e += kWidth) {
    if (diagonal[i] == 0) continue;
    for (int c = 0; c < kWidth; c += 4) {
      *reinterpret_cast<Double4*>(e + c) -= diagonal[i] * *reinterpret_cast<const Double4*>(x + c);
    }
  }
}

// rows: e_i = −diagonal_i x_i
COSTATE_SIMD void SetDiagonal(int nv, const double* diagonal, const double* x, double* e) {
  for (int i = 0; i < nv; i++, x += kWidth, e += kWidth) {
    for (int c = 0; c < kWidth; c += 4) {
      *reinterpret_cast<Double4*>(e + c) = -diagonal[i] * *reinterpret_cast<const Double4*>(x + c);
    }
  }
}

COSTATE_SIMD void AddTo(int n, const double* e, double* x) {
  for (int k = 0; k < n; k += 4) *reinterpret_cast<Double4*>(x + k) += *reinterpret_cast<const Double4*>(e + k);
}

}  // namespace

void EffectiveMass::AddColumns(const mjModel* m, const mjData* d, Columns* E) const {
  // polynomial damping: −h B'(v) ā on the diagonal of the v columns
  const int nv = static_cast<int>(m->nv);
  for (int i = 0; i < nv; i++) {
    if (slope_[i] != 0) (*E)(i, nv + i) -= slope_[i] * applied_[i];
  }
  for (std::size_t i = 0; i < dampers_; i++) AddDamperColumns(m, damper_[i], E);
  for (const FreeBlock& free : free_) free.body.AddColumns(m, d, applied_.data(), E);
  if (coriolis_) coriolis_->AddColumns(m, d, applied_, E);
  if (fluid_present_) fluid_->AddColumns(m, d, applied_, E);
  AddTendonArmatureProduct(m, *tendons_, difference_.data(), E);
}

bool EffectiveMass::MovesWithOthers() const {
  const bool polynomial = std::any_of(slope_.begin(), slope_.end(), [](double slope) { return slope != 0; });
  return polynomial || dampers_ > 0 || !free_.empty() || coriolis_ || fluid_present_;
}

double* EffectiveMass::Change(const double* x, double* e, bool half) const {
  using Rows = Eigen::Map<Eigen::Matrix<double, 6, kWidth, Eigen::RowMajor>>;
  using ConstRows = Eigen::Map<const Eigen::Matrix<double, 6, kWidth, Eigen::RowMajor>>;
  using AllRows = Eigen::Matrix<double, Eigen::Dynamic, kWidth, Eigen::RowMajor>;
  const int nv = static_cast<int>(diagonal_.size());

  // e − (M' − M) da
  if (e) {
    SubtractDiagonal(nv, diagonal_.data(), x, e);
  } else {
    zero_.Resize(nv, kWidth);
    e = zero_.block(0);
    SetDiagonal(nv, diagonal_.data(), x, e);
  }
  for (const Entry& entry : entries_) {
    for (int c = 0; c < kWidth; c++) {
      e[entry.row * kWidth + c] -= entry.value * x[entry.col * kWidth + c];
      e[entry.col * kWidth + c] -= entry.value * x[entry.row * kWidth + c];
    }
  }
  for (const FreeBlock& free : free_) {
    Rows(e + free.dof() * kWidth).noalias() -= free.damping * ConstRows(x + free.dof() * kWidth);
  }
  if (coriolis_) Eigen::Map<AllRows>(e, nv, kWidth).noalias() -= bias_ * Eigen::Map<const AllRows>(x, nv, kWidth);
  SolveBlock(e, half, false);
  return e;
}

double* EffectiveMass::SolveSum(double* x, const double* e, bool half) const {
  if (e) AddTo(static_cast<int>(diagonal_.size()) * kWidth, e, x);
  SolveBlock(x, half, true);
  return x;
}

// x ← M'⁻¹ x
void EffectiveMass::SolveBlock(double* x, bool half, bool sparse) const {
  right_side_.resize(free_.size() * 6 * kWidth);
  double* saved = right_side_.data();
  for (const FreeBlock& free : free_) saved = std::copy_n(x + free.dof() * kWidth, 6 * kWidth, saved);
  if (coriolis_) {
    lu_.SolveRows(x);
  } else {
    solver_.SolveBlock(x, sparse, half);
  }
  saved = right_side_.data();
  for (const FreeBlock& free : free_) {
    free.lu.SolveRows(saved, x + free.dof() * kWidth);
    saved += 6 * kWidth;
  }
}

// e −= (M' − M) x, or its transpose: only the blocks of free bodies and the bias are not symmetric
void EffectiveMass::SubtractDifference(const double* x, bool transposed, double* e) const {
  for (std::size_t i = 0; i < diagonal_.size(); i++) e[i] -= diagonal_[i] * x[i];
  for (const Entry& entry : entries_) {
    e[entry.row] -= entry.value * x[entry.col];
    e[entry.col] -= entry.value * x[entry.row];
  }
  for (const FreeBlock& free : free_) {
    Eigen::Map<Vec6> to(e + free.dof());
    const Vec6Map from(x + free.dof());
    if (transposed) to.noalias() -= PLANT("pull: free body", free.damping.transpose() * from);
    else to.noalias() -= PLANT("push: free body", free.damping * from);
  }
  if (!coriolis_) return;
  Eigen::Map<Eigen::VectorXd> to(e, diagonal_.size());
  const Eigen::Map<const Eigen::VectorXd> from(x, diagonal_.size());
  if (transposed) to.noalias() -= bias_.transpose() * from;
  else to.noalias() -= bias_ * from;
}

void EffectiveMass::ApplyVector(double* x, double* e) const {
  SubtractDifference(x, false, e);
  right_side_.assign(e, e + diagonal_.size());
  Solve(e);
  for (const FreeBlock& free : free_)
    Eigen::Map<Vec6>(e + free.dof()) = free.lu.Solve(Vec6Map(right_side_.data() + free.dof()));
  for (std::size_t i = 0; i < diagonal_.size(); i++) x[i] += e[i];
}

void EffectiveMass::ApplyTransposed(double* y, double* z) const {
  // z = M'⁻ᵀ y, then y − (M' − M)ᵀ z
  std::copy(y, y + diagonal_.size(), z);
  Solve(z, true);
  for (const FreeBlock& free : free_) Eigen::Map<Vec6>(z + free.dof()) = free.lu.Solve(Vec6Map(y + free.dof()), true);
  SubtractDifference(z, true, y);
}

}  // namespace costate
