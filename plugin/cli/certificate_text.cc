#include "cli/certificate_text.h"

#include <fmt/core.h>

#include <algorithm>

namespace costate::cli {
namespace {

constexpr int kShown = 8;            // names of a list
constexpr double kSolverGap = 1e-4;  // of accelerations: what `costate check` tolerates of a derivative

}  // namespace

std::vector<std::string> CertificateLines(const Certificate& certificate) {
  if (!certificate.valid) return {"the step fails here"};
  std::vector<std::string> lines;
  std::string active, nearest, unit, last;
  int count = 0;
  for (const Switch& s : certificate.switches) {
    // a contact has two switches but is in the active set once
    if (s.active && s.next != "onset" && s.next != "limit" && ++count <= kShown) {
      active += fmt::format("{}{} ({})", active.empty() ? "" : ", ", s.name, s.state);
    }
    if (s.unit != unit && s.distance < mjMAXVAL) {
      nearest += fmt::format("{}{:.3g} {} ({}, {})", nearest.empty() ? "" : "; ", s.distance, s.unit, s.name, s.next);
      unit = s.unit;
    }
  }
  if (count > kShown) active += fmt::format(", … {} more", count - kShown);
  lines.push_back(fmt::format("{}; {} active{}{}", ToString(certificate.label), count, count > 0 ? ": " : "", active));
  if (!nearest.empty()) lines.push_back("nearest switches: " + nearest);
  std::string edges;
  const int sides = static_cast<int>(certificate.one_sided.size());
  for (int i = 0; i < std::min(sides, kShown); ++i) edges += (i > 0 ? ", " : "") + certificate.one_sided[i];
  if (sides > kShown) edges += fmt::format(", … {} more", sides - kShown);
  if (sides > 0) lines.push_back("on the edge of the range, slope inside: " + edges);
  const SolverGap& gap = certificate.solver_gap;
  constexpr char kRemedy[] = "the derivative is that of the converged step (remedy: iterations, tolerance in <option>)";
  if (gap.size > kSolverGap) {
    lines.push_back(
        fmt::format("the model's solver ends before it has converged: acceleration of {} {:.4g}, converged "
                    "{:.4g}; {}",
                    gap.name, gap.engine, gap.converged, kRemedy));
  } else if (gap.slope > kSolverGap) {
    lines.push_back(
        fmt::format("the model's solver ends before it has converged: accelerations are off by {:.2g}, their "
                    "slopes by {:.2g}; {}",
                    gap.size, gap.slope, kRemedy));
  }
  return lines;
}

}  // namespace costate::cli
