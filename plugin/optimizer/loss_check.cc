#include "optimizer/loss_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "core/extremes.h"

namespace costate {
namespace {

constexpr double kCheckSteps[] = {1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7};  // times max(1, |value|)
constexpr double kAgree = 1e-6, kBars = 3, kRough = 1e-3;
constexpr double kBeyondSteps = 1e12;  // a change that grows so much on its way: the smallest step is none at the end

// the largest half of the entries, the others spread evenly
std::vector<Eigen::Index> Choose(const VectorXd& values, int count) {
  std::vector<Eigen::Index> order(static_cast<std::size_t>(values.size()));
  std::iota(order.begin(), order.end(), 0);
  if (values.size() <= count) return order;
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return std::abs(values[a]) > std::abs(values[b]); });
  const std::size_t half = static_cast<std::size_t>(count + 1) / 2, rest = static_cast<std::size_t>(count) - half;
  std::vector<Eigen::Index> chosen(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(half));
  for (std::size_t k = 0; k < rest; k++) chosen.push_back(order[half + k * (order.size() - half) / rest]);
  return chosen;
}

// second order: centred, or towards the inside where a bound is near
double SlopeOver(const std::function<double(double)>& loss, double h, const SlopeRoom& room) {
  if (room.below >= h && room.above >= h) return (loss(h) - loss(-h)) / (2 * h);
  const double side = room.above >= room.below ? h : -h;
  if (2 * h > std::max(room.below, room.above)) return kNan;
  return (4 * loss(side) - loss(2 * side) - 3 * loss(0)) / (2 * side);
}

// Does the loss have a corner here that the adjoint's slope belongs to? At a corner slopes to both sides differ at
// every step size, the adjoint has one of them or one in between, and centred differences their mean: neither is wrong.
bool AtCorner(const std::function<double(double)>& loss, double h, double adjoint, double off) {
  for (const double step : {h, h / 10}) {
    const auto slope = [&](double side) { return (4 * loss(side) - loss(2 * side) - 3 * loss(0)) / (2 * side); };
    const double right = slope(step), left = slope(-step);
    const double jump = std::abs(right - left);
    if (!(jump > off)) return false;
    if (adjoint < std::min(left, right) - 0.1 * jump || adjoint > std::max(left, right) + 0.1 * jump) return false;
  }
  return true;
}

// by how much the costate grows on its way back
double Rise(const VectorXd& costate) {
  double last = 0, largest = 0;
  for (Eigen::Index t = costate.size() - 1; t >= 0; t--) {
    if (last == 0) last = costate[t];
    largest = std::max(largest, costate[t]);
  }
  return last > 0 ? largest / last : 0;
}

double LossOf(const Task& task, Simulator* simulator, const VectorXd& x0, const MatrixXd& U, Trajectory* motion) {
  if (!simulator->Rollout(x0, U, motion).ok()) return kNan;
  return TotalCost(*task.cost, *motion, simulator->knot_time());
}

// the others stay as they are; a model that cannot exist has no loss
void CheckParameters(const Task& task, const ParameterSet& parameters, const RolloutGradient& g,
                     std::vector<LossCheckEntry>* entries) {
  ParameterSet moved(parameters);
  const VectorXd values = parameters.Get();
  VectorXd scale = values.cwiseAbs();
  for (double& s : scale) s = s > 0 ? s : 1;
  const double largest = g.theta.cwiseProduct(scale).cwiseAbs().maxCoeff();
  Trajectory motion;
  for (int k = 0; k < parameters.size(); k++) {
    LossCheckEntry entry;
    entry.name = parameters[k].name;
    entry.adjoint = g.theta[k];
    const auto along = [&](double h) {
      try {
        moved.Set(values + h * VectorXd::Unit(values.size(), k));
      } catch (const Error&) {
        return kNan;
      }
      Simulator simulator(moved.model(), task.context, task.substeps, 1);
      return LossOf(task, &simulator, task.x0, task.U_guess, &motion);
    };
    const SlopeRoom room{values[k] - parameters[k].lower, parameters[k].upper - values[k]};
    BestDifference(along, scale[k], largest / scale[k], room, &entry);
    moved.Set(values);
    entries->push_back(entry);
  }
}

}  // namespace

bool IsWithinError(double off, double error_bar, double largest) {
  return !(off > kAgree * largest && off > kBars * error_bar);
}

