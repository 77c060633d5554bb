// x' = f(x, u): one control interval on one mjData, deterministic, with failures as a status.
#ifndef COSTATE_STEP_H_
#define COSTATE_STEP_H_

#include <costate/state.h>

namespace costate {

/// What the engine reported during a step. Everything but kOk makes a derivative or a rollout from there on
/// meaningless.
enum class StepStatus {
  kOk,
  kBadState,    ///< qpos, qvel or qacc became NaN or huge (the engine's BADQPOS, BADQVEL, BADQACC)
  kBadControl,  ///< a control was NaN or huge; the engine would have stepped with zero
  kArenaFull,   ///< contacts or constraints found no memory; the model's <size memory> is too small
};
const char* ToString(StepStatus status);

/// Writes x and u into `data`, then advances it by `substeps` mj_step with u held.
///
///   x' = f(x, u; context),   s = h(x, u; context)
///
/// @param x        state (nx).  @param u  control (nu).
/// @param x_next   receives x' (nx); may be empty.
/// @param sensors  receives the sensors at (x, u), before the first substep ends (ns); may be empty.
///
/// Sleeping is off: which bodies the engine has put to sleep is history that no state holds.
///
/// @post  `data` is after the interval, its moving context advanced. The context at entry is the caller's business:
///        SetContext or SetMovingContext before the call makes f a function. After kBadState the engine has reset
///        `data`, context included.
/// @throws Error{kDimensionMismatch}; Error{kInvalidArgument} for a time step that is not finite and above 0 and for an
///         integrator, cone or solver that the engine does not know; Error{kEngine} if the engine raises an error.
StepStatus Step(const mjModel* model, mjData* data, ConstVectorRef x, ConstVectorRef u, int substeps, VectorRef x_next,
                VectorRef sensors);

/// Sensors at (x, u) without advancing (mj_forward): at the last knot u is zero, see Trajectory.
///
/// @post  `data` holds x, u and what mj_forward computes of them.
/// @throws as Step.
StepStatus Forward(const mjModel* model, mjData* data, ConstVectorRef x, ConstVectorRef u, VectorRef sensors);

}  // namespace costate

#endif  // COSTATE_STEP_H_
