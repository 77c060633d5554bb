// Inertia of spatial tendons, which moves with their Jacobian. Equation (T13) of README.md.
#ifndef COSTATE_DERIVATIVE_ARMATURE_H_
#define COSTATE_DERIVATIVE_ARMATURE_H_

#include <mujoco/mujoco.h>

#include <string>

#include "derivative/spatial_tendon.h"
#include "derivative/tree_derivative.h"

namespace costate {

/// Are two dofs on one path to the root, so that M holds an entry for them?
bool OnePath(const mjModel* model, int i, int j);

/// "" or the spatial tendon with armature that has no closed form: the engine itself has none around geoms.
std::string ArmatureMissing(const mjModel* model);

/// Has a tendon whose part of M moves armature?
bool HasMovingArmature(const mjModel* model);

/// What a spatial tendon with armature pulls against its acceleration, −μ (J a + J̇ v), and its slopes by q and v of the
/// moment's dofs; by a it is −μ J.
struct ArmaturePull {
  double armature = 0, force = 0;
  Eigen::VectorXd by_q, by_v;
};
/// @return false when it has no closed form. @pre `tree` is forward at `a`.
bool FindArmaturePull(const mjModel* model, const mjData* data, const TreeDerivative& tree, int tendon,
                      const Moment& moment, const double* a, ArmaturePull* out);

/// Adds −∂(M a + c) by q and v to R, of the tendons' part of M and of the bias c. @pre `tree` is forward at `a`.
void AddTendonArmature(const mjModel* model, const mjData* data, const TreeDerivative& tree,
                       const TendonMoments& tendons, const double* a, Columns* R);

/// Adds ∂(M e)/∂q to E, of the tendons' part.
void AddTendonArmatureProduct(const mjModel* model, const TendonMoments& tendons, const double* e, Columns* E);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_ARMATURE_H_
