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

/// May limits or dry friction make rows of its moment, and does that turn?
bool HasTurningRow(const mjModel* model, int tendon);

/// Does a spatial tendon lead from bodies in [begin, end) to others?
bool LeavesBodies(const mjModel* model, int tendon, int begin, int end);

/// What unit tension of such a tendon does to them from outside: the wrench (torque; force) about `origin` at rest in
/// the world, and its change by each position (M14).
struct CrossingWrench {
  Vec6 wrench = Vec6::Zero();
  Eigen::Matrix<double, 6, Eigen::Dynamic> by_position;
  std::vector<int> moved, dofs;  ///< kept between calls: which bodies of an element a dof moves
};
/// @return false where the path has no derivative.
bool FindCrossingWrench(const mjModel* model, const mjData* data, int tendon, int begin, int end, const Vec3& origin,
                        CrossingWrench* out);

/// A geom that a tendon may wrap, and how far the straight line between the sites beside it is from where it begins or
/// ceases to, or, `turns`, from the middle, beyond which the path goes around by the other side [m]. (T14)
struct WrapRoom {
  int tendon = 0, geom = 0;
  bool wraps = false, turns = false;
  double room = 0;
};

/// Moments of all tendons that exert forces.
class TendonMoments {
 public:
  /// Of all tendons that pull or are pulled at: one that only is measured needs no moment.
  explicit TendonMoments(const mjModel* model);
  /// Of the tendons with a nonzero entry instead.
  TendonMoments(const mjModel* model, const std::vector<char>& used);

  /// @pre `data` holds positions, velocities and tendon paths.
  /// @return "" or the spatial tendon that is not differentiable here, and why.
  std::string Compute(const mjModel* model, const mjData* data);

  /// Empty for tendons without.
  const Moment& operator[](int tendon) const { return moment_[tendon]; }
  /// The tendons that had one in the last call, in ascending order: often few of those that are drawn.
  const std::vector<int>& used() const { return used_; }

  /// Of all geoms on the paths, but those in which a site lies.
  std::vector<WrapRoom> Rooms(const mjModel* model, const mjData* data) const;

 private:
  std::string Path(const mjModel* model, const mjData* data, int tendon);

  MomentBuilder builder_;
  bool by_values_ = false;
  std::vector<char> named_;  // at construction
  std::vector<int> used_;
  std::vector<Moment> moment_;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_SPATIAL_TENDON_H_
