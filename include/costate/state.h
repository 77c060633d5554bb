// The state x, its tangent space, and the context: everything else that a step reads.
#ifndef COSTATE_STATE_H_
#define COSTATE_STATE_H_

#include <costate/model.h>

namespace costate {

/// x = (qpos, qvel, act).
inline constexpr int kStateSignature = mjSTATE_QPOS | mjSTATE_QVEL | mjSTATE_ACT;

/// What a step reads besides x and u: warm start, time, history buffers, plastic and plugin state, applied forces,
/// active equalities, mocap poses, user data. It also holds ctrl, so that a restored mjData is whole.
inline constexpr int kContextSignature = mjSTATE_INTEGRATION & ~kStateSignature;

/// The part of the context that a step itself advances; a Trajectory stores it for each knot.
inline constexpr int kMovingSignature =
    mjSTATE_TIME | mjSTATE_HISTORY | mjSTATE_WARMSTART | mjSTATE_PLUGIN | mjSTATE_PLASTIC;

VectorXd GetState(const mjModel* model, const mjData* data);                       ///< x (nx)
void SetState(const mjModel* model, mjData* data, ConstVectorRef x);               ///< throws Error{kDimensionMismatch}
VectorXd GetContext(const mjModel* model, const mjData* data);                     ///< by kContextSignature
void SetContext(const mjModel* model, mjData* data, ConstVectorRef context);       ///< throws as SetState
VectorXd GetMovingContext(const mjModel* model, const mjData* data);               ///< by kMovingSignature
void SetMovingContext(const mjModel* model, mjData* data, ConstVectorRef moving);  ///< throws as SetState

/// x ⊕ dx: mj_integratePos with unit time on qpos, addition on qvel and act. dx (ndx), result (nx).
/// @throws Error{kDimensionMismatch}, as the others below.
VectorXd Retract(const mjModel* model, ConstVectorRef x, ConstVectorRef dx);

/// x1 ⊖ x0 = dx such that x0 ⊕ dx = x1 (rotations: the shortest). Result (ndx).
VectorXd Difference(const mjModel* model, ConstVectorRef x1, ConstVectorRef x0);

/// The same without allocation: dx (ndx) is written.
void Difference(const mjModel* model, ConstVectorRef x1, ConstVectorRef x0, VectorRef dx);

}  // namespace costate

#endif  // COSTATE_STATE_H_
