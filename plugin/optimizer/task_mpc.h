// <mpc>: how plans are made while the robot moves.
#ifndef COSTATE_OPTIMIZER_TASK_MPC_H_
#define COSTATE_OPTIMIZER_TASK_MPC_H_

#include <costate/task.h>

#include <string>
#include <vector>

namespace costate {

class XmlElement;

/// The ways to fall back where a plan is late, and the word of each.
inline constexpr MpcFallback kMpcFallbacks[] = {MpcFallback::kPlan, MpcFallback::kHold, MpcFallback::kDamp};
std::vector<std::string> MpcFallbackWords();

/// @param element  null: the defaults.
MpcOptions ReadMpc(const XmlElement* element);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TASK_MPC_H_
