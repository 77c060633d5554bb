// costate.linearization: the step's derivative, or what sums it up, as a sensor. README.md.
#include <costate/derivative.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "core/dense_product.h"
#include "core/engine_guard.h"
#include "core/spectral_radius.h"
#include "derivative/equilibrium.h"
#include "derivative/level_words.h"
#include "engine/linearization_output.h"
#include "engine/model_key.h"
#include "engine/plugin.h"
#include "engine/private_model.h"
#include "engine/python_callbacks.h"
#include "engine/switch_distance.h"

namespace costate {
namespace {

constexpr char kLinearizationName[] = "costate.linearization";
constexpr const char* kLinearizationAttributes[] = {"output", "period", "level", "reach"};
constexpr double kPeriodSlack = 1e-6;  // time is a sum of time steps: of a period

class LinearizationPlugin {
 public:
  LinearizationPlugin(const mjModel* m, mjData* d, int instance);
  void Compute(const mjModel* m, mjData* d, int capability);

  /// 0 without a period: nothing has to be held.
  static int StateSize(const mjModel* m, int instance);
  static int SensorSize(const mjModel* m, int instance);

 private:
  void Prepare(const mjModel* m);
  void Evaluate(const mjModel* m, const mjData* d);
  void Linearization(const mjModel* m, const mjData* d);
  void Equation(const mjModel* m, const mjData* d);
  double LargestEigenvalue();
  double LargestSingularValue();
  double Condition();
  void Show(const LinearizationOutput::Item& item, double* out);

