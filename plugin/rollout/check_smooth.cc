#include "rollout/check_smooth.h"

#include <costate/bundle.h>

#include <algorithm>
#include <cmath>

#include "core/extremes.h"

namespace costate {
namespace {

constexpr double kReachless = 1e-3;  // [m, rad]

struct NamedRange {
  const char* name;
  int begin, count;
};

StepDerivative Checked(const mjModel* model, const mjData* data, const LinearizeOptions& options) {
  StepDerivative out = Linearize(model, data, options);
  if (out.status == StepStatus::kOk) return out;
  throw Error(ErrorCode::kInvalidArgument, std::string("there is no derivative here: ") + ToString(out.status));
}

BundleDerivative Average(const mjModel* model, const mjData* data, double noise, int substeps) {
  const Dims dims(model);
  BundleOptions options;
  options.state = VectorXd::Zero(dims.ndx);
  options.state.head(dims.nv).setConstant(noise);
  BundleDerivative out;
  const VectorXd u = Eigen::Map<const VectorXd>(data->ctrl, dims.nu);
  Bundle(model, GetContext(model, data), substeps, 1).Linearize(GetState(model, data), u, options, &out);
  return out;
}

}  // namespace

double AverageNoise(const SmoothContact& smooth) {
  const double reach = std::max(smooth.onset, smooth.distance);
  return reach > 0 ? 0.5 * reach : kReachless;
}

std::vector<SmoothBias> CompareSmooth(const mjModel* model, const mjData* data, const SmoothContact& options,
                                      const LinearizeOptions& derivative) {
  const SmoothModel smooth = MakeSmoothModel(model, options);
  LinearizeOptions smoothed = derivative;
  smoothed.smoothing = smooth.smoothing;
  const StepDerivative truth = Checked(model, data, derivative), value = Checked(smooth.model.get(), data, smoothed);
  BundleDerivative average;
  bool averages = true;
  try {
    average = Average(model, data, AverageNoise(options), derivative.substeps);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    averages = false;
  }
  const Dims dims(model);
  const NamedRange states[] = {{"qpos", 0, dims.nv}, {"qvel", dims.nv, dims.nv}, {"act", 2 * dims.nv, dims.na}};
  const NamedRange controls[] = {{"ctrl", 0, dims.nu}}, sensors[] = {{"sensor", 0, dims.ns}};
  const std::vector<std::string> x = TangentNames(model), u = ControlNames(model), s = SensorNames(model);
  std::vector<SmoothBias> out;
  const auto add = [&](const std::string& matrix, const MatrixXd& a, const MatrixXd& b, const BundleMatrices* mean,
                       const NamedRange& row, const NamedRange& col, const auto& rows, const auto& cols) {
    if (row.count == 0 || col.count == 0 || a.size() == 0 || b.size() == 0) return;
    const auto part = [&](const MatrixXd& from) -> MatrixXd {
      return from.block(row.begin, col.begin, row.count, col.count);
    };
    const MatrixXd A = part(a), B = part(b);
    const double root = std::sqrt(static_cast<double>(A.size()));
    const char* next = mean ? "'" : "";
    SmoothBias bias;
    bias.block = matrix + " " + row.name + next + "/" + col.name;
    bias.scale = B.cwiseAbs().maxCoeff();
    Eigen::Index i = 0, j = 0;
    bias.largest = (A - B).cwiseAbs().maxCoeff(&i, &j);
    bias.mean = (A - B).norm() / root;
    bias.averaged = bias.deviation = kNan;
    if (mean && averages) {
      bias.averaged = (A - part(matrix == "A" ? mean->A : mean->B)).norm() / root;
      bias.deviation = mean->deviation / root;
    }
    bias.value = A(i, j);
    bias.truth = B(i, j);
    bias.row = rows[static_cast<std::size_t>(row.begin + i)] + next;
    bias.col = cols[static_cast<std::size_t>(col.begin + j)];
    out.push_back(bias);
  };
  const BundleMatrices* mean = &average.combined;
  for (const NamedRange& row : states) {
    for (const NamedRange& col : states) add("A", value.A, truth.A, mean, row, col, x, x);
    add("B", value.B, truth.B, mean, row, controls[0], x, u);
  }
  for (const NamedRange& col : states) add("C", value.C, truth.C, nullptr, sensors[0], col, s, x);
  add("D", value.D, truth.D, nullptr, sensors[0], controls[0], s, u);
  return out;
}

}  // namespace costate
