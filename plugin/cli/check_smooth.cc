#include "cli/check_smooth.h"

#include <cmath>

namespace costate::cli {
namespace {

struct NamedRange {
  const char* name;
  int begin, count;
};

}  // namespace

std::vector<SmoothBias> CompareSmooth(const mjModel* model, const mjData* data,
                                      const SmoothModel& smooth, const LinearizeOptions& options) {
  const StepDerivative truth = Linearize(model, data, options);
  LinearizeOptions wanted = options;
  wanted.smoothing = smooth.smoothing;
  const StepDerivative value = Linearize(smooth.model.get(), data, wanted);
  if (truth.status != StepStatus::kOk || value.status != StepStatus::kOk) {
    throw Error(ErrorCode::kInvalidArgument,
                std::string("there is no derivative here: ") +
                    ToString(truth.status != StepStatus::kOk ? truth.status : value.status));
  }
  const Dims dims(model);
  const NamedRange states[] = {
      {"qpos", 0, dims.nv}, {"qvel", dims.nv, dims.nv}, {"act", 2 * dims.nv, dims.na}};
  const NamedRange controls[] = {{"ctrl", 0, dims.nu}}, sensors[] = {{"sensor", 0, dims.ns}};
  const std::vector<std::string> x = TangentNames(model), u = ControlNames(model),
                                 s = SensorNames(model);
  std::vector<SmoothBias> out;
  const auto add = [&](const char* matrix, const MatrixXd& a, const MatrixXd& b,
                       const NamedRange& row, const NamedRange& col, const auto& rows,
                       const auto& cols, const char* next) {
    if (row.count == 0 || col.count == 0 || a.size() == 0 || b.size() == 0) return;
    const MatrixXd A = a.block(row.begin, col.begin, row.count, col.count),
                   B = b.block(row.begin, col.begin, row.count, col.count);
    SmoothBias bias;
    bias.block = std::string(matrix) + " " + row.name + next + "/" + col.name;
    bias.scale = B.cwiseAbs().maxCoeff();
    Eigen::Index i = 0, j = 0;
    bias.largest = (A - B).cwiseAbs().maxCoeff(&i, &j);
    bias.mean = (A - B).norm() / std::sqrt(static_cast<double>(A.size()));
    bias.value = A(i, j);
    bias.truth = B(i, j);
    bias.row = rows[static_cast<std::size_t>(row.begin + i)] + next;
    bias.col = cols[static_cast<std::size_t>(col.begin + j)];
    out.push_back(bias);
  };
  for (const NamedRange& row : states) {
    for (const NamedRange& col : states) add("A", value.A, truth.A, row, col, x, x, "'");
    add("B", value.B, truth.B, row, controls[0], x, u, "'");
  }
  for (const NamedRange& col : states) add("C", value.C, truth.C, sensors[0], col, s, x, "");
  add("D", value.D, truth.D, sensors[0], controls[0], s, u, "");
  return out;
}

}  // namespace costate::cli
