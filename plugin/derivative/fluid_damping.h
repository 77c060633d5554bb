// What a fluid adds to the matrix of the implicit integrators and of the discrete one, and how that moves. Section F of
// README.md.
#ifndef COSTATE_DERIVATIVE_FLUID_DAMPING_H_
#define COSTATE_DERIVATIVE_FLUID_DAMPING_H_

#include <mujoco/mujoco.h>

#include <vector>

#include "derivative/columns.h"
#include "derivative/spatial.h"

namespace costate {

/// −h Σ Jᵀ B(l) J over the parts (bodies with an inertia box, geoms with an ellipsoid) that feel the fluid; J: motion
/// of a part in its frame, l: its velocity there.  (F4), (F5)
class FluidDamping {
 public:
  explicit FluidDamping(const mjModel* model);

  /// Takes B as the model's integrator does, (F4). @return does any part feel the fluid?
  bool Compute(const mjModel* model, const mjData* data);

  /// Entry (i, j) of it; zero where neither dof is on the path from the other to the root. @pre Compute
  double Entry(const mjModel* model, const mjData* data, int i, int j) const;

  /// E −= d(−h Σ Jᵀ B J ā) at fixed ā, q and v columns.
  void AddColumns(const mjModel* model, const mjData* data, const Eigen::VectorXd& applied, Columns* E);

  /// E −= d(its diagonal): entry (k, k) by q and v in row k.
  void AddDiagonalColumns(const mjModel* model, const mjData* data, Columns* E);

 private:
  struct Part {
    int body;
    Mat6 frame;  // motion about the tree's origin → in the part's frame
    Vec3 wind;   // of the world
    Mat6 slope;  // B
    Mat6 by[6];  // ∂B/∂l_k
  };
  void AddPart(const mjModel* model, const mjData* data, int body, int geom, bool symmetric, bool drag_alone);
  void AddPartColumns(const mjModel* model, const mjData* data, const Part& part, const Eigen::VectorXd& applied,
                      int alone, Columns* E);

  std::vector<Part> part_;
  std::vector<Mat6> composite_;  // h Σ frameᵀ B frame of a body's subtree
  std::vector<int> dof_;         // of one part, from the root
  std::vector<Vec6> motion_, before_, applied_before_;
};

/// A speed at whose end B has a corner, (K8): of a box each of its own directions, of an ellipsoid |v| and |ω|.
struct FluidReversal {
  int body, geom;  // geom −1: the body's inertia box
  double speed;
  bool turns;  // rad/s, otherwise m/s
};

/// Those that some dof can change; only with density.
std::vector<FluidReversal> FluidReversals(const mjModel* model, const mjData* data);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_FLUID_DAMPING_H_
