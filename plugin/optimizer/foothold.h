// Where robots with a free joint stand.
#ifndef COSTATE_OPTIMIZER_FOOTHOLD_H_
#define COSTATE_OPTIMIZER_FOOTHOLD_H_

#include <mujoco/mujoco.h>

#include <Eigen/Core>
#include <vector>

namespace costate {

/// A contact of a body below a free joint with a geom of what stands in the world.
struct Foothold {
  int body, on;
  Eigen::Vector3d local, world;  ///< its place in the body's frame and in the world's
};
/// @pre `data` is after mj_forward.
std::vector<Foothold> FindFootholds(const mjModel* model, const mjData* data);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_FOOTHOLD_H_
