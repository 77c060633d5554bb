// The judge of every other derivative: centred differences of a converged step at several sizes, extrapolated.
#include <costate/derivative_check.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "core/engine_guard.h"
#include "derivative/chain.h"
#include "derivative/check_point.h"
#include "derivative/contact_geometry.h"
#include "derivative/extrapolate.h"
#include "derivative/step_stencil.h"
#include "derivative/switch_set.h"

namespace costate {
namespace {

constexpr double kUnitRoundoff = 1.1e-16;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kUsable = 3;      // step sizes wanted without a switch, before a column is given up …
constexpr int kExtraSizes = 4;  // … after this many smaller ones, which are also added …
constexpr double kBend = 1e-4;  // … while the last two quotients differ by this much of their column
constexpr int kNoiseSamples = 12;
constexpr double kCornerNoise = 4;     // of the noise of a quotient: what can be left of one jump of the slope
constexpr double kNoiseNudge = 1e-11;  // squared, times the curvature of the stiffest contact, it is below rounding
constexpr double kBeside = 1e-6;       // from the point, as far as nudges are: there the solver has some way to go

// near the golden section of n, and prime to it: its multiples visit each of 0 … n-1 once, evenly all the while
int SpreadStride(int n) {
  int stride = std::max(1, static_cast<int>(0.618 * n));
  while (std::gcd(stride, n) > 1) ++stride;
  return stride;
}

class ReferenceDifferences {
 public:
  ReferenceDifferences(const mjModel* model, const mjData* data, const ReferenceOptions& options);
  ReferenceDerivative Run();

 private:
  void Fill(ReferenceDerivative* result);
  void Evaluate(int col, double eps, VectorXd* next, VectorXd* sensors, SwitchSet* active);
  void Interval(VectorXd* next, VectorXd* sensors, SwitchSet* active);
  bool BothSides(const VectorXd& center, const VectorXd& direction, const SwitchSet& set);
  void AddNoise(const VectorXd& next, const VectorXd& sensors);
  VectorXd SmoothDirections();
  void MeasureNoise();
  bool HasLaterPositions() const;
  void MarkStaircases(ReferenceDerivative* out);
  void MarkOnsets(ReferenceDerivative* out);
  int Quotient(int col, Side side, double eps, int k, int first);
  bool Bends(int k, double eps) const;
  double Corner(int row, int first, int count, double noise) const;
  void NoteChoices(int k);
  void Column(int col, ReferenceDerivative* out);
  void Extrapolated(int col, Side side, double eps, int first, int count, ReferenceDerivative* out);

