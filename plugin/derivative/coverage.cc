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

}  // namespace costate
