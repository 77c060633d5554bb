// The dispatcher: arguments, context, substeps and the choice of level; the Jacobians are the backends'.
#include <costate/derivative.h>

#include <cmath>
#include <utility>

#include "core/check.h"
#include "core/engine_guard.h"
#include "derivative/backend.h"
#include "derivative/step_difference.h"

namespace costate {
namespace {

void CheckFinite(const char* name, ConstVectorRef values, std::vector<std::string> (*names)(const mjModel*),
                 const mjModel* model) {
  for (int i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    throw Error(ErrorCode::kInvalidArgument, std::string(name) + " is not finite: " + names(model)[i] + " = " +
                                                 std::to_string(values[i]));
  }
}

// state that a step advances but x does not hold: over several substeps it carries derivatives too
const char* HiddenState(const mjModel* model) {
  if (model->nhistory > 0) return "delays";
  if (model->nplastic > 0) return "plastic state";
  if (model->npluginstate > 0) return "plugin state";
  return nullptr;
}

}  // namespace

struct Linearizer::Impl {
  Impl(const mjModel* model, const LinearizeOptions& options);
  void Load(ConstVectorRef x, ConstVectorRef u);
  void LinearizeOnce(bool sensors, StepDerivative* out);
  void Advance();
  template <typename Call>
  void FirstThatCovers(StepDerivative* out, Call call);

  const mjModel* model;
  LinearizeOptions options;
  Dims dims;
  mjModel local;  // the caller's, refreshed at each call, with automatic reset and sleep off
  DataPtr data;
  VectorXd context, point;             // kContextSignature; mjSTATE_INTEGRATION at the current substep
  std::unique_ptr<Backend> levels[4];  // by Level; null: not requested or not covered
  bool whole_interval = false;         // substeps are differenced at once
  std::string missing[4], reason;      // why not a better level
  StepDerivative substep;
  MatrixXd A, B, C;
};

Linearizer::Impl::Impl(const mjModel* model, const LinearizeOptions& options)
    : model(model), options(options), dims(model), local(*model), data(MakeData(model)) {
  if (options.substeps < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                "substeps is " + std::to_string(options.substeps) + ", at least 1 is needed");
  }
  if (!(options.eps >= 0)) {
    throw Error(ErrorCode::kInvalidArgument, "eps is " + std::to_string(options.eps) + ", it cannot be negative");
  }
  if (model->opt.enableflags & mjENBL_IPC) {
    throw Error(ErrorCode::kUnsupported, "model '" + ModelName(model) +
                                             "' has option flag ipc: its contact multipliers belong to no state, so a "
                                             "step cannot be repeated; disable the flag");
  }
  context.resize(mj_stateSize(model, kContextSignature));
  mj_getState(model, data.get(), context.data(), kContextSignature);
  point.resize(mj_stateSize(model, mjSTATE_INTEGRATION));

  // the levels that were asked for, best first
  const bool best = options.level == Level::kBest;
  const char* hidden = options.substeps > 1 ? HiddenState(model) : nullptr;
  whole_interval = hidden != nullptr;
  auto& analytic = missing[static_cast<int>(Level::kAnalytic)];
  auto& residual = missing[static_cast<int>(Level::kResidual)];
  if (whole_interval) {
    analytic = residual = std::string(hidden) + " carries derivatives from one substep to the next";
  } else {
    if (best || options.level == Level::kAnalytic) {
      levels[static_cast<int>(Level::kAnalytic)] = MakeAnalyticBackend(model, options, &analytic);
    }
    if (best || options.level == Level::kResidual) {
      levels[static_cast<int>(Level::kResidual)] = MakeResidualBackend(model, options, &residual);
    }
  }
  if (best || options.level == Level::kStep) {
    levels[static_cast<int>(Level::kStep)] =
        std::make_unique<StepDifference>(model, options, whole_interval ? options.substeps : 1);
  }
}

// x, u and context into data; the model's values and options as they are now
void Linearizer::Impl::Load(ConstVectorRef x, ConstVectorRef u) {
  local = *model;
  local.opt.disableflags |= mjDSBL_AUTORESET;
  local.opt.enableflags &= ~mjENBL_SLEEP;
  mj_setState(&local, data.get(), context.data(), kContextSignature);
  mj_setState(&local, data.get(), x.data(), kStateSignature);
  mj_setState(&local, data.get(), u.data(), mjSTATE_CTRL);
  mj_getState(&local, data.get(), point.data(), mjSTATE_INTEGRATION);
}

