// The dispatcher: arguments, context, substeps and the choice of level; the Jacobians are the backends'.
#include <costate/derivative.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/check.h"
#include "core/dense_product.h"
#include "core/plastic.h"
#include "core/plugins.h"
#include "core/sensor_stages.h"
#include "derivative/check_point.h"
#include "derivative/linearizer.h"
#include "derivative/smoothed_set.h"

namespace costate {
namespace {

// state that a step advances but x does not hold: over several substeps it carries derivatives too
const char* HiddenState(const mjModel* model) {
  if (model->nhistory > 0) return "delays";
  if (model->nplastic > 0) return HasPlasticity(model) ? "plastic state" : "reference frames of rods";
  if (HasMovingPluginState(model)) return "plugin state";
  return nullptr;
}

}  // namespace

Linearizer::Impl::Impl(const mjModel* model, const LinearizeOptions& options)
    : model(model),
      options(options),
      dims(model),
      local(*model),
      data(MakeData(model)),
      state(PresentState(model, mjSTATE_INTEGRATION)),
      moving_to_context(model, kMovingSignature, kContextSignature),
      context_to_point(model, kContextSignature, mjSTATE_INTEGRATION),
      x_to_point(model, kStateSignature, mjSTATE_INTEGRATION),
      u_to_point(model, mjSTATE_CTRL, mjSTATE_INTEGRATION) {
  if (options.substeps < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                "substeps is " + std::to_string(options.substeps) + ", at least 1 is needed");
  }
  if (!(options.eps >= 0)) {
    throw Error(ErrorCode::kInvalidArgument, "eps is " + fmt::format("{:g}", options.eps) + ", it cannot be negative");
  }
  if (!(options.smoothing >= 0 && std::isfinite(options.smoothing))) {
    throw Error(ErrorCode::kInvalidArgument,
                "smoothing is " + fmt::format("{:g}", options.smoothing) + ", it cannot be negative");
  }
  if (const int level = static_cast<int>(options.level); level < 0 || level > static_cast<int>(Level::kStep)) {
    throw Error(ErrorCode::kInvalidArgument,
                "level is " + std::to_string(level) + ", it is kBest (0), kAnalytic (1), kResidual (2) or kStep (3)");
  }
  CheckDifferentiable(model);
  CheckModelOptions(model);
  context.resize(mj_stateSize(model, kContextSignature));
  mj_getState(model, data.get(), context.data(), kContextSignature);
  point.resize(mj_stateSize(model, mjSTATE_INTEGRATION));
  no_control.setZero(dims.nu);

  // the levels that were asked for, best first
  const bool best = options.level == Level::kBest;
  const char* hidden = options.substeps > 1 ? HiddenState(model) : nullptr;
  whole_interval = hidden != nullptr;
  auto& analytic = missing[kAnalytic];
  auto& residual = missing[kResidual];
  if (whole_interval) {
    analytic = residual = std::string(hidden) + " carries derivatives from one substep to the next";
  } else {
    if (best || options.level == Level::kAnalytic) {
      levels[kAnalytic] = MakeAnalyticBackend(model, options, &analytic);
    }
    if (options.smoothing == 0 && (best || options.level == Level::kResidual)) {
      levels[kResidual] = MakeResidualBackend(model, options, &residual);
    }
  }
  if (options.smoothing > 0) missing[kResidual] = missing[kStep] = kSmoothedAtLevel1;
  if (options.smoothing == 0 && (best || options.level == Level::kStep)) {
    levels[kStep] = std::make_unique<StepDifference>(model, options, whole_interval ? options.substeps : 1);
  }
}

// x, u and context into the point, from which Covers sets data; the model's values and options as they are now
void Linearizer::Impl::Load(ConstVectorRef x, ConstVectorRef u) {
  RefreshModel();
  context_to_point(context.data(), point.data());
  x_to_point(x.data(), point.data());
  u_to_point(u.data(), point.data());
}

// the same with the context of a caller's data, not the one that was set
void Linearizer::Impl::LoadFrom(const mjData* from) {
  given_x.resize(dims.nx);
  given_context.resize(context.size());
  mj_getState(model, from, given_x.data(), kStateSignature);
  mj_getState(model, from, given_context.data(), kContextSignature);
  CheckFiniteContext(model, given_context);
  CheckFiniteState(model, given_x);
  CheckFiniteControl(model, Eigen::Map<const VectorXd>(from->ctrl, dims.nu));
  RefreshModel();
  mj_getState(model, from, point.data(), state);
}

