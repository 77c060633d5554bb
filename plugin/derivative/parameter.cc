// Parameters as the dispatcher sees them: which columns come from where.
#include <algorithm>

#include "core/check.h"
#include "core/engine_guard.h"
#include "derivative/fluid.h"
#include "derivative/linearizer.h"
#include "parameter/field.h"

namespace costate {
namespace {

constexpr const char* kHow = "residual at fixed acceleration, differenced along each";
constexpr const char* kOpen = "no derivative: ";

bool AnyFailed(const ParameterDifference& theta) {
  for (const std::string& reason : theta.failed()) {
    if (!reason.empty()) return true;
  }
  return false;
}

// does the engine's simple fluid model see the axes of this body's inertia?
bool DragsBoxOf(const mjModel* m, int body) {
  bool drags = false;
  if (HasFluid(m)) ForFluidParts(m, [&](int b, int geom) { drags = drags || (b == body && geom < 0); });
  return drags;
}

}  // namespace

void Linearizer::SetParameters(const ParameterSet* parameters) {
  Impl& s = *impl_;
  if (parameters == s.parameters) return;
  if (parameters && parameters->model() != s.model) {
    throw Error(ErrorCode::kInvalidArgument,
                "the parameters belong to another model: make the linearizer with parameters.model()");
  }
  if (parameters && s.options.smoothing > 0) {
    throw Error(ErrorCode::kUnsupported, "parameters have no derivative with a smoothed active set");
  }
  EngineGuard guard;
  s.theta = parameters ? std::make_unique<ParameterDifference>(*parameters) : nullptr;
  s.parameters = parameters;
}

// once a call
void Linearizer::Impl::RefreshParameters() {
  if (theta) theta->Refresh(*parameters);
}

// P, and with `sensors` Ps; columns that a level does not give by whole steps
bool Linearizer::Impl::AddParameters(Backend* backend, bool step, bool sensors, StepDerivative* out,
                                     std::string* missing) {
  out->P.resize(0, 0);
  out->Ps.resize(0, 0);
  if (!theta || out->status != StepStatus::kOk) return true;
  MatrixXd* P_out = step ? &out->P : nullptr;
  MatrixXd* Ps_out = sensors ? &out->Ps : nullptr;
  mj_setState(&local, data.get(), point.data(), mjSTATE_INTEGRATION);
  theta->Begin();
  if (!backend->Parameters(&local, data.get(), theta.get(), P_out, Ps_out, missing)) return false;
  if (AnyFailed(*theta)) {
    if (!whole_steps)
      whole_steps = std::make_unique<StepDifference>(model, options, whole_interval ? options.substeps : 1);
    mj_setState(&local, data.get(), point.data(), mjSTATE_INTEGRATION);
    out->status = whole_steps->FailedParameters(&local, data.get(), theta.get(), P_out, Ps_out);
  }
  NoteParameters(backend, sensors, &out->coverage);
  return true;
}

bool Linearizer::Impl::PullParameters(Backend* backend, const StepCovectors& covectors, StepVjp* out,
                                      std::string* missing) {
  out->theta.resize(0);
  if (!theta || out->status != StepStatus::kOk) return true;
  theta->Begin();
  if (!backend->PullParameters(&local, data.get(), point, covectors, theta.get(), &out->theta, missing)) return false;
  if (AnyFailed(*theta)) {
    if (!whole_steps)
      whole_steps = std::make_unique<StepDifference>(model, options, whole_interval ? options.substeps : 1);
    mj_setState(&local, data.get(), point.data(), mjSTATE_INTEGRATION);
    const bool sensors = covectors.sensors.size() > 0;
    P.setZero(dims.ndx, theta->size());
    Ps.setZero(dims.ns, theta->size());
    out->status = whole_steps->FailedParameters(&local, data.get(), theta.get(), covectors.step() ? &P : nullptr,
                                                sensors ? &Ps : nullptr);
    for (int k = 0; k < theta->size(); ++k) {
      if (theta->failed()[static_cast<std::size_t>(k)].empty()) continue;
      out->theta[k] = covectors.step() ? P.col(k).dot(covectors.next) : 0;
      if (sensors) out->theta[k] += Ps.col(k).dot(covectors.sensors);
    }
  }
  NoteParameters(backend, covectors.sensors.size() > 0, &out->coverage);
  return true;
}

void Linearizer::Impl::NoteParameters(Backend* backend, bool sensors, Coverage* coverage) {
  const bool whole = backend == levels[kStep].get();  // all else is one term, the step
  if (!whole) NoteHow(backend, sensors, coverage);
  std::vector<TermCoverage>* terms = whole ? &open_parameters : &coverage->terms;
  for (int k = 0; k < theta->size(); ++k) {
    const char* why = theta->open()[static_cast<std::size_t>(k)];
    const bool steps = whole || !theta->failed()[static_cast<std::size_t>(k)].empty();
    if (!why) continue;
    terms->push_back(
        {"parameter " + (*parameters)[k].name, steps ? Level::kStep : Level::kResidual, std::string(kOpen) + why});
  }
}

void Linearizer::Impl::NoteHow(Backend* backend, bool sensors, Coverage* coverage) {
  const std::vector<char>& closed = theta->closed()->closed();
  const bool some = backend == levels[kAnalytic].get();
  const auto count = some ? std::count(closed.begin(), closed.end(), 1) : 0;
  if (count == theta->size() && !sensors) {
    coverage->terms.push_back({"parameters", Level::kAnalytic, ""});
  } else {
    std::string how = kHow;
    if (count > 0 && count == theta->size()) how = "sensors differenced along each; steps in closed form";
    else if (count > 0) how += "; in closed form " + std::to_string(count) + " of " + std::to_string(theta->size());
    coverage->terms.push_back({"parameters", Level::kResidual, how});
  }
  for (int k = 0; k < theta->size(); ++k) {
    const std::string& reason = theta->failed()[static_cast<std::size_t>(k)];
    const bool said = theta->open()[static_cast<std::size_t>(k)] != nullptr;
    if (!reason.empty() && !said)
      coverage->terms.push_back({"parameter " + (*parameters)[k].name, Level::kStep, reason});
  }
  const mjModel* m = parameters->model();
  ParameterStencils& stencils = *theta->stencils();
  for (int k = 0; k < theta->size(); ++k) {
    const int body = stencils.element(k);
    if (!TurnsFreeAxes(m, stencils.field(k), body, stencils.index(k)) || !DragsBoxOf(m, body)) continue;
    coverage->terms.push_back({"parameter " + (*parameters)[k].name, Level::kResidual,
                               "no derivative: equal principal moments part, and the axes of the fluid's box jump"});
  }
}

}  // namespace costate
