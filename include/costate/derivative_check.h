// Two derivatives compared: Costate's against a reference with an error bar an entry.
#ifndef COSTATE_DERIVATIVE_CHECK_H_
#define COSTATE_DERIVATIVE_CHECK_H_

#include <array>
#include <string>
#include <vector>

#include <costate/derivative.h>

namespace costate {

/// A derivative by centred differences at several step sizes on a tightly converged step, extrapolated.
struct ReferenceDerivative {
  StepDerivative value;
  MatrixXd A_error, B_error, C_error, D_error;  ///< error bar an entry: how far the extrapolations disagree
  /// Columns (of [dx du]) in whose stencil the active set, contact count or a clamp changed at every usable step size.
  std::vector<bool> nonsmooth_column;
};

struct ReferenceOptions {
  int substeps = 1;
  bool sensors = true;
  double eps_max = 3.2e-5;  ///< largest step
  int sizes = 6;            ///< step sizes eps_max / 2^k, k = 0 … sizes-1
};

/// Cost: 2 · sizes · (ndx + nu) steps, each converged to solver tolerance 0. Throws as Linearize.
ReferenceDerivative Reference(const mjModel* model, const mjData* data, const ReferenceOptions& options = {});

/// One entry of a matrix, named.
struct EntryComparison {
  int row = 0, col = 0;
  std::string row_name, col_name;      ///< "qvel[knee]", "ctrl[hip]"
  double value = 0, reference = 0;     ///< both values
  double error = 0;                    ///< |value − reference| / largest entry of the block
  double error_bar = 0;                ///< of the reference, on the same scale
};

/// One block, e.g. ∂qvel'/∂qpos of A.
struct BlockComparison {
  std::string name;        ///< "A qvel'/qpos", "B qvel'/ctrl", "C sensor/qvel"
  int rows = 0, cols = 0;
  double scale = 0;        ///< largest entry of the reference, absolute
  EntryComparison worst;   ///< the worst among entries that can be judged
  int judged = 0;          ///< entries that were compared
  int nonsmooth = 0;       ///< entries not judged: their column crosses a switch
  int noisy = 0;           ///< entries not judged: error bar above the tolerance
  bool agrees = true;
};

struct DerivativeComparison {
  std::vector<BlockComparison> blocks;
  std::vector<std::string> nonsmooth_columns;  ///< names of the inputs whose stencil crosses a switch
  bool agrees = true;
};

struct CompareOptions {
  double tolerance = 1e-4;  ///< relative to the block's largest entry; three error bars are granted on top
};

DerivativeComparison Compare(const mjModel* model, const StepDerivative& value, const ReferenceDerivative& reference,
                             const CompareOptions& options = {});

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_CHECK_H_