// two neighbours alone may agree by chance, where rounding or jumps rule; a loss at a step past a failure is a NaN
void BestDifference(const std::function<double(double)>& loss, double scale, double largest, const SlopeRoom& room,
                    LossCheckEntry* entry) {
  constexpr int kCount = std::size(kCheckSteps);
  double slope[kCount], best = 0;
  for (int k = 0; k < kCount; k++) slope[k] = SlopeOver(loss, kCheckSteps[k] * scale, room);
  entry->error_bar = kInf;
  for (int k = 1; k < kCount - 1; k++) {
    const double larger = std::abs(slope[k] - slope[k - 1]), smaller = std::abs(slope[k] - slope[k + 1]);
    if (!(larger < entry->error_bar && smaller < entry->error_bar)) continue;
    entry->error_bar = std::max(larger, smaller);
    entry->difference = slope[k];
    best = kCheckSteps[k] * scale;
  }
  const double off = std::abs(entry->adjoint - entry->difference);
  entry->relative = largest > 0 ? off / largest : off;
  if (!(entry->error_bar <= kRough * largest)) {
    entry->verdict = LossCheckEntry::Verdict::kRough;
  } else if (!IsWithinError(off, entry->error_bar, largest)) {
    const bool inside = room.below >= 2 * best && room.above >= 2 * best;
    entry->verdict = inside && AtCorner(loss, best, entry->adjoint, off) ? LossCheckEntry::Verdict::kRough
                                                                         : LossCheckEntry::Verdict::kWrong;
  }
}

std::vector<LossCheckEntry> CheckLossGradient(const Task& task, const ParameterSet* parameters,
                                              const RolloutGradient& g, int count) {
  const mjModel* model = parameters ? parameters->model() : task.model.get();
  Simulator simulator(model, task.context, task.substeps, 1);
  Trajectory motion;
  std::vector<LossCheckEntry> entries;
  const std::vector<std::string> controls = ControlNames(model), tangents = TangentNames(model);

  // controls
  const MatrixXd chosen = g.U(task.inputs.controls, Eigen::all);
  MatrixXd U = task.U_guess;
  for (const Eigen::Index k : Choose(Eigen::Map<const VectorXd>(chosen.data(), chosen.size()), count)) {
    const Eigen::Index i = task.inputs.controls[static_cast<std::size_t>(k % chosen.rows())], t = k / chosen.rows();
    const double value = U(i, t), scale = std::max(1.0, std::abs(value));
    LossCheckEntry entry;
    entry.name = fmt::format("{} at knot {}", controls[static_cast<std::size_t>(i)], t);
    entry.adjoint = g.U(i, t);
    const auto along = [&](double h) {
      U(i, t) = value + h;
      const double l = LossOf(task, &simulator, task.x0, U, &motion);
      U(i, t) = value;
      return l;
    };
    BestDifference(along, scale, chosen.cwiseAbs().maxCoeff(), {value - task.u_lower[i], task.u_upper[i] - value},
                   &entry);
    entries.push_back(entry);
  }

  // start
  const VectorXd start = g.x0(task.inputs.start);
  for (const Eigen::Index n : Choose(start, count)) {
    const int k = task.inputs.start[static_cast<std::size_t>(n)];
    LossCheckEntry entry;
    entry.name = tangents[static_cast<std::size_t>(k)] + " of the start";
    entry.adjoint = g.x0[k];
    const auto along = [&](double h) {
      return LossOf(task, &simulator, Retract(model, task.x0, h * VectorXd::Unit(g.x0.size(), k)), U, &motion);
    };
    BestDifference(along, 1, start.cwiseAbs().maxCoeff(), {}, &entry);
    entries.push_back(entry);
  }
  if (parameters) CheckParameters(task, *parameters, g, &entries);
  if (Rise(g.health.costate) > kBeyondSteps) {
    for (LossCheckEntry& entry : entries) {
      if (entry.verdict == LossCheckEntry::Verdict::kWrong) entry.verdict = LossCheckEntry::Verdict::kRough;
    }
  }
  return entries;
}

const char* ToString(LossCheckEntry::Verdict verdict) {
  switch (verdict) {
    case LossCheckEntry::Verdict::kAgrees: return "agrees";
    case LossCheckEntry::Verdict::kWrong: return "disagrees";
    case LossCheckEntry::Verdict::kRough: return "rough";
  }
  return "";
}

}  // namespace costate
