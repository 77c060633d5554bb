// A waist: the dof behind which a floating tree is deep. What lies behind feels the dofs before it, the trunk, by six
// numbers alone. Equation (S5) of README.md.
#ifndef COSTATE_DERIVATIVE_TREE_WAIST_H_
#define COSTATE_DERIVATIVE_TREE_WAIST_H_

#include <mujoco/mujoco.h>

#include <vector>

namespace costate {

struct TreeWaist {
  int root = -1;           ///< first of the six dofs of the tree's free joint; -1: there is no waist that pays
  int begin = 0, end = 0;  ///< the dofs behind the waist
  std::vector<int> trunk;  ///< the dofs before them, from the root on, without its six

  bool Contains(int dof) const { return root >= 0 && dof >= begin && dof < end; }

  /// The axes of the trunk as sums of those of the free joint, S_j = Σ_k S_root+k C_kj.
  /// @param cdof  the engine's.  @param C  receives six numbers a dof of the trunk, one dof after the other.
  void Express(const double* cdof, double* C) const;
};

/// The waist that saves most entries of L, if it saves a tenth of them.
TreeWaist FindWaist(const mjModel* model);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_TREE_WAIST_H_
