#include "cli/gradient_table.h"

#include <fmt/core.h>

#include "core/number.h"
#include "rollout/csv.h"

namespace costate::cli {
namespace {

constexpr int kMostPoints = 4000;  // of a line in a picture

}  // namespace

std::string GradientTable(const mjModel* model, double dt, const RolloutGradient& g) {
  const GradientHealth& h = g.health;
  const int N = static_cast<int>(g.U.cols());
  const bool spectral = h.spectral_radius.size() > 0, labels = !h.labels.empty();
  std::string text = "knot,time (s)";
  for (const std::string& name : ControlNames(model)) text += "," + QuotedCell("d loss / d " + name);
  text += ",costate norm,growth,switched,shortened";
  text += spectral ? ",spectral radius" : "";
  text += labels ? ",label,switch\n" : "\n";
  std::vector<bool> switched(static_cast<std::size_t>(N) + 1), shortened(switched);
  for (int t : h.switches) switched[static_cast<std::size_t>(t)] = true;
  for (int t : h.clipped) shortened[static_cast<std::size_t>(t)] = true;
  for (int t : h.dropped) shortened[static_cast<std::size_t>(t)] = true;
  for (int t = 0; t <= N; t++) {
    const std::size_t at = static_cast<std::size_t>(t);
    const bool last = t == N;
    text += fmt::format("{},{:.17g}", t, t * dt);
    for (int i = 0; i < g.U.rows(); i++) text += last ? "," : fmt::format(",{:.17g}", g.U(i, t));
    text += fmt::format(",{:.17g},{},{:d},{:d}", h.costate[t], last ? "" : ExactText(h.growth[t]),
                        static_cast<bool>(switched[at]), static_cast<bool>(shortened[at]));
    if (spectral) text += last ? "," : fmt::format(",{:.17g}", h.spectral_radius[t]);
    if (labels) text += last ? ",," : fmt::format(",{},{}", ToString(h.labels[at]), QuotedCell(h.crossing[at]));
    text += "\n";
  }
  return text;
}

std::vector<Plot> GradientPlots(const std::string& file, const RolloutGradient& g) {
  const GradientHealth& h = g.health;
  const int nu = static_cast<int>(g.U.rows()), every = 1 + static_cast<int>(g.U.cols()) / kMostPoints;
  const int norm = 2 + nu, growth = norm + 1, switched = norm + 2, shortened = norm + 3, spectral = norm + 4;
  Plot costate{.file = "costate.png",
               .table = file,
               .title = "How the gradient travels back",
               .x_label = "time (s)",
               .y_label = "|costate|",
               .columns = {norm},
               .labels = {"|costate|"},
               .logarithmic = (h.costate.array() > 0).any(),
               .every = every,
               .x = 1};
  Plot factors = costate;
  factors.file = "growth.png";
  factors.title = "Growth of the costate a step";
  factors.y_label = "factor";
  factors.columns = {growth};
  factors.labels = {"growth"};
  factors.logarithmic = (h.growth.array() > 0).any();
  if (h.spectral_radius.size() > 0) {
    factors.columns.push_back(spectral);
    factors.labels.push_back("spectral radius of A");
  }
  if (!h.switches.empty()) {
    costate.marks.push_back({norm, switched, "contacts or limits switch"});
    factors.marks.push_back({growth, switched, "contacts or limits switch"});
  }
  if (!h.clipped.empty() || !h.dropped.empty()) costate.marks.push_back({norm, shortened, "clipped or dropped"});
  return {costate, factors};
}

}  // namespace costate::cli
