#include "derivative/step_difference.h"

#include <algorithm>
#include <cmath>

#include "core/finite.h"
#include "core/plugins.h"
#include "core/warnings.h"

namespace costate {
namespace {

// Rounding is 1e-16/eps; truncation eps/2 (forward) or eps²/6 (centred) times a derivative that contact makes huge: its
// impedance changes over fractions of a millimetre. A solver that is not converged adds its tolerance / eps.
constexpr double kEps = 1e-6;
constexpr double kUnconvergedCenteredEps = 6e-6;

// (D4) nudges of the last resort, each half the one before, from as far as a contact's bend allows
constexpr int kLadderSizes = 6;  // down to kEps, or until each part of a column is sure
constexpr int kFewSamples = 3;

bool HasSensor(const mjModel* model, int type) {
  return std::find(model->sensor_type, model->sensor_type + model->nsensor, type) !=
         model->sensor_type + model->nsensor;
}

}  // namespace

const char* WhyNotTransitionFd(const mjModel* model, bool sensors) {
  if (model->opt.integrator == mjINT_RK4) return "mjd_transitionFD refuses the RK4 integrator";
  if (model->nhistory > 0) return "mjd_transitionFD refuses delays";
  if (model->nplastic > 0) return "mjd_transitionFD writes past its buffers when there is plastic state";

  // it nudges velocities without a new position stage, where these are computed
  if (model->opt.enableflags & mjENBL_SPECULATIVE) return "mjd_transitionFD keeps speculative contacts fixed";
  if (sensors && HasSensor(model, mjSENS_E_KINETIC)) return "mjd_transitionFD keeps kinetic energy sensors fixed";

  // it nudges activations and controls without a new velocity stage, where a plugin may read or write them
  if (HasPlugins(model, mjPLUGIN_PASSIVE)) return "mjd_transitionFD keeps plugins of the passive stage fixed";

  // it takes its scratch from the arena, beside contacts and constraints
  const Dims dims(model);
  const double scratch = 8.0 * (dims.ndx + dims.ns + 1) * (dims.ndx + dims.nu + 8.0);
  if (scratch > 0.25 * model->narena) return "mjd_transitionFD needs more memory than the model's arena has";
  return nullptr;
}

StepDifference::StepDifference(const mjModel* model, const LinearizeOptions& options, int substeps)
    : options_(options),
      eps_(options.eps > 0                         ? options.eps
           : options.centered && !options.converge ? kUnconvergedCenteredEps
                                                   : kEps),
      extrapolate_(options.level == Level::kBest && options.eps == 0 && options.centered && options.converge),
      substeps_(substeps),
      model_(model),
      stencil_(model) {
  const Dims& dims = stencil_.dims();
  for (int i = 0; i < 3; ++i) {
    next_[i].resize(dims.nx);
    sensors_[i].resize(dims.ns);
  }
}

bool StepDifference::Linearize(const mjModel* model, mjData* data, bool sensors, StepDerivative* out, std::string*) {
  Resize(true, sensors, out);
  if (extrapolate_) {
    Extrapolate(model, data, substeps_, sensors, out);
    return true;
  }

  CaptureStep(model, data, sensors);
  if (substeps_ == 1 && WhyNotTransitionFd(model, sensors) == nullptr) {
    ByTransitionFd(data, sensors, out);
  } else {
    ByNudges(data, sensors, out);
  }
  Conclude(data, out);
  return true;
}

void StepDifference::Resize(bool step, bool sensors, StepDerivative* out) const {
  const Dims& dims = stencil_.dims();
  out->A.resize(step ? dims.ndx : 0, step ? dims.ndx : 0);
  out->B.resize(step ? dims.ndx : 0, step ? dims.nu : 0);
  out->C.resize(sensors ? dims.ns : 0, sensors ? dims.ndx : 0);
  out->D.resize(step && sensors ? dims.ns : 0, step && sensors ? dims.nu : 0);
}

void StepDifference::Conclude(const mjData* data, StepDerivative* out) const {
  out->status = StatusOfWarnings(data);
  const bool finite = IsFinite(out->A) && IsFinite(out->B) && IsFinite(out->C) && IsFinite(out->D);
  if (out->status == StepStatus::kOk && !finite) out->status = StepStatus::kBadState;
}

StepQuotients* StepDifference::BeginQuotients(const mjModel* model, mjData* data, int substeps,
                                              StepQuotients::Beside beside, Quotients* kept) const {
  if (!*kept) *kept = std::make_unique<StepQuotients>(model, substeps, beside, kLadderSizes);
  ClearWarnings(data);
  (*kept)->Begin(model, data);
  (*kept)->MeasureNoise(kFewSamples);
  return kept->get();
}

// at the point that `data` holds; 0 substeps: sensors alone
StepQuotients* StepDifference::BeginQuotients(const mjModel* model, mjData* data, int substeps, bool sensors) {
  return BeginQuotients(model, data, substeps,
                        sensors ? StepQuotients::Beside::kSensors : StepQuotients::Beside::kNothing,
                        substeps == 0 ? &sensors_alone_
                        : sensors     ? &interval_and_sensors_
                                      : &interval_);
}

// (D4) all columns of `out`, each over as many sizes as lie on the smooth piece of the point
void StepDifference::Extrapolate(const mjModel* model, mjData* data, int substeps, bool sensors, StepDerivative* out) {
  const Dims& dims = stencil_.dims();
  StepQuotients* quotients = BeginQuotients(model, data, substeps, sensors);
  const int columns = substeps > 0 ? dims.ndx + dims.nu : dims.ndx;  // sensors alone: by the state
  for (int col = 0; col < columns; ++col) {
    const StepQuotients::Column column = quotients->Differences(col, kLargestEps, kSurePart);
    const bool control = col >= dims.ndx;
    const int c = control ? col - dims.ndx : col;
    const auto fill = [&](MatrixXd* matrix, int first) {
      for (int i = 0; i < matrix->rows(); ++i) (*matrix)(i, c) = quotients->Value(column, first + i, kEps);
    };
    fill(control ? &out->B : &out->A, 0);
    fill(control ? &out->D : &out->C, dims.ndx);
  }
  Conclude(data, out);
}

void StepDifference::ByTransitionFd(mjData* data, bool sensors, StepDerivative* out) {
  const Dims& dims = stencil_.dims();
  A_.resize(dims.ndx, dims.ndx);
  B_.resize(dims.ndx, dims.nu);
  C_.resize(dims.ns, dims.ndx);
  D_.resize(dims.ns, dims.nu);
  stencil_.Restore(model_.get(), data, -1, 0);
  mjd_transitionFD(model_.get(), data, eps_, options_.centered, A_.data(), B_.data(), sensors ? C_.data() : nullptr,
                   sensors ? D_.data() : nullptr);
  out->A = A_;
  out->B = B_;
  if (sensors) out->C = C_;
  if (sensors) out->D = D_;

  // columns whose nudges it would send across a clamp, or not send at all
  bool have_next = false;
  for (int col = 2 * dims.nv; col < dims.ndx + dims.nu; ++col) {
    double eps = eps_;
    const Side side = stencil_.ColumnSide(model_, col, options_.centered, &eps);
    const bool free_activation = col < dims.ndx && side == (options_.centered ? Side::kCentered : Side::kForward);
    if (eps == eps_ && (col >= dims.ndx || free_activation)) continue;
    if (!have_next) Step(data, -1, 0, sensors, 0);
    have_next = true;
    NudgeColumn(data, col, side, eps, sensors, out);
  }
}

void StepDifference::ByNudges(mjData* data, bool sensors, StepDerivative* out) {
  const Dims& dims = stencil_.dims();
  Step(data, -1, 0, sensors, 0);
  for (int col = 0; col < dims.ndx + dims.nu; ++col) {
    double eps = eps_;
    const Side side = stencil_.ColumnSide(model_, col, options_.centered, &eps);
    NudgeColumn(data, col, side, eps, sensors, out);
  }
}

// f(point nudged by eps along col) into next_[slot] and, when wanted, sensors_[slot]
void StepDifference::Step(mjData* data, int col, double eps, bool sensors, int slot) {
  stencil_.Step(model_.get(), data, col, eps, substeps_, next_[slot],
                sensors_[slot].head(sensors ? stencil_.dims().ns : 0));
}

void StepDifference::NudgeColumn(mjData* data, int col, Side side, double eps, bool sensors, StepDerivative* out) {
  const Dims& dims = stencil_.dims();
  const bool control = col >= dims.ndx;
  auto state_column = control ? out->B.col(col - dims.ndx) : out->A.col(col);
  if (side == Side::kNone) {
    state_column.setZero();
    if (sensors && control) out->D.col(col - dims.ndx).setZero();
    return;
  }

  // f(point + plus) and f(point + minus), the point itself standing in for one of them on one-sided columns
  int plus = 0, minus = 0;
  if (side != Side::kBackward) {
    plus = 1;
    Step(data, col, eps, sensors, 1);
  }
  if (side != Side::kForward) {
    minus = 2;
    Step(data, col, -eps, sensors, 2);
  }
  const double h = side == Side::kCentered ? 2 * eps : eps;
  StateQuotient(model_.get(), dims, next_[plus], next_[minus], h, state_column);
  if (!sensors) return;
  auto sensor_column = control ? out->D.col(col - dims.ndx) : out->C.col(col);
  sensor_column = (sensors_[plus] - sensors_[minus]) / h;
}

// the point, warm-started at its own solution
void StepDifference::Capture(const mjModel* model, mjData* data, int substeps) {
  model_.Refresh(model, options_.converge);
  ClearWarnings(data);
  if (options_.converge) {
    stencil_.CaptureInterval(model, substeps, &model_, data);
  } else {
    stencil_.Capture(model_.get(), data);
    stencil_.CaptureReads(model_, substeps, data);
  }
}

// the same for whole steps, with the branches of the point's clamps
void StepDifference::CaptureStep(const mjModel* model, mjData* data, bool sensors) {
  Capture(model, data, substeps_);
  if (!sensors) model_.SkipSensors();
  stencil_.Restore(model_.get(), data, -1, 0);
  model_.SelectActivationBranches(data, substeps_, &stencil_.midpoints());
}

void StepDifference::SensorDifferences(mjData* data, StepDerivative* out) {
  const Dims& dims = stencil_.dims();
  for (int col = 0; col < dims.ndx; ++col) {
    double eps = eps_;
    const Side side = stencil_.ColumnSide(model_, col, options_.centered, &eps);
    int plus = 0, minus = 0;
    if (side != Side::kBackward) stencil_.Forward(model_.get(), data, col, eps, sensors_[plus = 1]);
    if (side != Side::kForward) stencil_.Forward(model_.get(), data, col, -eps, sensors_[minus = 2]);
    out->C.col(col) = (sensors_[plus] - sensors_[minus]) / (side == Side::kCentered ? 2 * eps : eps);
  }
}

bool StepDifference::LinearizeSensors(const mjModel* model, mjData* data, StepDerivative* out, std::string*) {
  Resize(false, true, out);
  if (extrapolate_) {
    Extrapolate(model, data, 0, true, out);
    return true;
  }
  Capture(model, data);
  stencil_.Restore(model_.get(), data, -1, 0);
  model_.SelectActivationBranches(data, 1);

  stencil_.Forward(model_.get(), data, -1, 0, sensors_[0]);
  SensorDifferences(data, out);
  Conclude(data, out);
  return true;
}

}  // namespace costate
