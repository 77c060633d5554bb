#include <costate/derivative.h>

#include <algorithm>

namespace costate {

const char* ToString(Level level) {
  switch (level) {
    case Level::kBest: return "best available";
    case Level::kAnalytic: return "analytic";
    case Level::kResidual: return "residual difference";
    case Level::kStep: return "step difference";
  }
  return "unknown";
}

bool TermCoverage::IsOpen() const { return reason.starts_with("no derivative"); }

Level Coverage::Worst() const {
  Level worst = Level::kAnalytic;
  for (const TermCoverage& term : terms) worst = std::max(worst, term.level);
  return worst;
}

void Coverage::Add(const Coverage& other) {
  for (const TermCoverage& term : other.terms) {
    const auto same =
        std::find_if(terms.begin(), terms.end(), [&](const TermCoverage& t) { return t.term == term.term; });
    if (same == terms.end()) {
      terms.push_back(term);
      continue;
    }
    const bool stays = same->IsOpen() || (!term.IsOpen() && term.level <= same->level);
    if (!stays) same->reason = term.reason;
    same->level = std::max(same->level, term.level);
  }
}

}  // namespace costate
