// Solves with M + Σ JᵀKJ + diagonal by articulated bodies, in O(nv): for the few right-hand sides of a product. (S4) of
// README.md.
#ifndef COSTATE_DERIVATIVE_ARTICULATED_SOLVER_H_
#define COSTATE_DERIVATIVE_ARTICULATED_SOLVER_H_

#include <mujoco/mujoco.h>

#include <vector>

#include "core/simd.h"
#include "derivative/tree_derivative.h"

namespace costate {

struct ArticulatedBody {
  Double8 inertia[6];      ///< columns; what the parent feels of it in the end
  Double8 spatial;         ///< of one solve: force, then motion
  int parent, begin, end;  ///< of its dofs …
  bool free;               ///< … which are a free joint's
  int order;               ///< body at this place by depth: what follows each other rarely waits for each other
};
struct ArticulatedDof {
  static constexpr int kMost = 6;  // of one body
  Double8 S, U;
  double inverse;              ///< 1/D
  double coupling[kMost - 1];  ///< S_j·U / D with the dofs j of its body that come before it
};

/// Nothing may couple branches: neither M (tendon armature) nor what is added to it.
class ArticulatedSolver {
 public:
  explicit ArticulatedSolver(const mjModel* model);

  /// Is M the sum of the bodies' inertias and a diagonal?
  static bool Covers(const mjModel* model);
  /// … and are its chains so long that this is faster than a factorization on M's pattern?
  static bool Pays(const mjModel* model);

  /// @param diagonal  added to M beside its armature (nv).
  /// @param first, second  HH of bodies, added to their inertias; either may be null.
  /// @return false when a pivot is not positive: the matrix is not positive definite.
  bool Factor(const mjModel* model, const mjData* data, const double* diagonal, const BodyConstraint* first = nullptr,
              const BodyConstraint* second = nullptr);

  /// out = M a, without what Factor adds.
  void Multiply(const mjModel* model, const mjData* data, const double* a, double* out);

  /// x ← solution for the right-hand side x.
  void Solve(double* x) const;

 private:
  mutable std::vector<ArticulatedBody> body_;
  std::vector<ArticulatedDof> dof_;
  std::vector<Lanes6> force_, motion_;  // of one product
};

/// The axes of the dofs, where off its diagonal M is of the bodies' inertias alone and the solver may narrow; else
/// null.
inline const double* AxesOfInertia(const mjModel* model, const mjData* data, const TreeSolver& solver) {
  return solver.MayNarrow() && ArticulatedSolver::Covers(model) ? data->cdof : nullptr;
}

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_ARTICULATED_SOLVER_H_
