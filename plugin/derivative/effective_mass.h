// M' = M + h B or M − h D: what the implicit integrators solve with. Section I of README.md.
#ifndef COSTATE_DERIVATIVE_EFFECTIVE_MASS_H_
#define COSTATE_DERIVATIVE_EFFECTIVE_MASS_H_

#include <mujoco/mujoco.h>

#include <string>
#include <vector>

#include "derivative/actuation.h"
#include "derivative/tree_solver.h"

namespace costate {

/// Does the integrator apply another acceleration than qacc (implicit damping)?
bool HasImplicitVelocity(const mjModel* model);

/// ā = M'⁻¹ M a, the acceleration that Euler with damping and implicitfast apply, and its derivative.
class EffectiveMass {
 public:
  explicit EffectiveMass(const mjModel* model);

  /// "" if M' and its derivative are known in closed form, else what is not.
  static std::string Missing(const mjModel* model);

  /// Assembles and factors M', computes ā from M a.
  bool Compute(const mjModel* model, const mjData* data, const Actuation& actuation, const double* a);

  const Eigen::VectorXd& applied() const { return applied_; }        ///< ā
  const Eigen::VectorXd& difference() const { return difference_; }  ///< a − ā

  /// X: da → dā = da + M'⁻¹ (E − (M' − M) da), E = dM (a − ā) − d(M' − M) ā; E is overwritten. (I3)
  /// @pre  E holds dM (a − ā) in its q columns and zero elsewhere.
  void Apply(const mjModel* model, const mjData* data, BlockedMatrix* X, BlockedMatrix* E) const;

 private:
  struct Entry {
    int row, col;
    double value;
  };
  void Add(int row, int col, double value);

  TreeSolver solver_;
  std::vector<double> diagonal_;      // of M' − M
  std::vector<double> slope_;         // d(diagonal)/dv, from polynomial damping
  std::vector<Entry> entries_;        // strictly lower part of M' − M
  Eigen::VectorXd applied_, difference_;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_EFFECTIVE_MASS_H_
