// Weights of samples' noise, two estimates of one vector from the same samples, and their combination of least mean
// squared error.
#ifndef COSTATE_ROLLOUT_BUNDLE_STATISTICS_H_
#define COSTATE_ROLLOUT_BUNDLE_STATISTICS_H_

#include <costate/bundle.h>

namespace costate {

/// −∇ log of the density of x ⊕ w by x (ndx), a rotation's with the volume of its group; 0 where there is no noise.
VectorXd StateScore(const mjModel* model, const BundleOptions& options, const VectorXd& w);

/// The same of controls (nu × N).
MatrixXd ControlScore(const BundleOptions& options, const MatrixXd& w);

struct BundleStatistics {
  VectorXd first, zeroth, combined;  ///< means; combined has the first order's entries where `noisy` is 0
  double first_deviation = 0, zeroth_deviation = 0, combined_deviation = 0;  ///< standard errors of the whole vectors
  double first_noisy = 0, combined_noisy = 0;  ///< of the entries where `noisy` is 1; of order zero it is the whole
  double weight = 1, bias = 0;
};

/// Columns are samples. @param noisy  1 where there is an estimate of order zero, else 0.  README.md, eqs. (10) to
/// (12).
BundleStatistics Combine(ConstMatrixRef first, ConstMatrixRef zeroth, ConstVectorRef noisy);

}  // namespace costate

#endif  // COSTATE_ROLLOUT_BUNDLE_STATISTICS_H_
