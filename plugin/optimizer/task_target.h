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

inline constexpr double kUnitLength = 0.02;  ///< what a direction's length may differ from one: 0.7 0 0.7 is one

/// What no motion can have: a direction whose length is not one, a joint, tendon, control or force beyond its range.
/// @param lower, upper  bounds of the rows from their target on; zeros for a target alone.
/// @param hard  the bounds must hold: what is beyond a range is an error then, else a warning.
void CheckReach(const XmlElement& element, const mjModel* model, const ResidualTerm& term, ConstVectorRef lower,
                ConstVectorRef upper, bool hard, std::vector<std::string>* warnings);

/// A keyframe as a knot, with unit quaternions. @throws Error as MakeDataAtKey.
struct KeyKnot {
  VectorXd x, u, s, context;
};
KeyKnot KnotAtKey(const mjModel* model, const std::string& key);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TASK_TARGET_H_