  const mjModel* model_;
  ReferenceOptions options_;
  DifferenceModel local_;
  StepStencil stencil_;
  const Dims& dims_;
  DataPtr data_;
  int ns_;
  VectorXd next_, sensors_, noise_;  // at the point; noise of (dx', s)
  VectorXd plus_, minus_, plus_sensors_, minus_sensors_;
  SwitchSet base_, stencil_set_, piece_;
  const char* switched_ = nullptr;
  MatrixXd quotients_;  // (ndx + ns) × sizes
  MatrixXd bends_;      // likewise: the quotient forwards less that backwards, of centred ones
  VectorXd half_;
  std::vector<int> chosen_;  // of each sensor's number: the first size up to which it reads the contacts of the point
};

ReferenceDifferences::ReferenceDifferences(const mjModel* model, const mjData* data, const ReferenceOptions& options)
    : model_(model),
      options_(options),
      local_(model),
      stencil_(model),
      dims_(stencil_.dims()),
      data_(MakeData(model)),
      ns_(options.sensors ? dims_.ns : 0),
      next_(dims_.nx),
      sensors_(ns_),
      noise_(VectorXd::Zero(dims_.ndx + ns_)),
      plus_(dims_.nx),
      minus_(dims_.nx),
      plus_sensors_(ns_),
      minus_sensors_(ns_),
      quotients_(dims_.ndx + ns_, options.sizes + kExtraSizes),
      bends_(quotients_.rows(), quotients_.cols()),
      half_(dims_.ndx) {
  mj_copyState(model, data, data_.get(), mjSTATE_INTEGRATION);
  local_.Refresh(model, true);
}

// the interval from a nudged point
void ReferenceDifferences::Evaluate(int col, double eps, VectorXd* next, VectorXd* sensors, SwitchSet* active) {
  stencil_.Restore(local_.get(), data_.get(), col, eps);
  Interval(next, sensors, active);
}

// the interval from where data is, with the switches of all its steps
void ReferenceDifferences::Interval(VectorXd* next, VectorXd* sensors, SwitchSet* active) {
  const mjModel* m = local_.get();
  mjData* d = data_.get();
  active->Clear();
  for (int k = 0; k < options_.substeps; ++k) {
    active->Step(m, d);
    if (k == 0 && ns_ > 0) *sensors = Eigen::Map<const VectorXd>(d->sensordata, ns_);
  }
  mj_getState(m, d, next->data(), kStateSignature);
}

// f(x ⊕ (c + δ)) and f(x ⊕ (c − δ)) into plus_ and minus_; false when something switches
bool ReferenceDifferences::BothSides(const VectorXd& center, const VectorXd& direction, const SwitchSet& set) {
  bool same = true;
  for (double sign : {1.0, -1.0}) {
    stencil_.RestoreAlong(local_.get(), data_.get(), center + sign * kNoiseNudge * direction, 1);
    Interval(sign > 0 ? &plus_ : &minus_, sign > 0 ? &plus_sensors_ : &minus_sensors_, &stencil_set_);
    same = same && stencil_set_.DifferenceFrom(set) == nullptr;
  }
  return same;
}

// 1 for each position and velocity that nothing switches under, alone
VectorXd ReferenceDifferences::SmoothDirections() {
  VectorXd smooth(2 * dims_.nv);
  const VectorXd center = VectorXd::Zero(smooth.size());
  for (int i = 0; i < smooth.size(); ++i) smooth[i] = BothSides(center, VectorXd::Unit(smooth.size(), i), base_);
  return smooth;
}

// what BothSides left, about the values half way
void ReferenceDifferences::AddNoise(const VectorXd& next, const VectorXd& sensors) {
  VectorXd forward(dims_.ndx), backward(dims_.ndx);
  StateQuotient(local_.get(), dims_, plus_, next, 1, forward);
  StateQuotient(local_.get(), dims_, minus_, next, 1, backward);
  noise_.head(dims_.ndx) = noise_.head(dims_.ndx).cwiseMax((forward + backward).cwiseAbs() / 2);
  noise_.tail(ns_) = noise_.tail(ns_).cwiseMax((plus_sensors_ + minus_sensors_ - 2 * sensors).cwiseAbs() / 2);
}

// What is left of f(x ⊕ δ) + f(x ⊖ δ) − 2 f(x) when δ is too small for any curvature: rounding and the solver's noise.
// Also beside the point: where the solver starts at its solution, it errs less than it does for a nudge.
void ReferenceDifferences::MeasureNoise() {
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
  for (int sample = 0; sample < kNoiseSamples; ++sample) {
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
    stencil_.RestoreAlong(m, data_.get(), center, 1);
    Interval(&next, &sensors, &set);
    if (BothSides(center, direction, set)) AddNoise(next, sensors);
  }

  // rounding of what is differenced; a quaternion's entries are at most 1
  const int n = dims_.nv + dims_.na;
  for (int i = 0; i < dims_.nv; ++i) {
    const int joint = model_->dof_jntid[i], offset = i - model_->jnt_dofadr[joint];
    const bool rotation =
        model_->jnt_type[joint] == mjJNT_BALL || (model_->jnt_type[joint] == mjJNT_FREE && offset >= 3);
    noise_[i] += kUnitRoundoff * (rotation ? 1 : std::abs(next_[model_->jnt_qposadr[joint] + offset]));
  }
  noise_.segment(dims_.nv, n) += kUnitRoundoff * next_.tail(n).cwiseAbs();
  noise_.tail(ns_) += kUnitRoundoff * sensors_.cwiseAbs();
}

// quotients_.col(k); returns the first size that is of use, up to which the stencil leaves the smooth piece, or `first`
int ReferenceDifferences::Quotient(int col, Side side, double eps, int k, int first) {
  const VectorXd *x1 = &next_, *x0 = &next_, *s1 = &sensors_, *s0 = &sensors_;
  const bool corner = side != Side::kCentered && stencil_.OnEdge(local_, col);
  const SwitchSet* piece = !corner ? &base_ : k > 0 ? &piece_ : nullptr;
  const char* change = nullptr;
  bool usable = true;
  for (int sign : {1, -1}) {
    if (side == (sign > 0 ? Side::kBackward : Side::kForward)) continue;
    VectorXd* next = sign > 0 ? &plus_ : &minus_;
    VectorXd* sensors = sign > 0 ? &plus_sensors_ : &minus_sensors_;
    Evaluate(col, sign * eps, next, sensors, &stencil_set_);
    (sign > 0 ? x1 : x0) = next;
    (sign > 0 ? s1 : s0) = sensors;
    NoteChoices(k);

    // on a clamp's corner the nudges are compared among themselves, but for what a clamp has no part in
    if (piece != nullptr && change == nullptr) change = stencil_set_.DifferenceFrom(*piece);
    if (const char* constraint = stencil_set_.DifferenceFrom(base_, SwitchSet::kForceLimits)) {
      change = constraint;
      usable = false;
    }
  }
  if (side != Side::kCentered) piece_ = stencil_set_;
  const double h = side == Side::kCentered ? 2 * eps : eps;
  auto quotient = quotients_.col(k);
  StateQuotient(local_.get(), dims_, *x1, *x0, h, quotient.head(dims_.ndx));
  quotient.tail(ns_) = (*s1 - *s0) / h;
  if (side == Side::kCentered) {
    StateQuotient(local_.get(), dims_, *x1, next_, eps, bends_.col(k).head(dims_.ndx));
    StateQuotient(local_.get(), dims_, next_, *x0, eps, half_);
    bends_.col(k).head(dims_.ndx) -= half_;
    bends_.col(k).tail(ns_) = (*s1 + *s0 - 2 * sensors_) / eps;
  }
  if (change == nullptr) return first;
  switched_ = change;
  return !corner || !usable ? k + 1 : k;
}

// Does the collider find the same contact when both geoms turn by one dof? It searches along axes of the world.
bool FollowsTurn(const mjData* before, const mjData* after, int c) {
  constexpr double kSameDepth = 1e-12, kSamePlace = 1e-9;  // depths are felt far more than normals and places [m, rad]
  if (before->ncon != after->ncon) return false;
  Eigen::Matrix<double, 6, 1> place[2];
  for (int k = 0; k < 2; ++k) {
    const mjData* d = k == 0 ? before : after;
    const int geom = before->contact[c].geom[0];
    const Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>> R(d->geom_xmat + 9 * geom);
    const Eigen::Map<const Eigen::Vector3d> n(d->contact[c].frame), p(d->contact[c].pos), x(d->geom_xpos + 3 * geom);
    place[k] << R.transpose() * n, R.transpose() * (p - x);
  }
  return std::abs(after->contact[c].dist - before->contact[c].dist) <= kSameDepth &&
         (place[1] - place[0]).lpNorm<Eigen::Infinity>() <= kSamePlace;
}

// A contact of curved surfaces jumps by ccd_tolerance between facets of 1e-5 to 1e-4, and is smooth but wrong by any
// factor within one: quotients that agree at all sizes say nothing about the columns that move one geom against the
// other, and those of common turns that it does not follow. (J5)
void ReferenceDifferences::MarkStaircases(ReferenceDerivative* out) {
  const mjModel* m = local_.get();
  mjData* d = data_.get();
  const auto mark = [&](int column) {
    out->nonsmooth_column[column] = true;
    out->switched[column] = "facets of the collider of curved surfaces";
  };
  if (HasLaterPositions()) {
    // all that moves a dof moves later contacts
    bool any = false;
    stencil_.Restore(m, d, -1, 0);
    for (int k = 0; k < options_.substeps && !any; ++k) {
      mj_forward(m, d);
      any = !FeltStaircases(m, d).empty();
      mj_step(m, d);
      any = any || !FeltStaircases(m, d).empty();
    }
    for (int column = 0; column < static_cast<int>(out->nonsmooth_column.size()) && any; ++column) mark(column);
    return;
  }

  stencil_.Restore(m, d, -1, 0);
  mj_fwdPosition(m, d);
  const std::vector<int> staircases = FeltStaircases(m, d);
  if (staircases.empty()) return;
  const DataPtr base = MakeData(m);
  mj_copyData(base.get(), m, d);
  std::vector<std::vector<int>> common(dims_.nv);  // contacts whose geoms both move by a dof
  for (int c : staircases) {
    const mjContact& contact = base->contact[c];
    const int body1 = m->geom_bodyid[contact.geom[0]], body2 = m->geom_bodyid[contact.geom[1]];
    int dof = ForExclusiveDofs(m, LastDof(m, body1), LastDof(m, body2), [&](int exclusive, int) { mark(exclusive); });
    for (; dof >= 0; dof = m->dof_parentid[dof]) common[dof].push_back(c);
  }
  for (int dof = 0; dof < dims_.nv; ++dof) {
    for (double sign : {1.0, -1.0}) {
      if (common[dof].empty() || out->nonsmooth_column[dof]) continue;
      stencil_.Restore(m, d, dof, sign * options_.eps_max);
      mj_fwdPosition(m, d);
      const auto follows = [&](int c) { return FollowsTurn(base.get(), d, c); };
      if (!std::all_of(common[dof].begin(), common[dof].end(), follows)) mark(dof);
    }
  }
}

// do positions of the point reach the result by way of other positions?
bool ReferenceDifferences::HasLaterPositions() const {
  return local_.get()->opt.integrator == mjINT_RK4 || options_.substeps > 1;
}

// A contact exactly at its margin (a sphere that rests at distance 0): at the point its branch is known, but in later
// stages and substeps rounding decides whether it exists, for each nudge anew, and its force jumps. (J6)
void ReferenceDifferences::MarkOnsets(ReferenceDerivative* out) {
  if (!base_.on_onset() || !HasLaterPositions()) return;
  out->nonsmooth_column.assign(out->nonsmooth_column.size(), true);
  out->switched.assign(out->switched.size(), "a contact exactly at its margin");
}

// a sensor that a nudge turns to other contacts says nothing over that size, and nothing else does
void ReferenceDifferences::NoteChoices(int k) {
  for (int i = 0; i < model_->nsensor && ns_ > 0; ++i) {
    if (!ChoosesContacts(model_, i) || stencil_set_.SameChoice(base_, i)) continue;
    std::fill_n(chosen_.begin() + model_->sensor_adr[i], model_->sensor_dim[i], k + 1);
  }
}

// whether the last two of k quotients, of which the last is over eps, say that the function bends within eps
bool ReferenceDifferences::Bends(int k, double eps) const {
  const auto last = quotients_.col(k - 1), before = quotients_.col(k - 2);
  const double allowed = kBend * last.cwiseAbs().maxCoeff();
  return ((last - before).cwiseAbs() - 2 * noise_ / eps).maxCoeff() > allowed;
}

// Half of the jump of the slope at the point, of which centred quotients see the mean at every size: slopes forwards
// and backwards differ by J + c e + …, J = 2 D(e/2) − D(e). The least of all sizes, as far as it is no noise.
double ReferenceDifferences::Corner(int row, int first, int count, double noise) const {
  double least = kInfinity;
  for (int k = first + 1; k < first + count; ++k) {
    const double jump = std::abs(2 * bends_(row, k) - bends_(row, k - 1));
    least = std::min(least, jump / 2 - kCornerNoise * noise * std::ldexp(1.0, k - first));
  }
  return std::max(0.0, least);
}

void ReferenceDifferences::Column(int col, ReferenceDerivative* out) {
  double eps = options_.eps_max;
  const Side side = stencil_.ColumnSide(local_, col, true, &eps);
  if (side == Side::kNone) {
    quotients_.setZero();
    bends_.setZero();
    chosen_.assign(ns_, 0);
    Extrapolated(col, Side::kCentered, kInfinity, 0, 2, out);
    return;
  }

  // from large to small; a switch makes all sizes down to there useless
  int first = 0, k = 0;
  switched_ = nullptr;
  chosen_.assign(ns_, 0);
  const int most = options_.sizes + kExtraSizes;
  for (; k < options_.sizes || (k < most && (k - first < kUsable || Bends(k, std::ldexp(eps, 1 - k)))); ++k) {
    first = Quotient(col, side, std::ldexp(eps, -k), k, first);
  }
  if (switched_ != nullptr && !out->nonsmooth_column[col]) out->switched[col] = switched_;
  if (k - first >= 2) {
    Extrapolated(col, side, std::ldexp(eps, -first), first, k - first, out);
  } else {
    out->nonsmooth_column[col] = true;
  }
}

// value and error bar of a column from quotients first … first+count-1, the first of step size eps
void ReferenceDifferences::Extrapolated(int col, Side side, double eps, int first, int count,
                                        ReferenceDerivative* out) {
  const bool control = col >= dims_.ndx;
  const int c = control ? col - dims_.ndx : col;
  const bool centered = side == Side::kCentered;
  const double h = centered ? 2 * eps : eps;
  double values[32];
  for (int row = 0; row < dims_.ndx + ns_; ++row) {
    const bool state = row < dims_.ndx;
    const int begin = state ? first : std::max(first, chosen_[row - dims_.ndx]), left = first + count - begin;
    if (left < 2) continue;
    for (int k = 0; k < left; ++k) values[k] = quotients_(row, begin + k);
    const double noise = std::ldexp(2 * noise_[row] / h, begin - first);
    Extrapolation e = Extrapolate(values, left, centered, noise);
    if (centered) e.error = std::max(e.error, Corner(row, begin, left, noise));
    const int r = state ? row : row - dims_.ndx;
    MatrixXd& matrix = state ? (control ? out->value.B : out->value.A) : (control ? out->value.D : out->value.C);
    MatrixXd& error = state ? (control ? out->B_error : out->A_error) : (control ? out->D_error : out->C_error);
    matrix(r, c) = e.value;
    error(r, c) = e.error;
  }
}

ReferenceDerivative ReferenceDifferences::Run() {
  EngineGuard guard(data_.get());
  ReferenceDerivative out;
  try {
    Fill(&out);
  } catch (const Error& error) {
    // the engine drops contacts when its arena is full, unless its stack is what does not fit
    if (error.code() != ErrorCode::kEngine || std::strstr(error.what(), "stack overflow") == nullptr) throw;
    out.value.status = StepStatus::kArenaFull;
  }
  return out;
}

void ReferenceDifferences::Fill(ReferenceDerivative* result) {
  ReferenceDerivative& out = *result;
  const int columns = dims_.ndx + dims_.nu;
  auto shape = [](MatrixXd* matrix, MatrixXd* error, int rows, int cols) {
    *matrix = MatrixXd::Zero(rows, cols);
    *error = MatrixXd::Constant(rows, cols, kInfinity);
  };
  shape(&out.value.A, &out.A_error, dims_.ndx, dims_.ndx);
  shape(&out.value.B, &out.B_error, dims_.ndx, dims_.nu);
  shape(&out.value.C, &out.C_error, ns_, dims_.ndx);
  shape(&out.value.D, &out.D_error, ns_, dims_.nu);
  out.value.coverage.terms = {{"step", Level::kStep, "reference: extrapolated differences"}};
  out.nonsmooth_column.assign(columns, false);
  out.switched.assign(columns, "");

  // the point: its solution, its clamps, its active set, its noise
  ClearWarnings(data_.get());
  stencil_.CaptureConverged(local_.get(), data_.get());
  stencil_.Restore(local_.get(), data_.get(), -1, 0);
  local_.SelectActivationBranches(data_.get(), options_.substeps);
  Evaluate(-1, 0, &next_, &sensors_, &base_);
  MeasureNoise();
  MarkStaircases(&out);
  MarkOnsets(&out);

  // spread over positions, velocities, activations and controls, so that a run that is stopped early has seen some of
  // each
  const int stride = SpreadStride(columns);
  for (int done = 1, col = 0; done <= columns; ++done, col = (col + stride) % columns) {
    Column(col, &out);
    out.value.status = ReadWarnings(data_.get());
    if (out.value.status != StepStatus::kOk) break;
    if (options_.progress && !options_.progress(done, columns)) {
      out.complete = done == columns;
      break;
    }
  }
}

}  // namespace

ReferenceDerivative Reference(const mjModel* model, const mjData* data, const ReferenceOptions& options) {
  if (!(options.eps_max > 0) || options.sizes < 2 || options.sizes > 20 || options.substeps < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                "the reference needs eps_max > 0, 2 to 20 sizes and at least 1 substep, not " +
                    std::to_string(options.eps_max) + ", " + std::to_string(options.sizes) + " and " +
                    std::to_string(options.substeps));
  }
  CheckDifferentiable(model);
  CheckFiniteState(model, GetState(model, data));
  CheckFiniteControl(model, Eigen::Map<const VectorXd>(data->ctrl, model->nu));
  return ReferenceDifferences(model, data, options).Run();
}

}  // namespace costate
