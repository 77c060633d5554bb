// The same motion again, and what went wrong with a motion.
#include <costate/record.h>
#include <costate/state.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/actuator_range.h"
#include "core/engine_guard.h"
#include "rollout/penetration.h"
#include "rollout/record_format.h"

namespace costate {
namespace {

bool SameBits(double a, double b) { return std::memcmp(&a, &b, sizeof(double)) == 0; }

// the first entry of one knot whose bits differ; -1: none
int FirstDifference(ConstVectorRef a, ConstVectorRef b) {
  for (int i = 0; i < a.size(); ++i) {
    if (!SameBits(a[i], b[i])) return i;
  }
  return -1;
}

// a share of knots from which on a control at its limit is worth a word
constexpr double kSaturatedShare = 0.25;

// one by one, or all in one line where they are many: muscles at rest
void LabelControls(const mjModel* model, const Trajectory& trajectory, std::vector<std::string>* labels) {
  constexpr std::size_t kMany = 6;
  const std::vector<std::string> names = ControlNames(model);
  std::vector<std::string> found;
  for (int i = 0; i < model->nu; ++i) {
    const mjtNum* range = ControlRange(model, i);
    if (range == nullptr) continue;
    const auto u = trajectory.U.row(i);
    const auto count = std::count_if(u.begin(), u.end(), [&](double value) { return IsAtLimit(value, range); });
    if (count == 0 || static_cast<double>(count) < kSaturatedShare * trajectory.N()) continue;
    found.push_back(fmt::format("control: {} at its limit at {} of {} knots", names[static_cast<std::size_t>(i)], count,
                                trajectory.N()));
  }
  if (found.size() > kMany) found = {fmt::format("{}, and {} other controls too", found[0], found.size() - 1)};
  labels->insert(labels->end(), found.begin(), found.end());
}

// " of floor and foot": the contact of a state that is so deep; "" where none is, as beside mocap bodies that were moved
std::string OfWhat(const mjModel* model, ConstVectorRef x, double depth) {
  constexpr double kSame = 1e-9;  // [m]
  const DataPtr data = MakeData(model);
  const EngineGuard guard(data.get(), EngineGuard::Around::kEngine);
  SetState(model, data.get(), x);
  mj_fwdPosition(model, data.get());
  for (int i = 0; i < data->ncon; i++) {
    const mjContact& contact = data->contact[i];
    if (std::abs(-contact.dist - depth) > kSame || contact.geom[0] < 0 || contact.geom[1] < 0) continue;
    return " of " + ElementName(model, mjOBJ_GEOM, contact.geom[0]) + " and " +
           ElementName(model, mjOBJ_GEOM, contact.geom[1]);
  }
  return "";
}

}  // namespace

ReplayResult Replay(const Record& record) {
  CheckRecord(record);
  const mjModel* model = record.model.get();
  const Trajectory& recorded = record.trajectory;
  ReplayResult result;
  Simulator simulator(model, record.context, record.substeps, 1);
  result.status = record.xfrc.size() > 0
                      ? simulator.RolloutPushed(recorded.X.col(0), recorded.U, record.xfrc, &result.trajectory)
                      : simulator.Rollout(recorded.X.col(0), recorded.U, &result.trajectory);

  // states first: they are what the eye sees
  const Trajectory& replayed = result.trajectory;
  const std::vector<std::string> state = StateNames(model), sensor = SensorNames(model);
  const std::vector<std::string> context = ContextHeader(model, kMovingSignature);
  for (int t = 0; t <= recorded.N() && result.first_difference < 0; ++t) {
    auto compare = [&](const MatrixXd& a, const MatrixXd& b, const std::vector<std::string>& names) {
      const int i = result.first_difference < 0 ? FirstDifference(a.col(t), b.col(t)) : -1;
      if (i < 0) return;
      result.first_difference = t;
      result.first_name = names[static_cast<std::size_t>(i)];
      result.recorded = a(i, t);
      result.replayed = b(i, t);
    };
    compare(recorded.X, replayed.X, state);
    compare(recorded.S, replayed.S, sensor);
    compare(recorded.time.transpose(), replayed.time.transpose(), {"time"});
    compare(recorded.context, replayed.context, context);
  }
  result.identical = result.first_difference < 0;
  if (!result.identical && recorded.X.size() > 0) {
    result.largest_difference = (recorded.X - replayed.X).cwiseAbs().maxCoeff();
  }
  return result;
}

std::vector<std::string> LabelFailures(const mjModel* model, const Trajectory& trajectory, const RolloutStatus& status,
                                       const std::vector<KnotDiagnostics>& diagnostics) {
  std::vector<std::string> labels;
  if (!status.ok()) {
    std::string label =
        fmt::format("{}: {} at knot {} ({:.4g} s)", status.status == StepStatus::kBadControl ? "control" : "state",
                    ToString(status.status), status.knot, trajectory.time[status.knot]);
    if (!status.warnings.empty()) label += ": " + status.warnings.front();
    labels.push_back(label);
  }
  LabelControls(model, trajectory, &labels);

  // the constraint solver and the contacts
  const auto exhausted = std::count_if(diagnostics.begin(), diagnostics.end(), [&](const KnotDiagnostics& knot) {
    return knot.solver_iterations >= model->opt.iterations && model->opt.iterations > 0;
  });
  if (exhausted > 0) {
    labels.push_back(
        fmt::format("state: the constraint solver used all its {} iterations at {} of {} knots; derivatives hold for "
                    "converged steps (remedy: more iterations in <option>)",
                    model->opt.iterations, exhausted, diagnostics.size()));
  }
  const auto deepest = std::max_element(
      diagnostics.begin(), diagnostics.end(),
      [](const KnotDiagnostics& a, const KnotDiagnostics& b) { return a.penetration < b.penetration; });
  if (deepest != diagnostics.end() && IsDeep(model, deepest->penetration)) {
    const auto knot = deepest - diagnostics.begin();
    labels.push_back(fmt::format(
        "evaluation: a contact{} penetrates by {:.3g} m at knot {}, the mean body size is {:.3g} m",
        OfWhat(model, trajectory.X.col(knot), deepest->penetration), deepest->penetration, knot, model->stat.meansize));
  }
  return labels;
}

}  // namespace costate