template <typename Call>
void Linearizer::Impl::FirstThatCovers(StepDerivative* out, Call call) {
  reason.clear();
  for (int level = static_cast<int>(Level::kAnalytic); level <= static_cast<int>(Level::kStep); ++level) {
    if (levels[level]) {
      mj_setState(&local, data.get(), point.data(), mjSTATE_INTEGRATION);
      if (call(levels[level].get(), &missing[level])) {
        if (level < static_cast<int>(Level::kStep)) return;
        if (const char* why = WhyNotTransitionFd(model, options.sensors)) {
          if (!reason.empty()) reason += "; ";
          reason += why;
        }
        out->coverage.terms.resize(1);
        out->coverage.terms[0].term = "step";
        out->coverage.terms[0].level = Level::kStep;
        out->coverage.terms[0].reason = reason;
        return;
      }
    }
    if (!missing[level].empty()) {
      if (!reason.empty()) reason += "; ";
      reason += ToString(static_cast<Level>(level));
      reason += ": ";
      reason += missing[level];
    }
  }
  throw Error(ErrorCode::kUnsupported, "model '" + ModelName(model) + "' has no derivative at level '" +
                                           ToString(options.level) + "': " + reason);
}

void Linearizer::Impl::LinearizeOnce(bool sensors, StepDerivative* out) {
  FirstThatCovers(out, [&](Backend* backend, std::string* missing) {
    return backend->Linearize(&local, data.get(), sensors, out, missing);
  });
}

// on to the next substep, as Step does it
void Linearizer::Impl::Advance() {
  mj_setState(&local, data.get(), point.data(), mjSTATE_INTEGRATION);
  mj_step(&local, data.get());
  mj_getState(&local, data.get(), point.data(), mjSTATE_INTEGRATION);
}

Linearizer::Linearizer(const mjModel* model, const LinearizeOptions& options) {
  EngineGuard guard;
  impl_ = std::make_unique<Impl>(model, options);
}
Linearizer::~Linearizer() = default;
Linearizer::Linearizer(Linearizer&&) noexcept = default;
Linearizer& Linearizer::operator=(Linearizer&&) noexcept = default;

void Linearizer::SetContext(ConstVectorRef context) {
  CheckSize(impl_->model, "context", context.size(), "context size", static_cast<int>(impl_->context.size()));
  impl_->context = context;
}

void Linearizer::SetMovingContext(ConstVectorRef moving) {
  mjData* data = impl_->data.get();
  CheckSize(impl_->model, "moving context", moving.size(), "moving context size",
            mj_stateSize(impl_->model, kMovingSignature));
  mj_setState(impl_->model, data, impl_->context.data(), kContextSignature);
  mj_setState(impl_->model, data, moving.data(), kMovingSignature);
  mj_getState(impl_->model, data, impl_->context.data(), kContextSignature);
}

void Linearizer::Linearize(ConstVectorRef x, ConstVectorRef u, StepDerivative* out) {
  Impl& s = *impl_;
  CheckSize(s.model, "x", x.size(), "nx", s.dims.nx);
  CheckSize(s.model, "u", u.size(), "nu", s.dims.nu);
  CheckFinite("x", x, StateNames, s.model);
  CheckFinite("u", u, ControlNames, s.model);
  EngineGuard guard(s.data.get());
  s.Load(x, u);
  s.LinearizeOnce(s.options.sensors, out);
  if (s.whole_interval) return;

  // A ← A_k A, B ← A_k B + B_k; sensors are those of the first substep
  for (int k = 1; k < s.options.substeps && out->status == StepStatus::kOk; ++k) {
    s.Advance();
    s.LinearizeOnce(false, &s.substep);
    s.A.noalias() = s.substep.A * out->A;
    s.B.noalias() = s.substep.A * out->B;
    out->A.swap(s.A);
    out->B = s.B + s.substep.B;
    out->status = s.substep.status;
    if (s.substep.coverage.Worst() > out->coverage.Worst()) out->coverage = s.substep.coverage;
  }
}

void Linearizer::LinearizeSensors(ConstVectorRef x, StepDerivative* out) {
  Impl& s = *impl_;
  CheckSize(s.model, "x", x.size(), "nx", s.dims.nx);
  CheckFinite("x", x, StateNames, s.model);
  EngineGuard guard(s.data.get());
  s.B.resize(s.dims.nu, 1);
  s.B.setZero();
  s.Load(x, s.B.col(0));
  s.FirstThatCovers(out, [&](Backend* backend, std::string* missing) {
    return backend->LinearizeSensors(&s.local, s.data.get(), out, missing);
  });
  out->A.resize(0, 0);
  out->B.resize(0, 0);
  out->D.resize(0, 0);
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
