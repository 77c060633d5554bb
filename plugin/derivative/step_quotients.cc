#include "derivative/step_quotients.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "core/extremes.h"
#include "core/joint.h"
#include "core/warnings.h"
#include "derivative/equilibrium.h"

namespace costate {
namespace {

constexpr double kUnitRoundoff = 1.1e-16;
constexpr int kUsable = 3;              // step sizes wanted without a switch, before a column is given up …
constexpr int kExtraSizes = 4;          // … after this many smaller ones, which are also added …
constexpr double kQuotientBend = 1e-4;  // … while the last two quotients differ by this much of their column
constexpr double kCornerNoise = 4;      // of the noise of a quotient: what can be left of one jump of the slope
constexpr double kSureNoise = 4;        // likewise: an error bar that smaller nudges do not make less
constexpr double kPoor = 1e-7;          // likewise: more, and rounding may have made it
constexpr double kNear = 10;            // error bars, beyond which wider nudges tell of another piece
constexpr double kOpen = 1e-3;          // of the largest number of its part, by which a row's quotients may disagree
constexpr double kModelNoise = 1e-15;   // of the largest of a part: rounding of models that are moved
constexpr double kMostWide = 256;       // of the usual nudge, times what the input is worth …
constexpr double kLeastWide = 8;        // … and less is not worth its steps
constexpr int kWideSizes = 3;           // of these
constexpr double kNoiseNudge = 1e-11;   // squared, times the curvature of the stiffest contact, it is below rounding
constexpr double kBeside = 1e-6;        // from the point, as far as nudges are: there the solver has some way to go

}  // namespace

StepQuotients::StepQuotients(const mjModel* model, int substeps, Beside beside, int sizes)
    : substeps_(substeps),
      sizes_(sizes),
      beside_(beside),
      local_(model),
      stencil_(model),
      dims_(stencil_.dims()),
      ns_(beside == Beside::kNothing   ? 0
          : beside == Beside::kSensors ? dims_.ns
                                       : dims_.nv),
      next_(dims_.nx),
      sensors_(ns_),
      noise_(VectorXd::Zero(dims_.ndx + ns_)),
      here_(dims_.nx),
      here_sensors_(ns_),
      plus_(dims_.nx),
      minus_(dims_.nx),
      plus_sensors_(ns_),
      minus_sensors_(ns_),
      half_(dims_.ndx),
      parts_{dims_.nv, dims_.nv, dims_.na} {
  for (Table& table : tables_) {
    const int most = &table == tables_ ? sizes + kExtraSizes : kWideSizes;
    table.quotients.resize(rows(), most);
    table.bends.resize(rows(), most);
    table.left.resize(dims_.nv, most);
  }
  if (beside == Beside::kSensors) parts_.insert(parts_.end(), model->sensor_dim, model->sensor_dim + model->nsensor);
  if (beside == Beside::kAcceleration) parts_.push_back(dims_.nv);
}

void StepQuotients::Begin(const mjModel* model, mjData* data) {
  data_ = data;
  local_.Refresh(model, true);
  if (beside_ != Beside::kSensors) local_.SkipSensors();
  stencil_.CaptureInterval(model, substeps_, &local_, data_);
  stencil_.Restore(local_.get(), data_, -1, 0);
  local_.SelectActivationBranches(data_, std::max(1, substeps_), &stencil_.midpoints());
  stencil_.Restore(local_.get(), data_, -1, 0);
  Interval(&next_, &sensors_, &base_);
  noise_.setZero();
}

// the interval from where data is, with the switches of all its steps
void StepQuotients::Interval(VectorXd* next, VectorXd* sensors, SwitchSet* active) {
  const mjModel* m = local_.get();
  active->Clear();
  if (substeps_ == 0) active->Forward(m, data_);
  for (int k = 0; k < std::max(1, substeps_); ++k) {
    if (substeps_ > 0) active->Step(m, data_);
    if (k == 0 && ns_ > 0) {
      const mjtNum* values = beside_ == Beside::kSensors ? data_->sensordata : data_->qacc;
      *sensors = Eigen::Map<const VectorXd>(values, ns_);
    }
    stencil_.midpoints().GoOn(m, k, data_);
  }
  mj_getState(m, data_, next->data(), kStateSignature);
}

// f(x ⊕ (c + δ)) and f(x ⊕ (c − δ)) into plus_ and minus_; false when something switches
bool StepQuotients::BothSides(const VectorXd& center, const VectorXd& direction, const SwitchSet& set) {
  bool same = true;
  for (double sign : {1.0, -1.0}) {
    stencil_.RestoreAlong(local_.get(), data_, center + sign * kNoiseNudge * direction, 1);
    Interval(sign > 0 ? &plus_ : &minus_, sign > 0 ? &plus_sensors_ : &minus_sensors_, &stencil_set_);
    same = same && stencil_set_.DifferenceFrom(set) == nullptr;
  }
  return same;
}

// 1 for each position and velocity that nothing switches under, alone
VectorXd StepQuotients::SmoothDirections() {
  VectorXd smooth(2 * dims_.nv);
  const VectorXd center = VectorXd::Zero(smooth.size());
  for (int i = 0; i < smooth.size(); ++i) smooth[i] = BothSides(center, VectorXd::Unit(smooth.size(), i), base_);
  return smooth;
}

// what BothSides left, about the values half way
void StepQuotients::AddNoise(const VectorXd& next, const VectorXd& sensors) {
  VectorXd forward(dims_.ndx), backward(dims_.ndx);
  FineStateQuotient(local_.get(), dims_, plus_, next, 1, forward);
  FineStateQuotient(local_.get(), dims_, minus_, next, 1, backward);
  noise_.head(dims_.ndx) = noise_.head(dims_.ndx).cwiseMax((forward + backward).cwiseAbs() / 2);
  noise_.tail(ns_) = noise_.tail(ns_).cwiseMax((plus_sensors_ + minus_sensors_ - 2 * sensors).cwiseAbs() / 2);
}

// What is left of f(x ⊕ δ) + f(x ⊖ δ) − 2 f(x) when δ is too small for any curvature: rounding and the solver's noise.
// Also beside the point: where the solver starts at its solution, it errs less than it does for a nudge.
void StepQuotients::MeasureNoise(int samples) {
  const mjModel* m = local_.get();
  const int n2 = 2 * dims_.nv;
  VectorXd direction(n2), center(n2), next(dims_.nx), sensors(ns_);
  SwitchSet set;
  std::mt19937 engine(1);
  const auto draw = [&engine](VectorXd* out) {
    for (double& entry : *out) entry = static_cast<double>(engine()) / 2147483648.0 - 1;
  };
  const VectorXd point = VectorXd::Zero(n2);
  VectorXd smooth = VectorXd::Ones(n2);  // 0 where the point lies on a corner, whose jump is no noise
  bool corners = false;
  for (int sample = 0; sample < samples; ++sample) {
    draw(&direction);
    direction.array() *= smooth.array();
    bool same = BothSides(point, direction, base_);
    if (!same && !corners) {
      corners = true;
      smooth = SmoothDirections();
      direction.array() *= smooth.array();
      same = BothSides(point, direction, base_);
    }
    if (same) AddNoise(next_, sensors_);

    draw(&center);
    center *= kBeside;
    stencil_.RestoreAlong(m, data_, center, 1);
    Interval(&next, &sensors, &set);
    if (BothSides(center, direction, set)) AddNoise(next, sensors);
  }

  // rounding of what is differenced; a quaternion's entries are at most 1
  const int n = dims_.nv + dims_.na;
  for (int i = 0; i < dims_.nv; ++i) {
    const int joint = m->dof_jntid[i], offset = i - m->jnt_dofadr[joint];
    const bool rotation = offset >= JointLinearDofs(m->jnt_type[joint]);
    noise_[i] += kUnitRoundoff * (rotation ? 1 : std::abs(next_[m->jnt_qposadr[joint] + offset]));
  }
  noise_.segment(dims_.nv, n) += kUnitRoundoff * next_.tail(n).cwiseAbs();
  noise_.tail(ns_) += kUnitRoundoff * sensors_.cwiseAbs();
}

// fills column k of the table, place(size, sign) puts what is nudged into data; returns the first size that is of use, up
// to which the stencil leaves the smooth piece, or the column's
template <typename Place>
int StepQuotients::Quotient(const Place& place, const Column& column, int k) {
  const Side side = column.side;
  const double eps = std::ldexp(column.eps, -k);
  const VectorXd *x1 = &here_, *x0 = &here_, *s1 = &here_sensors_, *s0 = &here_sensors_;
  const SwitchSet* piece = !column.corner ? &base_ : k > 0 || column.wide ? &piece_ : nullptr;
  Table& to = table(column);
  const char* change = nullptr;
  bool usable = true;
  to.left.col(k).setZero();
  for (int sign : {1, -1}) {
    if (side == (sign > 0 ? Side::kBackward : Side::kForward)) continue;
    VectorXd* next = sign > 0 ? &plus_ : &minus_;
    VectorXd* sensors = sign > 0 ? &plus_sensors_ : &minus_sensors_;
    place(k, sign);
    Interval(next, sensors, &stencil_set_);
    (sign > 0 ? x1 : x0) = next;
    (sign > 0 ? s1 : s0) = sensors;
    NoteChoices(k, &to);
    NoteLeft(k, &to.left);

    // on a clamp's corner the nudges are compared among themselves, but for what a clamp has no part in
    if (piece != nullptr && change == nullptr) change = stencil_set_.DifferenceFrom(*piece);
    if (const char* constraint = column.row ? nullptr : stencil_set_.DifferenceFrom(base_, SwitchSet::kForceLimits)) {
      change = constraint;
      usable = false;
    }
  }
  if (side != Side::kCentered && !column.wide) piece_ = stencil_set_;
  const double h = side == Side::kCentered ? 2 * eps : eps;
  auto quotient = to.quotients.col(k);
  FineStateQuotient(local_.get(), dims_, *x1, *x0, h, quotient.head(dims_.ndx));
  quotient.tail(ns_) = (*s1 - *s0) / h;
  if (side == Side::kCentered) {
    auto bend = to.bends.col(k);
    FineStateQuotient(local_.get(), dims_, *x1, here_, eps, bend.head(dims_.ndx));
    FineStateQuotient(local_.get(), dims_, here_, *x0, eps, half_);
    bend.head(dims_.ndx) -= half_;
    bend.tail(ns_) = (*s1 + *s0 - 2 * here_sensors_) / eps;
  }
  if (change == nullptr) return column.first;
  switched_ = change;
  return !column.corner || !usable ? k + 1 : k;
}

// What is left of r after the solver, over what resists each dof: M alone and the rows that push. A motor against a row
// that hardly yields may move its dof by less than the solver ends at, and then it seems not to move at all.
void StepQuotients::NoteLeft(int k, MatrixXd* left) {
  const mjModel* m = local_.get();
  const mjData* d = data_;
  const bool one_search = substeps_ == 1 && m->opt.integrator != mjINT_RK4 && !IsDiscrete(m);
  if (!one_search || d->nefc == 0 || m->opt.noslip_iterations > 0) return;
  residual_.resize(dims_.nv);
  stiffness_.resize(dims_.nv);
  mj_mulM(m, d, residual_.data(), d->qacc);
  for (int i = 0; i < dims_.nv; ++i) {
    residual_[i] -= d->qfrc_smooth[i] + d->qfrc_constraint[i];
    stiffness_[i] = d->M[m->M_rowadr[i] + m->M_rownnz[i] - 1];
  }
  for (int row = 0; row < d->nefc; ++row) {
    if (d->efc_state[row] != mjCNSTRSTATE_QUADRATIC && d->efc_state[row] != mjCNSTRSTATE_CONE) continue;
    ForJacobianRow(m, d, row, [&](int dof, double J) { stiffness_[dof] += d->efc_D[row] * J * J; });
  }
  left->col(k) = left->col(k).cwiseMax(residual_.cwiseAbs().cwiseQuotient(stiffness_));
}

// what that makes of a row of q' or v', at the two neighbouring sizes where it is least: an extrapolation is made of
// two
double StepQuotients::Left(const Column& column, int row) const {
  if (row >= 2 * dims_.nv) return 0;
  const double h = local_.get()->opt.timestep, sides = column.side == Side::kCentered ? 2 : 1;
  const auto at = [&](int k) { return table(column).left(row % dims_.nv, k) / (sides * std::ldexp(column.eps, -k)); };
  double least = kInf;
  for (int k = column.first + 1; k < column.end; ++k) least = std::min(least, std::max(at(k - 1), at(k)));
  return least * (row < dims_.nv ? h * h : h);
}

// a sensor that a nudge turns to other contacts says nothing over that size, and nothing else does
void StepQuotients::NoteChoices(int k, Table* table) {
  const mjModel* m = local_.get();
  for (int i = 0; i < m->nsensor && beside_ == Beside::kSensors; ++i) {
    if (!ChoosesContacts(m, i) || stencil_set_.SameChoice(base_, i)) continue;
    std::fill_n(table->chosen.begin() + m->sensor_adr[i], m->sensor_dim[i], k + 1);
  }
}

// whether the last two of k quotients, of which the last is over eps, say that the function bends within eps
bool StepQuotients::Bends(int k, double eps) const {
  const MatrixXd& quotients = tables_[0].quotients;
  const auto last = quotients.col(k - 1), before = quotients.col(k - 2);
  const double allowed = kQuotientBend * last.cwiseAbs().maxCoeff();
  return ((last - before).cwiseAbs() - 2 * noise_ / eps).maxCoeff() > allowed;
}

// Half of the jump of the slope at the point, of which centred quotients see the mean at every size: slopes forwards
// and backwards differ by J + c e + …, J = 2 D(e/2) − D(e). The least of all sizes, as far as it is no noise; of two
// neighbours the larger one, since what else is in D may take J away at one size.
double StepQuotients::Corner(const MatrixXd& bends, int row, int first, int count, double noise) const {
  double least = kInf, before = kInf;
  for (int k = first + 1; k < first + count; ++k) {
    const double jump = std::abs(2 * bends(row, k) - bends(row, k - 1));
    const double seen = std::max(0.0, jump / 2 - kCornerNoise * noise * std::ldexp(1.0, k - first));
    least = std::min(least, count > 2 ? std::max(seen, before) : seen);
    before = seen;
  }
  return least;
}

StepQuotients::Column StepQuotients::Differences(int col, double eps_max, double sure) {
  Clear();
  Column column;
  column.eps = eps_max;
  column.side = stencil_.ColumnSide(local_, col, true, &column.eps);
  if (column.side == Side::kNone) return column;
  column.corner = column.side != Side::kCentered && stencil_.OnEdge(local_, col);
  here_ = next_;
  here_sensors_ = sensors_;
  const auto place = [&](const Column& nudged) {
    return [this, col, eps = nudged.eps](int k, int sign) {
      stencil_.Restore(local_.get(), data_, col, sign * std::ldexp(eps, -k));
    };
  };

  // the first tells how far the input moves the state
  column.first = Quotient(place(column), column, column.end++);
  const bool usable = column.first == 0 && StatusOfWarnings(data_) == StepStatus::kOk;
  const double wide = usable ? WideEps(column, col, eps_max) : 0;
  if (wide > 0) {
    wide_ = column;
    wide_.wide = true;
    wide_.eps = wide;
    wide_.end = 0;
    if (Widen(place(wide_), column, sure)) return column;
  }
  Ladder(place(column), sure, &column);
  if (column.first > 0) wide_.end = wide_.first;  // not the piece of the usual ones
  return column;
}

// (D7) how far the input of the column goes until it moves the state by `effect`; 0 where that is not much further
double StepQuotients::WideEps(const Column& column, int col, double effect) const {
  if (col < 2 * dims_.nv) return 0;
  double moves = 0;  // q' and v', by a unit
  const auto quotient = tables_[0].quotients.col(0);
  if (substeps_ > 0) moves = Largest(quotient.head(2 * dims_.nv));
  else if (beside_ == Beside::kAcceleration) moves = local_.get()->opt.timestep * Largest(quotient.tail(ns_));
  else return 0;
  const double most = std::min(kMostWide * stencil_.Worth(local_, col), effect / (column.eps * moves));
  double eps = std::ldexp(column.eps, std::ilogb(std::max(1.0, most)));
  const auto beyond = [&] {
    double inside = eps;
    return stencil_.ColumnSide(local_, col, true, &inside) != column.side || inside < eps;
  };
  while (eps > column.eps && beyond()) eps /= 2;
  return eps >= kLeastWide * column.eps ? eps : 0;
}

// wide_, unless something switches; are all rows as sure by that as is wanted?
template <typename Place>
bool StepQuotients::Widen(const Place& place, const Column& usual, double sure) {
  bool found = false;
  while (wide_.end < kWideSizes && !found) {
    switched_ = nullptr;
    Quotient(place, wide_, wide_.end++);
    if (StatusOfWarnings(data_) != StepStatus::kOk) {  // a step that fails there says nothing of the point
      ClearWarnings(data_);
      wide_.end = 0;
    }
    if (switched_ != nullptr) wide_.end = 0;
    if (wide_.end == 0) break;
    found = sure > 0 && wide_.end > 1 && IsSure(wide_, sure) && Agrees(usual, sure);
  }
  switched_ = nullptr;
  return found;
}

// is the first usual quotient of each row what wider ones tend to?
bool StepQuotients::Agrees(const Column& usual, double sure) const {
  int begin = 0;
  for (const int rows : parts_) {
    const double scale = Largest(tables_[0].quotients.col(0).segment(begin, rows));
    for (int row = begin; row < begin + rows; ++row) {
      const double value = RowOf(wide_, row, false).value, noise = 2 * noise_[row] / usual.eps;
      const double apart = std::abs(tables_[0].quotients(row, 0) - value);
      const double bend = std::abs(tables_[1].quotients(row, 0) - value);
      if (apart > std::max({sure * scale, kSureNoise * noise, bend})) return false;
    }
    begin += rows;
  }
  return true;
}

StepQuotients::Column StepQuotients::Differences(ParameterStencils* stencils, int k, ParameterStencils::Reach reach) {
  const ParameterStencils::Ladder ladder = stencils->LadderOf(k, reach);
  Column column;
  column.eps = ladder.longest;
  column.side = ladder.side == 0 ? Side::kCentered : ladder.side > 0 ? Side::kForward : Side::kBackward;
  column.corner = column.row = stencils->parameter(k).one_sided;
  const auto place = [&](int size, int sign) {
    local_.Refresh(stencils->Rung(k, reach, size, sign), true);
    if (ns_ == 0) local_.SkipSensors();
    local_.KeepActivationBranches();
    stencil_.Restore(local_.get(), data_, -1, 0);
  };
  Clear();
  place(0, 0);
  Interval(&here_, &here_sensors_, &stencil_set_);
  Ladder(place, 0, &column);

  // a switch that is always within reach may leave no trace
  if (column.smooth()) return column;
  Column all = column;
  all.first = 0;
  return WhyOpen(all) == nullptr ? all : column;
}

void StepQuotients::Clear() {
  switched_ = nullptr;
  wide_ = Column();
  for (Table& table : tables_) table.chosen.assign(ns_, 0);
}

// on from large to small; a switch makes all sizes down to there useless
template <typename Place>
void StepQuotients::Ladder(const Place& place, double sure, Column* column) {
  int k = column->end;
  const int most = static_cast<int>(tables_[0].quotients.cols());
  const auto wanted = [&] {
    if (sure > 0 && k - column->first >= kUsable && IsSure(*column, sure)) return false;
    return k < sizes_ || (k < most && (k - column->first < kUsable || Bends(k, std::ldexp(column->eps, 1 - k))));
  };
  while (wanted()) {
    column->first = Quotient(place, *column, k);
    column->end = ++k;
  }
  column->switched = switched_;
}

// are all rows known to `sure` of the largest of their part, or as well as noise allows?
bool StepQuotients::IsSure(const Column& column, double sure) const {
  int begin = 0;
  for (const int rows : parts_) {
    if (rows == 0) continue;
    const double scale = Largest(table(column).quotients.col(column.end - 1).segment(begin, rows));
    for (int row = begin; row < begin + rows; ++row) {
      const double noise = 2 * noise_[row] / std::ldexp(column.eps, 1 - column.end);
      if (Row(column, row, false).error > std::max(sure * scale, kSureNoise * noise)) return false;
    }
    begin += rows;
  }
  return true;
}

Extrapolation StepQuotients::Row(const Column& column, int row, bool corner) const {
  const Extrapolation usual = RowOf(column, row, corner);
  if (column.wide || wide_.end < 2) return usual;
  const Extrapolation wide = RowOf(wide_, row, corner);
  return wide.error < usual.error && std::abs(wide.value - usual.value) <= usual.error ? wide : usual;
}

// the first size of the column that is of use to a row
int StepQuotients::FirstOf(const Column& column, int row) const {
  return row < dims_.ndx ? column.first : std::max(column.first, table(column).chosen[row - dims_.ndx]);
}

Extrapolation StepQuotients::RowOf(const Column& column, int row, bool corner) const {
  if (column.side == Side::kNone) return {0, 0};
  const int begin = FirstOf(column, row);
  const int count = column.end - begin;
  if (count < 2) return {0, kInf};
  const bool centered = column.side == Side::kCentered;
  const double h = (centered ? 2 : 1) * std::ldexp(column.eps, -begin), noise = 2 * noise_[row] / h;
  double values[32];
  for (int k = 0; k < count; ++k) values[k] = table(column).quotients(row, begin + k);
  Extrapolation e = Extrapolate(values, count, centered, noise);
  if (e.bends && corner) e.error = BendError(values, count, e, noise);
  if (centered && corner) e.error = std::max(e.error, Corner(table(column).bends, row, begin, count, noise));
  if (corner) e.error = std::max(e.error, Left(column, row));
  return e;
}

Extrapolation StepQuotients::Extrapolated(const Column& column, int row, double noise) const {
  double values[32];
  const int begin = FirstOf(column, row);
  for (int k = begin; k < column.end; ++k) values[k - begin] = table(column).quotients(row, k);
  return Extrapolate(values, column.end - begin, column.side == Side::kCentered, std::ldexp(noise, begin));
}

// errors are how far extrapolations are from each other; noise that is measured beside a corner may be none, and is no
// more than what the last two sizes of any row of a part differ by
void StepQuotients::Fill(const Column& column, double nudge, VectorXd* values, VectorXd* errors) const {
  values->resize(rows());
  errors->resize(rows());
  const double h = (column.side == Side::kCentered ? 2 : 1) * column.eps;
  int begin = 0;
  for (const int size : parts_) {
    double last = kInf;
    if (size > 0 && column.end - column.first > 1) {
      const MatrixXd& quotients = table(column).quotients;
      last = Largest((quotients.col(column.end - 1) - quotients.col(column.end - 2)).segment(begin, size));
    }
    for (int row = begin; row < begin + size; ++row) {
      const double noise = std::min(2 * noise_[row] / h, std::ldexp(last, 1 - column.end));
      const Extrapolation e = Extrapolated(column, row, noise);
      (*errors)[row] = Extrapolated(column, row, 0).error;
      (*values)[row] = std::isfinite(e.error) ? e.value : Value(column, row, nudge);
    }
    begin += size;
  }
}

const char* StepQuotients::Along(ParameterStencils* stencils, int k, VectorXd* out) {
  const double nudge = stencils->parameter(k).nudge;
  Column column = Differences(stencils, k, ParameterStencils::kUsual);
  const char* why = WhyOpen(column);
  Fill(column, nudge, out, &errors_);

  // parts that rounding may have made: from wider nudges, where those are surer
  for (const ParameterStencils::Reach reach : {ParameterStencils::kWide, ParameterStencils::kWidest}) {
    const auto is_poor = [&](int begin, int size) {
      const double error = size > 0 ? errors_.segment(begin, size).maxCoeff() : 0;
      return error > 0 && std::isfinite(error) && error > kPoor * Largest(out->segment(begin, size));
    };
    bool poor = false;
    int begin = 0;
    for (const int size : parts_) {
      poor = poor || is_poor(begin, size);
      begin += size;
    }
    if (!poor || !column.smooth()) break;
    if (StatusOfWarnings(data_) != StepStatus::kOk) break;
    column = Differences(stencils, k, reach);
    if (StatusOfWarnings(data_) != StepStatus::kOk) {  // models that cannot be stepped say nothing of this one
      ClearWarnings(data_);
      break;
    }
    if (!column.smooth()) break;
    Fill(column, nudge, &wider_, &wider_errors_);
    if (WhyOpen(column) == nullptr) why = nullptr;
    begin = 0;
    for (const int size : parts_) {
      const auto apart = (wider_.segment(begin, size) - out->segment(begin, size)).cwiseAbs();
      const double error = is_poor(begin, size) ? errors_.segment(begin, size).maxCoeff() : 0;
      if (error > 0 && wider_errors_.segment(begin, size).maxCoeff() < error && apart.maxCoeff() <= kNear * error) {
        out->segment(begin, size) = wider_.segment(begin, size);
        errors_.segment(begin, size) = wider_errors_.segment(begin, size);
      }
      begin += size;
    }
  }
  return why;
}

const char* StepQuotients::WhyOpen(const Column& column) const {
  if (column.side == Side::kNone) return nullptr;
  if (!column.smooth()) return column.switched;
  const bool centered = column.side == Side::kCentered;
  const int nq = dims_.nq, nv = dims_.nv;
  int begin = 0;
  for (const int rows : parts_) {
    double scale = 0;
    for (int row = begin; row < begin + rows; ++row) scale = std::max(scale, std::abs(Row(column, row, false).value));
    const auto values = begin >= dims_.ndx ? here_sensors_.segment(begin - dims_.ndx, rows)
                        : begin == 0       ? here_.head(nq)
                                           : here_.segment(begin + nq - nv, rows);
    const double model = kModelNoise * Largest(values);
    for (int row = begin; row < begin + rows; ++row) {
      const double noise = 2 * (noise_[row] + model) / std::ldexp(column.eps, 1 - column.end),
                   allowed = kOpen * scale + kSureNoise * noise;
      const double error = Row(column, row, false).error;
      if (!std::isfinite(error)) return "which contacts a sensor reads";
      if (error > allowed) return "differences that do not settle";
      if (centered && Corner(table(column).bends, row, column.first, column.end - column.first,
                             noise * std::ldexp(1.0, column.first + 1 - column.end)) > allowed)
        return "a corner";
    }
    begin += rows;
  }
  return nullptr;
}

double StepQuotients::Value(const Column& column, int row, double eps) const {
  if (column.side == Side::kNone) return 0;
  const Extrapolation e = Row(column, row, false);
  if (std::isfinite(e.error)) return e.value;
  const int nearest = static_cast<int>(std::lround(std::log2(column.eps / eps)));
  return table(column).quotients(row, std::clamp(nearest, 0, column.end - 1));
}

}  // namespace costate
