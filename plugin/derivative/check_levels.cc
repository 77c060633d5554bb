#include "derivative/check_levels.h"

#include <cmath>

#include "core/engine_guard.h"
#include "core/extremes.h"
#include "core/lap.h"
#include "derivative/analytic.h"

namespace costate {
namespace {

constexpr double kZeroNoise = 1e-10;  // of a matrix's largest entry: what differences leave in a block of zeros

// the largest error of all blocks, and how many entries were judged and are wrong
template <typename Result>
void Collect(const DerivativeComparison& comparison, Result* result, int* judged, int* wrong) {
  bool found = false;
  for (const BlockComparison& block : comparison.blocks) {
    *judged += block.judged;
    *wrong += block.wrong;
    if (block.judged == 0 || (found && !(block.worst.error > result->worst.error))) continue;
    found = true;
    result->worst = block.worst;
    result->block = block.name;
  }
}

// differences as a reference: exact but in blocks that are zero to what roundings of the whole matrix leave
ReferenceDerivative AsReference(const mjModel* model, const StepDerivative& value, const ReferenceDerivative& smooth) {
  ReferenceDerivative exact;
  exact.value = value;
  const Dims dims(model);
  const std::vector<int> tangent = {0, dims.nv, 2 * dims.nv, dims.ndx}, control = {0, dims.nu};
  std::vector<int> sensors(model->sensor_adr, model->sensor_adr + model->nsensor);
  sensors.push_back(dims.ns);
  const auto bars = [](const MatrixXd& from, const std::vector<int>& rows, const std::vector<int>& cols) {
    MatrixXd error = MatrixXd::Zero(from.rows(), from.cols());
    const double noise = from.size() > 0 ? kZeroNoise * from.cwiseAbs().maxCoeff() : 0;
    for (std::size_t r = 0; r + 1 < rows.size() && from.size() > 0; r++) {
      for (std::size_t c = 0; c + 1 < cols.size(); c++) {
        const int height = rows[r + 1] - rows[r], width = cols[c + 1] - cols[c];
        if (height == 0 || width == 0) continue;
        if (from.block(rows[r], cols[c], height, width).cwiseAbs().maxCoeff() <= noise)
          error.block(rows[r], cols[c], height, width).setConstant(noise);
      }
    }
    return error;
  };
  exact.A_error = bars(value.A, tangent, tangent);
  exact.B_error = bars(value.B, tangent, control);
  exact.C_error = bars(value.C, sensors, tangent);
  exact.D_error = bars(value.D, sensors, control);
  exact.nonsmooth_column = smooth.nonsmooth_column;
  exact.switched = smooth.switched;
  return exact;
}

// the largest error over entries whose own error bar is small
double LargestError(const mjModel* model, const StepDerivative& value, const ReferenceDerivative& reference) {
  double worst = 0;
  for (const BlockComparison& block : Compare(model, value, reference, {.tolerance = 1e-12}).blocks) {
    if (block.judged > 0) worst = std::max(worst, block.worst.error);
  }
  return worst;
}

bool LinearizeAt(const mjModel* model, const mjData* data, const LinearizeOptions& options, StepDerivative* out,
                 std::string* reason) {
  try {
    *out = Linearize(model, data, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    *reason = error.what();
    return false;
  }
  if (out->status == StepStatus::kOk) return true;
  *reason = ToString(out->status);
  return false;
}

}  // namespace

std::vector<LevelResult> CompareLevels(const mjModel* model, const mjData* data, const LinearizeOptions& options,
                                       const ReferenceDerivative& reference, double tolerance,
                                       const std::function<void(const std::string&)>& stage) {
  std::vector<LevelResult> results;
  for (Level level : {Level::kAnalytic, Level::kResidual, Level::kStep}) {
    LevelResult result;
    result.name = ToString(level);
    if (stage) stage(result.name);
    LinearizeOptions at = options;
    at.level = level;
    StepDerivative value;
    const Clock::time_point start = Clock::now();
    if (LinearizeAt(model, data, at, &value, &result.refused)) {
      result.seconds = SecondsSince(start);
      Collect(Compare(model, value, reference, {tolerance}), &result, &result.judged, &result.wrong);
    }
    results.push_back(result);
  }
  return results;
}

std::vector<TermResult> CompareTerms(const mjModel* model, const mjData* data, bool sensors,
                                     const ReferenceDerivative& smooth, std::string* reason, double tolerance) {
  EngineGuard guard;
  mjModel local = *model;
  local.opt.disableflags |= mjDSBL_AUTORESET;
  local.opt.enableflags &= ~mjENBL_SLEEP;
  const DataPtr work = MakeData(model);
  const auto linearize = [&](Backend* backend, StepDerivative* out) {
    mj_copyState(model, data, work.get(), mjSTATE_INTEGRATION);
    reason->clear();
    if (!backend || !backend->Linearize(&local, work.get(), sensors, out, reason)) return false;
    if (out->status != StepStatus::kOk) *reason = ToString(out->status);
    return out->status == StepStatus::kOk;
  };
  const auto analytic = [&](const TermSwitch& differenced, StepDerivative* out) {
    AnalyticBackend backend(&local, false, differenced);
    return linearize(&backend, out);
  };

  std::vector<TermResult> results;
  const auto compare = [&](const char* term, const StepDerivative& closed, const StepDerivative& differenced) {
    TermResult result;
    result.term = term;
    Collect(Compare(model, closed, AsReference(model, differenced, smooth), {tolerance}), &result, &result.judged,
            &result.wrong);
    result.agrees = result.wrong == 0;
    results.push_back(result);
  };
  *reason = ResidualRefusal(&local);
  StepDerivative closed, other, all;
  const std::unique_ptr<Backend> residual = MakeResidualBackend(&local, {}, reason);
  StepDerivative level_2;
  if (!reason->empty() || !analytic({}, &closed) || !linearize(residual.get(), &level_2)) return {};
  compare("all", closed, level_2);
  const std::pair<const char*, TermSwitch> terms[] = {{"rne", {.rne = true}},
                                                      {"passive", {.passive = true}},
                                                      {"actuation", {.actuation = true}},
                                                      {"constraint", {.constraint = true}},
                                                      {"integrator", {.integrator = true}},
                                                      {"sensors", {.sensors = true}}};
  for (const auto& [term, differenced] : terms) {
    if (differenced.sensors && (!sensors || model->nsensor == 0)) continue;
    if (!analytic(differenced, &other)) return {};
    compare(term, closed, other);
  }
  if (!analytic(TermSwitch::All(), &all)) return {};
  compare("solve", all, level_2);
  return results;
}

std::vector<SweepRow> SweepSteps(const mjModel* model, const mjData* data, const LinearizeOptions& options,
                                 const ReferenceDerivative& reference) {
  const auto error = [&](const LinearizeOptions& at) {
    StepDerivative value;
    std::string reason;
    return LinearizeAt(model, data, at, &value, &reason) ? LargestError(model, value, reference) : kNan;
  };
  LinearizeOptions at = options;
  at.level = Level::kAnalytic;
  const double analytic = error(at);
  at.level = Level::kResidual;
  const double residual = error(at);
  std::vector<SweepRow> rows;
  at.level = Level::kStep;
  at.converge = false;
  for (int k = 4; k <= 22; k++) {
    SweepRow row{std::pow(10, -0.5 * k), 0, 0, analytic, residual};
    at.eps = row.eps;
    for (bool centered : {false, true}) {
      at.centered = centered;
      (centered ? row.centered : row.forward) = error(at);
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace costate
