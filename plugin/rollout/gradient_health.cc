#include "rollout/gradient_health.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace costate {
namespace {

// products of growth factors beyond which a gradient says little: ten thousandfold either way
constexpr double kLogMany = 9.2103403719761836;

// what was looked at closer, in words
std::string Closer(const GradientHealth& h) {
  std::string text;
  if (h.spectral_radius.size() > 0) {
    Eigen::Index at = 0;
    const double most = h.spectral_radius.maxCoeff(&at);
    text += fmt::format("; largest spectral radius {:.6g} at knot {}", most, at);
  }
  const auto crossing = std::count(h.labels.begin(), h.labels.end(), Smoothness::kModeCrossing);
  if (crossing > 0) {
    const auto first = std::find(h.labels.begin(), h.labels.end(), Smoothness::kModeCrossing) - h.labels.begin();
    text += fmt::format("; {} of {} knots on a switch, first knot {}: {}", crossing, h.labels.size(), first,
                        h.crossing[static_cast<std::size_t>(first)]);
  } else if (!h.labels.empty()) {
    text += "; no knot on a switch";
  }
  return text;
}

}  // namespace

void JudgeGradient(double dt, GradientHealth* h) {
  using Verdict = GradientHealth::Verdict;
  const int N = static_cast<int>(h->growth.size());

  // the product over the steps from t to the end, and its largest rise above an earlier value
  double log_product = 0, lowest = 0, rise = 0;
  h->from = -1;
  for (int t = N - 1; t >= 0; --t) {
    log_product += std::log(std::max(h->growth[t], 1e-300));
    lowest = std::min(lowest, log_product);
    if (log_product - lowest > kLogMany && h->from < 0) h->from = t;
    rise = std::max(rise, log_product - lowest);
  }
  h->rate = log_product / (N * dt);
  h->verdict = h->from >= 0 ? Verdict::kExploding : log_product < -kLogMany ? Verdict::kVanishing : Verdict::kHealthy;
  const std::string crossed = h->switches.empty()
                                  ? std::string()
                                  : fmt::format("; crossed {} switch{} of contacts or limits", h->switches.size(),
                                                h->switches.size() == 1 ? "" : "es");
  const auto power = [](double log) { return fmt::format("{:.3g}", std::exp(std::min(log, 700.0))); };
  switch (h->verdict) {
    case Verdict::kExploding:
      h->text =
          fmt::format("exploding from knot {} back: the costate grows {}-fold on its way, {:.3g} e-foldings a second{}",
                      h->from, power(rise), h->rate, crossed);
      break;
    case Verdict::kVanishing:
      h->text = fmt::format("vanishing: of the costate {} is left at the start, {:.3g} e-foldings a second{}",
                            power(log_product), h->rate, crossed);
      break;
    case Verdict::kHealthy:
      h->text = fmt::format("healthy: the costate changes {}-fold on its way back{}", power(log_product), crossed);
  }
  h->text += Closer(*h);
  if (!h->clipped.empty())
    h->text += fmt::format("; clipped at {} knots, so this is not the gradient", h->clipped.size());
  if (!h->dropped.empty())
    h->text += fmt::format("; truncated at {} knots, so this is not the gradient", h->dropped.size());
}

}  // namespace costate
