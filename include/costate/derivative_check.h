// Two derivatives compared: Costate's against a reference with an error bar an entry.
#ifndef COSTATE_DERIVATIVE_CHECK_H_
#define COSTATE_DERIVATIVE_CHECK_H_

#include <functional>
#include <string>
#include <vector>

#include <costate/derivative.h>

namespace costate {

/// A derivative by centred differences at several step sizes on a tightly converged step, extrapolated.
struct ReferenceDerivative {
  StepDerivative value;
  MatrixXd A_error, B_error, C_error, D_error;  ///< error bar an entry: how far the extrapolations disagree, and noise
  /// Columns of [dx du] in whose stencil something switched at every usable step size; no value there.
  std::vector<bool> nonsmooth_column;
  /// What switched under some nudge of each column: "contacts", "constraint states", "force limits" …; else empty.
  std::vector<std::string> switched;
  bool complete = true;  ///< false: `progress` asked to stop; the error bars of the columns not reached are infinite
};

struct ReferenceOptions {
  int substeps = 1;  ///< as in LinearizeOptions: through the points of the engine's own steps
  bool sensors = true;
  double eps_max = 3.2e-5;  ///< largest nudge, but for controls and activations that move the state by less than it
  int sizes = 6;  ///< nudges eps_max / 2^k, k = 0 … sizes-1; smaller ones are added where large ones cross a switch
  /// Called after each column, of which the order is such that the first few are of all kinds; false stops.
  std::function<bool(int done, int total)> progress = nullptr;
};

/// Differences the whole interval, each step converged to rounding from a warm start at the solution.
/// One-sided at the edge of a clamp of controls or activations, as Linearize. A column's step sizes at or above one
/// whose stencil shows another active set (contacts, constraint states, force limits, tendon paths, yield) are dropped.
/// Cost: 2 · sizes · (ndx + nu) intervals, and 6 for each control or activation that moves little. Throws as Linearize.
ReferenceDerivative Reference(const mjModel* model, const mjData* data, const ReferenceOptions& options = {});

/// One entry of a matrix, named.
struct EntryComparison {
  int row = 0, col = 0;             ///< in the whole matrix
  std::string row_name, col_name;   ///< "qvel[knee]'", "ctrl[hip]"
  double value = 0, reference = 0;  ///< both values
  double error = 0;                 ///< |value − reference| / scale
  double error_bar = 0;             ///< of the reference, on the same scale
};

/// One block, e.g. ∂qvel'/∂qpos of A.
///
/// An entry disagrees when |value − reference| > tolerance · scale + 3 error bars (10 where the bar exceeds
/// tolerance · scale). An entry that does not is judged when its error bar is within tolerance · scale, and otherwise
/// too noisy to say anything.
struct BlockComparison {
  std::string name;  ///< "A qvel'/qpos", "B qvel'/ctrl", "C sensor/qvel", "D sensor/ctrl"
  int rows = 0, cols = 0;
  double scale = 0;       ///< largest entry of the reference; each sensor has its own, this is the worst entry's
  EntryComparison worst;  ///< the largest error among entries that disagree or are judged
  int judged = 0;         ///< entries that were compared
  int wrong = 0;          ///< entries that disagree
  int nonsmooth = 0;      ///< entries not judged: their column crosses a switch
  int noisy = 0;          ///< entries not judged: error bar above the tolerance
  bool agrees = true;     ///< wrong == 0
};

struct DerivativeComparison {
  std::vector<BlockComparison> blocks;  ///< without empty ones
  std::vector<std::string>
      nonsmooth_columns;  ///< "qpos[knee]: contacts": the inputs not judged, and what switches there
  bool agrees = true;
};

struct CompareOptions {
  double tolerance = 1e-4;  ///< relative to the block's largest entry; three error bars are granted on top
};

/// @throws Error{kDimensionMismatch} when the two are of different sizes; Error{kInvalidArgument} when the status of
///         one is not kOk. Sensors are compared when both have them.
DerivativeComparison Compare(const mjModel* model, const StepDerivative& value, const ReferenceDerivative& reference,
                             const CompareOptions& options = {});

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_CHECK_H_
