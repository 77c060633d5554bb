// Moments of tendons: constant for fixed ones, moving for spatial ones. Section T of README.md.
#ifndef COSTATE_DERIVATIVE_SPATIAL_TENDON_H_
#define COSTATE_DERIVATIVE_SPATIAL_TENDON_H_

#include <mujoco/mujoco.h>

#include <string>
#include <vector>

#include "derivative/moment.h"

namespace costate {

/// Is the tendon's Jacobian constant?
bool IsFixedTendon(const mjModel* model, int tendon);

/// Moments of all tendons that exert forces.
class TendonMoments {
 public:
  explicit TendonMoments(const mjModel* model);
  /// Of the tendons with a nonzero entry instead.
  TendonMoments(const mjModel* model, const std::vector<char>& used);

  /// @pre `data` holds positions, velocities and tendon paths.
  /// @return "" or the spatial tendon that is not differentiable here, and why.
  std::string Compute(const mjModel* model, const mjData* data);

  const Moment& operator[](int tendon) const { return moment_[tendon]; }

 private:
  std::string Path(const mjModel* model, const mjData* data, int tendon);

  MomentBuilder builder_;
  std::vector<char> used_;
  std::vector<Moment> moment_;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_SPATIAL_TENDON_H_