void Linearizer::Impl::RefreshModel() {
  CheckModelOptions(model);
  RefreshParameters();
  local = *model;
  local.opt.disableflags |= mjDSBL_AUTORESET;
  local.opt.enableflags &= ~mjENBL_SLEEP;
  if (!stages_of_wanted.empty()) local.sensor_needstage = stages_of_wanted.data();
}

void Linearizer::Impl::LinearizeOnce(bool sensors, StepDerivative* out) {
  FirstThatCovers(out, [&](Backend* backend, std::string* missing) {
    const bool covers = backend->Linearize(&local, data.get(), sensors, out, missing) &&
                        (!sensors || AddSensors(backend, true, out, missing)) &&
                        AddParameters(backend, true, sensors, out, missing);
    if (covers) ClearUnread(backend, out);
    return covers;
  });
}

// rows of sensors that nobody reads, those of neighbours at once; level 1 has none of them
void Linearizer::Impl::ClearUnread(const Backend* backend, StepDerivative* out) const {
  if (backend == levels[kAnalytic].get()) return;
  const std::size_t n = wanted_sensors.size();
  for (std::size_t i = 0; i < n; ++i) {
    if (wanted_sensors[i]) continue;
    const int first = model->sensor_adr[i];
    int end = first + model->sensor_dim[i];
    for (; i + 1 < n && !wanted_sensors[i + 1] && model->sensor_adr[i + 1] == end; ++i) end += model->sensor_dim[i + 1];
    if (out->C.size() > 0) out->C.middleRows(first, end - first).setZero();
    if (out->D.size() > 0) out->D.middleRows(first, end - first).setZero();
  }
}

// rows of C and D that a level leaves to whole steps
bool Linearizer::Impl::AddSensors(Backend* backend, bool step, StepDerivative* out, std::string* missing) {
  const std::vector<char>* left = backend->SensorsLeft();
  if (!left || out->status != StepStatus::kOk) return true;
  if (!levels[kStep]) {
    *missing = SensorsReason(out->coverage);
    return false;
  }
  mj_setState(&local, data.get(), point.data(), state);
  if (!(step ? levels[kStep]->Linearize(&local, data.get(), true, &whole_step, missing)
             : levels[kStep]->LinearizeSensors(&local, data.get(), &whole_step, missing))) {
    return false;
  }
  out->status = whole_step.status;
  if (out->status != StepStatus::kOk) return true;
  for (int i = 0; i < model->nsensor; ++i) {
    if (!(*left)[i]) continue;
    const int row = model->sensor_adr[i], count = model->sensor_dim[i];
    out->C.middleRows(row, count) = whole_step.C.middleRows(row, count);
    if (step) out->D.middleRows(row, count) = whole_step.D.middleRows(row, count);
  }
  return true;
}

// on to the next substep, as Step does it; the interval has its sensors already
void Linearizer::Impl::Advance() {
  mj_setState(&local, data.get(), point.data(), state);
  const int flags = local.opt.disableflags;
  if (!MayReadReports(&local)) local.opt.disableflags |= mjDSBL_SENSOR;
  mj_step(&local, data.get());
  local.opt.disableflags = flags;
  mj_getState(&local, data.get(), point.data(), state);
}

// where an interval of several steps begins
void Linearizer::Impl::FindResting() {
  mj_setState(&local, data.get(), point.data(), state);
  resting.Find(&local, data.get(), options.substeps);
}

void Linearizer::Impl::LinearizeInterval(bool sensors, StepDerivative* out) {
  if (options.substeps > 1 && !whole_interval) FindResting();
  LinearizeOnce(sensors, out);
  if (whole_interval || out->status != StepStatus::kOk) return;

  // A ← A_k A, B ← A_k B + B_k, P likewise; sensors are those of the first substep
  for (int k = 1; k < options.substeps; ++k) {
    Advance();
    LinearizeOnce(false, &substep);
    out->status = substep.status;
    if (out->status != StepStatus::kOk) return;
    SetProduct(substep.A, out->A, &A, &packed);
    SetProduct(substep.A, out->B, &B, &packed);
    if (theta) {
      SetProduct(substep.A, out->P, &P, &packed);
      out->P = P + substep.P;
    }
    out->A.swap(A);
    out->B = B + substep.B;
    resting.Add(k, &out->A, &out->B);
    out->coverage.Add(substep.coverage);
  }
  if (options.substeps > 1 && !(IsFinite(out->A) && IsFinite(out->B) && IsFinite(out->P)))
    out->status = StepStatus::kBadState;  // each step's is, their product is not
}

