// What a check says beyond one comparison: the levels side by side, the terms one by one, errors over step
// sizes.
#ifndef COSTATE_DERIVATIVE_CHECK_LEVELS_H_
#define COSTATE_DERIVATIVE_CHECK_LEVELS_H_

#include <costate/derivative_check.h>

#include <functional>
#include <string>
#include <vector>

namespace costate {

/// One way to the derivative against the reference.
struct LevelResult {
  std::string name;       ///< "analytic", "residual difference", "step difference"
  std::string refused;    ///< why it could not be had; "" otherwise
  EntryComparison worst;  ///< of all blocks
  std::string block;
  int judged = 0, wrong = 0;
  double seconds = 0;
};

/// Levels 1, 2 and 3 against the reference about the state of `data`. @param stage  is told each before it begins.
std::vector<LevelResult> CompareLevels(const mjModel* model, const mjData* data, const LinearizeOptions& options,
                                       const ReferenceDerivative& reference, double tolerance,
                                       const std::function<void(const std::string&)>& stage = nullptr);

/// One term in closed form against its own differences; the rest of level 1 stays as it is.
struct TermResult {
  std::string term;       ///< "rne", "passive", …
  EntryComparison worst;  ///< closed form and differences; error relative to the block's largest entry
  std::string block;
  int judged = 0, wrong = 0;
  bool agrees = true;  ///< within what differences are exact to
};

/// Of a block's largest entry: a term that is wrong is off by more, what roundings leave of a stiff contact is less.
constexpr double kTermTolerance = 1e-6;

/// Level 1 against level 2 (all), then its terms switched to differences one by one. Factorization and integrator's map
/// (solve) are what remains between all terms differenced and level 2. Columns that are not smooth by the reference are
/// left out. Empty, with the reason, where level 1 or 2 does not cover the state.
std::vector<TermResult> CompareTerms(const mjModel* model, const mjData* data, bool sensors,
                                     const ReferenceDerivative& smooth, std::string* reason,
                                     double tolerance = kTermTolerance);

/// Largest error against the reference of differences of nudge eps, and of levels 1 and 2.
struct SweepRow {
  double eps = 0, forward = 0, centered = 0, analytic = 0, residual = 0;  ///< NaN: not to be had
};

/// mjd_transitionFD's differences, forward and centred, at nudges from 1e-2 to 1e-11, with the solver as the model sets
/// it.
std::vector<SweepRow> SweepSteps(const mjModel* model, const mjData* data, const LinearizeOptions& options,
                                 const ReferenceDerivative& reference);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_CHECK_LEVELS_H_
