// The pull-back of everything that lives on the tree: one pass up and one down, in O(nbody + nv). (R7) of README.md.
#ifndef COSTATE_DERIVATIVE_TREE_PULL_H_
#define COSTATE_DERIVATIVE_TREE_PULL_H_

#include <mujoco/mujoco.h>

#include <vector>

#include "core/simd.h"
#include "derivative/tree_derivative.h"

namespace costate {

/// Of one body; fields are four side by side: acceleration a, W = Σ S y, Σ S e and Wᵉ = Σ S z.
struct PullBody {
  Double4 field[6];
  Double4 force[6];         ///< inertia times field, then summed over the subtree
  double bias[6];           ///< what the force of a has beyond I a: v ×* I v − loads − constraints; summed
  double coriolis[3];       ///< Bᵀ W, summed
  double load[3];           ///< Eᵀ W, summed
  double q[6], a[6], v[6];  ///< constraints: W ×* F + Pᵀ W, HH W, Kvᵀ W; summed
  bool loaded, constraint;  ///< is there anything in load, in q, a and v?
};
struct PullChain {
  int parent, begin, end;  ///< of a body's dofs
};

/// What TreeDerivative::Finish would add, contracted with covectors: out (2 nv: q, v) += Rᵀ y + Eᵀ z.
/// Workspace for one model; allocates nothing after construction.
class TreePull {
 public:
  explicit TreePull(const mjModel* model);

  /// @param tree  acceleration fields of bodies with constraints: TreeDerivative::Forward or ForwardFields.
  /// @param constraint  as for TreeDerivative::Finish.  @param contact  of these F alone is taken; both may be null.
  /// @param z  null unless input.e is there.
  /// @pre `data` holds cdof, cdof_dot, cvel, cinert of its own q and v.
  void Start(const mjModel* model, const mjData* data, const TreeInput& input, const TreeDerivative& tree,
             const BodyConstraint* constraint, const BodyConstraint* contact, const double* y, const double* z);

  /// Σ S y over the chain of a body: its motion when dof i moves by y_i.
  Vec6 motion(int body) const;

  /// Covectors of a body's motion and of the changes S × Vᵃ − S × base of its acceleration field, likewise of velocity.
  /// Between Start and Finish.
  void AddCovectors(int body, const Vec6& motion, const Vec6& a, const Vec6& v);

  void Finish(const mjModel* model, const mjData* data, const TreeInput& input, const double* y, const double* z, double* out);

 private:
  void AddLoad(const mjModel* model, const mjData* data, const double* load, int body);
  void AddConstraint(const BodyConstraint& constraint, int body);

  std::vector<PullChain> chain_;
  std::vector<int> group_end_;
  std::vector<PullBody> body_;
  const TreeDerivative* tree_ = nullptr;  // of the last Start
  const double* velocity_ = nullptr;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_TREE_PULL_H_
