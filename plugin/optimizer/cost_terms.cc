#include "optimizer/cost_terms.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>

#include "core/dense_product.h"
#include "core/difference_row.h"

namespace costate {
namespace {

using Matrix34 = Eigen::Matrix<double, 3, 4>;

constexpr double kTimeTolerance = 1e-9;  // [s] a knot at a window's edge belongs to it whatever the rounding of t dt

// ω = 2 Im(q* dq), the body-frame rotation that dq stands for, as a matrix on dq
Matrix34 BodyRotation(const double* q) {
  Matrix34 E;
  E << -q[1], q[0], q[3], -q[2],  //
      -q[2], -q[3], q[0], q[1],   //
      -q[3], q[2], -q[1], q[0];
  return 2 * E;
}

const double* InputVector(const KnotView& knot, Input input) {
  switch (input) {
    case Input::kSensor: return knot.s.data();
    case Input::kState: return knot.x.data();
    case Input::kControl: return knot.u.data();
  }
  return nullptr;
}

constexpr double kIdentity[4] = {1, 0, 0, 0};

// the two quaternions whose difference is the residual
struct QuaternionPair {
  const double* measured;
  const double* target;
};
QuaternionPair Quaternions(const RotationEntry& rotation, const KnotView& knot, const VectorXd& slots) {
  return {InputVector(knot, rotation.scalar.input) + rotation.scalar.value,
          rotation.other >= 0  ? knot.s.data() + rotation.other
          : rotation.slot >= 0 ? slots.data() + rotation.slot
                               : kIdentity};
}

// memory that every evaluation of a term on this thread uses again
struct TermScratch {
  VectorXd r, z, slots, g, d, v, rJ;
  MatrixXd J, Ju, DJ, DJu, Jz, V;
  PackedMatrix packed;
  ResidualJacobian map;
  double outer = 0;
};
TermScratch& ThreadScratch(const ScratchNumber& number) {
  static thread_local std::vector<std::unique_ptr<TermScratch>> scratch;  // growing moves none
  const std::size_t i = number.value();
  if (scratch.size() <= i) scratch.resize(i + 1);
  if (!scratch[i]) scratch[i] = std::make_unique<TermScratch>();
  return *scratch[i];
}

// the numbers that are taken, and those that were given back
struct ScratchNumbers {
  std::mutex mutex;
  std::vector<std::size_t> free;
  std::size_t count = 0;
};
ScratchNumbers& AllScratchNumbers() {
  static ScratchNumbers numbers;
  return numbers;
}

// g = w ρ', d = w ρ''; a vector norm adds outer · r rᵀ to the diagonal. Returns w ρ
double NormSlopes(const ResidualTerm& term, const VectorXd& weight, double scale, TermScratch* scratch) {
  const VectorXd& r = scratch->r;
  scratch->g.resize(r.size());
  scratch->d.resize(r.size());
  scratch->outer = 0;
  if (!term.norm.IsSeparable()) {
    const VectorNormValue norm = EvaluateVector(term.norm, r);
    const double w = scale * weight[0];
    scratch->g = w * norm.slope * r;
    scratch->d.setConstant(w * norm.slope);
    scratch->outer = w * norm.outer;
    return w * norm.value;
  }
  double sum = 0;
  for (int i = 0; i < r.size(); ++i) {
    const NormValue norm = Evaluate(term.norm, r[i]);
    const double w = scale * weight[i];
    sum += w * norm.value;
    scratch->g[i] = w * norm.gradient;
    scratch->d[i] = w * norm.curvature;
  }
  return sum;
}

// ∂r/∂z, below it the rows of (6a)
void MapJacobian(const ResidualTerm& term, const KnotView& knot, const VectorXd& g, TermScratch* scratch) {
  MatrixXd& J = scratch->map.measured;
  term.map->Jacobian(knot, scratch->z, &scratch->map);
  term.map->Curvature(knot, scratch->z, g, &scratch->V);
  const Eigen::Index curvatures = scratch->V.rows();
  if (curvatures == 0) return;
  scratch->Jz.resize(J.rows() + curvatures, J.cols());
  scratch->Jz.topRows(J.rows()) = J;
  scratch->Jz.bottomRows(curvatures) = scratch->V;
  J.swap(scratch->Jz);
}

// what is measured, less the target
void ComputeMeasured(const ResidualTerm& term, const KnotView& knot, VectorXd* r, VectorXd* slots) {
  TargetAt(term, knot.TaskTime(), slots);

  // r = Σ coef · value - target
  r->resize(term.measured_size());
  for (int i = 0; i < term.measured_size(); ++i) (*r)[i] = term.row_slot[i] >= 0 ? -(*slots)[term.row_slot[i]] : 0;
  for (const LinearEntry& entry : term.linear) {
    (*r)[entry.row] += entry.coef * InputVector(knot, entry.scalar.input)[entry.scalar.value];
  }

  // r = log(q_target⁻¹ q)
  for (const RotationEntry& rotation : term.rotations) {
    const QuaternionPair pair = Quaternions(rotation, knot, *slots);
    double difference[3];
    mju_subQuat(difference, pair.measured, pair.target);
    for (int k = 0; k < 3; ++k) {
      if (rotation.row[k] >= 0) (*r)[rotation.row[k]] = difference[k];
    }
  }
}

}  // namespace

ScratchNumber::ScratchNumber() {
  ScratchNumbers& numbers = AllScratchNumbers();
  const std::lock_guard lock(numbers.mutex);
  if (numbers.free.empty()) numbers.free.push_back(numbers.count++);
  value_ = numbers.free.back();
  numbers.free.pop_back();
}

ScratchNumber::~ScratchNumber() {
  ScratchNumbers& numbers = AllScratchNumbers();
  const std::lock_guard lock(numbers.mutex);
  numbers.free.push_back(value_);
}

// ---- targets --------------------------------------------------------------------------------------------------------

void TargetAt(const ResidualTerm& term, double time, VectorXd* slots) {
  const MatrixXd& values = term.target.values;
  const VectorXd& times = term.target.time;
  const Eigen::Index last = values.cols() - 1;
  if (last <= 0 || time <= times[0]) {
    slots->resize(last >= 0 ? values.rows() : 0);
    if (last >= 0) *slots = values.col(0);
    return;
  }
  if (time >= times[last]) {
    *slots = values.col(last);
    return;
  }

  // linear in between
  const Eigen::Index k = std::upper_bound(times.data(), times.data() + last + 1, time) - times.data() - 1;
  const double s = (time - times[k]) / (times[k + 1] - times[k]);
  *slots = (1 - s) * values.col(k) + s * values.col(k + 1);

  // rotations at constant angular velocity
  for (const RotationEntry& rotation : term.rotations) {
    if (rotation.slot < 0) continue;
    const double* from = values.col(k).data() + rotation.slot;
    double way[3], q[4] = {from[0], from[1], from[2], from[3]};
    mju_subQuat(way, values.col(k + 1).data() + rotation.slot, from);
    mju_quatIntegrate(q, way, s);
    for (int i = 0; i < 4; ++i) (*slots)[rotation.slot + i] = q[i];
  }
}

VectorXd MeasuredSlots(const ResidualTerm& term, ConstVectorRef x, ConstVectorRef u, ConstVectorRef s, int slots) {
  const KnotView knot{.t = 0, .N = 1, .time = 0, .dt = 0, .x = x, .u = u, .s = s};
  VectorXd result = VectorXd::Zero(slots);
  for (const LinearEntry& entry : term.linear) {
    const int slot = term.row_slot[entry.row];
    if (slot >= 0) result[slot] += entry.coef * InputVector(knot, entry.scalar.input)[entry.scalar.value];
  }
  for (const RotationEntry& rotation : term.rotations) {
    if (rotation.slot < 0) continue;
    const double* q = InputVector(knot, rotation.scalar.input) + rotation.scalar.value;
    for (int i = 0; i < 4; ++i) result[rotation.slot + i] = q[i];
  }
  return result;
}

// ---- value ----------------------------------------------------------------------------------------------------------

ResidualCost::ResidualCost(const mjModel* model, std::vector<ResidualTerm> terms, CostScale scale)
    : dims_(model), terms_(std::move(terms)), scratch_(terms_.size()), scale_(scale) {
  for (const ResidualTerm& term : terms_) {
    plans_.push_back(MakePlan(model, term));
    positive_ = positive_ && (term.weight.array() >= 0).all() && (term.terminal.array() >= 0).all();
    for (const LinearEntry& entry : term.linear) needs_sensors_ |= entry.scalar.input == Input::kSensor;
    for (const RotationEntry& entry : term.rotations) needs_sensors_ |= entry.scalar.input == Input::kSensor;
  }
}

void ResidualCost::MarkSensors(std::vector<char>* read) const {
  for (const ResidualTerm& term : terms_) {
    for (const LinearEntry& entry : term.linear) {
      if (entry.scalar.input == Input::kSensor) (*read)[entry.scalar.value] = 1;
    }
    for (const RotationEntry& entry : term.rotations) {
      if (entry.scalar.input == Input::kSensor) std::fill_n(read->begin() + entry.scalar.value, 4, 1);
      if (entry.other >= 0) std::fill_n(read->begin() + entry.other, 4, 1);
    }
  }
}

double ResidualCost::Weights(const ResidualTerm& term, const KnotView& knot, const VectorXd** weight) const {
  *weight = knot.t == knot.N ? &term.terminal : &term.weight;
  if ((*weight)->isZero(0)) return 0;
  const double knots = knot.N + 1;
  if (knot.t == knot.N) return scale_ == CostScale::kKnots ? 1 / knots : 1;
  const double time = knot.TaskTime();
  if (time < term.begin - kTimeTolerance || time >= term.end - kTimeTolerance) return 0;
  if (scale_ == CostScale::kKnots) return 1 / knots;
  return scale_ == CostScale::kDt ? knot.dt : scale_ == CostScale::kMean ? 1.0 / knot.N : 1.0;
}

void ResidualCost::Residual(int index, const KnotView& knot, VectorXd* r) const {
  const ResidualTerm& term = terms_[index];
  TermScratch& scratch = ThreadScratch(scratch_[static_cast<std::size_t>(index)]);
  ComputeMeasured(term, knot, term.map ? &scratch.z : r, &scratch.slots);
  if (term.map) term.map->Value(knot, scratch.z, r);
}

double ResidualCost::TermValue(int index, const KnotView& knot) const {
  const ResidualTerm& term = terms_[index];
  const VectorXd* weight;
  const double scale = Weights(term, knot, &weight);
  if (scale == 0) return 0;
  VectorXd& r = ThreadScratch(scratch_[static_cast<std::size_t>(index)]).r;
  Residual(index, knot, &r);
  if (!term.norm.IsSeparable()) return scale * (*weight)[0] * ValueOfVector(term.norm, r);
  double sum = 0;
  for (int i = 0; i < r.size(); ++i) sum += (*weight)[i] * costate::Value(term.norm, r[i]);
  return scale * sum;
}

bool ResidualTerm::reads_control() const {
  return (map && map->reads_control()) || std::any_of(linear.begin(), linear.end(), [](const LinearEntry& entry) {
           return entry.scalar.input == Input::kControl;
         });
}

bool ResidualCost::HasMovingTarget() const {
  return std::any_of(terms_.begin(), terms_.end(),
                     [](const ResidualTerm& term) { return term.target.time.size() > 1; });
}

template <typename F>
void ResidualCost::ForEachWeighted(const KnotView& knot, F&& visit) const {
  for (std::size_t i = 0; i < terms_.size(); ++i) {
    const VectorXd* weight;
    const double scale = Weights(terms_[i], knot, &weight);
    if (scale == 0) continue;
    TermScratch& scratch = ThreadScratch(scratch_[i]);
    Residual(static_cast<int>(i), knot, &scratch.r);
    visit(i, &scratch, *weight, scale);
  }
}

double ResidualCost::Value(const KnotView& knot) const {
  double l = 0;
  for (int i = 0; i < static_cast<int>(terms_.size()); ++i) l += TermValue(i, knot);
  return l;
}

std::vector<CostTermValue> ResidualCost::Terms(const Trajectory& trajectory) const {
  const double dt = ControlInterval(trajectory);
  std::vector<CostTermValue> values;
  for (int i = 0; i < static_cast<int>(terms_.size()); ++i) {
    double sum = 0;
    for (int t = 0; t <= trajectory.N(); ++t) sum += TermValue(i, ViewKnot(trajectory, t, dt));
    values.push_back({terms_[i].name, sum});
  }
  return values;
}

// ---- expansion ------------------------------------------------------------------------------------------------------

ResidualCost::Plan ResidualCost::MakePlan(const mjModel* model, const ResidualTerm& term) const {
  Plan plan;
  plan.local = term.norm.IsSeparable() && !term.map;
  std::vector<int> entries_of_row(term.measured_size(), 0);
  if (term.map && term.map->reads_state()) plan.state_columns = dims_.ndx;
  plan.control = term.map && term.map->reads_control();
  auto use = [&](const Scalar& scalar, int width) {
    if (scalar.input == Input::kControl) plan.control = true;
    if (scalar.input == Input::kState) plan.state_columns = std::max(plan.state_columns, scalar.column + width);
    if (scalar.input != Input::kSensor) return;
    plan.local = false;

    // a sensor of positions has no derivative with respect to velocities, one of velocities none to act and ctrl
    int id = 0;
    while (id + 1 < model->nsensor && model->sensor_adr[id + 1] <= scalar.value) ++id;
    int stage = model->sensor_needstage[id];
    if (model->sensor_type[id] == mjSENS_E_KINETIC) stage = mjSTAGE_VEL;  // the engine's is that of positions
    if (model->sensor_type[id] >= mjSENS_PLUGIN || model->sensor_historyadr[id] >= 0) stage = mjSTAGE_ACC;
    const int columns = stage == mjSTAGE_POS ? dims_.nv : stage == mjSTAGE_VEL ? 2 * dims_.nv : dims_.ndx;
    plan.state_columns = std::max(plan.state_columns, columns);
    if (stage == mjSTAGE_ACC) plan.control = true;
  };
  for (const LinearEntry& entry : term.linear) {
    use(entry.scalar, 1);
    if (++entries_of_row[entry.row] > 1) plan.local = false;
  }
  for (const RotationEntry& rotation : term.rotations) {
    use(rotation.scalar, 3);
    if (rotation.other >= 0) use({Input::kSensor, rotation.other, 0}, 3);
  }
  return plan;
}

bool ResidualCost::DependsOn(int index, const std::vector<int>& entries) const {
  const Plan& plan = plans_[static_cast<std::size_t>(index)];
  const ResidualTerm& term = terms_[static_cast<std::size_t>(index)];
  const auto reads = [](const Scalar& scalar, int width, int entry) {
    return scalar.input == Input::kState && scalar.column <= entry && entry < scalar.column + width;
  };
  return std::any_of(entries.begin(), entries.end(), [&](int entry) {
    if (!plan.local) return entry < plan.state_columns;
    return std::any_of(term.linear.begin(), term.linear.end(),
                       [&](const LinearEntry& e) { return reads(e.scalar, 1, entry); }) ||
           std::any_of(term.rotations.begin(), term.rotations.end(),
                       [&](const RotationEntry& e) { return reads(e.scalar, 3, entry); });
  });
}

void ResidualCost::ExpandLocal(const ResidualTerm& term, const KnotView& knot, const VectorXd& r,
                               const VectorXd& weight, double scale, CostExpansion* out) const {
  // one component, one coordinate: gradient and curvature go to single entries
  for (const LinearEntry& entry : term.linear) {
    const NormValue norm = Evaluate(term.norm, r[entry.row]);
    const double w = scale * weight[entry.row];
    const int i = entry.scalar.column;
    const bool control = entry.scalar.input == Input::kControl;
    out->l += w * norm.value;
    (control ? out->lu : out->lx)[i] += w * norm.gradient * entry.coef;
    (control ? out->luu : out->lxx)(i, i) += w * norm.curvature * entry.coef * entry.coef;
  }

  // one rotation, three coordinates: lx += Jᵀg, lxx += Jᵀ diag(d) J with 3×3 J
  for (const RotationEntry& rotation : term.rotations) {
    const QuaternionPair pair =
        Quaternions(rotation, knot, ThreadScratch(scratch_[static_cast<std::size_t>(&term - terms_.data())]).slots);
    const auto J = SubQuatJacobian(pair.measured, pair.target).a;
    Eigen::Vector3d g = Eigen::Vector3d::Zero(), d = Eigen::Vector3d::Zero();
    for (int k = 0; k < 3; ++k) {
      if (rotation.row[k] < 0) continue;
      const NormValue norm = Evaluate(term.norm, r[rotation.row[k]]);
      const double w = scale * weight[rotation.row[k]];
      out->l += w * norm.value;
      g[k] = w * norm.gradient;
      d[k] = w * norm.curvature;
    }
    const int i = rotation.scalar.column;
    out->lx.segment<3>(i) += J.transpose() * g;
    out->lxx.block<3, 3>(i, i) += J.transpose() * d.asDiagonal() * J;
  }
}

namespace {

// J and Ju of what is measured: rows of C and D, unit entries, and rotations by the chain rule
void MeasuredJacobian(const ResidualTerm& term, const KnotView& knot, int state_columns, bool control, ConstMatrixRef C,
                      ConstMatrixRef D, TermScratch* scratch) {
  MatrixXd& J = scratch->J;
  MatrixXd& Ju = scratch->Ju;
  J.setZero(term.measured_size(), state_columns);
  if (control) Ju.setZero(term.measured_size(), knot.u.size());
  for (const LinearEntry& entry : term.linear) {
    const Scalar& scalar = entry.scalar;
    if (scalar.input == Input::kState) J(entry.row, scalar.column) += entry.coef;
    if (scalar.input == Input::kControl && control) Ju(entry.row, scalar.column) += entry.coef;
    if (scalar.input != Input::kSensor) continue;
    J.row(entry.row) += entry.coef * C.row(scalar.value).head(state_columns);
    if (control) Ju.row(entry.row) += entry.coef * D.row(scalar.value);
  }

  // dr = Da ω_measured + Db ω_target with ω = 2 Im(q* dq)
  for (const RotationEntry& rotation : term.rotations) {
    const QuaternionPair pair = Quaternions(rotation, knot, scratch->slots);
    const auto [Da, Db] = SubQuatJacobian(pair.measured, pair.target);
    auto add = [&](const Eigen::Matrix3d& dr, const double* q, int address) {
      const Matrix34 dr_dq = dr * BodyRotation(q);
      for (int k = 0; k < 3; ++k) {
        if (rotation.row[k] < 0) continue;
        J.row(rotation.row[k]).noalias() += dr_dq.row(k) * C.block(address, 0, 4, state_columns);
        if (control) Ju.row(rotation.row[k]).noalias() += dr_dq.row(k) * D.middleRows<4>(address);
      }
    };
    if (rotation.scalar.input == Input::kSensor) {
      add(Da, pair.measured, rotation.scalar.value);
    } else {
      for (int k = 0; k < 3; ++k) {
        if (rotation.row[k] >= 0) J.row(rotation.row[k]).segment<3>(rotation.scalar.column) += Da.row(k);
      }
    }
    if (rotation.other >= 0) add(Db, pair.target, rotation.other);
  }
}

// J and Ju of r = g(z, x, u), map being dg at z: dg/dz of what is measured, and what the function reads itself
void ResidualJacobians(const ResidualTerm& term, const KnotView& knot, int state_columns, bool control,
                       ConstMatrixRef C, ConstMatrixRef D, TermScratch* scratch) {
  MeasuredJacobian(term, knot, state_columns, control, C, D, scratch);
  if (!term.map) return;
  const ResidualJacobian& map = scratch->map;
  SetProduct(map.measured, scratch->J, &scratch->Jz, &scratch->packed);
  scratch->J.swap(scratch->Jz);
  if (map.x.size() > 0) scratch->J.topRows(map.x.rows()) += map.x;
  if (!control) return;
  SetProduct(map.measured, scratch->Ju, &scratch->Jz, &scratch->packed);
  scratch->Ju.swap(scratch->Jz);
  if (map.u.size() > 0) scratch->Ju.topRows(map.u.rows()) += map.u;
}

}  // namespace

void ResidualCost::ExpandDense(const ResidualTerm& term, const Plan& plan, const KnotView& knot, const VectorXd& weight,
                               double scale, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const {
  TermScratch& scratch = ThreadScratch(scratch_[static_cast<std::size_t>(&term - terms_.data())]);
  const bool control = plan.control && knot.t < knot.N;
  const int n = plan.state_columns;
  const VectorXd &r = scratch.r, &g = scratch.g, &d = scratch.d;
  out->l += NormSlopes(term, weight, scale, &scratch);
  if (term.map) MapJacobian(term, knot, g, &scratch);
  ResidualJacobians(term, knot, n, control, C, D, &scratch);
  const MatrixXd &J = scratch.J, &Ju = scratch.Ju;
  const Eigen::Index rows = r.size();

  // lx += Jᵀg, lxx += Jᵀ (diag(d) + outer r rᵀ) J, its lower triangle, and the same with Ju; rows of curvature below r's
  // have none of g, and 1 for d
  const auto weighted = [&](const MatrixXd& jacobian, MatrixXd* DJ) {
    *DJ = jacobian;
    DJ->topRows(rows).array().colwise() *= d.array();
    if (scratch.outer == 0) return;
    scratch.rJ.noalias() = jacobian.topRows(rows).transpose() * r;
    for (Eigen::Index j = 0; j < jacobian.cols(); ++j) DJ->col(j).head(rows) += scratch.outer * scratch.rJ[j] * r;
  };
  weighted(J, &scratch.DJ);
  out->lx.head(n).noalias() += J.topRows(rows).transpose() * g;
  PackLeftTransposed(J, &scratch.packed).AddProductLower(scratch.DJ, out->lxx.topLeftCorner(n, n));
  if (!control) return;
  weighted(Ju, &scratch.DJu);
  out->lu.noalias() += Ju.topRows(rows).transpose() * g;
  const LeftFactor left = PackLeftTransposed(Ju, &scratch.packed);
  left.AddProduct(scratch.DJ, out->lux.leftCols(n));
  left.AddProductLower(scratch.DJu, out->luu);
}

void ResidualCost::Expand(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const {
  ResizeExpansion(dims_.ndx, dims_.nu, knot.t == knot.N, out);
  ForEachWeighted(knot, [&](std::size_t i, const TermScratch* scratch, const VectorXd& weight, double scale) {
    if (plans_[i].local) {
      ExpandLocal(terms_[i], knot, scratch->r, weight, scale, out);
    } else {
      ExpandDense(terms_[i], plans_[i], knot, weight, scale, C, D, out);
    }
  });
  MirrorLower(&out->lxx);
  MirrorLower(&out->luu);
}

// by its own residual's Jacobian: what slopes of sensors make of it is not its own
std::vector<std::string> ResidualCost::TermsWithoutSlope(const KnotView& knot) const {
  const bool last = knot.t == knot.N;
  const MatrixXd C = MatrixXd::Zero(dims_.ns, dims_.ndx), D = MatrixXd::Zero(last ? 0 : dims_.ns, last ? 0 : dims_.nu);
  std::vector<std::string> names;
  ForEachWeighted(knot, [&](std::size_t i, const TermScratch* scratch, const VectorXd& weight, double scale) {
    const double w = scale * weight.cwiseAbs().maxCoeff(), size = scratch->r.squaredNorm();
    MatrixXd J, Ju;
    Jacobian(static_cast<int>(i), knot, C, D, &J, &Ju);
    if (!std::isfinite(w * (size + J.squaredNorm() + Ju.squaredNorm()))) names.push_back(terms_[i].name);
  });
  return names;
}

// ---- gradient -------------------------------------------------------------------------------------------------------

namespace {

// out += Jᵀ g of what is measured, with the rows of sensors left to whoever has C and D
void PullMeasured(const ResidualTerm& term, const KnotView& knot, const VectorXd& g, const VectorXd& slots,
                  KnotGradient* out) {
  for (const LinearEntry& entry : term.linear) {
    const Scalar& scalar = entry.scalar;
    const double slope = entry.coef * g[entry.row];
    if (scalar.input == Input::kState) out->x[scalar.column] += slope;
    if (scalar.input == Input::kControl) out->u[scalar.column] += slope;
    if (scalar.input == Input::kSensor) out->s[scalar.value] += slope;
  }
  for (const RotationEntry& rotation : term.rotations) {
    const QuaternionPair pair = Quaternions(rotation, knot, slots);
    const auto [Da, Db] = SubQuatJacobian(pair.measured, pair.target);
    Eigen::Vector3d slope = Eigen::Vector3d::Zero();
    for (int k = 0; k < 3; ++k) slope[k] = rotation.row[k] >= 0 ? g[rotation.row[k]] : 0;
    const Eigen::Vector3d measured = Da.transpose() * slope, other = Db.transpose() * slope;
    if (rotation.scalar.input == Input::kSensor) {
      out->s.segment<4>(rotation.scalar.value) += BodyRotation(pair.measured).transpose() * measured;
    } else {
      out->x.segment<3>(rotation.scalar.column) += measured;
    }
    if (rotation.other >= 0) out->s.segment<4>(rotation.other) += BodyRotation(pair.target).transpose() * other;
  }
}

// J d of what is measured
VectorXd PushMeasured(const ResidualTerm& term, const KnotView& knot, const KnotGradient& d, const VectorXd& slots) {
  VectorXd dr = VectorXd::Zero(term.measured_size());
  for (const LinearEntry& entry : term.linear) {
    const Scalar& scalar = entry.scalar;
    dr[entry.row] += entry.coef * (scalar.input == Input::kState     ? d.x[scalar.column]
                                   : scalar.input == Input::kControl ? d.u[scalar.column]
                                                                     : d.s[scalar.value]);
  }
  for (const RotationEntry& rotation : term.rotations) {
    const QuaternionPair pair = Quaternions(rotation, knot, slots);
    const auto [Da, Db] = SubQuatJacobian(pair.measured, pair.target);
    Eigen::Vector3d way =
        rotation.scalar.input == Input::kSensor
            ? Eigen::Vector3d(Da * (BodyRotation(pair.measured) * d.s.segment<4>(rotation.scalar.value)))
            : Eigen::Vector3d(Da * d.x.segment<3>(rotation.scalar.column));
    if (rotation.other >= 0) way += Db * (BodyRotation(pair.target) * d.s.segment<4>(rotation.other));
    for (int k = 0; k < 3; ++k) {
      if (rotation.row[k] >= 0) dr[rotation.row[k]] += way[k];
    }
  }
  return dr;
}

// the same of the residual itself; scratch->map is that at scratch->z
void PullResidual(const ResidualTerm& term, const KnotView& knot, const VectorXd& g, TermScratch* scratch,
                  KnotGradient* out) {
  if (!term.map) return PullMeasured(term, knot, g, scratch->slots, out);
  scratch->v.noalias() = scratch->map.measured.transpose() * g;
  PullMeasured(term, knot, scratch->v, scratch->slots, out);
  if (scratch->map.x.size() > 0) out->x += scratch->map.x.transpose() * g;
  if (scratch->map.u.size() > 0) out->u += scratch->map.u.transpose() * g;
}

VectorXd PushResidual(const ResidualTerm& term, const KnotView& knot, const KnotGradient& d, TermScratch* scratch) {
  VectorXd dz = PushMeasured(term, knot, d, scratch->slots);
  if (!term.map) return dz;
  VectorXd dr = scratch->map.measured * dz;
  if (scratch->map.x.size() > 0) dr += scratch->map.x * d.x;
  if (scratch->map.u.size() > 0) dr += scratch->map.u * d.u;
  return dr;
}

}  // namespace

void ResidualCost::Jacobian(int index, const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, MatrixXd* J,
                            MatrixXd* Ju) const {
  TermScratch& scratch = ThreadScratch(scratch_[static_cast<std::size_t>(index)]);
  const Plan& plan = plans_[static_cast<std::size_t>(index)];
  const ResidualTerm& term = terms_[static_cast<std::size_t>(index)];
  const bool control = plan.control && knot.t < knot.N;
  Residual(index, knot, &scratch.r);
  if (term.map) term.map->Jacobian(knot, scratch.z, &scratch.map);
  ResidualJacobians(term, knot, plan.state_columns, control, C, D, &scratch);
  *J = scratch.J;
  if (control) *Ju = scratch.Ju;
  else Ju->resize(term.size(), 0);
}

void ResidualCost::Curvature(int index, const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, ConstVectorRef g,
                             MatrixXd* V, MatrixXd* Vu) const {
  const ResidualTerm& term = terms_[static_cast<std::size_t>(index)];
  const Plan& plan = plans_[static_cast<std::size_t>(index)];
  TermScratch& scratch = ThreadScratch(scratch_[static_cast<std::size_t>(index)]);
  V->resize(0, 0);
  Vu->resize(0, 0);
  if (!term.map) return;
  Residual(index, knot, &scratch.r);
  scratch.g = g;
  term.map->Curvature(knot, scratch.z, scratch.g, &scratch.V);
  if (scratch.V.isZero(0)) return;
  const bool control = plan.control && knot.t < knot.N;
  MeasuredJacobian(term, knot, plan.state_columns, control, C, D, &scratch);
  V->noalias() = scratch.V * scratch.J;
  if (control) Vu->noalias() = scratch.V * scratch.Ju;
}

void ResidualCost::PullBack(int index, const KnotView& knot, ConstVectorRef g, KnotGradient* out) const {
  const ResidualTerm& term = terms_[static_cast<std::size_t>(index)];
  TermScratch& scratch = ThreadScratch(scratch_[static_cast<std::size_t>(index)]);
  Residual(index, knot, &scratch.r);
  if (term.map) term.map->Jacobian(knot, scratch.z, &scratch.map);
  PullResidual(term, knot, g, &scratch, out);
}

void ResidualCost::Gradient(const KnotView& knot, KnotGradient* out) const {
  ForEachWeighted(knot, [&](std::size_t i, TermScratch* scratch, const VectorXd& weight, double scale) {
    const ResidualTerm& term = terms_[i];
    NormSlopes(term, weight, scale, scratch);
    if (term.map) term.map->Jacobian(knot, scratch->z, &scratch->map);
    PullResidual(term, knot, scratch->g, scratch, out);
  });
}

// Jᵀ (diag(d) + outer r rᵀ) J d with the rows of (6a), as ExpandDense
void ResidualCost::GaussNewtonProduct(const mjModel*, const KnotView& knot, const KnotGradient& direction,
                                      KnotGradient* out) const {
  ForEachWeighted(knot, [&](std::size_t i, TermScratch* scratch, const VectorXd& weight, double scale) {
    const ResidualTerm& term = terms_[i];
    const VectorXd& r = scratch->r;
    NormSlopes(term, weight, scale, scratch);
    if (term.map) MapJacobian(term, knot, scratch->g, scratch);
    VectorXd along = PushResidual(term, knot, direction, scratch);
    const double outer = scratch->outer == 0 ? 0 : scratch->outer * r.dot(along.head(r.size()));
    along.head(r.size()).array() *= scratch->d.array();
    if (outer != 0) along.head(r.size()) += outer * r;
    PullResidual(term, knot, along, scratch, out);
  });
}

}  // namespace costate
