// Two derivatives compared entry by entry, and the result put into words.
#include <costate/derivative_check.h>

#include <algorithm>
#include <cmath>

#include "core/check.h"

namespace costate {
namespace {

// The scale of a block is its largest entry, but no less than these fractions of its matrix's largest. A block that is
// zero within its error bars has no scale of its own; level 2 leaves noise of 2e-10 in it (2e-16 / 1e-6).
constexpr double kSmallBlock = 1e-5, kZeroBlock = 1e-2;
constexpr double kSmallestScale = 1e-9;

// Error bars granted; where noise rules the bar itself is an estimate from few noisy numbers.
constexpr double kBars = 3, kNoisyBars = 10;

// rows or columns that belong together
struct Range {
  std::string name;
  int begin = 0, size = 0;
};

// one of A, B, C, D with its reference
struct MatrixPair {
  char letter;
  const MatrixXd &value, &reference, &error;
  int first_column;  // in [dx du]
  std::vector<Range> rows, cols;
  std::vector<std::string> row_names, col_names;
};

void CheckShape(char letter, const MatrixXd& value, const MatrixXd& reference, const char* of = "") {
  if (value.rows() == reference.rows() && value.cols() == reference.cols()) return;
  auto shape = [](const MatrixXd& m) { return std::to_string(m.rows()) + "×" + std::to_string(m.cols()); };
  throw Error(ErrorCode::kDimensionMismatch,
              std::string(of) + letter + " is " + shape(value) + ", its reference is " + shape(reference));
}

void CheckError(char letter, const MatrixXd& error, const MatrixXd& reference) {
  CheckShape(letter, error, reference, "the error bar of ");
}

double Largest(const MatrixXd& m, const Range& rows, const Range& cols) {
  return rows.size > 0 && cols.size > 0 ? m.block(rows.begin, cols.begin, rows.size, cols.size).cwiseAbs().maxCoeff()
                                        : 0;
}

bool IsZero(const MatrixPair& pair, const Range& rows, const Range& cols) {
  const auto reference = pair.reference.block(rows.begin, cols.begin, rows.size, cols.size).array();
  const auto error = pair.error.block(rows.begin, cols.begin, rows.size, cols.size).array();
  return (reference.abs() <= kBars * error).all();
}

// the scale of each row of a block: its largest entry, for sensors that of each sensor
VectorXd RowScales(const mjModel* model, const MatrixPair& pair, const Range& rows, const Range& cols) {
  const Range all_cols{"", 0, static_cast<int>(pair.reference.cols())};
  VectorXd scales(pair.reference.rows());
  auto set = [&](const Range& group, double matrix) {
    const double floor = std::max((IsZero(pair, group, cols) ? kZeroBlock : kSmallBlock) * matrix, kSmallestScale);
    scales.segment(group.begin, group.size).setConstant(std::max(Largest(pair.reference, group, cols), floor));
  };
  if (pair.letter == 'A' || pair.letter == 'B') {
    set(rows, Largest(pair.reference, {"", 0, static_cast<int>(pair.reference.rows())}, all_cols));
  } else {
    for (int i = 0; i < model->nsensor; ++i) {
      const Range sensor{"", model->sensor_adr[i], model->sensor_dim[i]};
      set(sensor, Largest(pair.reference, sensor, all_cols));
    }
  }
  return scales;
}

BlockComparison CompareBlock(const mjModel* model, const MatrixPair& pair, const Range& rows, const Range& cols,
                             const std::vector<bool>& nonsmooth, double tolerance) {
  BlockComparison block;
  block.name = std::string(1, pair.letter) + " " + rows.name + "/" + cols.name;
  block.rows = rows.size;
  block.cols = cols.size;
  const VectorXd scales = RowScales(model, pair, rows, cols);
  bool found = false;
  for (int j = cols.begin; j < cols.begin + cols.size; ++j) {
    if (nonsmooth[pair.first_column + j]) {
      block.nonsmooth += rows.size;
      continue;
    }
    for (int i = rows.begin; i < rows.begin + rows.size; ++i) {
      const double difference = std::abs(pair.value(i, j) - pair.reference(i, j));
      const double bar = pair.error(i, j), allowed = tolerance * scales[i];
      const bool wrong = !(difference <= allowed + (bar > allowed ? kNoisyBars : kBars) * bar);
      if (!wrong && bar > allowed && difference != 0) {
        ++block.noisy;
        continue;
      }
      ++block.judged;
      block.wrong += wrong;
      const double error = difference / scales[i];
      if (found && !(error > block.worst.error) && !std::isnan(error)) continue;
      found = true;
      block.scale = scales[i];
      block.worst = {
          i, j, pair.row_names[i], pair.col_names[j], pair.value(i, j), pair.reference(i, j), error, bar / scales[i]};
    }
  }
  block.agrees = block.wrong == 0;
  return block;
}

std::vector<std::string> Primed(std::vector<std::string> names) {
  for (std::string& name : names) name += "'";
  return names;
}

}  // namespace

DerivativeComparison Compare(const mjModel* model, const StepDerivative& value, const ReferenceDerivative& reference,
                             const CompareOptions& options) {
  for (const StepDerivative* derivative : {&value, &reference.value}) {
    if (derivative->status == StepStatus::kOk) continue;
    throw Error(ErrorCode::kInvalidArgument, std::string("the ") + (derivative == &value ? "derivative" : "reference") +
                                                 " is not valid: " + ToString(derivative->status));
  }
  const Dims dims(NotNull(model));
  const StepDerivative& expected = reference.value;
  CheckShape('A', value.A, expected.A);
  CheckShape('B', value.B, expected.B);
  CheckSize(model, "A", value.A.rows(), "ndx", dims.ndx);
  CheckSize(model, "B", value.B.cols(), "nu", dims.nu);
  CheckError('A', reference.A_error, expected.A);
  CheckError('B', reference.B_error, expected.B);
  const bool sensors = value.C.rows() > 0 && expected.C.rows() > 0;
  if (sensors) {
    CheckShape('C', value.C, expected.C);
    CheckShape('D', value.D, expected.D);
    CheckSize(model, "C", value.C.rows(), "nsensordata", dims.ns);
    CheckError('C', reference.C_error, expected.C);
    CheckError('D', reference.D_error, expected.D);
  }

  // blocks: rows of the next state or of the sensors, columns of the state or of the controls
  const std::vector<Range> dx = {{"qpos", 0, dims.nv}, {"qvel", dims.nv, dims.nv}, {"act", 2 * dims.nv, dims.na}};
  std::vector<Range> dx_next = dx;
  for (Range& range : dx_next) range.name += "'";
  const std::vector<Range> du = {{"ctrl", 0, dims.nu}}, s = {{"sensor", 0, dims.ns}};
  const auto tangent = TangentNames(model), tangent_next = Primed(tangent), control = ControlNames(model),
             sensor = SensorNames(model);
  std::vector<MatrixPair> pairs = {
      {'A', value.A, expected.A, reference.A_error, 0, dx_next, dx, tangent_next, tangent},
      {'B', value.B, expected.B, reference.B_error, dims.ndx, dx_next, du, tangent_next, control}};
  if (sensors) {
    pairs.push_back({'C', value.C, expected.C, reference.C_error, 0, s, dx, sensor, tangent});
    pairs.push_back({'D', value.D, expected.D, reference.D_error, dims.ndx, s, du, sensor, control});
  }

  DerivativeComparison result;
  for (const MatrixPair& pair : pairs) {
    for (const Range& rows : pair.rows) {
      for (const Range& cols : pair.cols) {
        if (rows.size == 0 || cols.size == 0) continue;
        result.blocks.push_back(CompareBlock(model, pair, rows, cols, reference.nonsmooth_column, options.tolerance));
        result.agrees = result.agrees && result.blocks.back().agrees;
      }
    }
  }
  for (int col = 0; col < dims.ndx + dims.nu; ++col) {
    if (!reference.nonsmooth_column[col]) continue;
    const std::string& name = col < dims.ndx ? tangent[col] : control[col - dims.ndx];
    result.nonsmooth_columns.push_back(name + ": " + reference.switched[col]);
  }
  return result;
}

}  // namespace costate
