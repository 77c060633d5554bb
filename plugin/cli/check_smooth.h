// `costate check --smooth`: how far the derivative of a smoothed model is from the true one.
#ifndef COSTATE_PLUGIN_CLI_CHECK_SMOOTH_H_
#define COSTATE_PLUGIN_CLI_CHECK_SMOOTH_H_

#include <costate/derivative.h>
#include <costate/smooth_contact.h>

#include <string>
#include <vector>

namespace costate::cli {

/// One block: the smoothed derivative less the true one.
struct SmoothBias {
  std::string block;
  double scale = 0;    ///< largest entry of the true block
  double largest = 0;  ///< |smoothed − true|, the worst entry's …
  double mean = 0;     ///< … and the root of the mean square
  double value = 0, truth = 0;
  std::string row, col;  ///< the worst entry's names
};

/// Blocks of A, B, C and D about the state of `data` at the level that `options` ask for. @throws
/// as Linearize.
std::vector<SmoothBias> CompareSmooth(const mjModel* model, const mjData* data,
                                      const SmoothModel& smooth, const LinearizeOptions& options);

}  // namespace costate::cli

#endif  // COSTATE_PLUGIN_CLI_CHECK_SMOOTH_H_