  const int instance_;
  const Attributes attributes_;
  const LinearizationOutput output_;
  const double period_, reach_;
  const Level level_;
  const bool needs_matrices_, needs_equation_;
  PrivateModel model_;
  ModelKey key_, key_now_;
  std::unique_ptr<Linearizer> linearizer_;
  DataPtr data_;  // for H and distances
  Equilibrium equilibrium_;
  StepDerivative derivative_;
  VectorXd x_, u_, context_, state_, values_;
  double condition_ = 0, switch_distance_ = 0;
  MatrixXd squared_;
  PackedMatrix packed_;
  Eigen::EigenSolver<MatrixXd> eigen_;
  Eigen::SelfAdjointEigenSolver<MatrixXd> symmetric_, symmetric_H_;
};

LinearizationPlugin::LinearizationPlugin(const mjModel* m, mjData*, int instance)
    : instance_(instance),
      attributes_(m, instance),
      output_(m, attributes_),
      period_(attributes_.NotNegative("period", 0)),
      reach_(attributes_.Positive("reach", 0.02)),
      level_(kLevelWords[attributes_.Choice("level", LevelWords(), 0)].level),
      needs_matrices_(
          output_.Needs(LinearizationOutput::kLevel) || output_.Needs(LinearizationOutput::kSpectralRadius) ||
          output_.Needs(LinearizationOutput::kLargestSingularValue) || output_.Needs(LinearizationOutput::kBlock)),
      needs_equation_(output_.Needs(LinearizationOutput::kCondition) ||
                      output_.Needs(LinearizationOutput::kSwitchDistance)),
      model_(m, m->plugin[instance]) {
  x_.setZero(mj_stateSize(m, kStateSignature));
  u_.setZero(m->nu);
  context_.setZero(mj_stateSize(m, kContextSignature));
  state_.setZero(mj_stateSize(m, mjSTATE_INTEGRATION));
  values_.setZero(output_.size);
  const Eigen::Index nv = m->nv, ndx = 2 * nv + m->na;
  if (output_.Needs(LinearizationOutput::kSpectralRadius)) eigen_ = Eigen::EigenSolver<MatrixXd>(ndx);
  if (output_.Needs(LinearizationOutput::kLargestSingularValue)) {
    squared_.setZero(ndx, ndx);
    symmetric_ = Eigen::SelfAdjointEigenSolver<MatrixXd>(ndx);
  }
  if (output_.Needs(LinearizationOutput::kCondition)) symmetric_H_ = Eigen::SelfAdjointEigenSolver<MatrixXd>(nv);

  // once at the model's start: a level that cannot be had is told now, and memory grows to its size
  const DataPtr start = MakeData(model_.get());
  EngineGuard guard(start.get());
  try {
    Prepare(m);
    Evaluate(m, start.get());
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUnsupported && IsBeingCompiled(m)) attributes_.Fail("level", error.what());
    linearizer_.reset();
  }
  guard.TakeWarnings();
}

// anew when options or structure have changed, which allocates
void LinearizationPlugin::Prepare(const mjModel* m) {
  model_.Refresh(m);
  key_now_.Read(model_.get());
  const bool made = needs_matrices_ == (linearizer_ != nullptr) && needs_equation_ == (data_ != nullptr);
  if (made && key_now_ == key_) return;
  linearizer_.reset();
  data_.reset();
  key_ = key_now_;  // of whatever is made from here on, should the rest fail
  CheckModelOptions(model_.get());
  if (needs_matrices_) {
    LinearizeOptions options;
    options.level = level_;
    options.sensors = false;
    linearizer_ = std::make_unique<Linearizer>(model_.get(), options);
  }
  if (needs_equation_) data_ = MakeData(model_.get());
}

void LinearizationPlugin::Linearization(const mjModel* m, const mjData* d) {
  mj_getState(m, d, context_.data(), kContextSignature);
  mj_getState(m, d, x_.data(), kStateSignature);
  std::copy_n(d->ctrl, m->nu, u_.data());
  linearizer_->SetContext(context_);
  linearizer_->Linearize(x_, u_, &derivative_);
  if (derivative_.status != StepStatus::kOk) throw Error(ErrorCode::kInvalidArgument, ToString(derivative_.status));
}

// H at the converged acceleration, and the distance of positions to a switch
void LinearizationPlugin::Equation(const mjModel* m, const mjData* d) {
  mj_getState(m, d, state_.data(), mjSTATE_INTEGRATION);
  mjModel local = *model_.get();
  local.opt.disableflags |= mjDSBL_AUTORESET;
  local.opt.enableflags &= ~mjENBL_SLEEP;
  mj_setState(&local, data_.get(), state_.data(), mjSTATE_INTEGRATION);
  if (output_.Needs(LinearizationOutput::kCondition)) {
    StepStatus status = StepStatus::kOk;
    std::string reason;
    equilibrium_.Solve(&local, data_.get(), &status, &reason);
    if (status != StepStatus::kOk) throw Error(ErrorCode::kInvalidArgument, ToString(status));
    condition_ = Condition();
  } else {
    mj_fwdPosition(&local, data_.get());
  }
  if (output_.Needs(LinearizationOutput::kSwitchDistance))
    switch_distance_ = SwitchDistance(&local, data_.get(), reach_);
}

double LinearizationPlugin::LargestEigenvalue() {
  const double radius = SpectralRadius(derivative_.A, &eigen_);
  return std::isnan(radius) ? 0 : radius;
}

// σ² is the largest eigenvalue of AᵀA
double LinearizationPlugin::LargestSingularValue() {
  if (derivative_.A.rows() == 0) return 0;  // a model without degrees of freedom
  squared_.setZero();
  PackLeftTransposed(derivative_.A, &packed_).AddProduct(derivative_.A, squared_);
  symmetric_.compute(squared_, Eigen::EigenvaluesOnly);
  return std::sqrt(std::max(0.0, symmetric_.eigenvalues()[squared_.rows() - 1]));
}

double LinearizationPlugin::Condition() {
  if (equilibrium_.HessianMatrix().rows() == 0) return 1;
  symmetric_H_.compute(equilibrium_.HessianMatrix(), Eigen::EigenvaluesOnly);
  const auto& values = symmetric_H_.eigenvalues();
  return values[0] > 0 ? values[values.size() - 1] / values[0] : mjMAXVAL;
}

void LinearizationPlugin::Show(const LinearizationOutput::Item& item, double* out) {
  switch (item.kind) {
    case LinearizationOutput::kLevel: *out = static_cast<double>(derivative_.coverage.Worst()); return;
    case LinearizationOutput::kSpectralRadius: *out = LargestEigenvalue(); return;
    case LinearizationOutput::kLargestSingularValue: *out = LargestSingularValue(); return;
    case LinearizationOutput::kCondition: *out = condition_; return;
    case LinearizationOutput::kSwitchDistance: *out = switch_distance_; return;
    case LinearizationOutput::kBlock: break;
  }
  const MatrixXd& matrix = item.of_B ? derivative_.B : derivative_.A;
  for (int i = 0; i < item.rows; ++i) {
    for (int j = 0; j < item.cols; ++j) *out++ = matrix(item.row + i, item.col + j);
  }
}

void LinearizationPlugin::Evaluate(const mjModel* m, const mjData* d) {
  RefusePythonCallbacks();
  if (needs_matrices_) Linearization(m, d);
  if (needs_equation_) Equation(m, d);
  double* out = values_.data();
  for (const LinearizationOutput::Item& item : output_.items) {
    Show(item, out);
    out += item.size();
  }
}

void LinearizationPlugin::Compute(const mjModel* m, mjData* d, int) {
  // plugin_state: when the values were made, the values
  mjtNum* held = period_ > 0 ? d->plugin_state + m->plugin_stateadr[instance_] : nullptr;
  const bool due = !held || !(d->time > held[0]) || d->time >= held[0] + period_ * (1 - kPeriodSlack);
  if (due) {
    EngineGuard guard;
    try {
      Prepare(m);
      EngineGuard stack(data_.get());
      Evaluate(m, d);
    } catch (const std::exception&) {
      values_.setZero();    // level 0
      linearizer_.reset();  // which may have been left half way
    }
    guard.TakeWarnings();
    if (held) {
      held[0] = d->time;
      std::copy_n(values_.data(), output_.size, held + 1);
    }
  }
  for (int i = 0; i < m->nsensor; ++i) {
    if (m->sensor_type[i] != mjSENS_PLUGIN || m->sensor_plugin[i] != instance_) continue;
    std::copy_n(held ? held + 1 : values_.data(), output_.size, d->sensordata + m->sensor_adr[i]);
  }
}

int LinearizationPlugin::SensorSize(const mjModel* m, int instance) {
  try {
    return LinearizationOutput(m, Attributes(m, instance)).size;
  } catch (const std::exception&) {
    return 1;  // init says what is wrong
  }
}

int LinearizationPlugin::StateSize(const mjModel* m, int instance) {
  try {
    const Attributes attributes(m, instance);
    return attributes.NotNegative("period", 0) > 0 ? 1 + LinearizationOutput(m, attributes).size : 0;
  } catch (const std::exception&) {
    return 0;
  }
}

}  // namespace

void RegisterLinearization() {
  mjpPlugin plugin = MakePlugin<LinearizationPlugin>(kLinearizationName, kLinearizationAttributes, mjPLUGIN_SENSOR);
  plugin.needstage = mjSTAGE_ACC;
  plugin.nstate = LinearizationPlugin::StateSize;
  plugin.nsensordata = [](const mjModel* m, int instance, int) { return LinearizationPlugin::SensorSize(m, instance); };
  plugin.reset = [](const mjModel* m, mjtNum* state, void*, int instance) {
    mju_zero(state, m->plugin_statenum[instance]);
    if (m->plugin_statenum[instance] > 0) state[0] = mjMAXVAL;  // later than any time: the first look counts
  };
  RegisterOnce(plugin);
}

}  // namespace costate
