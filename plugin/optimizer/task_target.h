// What a residual is compared with: numbers, keyframes, another element, a file.
#ifndef COSTATE_OPTIMIZER_TASK_TARGET_H_
#define COSTATE_OPTIMIZER_TASK_TARGET_H_

#include <string>

#include "optimizer/task_term.h"

namespace costate {

/// target="guess": the controls of the guess, which are known only after all costs are read.
inline constexpr char kGuessTarget[] = "guess";

/// Reads the target attribute of a draft into a term whose rows are complete.
/// @param slots  names of the target's numbers.
/// @param x_goal  receives the state of the (last) keyframe when the term asks for it in all of qpos at the end.
void ReadTarget(const CostDraft& draft, const mjModel* model, const std::string& folder,
                const std::vector<std::string>& slots, ResidualTerm* term, VectorXd* x_goal);

/// A keyframe as a knot, with unit quaternions. @throws Error as MakeDataAtKey.
struct KeyKnot {
  VectorXd x, u, s, context;
};
KeyKnot KnotAtKey(const mjModel* model, const std::string& key);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TASK_TARGET_H_
