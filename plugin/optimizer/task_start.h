// Where a task starts and the controls from which it is optimized.
#ifndef COSTATE_OPTIMIZER_TASK_START_H_
#define COSTATE_OPTIMIZER_TASK_START_H_

#include <costate/task.h>

#include <string>

#include "optimizer/task_xml.h"

namespace costate {

/// The start of a task: state, context, and the controls that stand beside it (a keyframe's, else zero).
struct Start {
  VectorXd x, u, context;
};

/// "home" of "key:home" and of "home": both name a keyframe.
std::string KeyName(const std::string& text);

/// The model's default state, or a keyframe when `key` is not empty.
Start MakeStart(const mjModel* model, const std::string& key);

/// <start key= file= qpos= qvel= act=>, each on top of those before; null: the model's default state.
Start ReadStart(const XmlElement* element, const std::string& folder, const mjModel* model);

/// <guess key= | ctrl= | file= | hold=>; null: hold. @return nu × N, within the task's limits.
/// @param task  model and horizon are read; a warning is added when the guess had to be clamped.
MatrixXd ReadGuess(const XmlElement* element, const Start& start, const std::string& folder, Task* task);

/// The constant control that best keeps a state where it is:
///
///   min_u ‖M½ qvel'(x, u)‖² + ‖act'(x, u) - act‖²   with qvel = 0 in x, u within the task's limits
///
/// over one engine step, contacts included: half the square is the kinetic energy that the step makes. By Gauss–Newton
/// with differences from u_start, which is returned (clamped) when no control takes half of that away, as in free
/// flight or in a keyframe pressed into the floor, or when the engine cannot step from x; and where another force than
/// the minimum's, as that of a grip, keeps the positions for the horizon, or a second of it.
VectorXd HoldControl(const Task& task, const VectorXd& x, const VectorXd& context, const VectorXd& u_start);

/// Controls that keep a start at rest where it is (nu × N): u at all knots, or, where that lets it fall,
///
///   u_t = u + K (x_t ⊖ x_0)   as it is simulated, K the gain of min Σ ‖q ⊖ q_0‖²_M ω² + ‖v‖²_M + duᵀR du        (H1)
///
/// where the latter gets no more than a quarter as far from it (R: (BᵀQB)ᵢᵢ / (ωΔt)², a servo of bandwidth ω = 10
/// rad/s); of a start above the floor the same about where it lands, of one that leans about where it
/// would stand nearby.
MatrixXd HoldByFeedback(const Task& task, const Start& start, const VectorXd& u);

/// Sets horizon and limits of a task whose model is loaded. @throws Error{kInvalidArgument} for a horizon below one
/// knot.
void SetHorizon(double horizon, int substeps, Task* task);

/// @throws Error{kInvalidArgument} when nothing can be optimized: nv = 0, or nu = 0 unless the task names other inputs.
void CheckModel(const Task& task, bool names_inputs = false);

/// By how much each entry of the start may change (ndx): hinges and slides stay in their range, single activations in
/// theirs; a start that is outside need not come in.
void StartBounds(const mjModel* model, const VectorXd& x0, VectorXd* lower, VectorXd* upper);

/// At which of those bounds an entry that has changed by dx stands: -1 lower, 1 upper, 0 none.
int AtStartBound(double dx, double lower, double upper);

/// <start free="…" lower="…" upper="…">: nothing is free without it.
FreeStart ReadFreeStart(const XmlElement* element, const mjModel* model, const VectorXd& x0);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TASK_START_H_
