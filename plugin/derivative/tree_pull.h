// The pull-back of everything that lives on the tree: one pass up and one down, in O(nbody + nv). (R7) of README.md.
#ifndef COSTATE_DERIVATIVE_TREE_PULL_H_
#define COSTATE_DERIVATIVE_TREE_PULL_H_

#include <mujoco/mujoco.h>

#include <vector>

#include "core/simd.h"
#include "derivative/tree_derivative.h"

namespace costate {

/// Up to four vectors side by side in each component.
struct PullFields {
  Double4 first[6] = {};   ///< acceleration a, W = Σ S y, Vᵃ and v
  Double4 second[6] = {};  ///< Σ S e and Wᵉ = Σ S z, where there are e and z
};
struct PullBody {
  PullFields fields;
  Double4 force[6];  ///< inertia times a, with v ×* I v − loads − constraints, W, −Σ S e and −Wᵉ; over the subtree
  Double4 covector[6];  ///< q: W ×* F + Pᵀ W of constraints, loads' Eᵀ W; −v: Bᵀ W, constraints' Kvᵀ W; a: HH W
  Lanes6 motion;        ///< W once more
};
struct PullChain {
  int parent, begin, end;  ///< of a body's dofs
};

/// What both passes over the bodies read.
struct PullPass {
  const PullChain* chain;
  const int* group_end;
  PullBody* body;
  PullFields* before;  ///< of groups that are not their body's first
  int nbody, nv;
  const double *S, *S_dot, *velocity, *inertia, *qvel;  ///< as the engine's
  const double *a, *y, *e, *z;                          ///< z is null without a second solve
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
  const Lanes6& motion(int body) const { return body_[body].motion; }

  /// Covectors of a body's motion and of the changes S × Vᵃ − S × base of its acceleration field, likewise of velocity.
  /// Between Start and Finish.
  void AddCovectors(int body, const Lanes6& motion, const Lanes6& a, const Lanes6& v);

  /// @pre what Start was given is still there.
  void Finish(double* out);

 private:
  void AddLoad(const mjModel* model, const mjData* data, const double* load, int body);
  void AddConstraint(const BodyConstraint& constraint, int body);
  void AddContact(const Vec6& F, int body);

  std::vector<PullChain> chain_;
  std::vector<int> group_end_;
  std::vector<PullBody> body_;
  std::vector<PullFields> before_;        // a dof: where its group begins, apart from a body's first
  const TreeDerivative* tree_ = nullptr;  // of the last Start …
  PullPass pass_ = {};                    // … as is this
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_TREE_PULL_H_