Linearizer::Linearizer(const mjModel* model, const LinearizeOptions& options) {
  EngineGuard guard(nullptr, EngineGuard::Around::kEngine);
  impl_ = std::make_unique<Impl>(model, options);
}
Linearizer::~Linearizer() = default;
Linearizer::Linearizer(Linearizer&&) noexcept = default;
Linearizer& Linearizer::operator=(Linearizer&&) noexcept = default;

void Linearizer::SetContext(ConstVectorRef context) {
  CheckSize(impl_->model, "context", context.size(), "context size", static_cast<int>(impl_->context.size()));
  CheckFiniteContext(impl_->model, context);
  impl_->context = context;
}

void Linearizer::SetMovingContext(ConstVectorRef moving) {
  CheckSize(impl_->model, "moving context", moving.size(), "moving context size",
            mj_stateSize(impl_->model, kMovingSignature));
  impl_->moving_to_context(moving.data(), impl_->context.data());
}

void Linearizer::SelectSensors(const std::vector<char>& read) {
  Impl& s = *impl_;
  if (!read.empty()) CheckSize(s.model, "marks of sensors", static_cast<int>(read.size()), "ns", s.dims.ns);
  s.wanted_sensors.assign(read.empty() ? 0 : s.model->nsensor, 0);
  for (std::size_t i = 0; i < s.wanted_sensors.size(); ++i) {
    const auto begin = read.begin() + s.model->sensor_adr[i];
    s.wanted_sensors[i] = std::find(begin, begin + s.model->sensor_dim[i], 1) != begin + s.model->sensor_dim[i];
  }
  s.stages_of_wanted = StagesOfRead(s.model, read);
  for (const std::unique_ptr<Backend>& level : s.levels) {
    if (level) level->SelectSensors(s.wanted_sensors.empty() ? nullptr : &s.wanted_sensors);
  }
}

void Linearizer::Linearize(ConstVectorRef x, ConstVectorRef u, StepDerivative* out) {
  Impl& s = *impl_;
  CheckPoint(s.model, s.dims, x, u);
  s.Guarded(out, [&] {
    s.Load(x, u);
    s.LinearizeInterval(s.options.sensors, out);
  });
}

void Linearizer::LinearizeAfterForward(mjData* data, StepDerivative* out) {
  Impl& s = *impl_;
  s.AfterForward(
      data, out, [&](Backend* backend) { return backend->LinearizeAfterForward(s.model, data, out); },
      [&] { s.LinearizeInterval(false, out); });
}

void Linearizer::LinearizeSensors(ConstVectorRef x, StepDerivative* out) {
  Impl& s = *impl_;
  CheckSize(s.model, "x", x.size(), "nx", s.dims.nx);
  CheckFiniteState(s.model, x);
  s.Guarded(out, [&] {
    s.Load(x, s.no_control);
    s.FirstThatCovers(out, [&](Backend* backend, std::string* missing) {
      const bool covers = backend->LinearizeSensors(&s.local, s.data.get(), out, missing) &&
                          s.AddSensors(backend, false, out, missing) &&
                          s.AddParameters(backend, false, true, out, missing);
      if (covers) s.ClearUnread(backend, out);
      return covers;
    });
  });
  out->A.resize(0, 0);
  out->B.resize(0, 0);
  out->D.resize(0, 0);
  out->P.resize(0, 0);
}

StepDerivative Linearize(const mjModel* model, const mjData* data, const LinearizeOptions& options) {
  Linearizer linearizer(model, options);
  linearizer.SetContext(GetContext(model, data));
  StepDerivative result;
  VectorXd u = Eigen::Map<const VectorXd>(data->ctrl, model->nu);
  linearizer.Linearize(GetState(model, data), u, &result);
  return result;
}

}  // namespace costate
