// A posture as the engine works it out: where everything is, how that moves with the dofs, and what is near what.
#ifndef COSTATE_CORE_POSTURE_H_
#define COSTATE_CORE_POSTURE_H_

#include <costate/types.h>
#include <mujoco/mujoco.h>

namespace costate {

/// How far a posture is worked out.
enum class PostureStage {
  kFrames,    ///< of bodies, sites and geoms, and the axes of dofs: what Jacobians and distances need
  kContacts,  ///< flexes and contacts, too
  kWhole,     ///< mj_fwdPosition: inertia and constraints, too
};

/// That of data->qpos. @throws Error{kEngine}
void UpdatePosture(const mjModel* model, mjData* data, PostureStage stage);

/// That of q (nq), which may be the first entries of an x. @throws Error{kEngine}
void SetPosture(const mjModel* model, mjData* data, ConstVectorRef q, PostureStage stage = PostureStage::kFrames);

/// Quaternions of q, which may be the first entries of an x, become unit length.
void NormalizeQuaternions(const mjModel* model, VectorRef q);

/// q1 ⊖ q0 (nv) of positions alone: the first entries of (2) in README.md.
VectorXd PostureDifference(const mjModel* model, ConstVectorRef q1, ConstVectorRef q0);

/// Of a point, or of a frame's turn, by the tangent of q [m or rad a unit of each], as the engine writes it.
using JacobianRows = Eigen::Matrix<double, 3, Eigen::Dynamic, Eigen::RowMajor>;

/// How a point of a body moves, and how the body turns where `turn` is given. @pre frames are known.
void PointJacobian(const mjModel* model, const mjData* data, const double point[3], int body, JacobianRows* J,
                   JacobianRows* turn = nullptr);

/// The same of a geom's centre.
void GeomJacobian(const mjModel* model, const mjData* data, int geom, JacobianRows* J);

/// From one geom to another [m], `far` beyond it; negative within each other. @pre frames are known.
/// @param from_to  (6) the nearest point of each, where it is given.
/// @throws Error{kEngine}
double GeomDistance(const mjModel* model, mjData* data, int geom1, int geom2, double far, double* from_to = nullptr);

}  // namespace costate

#endif  // COSTATE_CORE_POSTURE_H_
