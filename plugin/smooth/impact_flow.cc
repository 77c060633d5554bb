#include "smooth/impact_flow.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/extremes.h"

namespace costate {
namespace {

// below this share of a step a flow is the identity to rounding of its derivative
constexpr double kInstant = 1e-13;

// derivative of the polynomial through seven durations: its error falls with the sixth power of how far they are apart.
// From a sixteenth of a step, a quarter each time: implicit damping alone bends φ within M / D, which can be less than
// a step.
constexpr int kRateNodes = 7;
constexpr double kRateSpacing = 1.0 / 16;
constexpr int kRateSizes = 6;
constexpr double kRateEnough = 1e-12;  // relative: what rounding leaves

// weights of f'(at) = Σ w_i f(nodes_i), Fornberg 1988, for the first derivative
void DerivativeWeights(double at, const double* nodes, double* weights) {
  double value[kRateNodes] = {1}, slope[kRateNodes] = {};
  double c1 = 1, c4 = nodes[0] - at;
  for (int i = 1; i < kRateNodes; ++i) {
    double c2 = 1;
    const double c5 = c4;
    c4 = nodes[i] - at;
    for (int j = 0; j < i; ++j) {
      const double c3 = nodes[i] - nodes[j];
      c2 *= c3;
      if (j == i - 1) {
        slope[i] = c1 * (value[i - 1] - c5 * slope[i - 1]) / c2;
        value[i] = -c1 * c5 * value[i - 1] / c2;
      }
      slope[j] = (c4 * slope[j] - value[j]) / c3;
      value[j] = c4 * value[j] / c3;
    }
    c1 = c2;
  }
  std::copy(slope, slope + kRateNodes, weights);
}

}  // namespace

ImpactFlow::ImpactFlow(ModelPtr model, Level level)
    : model_(std::move(model)),
      data_(MakeData(model_.get())),
      timestep_(model_->opt.timestep),
      context_(GetContext(model_.get(), data_.get())),
      now_(context_),
      linearizer_(model_.get(), {.level = level, .sensors = false}) {}

// the context at `time`: time is its first entry
void ImpactFlow::SetTime(double time) {
  now_ = context_;
  now_[0] += time;
}

StepStatus ImpactFlow::Move(ConstVectorRef x, ConstVectorRef u, double time, double s, VectorXd* x_next) {
  x_next->resize(x.size());
  if (s == 0) {
    *x_next = x;
    return StepStatus::kOk;
  }
  SetTime(time);
  costate::SetContext(model_.get(), data_.get(), now_);
  model_->opt.timestep = s;
  VectorXd no_sensors;
  const StepStatus status = Step(model_.get(), data_.get(), x, u, 1, *x_next, no_sensors);
  model_->opt.timestep = timestep_;
  return status;
}

// (E5) of spacings ever smaller that one, for each entry, which agrees best with the one before
StepStatus ImpactFlow::Rate(ConstVectorRef x, ConstVectorRef u, double time, double s, VectorXd* rate, double* error) {
  const Dims dims(model_.get());
  VectorXd at, node, dx(dims.ndx), previous, now(dims.ndx), disagreement;
  if (const StepStatus status = Move(x, u, time, s, &at); status != StepStatus::kOk) return status;
  for (int size = 0; size < kRateSizes; ++size) {
    const double spacing = kRateSpacing * timestep_ / std::pow(4.0, size);
    const double first = std::max(0.0, s - (kRateNodes / 2) * spacing);
    double nodes[kRateNodes], weights[kRateNodes];
    for (int i = 0; i < kRateNodes; ++i) nodes[i] = first + i * spacing;
    DerivativeWeights(s, nodes, weights);
    now.setZero();
    for (int i = 0; i < kRateNodes; ++i) {
      if (const StepStatus status = Move(x, u, time, nodes[i], &node); status != StepStatus::kOk) return status;
      Difference(model_.get(), node, at, dx);
      now += weights[i] * dx;
    }
    if (size == 0) {
      disagreement.setConstant(dims.ndx, kInf);
      *rate = now;
    } else {
      for (int i = 0; i < dims.ndx; ++i) {
        const double off = std::abs(now[i] - previous[i]);
        if (off < disagreement[i]) disagreement[i] = off, (*rate)[i] = now[i];
      }
    }
    *error = disagreement.maxCoeff() / std::max(1.0, rate->cwiseAbs().maxCoeff());
    if (*error < kRateEnough) break;
    previous = now;
  }
  return StepStatus::kOk;
}

StepStatus ImpactFlow::Linearize(ConstVectorRef x, ConstVectorRef u, double time, double s, StepDerivative* out,
                                 VectorXd* rate, double* rate_error) {
  if (s > kInstant * timestep_) {
    SetTime(time);
    linearizer_.SetContext(now_);
    model_->opt.timestep = s;
    linearizer_.Linearize(x, u, out);
    model_->opt.timestep = timestep_;
  } else {
    const Dims dims(model_.get());
    out->status = StepStatus::kOk;
    out->A.setIdentity(dims.ndx, dims.ndx);
    out->B.setZero(dims.ndx, dims.nu);
    out->coverage.terms.clear();
  }
  if (out->status != StepStatus::kOk || rate == nullptr) return out->status;
  return Rate(x, u, time, s, rate, rate_error);
}

}  // namespace costate
