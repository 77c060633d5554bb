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

Level Coverage::Worst() const {
  Level worst = Level::kAnalytic;
  for (const TermCoverage& term : terms) worst = std::max(worst, term.level);
  return worst;
}

void Coverage::Add(const Coverage& other) {
  for (const TermCoverage& term : other.terms) {
    const auto same =
        std::find_if(terms.begin(), terms.end(), [&](const TermCoverage& t) { return t.term == term.term; });
    if (same == terms.end()) terms.push_back(term);
    else if (term.level > same->level) *same = term;
  }
}

}  // namespace costate
