// How far the derivative of a smoothed model is from the true one, and from the averaged one.
#ifndef COSTATE_ROLLOUT_CHECK_SMOOTH_H_
#define COSTATE_ROLLOUT_CHECK_SMOOTH_H_

#include <costate/derivative.h>
#include <costate/smooth_contact.h>

#include <string>
#include <vector>

namespace costate {

/// One block: the smoothed derivative less the true one, and less the average of the true step under noise on
/// positions.
struct SmoothBias {
  std::string block;
  double scale = 0;    ///< largest entry of the true block
  double largest = 0;  ///< |smoothed − true|, the worst entry's …
  double mean = 0;     ///< … and the root of the mean square
  double averaged = 0;  ///< root of the mean square of smoothed − averaged; NaN for C and D, which are not averaged …
  double deviation =
      0;  ///< … and of the standard error of all of A or B, which no smaller difference than it says anything
  double value = 0, truth = 0;
  std::string row, col;  ///< the worst entry's names
};

/// Standard deviation of positions in that average [m, rad]: half of what the smoothing reaches; 1e-3 where it has no
/// length.
double AverageNoise(const SmoothContact& smooth);

/// Blocks of A, B, C and D about the state of `data` at the level that `derivative` asks for. @throws as Linearize.
std::vector<SmoothBias> CompareSmooth(const mjModel* model, const mjData* data, const SmoothContact& options,
                                      const LinearizeOptions& derivative);

}  // namespace costate

#endif  // COSTATE_ROLLOUT_CHECK_SMOOTH_H_
