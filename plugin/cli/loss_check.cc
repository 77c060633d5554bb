#include "cli/loss_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace costate::cli {
namespace {

constexpr double kSteps[] = {1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7};  // times max(1, |value|)
constexpr double kAgree = 1e-6, kBars = 3, kRough = 1e-3;

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

// the centred difference on which two neighbouring step sizes agree best; a loss at a step past a failure is a NaN
void Difference(const std::function<double(double)>& loss, double scale, double largest, LossCheckEntry* entry) {
  double last = std::numeric_limits<double>::quiet_NaN();
  entry->error_bar = std::numeric_limits<double>::infinity();
  for (const double relative : kSteps) {
    const double h = relative * scale, now = (loss(h) - loss(-h)) / (2 * h);
    const double bar = std::abs(now - last);
    if (bar < entry->error_bar) {
      entry->error_bar = bar;
      entry->difference = now;
    }
    last = now;
  }
  const double off = std::abs(entry->adjoint - entry->difference);
  entry->relative = off / largest;
  if (!(entry->error_bar <= kRough * largest)) {
    entry->verdict = LossCheckEntry::Verdict::kRough;
  } else if (off > kAgree * largest && off > kBars * entry->error_bar) {
    entry->verdict = LossCheckEntry::Verdict::kWrong;
  }
}

}  // namespace

std::vector<LossCheckEntry> CheckLossGradient(const Task& task, const RolloutGradient& g, int count) {
  const mjModel* model = task.model.get();
  Simulator simulator(model, task.context, task.substeps, 1);
  Trajectory motion;
  const auto loss = [&](const VectorXd& x0, const MatrixXd& U) {
    if (!simulator.Rollout(x0, U, &motion).ok()) return std::numeric_limits<double>::quiet_NaN();
    return TotalCost(*task.cost, motion, simulator.knot_time());
  };
  std::vector<LossCheckEntry> entries;

  // controls, but those at the edge of their range: there a centred difference is half of each side
  const std::vector<std::string> controls = ControlNames(model), tangents = TangentNames(model);
  const VectorXd flat = Eigen::Map<const VectorXd>(g.U.data(), g.U.size());
  MatrixXd U = task.U_guess;
  for (const Eigen::Index k : Choose(flat, count)) {
    const Eigen::Index i = k % U.rows(), t = k / U.rows();
    const double value = U(i, t), scale = std::max(1.0, std::abs(value));
    if (value - kSteps[0] * scale < task.u_lower[i] || value + kSteps[0] * scale > task.u_upper[i]) continue;
    LossCheckEntry entry;
    entry.name = fmt::format("{} at knot {}", controls[static_cast<std::size_t>(i)], t);
    entry.adjoint = g.U(i, t);
    const auto along = [&](double h) {
      U(i, t) = value + h;
      const double l = loss(task.x0, U);
      U(i, t) = value;
      return l;
    };
    Difference(along, scale, g.U.cwiseAbs().maxCoeff(), &entry);
    entries.push_back(entry);
  }
  for (const Eigen::Index k : Choose(g.x0, count)) {
    LossCheckEntry entry;
    entry.name = tangents[static_cast<std::size_t>(k)] + " of the start";
    entry.adjoint = g.x0[k];
    const auto along = [&](double h) { return loss(Retract(model, task.x0, h * VectorXd::Unit(g.x0.size(), k)), U); };
    Difference(along, 1, g.x0.cwiseAbs().maxCoeff(), &entry);
    entries.push_back(entry);
  }
  return entries;
}

}  // namespace costate::cli
